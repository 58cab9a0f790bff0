//! Who is at the other end of a socket, as far as the door knows that let it in.
//!
//! Nothing here comes from MQTT: what a client says of itself in CONNECT is the front's. All of it is fixed when the connection
//! reaches its shard, and is what authentication may go by besides CONNECT.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use crate::doors::{Guest, Guests};

/// How clients of one listener prove who they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Authentication {
    /// They do not: anyone who reaches the listener may connect.
    #[default]
    None,
    /// By an account: password, SCRAM, or a client certificate that names one.
    Accounts,
    /// By a token.
    Tokens,
}

/// What the connections of one listener have in common.
#[derive(Debug)]
pub(crate) struct Entrance {
    /// The listener's name, unique in the process.
    pub(crate) name: Box<str>,
    /// How its clients prove who they are.
    pub(crate) authentication: Authentication,
    /// Connections by address, where there is a limit.
    pub(crate) guests: Option<Arc<Guests>>,
}

/// An address has as many connections at a listener as it may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooMany;

impl Entrance {
    /// Counts a connection, where that is done.
    pub(crate) fn admit(&self, address: Option<IpAddr>) -> Result<Option<Guest>, TooMany> {
        match (&self.guests, address) {
            (Some(guests), Some(address)) => guests.enter(address).map(Some).ok_or(TooMany),
            (Some(_), None) | (None, _) => Ok(None),
        }
    }
}

impl From<courser_settings::Login> for Authentication {
    fn from(setting: courser_settings::Login) -> Self {
        match setting {
            courser_settings::Login::None => Self::None,
            courser_settings::Login::Accounts => Self::Accounts,
            courser_settings::Login::Tokens => Self::Tokens,
        }
    }
}

/// The other end of one connection.
#[derive(Clone, Debug)]
pub(crate) struct Peer {
    /// Where it came in.
    pub(crate) entrance: Arc<Entrance>,
    /// Its address; behind a proxy that is named as a source of PROXY headers, the one in the header. None over a Unix socket.
    pub(crate) address: Option<SocketAddr>,
    /// Who the client certificate says it is, by the listener's mapping. None without a certificate. Certificates that do
    /// not verify, or that the mapping finds no name in, never get here.
    pub(crate) identity: Option<Arc<str>>,
}

impl Peer {
    /// Of a plain connection.
    #[must_use]
    pub(crate) fn plain(entrance: &Arc<Entrance>, address: SocketAddr) -> Self {
        Self {
            entrance: Arc::clone(entrance),
            address: Some(address),
            identity: None,
        }
    }
}
