//! What is kept, and in what order it goes.

use std::collections::HashSet;

use super::refused::FORGET_MS;
use super::*;
use crate::metrics::{CLOSES, close_index};

fn event(at: u64, client_id: &str, what: Happened) -> PastEvent {
    PastEvent {
        at: WallMs(at),
        client_id: client_id.into(),
        what,
        address: None,
        topic: None,
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
    let mut history = History::new(u64::MAX, 1);
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
    let mut history = History::new(u64::MAX, 1);
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
    assert_eq!(history.clients.len(), CLIENTS_MAX);
}

#[test]
fn a_watcher_goes_on_where_it_was_and_hears_nothing_twice() {
    let mut history = History::new(u64::MAX, 1);
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
    let mut history = History::new(u64::MAX, 1);
    let connected = |at, client_id| event(at, client_id, Happened::Connected);
    history.note(connected(5, "c"), Some(WallMs(4)));
    assert_eq!(history.of_client("c"), []);
    assert_eq!(history.clients.len(), 0);
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
    let mut history = History::new(u64::MAX, 1);
    history.note_refused(3, "c");
    assert_eq!(history.of_client("c"), [event(3, "c", CLOSED)]);
}

#[test]
fn i10_who_is_refused_a_client_id_takes_nothing_from_its_past() {
    let mut history = History::new(u64::MAX, 1);
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
    assert_eq!(history.refused.bytes(), CLIENTS_MAX * refused::EACH_BYTES);
}

impl History {
    /// What all of it takes.
    fn bytes(&self) -> usize {
        let watched: usize = self.watched.iter().map(PastEvent::bytes).sum();
        assert_eq!(
            self.watched_bytes, watched,
            "what goes is counted as what came"
        );
        watched + self.clients.bytes() + self.refused.bytes()
    }
}

const SMALL: u64 = 48 << 20;
/// Of a shard of two.
const SMALL_SHARE: usize = (SMALL / MEMORY_PART) as usize / 2;

/// The longest that is taken without a setting, and the longest that there is.
#[test]
fn i9_client_ids_of_whoever_comes_take_a_small_share_however_long_they_are() {
    for bytes in [1 << 10, 65_535] {
        let long = "x".repeat(bytes - 6);
        let mut history = History::new(SMALL, 2);
        history.note_closed(1, "anna");
        for at in 0..10_000 {
            history.note_refused(2, &format!("{at:06}{long}"));
            assert!(history.bytes() <= SMALL_SHARE, "{} B", history.bytes());
        }
        assert_eq!(times(&history.of_client("anna")), [1, 1]);
        let newest = format!("009999{long}");
        assert_eq!(history.of_client(&newest), [event(2, &newest, CLOSED)]);
        for at in 0..10_000 {
            history.note_closed(3, &format!("{at:06}{long}"));
            assert!(history.bytes() <= SMALL_SHARE, "{} B", history.bytes());
        }
        assert_eq!(times(&history.of_client(&newest)), [2, 3, 3]);
    }
}

#[test]
fn i9_who_was_refused_is_forgotten_after_minutes_and_when_memory_is_short() {
    let mut history = History::new(SMALL, 2);
    for at in 0..1_000 {
        history.note_refused(at, &format!("c{at}"));
    }
    assert_eq!(history.of_client("c499").len(), 1);
    history.note_closed(FORGET_MS + 499, "anna");
    assert_eq!(history.of_client("c499"), []);
    assert_eq!(times(&history.of_client("c500")), [500]);
    history.forget_refused();
    assert_eq!(history.of_client("c500"), []);
    assert_eq!(history.refused.bytes(), 0);
    assert_eq!(history.of_client("anna").len(), 2);
    history.note_refused(FORGET_MS + 500, "c500");
    assert_eq!(history.of_client("c500").len(), 1);
}

#[test]
fn a_new_client_takes_the_place_of_no_other_one() {
    let mut history = History::new(u64::MAX, 1);
    for at in 0..2 * CLIENTS_MAX as u64 {
        history.note_closed(at, &format!("c{at}"));
        let kept = CLIENTS_MAX.min(at as usize + 1);
        assert_eq!(history.clients.len(), kept);
    }
}

/// Whatever ends a connection has words and a counter of its own, and what the broker decides is not put down to the client or the network.
#[test]
fn each_end_of_a_connection_is_told_from_the_others() {
    let ends = [
        (CloseCause::Disconnect, "the client said", "disconnect"),
        (CloseCause::Lost, "the socket was closed", "lost"),
        (CloseCause::Fault(0x82), "the client broke a rule", "fault"),
        (CloseCause::KeepAlive, "nothing was heard", "keep_alive"),
        (CloseCause::ConnectTimeout, "no CONNECT", "connect_timeout"),
        (
            CloseCause::LoginTimeout,
            "the client did not answer",
            "login_timeout",
        ),
        (CloseCause::LoginWaited, "the login waited", "login_waited"),
        (CloseCause::TakenOver, "another connection", "taken_over"),
        (
            CloseCause::Refused(0x85, WhyRefused::ByReason),
            "the server refused",
            "refused",
        ),
        (
            CloseCause::Revoked(0x87),
            "the right of the client",
            "revoked",
        ),
        (
            CloseCause::Revoked(0xA0),
            "the token of the client has ended",
            "revoked",
        ),
        (
            CloseCause::ShareRevoked,
            "a shared subscription",
            "share_revoked",
        ),
        (
            CloseCause::PublishRefused(0x87),
            "the client published where it may not",
            "publish_refused",
        ),
        (
            CloseCause::PublishRefused(0x97),
            "a publish of the client was refused",
            "publish_refused",
        ),
        (
            CloseCause::PublishTimeout,
            "a publish of the client could not be stored",
            "publish_timeout",
        ),
        (
            CloseCause::Stalled,
            "memory was short, and the client did not read",
            "stalled",
        ),
        (
            CloseCause::Unfinished,
            "memory was short, and the client did not end",
            "unfinished",
        ),
        (CloseCause::Panicked, "the server made a fault", "panicked"),
        (
            CloseCause::Administrative,
            "an operator closed",
            "administrative",
        ),
        (
            CloseCause::ServerStops,
            "the server was stopped",
            "server_stops",
        ),
    ];
    for (cause, begins, counter) in ends {
        let words = cause_words(cause);
        assert!(words.starts_with(begins), "{cause:?}: {words}");
        assert_eq!(CLOSES[close_index(cause)], counter, "{cause:?}");
    }
    let distinct = |all: &mut dyn Iterator<Item = &'static str>| all.collect::<HashSet<_>>().len();
    let words = &mut ends.iter().map(|(cause, ..)| cause_words(*cause));
    assert_eq!(distinct(words), ends.len());
    let counters = &mut ends.iter().map(|(.., counter)| *counter);
    assert_eq!(distinct(counters), CLOSES.len(), "all of them are here");
}

/// One reason on the wire has many of them: "it may not be here, not leave this will, or not have this client id" is no answer.
#[test]
fn each_refusal_is_told_from_the_others() {
    let words: HashSet<_> = REFUSALS
        .iter()
        .map(|why| cause_words(CloseCause::Refused(0x87, *why)))
        .collect();
    assert_eq!(words.len(), REFUSALS.len());
    let in_log: HashSet<_> = REFUSALS.iter().map(|why| why_words(*why)).collect();
    assert_eq!(in_log.len(), REFUSALS.len());
    for why in REFUSALS {
        let said = cause_words(CloseCause::Refused(0x97, *why));
        assert!(said.starts_with("the server refused the client"), "{said}");
        assert!(*why == WhyRefused::ByReason || said.ends_with(why_words(*why)));
    }
    for code in [0x9C, 0x9D] {
        let said = cause_words(CloseCause::Refused(code, WhyRefused::ByReason));
        assert!(
            said.starts_with("the client was sent to another server"),
            "{said}"
        );
    }
}

fn denied(at: u64, client_id: &str, topic: &str) -> PastEvent {
    PastEvent {
        topic: Some(topic.into()),
        ..event(at, client_id, Happened::Denied(Deed::Publish))
    }
}

impl History {
    /// Whether it was new.
    fn is_denied(&mut self, at: u64, client_id: &str, topic: &str) -> bool {
        let what = (Deed::Publish, topic);
        let is_new = !self.was_denied_of_late(WallMs(at), client_id, what);
        if is_new {
            self.note_denied(&denied(at, client_id, topic));
        }
        is_new
    }
}

#[test]
fn the_last_thing_that_a_client_was_denied_is_kept_and_is_new_once_a_minute() {
    let mut history = History::new(u64::MAX, 1);
    let minute = past::DENIED_AGAIN_MS;
    assert!(history.is_denied(1, "c", "a"));
    assert!(!history.is_denied(2, "c", "a"));
    assert_eq!(
        history.of_client("c"),
        [denied(2, "c", "a")],
        "the last time"
    );
    assert!(history.is_denied(3, "c", "b"), "something else");
    assert!(history.is_denied(3, "d", "b"), "somebody else");
    assert!(!history.is_denied(2 + minute, "c", "b"));
    assert!(history.is_denied(3 + minute, "c", "b"), "after a minute");
    assert_eq!(history.of_client("c"), [denied(3 + minute, "c", "b")]);
    assert!(history.is_denied(3, "c", "b"), "a clock that was set back");
    for topic in ["a/long/one", "b", ""] {
        assert!(history.is_denied(4, "c", topic));
        history.bytes();
    }
}

#[test]
fn what_a_client_was_denied_stands_beside_what_happened_to_it() {
    let mut history = History::new(u64::MAX, 1);
    let connected = |at| event(at, "c", Happened::Connected);
    history.note(connected(5), Some(WallMs(4)));
    assert!(history.is_denied(6, "c", "a"));
    assert_eq!(history.of_client("c"), [denied(6, "c", "a")]);
    history.note(event(7, "c", CLOSED), Some(WallMs(4)));
    let past = [connected(4), denied(6, "c", "a"), event(7, "c", CLOSED)];
    assert_eq!(history.of_client("c"), past, "that it came as well");
    for at in 10..100 {
        assert!(history.is_denied(at, "c", &at.to_string()));
    }
    let past = [connected(4), event(7, "c", CLOSED), denied(99, "c", "99")];
    assert_eq!(history.of_client("c"), past, "nothing is pushed out");
    assert_eq!(history.from(0, 10).0.len(), 2, "they are shown apart");
}

#[test]
fn i9_what_clients_are_denied_takes_a_small_share_however_many_they_are() {
    let mut history = History::new(SMALL, 2);
    let long = "x".repeat(500);
    for at in 0..20_000 {
        assert!(history.is_denied(at, &format!("c{at}"), &long));
        assert!(history.bytes() <= SMALL_SHARE, "{} B", history.bytes());
        history.show(denied(at, "c", &long));
        assert!(history.bytes() <= SMALL_SHARE, "{} B", history.bytes());
    }
    assert_eq!(history.of_client("c0"), []);
    assert_eq!(history.of_client("c19999").len(), 1);
}
