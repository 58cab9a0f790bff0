//! The state machine of partition 0: what other partitions have in streams and sessions, it has in tables (M2).
//!
//! It leads when its group does. The leader checks a change against the table with all that was proposed before it, so that a change is
//! either refused at once or cannot fail (M4). Answers leave in the order of the entries.
//!
//! A session of an earlier version belongs to a user by its name alone. So a new user of the name of one that is gone waits until shards have ended
//! that one's sessions: it would inherit what waits in them. Only what changes the same user, or all of them, waits behind it. A start does not know
//! whether the walk before it came to its end: all new users wait for its own.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use courser_access::{Command, Table, UserName};
use courser_contract::{LogIndex, Term, WallMs};
use courser_log::CheckpointAt;

use super::entry::{self, EntryError};
use super::import::let_go;
use super::saving::Saving;
use super::shared::{Access, Change, ChangeError, Submitted};

/// Changes that may wait for the sessions of users that are gone.
const WAITING_MAX: usize = 1_000;

/// See the module.
pub(crate) struct Metadata {
    access: Arc<Access>,
    /// All that is committed.
    table: Table,
    /// All that is proposed.
    ahead: Table,
    leads: bool,
    /// Asked for and not looked at, in order.
    asked: VecDeque<Submitted>,
    waiting: Waiting,
    /// Revision by which any number of users went last: their names are not known here.
    went_at: u64,
    /// Those that went one by one, with the revision of that, while shards may have their sessions.
    gone: BTreeMap<UserName, u64>,
    /// Proposed by this leader and not committed, in order.
    under_way: VecDeque<Submitted>,
    /// The last entry that was applied.
    pub(crate) applied: CheckpointAt,
    /// Entries that are not applied, as the operator has ordered (M50).
    pub(crate) skips: BTreeSet<LogIndex>,
    /// Bytes of entries that are in no checkpoint.
    pub(crate) unsaved_bytes: u64,
    /// The checkpoint that is under way.
    saving: Option<Saving>,
}

/// Changes that wait for the end of a walk of a shard over its sessions, and those behind them that are about the same.
#[derive(Default)]
struct Waiting {
    changes: VecDeque<Submitted>,
    /// Users that they change.
    users: BTreeSet<UserName>,
    /// Whether one of them changes all users.
    all: bool,
    /// How many walks had ended when the first of them was looked at.
    walks: u64,
}

impl Waiting {
    /// Whether a walk has ended since they were looked at.
    fn is_over(&self, access: &Access) -> bool {
        !self.changes.is_empty() && self.walks != access.walks()
    }

    /// They are looked at again, before what came behind them.
    fn end(&mut self, asked: &mut VecDeque<Submitted>) {
        let mut changes = std::mem::take(self).changes;
        changes.append(asked);
        *asked = changes;
    }

    /// Whether a change is about the same as one that waits, and must not come before it.
    fn holds_up(&self, change: &Change) -> bool {
        match change {
            Change::One(Command::PutUser(name, _) | Command::RemoveUser(name)) => {
                self.all || self.users.contains(name)
            }
            Change::All(_) | Change::One(Command::Replace(_)) => !self.changes.is_empty(),
            Change::One(Command::PutRole(..) | Command::RemoveRole(_) | Command::PutDomain(..)) => {
                self.all
            }
        }
    }

    fn add(&mut self, submitted: Submitted, walks: u64) {
        match &submitted.change {
            Change::One(Command::PutUser(name, _) | Command::RemoveUser(name)) => {
                self.users.insert(name.clone());
            }
            Change::All(_) | Change::One(Command::Replace(_)) => self.all = true,
            Change::One(Command::PutRole(..) | Command::RemoveRole(_) | Command::PutDomain(..)) => {
            }
        }
        if self.changes.is_empty() {
            self.walks = walks;
        }
        self.changes.push_back(submitted);
    }
}

