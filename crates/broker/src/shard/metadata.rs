//! Partition 0 on its shard: its entries, its changes, its checkpoints.

use bytes::Bytes;
use courser_contract::{PartitionId, Term};
use courser_engine::{AbandonedCheckpoint, EntrySet};
use courser_log::CheckpointAt;
use courser_memory::{Component, Scope};

use super::Shard;
use super::partitions::Owned;
use crate::access::Metadata;
use crate::causes::with_causes;
use crate::failpoint;
use crate::slots::Places;
use crate::stations::DiskFailure;
use crate::store::{Store, Stored};

/// Bytes of the table of users that one turn counts or makes: 58 µs, 115 at the most, of 100,000 users with a password on an Intel Xeon. With as few as of a
/// partition, whose records are looked at one by one, a large table would hold up the checkpoints behind it for minutes.
const TABLE_BYTES: usize = 16 << 10;

impl Shard {
    /// What the store has for partition 0.
    pub(super) fn handle_metadata(&mut self, stored: Stored) {
        let _scope = Scope::enter(Component::Access);
        let machine = self
            .metadata
            .as_mut()
            .expect("partition 0 is on the first shard");
        let done = match stored {
            Stored::Unlogged(_, entry) => machine.handle_committed(&entry),
            Stored::Committed(_, at, entry) => {
                machine.applied = at;
                if machine.skips.contains(&at.index) {
                    machine.pass_over(&entry);
                    return self.note_skipped(Places::METADATA, at.index);
                }
                self.hub.applying.entry = Some((Places::METADATA, at.index));
                failpoint::in_apply(&entry);
                let done = machine.handle_committed(&entry);
                self.hub.applying.entry = None;
                done
            }
            // It may have no entry of its own, and what is before this one would keep its segments for ever.
            Stored::Opened(_, at) => {
                machine.applied = at;
                Ok(())
            }
            Stored::Leads(..) => {
                machine.handle_leader();
                Ok(())
            }
            Stored::Follows(_) => {
                machine.handle_follower();
                Ok(())
            }
        };
        if let Err(error) = done {
            self.refuse_metadata("an entry", &error);
        }
    }

    /// What is on the disk about users and roles is not for this program: nothing is served, since what it denies is not known (I12).
    pub(super) fn refuse_metadata(&self, what: &str, error: &dyn std::error::Error) {
        let text = format!("{what} of partition 0: {}", with_causes(error));
        self.hub.disk_state().fail(DiskFailure::Refused(text));
    }

    /// Where nothing is kept it leads at once.
    pub(super) fn lead_metadata(&mut self) {
        if self.metadata.is_some() {
            self.handle_metadata(Stored::Leads(Places::METADATA, Term(1)));
        }
    }

    /// Proposes the changes that wait for nothing.
    pub(super) fn propose_changes(&mut self) {
        let Some(machine) = &mut self.metadata else {
            return;
        };
        let _scope = Scope::enter(Component::Access);
        if machine.has_room() && self.hub.access.process.is_asked() {
            machine.take(self.hub.access.process.take_asked());
        }
        while let Some(submitted) = machine.take_next() {
            if let Some(entry) = machine.propose(submitted, self.hub.now.wall) {
                self.store.propose(Places::METADATA, entry);
            }
        }
    }

    /// Whether a turn would find a change to propose.
    pub(super) fn has_change(&self) -> bool {
        self.metadata.as_ref().is_some_and(|machine| {
            machine.has_next() || (machine.has_room() && self.hub.access.process.is_asked())
        })
    }

    /// What checkpoints see at a place: partition 0 is where other shards have nothing with a log.
    pub(super) fn saveable(&mut self, place: usize) -> &mut dyn Saveable {
        match &mut self.metadata {
            Some(metadata) if place == Places::METADATA_PLACE => &mut **metadata,
            Some(_) | None => self.partitions.at(place),
        }
    }
}

/// A partition as checkpoints see it.
pub(super) trait Saveable {
    /// Which.
    fn id(&self) -> PartitionId;
    /// The last entry that was applied.
    fn applied(&self) -> CheckpointAt;
    /// Bytes of entries that were applied and are in no checkpoint.
    fn unsaved_bytes(&mut self) -> &mut u64;
    /// Begins one of what is applied; false when there is nothing to save.
    fn begin(&mut self) -> bool;
    /// Goes on for about so many bytes. A piece, if one is ready; none after the last, as `end` tells.
    fn take_piece(&mut self, bytes: usize) -> Option<Bytes>;
    /// After the last piece: entries below that are still needed.
    fn end(&mut self) -> Option<EntrySet>;
    /// It will not be written. What it had gathered is for whoever has time to free it.
    fn cancel(&mut self) -> Option<AbandonedCheckpoint>;
}

impl Saveable for Metadata {
    fn id(&self) -> PartitionId {
        Places::METADATA
    }

    fn applied(&self) -> CheckpointAt {
        self.applied
    }

    fn unsaved_bytes(&mut self) -> &mut u64 {
        &mut self.unsaved_bytes
    }

    fn begin(&mut self) -> bool {
        self.begin_checkpoint();
        true
    }

    fn take_piece(&mut self, bytes: usize) -> Option<Bytes> {
        self.take_checkpoint_piece(bytes.max(TABLE_BYTES))
    }

    fn end(&mut self) -> Option<EntrySet> {
        self.end_checkpoint().then(EntrySet::default)
    }

    fn cancel(&mut self) -> Option<AbandonedCheckpoint> {
        self.cancel_checkpoint();
        None
    }
}

impl Owned {
    fn partition(&mut self) -> &mut courser_engine::Partition {
        self.partition
            .as_mut()
            .expect("a partition is at home between calls")
    }
}

impl Saveable for Owned {
    fn id(&self) -> PartitionId {
        self.id
    }

    fn applied(&self) -> CheckpointAt {
        self.applied
    }

    fn unsaved_bytes(&mut self) -> &mut u64 {
        &mut self.unsaved_bytes
    }

    fn begin(&mut self) -> bool {
        self.partition().begin_checkpoint()
    }

    fn take_piece(&mut self, bytes: usize) -> Option<Bytes> {
        self.partition()
            .take_checkpoint_piece(bytes)
            .map(|piece| piece.bytes)
    }

    fn end(&mut self) -> Option<EntrySet> {
        self.partition().checkpoint_end().map(|end| end.live)
    }

    fn cancel(&mut self) -> Option<AbandonedCheckpoint> {
        self.partition().cancel_checkpoint()
    }
}

#[cfg(test)]
mod tests;
