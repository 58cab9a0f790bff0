//! What happened to clients of late, on one shard: so that "why was it disconnected" has an answer.
//!
//! Two bounded memories: the last events of all, for those who watch, and the last few of each client id, so that one client that
//! comes and goes without end does not push out what happened to the others. A client that has connected and nothing more is not in
//! the second one: its connection knows since when it is there, and thousands of them cost nothing here.
//!
//! Connections that came with a client id and never got its session are apart: anybody who may connect can name the client id of somebody
//! else. The newest of them is kept for each, in a memory of the same bound, so that they push out nothing that has happened.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::net::SocketAddr;

use courser_contract::{CloseCause, WallMs};

/// Events that are kept for those who watch.
const WATCHED_MAX: usize = 1_024;
/// Events of one client id.
const OF_CLIENT_MAX: usize = 8;
/// Client ids with events; the one that nothing has happened to for the longest time goes first.
const CLIENTS_MAX: usize = 8_192;

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Happened {
    /// Its session was attached to a connection.
    Connected,
    /// Its connection ended.
    Closed(CloseCause),
}

/// Why a connection ended, for people.
#[must_use]
pub const fn cause_words(cause: CloseCause) -> &'static str {
    match cause {
        CloseCause::Disconnect => "the client said good-bye",
        CloseCause::Lost => "the socket was closed without a word: network, or the client has died",
        CloseCause::Fault(_) => "the client broke a rule of the protocol",
        CloseCause::KeepAlive => "nothing was heard of the client for 1.5 times its keep-alive",
        CloseCause::ConnectTimeout => "no CONNECT came in time",
        CloseCause::TakenOver => "another connection came with the same client id",
        CloseCause::Refused(0x86) => {
            "the server refused the client: user name, password or token were wrong"
        }
        CloseCause::Refused(0x87) => "the server refused the client: it may not be here",
        CloseCause::Refused(0x9C) => "the client was sent to another server, for now",
        CloseCause::Refused(0x9D) => "the client was sent to another server, for good",
        CloseCause::Refused(0x9F) => {
            "the server refused the client: too many logins from its address have failed"
        }
        CloseCause::Refused(_) => "the server refused the client",
        CloseCause::Administrative => "an operator closed the connection",
        CloseCause::ServerStops => "the server was stopped",
    }
}

/// One event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PastEvent {
    /// When.
    pub at: WallMs,
    /// Whose; empty before a CONNECT has named it.
    pub client_id: Box<str>,
    /// What.
    pub what: Happened,
    /// The other end of its socket, where that is known.
    pub address: Option<SocketAddr>,
}

/// The events of one client id with their numbers, and when the last one came.
#[derive(Debug, Default)]
struct OfClient {
    last: u64,
    events: VecDeque<(u64, PastEvent)>,
}

/// The last few events of each client id.
#[derive(Debug)]
struct Pasts {
    /// Events of one client id.
    most: usize,
    clients: HashMap<Box<str>, OfClient>,
    /// Client ids by the number of their last event.
    order: BTreeMap<u64, Box<str>>,
}

impl Pasts {
    fn new(most: usize) -> Self {
        Self {
            most,
            clients: HashMap::new(),
            order: BTreeMap::new(),
        }
    }

    fn note(&mut self, number: u64, event: PastEvent) {
        let client_id = event.client_id.clone();
        let of = self.clients.entry(client_id.clone()).or_default();
        self.order.remove(&of.last);
        of.last = number;
        if of.events.len() == self.most {
            of.events.pop_front();
        }
        of.events.push_back((number, event));
        self.order.insert(number, client_id);
        if self.clients.len() > CLIENTS_MAX
            && let Some((_, oldest)) = self.order.pop_first()
        {
            self.clients.remove(&oldest);
        }
    }

