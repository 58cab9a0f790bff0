//! Sockets and words: how a connection is opened and how a refusal reads.

use std::io;
use std::net::{TcpStream, ToSocketAddrs};

use courser_mqtt::codec::ReasonCode;

use crate::error::Asked;
use crate::{ClientError, Meaning, Options};

pub(super) fn open(options: &Options) -> Result<TcpStream, ClientError> {
    let host = options.host.as_str();
    let resolve = |source| ClientError::Resolve {
        host: host.to_owned(),
        source,
    };
    let addresses: Vec<_> = (host, options.port)
        .to_socket_addrs()
        .map_err(resolve)?
        .collect();
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in addresses {
        match TcpStream::connect_timeout(&address, options.answer_max) {
            Ok(stream) => {
                stream.set_nodelay(true).map_err(ClientError::Io)?;
                stream
                    .set_write_timeout(Some(options.answer_max))
                    .map_err(ClientError::Io)?;
                return Ok(stream);
            }
            Err(error) => last = error,
        }
    }
    let refused = last.kind() == io::ErrorKind::ConnectionRefused;
    let hint = if refused {
        " (is the server running? try: courser server)"
    } else {
        ""
    };
    Err(ClientError::Connect {
        address: options.address(),
        hint,
        source: last,
    })
}

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
