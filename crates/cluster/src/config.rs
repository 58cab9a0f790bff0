//! What a group is made of.

use courser_contract::{LogIndex, PartitionId, Term};
use courser_log::{HardState, RecoveredEntry, RecoveredPartition};

use crate::ids::NodeId;

/// Who is in a group.
#[derive(Clone, Debug)]
pub struct GroupConfig {
    /// Its partition.
    pub partition: PartitionId,
    /// This node.
    pub node: NodeId,
    /// The other members; none for a group of one.
    pub peers: Vec<NodeId>,
    /// Decides election timeouts. The same on all nodes or not: nodes differ by their numbers.
    pub seed: u64,
    /// Applied entries that are kept in memory for peers, in bytes of data; a group of one keeps none.
    pub cache_bytes: usize,
}

impl GroupConfig {
    /// A group of one.
    #[must_use]
    pub const fn alone(partition: PartitionId, node: NodeId, seed: u64) -> Self {
        Self {
            partition,
            node,
            peers: Vec::new(),
            seed,
            cache_bytes: 0,
        }
    }
}

/// What recovery found of a group's log. All of it is durable.
#[derive(Clone, Debug)]
pub struct Restored {
    /// Term and vote as last written; nothing: a new group.
    pub hard_state: HardState,
    /// Index and term of the checkpoint that the state was loaded from; zeros: none.
    pub snapshot: (LogIndex, Term),
    /// All entries above that index, dense. The shell does not apply them: they come out of `poll` as committed.
    pub entries: Vec<RecoveredEntry>,
}

impl Restored {
    /// A group that never was.
    #[must_use]
    pub const fn nothing() -> Self {
        Self {
            hard_state: HardState::NONE,
            snapshot: (LogIndex(0), Term(0)),
            entries: Vec::new(),
        }
    }
}

impl From<RecoveredPartition> for Restored {
    /// Of a partition without damage: a damaged one is set aside, and makes no group.
    fn from(found: RecoveredPartition) -> Self {
        let nothing = Self::nothing();
        Self {
            hard_state: found.hard_state,
            snapshot: found
                .checkpoint
                .map_or(nothing.snapshot, |at| (at.index, at.term)),
            entries: found.entries,
        }
    }
}

/// Recovery found what no log can hold; the partition is set aside.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RestoreError {
    /// Indexes are not dense above the checkpoint.
    #[error("entry {found} of the log follows entry {last}")]
    Gap {
        /// The last one in order.
        last: u64,
        /// The one that follows.
        found: u64,
    },
    /// Terms go back.
    #[error(
        "term {found} of entry {index} is below that of the entry before, or above the current term {current}"
    )]
    Term {
        /// Where.
        index: u64,
        /// Its term.
        found: u64,
        /// The term of the hard state.
        current: u64,
    },
    /// A vote for a node that cannot be.
    #[error("vote {vote} names no node")]
    Vote {
        /// What was read.
        vote: u64,
    },
}