impl Metadata {
    /// Empty.
    pub(crate) fn new(access: Arc<Access>) -> Self {
        let empty = Table::default().within(access.room());
        Self {
            access,
            table: empty.clone(),
            ahead: empty,
            leads: false,
            asked: VecDeque::new(),
            waiting: Waiting::default(),
            went_at: 0,
            gone: BTreeMap::new(),
            under_way: VecDeque::new(),
            applied: CheckpointAt {
                index: LogIndex(0),
                term: Term(0),
            },
            skips: BTreeSet::new(),
            unsaved_bytes: 0,
            saving: None,
        }
    }

    /// Takes the state of a checkpoint at an entry.
    ///
    /// # Errors
    /// When it is not for this version.
    pub(crate) fn restore(&mut self, bytes: &[u8], at: CheckpointAt) -> Result<(), EntryError> {
        self.table = entry::decode_checkpoint(bytes)?.within(self.access.room());
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
        self.waiting.end(&mut self.asked);
        for submitted in self.under_way.drain(..) {
            (submitted.answer)(Err(ChangeError::Unknown));
        }
    }

    /// Whether there is room for more: then it may be [taken](Self::take).
    pub(crate) fn has_room(&self) -> bool {
        self.asked.is_empty() && self.waiting.changes.len() < WAITING_MAX
    }

    /// Takes what was asked for.
    pub(crate) fn take(&mut self, asked: VecDeque<Submitted>) {
        self.asked.extend(asked);
    }

    /// Whether there may be one to settle.
    pub(crate) fn has_next(&self) -> bool {
        !self.asked.is_empty() || self.waiting.is_over(&self.access)
    }

    /// The next one to settle.
    pub(crate) fn take_next(&mut self) -> Option<Submitted> {
        if self.waiting.is_over(&self.access) {
            self.waiting.end(&mut self.asked);
        }
        while let Some(next) = self.asked.pop_front() {
            // A walk that ends after this is one to look again for.
            let walks = self.access.walks();
            if !self.waiting.holds_up(&next.change) && !self.must_wait(&next.change) {
                return Some(next);
            }
            self.waiting.add(next, walks);
        }
        None
    }

    /// Whether a change makes users while shards may have sessions of others that had their names.
    fn must_wait(&self, change: &Change) -> bool {
        if !self.leads {
            return false;
        }
        match change {
            Change::One(Command::PutUser(name, _)) => {
                let went_at = self.gone.get(name).copied().unwrap_or(0);
                self.ahead.user(name.as_str()).is_none()
                    && !self.access.has_swept(went_at.max(self.went_at))
            }
            // There are as many users as may be, and few that are gone.
            Change::All(import) => {
                let comes_again = |name: &UserName| {
                    self.ahead.user(name.as_str()).is_none()
                        && import.after().user(name.as_str()).is_some()
                };
                let mut gone = self.gone.iter();
                (import.adds_users() && !self.access.has_swept(self.went_at))
                    || gone.any(|(name, went_at)| {
                        !self.access.has_swept(*went_at) && comes_again(name)
                    })
            }
            Change::One(
                Command::RemoveUser(_)
                | Command::PutRole(..)
                | Command::RemoveRole(_)
                | Command::Replace(_)
                | Command::PutDomain(..),
            ) => false,
        }
    }

    /// Users have gone by what is proposed.
    fn note_gone(&mut self, change: &Change) {
        let revision = self.ahead.revision();
        match change {
            Change::One(Command::RemoveUser(name)) => {
                let access = &self.access;
                self.gone.retain(|_, went_at| !access.has_swept(*went_at));
                self.gone.insert(name.clone(), revision);
            }
            Change::All(_) | Change::One(Command::Replace(_)) => self.went_at = revision,
            Change::One(
                Command::PutUser(..)
                | Command::PutRole(..)
                | Command::RemoveRole(_)
                | Command::PutDomain(..),
            ) => {}
        }
    }

