//! What can go wrong between a client and its broker.

use std::fmt;
use std::io;
use std::time::Duration;

use courser_mqtt::codec::ReasonCode;
use courser_transport::TunnelError;

use crate::Speaks;

/// What a broker's reason means for whoever tries again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// It does not let this user.
    NotAuthorized,
    /// It cannot now, and may later: it stops or starts, has too much to do, or has taken the client for lost.
    Passing,
    /// The same would end in the same way; or somebody has decided that this client is to go.
    Lasting,
}

impl Meaning {
    pub(crate) const fn of(reason: ReasonCode) -> Self {
        match reason {
            ReasonCode::NotAuthorized | ReasonCode::BadUserNameOrPassword | ReasonCode::Banned => {
                Self::NotAuthorized
            }
            ReasonCode::ServerUnavailable
            | ReasonCode::ServerBusy
            | ReasonCode::ServerShuttingDown
            | ReasonCode::KeepAliveTimeout
            | ReasonCode::QuotaExceeded
            | ReasonCode::ConnectionRateExceeded
            | ReasonCode::MaximumConnectTime => Self::Passing,
            _ => Self::Lasting,
        }
    }
}

/// What a broker may refuse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// CONNECT.
    Connection,
    /// PUBLISH.
    Message,
    /// One of SUBSCRIBE.
    Subscription,
}

impl fmt::Display for Asked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Connection => "the connection",
            Self::Message => "the message",
            Self::Subscription => "a subscription",
        })
    }
}

/// Why a call of a [`Client`](crate::Client) failed.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The host has no address.
    #[error("cannot find {host}: {source}")]
    Resolve {
        /// Host name.
        host: String,
        /// What the resolver said.
        source: io::Error,
    },
    /// No connection.
    #[error("cannot connect to {address}: {source}{hint}")]
    Connect {
        /// Host and port.
        address: String,
        /// What to try.
        hint: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// TLS or WebSocket was not agreed on.
    #[error("cannot connect to {address}: {what}{hint}")]
    Layers {
        /// Host and port.
        address: String,
        /// What is wrong, in words.
        what: String,
        /// What to try.
        hint: &'static str,
        /// What is wrong.
        source: Box<TunnelError>,
    },
    /// The broker hung up before TLS or WebSocket was agreed on, or before CONNACK.
    #[error("cannot connect to {address}: the server closed the connection in the handshake{hint}")]
    Ended {
        /// Host and port.
        address: String,
        /// What to try.
        hint: &'static str,
    },
    /// What came before CONNACK is not MQTT.
    #[error("{address} {speaks}")]
    Stranger {
        /// Host and port.
        address: String,
        /// What it is instead.
        speaks: Speaks,
    },
    /// The connection broke.
    #[error("the connection failed: {0}")]
    Io(#[source] io::Error),
    /// The broker hung up.
    #[error("the broker closed the connection")]
    Closed,
    /// Something in the call cannot be said in MQTT.
    #[error("{0}")]
    Options(String),
    /// The broker refused the request.
    #[error("the broker refused {what}: {reason}")]
    Refused {
        /// What was asked.
        what: Asked,
        /// Its reason in words, with the number.
        reason: String,
        /// What it means for the next try.
        meaning: Meaning,
    },
    /// The broker said good-bye.
    #[error("the broker disconnected: {reason}")]
    Disconnected {
        /// Its reason in words, with the number.
        reason: String,
        /// What it means for the next try.
        meaning: Meaning,
    },
    /// The broker broke the protocol.
    #[error("the broker sent something that MQTT does not allow: {0}")]
    Protocol(String),
    /// No answer in time.
    #[error("no answer from {address} within {after:?}")]
    TimedOut {
        /// Host and port.
        address: String,
        /// How long it was waited for.
        after: Duration,
    },
}

impl ClientError {
    /// Whether there is no connection for now: the broker has gone away, or lets nobody in, and another try may find it again.
    #[must_use]
    pub const fn is_passing(&self) -> bool {
        match self {
            Self::Resolve { .. } | Self::Connect { .. } | Self::Ended { .. } => true,
            Self::Io(_) | Self::Closed | Self::TimedOut { .. } => true,
            Self::Refused {
                what: Asked::Connection,
                meaning,
                ..
            }
            | Self::Disconnected { meaning, .. } => matches!(meaning, Meaning::Passing),
            Self::Refused { .. } => false,
            Self::Layers { .. } | Self::Stranger { .. } => false,
            Self::Options(_) | Self::Protocol(_) => false,
        }
    }
}
