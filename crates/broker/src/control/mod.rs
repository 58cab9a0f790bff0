//! Questions of operators to the shards, and the answers.
//!
//! Whoever serves operators runs elsewhere (a thread with a runtime of its own) and has a [`Control`]. Each shard has a **desk** on
//! which questions are laid; the shard looks at it once a turn and answers at least one. A question looks at a bounded number of
//! places, so that no listing, however long, holds a turn: it is asked again from where it stopped.

mod desk;
mod history;
mod listeners;
mod retained;
mod rows;
mod trace;

use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use courser_access::{Command, SALT_BYTES, Table};
use courser_contract::{FrontId, PartitionId, ShardId};
use courser_engine::{LostReference, ReferenceSearch};
use courser_memory::{Component, Scope};
use courser_mqtt::front::Redirect;
use tokio::sync::oneshot;
use zeroize::Zeroizing;

use crate::access::{ChangeError, Credentials, LogInError, LoggedIn, MakeError, Operators};
use crate::backup::{BackupError, BackupState, Backups};
use crate::classes::Classes;
use crate::doors::{Certificates, DoorCounters, Doors};
use crate::latency::LogTimes;
use crate::live::Live;
use crate::memory::{Level, MemoryBudget};
use crate::repair::NodeState;
use crate::rings::Doze;
use crate::scrub::Missing;
use crate::slots::Places;
use crate::stations::{COUNTERS, DiskState};
use crate::sys::ShardReport;

pub(crate) use desk::{Desk, Question};
pub(crate) use history::History;
pub(crate) use history::why_words;
pub use history::{Deed, Happened, PastEvent, cause_words};
pub use listeners::ListenerRow;
pub(crate) use listeners::OpenListener;
pub(crate) use rows::CLIENTS_AT_ONCE;
pub use rows::{
    ClientRow, Ended, Page, RetainedMessage, RetainedRow, SessionPlace, SessionRow,
    SubscriptionRow, SubscriptionStop,
};
pub use trace::{Direction, TracePage, TracedLine};
pub(crate) use trace::{Tracer, Traces};

/// How often, and how many times, a thread that may wait looks for an answer.
const NEEDS_LOOK: Duration = Duration::from_millis(1);
const NEEDS_LOOKS: u32 = 10_000;

/// Why there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AskError {
    /// So many questions wait at a shard that this one was not taken.
    #[error("too many questions wait for the shards: try again")]
    Busy,
    /// The shard has stopped.
    #[error("the server is stopping")]
    Stopped,
}

/// Asks the shards of a running broker. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Control {
    desks: Arc<[Arc<Desk>]>,
    places: Places,
    classes: Arc<Classes>,
    disk: Option<Arc<DiskState>>,
    operators: Operators,
    backups: Option<Arc<Backups>>,
    stop: Arc<crate::shard::StopSignal>,
    certificates: Arc<[Arc<Certificates>]>,
    listeners: Arc<[OpenListener]>,
    doors: Arc<DoorCounters>,
    live: Arc<Live>,
    memory: Arc<MemoryBudget>,
}

/// What a [`Control`] is made of.
pub(crate) struct ControlParts<'a> {
    /// The signs by which the shards sleep.
    pub(crate) dozes: &'a [Arc<Doze>],
    pub(crate) places: Places,
    pub(crate) classes: &'a [courser_settings::Class],
    /// What the stations know, and who makes backups, where messages are kept.
    pub(crate) kept: Option<(Arc<DiskState>, Arc<Backups>)>,
    pub(crate) operators: Operators,
    pub(crate) stop: Arc<crate::shard::StopSignal>,
    pub(crate) listeners: Vec<OpenListener>,
    /// The doors that some of the listeners are.
    pub(crate) doors: &'a Doors,
    pub(crate) live: Arc<Live>,
    pub(crate) memory: Arc<MemoryBudget>,
}

impl Control {
    pub(crate) fn new(parts: ControlParts<'_>) -> Self {
        let (disk, backups) = parts.kept.unzip();
        Self {
            desks: parts.dozes.iter().map(Desk::new).collect(),
            places: parts.places,
            classes: Arc::new(Classes::new(parts.places, parts.classes)),
            disk,
            operators: parts.operators,
            backups,
            stop: parts.stop,
            certificates: parts.doors.all_certificates().into(),
            listeners: parts.listeners.into(),
            doors: Arc::clone(parts.doors.counters()),
            live: parts.live,
            memory: parts.memory,
        }
    }

