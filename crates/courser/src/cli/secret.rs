//! Passwords of people: from a file, from standard input, or typed without being shown. Never from the command line, where every user of
//! the machine can read them.

use std::fs;
use std::io::{self, BufRead, Write};
use std::path::Path;

use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};

/// Bytes of the longest password file that is read.
const FILE_BYTES_MAX: u64 = 64 << 10;

/// The first line of a file, or of standard input if that is named as `-`.
///
/// # Errors
/// For people.
pub(crate) fn from_file(file: &Path) -> Result<String, String> {
    if file.as_os_str() == "-" {
        return first_line(io::stdin().lock())
            .map_err(|error| format!("cannot read standard input: {error}"));
    }
    let cannot =
        |error: io::Error| format!("cannot read the password file {}: {error}", file.display());
    let file = fs::File::open(file).map_err(cannot)?;
    first_line(io::BufReader::new(file)).map_err(cannot)
}

/// What is typed at the terminal, which does not show it.
///
/// # Errors
/// For people.
pub(crate) fn typed(prompt: &str) -> Result<String, String> {
    hidden(prompt).map_err(|error| format!("cannot read the password: {error}"))
}

fn first_line(from: impl BufRead) -> io::Result<String> {
    let mut line = String::new();
    from.take(FILE_BYTES_MAX).read_line(&mut line)?;
    Ok(line.trim_end_matches(['\r', '\n']).to_owned())
}

/// A line that the terminal does not show. It is silent before it asks: what is typed in answer is neither shown nor thrown away.
fn hidden(prompt: &str) -> io::Result<String> {
    let stdin = io::stdin();
    let before = tcgetattr(&stdin)?;
    let mut silent = before.clone();
    silent.local_modes.remove(LocalModes::ECHO);
    tcsetattr(&stdin, OptionalActions::Flush, &silent)?;
    eprint!("{prompt}");
    io::stderr().flush()?;
    let line = first_line(stdin.lock());
    tcsetattr(&stdin, OptionalActions::Flush, &before)?;
    eprintln!();
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_the_first_line_without_its_end() {
        for (text, expected) in [
            ("secret\n", "secret"),
            ("secret\r\nmore\n", "secret"),
            (" with spaces ", " with spaces "),
            ("", ""),
        ] {
            assert_eq!(first_line(text.as_bytes()).expect("text"), expected);
        }
    }
}
