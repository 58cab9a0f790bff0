//! Deliveries of a home and a group in any order, against a client that answers in any order: its Receive Maximum holds, no packet
//! id is used twice at once, and each delivery has one end.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU16;

use courser_contract::{QoS, Seq, Source, ToFront};
use proptest::prelude::*;

use super::support::{Client, GROUP, Hello, V5, to_group, to_session, view};
use crate::codec::Property;

const WINDOW: u16 = 4;

#[derive(Clone, Debug)]
enum Step {
    /// The home sends, unless it has sent as much as the client takes.
    Session(QoS),
    /// The group sends, within a credit of its own.
    Group(QoS),
    /// The client reads what is there.
    Read,
    /// The client answers one of what it has read.
    Answer(prop::sample::Index),
    /// The home has stored one "received".
    Release(prop::sample::Index),
    Pass(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let qos = prop_oneof![Just(QoS::AtLeastOnce), Just(QoS::ExactlyOnce)];
    prop_oneof![
        4 => qos.clone().prop_map(Step::Session),
        3 => qos.prop_map(Step::Group),
        3 => Just(Step::Read),
        6 => any::<prop::sample::Index>().prop_map(Step::Answer),
        3 => any::<prop::sample::Index>().prop_map(Step::Release),
        1 => (1_u64..60).prop_map(Step::Pass),
    ]
}

/// What the client knows of a packet id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    Publish(QoS),
    /// PUBREC was sent, PUBREL is awaited.
    Received,
    Pubrel,
}

struct World {
    client: Client,
    next: [u64; 2],
    /// Deliveries without an end: of the session, of the group.
    open: [BTreeSet<u64>; 2],
    unreleased: Vec<(usize, u64)>,
    known: BTreeMap<u16, Known>,
}

impl World {
    fn new() -> Self {
        let hello = Hello {
            properties: &[
                Property::ReceiveMaximum(NonZeroU16::new(WINDOW).unwrap()),
                Property::TopicAliasMaximum(1),
            ],
            ..Hello::default()
        };
        Self {
            client: Client::attached_with(V5, |_| {}, &hello),
            // Near the end of the packet ids, so that they come round.
            next: [32_760, 5],
            open: Default::default(),
            unreleased: Vec::new(),
            known: BTreeMap::new(),
        }
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::Session(qos) => self.send(0, *qos),
            Step::Group(qos) => self.send(1, *qos),
            Step::Read => self.read(),
            Step::Answer(index) => {
                let waiting: Vec<u16> = self
                    .known
                    .iter()
                    .filter(|(_, known)| **known != Known::Received)
                    .map(|(&id, _)| id)
                    .collect();
                if !waiting.is_empty() {
                    self.answer(*index.get(&waiting));
                }
            }
            Step::Release(index) => {
                if !self.unreleased.is_empty() {
                    let index = index.index(self.unreleased.len());
                    let (stream, seq) = self.unreleased.remove(index);
                    self.client.told(ToFront::Release {
                        source: source(stream),
                        seq: Seq(seq),
                        packet_id: None,
                    });
                }
            }
            Step::Pass(ms) => self.client.passes(*ms),
        }
        self.take_outcomes();
    }

    fn send(&mut self, stream: usize, qos: QoS) {
        if self.open[stream].len() >= usize::from(WINDOW) {
            return;
        }
        let seq = self.next[stream];
        self.next[stream] += 1;
        self.open[stream].insert(seq);
        let to = match stream {
            0 => to_session(seq, qos),
            _ => to_group(seq, qos),
        };
        self.client.gets_stored(view("some/topic", qos, b"m"), &to);
    }

    fn read(&mut self) {
        for line in self.client.hears() {
            let id = |text: &str| -> u16 { text.split(' ').next().unwrap().parse().unwrap() };
            if let Some(rest) = line.strip_prefix("PUBREL ") {
                let before = self.known.insert(id(rest), Known::Pubrel);
                assert_eq!(before, Some(Known::Received), "PUBREL follows PUBREC");
            } else {
                let qos = if line.contains(" q2 ") {
                    QoS::ExactlyOnce
                } else {
                    QoS::AtLeastOnce
                };
                let id = id(line.split("id=").nth(1).unwrap());
                let before = self.known.insert(id, Known::Publish(qos));
                assert_eq!(before, None, "packet id {id} is under way already");
            }
            assert!(self.known.len() <= usize::from(WINDOW), "Receive Maximum");
        }
    }

    fn answer(&mut self, id: u16) {
        match self.known[&id] {
            Known::Publish(QoS::ExactlyOnce) => {
                self.known.insert(id, Known::Received);
                self.client.pubrecs(id);
            }
            Known::Publish(_) => {
                self.known.remove(&id);
                self.client.pubacks(id);
            }
            Known::Pubrel => {
                self.known.remove(&id);
                self.client.pubcomps(id);
            }
            Known::Received => {}
        }
    }

    fn take_outcomes(&mut self) {
        for line in self.client.effects() {
            if line.contains(" room ") {
                continue;
            }
            let stream = usize::from(line.starts_with("4: group"));
            let rest = line.split("outcome ").nth(1).expect("an outcome");
            let (range, kind) = rest.split_once(' ').unwrap();
            let (first, last) = range.split_once("..=").unwrap();
            for seq in first.parse::<u64>().unwrap()..=last.parse().unwrap() {
                assert!(self.open[stream].contains(&seq), "{line}: {seq} has ended");
                match kind {
                    "Received" => self.unreleased.push((stream, seq)),
                    "Done" => assert!(self.open[stream].remove(&seq)),
                    "Returned" => {
                        assert_eq!(stream, 1, "only groups can send elsewhere");
                        assert!(self.open[stream].remove(&seq));
                    }
                    other => panic!("{other}: nothing is skipped or rejected here"),
                }
            }
        }
    }
}

fn source(stream: usize) -> Source {
    match stream {
        0 => Source::Session,
        _ => Source::Group(GROUP),
    }
}

proptest! {
    /// v5 [MQTT-3.3.4-9], v5 [MQTT-2.2.1-4], v3 [MQTT-2.3.1-4], M31, M32
    #[test]
    fn any_order_of_deliveries_and_answers(steps in prop::collection::vec(step(), 1..200)) {
        let mut world = World::new();
        for step in &steps {
            world.step(step);
        }
        // Everybody answers all: nothing is left over.
        for _ in 0..100 {
            world.step(&Step::Read);
            let all: Vec<u16> = world.known.keys().copied().collect();
            for id in all {
                world.answer(id);
                world.take_outcomes();
            }
            for (stream, seq) in std::mem::take(&mut world.unreleased) {
                world.client.told(ToFront::Release {
                    source: source(stream),
                    seq: Seq(seq),
                    packet_id: None,
                });
            }
        }
        prop_assert!(world.open.iter().all(BTreeSet::is_empty), "{:?}", world.open);
        prop_assert!(world.known.is_empty());
    }
}
