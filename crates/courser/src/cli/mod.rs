//! What the client commands share: connection flags, URLs, exit codes.

pub(crate) mod connection;
pub(crate) mod exit;
pub(crate) mod format;
pub(crate) mod layers;
pub(crate) mod plain;
pub(crate) mod settings;
pub(crate) mod url;

use std::io::{self, Write};

use exit::Exit;

/// Prints to standard output. Whoever reads it may stop early, as `head` does.
pub(crate) fn print(text: &str) -> Exit {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => Exit::Done,
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Exit::Done,
        Err(error) => {
            eprintln!("courser: cannot write to standard output: {error}");
            Exit::Internal
        }
    }
}
