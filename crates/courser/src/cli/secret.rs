//! Passwords of people: from a file, from standard input, or typed without being shown. Never from the command line, where every user of
//! the machine can read them.

use std::fs;
use std::io::{self, BufRead, IsTerminal, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};

use super::plain::plain;

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
    let opened = fs::File::open(file).map_err(cannot)?;
    tell_if_open(file, &opened.metadata().map_err(cannot)?);
    first_line(io::BufReader::new(opened)).map_err(cannot)
}

/// A password that others can read is told to who sits at a terminal. It is used all the same: files that are mounted have rights that
/// whoever runs the command has not chosen.
fn tell_if_open(file: &Path, about: &fs::Metadata) {
    if let Some(mode) = mode_if_open(about)
        && io::stderr().is_terminal()
    {
        eprintln!(
            "courser: others can read the password file {0} (mode {mode:03o}): chmod 600 {0}",
            plain(&file.display().to_string())
        );
    }
}

/// Rights of a file that somebody else than its owner can read. Pipes are nobody else's.
fn mode_if_open(about: &fs::Metadata) -> Option<u32> {
    let mode = about.mode() & 0o777;
    (about.is_file() && mode & 0o044 != 0).then_some(mode)
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
    eprintln!("");
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_others_can_read_is_told_from_one_that_they_cannot() {
        use std::os::unix::fs::PermissionsExt;
        let file = tempfile::NamedTempFile::new().expect("a file");
        for (mode, expected) in [(0o600, None), (0o640, Some(0o640)), (0o644, Some(0o644))] {
            let rights = fs::Permissions::from_mode(mode);
            fs::set_permissions(file.path(), rights).expect("it is ours");
            let about = fs::metadata(file.path()).expect("it is there");
            assert_eq!(mode_if_open(&about), expected, "{mode:o}");
        }
        let pipe = fs::metadata("/dev/null").expect("it is there");
        assert_eq!(mode_if_open(&pipe), None, "what is no file");
    }

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
