//! What can go wrong between a client and its broker.

use std::io;
use std::time::Duration;

use courser_transport::TunnelError;

use crate::Speaks;

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
    #[error("cannot connect to {address}: {source}{hint}")]
    Layers {
        /// Host and port.
        address: String,
        /// What to try.
        hint: &'static str,
        /// What is wrong.
        source: Box<TunnelError>,
    },
    /// The broker hung up before TLS or WebSocket was agreed on, or before CONNACK.
    #[error("cannot connect to {address}: the server closed the connection in the handshake")]
    Ended {
        /// Host and port.
        address: String,
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
        what: &'static str,
        /// Its reason in words, with the number.
        reason: String,
        /// Whether it was about rights or log-in.
        not_authorized: bool,
    },
    /// The broker said good-bye.
    #[error("the broker disconnected: {reason}")]
    Disconnected {
        /// Its reason in words, with the number.
        reason: String,
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
