//! Words: how a refusal reads.

use std::io;

use courser_mqtt::codec::ReasonCode;

use crate::error::Asked;
use crate::{ClientError, Meaning};

pub(super) fn refused(what: Asked, reason: ReasonCode, text: &str) -> ClientError {
    ClientError::Refused {
        what,
        reason: in_words(reason, text),
        meaning: Meaning::of(reason),
    }
}

pub(super) fn in_words(reason: ReasonCode, text: &str) -> String {
    let code = format!("{} (0x{:02X})", reason.name(), reason.byte());
    if text.is_empty() {
        code
    } else {
        format!("{code}: {text}")
    }
}

pub(super) fn is_timeout(error: &io::Error) -> bool {
    use io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
    matches!(error.kind(), WouldBlock | TimedOut | Interrupted)
}

/// Why one version did not do.
pub(super) enum Attempt {
    Version,
    Other(ClientError),
}

impl Attempt {
    pub(super) fn into_error(self) -> ClientError {
        match self {
            Self::Version => refused(
                Asked::Connection,
                ReasonCode::UnsupportedProtocolVersion,
                "",
            ),
            Self::Other(error) => error,
        }
    }
}

impl From<ClientError> for Attempt {
    fn from(error: ClientError) -> Self {
        Self::Other(error)
    }
}
