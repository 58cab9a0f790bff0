//! Who is at the other end of a socket, as far as the door knows that let it in.
//!
//! Nothing here comes from MQTT: what a client says of itself in CONNECT is the front's. All of it is fixed when the connection
//! reaches its shard, and is what authentication may go by besides CONNECT.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use courser_settings::{Listener, Settings};

use crate::doors::{Arrivals, Guest, Guests};

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

/// Which listener of the settings it is: `mqtt.listen`, or the item of `[[listener]]` at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ListenerId {
    /// `mqtt.listen`.
    Mqtt,
    /// One of the list, which stays as it is until the end of the process.
    Door(usize),
}

impl ListenerId {
    /// Its own settings; none for `mqtt.listen`.
    pub(crate) fn own(self, settings: &Settings) -> Option<&Listener> {
        match self {
            Self::Mqtt => None,
            Self::Door(at) => settings.doors.get(at),
        }
    }

    /// Its place among all, `mqtt.listen` first.
    pub(crate) const fn place(self) -> usize {
        match self {
            Self::Mqtt => 0,
            Self::Door(at) => at + 1,
        }
    }
}

/// What the connections of one listener have in common.
#[derive(Debug)]
pub(crate) struct Entrance {
    /// Where its settings are.
    pub(crate) id: ListenerId,
    /// The listener's name, unique in the process.
    pub(crate) name: Box<str>,
    /// How its clients prove who they are.
    pub(crate) authentication: Authentication,
    /// Connections by address, where there is a limit.
    guests: Option<Arc<Guests>>,
    /// New connections a second by address, where there is a limit.
    arrivals: Option<Arrivals>,
    /// Connections that shards have let in and that are open.
    connections: AtomicUsize,
}

/// An address has as many connections at a listener as it may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooMany;

impl Entrance {
    /// That of `mqtt.listen`.
    #[must_use]
    pub(crate) fn mqtt(authentication: Authentication, settings: &Settings) -> Arc<Self> {
        let most = settings.listeners.address_connections_max;
        Self::new((ListenerId::Mqtt, "mqtt"), authentication, most, settings)
    }

    /// That of the item of `[[listener]]` at a place.
    #[must_use]
    pub(crate) fn door(at: usize, listener: &Listener, settings: &Settings) -> Arc<Self> {
        let most = settings.address_connections_max_at(listener);
        let authentication = listener.authentication.into();
        let id = (ListenerId::Door(at), &*listener.name);
        Self::new(id, authentication, most, settings)
    }

    fn new(
        (id, name): (ListenerId, &str),
        authentication: Authentication,
        address_connections_max: u32,
        settings: &Settings,
    ) -> Arc<Self> {
        let per_second = settings.listeners.address_connects_per_second;
        Arc::new(Self {
            id,
            name: name.into(),
            authentication,
            guests: (address_connections_max > 0).then(|| Guests::new(address_connections_max)),
            arrivals: (per_second > 0).then(|| Arrivals::new(per_second)),
            connections: AtomicUsize::new(0),
        })
    }

    /// Open connections that shards have let in.
    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }

    /// A shard has let one in.
    pub(crate) fn count(&self) {
        self.connections.fetch_add(1, Ordering::Relaxed);
    }

    /// One of them is gone.
    pub(crate) fn uncount(&self) {
        self.connections.fetch_sub(1, Ordering::Relaxed);
    }

    /// Whether an address may have one more connection now, where it may have only so many a second. To be asked once for each.
    pub(crate) fn may_come(&self, address: Option<IpAddr>) -> bool {
        match (&self.arrivals, address) {
            (Some(arrivals), Some(address)) => arrivals.come(address, Instant::now()),
            (Some(_), None) | (None, _) => true,
        }
    }

    /// Counts a connection of an address, where that is done.
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
