//! What all threads share of users and roles.

use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::Duration;

use arc_swap::ArcSwap;
use courser_access::{Command, Limits, Refusal, Room, Table};
use courser_contract::ShardId;

use super::Quotas;
use super::import::{Import, let_go};
use super::kept::Kept;
use super::mailbox::Mailbox;
use crate::rings::Doze;

/// Changes that may wait at once.
const WAITING_MAX: usize = 1_000;

/// Why a change was not made, or is not known to be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChangeError {
    /// It says what cannot be.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The partition that keeps users and roles does not serve, or too many changes wait.
    #[error(
        "users and roles cannot be changed now: the broker is starting, stopping, or busy with other changes"
    )]
    Unavailable,
    /// The table has changed since the revision that it was made for.
    #[error("users and roles have just been changed by somebody else")]
    Overtaken,
    /// It was proposed and no answer came in time: it may be made later.
    #[error("no answer in time; the change may still be made")]
    Unknown,
}

type Answer = Box<dyn FnOnce(Result<u64, ChangeError>) + Send>;

/// What is to be changed.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "an operator's change: few wait at a time"
)]
pub(crate) enum Change {
    /// One thing: no [`Command::Replace`].
    One(Command),
    /// All of it.
    All(Box<Import>),
}

/// A change on its way to the leader of partition 0.
pub(crate) struct Submitted {
    pub(crate) change: Change,
    /// Only if this is still the last revision.
    pub(crate) only_at: Option<u64>,
    pub(crate) answer: Answer,
}

/// The door to users and roles: a copy to read, and the way of a change.
pub struct Access {
    table: ArcSwap<Table>,
    /// Of that copy. Shards compare it with what they have seen.
    revision: AtomicU64,
    /// What the settings say for those of whom the table says nothing. Held while the copy changes, which two may do at once.
    process: Mutex<Limits>,
    /// What there is memory for.
    room: Room,
    /// Whether partition 0 has told what there is.
    serves: AtomicBool,
    /// What clients have published of what they may.
    quotas: Quotas,
    /// Sessions that users keep.
    kept: Kept,
    inbox: Mailbox<Submitted>,
    /// By shard: the last revision of whose users it keeps no session of anybody else.
    swept: Vec<AtomicU64>,
    /// How often one of them has said so.
    walks: AtomicU64,
    /// Who sleeps, by shard.
    dozes: Vec<Arc<Doze>>,
}

impl fmt::Debug for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Access(revision {})", self.revision())
    }
}

impl Access {
    /// Without shards, and with settings that limit nobody.
    #[cfg(test)]
    pub(crate) fn alone() -> Self {
        Self::new(&[], Limits::default(), Room::default())
    }

    /// Nobody is known, and everybody has the limits of the settings, `process`; `dozes` are those of the shards.
    pub(crate) fn new(dozes: &[Arc<Doze>], process: Limits, room: Room) -> Self {
        Self {
            table: ArcSwap::from_pointee(Table::default().with_process(process).within(room)),
            room,
            process: Mutex::new(process),
            revision: AtomicU64::new(0),
            serves: AtomicBool::new(false),
            quotas: Quotas::default(),
            kept: Kept::default(),
            inbox: Mailbox::new(WAITING_MAX),
            swept: dozes.iter().map(|_| AtomicU64::new(0)).collect(),
            walks: AtomicU64::new(0),
            dozes: dozes.to_vec(),
        }
    }

    /// Users and roles now. Nobody before the start is over.
    #[must_use]
    pub fn table(&self) -> Arc<Table> {
        self.table.load_full()
    }

    /// What there is memory for.
    pub(crate) const fn room(&self) -> Room {
        self.room
    }

    /// Bytes that users and roles take, as they are proposed and as they are committed.
    pub(crate) fn bytes_held(&self) -> u64 {
        self.table.load().bytes_held() * 2
    }

    /// Number of the last change.
    #[must_use]
    pub fn revision(&self) -> u64 {
        self.revision.load(Ordering::Acquire)
    }

    /// Whether the table is known, so that an unknown user is one.
    #[must_use]
    pub fn serves(&self) -> bool {
        self.serves.load(Ordering::Acquire)
    }

    /// What clients have published of what they may.
    pub(crate) const fn quotas(&self) -> &Quotas {
        &self.quotas
    }

    /// How many sessions users keep.
    pub(crate) const fn kept(&self) -> &Kept {
        &self.kept
    }

