//! Fences (M34): when everything that the shards matched before a moment is pushed and settled.

use courser_contract::{Fence, IndexToken, PartitionId, ShardId};
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

/// What follows the answers of all shards.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Passed {
    /// All of them are asked again, for this.
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
    left: u16,
    then: Option<Fence>,
}

/// A shard's fences: asked for here, and owed to others.
#[derive(Debug, Default)]
pub(crate) struct Fences {
    last: u64,
    asked: Vec<Asked>,
    owed: Vec<(FenceId, Fence, Marks)>,
}

impl Fences {
    pub(crate) fn ask(
        &mut self,
        me: ShardId,
        shards: u16,
        (partition, token): (PartitionId, IndexToken),
        fence: Fence,
    ) -> (FenceId, Fence) {
        self.last += 1;
        let id = FenceId {
            asker: me,
            number: self.last,
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
            left: shards,
            then,
        });
        (id, first)
    }

    /// A shard has answered. When it was the last: what follows.
    pub(crate) fn passed(&mut self, id: FenceId, shards: u16) -> Option<Passed> {
        let at = self.asked.iter().position(|asked| asked.id == id)?;
        let asked = &mut self.asked[at];
        asked.left -= 1;
        if asked.left > 0 {
            return None;
        }
        if let Some(fence) = asked.then.take() {
            asked.left = shards;
            return Some(Passed::Again(fence));
        }
        let asked = self.asked.remove(at);
        Some(Passed::Wholly(asked.partition, asked.token))
    }

    pub(crate) fn owe(&mut self, id: FenceId, fence: Fence, marks: Marks) {
        self.owed.push((id, fence, marks));
    }

    /// Takes out the fences whose marks are all passed.
    pub(crate) fn settle(
        &mut self,
        link_passed: impl Fn(usize, u64) -> bool,
        settled: impl Fn(PartitionId, u64) -> bool,
        applied: impl Fn(PartitionId, &mut Proposed) -> bool,
    ) -> Vec<(FenceId, Fence)> {
        let mut passed = Vec::new();
        self.owed.retain_mut(|(id, fence, marks)| {
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
                passed.push((*id, *fence));
            }
            open
        });
        passed
    }
}