    /// Connections of TLS, WebSocket, PROXY protocol and Unix sockets that were not let in, by reason.
    #[must_use]
    pub fn refused_at_doors(&self) -> Vec<(&'static str, u64)> {
        self.doors.refused()
    }

    /// All listeners that are open, in the order of the settings, `mqtt.listen` first.
    #[must_use]
    pub fn listeners(&self) -> Vec<ListenerRow> {
        let config = self.live.get();
        let all = self.listeners.iter();
        all.map(|listener| listener.row(&config)).collect()
    }

    /// Listeners with the seconds since 1970 until which their certificates are valid.
    #[must_use]
    pub fn certificates(&self) -> Vec<(String, i64)> {
        let all = self.certificates.iter();
        all.map(|one| (one.listener().to_owned(), one.facts().1))
            .collect()
    }

    /// Bytes that the process may have allocated: `memory.max`.
    #[must_use]
    pub fn memory_max(&self) -> u64 {
        self.live.get().memory_max
    }

    /// Begins a backup of the data folder into a folder of backups, whose path is whole; a few milliseconds. It goes on by itself, at
    /// `bytes_per_second` or what the settings say. The answer has the id by which [`backup`](Self::backup) tells of it.
    ///
    /// # Errors
    /// When the folder cannot be used, one is being made, or nothing is kept.
    pub fn begin_backup(
        &self,
        folder: &Path,
        bytes_per_second: Option<u64>,
    ) -> Result<BackupState, BackupError> {
        let backups = self.backups.as_ref().ok_or(BackupError::NothingKept)?;
        backups.begin(folder, bytes_per_second)
    }

    /// Who makes backups.
    #[cfg(test)]
    pub(crate) fn backups(&self) -> Option<&Backups> {
        self.backups.as_deref()
    }

    /// How far the last backup is that was begun since the start.
    #[must_use]
    pub fn backup(&self) -> BackupState {
        let backups = self.backups.as_ref();
        backups.map_or_else(BackupState::default, |it| it.state())
    }

    /// Stops the backup that is being made: it counts as never made. False: there is none.
    #[must_use]
    pub fn stop_backup(&self) -> bool {
        self.backups.as_ref().is_some_and(|it| it.stop())
    }

    /// Where questions for a shard lie.
    pub(crate) fn desk(&self, shard: ShardId) -> Arc<Desk> {
        Arc::clone(&self.desks[usize::from(shard.0)])
    }

    /// All shards.
    pub fn shards(&self) -> impl Iterator<Item = ShardId> + use<> {
        (0..self.places.shards()).map(ShardId)
    }

    /// All partitions that have sessions: those with a log, then the volatile one of each shard.
    pub fn session_partitions(&self) -> impl Iterator<Item = PartitionId> + use<> {
        let volatile = self.shards().map(PartitionId::volatile_of);
        self.places.logged().chain(volatile)
    }

    fn session_at(&self, client_id: &str) -> PartitionId {
        match &self.disk {
            Some(disk) => self.classes.session_in(&disk.stays(), client_id),
            None => self.classes.session(client_id),
        }
    }

    /// How far the broker is.
    #[must_use]
    pub fn status(&self) -> crate::Status {
        crate::broker::status_of(self.disk.as_deref())
    }

    /// How long acknowledgements have waited for room on the disk; none while they do not.
    #[must_use]
    pub fn waits_for_room(&self) -> Option<std::time::Duration> {
        self.disk.as_deref()?.waiting()
    }

    /// How long every socket has been closed as soon as it was accepted, because memory is used up; none while they are not.
    #[must_use]
    pub fn waits_for_memory(&self) -> Option<std::time::Duration> {
        self.memory.over_for(self.operators.now())
    }

    /// Whether so much of `memory.max` is used that publishes and connections are refused.
    #[must_use]
    pub fn is_memory_full(&self) -> bool {
        self.memory.glance(courser_memory::snapshot().live_bytes()) >= Level::Full
    }

    /// How much of its start is done; none once it serves, and where nothing is kept.
    #[must_use]
    pub fn progress(&self) -> Option<crate::Progress> {
        let disk = self.disk.as_deref()?;
        disk.start().progress(disk.stage())
    }

    /// Users and roles now.
    #[must_use]
    pub fn accounts(&self) -> Arc<Table> {
        self.operators.access().table()
    }

