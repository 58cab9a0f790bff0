//! Exit codes, the same for every command.

use std::process::ExitCode;

use courser_client::{ClientError, Meaning};

/// How a command ended, as a shell sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Exit {
    /// All was done.
    Done = 0,
    /// The server refused, or a check failed.
    Refused = 1,
    /// The command was called wrongly.
    Usage = 2,
    /// No connection.
    CannotConnect = 3,
    /// The server does not let this user.
    NotAuthorized = 4,
    /// What is asked for is not there.
    NotFound = 5,
    /// Somebody else has what is asked for.
    Conflict = 6,
    /// Nothing came in time, as `mosquitto_sub -W`.
    TimedOut = 27,
    /// Interrupted by the person at the terminal, as shells have it: 128 and the signal.
    Interrupted = 130,
    /// Ended by SIGTERM, the same.
    Terminated = 143,
    /// A failure of the program itself, as `EX_SOFTWARE` of sysexits.
    Internal = 70,
    /// The disk failed, as `EX_IOERR` of sysexits.
    Disk = 74,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

impl Exit {
    /// This one, or where all was done, what comes after it.
    pub(crate) const fn or(self, next: Self) -> Self {
        match self {
            Self::Done => next,
            failed => failed,
        }
    }
}

impl From<Result<(), Exit>> for Exit {
    fn from(done: Result<(), Exit>) -> Self {
        done.map_or_else(|exit| exit, |()| Self::Done)
    }
}

impl From<&ClientError> for Exit {
    fn from(error: &ClientError) -> Self {
        match error {
            ClientError::Resolve { .. } | ClientError::Connect { .. } => Self::CannotConnect,
            ClientError::Layers { .. } | ClientError::Ended { .. } => Self::CannotConnect,
            ClientError::Stranger { .. } | ClientError::Io(_) | ClientError::Closed => {
                Self::CannotConnect
            }
            ClientError::Options(_) => Self::Usage,
            ClientError::Refused { meaning, .. } | ClientError::Disconnected { meaning, .. }
                if *meaning == Meaning::NotAuthorized =>
            {
                Self::NotAuthorized
            }
            ClientError::Refused { .. } | ClientError::Disconnected { .. } => Self::Refused,
            ClientError::Protocol(_) => Self::Refused,
            ClientError::TimedOut { .. } => Self::TimedOut,
        }
    }
}

/// Prints what went wrong to standard error and gives the code for it.
pub(crate) fn fail(error: &ClientError) -> Exit {
    eprintln!("courser: {error}");
    Exit::from(error)
}

/// The same for a wrong call.
pub(crate) fn usage(message: &str) -> Exit {
    eprintln!("courser: {message}");
    Exit::Usage
}

#[cfg(test)]
mod tests {
    use super::*;
    use courser_client::Asked;

    #[test]
    fn whom_the_broker_does_not_let_gets_4_at_the_door_and_later() {
        let reason = String::new;
        for (meaning, expected) in [
            (Meaning::NotAuthorized, Exit::NotAuthorized),
            (Meaning::Passing, Exit::Refused),
            (Meaning::Lasting, Exit::Refused),
        ] {
            let refused = ClientError::Refused {
                what: Asked::Connection,
                reason: reason(),
                meaning,
            };
            let disconnected = ClientError::Disconnected {
                reason: reason(),
                meaning,
            };
            assert_eq!(Exit::from(&refused), expected);
            assert_eq!(Exit::from(&disconnected), expected);
        }
    }
}
