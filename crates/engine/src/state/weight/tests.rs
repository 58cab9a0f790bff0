//! What is said of a session and of what it has open, held against what the allocator gives.

use courser_contract::{
    Class, Epoch, PartitionId, SessionUid, SubscriptionOptions, Term, WallMs, Will,
};
use courser_memory::thread_snapshot;
use router::SharedMatcher;

use super::*;
use crate::{
    Partition, PartitionConfig,
    entry::{AttachFact, Gather, Haste, Rare},
    ids::{self, Owner},
};

const SESSIONS: u32 = 500;

fn uid(place: u32) -> SessionUid {
    SessionUid(ids::stream_of(Owner::Session, 1 + u64::from(place), place))
}

fn opened(place: u32, will: Option<Box<Will>>) -> Rare {
    Rare::SessionOpened {
        session: uid(place),
        client_id: format!("client-{place:04}").into(),
        attach: AttachFact {
            epoch: Epoch(1),
            expiry_seconds: 9,
            receive_maximum: 9,
            sent_limit: 0,
            will,
        },
    }
}

fn live_bytes() -> u64 {
    thread_snapshot().live_bytes()
}

/// A partition, and what has been said and taken of it beyond its beginning.
struct Weighed {
    partition: Partition,
    said: u64,
    taken: u64,
}

impl Weighed {
    /// With sessions that have a subscription to `filter` each, and nothing said of these.
    fn new() -> Self {
        let mut weighed = Self {
            partition: Partition::new(PartitionConfig::new(PartitionId(1), Class::Durable)),
            said: 0,
            taken: 0,
        };
        weighed.each(|place| opened(place, None));
        (weighed.said, weighed.taken) = (0, 0);
        weighed
    }

    /// A fact of each session.
    fn each(&mut self, fact: impl Fn(u32) -> Rare) {
        let (mut gather, mut scratch) = (Gather::default(), Vec::new());
        for place in 0..SESSIONS {
            fact(place).write(&mut gather, Haste::Now, &mut scratch);
        }
        let at = self.partition.applied().next();
        let entry = gather.take(WallMs(9), Term(1), at.0);
        let entry = entry.expect("facts were written");
        let (said, taken) = (self.partition.state.session_bytes, live_bytes());
        let applied = self.partition.replay_entry(at, &entry);
        applied.expect("an entry that was just written");
        self.said += self.partition.state.session_bytes - said;
        self.taken += live_bytes() - taken;
    }

    /// Not less is said than is taken, nor twice as much.
    fn check(&self, what: &str) {
        let (said, taken) = (self.said, self.taken);
        eprintln!(
            "{what}: {} bytes are taken, {} said",
            taken / u64::from(SESSIONS),
            said / u64::from(SESSIONS)
        );
        assert!((taken..=2 * taken).contains(&said), "{what}");
    }
}

#[test]
fn packet_ids_take_no_more_than_is_said_m4() {
    for count in [1, 2, 11, 12, 32, 1_000] {
        let mut weighed = Weighed::new();
        for packet_id in 1..=count {
            weighed.each(|place| Rare::Held {
                session: uid(place),
                packet_id,
                hash: 1,
            });
        }
        weighed.check(&format!("{count} packet ids"));
    }
}

fn filter(number: u64) -> String {
    format!("a/filter/of/thirty/bytes/{number:05}")
}

fn subscribed(place: u32, number: u64, scan: u64) -> Rare {
    Rare::Subscribed {
        session: uid(place),
        filter: filter(number).into(),
        share: None,
        options: SubscriptionOptions::default(),
        identifier: None,
        scan,
    }
}