    /// Settles a change: the entry to be proposed. None: it is refused, and its sender knows.
    pub(crate) fn propose(&mut self, mut submitted: Submitted, wall: WallMs) -> Option<Bytes> {
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
        let proposed = match &mut submitted.change {
            Change::One(command) => self.ahead.check(command).map_err(Into::into).map(|()| {
                self.ahead.apply(command);
                entry::encode(command, wall.0).into()
            }),
            // It was made out of what was committed at a revision, and nothing was proposed since.
            Change::All(import) if import.at() == self.ahead.revision() => {
                replace(&mut self.ahead, import.after().clone());
                Ok(import.propose(wall.0))
            }
            Change::All(_) => Err(ChangeError::Overtaken),
        };
        match proposed {
            Ok(entry) => {
                self.note_gone(&submitted.change);
                self.under_way.push_back(submitted);
                Some(entry)
            }
            Err(error) => {
                (submitted.answer)(Err(error));
                None
            }
        }
    }

    /// The table after an entry that this leader has proposed and that is committed; none: it is to be read.
    fn imported(&self, bytes: &[u8]) -> Option<&Table> {
        match &self.under_way.front()?.change {
            Change::All(import) if self.leads && import.is(bytes) => {
                assert_eq!(
                    import.at(),
                    self.table.revision(),
                    "entries of a leader commit in their order"
                );
                Some(import.after())
            }
            Change::All(_) | Change::One(_) => None,
        }
    }

    /// An entry is committed.
    ///
    /// # Errors
    /// When it is not for this version: then nothing may be served, since what it denies is not known.
    pub(crate) fn handle_committed(&mut self, bytes: &[u8]) -> Result<(), EntryError> {
        self.unsaved_bytes += bytes.len() as u64;
        if let Some(after) = self.imported(bytes).cloned() {
            replace(&mut self.table, after);
        } else {
            let Some(command) = entry::decode(bytes)? else {
                return Ok(());
            };
            self.table.apply(&command);
            let next = self.under_way.front().map(|next| &next.change);
            debug_assert!(
                next.is_none_or(|next| matches!(next, Change::One(mine) if *mine == command)),
                "entries of a leader commit in their order"
            );
        }
        if !self.leads {
            return Ok(());
        }
        self.access.publish(&self.table);
        if let Some(submitted) = self.under_way.pop_front() {
            (submitted.answer)(Ok(self.table.revision()));
        }
        Ok(())
    }

    /// An entry is committed, and is one of those that are not applied. What it says is not looked at.
    pub(crate) fn pass_over(&mut self, bytes: &[u8]) {
        self.unsaved_bytes += bytes.len() as u64;
        self.table.pass_over();
        if self.leads {
            self.access.publish(&self.table);
        }
    }

    /// Begins a checkpoint of what is applied.
    pub(crate) fn begin_checkpoint(&mut self) {
        self.saving = Some(Saving::new(&self.table));
    }

    /// Goes on with it for about so many bytes. None: no piece is ready, or none is left; [`end_checkpoint`](Self::end_checkpoint) tells.
    pub(crate) fn take_checkpoint_piece(&mut self, budget: usize) -> Option<Bytes> {
        self.saving.as_mut()?.take(budget)
    }

    /// Ends it if all its pieces are taken. Whether they are.
    pub(crate) fn end_checkpoint(&mut self) -> bool {
        let ended = self.saving.take_if(|saving| saving.is_given());
        let is_ended = ended.is_some();
        self.drop_saving(ended);
        is_ended
    }

    /// Gives it up, if one is under way.
    pub(crate) fn cancel_checkpoint(&mut self) {
        let given_up = self.saving.take();
        self.drop_saving(given_up);
    }

    /// It may be the last one that has the table from before an import.
    fn drop_saving(&self, saving: Option<Saving>) {
        if let Some(saving) = saving
            && !saving.table().shares_memory_with(&self.table)
        {
            let_go(saving);
        }
    }
}

/// Another table in the place of one, whose memory goes elsewhere.
fn replace(table: &mut Table, after: Table) {
    let_go(std::mem::replace(table, after));
}

#[cfg(test)]
mod tests;
