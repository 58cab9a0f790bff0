//! What lives tell of records: retained messages, target sets, forwards, and records that are in the log only, or lost.

use courser_contract::{Cut, Need, Recalled, Want};

use super::*;
use crate::record::Slot;

const TOPICS: u8 = 150;
const SETS: u8 = 3;
const DESTINATIONS: u8 = 3;

/// More of them than one step of the walk takes.
fn topic_of(topic: u8) -> String {
    format!("retained/{}", topic % TOPICS)
}

fn destination(to: u8) -> PartitionId {
    PartitionId(2 + u16::from(to % DESTINATIONS))
}

#[derive(Clone, Debug)]
pub(super) enum OfRecords {
    /// A topic gets a message, or none.
    Retain(u8, bool),
    /// That of a topic is over; or another one was.
    Expire(u8, bool),
    /// To streams by bits, so many times.
    DefineSet(u8, u8, u16),
    DropSet(u8),
    /// To a set, so many times.
    PublishSet(u8, u16),
    /// To destinations by bits, of a session or not.
    Forward(u8, bool),
    ForwardDone(u8, u16),
    Term,
    /// So many of them may be in memory.
    Hot(u8),
    /// From a share of those that are not on.
    Ask(u16, u16),
    /// Not those by bits.
    Answer(u8),
    TryAgain,
    GiveBack,
    LeaveBegun(u8, u8, bool),
    LeaveDone(u16),
    /// Out of a checkpoint, without entries by the bits of their numbers.
    Restart(u8),
}

pub(super) fn of_records() -> impl Strategy<Value = OfRecords> {
    let at = || any::<u8>();
    let count = || prop_oneof![4 => 1..4_u16, 1 => 600..1_400_u16];
    prop_oneof![
        4 => (at(), prop::bool::weighted(0.7)).prop_map(|(topic, keeps)| OfRecords::Retain(topic, keeps)),
        2 => (at(), any::<bool>()).prop_map(|(topic, other)| OfRecords::Expire(topic, other)),
        3 => (at(), at(), count()).prop_map(|(set, to, count)| OfRecords::DefineSet(set, to, count)),
        2 => at().prop_map(OfRecords::DropSet),
        2 => (at(), 1..3_u16).prop_map(|(set, count)| OfRecords::PublishSet(set, count)),
        4 => (at(), any::<bool>()).prop_map(|(to, of)| OfRecords::Forward(to, of)),
        3 => (at(), any::<u16>()).prop_map(|(to, seq)| OfRecords::ForwardDone(to, seq)),
        1 => Just(OfRecords::Term),
        3 => (0..3_u8).prop_map(OfRecords::Hot),
        3 => (any::<u16>(), 1..300_u16).prop_map(|(from, count)| OfRecords::Ask(from, count)),
        2 => prop_oneof![Just(0), at()].prop_map(OfRecords::Answer),
        1 => Just(OfRecords::TryAgain),
        1 => Just(OfRecords::GiveBack),
        3 => (at(), at(), any::<bool>()).prop_map(|(to, filter, ended)| OfRecords::LeaveBegun(to, filter, ended)),
        2 => any::<u16>().prop_map(OfRecords::LeaveDone),
        1 => at().prop_map(OfRecords::Restart),
    ]
}

/// One of some by a share of them.
fn share_of<T: Copy>(some: &[T], share: u16) -> Option<T> {
    some.get(some.len() * usize::from(share) / 65_536).copied()
}

impl World {
    pub(super) fn furnish_records(&mut self) {
        for topic in 0..TOPICS {
            self.retain(topic, b"kept");
        }
        self.define_set(0, 0b10_1010, 1_100);
        for to in 0..8 {
            self.forward(to, true);
        }
        self.leave(0, 0, true);
    }

    pub(super) fn of_records(&mut self, op: &OfRecords) {
        match *op {
            OfRecords::Retain(topic, keeps) => {
                self.retain(topic, if keeps { b"kept" } else { b"" });
            }
            OfRecords::Expire(topic, other) => self.expire(topic, other),
            OfRecords::DefineSet(set, to, count) => self.define_set(set, to, count),
            OfRecords::DropSet(set) => {
                let set = u32::from(set % SETS);
                if self.has_set(set) {
                    self.life.rare(Rare::SetDropped { set });
                }
            }
            OfRecords::PublishSet(set, count) => {
                let set = u32::from(set % SETS);
                if self.has_set(set) {
                    let message = Message::default();
                    (0..count).for_each(|_| self.life.message(Targets::Set(set), message));
                }
            }
            OfRecords::Forward(to, of) => self.forward(to, of),
            OfRecords::ForwardDone(to, share) => self.forward_done(destination(to), share),
            OfRecords::Term => {
                self.life.term += 1;
                self.life.rare(Rare::TermBegun {});
            }
            OfRecords::Hot(bytes) => {
                let bytes = [0, 500, usize::MAX][usize::from(bytes)];
                self.records().set_hot_max(bytes);
            }
            OfRecords::Ask(from, count) => self.ask(from, count),
            OfRecords::Answer(lost) => self.answer(lost),
            OfRecords::TryAgain => self.each_record(Records::try_again),
            OfRecords::GiveBack => self.each_record(Records::give_back),
            OfRecords::LeaveBegun(at, filter, ended) => self.leave(at, filter, ended),
            OfRecords::LeaveDone(share) => {
                let leaves = &self.life.partition.state.leaves;
                let requests: Vec<u64> = leaves.keys().copied().collect();
                if let Some(request) = share_of(&requests, share) {
                    self.life.rare(Rare::LeaveDone { request });
                }
            }
            OfRecords::Restart(lost) => {
                self.asked.clear();
                self.life.restart(|index| lost >> (index % 8) & 1 == 1);
                self.life.begin();
            }
        }
    }

