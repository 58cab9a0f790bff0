//! Fences (M34): when everything that the shards matched before a moment is pushed and settled.

use courser_contract::{IndexToken, PartitionId, ShardId};
use courser_engine::Proposed;

/// Names a fence at the shard of its asker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FenceId {
    pub(crate) asker: ShardId,
    pub(crate) number: u64,
}

/// How far a shard had come when it was asked.
#[derive(Clone, Debug, Default)]
pub(crate) struct Marks {
    /// Batches that a peer must have handled.
    pub(crate) links: Vec<(usize, u64)>,
    /// Numbers below which all must be settled.
    pub(crate) appends: Vec<(PartitionId, u64)>,
    /// What partitions had proposed, for a fence with a cut (M36), or what goes on to others (M34).
    pub(crate) proposed: Vec<(PartitionId, Proposed)>,
}

/// A shard's fences: asked for here, and owed to others.
#[derive(Debug, Default)]
pub(crate) struct Fences {
    last: u64,
    asked: Vec<(FenceId, PartitionId, IndexToken, u16)>,
    owed: Vec<(FenceId, Marks)>,
}

impl Fences {
    pub(crate) fn ask(
        &mut self,
        me: ShardId,
        shards: u16,
        partition: PartitionId,
        token: IndexToken,
    ) -> FenceId {
        self.last += 1;
        let id = FenceId {
            asker: me,
            number: self.last,
        };
        self.asked.push((id, partition, token, shards));
        id
    }

    /// A shard has answered. When it was the last: whom to tell.
    pub(crate) fn passed(&mut self, id: FenceId) -> Option<(PartitionId, IndexToken)> {
        let at = self.asked.iter().position(|(asked, ..)| *asked == id)?;
        self.asked[at].3 -= 1;
        if self.asked[at].3 > 0 {
            return None;
        }
        let (_, partition, token, _) = self.asked.remove(at);
        Some((partition, token))
    }

    pub(crate) fn owe(&mut self, id: FenceId, marks: Marks) {
        self.owed.push((id, marks));
    }

    /// Takes out the fences whose marks are all passed.
    pub(crate) fn settle(
        &mut self,
        link_passed: impl Fn(usize, u64) -> bool,
        settled: impl Fn(PartitionId, u64) -> bool,
        applied: impl Fn(PartitionId, &mut Proposed) -> bool,
    ) -> Vec<FenceId> {
        let mut passed = Vec::new();
        self.owed.retain_mut(|(id, marks)| {
            marks.links.retain(|&(peer, mark)| !link_passed(peer, mark));
            marks
                .appends
                .retain(|&(partition, number)| !settled(partition, number));
            marks
                .proposed
                .retain_mut(|(partition, proposed)| !applied(*partition, proposed));
            let open =
                !marks.links.is_empty() || !marks.appends.is_empty() || !marks.proposed.is_empty();
            if !open {
                passed.push(*id);
            }
            open
        });
        passed
    }
}
