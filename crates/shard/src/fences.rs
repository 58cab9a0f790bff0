//! Fences (M34): when everything that a shard matched before a moment is pushed and settled.
//!
//! Who asks: a partition, before it scans retained messages for a new subscription, or before a client id has its next connection. Every shard
//! answers once
//! - each peer has handled all batches that were gathered before the question (that covers QoS 0 and appends to volatile
//!   partitions, which nobody answers; what the shard had told itself comes before the question, too), and
//! - each append that it had numbered is settled.
//!
//! For a new subscription that is the first round of two: by then every home has been told what was matched for it. In the second one a shard answers
//! once what its partitions forward to others is taken there, and then, as in the first one, what they sent to others without a number.
//!
//! A shard compares positions, so that a fence costs nothing while none is open.

use courser_contract::{AppendNumber, Fence, IndexToken, PartitionId, ShardId};
use courser_engine::Proposed;

/// Names a fence at the shard of its asker; the answers carry it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FenceId {
    /// Shard of the asker.
    pub asker: ShardId,
    /// Number there.
    pub number: u64,
}

/// How far a shard had come when a fence asked it. `M` is a place in what it has sent to a peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Watermarks<M> {
    /// For each peer with something under way: what must have come back.
    pub links: Vec<(ShardId, M)>,
    /// For each partition with unsettled appends: the first number that need not be settled.
    pub appends: Vec<(PartitionId, AppendNumber)>,
    /// What its partitions had proposed, for a fence with a cut: a message that begins in a partition was matched before (M36). What they
    /// forward, for one that waits for that (M34).
    pub proposed: Vec<(PartitionId, Proposed)>,
}

impl<M> Default for Watermarks<M> {
    fn default() -> Self {
        Self {
            links: Vec::new(),
            appends: Vec::new(),
            proposed: Vec::new(),
        }
    }
}

/// What follows the answers of all shards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passed {
    /// Every shard must be asked again, for this.
    Again(Fence),
    /// Whom to tell.
    Wholly(PartitionId, IndexToken),
}

/// A fence that was asked for here.
#[derive(Debug)]
struct Asked {
    id: FenceId,
    partition: PartitionId,
    token: IndexToken,
    /// Shards that have not answered.
    left: u16,
    /// The next round.
    then: Option<Fence>,
}

/// A shard's fences: those that its partitions asked for, and those that it still owes an answer.
#[derive(Debug)]
pub struct FenceBook<M> {
    me: ShardId,
    shards: u16,
    next: u64,
    /// Asked for here.
    asked: Vec<Asked>,
    /// Asked of this shard.
    owed: Vec<(FenceId, Fence, Watermarks<M>)>,
}

impl<M: Copy> FenceBook<M> {
    /// An empty book of shard `me`, one of `shards`.
    #[must_use]
    pub const fn new(me: ShardId, shards: u16) -> Self {
        Self {
            me,
            shards,
            next: 0,
            asked: Vec::new(),
            owed: Vec::new(),
        }
    }

    /// A partition of this shard asks: every shard, this one included, must be asked with what is returned.
    pub fn ask(
        &mut self,
        partition: PartitionId,
        token: IndexToken,
        fence: Fence,
    ) -> (FenceId, Fence) {
        self.next += 1;
        let id = FenceId {
            asker: self.me,
            number: self.next,
        };
        // Homes have been told what was matched before anybody asks what they forward.
        let (first, then) = match fence {
            Fence::Matched | Fence::Cut(_) => (fence, None),
            Fence::Forwarded => (Fence::Matched, Some(fence)),
        };
        self.asked.push(Asked {
            id,
            partition,
            token,
            left: self.shards,
            then,
        });
        (id, first)
    }

    /// One shard has answered. When it was the last: what follows.
    pub fn passed(&mut self, id: FenceId) -> Option<Passed> {
        let at = self.asked.iter().position(|asked| asked.id == id)?;
        let asked = &mut self.asked[at];
        asked.left -= 1;
        if asked.left > 0 {
            return None;
        }
        if let Some(fence) = asked.then.take() {
            asked.left = self.shards;
            return Some(Passed::Again(fence));
        }
        let asked = self.asked.remove(at);
        Some(Passed::Wholly(asked.partition, asked.token))
    }

    /// This shard is asked and stands at `watermarks`.
    pub fn owe(&mut self, id: FenceId, fence: Fence, watermarks: Watermarks<M>) {
        self.owed.push((id, fence, watermarks));
    }

    /// Whether an answer is owed.
    #[must_use]
    pub const fn owes(&self) -> bool {
        !self.owed.is_empty()
    }

    /// Calls `passed` for each owed fence whose marks have all been passed.
    pub fn settle(
        &mut self,
        link_passed: impl Fn(ShardId, M) -> bool,
        appends_settled: impl Fn(PartitionId, AppendNumber) -> bool,
        applied: impl Fn(PartitionId, &mut Proposed) -> bool,
        mut passed: impl FnMut(FenceId, Fence),
    ) {
        self.owed.retain_mut(|(id, fence, marks)| {
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
                passed(*id, *fence);
            }
            open
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settle(book: &mut FenceBook<u64>, floor: u64) -> Vec<u64> {
        let mut passed = Vec::new();
        book.settle(
            |_, _| true,
            |_, number| number.0 <= floor,
            |_, _| true,
            |id, _| passed.push(id.number),
        );
        passed
    }

    #[test]
    fn m34_an_asker_hears_once_all_shards_have_answered() {
        let mut book = FenceBook::<u64>::new(ShardId(1), 2);
        let mut ask = |partition, token| {
            let (id, fence) = book.ask(PartitionId(partition), IndexToken(token), Fence::Matched);
            assert_eq!(fence, Fence::Matched);
            id
        };
        let (id, other) = (ask(3, 7), ask(4, 8));
        let wholly = |partition, token| Passed::Wholly(PartitionId(partition), IndexToken(token));
        assert_eq!(book.passed(id), None);
        assert_eq!(book.passed(other), None);
        assert_eq!(book.passed(other), Some(wholly(4, 8)));
        assert_eq!(book.passed(id), Some(wholly(3, 7)));
        assert_eq!(
            book.passed(id),
            None,
            "an answer to a fence that is over is ignored"
        );
    }

    #[test]
    fn m34_what_is_forwarded_is_asked_for_once_homes_have_been_told() {
        let mut book = FenceBook::<u64>::new(ShardId(0), 2);
        let (id, first) = book.ask(PartitionId(3), IndexToken(7), Fence::Forwarded);
        assert_eq!(first, Fence::Matched);
        assert_eq!(book.passed(id), None);
        assert_eq!(book.passed(id), Some(Passed::Again(Fence::Forwarded)));
        assert_eq!(book.passed(id), None, "every shard is asked again");
        let wholly = Passed::Wholly(PartitionId(3), IndexToken(7));
        assert_eq!(book.passed(id), Some(wholly));
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
            let (id, fence) = book.ask(PartitionId(1), IndexToken(number), Fence::Matched);
            book.owe(id, fence, marks(number));
        }
        assert!(settle(&mut book, 4).is_empty());
        assert_eq!(settle(&mut book, 8), [1]);
        assert!(book.owes());
        assert_eq!(settle(&mut book, 9), [2]);
        assert!(!book.owes());
    }
}