    /// Whether users and roles are known yet.
    #[must_use]
    pub fn accounts_serve(&self) -> bool {
        self.operators.access().serves()
    }

    /// Requests of operators who named themselves by name and password, by what came of it.
    #[must_use]
    pub fn operator_logins(&self) -> Vec<(&'static str, u64)> {
        self.operators.counted().into()
    }

    /// Counts somebody who has shown a token of operators that is none. If a line of the log is to say so, how many were left out since the
    /// last one: anybody can cause them.
    #[must_use]
    pub fn wrong_token(&self, now: Instant) -> Option<u64> {
        self.operators.wrong_token(now)
    }

    /// What the user of a name and password may do here, by its roles as they are now. The password is compared beside the shards, under
    /// the limits that logins of clients have; `from` is the address of whoever asks, none where it came by a Unix socket.
    ///
    /// # Errors
    /// [`LogInError`].
    pub async fn log_in(
        &self,
        from: Option<IpAddr>,
        name: &str,
        password: &[u8],
    ) -> Result<LoggedIn, LogInError> {
        self.operators.log_in(from, name, password).await
    }

    /// What is to be kept of a new password: its hash, and SCRAM keys where there is a salt for them. Hashed where logins are, out of the same memory, one
    /// at a time; salts are random and used once.
    ///
    /// # Errors
    /// [`MakeError`].
    pub async fn hash_password(
        &self,
        password: Zeroizing<Vec<u8>>,
        salt: [u8; SALT_BYTES],
        scram_salt: Option<[u8; SALT_BYTES]>,
    ) -> Result<Credentials, MakeError> {
        self.operators.make(password, salt, scram_salt).await
    }

    /// Changes users and roles as [`Access::change_at`](crate::Access::change_at) does; the revision that it made. A change of everything is made ready
    /// on a thread that may take its time.
    ///
    /// # Errors
    /// [`ChangeError`].
    pub async fn change_accounts(
        &self,
        revision: u64,
        command: Command,
    ) -> Result<u64, ChangeError> {
        let (answer, answered) = oneshot::channel();
        let access = Arc::clone(self.operators.access());
        let is_large = matches!(command, Command::Replace(_));
        let change = move || {
            // What it makes stays, and a thread for what takes its time names no part.
            let _scope = Scope::enter(Component::Access);
            access.change_at(revision, command, move |result| {
                // Whoever waited may be gone.
                let _ = answer.send(result);
            });
        };
        if is_large {
            // What comes of it is answered.
            let _ = tokio::task::spawn_blocking(change).await;
        } else {
            change();
        }
        answered.await.unwrap_or(Err(ChangeError::Unknown))
    }

    /// Which partitions are set aside, which streams have stopped, and what was accepted: see [`Broker::state`](crate::Broker::state).
    #[must_use]
    pub fn damage(&self) -> NodeState {
        let disk = self.disk.as_ref();
        disk.map_or_else(NodeState::default, |disk| disk.damage().get())
    }

    /// Whether it is being stopped.
    #[must_use]
    pub fn is_stopping(&self) -> bool {
        self.stop.has_begun()
    }

    /// What the stations of the disk have counted, by name; nothing where nothing is kept.
    #[must_use]
    pub fn disk_counters(&self) -> Vec<(&'static str, u64)> {
        let counted = self.disk.as_ref().map(|disk| disk.counted());
        COUNTERS
            .into_iter()
            .zip(counted.into_iter().flatten())
            .collect()
    }

    /// How long writes and syncs of the log have taken; nothing where nothing is kept.
    #[must_use]
    pub fn log_times(&self) -> LogTimes {
        let disk = self.disk.as_ref();
        disk.map_or_else(LogTimes::default, |disk| disk.log_times())
    }

    /// Lays a question on the desk of a shard and waits for the answer, which comes within a few turns.
    async fn ask<T>(
        &self,
        shard: ShardId,
        question: impl FnOnce(oneshot::Sender<T>) -> Question,
    ) -> Result<T, AskError> {
        let (answer, answered) = oneshot::channel();
        self.desks[usize::from(shard.0)].lay(question(answer))?;
        answered.await.map_err(|_| AskError::Stopped)
    }

    /// What a shard has counted and holds.
    ///
    /// # Errors
    /// As [`AskError`] says; the same for all that follow.
    pub async fn report(&self, shard: ShardId) -> Result<ShardReport, AskError> {
        self.ask(shard, Question::Report)
            .await
            .map(|report| *report)
    }

