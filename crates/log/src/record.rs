//! What goes into the log.

use bytes::Bytes;
use courser_contract::{LogIndex, PartitionId, Term};

/// One thing that a partition wants on the disk. Data is shared with whoever made it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// A step of the partition's log. One of an index that is there already replaces it and all above it.
    Entry {
        /// Whose.
        partition: PartitionId,
        /// Term of the leader that proposed it.
        term: Term,
        /// Its place in the partition's log.
        index: LogIndex,
        /// What it says; the log does not look.
        data: Bytes,
    },
    /// What consensus must not forget; the last one counts.
    HardState {
        /// Whose.
        partition: PartitionId,
        /// Current term.
        term: Term,
        /// Whom this node voted for in that term; 0 is nobody.
        vote: u64,
        /// Known to be committed.
        commit: LogIndex,
    },
}

/// The last [`Record::HardState`] of a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HardState {
    /// Current term.
    pub term: Term,
    /// Whom this node voted for in that term; 0 is nobody.
    pub vote: u64,
    /// Known to be committed.
    pub commit: LogIndex,
}

impl HardState {
    /// Of a partition that never had one.
    pub const NONE: Self = Self {
        term: Term(0),
        vote: 0,
        commit: LogIndex(0),
    };
}

impl Default for HardState {
    fn default() -> Self {
        Self::NONE
    }
}

/// The entry at which a checkpoint's pieces are valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckpointAt {
    /// Its index.
    pub index: LogIndex,
    /// Its term.
    pub term: Term,
}