    fn of_client(&self, client_id: &str) -> impl Iterator<Item = &(u64, PastEvent)> {
        let of = self.clients.get(client_id).into_iter();
        of.flat_map(|of| &of.events)
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct History {
    /// Number of the next event.
    next: u64,
    watched: VecDeque<PastEvent>,
    /// What has happened to sessions.
    clients: Pasts,
    /// Ends of connections that never got one.
    refused: Pasts,
}

impl Default for History {
    fn default() -> Self {
        Self {
            next: 0,
            watched: VecDeque::new(),
            clients: Pasts::new(OF_CLIENT_MAX),
            refused: Pasts::new(1),
        }
    }
}

impl History {
    /// Notes an event. `since` is when the connection that it is of was there, if a session was ever attached to it.
    pub(crate) fn note(&mut self, event: PastEvent, since: Option<WallMs>) {
        let number = self.next;
        self.next += 1;
        if !event.client_id.is_empty() {
            self.note_of_known(number, &event, since);
        }
        if self.watched.len() == WATCHED_MAX {
            self.watched.pop_front();
        }
        self.watched.push_back(event);
    }

    /// Begins a client's past with its first connection when that ends, not when it begins.
    fn note_of_known(&mut self, number: u64, event: &PastEvent, since: Option<WallMs>) {
        let is_known = self.clients.clients.contains_key(&event.client_id);
        match (event.what, since) {
            (Happened::Connected, _) if !is_known => return,
            (Happened::Connected, _) => {}
            (Happened::Closed(_), None) => return self.refused.note(number, event.clone()),
            (Happened::Closed(_), Some(_)) if is_known => {}
            (Happened::Closed(_), Some(at)) => {
                let connected = PastEvent {
                    at,
                    what: Happened::Connected,
                    ..event.clone()
                };
                self.clients.note(number, connected);
            }
        }
        self.clients.note(number, event.clone());
    }

    /// The last events of a client id, oldest first.
    pub(crate) fn of_client(&self, client_id: &str) -> Vec<PastEvent> {
        let refused = self.refused.of_client(client_id);
        let mut all: Vec<_> = self.clients.of_client(client_id).chain(refused).collect();
        all.sort_by_key(|(number, _)| *number);
        all.into_iter().map(|(_, event)| event.clone()).collect()
    }

    /// Events from number `from` on, at most `limit`, with the number to go on with. `u64::MAX`: none, from now on.
    pub(crate) fn from(&self, from: u64, limit: usize) -> (Vec<PastEvent>, u64) {
        let first = self.next - self.watched.len() as u64;
        let begin = from.clamp(first, self.next);
        let skip = usize::try_from(begin - first).unwrap_or(usize::MAX);
        let events: Vec<_> = self
            .watched
            .iter()
            .skip(skip)
            .take(limit)
            .cloned()
            .collect();
        let next = begin + events.len() as u64;
        (events, next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(at: u64, client_id: &str, what: Happened) -> PastEvent {
        PastEvent {
            at: WallMs(at),
            client_id: client_id.into(),
            what,
            address: None,
        }
    }

    const CLOSED: Happened = Happened::Closed(CloseCause::Lost);

    impl History {
        /// Of a connection that got its session at once.
        fn note_closed(&mut self, at: u64, client_id: &str) {
            self.note(event(at, client_id, CLOSED), Some(WallMs(at)));
        }

        /// Of one that never got one.
        fn note_refused(&mut self, at: u64, client_id: &str) {
            self.note(event(at, client_id, CLOSED), None);
        }
    }

    fn times(events: &[PastEvent]) -> Vec<u64> {
        events.iter().map(|event| event.at.0).collect()
    }

    #[test]
    fn a_client_that_comes_and_goes_pushes_out_only_its_own_past() {
        let mut history = History::default();
        history.note_closed(0, "quiet");
        for at in 1..=5_000 {
            history.note_closed(at, "busy");
        }
        assert_eq!(times(&history.of_client("quiet")), [0, 0]);
        let busy = times(&history.of_client("busy"));
        assert_eq!(busy, (4_993..=5_000).collect::<Vec<_>>());
        assert_eq!(history.of_client("nobody"), []);
    }

    #[test]
    fn client_ids_are_bounded_and_the_longest_silent_one_goes() {
        let mut history = History::default();
        history.note_closed(0, "first");
        for at in 1..CLIENTS_MAX as u64 {
            history.note_closed(at, &format!("c{at}"));
        }
        history.note_closed(9_000, "first");
        history.note_closed(9_001, "one more");
        assert_eq!(
            history.of_client("c1"),
            [],
            "nothing happened to it for the longest time"
        );
        assert_eq!(times(&history.of_client("first")), [0, 0, 9_000]);
        assert_eq!(history.clients.clients.len(), CLIENTS_MAX);
        assert_eq!(history.clients.order.len(), CLIENTS_MAX);
    }

    #[test]
    fn a_watcher_goes_on_where_it_was_and_hears_nothing_twice() {
        let mut history = History::default();
        for at in 0..2_000 {
            history.note_closed(at, "c");
        }
        let (events, next) = history.from(0, 10);
        assert_eq!(
            times(&events),
            (976..986).collect::<Vec<_>>(),
            "the rest is forgotten"
        );
        let (events, next) = history.from(next, 2_000);
        assert_eq!((events.len(), next), (1_014, 2_000));
        assert_eq!(history.from(next, 10), (Vec::new(), 2_000));
        assert_eq!(history.from(u64::MAX, 10), (Vec::new(), 2_000));
        assert_eq!(history.from(1_999, 10).0.len(), 1);
    }

    #[test]
    fn who_has_only_connected_has_no_past_and_costs_nothing() {
        let mut history = History::default();
        let connected = |at, client_id| event(at, client_id, Happened::Connected);
        history.note(connected(5, "c"), Some(WallMs(4)));
        assert_eq!(history.of_client("c"), []);
        assert!(history.clients.clients.is_empty() && history.clients.order.is_empty());
        history.note(event(7, "c", CLOSED), Some(WallMs(4)));
        history.note(connected(9, "c"), Some(WallMs(9)));
        let past = [connected(4, "c"), event(7, "c", CLOSED), connected(9, "c")];
        assert_eq!(history.of_client("c"), past);
        let (seen, _) = history.from(0, 10);
        let all = [connected(5, "c"), event(7, "c", CLOSED), connected(9, "c")];
        assert_eq!(seen, all, "who watches hears of it at once");
    }

    #[test]
    fn who_was_refused_never_connected() {
        let mut history = History::default();
        history.note_refused(3, "c");
        assert_eq!(history.of_client("c"), [event(3, "c", CLOSED)]);
    }

    #[test]
    fn i10_who_is_refused_a_client_id_takes_nothing_from_its_past() {
        let mut history = History::default();
        history.note_closed(1, "anna");
        for at in 2..100 {
            history.note_refused(at, "anna");
        }
        assert_eq!(times(&history.of_client("anna")), [1, 1, 99]);
        history.note_closed(100, "anna");
        assert_eq!(times(&history.of_client("anna")), [1, 1, 99, 100]);
        for at in 0..2 * CLIENTS_MAX as u64 {
            history.note_refused(1_000 + at, &format!("c{at}"));
        }
        assert_eq!(times(&history.of_client("anna")), [1, 1, 100]);
        assert_eq!(history.refused.clients.len(), CLIENTS_MAX);
        assert_eq!(history.refused.order.len(), CLIENTS_MAX);
    }
}
