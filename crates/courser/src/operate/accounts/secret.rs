//! Passwords of users on their way to the server.

use std::io::{self, IsTerminal};
use std::path::PathBuf;

use clap::Args;

use crate::cli::secret::{from_file, typed};

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

impl PasswordFlags {
    /// Whether it may log in by SCRAM.
    pub(super) const fn scram(&self) -> bool {
        self.scram
    }

    /// The one of the file; without one any, and nobody is asked: for whoever does nothing with it.
    ///
    /// # Errors
    /// As of [`read`](Self::read).
    pub(super) fn read_if_in_a_file(&self) -> Result<String, String> {
        match self.password_file {
            Some(_) => self.read(),
            None => Ok("any".to_owned()),
        }
    }

    /// The password.
    ///
    /// # Errors
    /// Why there is none, for the user.
    pub(super) fn read(&self) -> Result<String, String> {
        let password = match &self.password_file {
            Some(file) => from_file(file)?,
            None if io::stdin().is_terminal() => typed_twice()?,
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

fn typed_twice() -> Result<String, String> {
    let first = typed("password: ")?;
    if typed("once more: ")? != first {
        return Err("the passwords differ".to_owned());
    }
    Ok(first)
}