#[test]
fn scans_take_no_more_than_is_said_m4() {
    for (count, cursors) in [(1, 0), (1, 1), (1, 16), (10, 0), (10, 2), (100, 1)] {
        let mut weighed = Weighed::new();
        for number in 1..=count {
            weighed.each(|place| subscribed(place, number, 0));
        }
        (weighed.said, weighed.taken) = (0, 0);
        let number_of = |place: u32, number: u64| u64::from(place) * count + number;
        for number in 1..=count {
            weighed.each(|place| subscribed(place, number, number_of(place, number)));
            for partition in 0..cursors {
                weighed.each(|place| Rare::ScanMoved {
                    session: uid(place),
                    scan: number_of(place, number),
                    partition: PartitionId(partition),
                    state: ScanState::After("a/topic/of/thirty/bytes/000001".into()),
                });
            }
        }
        // The leader has of each what its state has, and who is to be asked besides.
        let before = live_bytes();
        let mut open = OpenScans::default();
        for place in 0..SESSIONS {
            for number in 1..=count {
                let at = number_of(place, number);
                open.open(uid(place), at, filter(number).into());
                let it = open.get_mut(uid(place), at).expect("it is open");
                it.waiting = vec![PartitionId(1); 17];
                for partition in 0..cursors.min(1) {
                    let topic = "a/topic/of/thirty/bytes/000001".into();
                    it.reached.push((PartitionId(partition), topic));
                }
            }
        }
        weighed.taken += live_bytes() - before;
        weighed.check(&format!("{count} scans with {cursors} cursors"));
    }
}

#[test]
fn a_will_takes_no_more_than_is_said_m4() {
    let mut weighed = Weighed::new();
    let will = || {
        Box::new(Will {
            topic: "a/will".into(),
            properties: Box::from([1; 20]),
            payload: Box::from([1; 100]),
            qos: courser_contract::QoS::AtLeastOnce,
            retain: false,
            delay_seconds: 0,
            expiry_seconds: None,
        })
    };
    weighed.each(|place| Rare::SessionAttached {
        session: uid(place),
        attach: AttachFact {
            epoch: Epoch(2),
            expiry_seconds: 9,
            receive_maximum: 9,
            sent_limit: 0,
            will: Some(will()),
        },
    });
    weighed.check("a will");
}

#[test]
fn a_session_takes_no_more_than_is_said_m4() {
    let taken = live_bytes();
    let mut weighed = Weighed {
        partition: Partition::new(PartitionConfig::new(PartitionId(1), Class::Durable)),
        said: 0,
        taken: 0,
    };
    let alone = live_bytes() - taken;
    weighed.each(|place| opened(place, None));
    eprintln!("a partition: {alone} bytes");
    weighed.check("a session");
}

/// Ten filters of a session, by its number.
type Shape = (&'static str, fn(u32, u64) -> String);

const SHAPES: [Shape; 7] = [
    // As bench/million.py has them.
    ("of devices", |session, at| {
        let own = format!("site/{}/device/{session}", session / 100);
        match at {
            0 => format!("{own}/state"),
            1 => format!("{own}/battery"),
            2 => format!("{own}/+/alarm"),
            3 => format!("{own}/position"),
            4 => format!("region/{}/notices", session % 100),
            5 => format!("{own}/log/#"),
            6 => format!("{own}/firmware"),
            7 => format!("site/+/device/{session}/command"),
            8 => format!("{own}/config"),
            _ => format!("{own}/clock"),
        }
    }),
    ("that everybody has", |_, at| format!("news/of/{at}")),
    ("of one level", |session, at| format!("{session}-{at}")),
    ("of names of their own", |session, at| {
        format!("{session}-{at}/{at}-{session}/a{session}-{at}/b{session}-{at}")
    }),
    ("of many levels", |session, at| {
        format!("{session}/{}{at}", "level/".repeat(100))
    }),
    ("of many names", |session, at| {
        (0..50).map(|it| format!("{session}-{at}-{it}/")).collect()
    }),
    ("of long texts", |session, at| {
        format!("{session}/{at}{}", "x".repeat(4_000))
    }),
];

/// Whatever clients subscribe to, L1 included.
#[test]
fn subscriptions_take_no_more_than_is_said_m4() {
    for (what, filter) in SHAPES {
        let mut weighed = Weighed::new();
        let filters = weighed.partition.state.l2.filter_bytes();
        let taken = live_bytes();
        let (mut writer, _reader) = SharedMatcher::new();
        for at in 0..10 {
            weighed.each(|place| Rare::Subscribed {
                session: uid(place),
                filter: filter(place, at).into(),
                share: None,
                options: SubscriptionOptions::default(),
                identifier: None,
                scan: 0,
            });
            for place in 0..SESSIONS {
                writer.insert(&filter(place, at), PartitionId(1));
            }
            writer.publish(|| unreachable!("nobody looks"));
        }
        writer.try_settle().expect("nobody looks");
        weighed.taken = live_bytes() - taken;
        weighed.said += weighed.partition.state.l2.filter_bytes() - filters;
        weighed.check(&format!("ten filters {what}"));
    }
}
