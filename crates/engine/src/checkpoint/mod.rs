//! Checkpoints (M42): the state as it is at one place of the log, written a slice at a time while entries go on being applied,
//! and read back.
//!
//! A checkpoint begins between two entries. From then on each part of the state is written once, as it was at that moment:
//! by the walk, which goes over everything in slices ([`Partition::take_checkpoint_piece`]), or just before a fact changes the
//! part for the first time, whichever comes first. What has been written, or came into being later, carries the number of
//! the checkpoint, so that asking costs one comparison; while no checkpoint is under way a fact costs one branch more.
//!
//! | | what a fact writes of it first | what the walk writes at a time |
//! |---|---|---|
//! | head of a session or a group | all, some 50 bytes and its names | the same |
//! | lists of theirs ([`items`]) | the items that change | 1 KiB |
//! | streams ([`streams`]) | references that end; of what is appended nothing | eight names |
//! | what is gone ([`gone`]) | nothing | as above |
//!
//! A checkpoint names records by address and holds none of them: their bytes stay in the log, in the entries that
//! [`CheckpointEnd::live`] names. [`Restore`] asks for those entries, copies what lives out of them, and makes a partition to
//! which the entries behind the checkpoint are applied as always. Counts, indexes and how often a record is needed are made
//! anew. The leader's memory is in no checkpoint.
//!
//! # What waits for whom
//! The pieces may be written as they come; the manifest that makes them a checkpoint is written once they are synced, and
//! the log as well up to [`CheckpointEnd::index`].
//!
//! # Cost
//! Origins and inbox are written in one go at the beginning, since the next message changes them: some bytes for each shard
//! of each node and for each partition, unless a publisher has gaps. An entry pays for what it changes.

mod before;
mod entry_set;
mod gone;
mod items;
mod needs;
mod owners;
mod restore;
mod save;
mod streams;
mod unit;
mod walk;

use std::collections::BTreeSet;

use bytes::Bytes;
use courser_contract::{LogIndex, Term};

pub use self::{
    entry_set::EntrySet,
    needs::{CheckpointNeeds, NeededRecords},
    restore::{Restore, RestoreError, Restored, later_checkpoint},
    unit::STATE_VERSION,
};
use self::{gone::Gone, items::Item, unit::PIECE_BYTES, walk::Walk};
pub(crate) use self::{
    items::Saved,
    save::Saving,
    unit::{AddressReader, Addresses, Names},
};
use crate::Partition;

/// A part of a checkpoint, to be written behind those before it.
#[derive(Clone, Debug)]
pub struct CheckpointPiece {
    /// At most [`CheckpointPiece::BYTES_MAX`]; only the last one of a checkpoint has fewer.
    pub bytes: Bytes,
}

impl CheckpointPiece {
    /// Bytes of a piece.
    pub const BYTES_MAX: usize = PIECE_BYTES;
}

/// A checkpoint whose pieces have all been taken.
#[derive(Clone, Debug)]
pub struct CheckpointEnd {
    /// The last entry that is in it.
    pub index: LogIndex,
    /// The term of that entry.
    pub term: Term,
    /// Entries up to there that hold records which the checkpoint names.
    pub live: EntrySet,
    /// Bytes of all pieces.
    pub bytes: u64,
}

/// What a checkpoint had gathered that was given up: up to some megabytes in as many blocks of memory as there are words of entries, and items of what is
/// gone. So it is to be dropped where there is time for it, which may be another thread.
#[derive(Debug)]
pub struct AbandonedCheckpoint {
    _entries: EntrySet,
    _apart: BTreeSet<Item>,
    _gone: Vec<Gone>,
}

const _: () = {
    const fn is_for_any_thread<T: Send>() {}
    is_for_any_thread::<AbandonedCheckpoint>();
};

/// From the number of a checkpoint to that of the next one: the odd ones say where streams ended (`Stream::note_end`).
const NUMBER_STEP: u32 = 2;

