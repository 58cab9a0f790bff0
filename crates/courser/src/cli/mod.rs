//! What the client commands share: connection flags, URLs, exit codes.

pub(crate) mod connection;
pub(crate) mod contexts;
pub(crate) mod exit;
pub(crate) mod format;
pub(crate) mod interrupt;
pub(crate) mod layers;
pub(crate) mod new_file;
pub(crate) mod payload;
pub(crate) mod place;
pub(crate) mod plain;
pub(crate) mod settings;
pub(crate) mod sure;
pub(crate) mod units;
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

/// Topic and message out of what was named, by a flag or a URL, and two free arguments: with a topic that is named, the first of
/// them is the message.
///
/// # Errors
/// `without`, when nothing is a topic.
pub(crate) fn topic_and_message<'a>(
    named: Option<String>,
    free: [&'a Option<String>; 2],
    without: &str,
) -> Result<(String, Option<&'a String>), String> {
    let [first, second] = free;
    match named {
        Some(topic) => Ok((topic, first.as_ref().or(second.as_ref()))),
        None => Ok((first.clone().ok_or(without)?, second.as_ref())),
    }
}