    /// Makes a change; `answer` is called by a shard once it is committed, with the revision that it made, and must return at once.
    /// A change of everything is made ready here, some microseconds a user, for the table as it is now. Not to be called by a shard.
    pub fn change(
        &self,
        command: Command,
        answer: impl FnOnce(Result<u64, ChangeError>) + Send + 'static,
    ) {
        self.prepare(None, command, Box::new(answer));
    }

    /// The same for a change that was made out of the table of a revision: [`ChangeError::Overtaken`] if another one came before it,
    /// committed or still under way. So two that read, think and write never undo each other.
    pub fn change_at(
        &self,
        revision: u64,
        command: Command,
        answer: impl FnOnce(Result<u64, ChangeError>) + Send + 'static,
    ) {
        self.prepare(Some(revision), command, Box::new(answer));
    }

    fn prepare(&self, only_at: Option<u64>, command: Command, answer: Answer) {
        let change = match command {
            Command::Replace(new) => {
                let before = self.table();
                if only_at.is_some_and(|revision| revision != before.revision()) {
                    return answer(Err(ChangeError::Overtaken));
                }
                match Import::new(&before, *new) {
                    Ok(import) => Change::All(Box::new(import)),
                    Err(refusal) => return answer(Err(refusal.into())),
                }
            }
            Command::PutUser(..)
            | Command::RemoveUser(_)
            | Command::PutRole(..)
            | Command::RemoveRole(_)
            | Command::PutDomain(..) => Change::One(command),
        };
        self.submit(Submitted {
            change,
            only_at,
            answer,
        });
    }

    fn submit(&self, submitted: Submitted) {
        match self.inbox.put(submitted) {
            Ok(()) => {
                if let Some(doze) = self.dozes.first() {
                    doze.wake();
                }
            }
            Err(Submitted { answer, .. }) => answer(Err(ChangeError::Unavailable)),
        }
    }

    /// Makes a change and waits for it. Not to be called by a shard.
    ///
    /// # Errors
    /// [`ChangeError`]; [`ChangeError::Unknown`] when `timeout` is over.
    pub fn change_and_wait(&self, command: Command, timeout: Duration) -> Result<u64, ChangeError> {
        let (sender, receiver) = mpsc::sync_channel(1);
        self.change(command, move |result| {
            // Whoever waited may be gone.
            let _ = sender.try_send(result);
        });
        receiver
            .recv_timeout(timeout)
            .unwrap_or(Err(ChangeError::Unknown))
    }

    /// Whether changes wait. Cheap.
    pub(crate) fn is_asked(&self) -> bool {
        self.inbox.is_filled()
    }

    /// Takes the changes that wait.
    pub(crate) fn take_asked(&self) -> VecDeque<Submitted> {
        self.inbox.take()
    }

    /// A shard has ended all sessions of users that are gone at a revision.
    pub(crate) fn note_swept(&self, shard: ShardId, revision: u64) {
        if let Some(swept) = self.swept.get(usize::from(shard.0)) {
            swept.store(revision, Ordering::Release);
        }
        self.walks.fetch_add(1, Ordering::Release);
        if let Some(doze) = self.dozes.first() {
            doze.wake();
        }
    }

    /// Whether no shard has sessions of users that were gone at a revision.
    pub(crate) fn has_swept(&self, revision: u64) -> bool {
        let mut all = self.swept.iter();
        all.all(|swept| swept.load(Ordering::Acquire) >= revision)
    }

    /// How often a shard has come to the end of a walk over its sessions.
    pub(crate) fn walks(&self) -> u64 {
        self.walks.load(Ordering::Acquire)
    }

    /// The settings have other limits. The table is no newer by that: shards take it with the settings.
    pub(crate) fn set_process(&self, limits: Limits) {
        let mut process = self.process.lock().unwrap_or_else(PoisonError::into_inner);
        if *process != limits {
            *process = limits;
            let table = Table::clone(&self.table.load());
            self.table.store(Arc::new(table.with_process(limits)));
        }
    }

    /// Partition 0 has another table: all shards look at it in their next turn.
    pub(crate) fn publish(&self, table: &Table) {
        {
            let process = self.process.lock().unwrap_or_else(PoisonError::into_inner);
            let table = table.clone().with_process(*process).within(self.room);
            let shares_memory = table.shares_memory_with(&self.table.load());
            let before = self.table.swap(Arc::new(table));
            if !shares_memory {
                let_go(before);
            }
        }
        self.revision.store(table.revision(), Ordering::Release);
        self.serves.store(true, Ordering::Release);
        for doze in &self.dozes {
            doze.wake();
        }
    }
}
