//! What groups want done.

use bytes::Bytes;
use courser_cluster::{
    Consensus, ConsensusEffects, Group, NodeId, PeerMessage, Polled, Role, SnapshotDescriptor,
};
use courser_contract::{LogIndex, Term};
use courser_log::Record;

use super::truth::Truth;
use super::{Order, Waits};
use crate::bug::Bug;

/// What a group says to its shard.
#[derive(Debug)]
pub(super) enum Told {
    Committed(LogIndex, Bytes),
    Role(Role),
    Broken(String),
}

struct Fx<'a> {
    order: &'a mut Order,
    truth: &'a mut Truth,
    told: Vec<Told>,
    group: courser_contract::PartitionId,
    now: u64,
    bug: Option<Bug>,
}

impl ConsensusEffects for Fx<'_> {
    fn write(&mut self, number: u64, records: impl Iterator<Item = Record>) {
        self.order.marks.push(Waits::Group(self.group, number));
        for record in records {
            self.truth.written(&record);
            let is_vote = matches!(record, Record::HardState { .. });
            // Terms and votes are synced in every class (M44).
            self.order.sync |= is_vote;
            if !(is_vote && self.bug == Some(Bug::ForgetVote)) {
                self.order.records.push_back(record);
            }
        }
    }

    fn committed(&mut self, index: LogIndex, term: Term, entry: Bytes) {
        match self.truth.committed(index, term, &entry, self.now) {
            Ok(()) => self.told.push(Told::Committed(index, entry)),
            Err(text) => self.told.push(Told::Broken(text)),
        }
    }

    fn role(&mut self, role: Role) {
        self.truth.led(role, self.now);
        self.told.push(Told::Role(role));
    }

    fn send(&mut self, _: NodeId, message: PeerMessage) {
        unreachable!("a group of one speaks to nobody: {message:?}");
    }

    fn restore(&mut self, snapshot: SnapshotDescriptor) {
        unreachable!("nobody sends a group of one a checkpoint: {snapshot:?}");
    }

    fn fetch(&mut self, first: LogIndex, _: LogIndex) {
        unreachable!("a group of one reads nothing, least of all {first:?}");
    }
}

/// Polls until nothing is left.
pub(super) fn poll(
    group: &mut Group,
    order: &mut Order,
    truth: &mut Truth,
    (now, bug): (u64, Option<Bug>),
) -> Vec<Told> {
    let mut fx = Fx {
        order,
        truth,
        told: Vec::new(),
        group: group.partition(),
        now,
        bug,
    };
    while group.poll(&mut fx) == Polled::More {}
    group.check();
    fx.told
}
