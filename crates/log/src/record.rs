//! What goes into the log.

use bytes::Bytes;
use courser_contract::{LogIndex, PartitionId, Term};

use crate::ids::{BatchNumber, SegmentNumber};

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
    /// Bytes of an entry at or below the checkpoint that are still needed, moved out of an older segment (M41).
    Kept {
        /// Whose.
        partition: PartitionId,
        /// Term of the entry.
        term: Term,
        /// Its place in the partition's log.
        index: LogIndex,
        /// Byte of the entry at which they begin.
        byte: u32,
        /// They.
        data: Bytes,
    },
    /// All that is needed of an older segment was written by [`Record::Kept`] before: it can be used again once this is synced.
    Cleaned {
        /// Which.
        segment: SegmentNumber,
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

/// What a head says of an older segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SegmentEnd {
    /// Its last batch.
    pub(crate) batch: BatchNumber,
    /// Checksum of its header, by which it is told from another one that had its number before; where nothing is left of it, that of the last one before
    /// of which something is. None: there is none, or a former version wrote this.
    pub(crate) crc: Option<u32>,
}

/// The entry at which a checkpoint's pieces are valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckpointAt {
    /// Its index.
    pub index: LogIndex,
    /// Its term.
    pub term: Term,
}
