//! Fences (M34): when everything that a shard matched before a moment is pushed and settled.
//!
//! Who asks: a partition, before it scans retained messages for a new subscription, or before a client id has its next connection. Every shard
//! answers once
//! - each peer has handled all batches that were gathered before the question (that covers QoS 0 and appends to volatile
//!   partitions, which nobody answers), and
//! - each append that it had numbered is settled, and
//! - for a new subscription, what its partitions forward to others is taken there.
//!
//! A shard compares positions, so that a fence costs nothing while none is open.

use courser_contract::{AppendNumber, IndexToken, PartitionId, ShardId};
use courser_engine::Proposed;

use crate::rings::Mark;

/// Names a fence at the shard of its asker; the answers carry it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct FenceId {
    /// Shard of the asker.
    pub(crate) asker: ShardId,
    /// Number there.
    pub(crate) number: u64,
}

/// How far a shard had come when a fence asked it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Watermarks {
    /// For each peer with something under way: what must have come back.
    pub(crate) links: Vec<(ShardId, Mark)>,
    /// For each partition with unsettled appends: the first number that need not be settled.
    pub(crate) appends: Vec<(PartitionId, AppendNumber)>,
    /// What its partitions had proposed, for a fence with a cut: a message that begins in a partition was matched before (M36). What they
    /// forward, for one that waits for that (M34).
    pub(crate) proposed: Vec<(PartitionId, Proposed)>,
}

/// A shard's fences: those that its partitions asked for, and those that it still owes an answer.
#[derive(Debug)]
pub(crate) struct FenceBook {
    me: ShardId,
    shards: u16,
    next: u64,
    /// Asked for here: whom to tell and how many shards have not answered.
    asked: Vec<(FenceId, PartitionId, IndexToken, u16)>,
    /// Asked of this shard.
    owed: Vec<(FenceId, Watermarks)>,
}

impl FenceBook {
    /// An empty book of shard `me`, one of `shards`.
    #[must_use]
    pub(crate) const fn new(me: ShardId, shards: u16) -> Self {
        Self {
            me,
            shards,
            next: 0,
            asked: Vec::new(),
            owed: Vec::new(),
        }
    }

    /// A partition of this shard asks: every shard, this one included, must be asked with the id that is returned.
    pub(crate) fn ask(&mut self, partition: PartitionId, token: IndexToken) -> FenceId {
        self.next += 1;
        let id = FenceId {
            asker: self.me,
            number: self.next,
        };
        self.asked.push((id, partition, token, self.shards));
        id
    }

    /// One shard has answered. When it was the last: whom to tell.
    pub(crate) fn passed(&mut self, id: FenceId) -> Option<(PartitionId, IndexToken)> {
        let at = self.asked.iter().position(|(asked, ..)| *asked == id)?;
        self.asked[at].3 -= 1;
        if self.asked[at].3 > 0 {
            return None;
        }
        let (_, partition, token, _) = self.asked.remove(at);
        Some((partition, token))
    }

    /// This shard is asked and stands at `watermarks`.
    pub(crate) fn owe(&mut self, id: FenceId, watermarks: Watermarks) {
        self.owed.push((id, watermarks));
    }

    /// Whether an answer is owed.
    #[must_use]
    pub(crate) const fn owes(&self) -> bool {
        !self.owed.is_empty()
    }

    /// Calls `passed` for each owed fence whose marks have all been passed.
    pub(crate) fn settle(
        &mut self,
        link_passed: impl Fn(ShardId, Mark) -> bool,
        appends_settled: impl Fn(PartitionId, AppendNumber) -> bool,
        applied: impl Fn(PartitionId, &mut Proposed) -> bool,
        mut passed: impl FnMut(FenceId),
    ) {
        self.owed.retain_mut(|(id, marks)| {
            marks.links.retain(|&(peer, mark)| !link_passed(peer, mark));
            marks
                .appends
                .retain(|&(partition, number)| !appends_settled(partition, number));
            marks
                .proposed
                .retain_mut(|(partition, proposed)| !applied(*partition, proposed));
            let open =
                !marks.links.is_empty() || !marks.appends.is_empty() || !marks.proposed.is_empty();
            if !open {
                passed(*id);
            }
            open
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settle(book: &mut FenceBook, floor: u64) -> Vec<u64> {
        let mut passed = Vec::new();
        book.settle(
            |_, _| true,
            |_, number| number.0 <= floor,
            |_, _| true,
            |id| passed.push(id.number),
        );
        passed
    }

    #[test]
    fn m34_an_asker_hears_once_all_shards_have_answered() {
        let mut book = FenceBook::new(ShardId(1), 2);
        let id = book.ask(PartitionId(3), IndexToken(7));
        let other = book.ask(PartitionId(4), IndexToken(8));
        assert_eq!(book.passed(id), None);
        assert_eq!(book.passed(other), None);
        assert_eq!(book.passed(other), Some((PartitionId(4), IndexToken(8))));
        assert_eq!(book.passed(id), Some((PartitionId(3), IndexToken(7))));
        assert_eq!(
            book.passed(id),
            None,
            "an answer to a fence that is over is ignored"
        );
    }

    #[test]
    fn m34_a_shard_answers_once_what_it_had_numbered_is_settled() {
        let mut book = FenceBook::new(ShardId(0), 1);
        let marks = |number| Watermarks {
            links: Vec::new(),
            appends: vec![(PartitionId(2), AppendNumber(number))],
            proposed: Vec::new(),
        };
        for number in [5, 9] {
            let id = book.ask(PartitionId(1), IndexToken(number));
            book.owe(id, marks(number));
        }
        assert!(settle(&mut book, 4).is_empty());
        assert_eq!(settle(&mut book, 8), [1]);
        assert!(book.owes());
        assert_eq!(settle(&mut book, 9), [2]);
        assert!(!book.owes());
    }
}
