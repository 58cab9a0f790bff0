//! Who is at the other end of a socket, as far as the door knows that let it in.
//!
//! Nothing here comes from MQTT: what a client says of itself in CONNECT is the front's. All of it is fixed when the connection
//! reaches its shard, and is what authentication may go by besides CONNECT.

use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use courser_settings::{AddressLimit, ClientIdPattern, Listener, Settings, Spares};

use crate::config::Config;
use crate::doors::{Arrivals, Guest, Guests, Pace};
use crate::lines::Lines;

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
    /// Client ids that its users may have; empty: all.
    client_ids: Box<[ClientIdPattern]>,
    /// Connections by address, where there is a limit.
    guests: Option<Limited<Arc<Guests>>>,
    /// New connections a second by address, where there is a limit.
    arrivals: Option<Limited<Arrivals>>,
    /// New connections a second from all addresses, where there is a limit.
    pace: Option<Pace>,
    /// Lines about connections that begin with something else than MQTT.
    strangers: Lines,
    /// Connections that shards have let in and that are open.
    connections: AtomicUsize,
}

/// What is counted by address, and whom that spares.
#[derive(Debug)]
struct Limited<T> {
    spares: Spares,
    counted: T,
}

impl<T> Limited<T> {
    fn new(limit: AddressLimit, count: impl FnOnce(NonZeroU32) -> T) -> Self {
        Self {
            spares: limit.spares,
            counted: count(limit.most),
        }
    }

    /// What the connections of an address are counted in; none where it is not limited, or there is no address.
    fn of(this: Option<&Self>, address: Option<IpAddr>) -> Option<(&T, IpAddr)> {
        let (this, address) = (this?, address?);
        let is_spared = this.spares.spare(address);
        (!is_spared).then_some((&this.counted, address))
    }
}

/// Why a listener does not let one more connection in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NotNow {
    /// Its address has as many as it may have.
    #[error("its address has as many connections as it may have")]
    TooMany,
    /// As many as there may be have just come, of its address or of all.
    #[error("as many connections as may come in a second have come")]
    TooFast,
    /// Too many of its address have come in each of many seconds.
    #[error("its address waits, since more connections than may have come in a second for long")]
    Waits,
}

impl Entrance {
    /// That of `mqtt.listen`.
    #[must_use]
    pub(crate) fn mqtt(authentication: Authentication, settings: &Settings) -> Arc<Self> {
        let id = (ListenerId::Mqtt, "mqtt");
        Self::new(id, authentication, None, settings)
    }

    /// That of the item of `[[listener]]` at a place.
    #[must_use]
    pub(crate) fn door(at: usize, listener: &Listener, settings: &Settings) -> Arc<Self> {
        let authentication = settings.login_at(listener).into();
        let id = (ListenerId::Door(at), &*listener.name);
        Self::new(id, authentication, Some(listener), settings)
    }

    fn new(
        (id, name): (ListenerId, &str),
        authentication: Authentication,
        own: Option<&Listener>,
        settings: &Settings,
    ) -> Arc<Self> {
        let at_once = settings.address_connections_max_at(own);
        let per_second = settings.address_connects_per_second_at(own);
        Arc::new(Self {
            id,
            name: name.into(),
            authentication,
            client_ids: settings.client_ids_at(own).into(),
            guests: at_once.map(|limit| Limited::new(limit, Guests::new)),
            arrivals: per_second.map(|limit| Limited::new(limit, Arrivals::new)),
            pace: settings.connects_per_second_at(own).map(Pace::new),
            strangers: Lines::default(),
            connections: AtomicUsize::new(0),
        })
    }

    /// Whether a client of this user may have this client id here by what the listener says. One that the server has assigned it may have as well.
    pub(crate) fn gives(&self, client_id: &str, user: &str) -> bool {
        let matches = |pattern: &ClientIdPattern| pattern.matches(client_id, user);
        self.client_ids.is_empty() || self.client_ids.iter().any(matches)
    }

    /// Whether a line is written about one more connection that begins with something else than MQTT, and how many were not before it.
    pub(crate) fn admit_stranger(&self) -> Option<u64> {
        self.strangers.admit(Instant::now())
    }