impl Partition {
    /// Begins a checkpoint of what is applied now. False: one is under way.
    pub fn begin_checkpoint(&mut self) -> bool {
        if self.state.saving.is_some() {
            return false;
        }
        self.state.saved += NUMBER_STEP;
        self.state.spare.saved = self.state.saved;
        let saving = Saving::begin(&self.state, self.state.saved);
        self.state.saving = Some(Box::new(saving));
        true
    }

    /// Goes on with the checkpoint, until about `budget` bytes more are written or a piece is full, and takes a piece that is.
    /// None: no piece is ready, or none is left; [`checkpoint_end`](Self::checkpoint_end) tells. A byte costs about a
    /// nanosecond; looking at something that has been written counts as 16, naming a
    /// record, which takes a look at it, as 4.
    pub fn take_checkpoint_piece(&mut self, budget: usize) -> Option<CheckpointPiece> {
        let mut saving = self.state.saving.take()?;
        if !saving.output.has_full() {
            saving.walk_on(&mut self.state, budget);
        }
        let bytes = saving.output.take_full().or_else(|| match saving.walk {
            Walk::Done => saving.output.take_rest(),
            Walk::Sets(_)
            | Walk::Sessions(..)
            | Walk::Groups(..)
            | Walk::Retained(_)
            | Walk::Outboxes(..)
            | Walk::Leaves(_) => None,
        });
        self.state.saving = Some(saving);
        bytes.map(|bytes| CheckpointPiece { bytes })
    }

    /// The end of the checkpoint, once its last piece has been taken: after it another one may begin. None: it goes on, or
    /// there is none.
    pub fn checkpoint_end(&mut self) -> Option<CheckpointEnd> {
        let saving = self.state.saving.as_ref()?;
        if saving.walk != Walk::Done || saving.output.waiting() > 0 {
            return None;
        }
        let saving = self.state.saving.take()?;
        Some(CheckpointEnd {
            index: LogIndex(saving.index),
            term: saving.term,
            live: saving.needed.entries,
            bytes: saving.output.bytes,
        })
    }

    /// Gives up the checkpoint that is under way, if there is one; with what that had gathered.
    pub fn cancel_checkpoint(&mut self) -> Option<AbandonedCheckpoint> {
        let saving = self.state.saving.take()?;
        Some(saving.abandon())
    }

    /// Bytes of the checkpoint under way that wait to be taken: entries may write them faster than they are taken, and they
    /// count against the memory budget (M42).
    #[must_use]
    pub fn checkpoint_bytes(&self) -> usize {
        let saving = self.state.saving.as_ref();
        saving.map_or(0, |saving| saving.waiting())
    }

    /// Plants a bug: forwards that were taken before are not known any more. For tests that must find it.
    #[cfg(feature = "planted")]
    pub fn plant_forgotten_inbox(&mut self) {
        self.state.inbox = Default::default();
    }

    /// Plants a bug in the checkpoint under way: what changes is written as it is after the change, so that pieces are valid
    /// at different places of the log. For tests that must find it.
    #[cfg(feature = "planted")]
    pub fn plant_late_pieces(&mut self) {
        if let Some(saving) = &mut self.state.saving {
            saving.plant_late();
        }
    }
}

impl Saving {
    /// Goes on, and writes the last unit behind all others.
    fn walk_on(&mut self, state: &mut crate::state::State, budget: usize) {
        if self.walk == Walk::Done {
            return;
        }
        self.walk(state, budget);
        if self.walk == Walk::Done {
            self.end();
        }
    }

    fn abandon(self) -> AbandonedCheckpoint {
        AbandonedCheckpoint {
            _entries: self.needed.entries,
            _apart: self.apart,
            _gone: self.gone,
        }
    }

    #[cfg(feature = "planted")]
    fn plant_late(&mut self) {
        self.late = true;
    }
}

#[cfg(test)]
mod tests;