    /// Some connections of a shard, from a place of its table on.
    ///
    /// # Errors
    /// See [`report`](Self::report).
    pub async fn clients(
        &self,
        shard: ShardId,
        from: u32,
    ) -> Result<Page<ClientRow, u32>, AskError> {
        self.ask(shard, |answer| Question::Clients { from, answer })
            .await
    }

    /// The connection that has a client id.
    ///
    /// # Errors
    /// See [`report`](Self::report).
    pub async fn client(&self, client_id: &str) -> Result<Option<ClientRow>, AskError> {
        let Some(front) = self.holder(client_id).await? else {
            return Ok(None);
        };
        self.ask(front.shard, |answer| Question::Client { front, answer })
            .await
    }

    async fn holder(&self, client_id: &str) -> Result<Option<FrontId>, AskError> {
        let partition = self.session_at(client_id);
        let client_id = client_id.into();
        self.ask(self.places.shard_of(partition), |answer| Question::Holder {
            partition,
            client_id,
            answer,
        })
        .await
    }

    /// Closes the connection that has a client id (v5: DISCONNECT 0x98). False: there is none.
    ///
    /// # Errors
    /// See [`report`](Self::report).
    pub async fn kick(&self, client_id: &str) -> Result<bool, AskError> {
        let Some(front) = self.holder(client_id).await? else {
            return Ok(false);
        };
        self.ask(front.shard, |answer| Question::Kick { front, answer })
            .await
    }

    /// Sends the client that has a client id to another server: DISCONNECT 0x9C or 0x9D with the Server Reference for 5.0, while a
    /// client of 3.1.1 is only closed. False: it is not connected.
    ///
    /// # Errors
    /// See [`report`](Self::report).
    pub async fn redirect(&self, client_id: &str, redirect: Redirect) -> Result<bool, AskError> {
        let Some(front) = self.holder(client_id).await? else {
            return Ok(false);
        };
        self.ask(front.shard, |answer| Question::Redirect {
            front,
            redirect,
            answer,
        })
        .await
    }

    /// What happened to a client id of late, oldest first; of all shards.
    ///
    /// # Errors
    /// See [`report`](Self::report).
    pub async fn history(&self, client_id: &str) -> Result<Vec<PastEvent>, AskError> {
        let mut events = Vec::new();
        for shard in self.shards() {
            let client_id = client_id.into();
            events.extend(
                self.ask(shard, |answer| Question::History { client_id, answer })
                    .await?,
            );
        }
        events.sort_by_key(|event: &PastEvent| event.at);
        Ok(events)
    }

    /// Lines of the trace of a client id on each shard, from these numbers on; `u64::MAX` is from now on. The trace begins where there is
    /// none, also for a client that comes later, and ends a while after the last question. `None`: there are as many as may be.
    ///
    /// # Errors
    /// See [`report`](Self::report).
    pub async fn trace(
        &self,
        client_id: &str,
        from: impl Fn(ShardId) -> u64,
    ) -> Result<Option<Vec<TracePage>>, AskError> {
        let front = self.holder(client_id).await?;
        let mut pages = Vec::new();
        for shard in self.shards() {
            let question = |answer| Question::Trace {
                client_id: client_id.into(),
                front: front.filter(|front| front.shard == shard),
                from: from(shard),
                answer,
            };
            match self.ask(shard, question).await? {
                Some(page) => pages.push(page),
                None => return Ok(None),
            }
        }
        Ok(Some(pages))
    }

    /// What happened on a shard from number `from` on, with the number to go on with. Older events are forgotten.
    ///
    /// # Errors
    /// See [`report`](Self::report).
    pub async fn events(
        &self,
        shard: ShardId,
        from: u64,
    ) -> Result<(Vec<PastEvent>, u64), AskError> {
        self.ask(shard, |answer| Question::Events { from, answer })
            .await
    }

    /// Some sessions of a partition, from a place of its table on. Those of a volatile partition live as long as their connections.
    ///
    /// # Errors
    /// See [`report`](Self::report).
    pub async fn sessions(
        &self,
        partition: PartitionId,
        from: u32,
    ) -> Result<Page<SessionRow, u32>, AskError> {
        self.ask(self.places.shard_of(partition), |answer| {
            Question::Sessions {
                partition,
                from,
                answer,
            }
        })
        .await
    }

