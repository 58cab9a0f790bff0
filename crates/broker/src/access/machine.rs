//! The state machine of partition 0: what other partitions have in streams and sessions, it has in tables (M2).
//!
//! It leads when its group does. The leader checks a change against the table with all that was proposed before it, so that a change is
//! either refused at once or cannot fail (M4). Answers leave in the order of the entries.
//!
//! A session of an earlier version belongs to a user by its name alone. So a new user waits until shards have ended the sessions of all that are gone:
//! it could have the name of one of these, and would inherit what that one was to get. What comes behind it waits with it, which keeps the order. A
//! start does not know whether the walk before it came to its end, and waits for one of its own.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use courser_access::{Command, Table, UserName};
use courser_contract::{LogIndex, Term, WallMs};
use courser_log::CheckpointAt;

use super::entry::{self, EntryError};
use super::shared::{Access, ChangeError, Submitted};

/// Bytes of a piece of a checkpoint.
const PIECE_BYTES: usize = 32 << 10;

/// See the module.
pub(crate) struct Metadata {
    access: Arc<Access>,
    /// All that is committed.
    table: Table,
    /// All that is proposed.
    ahead: Table,
    leads: bool,
    /// Asked for and not settled, in order.
    asked: VecDeque<Submitted>,
    /// Revision by which users went last, at the latest.
    went_at: u64,
    /// Proposed by this leader and not committed, in order.
    under_way: VecDeque<Submitted>,
    /// The last entry that was applied.
    pub(crate) applied: CheckpointAt,
    /// Bytes of entries that are in no checkpoint.
    pub(crate) unsaved_bytes: u64,
    /// What is left of the one that is being written.
    pieces: Option<VecDeque<Bytes>>,
}

impl Metadata {
    /// Empty.
    pub(crate) fn new(access: Arc<Access>) -> Self {
        Self {
            access,
            table: Table::default(),
            ahead: Table::default(),
            leads: false,
            asked: VecDeque::new(),
            went_at: 0,
            under_way: VecDeque::new(),
            applied: CheckpointAt {
                index: LogIndex(0),
                term: Term(0),
            },
            unsaved_bytes: 0,
            pieces: None,
        }
    }

    /// Takes the state of a checkpoint at an entry.
    ///
    /// # Errors
    /// When it is not for this version.
    pub(crate) fn restore(&mut self, bytes: &[u8], at: CheckpointAt) -> Result<(), EntryError> {
        self.table = entry::decode_checkpoint(bytes)?;
        self.ahead = self.table.clone();
        self.applied = at;
        Ok(())
    }

    /// Whether it takes changes.
    pub(crate) const fn serves(&self) -> bool {
        self.leads
    }

    /// This node leads: all that was committed before is applied (M5).
    pub(crate) fn handle_leader(&mut self) {
        self.leads = true;
        self.ahead = self.table.clone();
        self.went_at = self.table.revision();
        self.access.publish(&self.table);
    }

    /// It no longer does. What was proposed may still be committed.
    pub(crate) fn handle_follower(&mut self) {
        self.leads = false;
        for submitted in self.under_way.drain(..) {
            (submitted.answer)(Err(ChangeError::Unknown));
        }
    }

    /// Whether nothing waits here: then more may be [taken](Self::take).
    pub(crate) fn is_idle(&self) -> bool {
        self.asked.is_empty()
    }

    /// Takes what was asked for.
    pub(crate) fn take(&mut self, asked: VecDeque<Submitted>) {
        self.asked.extend(asked);
    }

    /// Whether there is one to settle.
    pub(crate) fn has_next(&self) -> bool {
        let next = self.asked.front();
        next.is_some_and(|next| !self.must_wait(&next.command))
    }

    /// The next one to settle.
    pub(crate) fn take_next(&mut self) -> Option<Submitted> {
        self.has_next().then(|| self.asked.pop_front())?
    }

    /// Whether a change makes users while there are sessions of others that are gone.
    fn must_wait(&self, command: &Command) -> bool {
        let is_new = |name: &UserName| self.ahead.user(name.as_str()).is_none();
        let makes_users = match command {
            Command::PutUser(name, _) => is_new(name),
            Command::Replace(table) => table.users().any(|(name, _)| is_new(name)),
            Command::RemoveUser(_)
            | Command::PutRole(..)
            | Command::RemoveRole(_)
            | Command::PutDomain(..) => false,
        };
        self.leads && makes_users && !self.access.has_swept(self.went_at)
    }

    /// Settles a change: the entry to be proposed. None: it is refused, and its sender knows.
    pub(crate) fn propose(&mut self, submitted: Submitted, wall: WallMs) -> Option<Bytes> {
        if !self.leads {
            (submitted.answer)(Err(ChangeError::Unavailable));
            return None;
        }
        if submitted
            .only_at
            .is_some_and(|revision| revision != self.ahead.revision())
        {
            (submitted.answer)(Err(ChangeError::Overtaken));
            return None;
        }
        if let Err(refusal) = self.ahead.check(&submitted.command) {
            (submitted.answer)(Err(refusal.into()));
            return None;
        }
        self.ahead.apply(&submitted.command);
        if let Command::RemoveUser(_) | Command::Replace(_) = submitted.command {
            self.went_at = self.ahead.revision();
        }
        let bytes = entry::encode(&submitted.command, wall.0);
        self.under_way.push_back(submitted);
        Some(bytes.into())
    }

    /// An entry is committed.
    ///
    /// # Errors
    /// When it is not for this version: then nothing may be served, since what it denies is not known.
    pub(crate) fn handle_committed(&mut self, bytes: &[u8]) -> Result<(), EntryError> {
        self.unsaved_bytes += bytes.len() as u64;
        let Some(command) = entry::decode(bytes)? else {
            return Ok(());
        };
        self.table.apply(&command);
        if !self.leads {
            return Ok(());
        }
        self.access.publish(&self.table);
        if let Some(submitted) = self.under_way.pop_front() {
            debug_assert!(
                submitted.command == command,
                "entries of a leader commit in their order"
            );
            (submitted.answer)(Ok(self.table.revision()));
        }
        Ok(())
    }

    /// Begins a checkpoint of what is applied.
    pub(crate) fn begin_checkpoint(&mut self) {
        let bytes = Bytes::from(entry::encode_checkpoint(&self.table));
        let starts = (0..bytes.len()).step_by(PIECE_BYTES);
        let pieces = starts.map(|at| bytes.slice(at..bytes.len().min(at + PIECE_BYTES)));
        self.pieces = Some(pieces.collect());
    }

    /// The next piece of it; none: that was all.
    pub(crate) fn take_checkpoint_piece(&mut self) -> Option<Bytes> {
        self.pieces.as_mut()?.pop_front()
    }

    /// Nothing is left of it to write, or it is given up.
    pub(crate) fn end_checkpoint(&mut self) {
        self.pieces = None;
    }
}

#[cfg(test)]
mod tests;