    /// Open connections that shards have let in.
    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }

    /// Whether there may be one more, of the process, which has so many, and of this listener.
    pub(crate) fn has_room(&self, config: &Config, connections: usize) -> bool {
        let own = config.connections_max_at(self.id);
        connections < config.connections_max && own.is_none_or(|most| self.connections() < most)
    }

    /// A shard has let one in.
    pub(crate) fn count(&self) {
        self.connections.fetch_add(1, Ordering::Relaxed);
    }

    /// One of them is gone.
    pub(crate) fn uncount(&self) {
        self.connections.fetch_sub(1, Ordering::Relaxed);
    }

    /// Lets one more connection in, which is counted for its address, where that is done, until its guest is dropped. What all
    /// addresses share is taken last: what one of them does too much of takes nothing from the others.
    pub(crate) fn let_in(&self, address: Option<IpAddr>) -> Result<Option<Guest>, NotNow> {
        let guest = self.let_in_behind(address)?;
        let pace = self.pace.as_ref();
        let has_pace = pace.is_none_or(|pace| pace.come(Instant::now()));
        has_pace.then_some(guest).ok_or(NotNow::TooFast)
    }

    /// The same for one that was let in without an address, since a proxy is in front of it, once its address is known.
    pub(crate) fn let_in_behind(&self, address: Option<IpAddr>) -> Result<Option<Guest>, NotNow> {
        let guest = match Limited::of(self.guests.as_ref(), address) {
            Some((guests, address)) => Some(guests.enter(address).ok_or(NotNow::TooMany)?),
            None => None,
        };
        if let Some((arrivals, address)) = Limited::of(self.arrivals.as_ref(), address) {
            arrivals.come(address, Instant::now())?;
        }
        Ok(guest)
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

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> Option<IpAddr> {
        Some(text.parse().expect("an address"))
    }

    fn entrance(set: impl FnOnce(&mut Settings)) -> Arc<Entrance> {
        let mut settings = Settings::default();
        set(&mut settings);
        Entrance::mqtt(Authentication::None, &settings)
    }

    #[test]
    fn another_machine_has_a_tenth_of_all_connections_where_nothing_is_set() {
        let entrance = entrance(|it| it.listeners.address_connects_per_second = Some(0));
        let admit = |from| entrance.let_in(address(from));
        let all = Settings::default().listeners.connections_max;
        let guests: Vec<_> = (0..all / 10).map(|_| admit("192.0.2.1")).collect();
        assert!(guests.iter().all(|guest| matches!(guest, Ok(Some(_)))));
        assert_eq!(admit("192.0.2.1").err(), Some(NotNow::TooMany));
        assert!(matches!(admit("192.0.2.2"), Ok(Some(_))), "another address");
        for here in ["127.0.0.1", "::1", "::ffff:127.0.0.1"] {
            assert!(matches!(admit(here), Ok(None)), "{here} is not counted");
        }
        assert!(matches!(entrance.let_in(None), Ok(None)), "a Unix socket");
    }

    #[test]
    fn another_machine_has_so_many_new_connections_a_second_where_nothing_is_set() {
        const TRIES: u128 = 2_000;
        let (entrance, begun) = (entrance(|_| {}), Instant::now());
        let may_come = |from| entrance.let_in(address(from)).is_ok();
        let come = |from| (0..TRIES).filter(|_| may_come(from)).count() as u128;
        let came = come("192.0.2.1");
        // One in two milliseconds.
        let more = begun.elapsed().as_millis() / 2 + 1;
        assert!((500..=500 + more).contains(&came), "{came}");
        assert_eq!(come("127.0.0.1"), TRIES);
    }

    #[test]
    fn an_address_that_has_as_much_as_it_may_takes_nothing_from_the_others() {
        let entrance = entrance(|it| {
            it.listeners.address_connections_max = Some(1);
            it.listeners.connects_per_second = 2;
        });
        let _first = entrance.let_in(address("192.0.2.1")).expect("the first");
        for _ in 0..100 {
            let again = entrance.let_in(address("192.0.2.1"));
            assert_eq!(again.err(), Some(NotNow::TooMany));
        }
        let other = entrance.let_in(address("192.0.2.2"));
        assert!(other.is_ok(), "the second one of this second");
    }
}