    /// The session of a client id: the one that is kept for it, or that of its connection.
    ///
    /// # Errors
    /// See [`report`](Self::report).
    pub async fn session(&self, client_id: &str) -> Result<Option<SessionRow>, AskError> {
        let partition = self.session_at(client_id);
        let kept = self.ask(self.places.shard_of(partition), |answer| {
            Question::Session {
                partition,
                client_id: client_id.into(),
                answer,
            }
        });
        match kept.await? {
            Some(kept) => Ok(Some(kept)),
            None => self.session_of_connection(client_id).await,
        }
    }

    /// The session that ends with the connection which has a client id.
    async fn session_of_connection(&self, client_id: &str) -> Result<Option<SessionRow>, AskError> {
        let Some(at) = self.client(client_id).await?.and_then(|row| row.session) else {
            return Ok(None);
        };
        self.ask(self.places.shard_of(at.partition), |answer| {
            Question::SessionAt { at, answer }
        })
        .await
    }

    /// Ends the session that is kept for a client id, unless it is in use, as one that ends with its connection always is. After
    /// [`Ended::Proposed`] it is gone as soon as its end is committed.
    ///
    /// # Errors
    /// See [`report`](Self::report).
    pub async fn end_session(&self, client_id: &str) -> Result<Ended, AskError> {
        let partition = self.session_at(client_id);
        let ended = self.ask(self.places.shard_of(partition), |answer| {
            Question::EndSession {
                partition,
                client_id: client_id.into(),
                answer,
            }
        });
        match ended.await? {
            Ended::Unknown if self.holder(client_id).await?.is_some() => Ok(Ended::InUse),
            ended => Ok(ended),
        }
    }

    /// Some subscriptions of a partition's sessions, from a place on.
    ///
    /// # Errors
    /// See [`report`](Self::report).
    pub async fn subscriptions(
        &self,
        partition: PartitionId,
        from: SubscriptionStop,
    ) -> Result<Page<SubscriptionRow, SubscriptionStop>, AskError> {
        self.ask(self.places.shard_of(partition), |answer| {
            Question::Subscriptions {
                partition,
                from,
                answer,
            }
        })
        .await
    }

    /// Has the checkpoint of a partition written again, which is damaged on the disk. False: its shard has no time for that at the moment, or has stopped.
    pub(crate) fn renew(&self, partition: PartitionId) -> bool {
        let desk = &self.desks[usize::from(self.places.shard_of(partition).0)];
        let (answer, _) = oneshot::channel();
        desk.lay(Question::Renew { partition, answer }).is_ok()
    }

    /// Which streams of a partition need records that a segment does not give any more; and has the partition saved soon, where a start
    /// would have to replay them. For a thread that may wait. Nothing, or not all of it, when the shard has stopped.
    pub(crate) fn needs(&self, partition: PartitionId, missing: Missing) -> Vec<LostReference> {
        let missing = Arc::new(missing);
        let mut found = Vec::new();
        let mut next = Some(ReferenceSearch::default());
        while let Some(from) = next.take() {
            if let Some(page) = self.needs_from(partition, &missing, from) {
                found.extend(page.rows);
                next = page.next;
            }
        }
        found
    }

    /// The same of some places.
    fn needs_from(
        &self,
        partition: PartitionId,
        missing: &Arc<Missing>,
        from: ReferenceSearch,
    ) -> Option<Page<LostReference, ReferenceSearch>> {
        let desk = &self.desks[usize::from(self.places.shard_of(partition).0)];
        let mut waits_for = None;
        // A shard that has panicked leaves its questions lying.
        for _ in 0..NEEDS_LOOKS {
            let answered = waits_for.get_or_insert_with(|| {
                let (answer, answered) = oneshot::channel();
                let laid = desk.lay(Question::Needs {
                    partition,
                    missing: Arc::clone(missing),
                    from: from.clone(),
                    answer,
                });
                laid.map(|()| answered)
            });
            match answered {
                Ok(answered) => match answered.try_recv() {
                    Ok(page) => return Some(page),
                    Err(oneshot::error::TryRecvError::Closed) => return None,
                    Err(oneshot::error::TryRecvError::Empty) => {}
                },
                Err(AskError::Busy) => waits_for = None,
                Err(AskError::Stopped) => return None,
            }
            std::thread::sleep(NEEDS_LOOK);
        }
        None
    }
}
