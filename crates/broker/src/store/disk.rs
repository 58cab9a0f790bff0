//! Consensus and the log: a group for each durable partition of a shard, and one order a turn for the log writer.
//!
//! ```text
//! propose ─▶ group ──records──▶ order ─▶ writer ─▶ sync ─▶ answer ─▶ group ─▶ committed entries ─▶ partition
//!                    end_turn                            begin_turn
//! ```
//! A group is polled when something happened to it: at the beginning of a turn those of answered orders, so that what they
//! commit is applied in the same turn, and at its end those with proposals. Nothing is done for a group that sleeps.

use std::collections::VecDeque;

use bytes::Bytes;
use courser_cluster::{
    Consensus, ConsensusEffects, Group, NodeId, PeerMessage, Polled, Role, SnapshotDescriptor,
};
use courser_contract::{Class, LogIndex, PartitionId, Term};
use courser_log::{BatchNumber, CheckpointAt, Record, Synced};

use super::{Store, Stored};
use crate::slots::Places;
use crate::stations::{Checkpointed, Mark, Order, OrderSender};

/// A group and what the store keeps of it.
struct Grouped {
    group: Group,
    /// Whether it is in the list of those that are to be polled.
    dirty: bool,
}

/// See the module.
pub(crate) struct OnDisk {
    places: Places,
    /// By place on the shard. A partition whose group is not there yet proposes nothing.
    groups: Vec<Option<Grouped>>,
    /// Places of groups to which something happened.
    dirty: VecDeque<usize>,
    link: OrderSender,
    /// What gathers in a turn for durable partitions.
    durable: Order,
    /// The same for relaxed ones, which wait for no sync (M1).
    relaxed: Order,
    /// What the log may forget, and whether it is to say how far it is synced. Without a record, so that it is answered also where records have no
    /// room: that is how they get some (M47).
    question: Order,
    /// What groups have handed over and the shard has not taken.
    ready: VecDeque<Stored>,
    /// What was written and what was synced at the last answer.
    log: Option<(BatchNumber, Synced)>,
}

impl OnDisk {
    /// Without groups.
    pub(crate) fn new(places: Places, link: OrderSender) -> Self {
        Self {
            places,
            groups: Vec::new(),
            dirty: VecDeque::new(),
            link,
            durable: Order::of(Mark::Synced),
            relaxed: Order::of(Mark::Written),
            question: Order::of(Mark::Synced),
            ready: VecDeque::new(),
            log: None,
        }
    }

    /// Takes the group of a partition of this shard; it stands for election at the end of this turn.
    pub(crate) fn add(&mut self, group: Group) {
        let place = self.places.on_shard(group.partition());
        if place >= self.groups.len() {
            self.groups.resize_with(place + 1, || None);
        }
        self.groups[place] = Some(Grouped {
            group,
            dirty: false,
        });
        self.touch(place);
    }

    /// Bytes that are on their way to the disk.
    pub(crate) const fn backlog_bytes(&self) -> usize {
        self.link.away_bytes() + self.durable.bytes + self.relaxed.bytes
    }

    /// Bytes of what is new that the shard may let in: its part of what the disk has above the reserve, without what is on its way there.
    pub(crate) fn room_left(&self) -> u64 {
        self.link.left(self.durable.bytes + self.relaxed.bytes)
    }

    /// Has the writer look at its disk.
    pub(crate) fn wake_writer(&self) {
        self.link.wake_writer();
    }

    /// A checkpoint is durable: the group and the log forget what is below it.
    pub(crate) fn checkpointed(&mut self, checkpoint: Checkpointed) {
        let place = self.places.on_shard(checkpoint.partition);
        if let Some(Some(grouped)) = self.groups.get_mut(place) {
            grouped.group.compact(checkpoint.at.index);
        }
        self.question.checkpoints.push(checkpoint);
    }

    /// Where all that was committed so far is written.
    pub(crate) fn written(&self) -> BatchNumber {
        self.log.map_or(BatchNumber(0), |(written, _)| written)
    }

    /// Asks how far the log is synced; the answer brings the proof for all that is written by then.
    pub(crate) fn ask_synced(&mut self) {
        self.question.sync = true;
    }

    /// The proof that all up to `batch` is synced, once an answer has brought it.
    pub(crate) fn synced_to(&self, batch: BatchNumber) -> Option<Synced> {
        self.log
            .map(|(_, synced)| synced)
            .filter(|synced| synced.batch() >= batch)
    }

    fn touch(&mut self, place: usize) {
        if let Some(Some(grouped)) = self.groups.get_mut(place)
            && !grouped.dirty
        {
            grouped.dirty = true;
            self.dirty.push_back(place);
        }
    }