    fn records(&mut self) -> &mut Records {
        &mut self.life.partition.state.records
    }

    fn each_record(&mut self, mut change: impl FnMut(&mut Records, Slot)) {
        let all: Vec<Slot> = self.records().iter().collect();
        all.into_iter()
            .for_each(|slot| change(self.records(), slot));
    }

    fn retain(&mut self, topic: u8, payload: &[u8]) {
        let streams = [self.sessions[pick(topic)]];
        let topic = topic_of(topic);
        let message = Message {
            topic: &topic,
            payload,
            is_kept: true,
            ..Message::default()
        };
        self.life.message_to(&streams, &[], message);
    }

    fn expire(&mut self, topic: u8, other: bool) {
        let topic = topic_of(topic);
        let state = &self.life.partition.state;
        if let Some(slot) = state.retained.get(&topic) {
            let address = state.records.address(slot);
            self.life.rare(Rare::RetainedExpired {
                topic: topic.into(),
                index: LogIndex(address.index - u64::from(other)),
                ordinal: address.ordinal,
            });
        }
    }

    fn has_set(&self, set: u32) -> bool {
        let sets = &self.life.partition.state.sets;
        sets.get(set as usize).is_some_and(Option::is_some)
    }

    /// The same streams again and again: whoever is in a set once is no other case.
    fn define_set(&mut self, set: u8, to: u8, count: u16) {
        let set = u32::from(set % SETS);
        let streams = self.chosen(to);
        if self.has_set(set) || streams.is_empty() {
            return;
        }
        let target = |at: u16| Target {
            stream: streams[usize::from(at) % streams.len()],
            qos: QoS::AtLeastOnce,
            retain: RetainMark::Set,
            identifiers: (at % 7 == 3).then(|| [u32::from(at)].into()),
        };
        let targets: Vec<Target> = (0..count).map(target).collect();
        self.life.rare(Rare::SetDefined { set, targets });
    }

    fn forward(&mut self, to: u8, of_session: bool) {
        let session = of_session.then(|| SessionUid(self.sessions[pick(to)]));
        let streams = self.chosen(to);
        self.life.message_to(&streams, &[], Message::default());
        for bit in (0..DESTINATIONS).filter(|bit| to >> bit & 1 == 1) {
            self.life.rare(Rare::Forward {
                to: destination(bit),
                keep_retained: to > 100,
                session,
                refusable: to.is_multiple_of(5),
                cut: Cut(to.into()),
            });
        }
    }

    fn forward_done(&mut self, to: PartitionId, share: u16) {
        let outbox = self.life.partition.state.outboxes.get(to);
        let waiting = outbox.map(|outbox| outbox.iter().map(|(seq, _)| seq).collect());
        let waiting: Vec<Seq> = waiting.unwrap_or_default();
        if let Some(seq) = share_of(&waiting, share) {
            self.life.rare(Rare::ForwardDone { to, seq });
        }
    }

    fn leave(&mut self, at: u8, filter: u8, ended: bool) {
        self.request += 1;
        self.life.rare(Rare::LeaveBegun {
            request: self.request,
            share: "g".into(),
            filter: filter_of(filter).into(),
            member: SessionUid(self.sessions[pick(at)]),
            ended,
            part: None,
        });
    }

    fn ask(&mut self, from: u16, count: u16) {
        let records = self.records();
        let cold: Vec<Slot> = records
            .iter()
            .filter(|it| records.is_unasked(*it))
            .collect();
        let from = cold.len() * usize::from(from) / 65_536;
        for slot in cold.into_iter().skip(from).take(count.into()) {
            let want = self.records().ask(slot);
            self.asked.push(want);
        }
    }

    fn answer(&mut self, lost: u8) {
        let mut recalled = Recalled {
            partition: config().id,
            bytes: Bytes::new(),
            records: Vec::new(),
            lost: Vec::new(),
            error: None,
        };
        let mut bytes = Vec::new();
        let is_lost = |at: usize| lost >> (at % 8) & 1 == 1;
        for (at, want) in std::mem::take(&mut self.asked).into_iter().enumerate() {
            let Want { index, byte, len } = want;
            if is_lost(at) {
                recalled.lost.push(Need { index, byte });
                continue;
            }
            let entry = &self.life.entries[index.0 as usize - 1];
            recalled.records.push((want, bytes.len() as u32));
            bytes.extend_from_slice(&entry[byte as usize..(byte + len) as usize]);
        }
        recalled.bytes = bytes.into();
        self.records().take_in(&recalled);
    }
}
