//! Passwords on their way to the server: from a file, from standard input, or typed without being shown. Never from the command line,
//! where every user of the machine can read them.

use std::fs;
use std::io::{self, BufRead, IsTerminal, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};

/// Where a password comes from.
#[derive(Args, Clone, Debug)]
pub(super) struct PasswordFlags {
    /// File whose first line is the password; - is standard input. Without it you are asked
    #[arg(long, value_name = "FILE")]
    password_file: Option<PathBuf>,
    /// Also keep what SCRAM-SHA-256 needs. Cheaper to guess than the hash for who steals both
    #[arg(long)]
    scram: bool,
}

/// Bytes of the longest password file that is read.
const FILE_BYTES_MAX: u64 = 64 << 10;

impl PasswordFlags {
    /// Whether it may log in by SCRAM.
    pub(super) const fn scram(&self) -> bool {
        self.scram
    }

    /// The password.
    ///
    /// # Errors
    /// Why there is none, for the user.
    pub(super) fn read(&self) -> Result<String, String> {
        let password = match &self.password_file {
            Some(file) if file.as_os_str() == "-" => first_line(io::stdin().lock())
                .map_err(|error| format!("cannot read standard input: {error}"))?,
            Some(file) => from_file(file)?,
            None if io::stdin().is_terminal() => typed()?,
            None => {
                return Err(
                    "a password is needed: --password-file FILE, or - for standard input"
                        .to_owned(),
                );
            }
        };
        if password.is_empty() {
            return Err("the password is empty".to_owned());
        }
        Ok(password)
    }
}

fn from_file(file: &Path) -> Result<String, String> {
    let cannot =
        |error: io::Error| format!("cannot read the password file {}: {error}", file.display());
    let file = fs::File::open(file).map_err(cannot)?;
    first_line(io::BufReader::new(file)).map_err(cannot)
}

fn first_line(from: impl BufRead) -> io::Result<String> {
    let mut line = String::new();
    from.take(FILE_BYTES_MAX).read_line(&mut line)?;
    Ok(line.trim_end_matches(['\r', '\n']).to_owned())
}

fn typed() -> Result<String, String> {
    let cannot = |error: io::Error| format!("cannot read the password: {error}");
    let first = hidden("password: ").map_err(cannot)?;
    if hidden("once more: ").map_err(cannot)? != first {
        return Err("the passwords differ".to_owned());
    }
    Ok(first)
}

/// A line that the terminal does not show.
fn hidden(prompt: &str) -> io::Result<String> {
    eprint!("{prompt}");
    io::stderr().flush()?;
    let stdin = io::stdin();
    let before = tcgetattr(&stdin)?;
    let mut silent = before.clone();
    silent.local_modes.remove(LocalModes::ECHO);
    tcsetattr(&stdin, OptionalActions::Flush, &silent)?;
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