    /// Polls the groups to which something happened, once each. One with more to say stays for the next turn.
    fn poll(&mut self) {
        for _ in 0..self.dirty.len() {
            let Some(place) = self.dirty.pop_front() else {
                break;
            };
            let grouped = self.groups[place]
                .as_mut()
                .expect("a group stays for the life of its shard");
            grouped.dirty = false;
            let order = match self.places.class_of(grouped.group.partition()) {
                Class::Durable | Class::Volatile => &mut self.durable,
                Class::Relaxed => &mut self.relaxed,
            };
            let polled = grouped.group.poll(&mut Effects {
                partition: grouped.group.partition(),
                place: place as u16,
                order,
                ready: &mut self.ready,
            });
            match polled {
                Polled::Quiet => {}
                Polled::More => self.touch(place),
            }
        }
    }
}

impl Store for OnDisk {
    fn propose(&mut self, partition: PartitionId, entry: Bytes) {
        let place = self.places.on_shard(partition);
        if let Some(Some(grouped)) = self.groups.get_mut(place)
            && grouped.group.propose(entry).is_ok()
        {
            self.touch(place);
        }
    }

    fn begin_turn(&mut self) {
        while let Some(order) = self.link.next_done() {
            self.log = order.log;
            for &(place, number) in &order.groups {
                let place = usize::from(place);
                if let Some(Some(grouped)) = self.groups.get_mut(place) {
                    grouped.group.persisted(number);
                    self.touch(place);
                }
            }
            self.link.keep(order);
        }
        // What was handed over and not taken comes first: nothing more is asked for until then.
        if self.ready.is_empty() {
            self.poll();
        }
    }

    fn next(&mut self) -> Option<Stored> {
        self.ready.pop_front()
    }

    fn end_turn(&mut self) {
        self.poll();
        self.link
            .tell_ordered(self.durable.bytes + self.relaxed.bytes);
        self.link.send(&mut self.durable);
        self.link.send(&mut self.relaxed);
        self.link.send(&mut self.question);
    }

    fn has_work(&self) -> bool {
        !self.ready.is_empty() || !self.dirty.is_empty() || self.link.has_answer()
    }

    fn is_quiet(&self) -> bool {
        !self.has_work()
            && self.durable.is_empty()
            && self.relaxed.is_empty()
            && self.question.is_empty()
            && self.link.away() == 0
    }
}

/// What one group hands over.
struct Effects<'a> {
    partition: PartitionId,
    place: u16,
    order: &'a mut Order,
    ready: &'a mut VecDeque<Stored>,
}

impl ConsensusEffects for Effects<'_> {
    fn write(&mut self, number: u64, records: impl Iterator<Item = Record>) {
        for record in records {
            self.order.push(record);
        }
        self.order.groups.push((self.place, number));
    }

    fn committed(&mut self, index: LogIndex, term: Term, entry: Bytes) {
        let at = CheckpointAt { index, term };
        let stored = Stored::Committed(self.partition, at, entry);
        self.ready.push_back(stored);
    }

    fn opened(&mut self, index: LogIndex, term: Term) {
        let at = CheckpointAt { index, term };
        self.ready.push_back(Stored::Opened(self.partition, at));
    }

    fn role(&mut self, role: Role) {
        self.ready.push_back(match role {
            Role::Leader(term) => Stored::Leads(self.partition, term),
            Role::Follower => Stored::Follows(self.partition),
        });
    }

    fn send(&mut self, _to: NodeId, _message: PeerMessage) {
        unreachable!("a group of one has no peers");
    }

    fn restore(&mut self, _snapshot: SnapshotDescriptor) {
        unreachable!("a group of one is sent no snapshots");
    }

    fn fetch(&mut self, _first: LogIndex, _last: LogIndex) {
        unreachable!("a group of one has nobody who lags behind");
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use courser_log::LiveEntries;

    use super::*;
    use crate::slots::Relaxed;
    use crate::stations::orders;

    /// In one order with a record it would have to wait for room with it, which comes of what it tells.
    #[test]
    fn m47_what_frees_segments_is_told_without_a_record() {
        let (sender, mut receiver) = orders(Arc::default(), Arc::default());
        let places = Places::new(1, 1, Relaxed::Made);
        let mut store = OnDisk::new(places, sender);
        store.durable.push(Record::HardState {
            partition: PartitionId(1),
            term: Term(1),
            vote: 1,
            commit: LogIndex(0),
        });
        store.ask_synced();
        store.checkpointed(Checkpointed {
            partition: PartitionId(1),
            at: CheckpointAt {
                index: LogIndex(1),
                term: Term(1),
            },
            live: LiveEntries::default(),
        });
        assert!(!store.is_quiet());
        store.end_turn();
        let order = receiver.take().expect("the record");
        assert_eq!((order.records.len(), order.checkpoints.len()), (1, 0));
        let question = receiver.take().expect("what it tells and asks");
        assert!(question.records.is_empty() && question.sync);
        assert_eq!(question.checkpoints.len(), 1);
    }
}
