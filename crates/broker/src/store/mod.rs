//! Where entries of durable partitions go until they are committed.
//!
//! A partition proposes an entry and goes on; the entry is applied once the store says that it is committed, in a later turn,
//! in the order of the proposals of that partition. What stands behind it is not the shard's business: nothing
//! ([`InMemory`]), or consensus and a log on a disk.

mod disk;
mod memory;

use bytes::Bytes;
use courser_contract::{PartitionId, Term};
use courser_log::CheckpointAt;

pub(crate) use disk::OnDisk;
pub(crate) use memory::InMemory;

/// What the store has for a partition.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Stored {
    /// An entry is committed; no log has numbered it.
    Unlogged(PartitionId, Bytes),
    /// An entry is committed at a place of the log, which has this term.
    Committed(PartitionId, CheckpointAt, Bytes),
    /// An entry of consensus itself is committed there: nothing to apply.
    Opened(PartitionId, CheckpointAt),
    /// This node leads the partition: everything before the term was handed over.
    Leads(PartitionId, Term),
    /// It no longer does.
    Follows(PartitionId),
}

impl Stored {
    /// Whose it is.
    #[inline]
    pub(crate) const fn partition(&self) -> PartitionId {
        match self {
            Self::Unlogged(id, _)
            | Self::Committed(id, ..)
            | Self::Opened(id, _)
            | Self::Leads(id, _)
            | Self::Follows(id) => *id,
        }
    }
}

/// Takes entries and says when they are committed.
pub(crate) trait Store {
    /// Takes an entry. It is never committed within this call.
    fn propose(&mut self, partition: PartitionId, entry: Bytes);

    /// Begins a turn: what was proposed in earlier turns may be committed in this one.
    fn begin_turn(&mut self);

    /// What has happened next, in order for each partition.
    fn next(&mut self) -> Option<Stored>;

    /// Ends a turn: what was proposed in it goes its way.
    fn end_turn(&mut self);

    /// Whether a turn would find something. To be asked again after the shard said that it is about to sleep.
    fn has_work(&self) -> bool;

    /// Whether nothing is on its way.
    fn is_quiet(&self) -> bool;
}

/// The store of a shard.
pub(crate) enum Stores {
    /// Nothing is kept.
    Memory(InMemory),
    /// A log on a disk.
    Disk(Box<OnDisk>),
}

impl Store for Stores {
    fn propose(&mut self, partition: PartitionId, entry: Bytes) {
        match self {
            Self::Memory(store) => store.propose(partition, entry),
            Self::Disk(store) => store.propose(partition, entry),
        }
    }

    fn begin_turn(&mut self) {
        match self {
            Self::Memory(store) => store.begin_turn(),
            Self::Disk(store) => store.begin_turn(),
        }
    }

    fn next(&mut self) -> Option<Stored> {
        match self {
            Self::Memory(store) => store.next(),
            Self::Disk(store) => store.next(),
        }
    }

    fn end_turn(&mut self) {
        match self {
            Self::Memory(store) => store.end_turn(),
            Self::Disk(store) => store.end_turn(),
        }
    }

    fn has_work(&self) -> bool {
        match self {
            Self::Memory(store) => store.has_work(),
            Self::Disk(store) => store.has_work(),
        }
    }

    fn is_quiet(&self) -> bool {
        match self {
            Self::Memory(store) => store.is_quiet(),
            Self::Disk(store) => store.is_quiet(),
        }
    }
}
