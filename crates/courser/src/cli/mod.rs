//! What the client commands share: connection flags, URLs, exit codes.

pub(crate) mod again;
pub(crate) mod connection;
pub(crate) mod contexts;
pub(crate) mod exit;
pub(crate) mod format;
pub(crate) mod headings;
pub(crate) mod interrupt;
pub(crate) mod layers;
pub(crate) mod letters;
pub(crate) mod new_file;
pub(crate) mod payload;
pub(crate) mod place;
pub(crate) mod plain;
pub(crate) mod secret;
pub(crate) mod settings;
pub(crate) mod sure;
pub(crate) mod units;
pub(crate) mod url;

use std::io::{self, Write};

use exit::{Exit, usage};

/// Who reads what was printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reader {
    /// Somebody.
    There,
    /// Nobody any more: whoever it was has seen enough, as `head` does.
    Gone,
}

/// Prints to standard output.
///
/// # Errors
/// How the command ends when not all can be written, which was said.
pub(crate) fn write(bytes: &[u8]) -> Result<Reader, Exit> {
    let mut out = io::stdout().lock();
    let written = out.write_all(bytes).and_then(|()| out.flush());
    match written {
        Ok(()) => Ok(Reader::There),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(Reader::Gone),
        Err(error) => Err(unwritten(&error)),
    }
}

/// Prints all that a command has to say.
pub(crate) fn print(text: &str) -> Exit {
    write(text.as_bytes()).map(|_| ()).into()
}

/// How a command ends whose standard output does not take all.
pub(crate) fn unwritten(error: &io::Error) -> Exit {
    usage(&format!("cannot write to standard output: {error}"))
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
