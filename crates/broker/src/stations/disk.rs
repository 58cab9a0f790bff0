//! What all threads know of the disk: how far the start has come, whether it failed, whether it is nearly full, and what was
//! done on it.

use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use courser_contract::{LogIndex, PartitionId, WallMs};
use courser_engine::DiskRoom;

use super::found::FoundInLog;
use super::progress::StartCounts;
use super::times::Times;
use crate::classes::Stays;
use crate::latency::{LogTimes, SharedHistogram};
use crate::repair::crash;
use crate::repair::state::SharedState;

/// Why the broker cannot go on with its disk. Nothing is acknowledged any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DiskFailure {
    /// A read, write or sync failed and is final (`docs/durability.md`): the process is to end with code 74.
    Io(String),
    /// What is on the disk is not for this program: another version, another node.
    Refused(String),
}

impl fmt::Display for DiskFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(text) | Self::Refused(text) => f.write_str(text),
        }
    }
}

/// How far the start has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stage {
    /// The log is being read.
    Reading,
    /// Partitions are being made of checkpoints.
    Restoring,
    /// Entries behind the checkpoints are being applied.
    Replaying,
    /// All partitions of all shards serve.
    Serving,
}

/// Shared by the stations and the shards. Nothing of it is written for a message.
#[derive(Debug)]
pub(crate) struct DiskState {
    shards: u16,
    failure: OnceLock<DiskFailure>,
    /// What recovery found, for people; there once the log is read.
    found: OnceLock<FoundInLog>,
    /// What stays where it is although its class has changed, of all shards that serve.
    stays: Mutex<Arc<Stays>>,
    /// The moment of the last entry that a start has found.
    last_wall: AtomicU64,
    short: AtomicBool,
    /// Until when what was refused for want of room makes it hurry to get some: milliseconds behind `begun`; 0: nothing was.
    wanted_until: AtomicU64,
    /// Where the log stands: bytes that were written, with what was there at the start.
    log_stands: AtomicU64,
    /// Since when the writer has waited for room: milliseconds behind `begun`, and 1; 0 while it does not.
    waits: AtomicU64,
    begun: Instant,
    damage: SharedState,
    /// Where panics are noted; none where nobody wants to know.
    crash: OnceLock<PathBuf>,
    /// How much of the start is done, for people.
    counts: StartCounts,
    /// Shards whose partitions are made of their checkpoints.
    restored: AtomicU16,
    /// Shards whose partitions all serve.
    serving: AtomicU16,
    counters: [AtomicU64; COUNTERS.len()],
    commits: Times,
    /// The same in the buckets of the metrics.
    commits_by_bound: SharedHistogram,
    writes: SharedHistogram,
    syncs: SharedHistogram,
    /// Bytes of the largest checkpoint that there was.
    largest_checkpoint: AtomicU64,
}

/// How long what was refused for want of room makes checkpoints and the cleaner hurry.
const WANTED_FOR: Duration = Duration::from_secs(3);
/// Left to checkpoints before there is one.
const CHECKPOINT_ROOM_MIN: u64 = 1 << 20;

/// Makes of one table what the stations count, the words of it in reports, and the topics that it is published under.
macro_rules! counters {
    ($($counter:ident = $name:literal),+ $(,)?) => {
        /// What the stations count, in the order of [`COUNTERS`].
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Counter {
            $($counter),+
        }

        /// In the order of [`Counter`].
        pub(crate) const COUNTERS: [&str; [$($name),+].len()] = [$($name),+];
        /// The same as topics.
        pub(crate) const TOPICS: [&str; COUNTERS.len()] = [$(concat!("$SYS/broker/disk/", $name)),+];
    };
}

counters![
    Syncs = "log_syncs",
    Batches = "log_batches",
    Records = "log_records",
    Bytes = "log_bytes",
    Witnesses = "log_witnesses",
    CreatedSegments = "log_created_segments",
    RecycledSegments = "log_recycled_segments",
    RollsUnprepared = "log_rolls_unprepared",
    Checkpoints = "checkpoints",
    CheckpointBytes = "checkpoint_bytes",
    CheckpointsGivenUp = "checkpoints_given_up",
    RecoveredEntries = "log_recovered_entries",
    CutBytes = "log_cut_bytes",
    RottenPlaces = "log_rotten_places",
    TimesShort = "disk_times_short",
    CommitP50 = "log_commit_p50_us",
    CommitP99 = "log_commit_p99_us",
    CommitP999 = "log_commit_p99_9_us",
    CommitLongest = "log_commit_longest_us",
    EntriesSkipped = "log_entries_skipped",
    CleanedSegments = "log_cleaned_segments",
    KeptRecords = "log_kept_records",
    KeptBytes = "log_kept_bytes",
    CleanerReadBytes = "cleaner_read_bytes",
    CleanerGivenUp = "cleaner_given_up",
    CleanerInPieces = "cleaner_segments_in_pieces",
    ScrubbedSegments = "scrub_segments",
    ScrubbedBytes = "scrub_bytes",
    ScrubPasses = "scrub_passes",
    ScrubDamages = "scrub_damages",
    SegmentsBytes = "log_segments_bytes",
    RecallReadBytes = "recall_read_bytes",
    RecalledBytes = "recalled_bytes",
    RecalledRecords = "recalled_records",
    RecallQuestions = "recall_questions",
    RecallRounds = "recall_rounds",
    RecalledLost = "recalled_lost",
    RecallHeldUp = "recall_held_up",
    RecallIndexBytes = "recall_index_bytes",
];

impl DiskState {
    /// Of a disk whose log is still to be read, for this many shards.
    pub(crate) fn new(shards: u16) -> Self {
        Self {
            shards,
            failure: OnceLock::new(),
            found: OnceLock::new(),
            stays: Mutex::default(),
            last_wall: AtomicU64::new(0),
            short: AtomicBool::new(false),
            wanted_until: AtomicU64::new(0),
            log_stands: AtomicU64::new(0),
            waits: AtomicU64::new(0),
            begun: Instant::now(),
            damage: SharedState::default(),
            crash: OnceLock::new(),
            counts: StartCounts::default(),
            restored: AtomicU16::new(0),
            serving: AtomicU16::new(0),
            counters: std::array::from_fn(|_| AtomicU64::new(0)),
            commits: Times::new(),
            commits_by_bound: SharedHistogram::default(),
            writes: SharedHistogram::default(),
            syncs: SharedHistogram::default(),
            largest_checkpoint: AtomicU64::new(0),
        }
    }

    /// A checkpoint of so many bytes is there.
    pub(crate) fn note_checkpoint(&self, bytes: u64) {
        self.largest_checkpoint.fetch_max(bytes, Ordering::Relaxed);
    }

    /// What the log is to leave to checkpoints: each shard writes one at a time beside those that count, and one may have grown.
    pub(crate) fn checkpoint_room(&self) -> u64 {
        let largest = self.largest_checkpoint.load(Ordering::Relaxed);
        let together = u64::from(self.shards) + 1;
        largest.saturating_mul(together).max(CHECKPOINT_ROOM_MIN)
    }

    /// What is damaged.
    pub(crate) const fn damage(&self) -> &SharedState {
        &self.damage
    }

    /// Panics are to be noted in this file.
    pub(crate) fn note_crashes_in(&self, path: PathBuf) {
        let set = self.crash.set(path);
        assert!(set.is_ok(), "there is one folder");
    }

    /// Notes that applying an entry has panicked (M50).
    pub(crate) fn note_crash(&self, id: PartitionId, index: LogIndex) {
        if let Some(path) = self.crash.get()
            && let Err(error) = crash::note(path, id, index)
        {
            tracing::error!(
                event = "crash_not_noted",
                %error,
                "a panic cannot be noted: the next start does not know of it"
            );
        }
    }

    /// Notes that the disk failed; the first failure counts.
    pub(crate) fn fail(&self, failure: DiskFailure) {
        // A second one says nothing new.
        let _ = self.failure.set(failure);
    }

    /// Why the disk failed, if it did.
    pub(crate) fn failure(&self) -> Option<&DiskFailure> {
        self.failure.get()
    }

    /// The log is read.
    pub(crate) fn set_found(&self, found: FoundInLog) {
        let set = self.found.set(found);
        assert!(set.is_ok(), "the log is read once");
    }

    /// What recovery found.
    pub(crate) fn found(&self) -> Option<&FoundInLog> {
        self.found.get()
    }

    /// A shard has made its partitions of their checkpoints. True when it was the last one.
    pub(crate) fn shard_restored(&self) -> bool {
        self.restored.fetch_add(1, Ordering::SeqCst) + 1 == self.shards
    }

    /// What stays where it is in the partitions of a shard; before that shard serves.
    pub(crate) fn add_stays(&self, stays: Stays) {
        let mut all = self.stays.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::make_mut(&mut all).add(stays);
    }

    /// What stays where it is in all partitions, once all shards serve.
    pub(crate) fn stays(&self) -> Arc<Stays> {
        Arc::clone(&self.stays.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// A shard has applied entries up to this moment; before it serves.
    pub(crate) fn entries_reach(&self, wall: WallMs) {
        self.last_wall.fetch_max(wall.0, Ordering::SeqCst);
    }

    /// The moment of the last entry of all shards, once they serve.
    pub(crate) fn last_wall(&self) -> WallMs {
        WallMs(self.last_wall.load(Ordering::SeqCst))
    }

    /// All partitions of a shard serve. True when it was the last one.
    pub(crate) fn shard_serves(&self) -> bool {
        self.serving.fetch_add(1, Ordering::SeqCst) + 1 == self.shards
    }

    /// How far the start has come.
    pub(crate) fn stage(&self) -> Stage {
        if self.serving.load(Ordering::SeqCst) == self.shards {
            Stage::Serving
        } else if self.restored.load(Ordering::SeqCst) == self.shards {
            Stage::Replaying
        } else if self.found.get().is_some() {
            Stage::Restoring
        } else {
            Stage::Reading
        }
    }

    /// How much of the start is done.
    pub(crate) const fn start(&self) -> &StartCounts {
        &self.counts
    }

    /// Room for new messages (M47).
    pub(crate) fn room(&self) -> DiskRoom {
        if self.short.load(Ordering::Relaxed) {
            DiskRoom::Short
        } else {
            DiskRoom::Enough
        }
    }

    /// Says how much room there is. True when that is new.
    pub(crate) fn set_room(&self, room: DiskRoom) -> bool {
        let short = room == DiskRoom::Short;
        let changed = self.short.swap(short, Ordering::Relaxed) != short;
        if changed && short {
            self.add(Counter::TimesShort, 1);
        }
        changed
    }

    /// Something was refused that is larger than what the disk has above its reserve. True when that is new.
    pub(crate) fn want_room(&self) -> bool {
        let was_wanted = self.wants_room();
        let until = self.begun.elapsed() + WANTED_FOR;
        self.wanted_until
            .store(until.as_millis() as u64, Ordering::Relaxed);
        !was_wanted
    }

    /// Whether checkpoints and the cleaner are to hurry: room is short, or was not enough for what came in the last seconds.
    pub(crate) fn wants_room(&self) -> bool {
        let until = self.wanted_until.load(Ordering::Relaxed);
        self.room() == DiskRoom::Short
            || until != 0 && self.begun.elapsed() < Duration::from_millis(until)
    }

    /// Where the log stands, in bytes with what was there at the start: for all shards, whoever of them has something written (M42).
    pub(crate) fn log_stands(&self) -> u64 {
        self.log_stands.load(Ordering::Relaxed)
    }

    /// Says where the log stands.
    pub(crate) fn set_log_stands(&self, bytes: u64) {
        self.log_stands.store(bytes, Ordering::Relaxed);
    }

    /// Says since when the writer has waited for room for what it was ordered to write; none: it does not.
    pub(crate) fn set_waiting(&self, since: Option<Instant>) {
        let behind = |since: Instant| since.saturating_duration_since(self.begun).as_millis();
        let waits = since.map_or(0, |since| behind(since) as u64 + 1);
        self.waits.store(waits, Ordering::Relaxed);
    }

    /// How long the writer has waited for room; none: it does not.
    pub(crate) fn waiting(&self) -> Option<Duration> {
        let behind = self.waits.load(Ordering::Relaxed).checked_sub(1)?;
        let now = self.begun.elapsed();
        Some(now.saturating_sub(Duration::from_millis(behind)))
    }

    /// Counts.
    pub(crate) fn add(&self, counter: Counter, more: u64) {
        self.counters[counter as usize].fetch_add(more, Ordering::Relaxed);
    }

    /// Replaces a count that its one writer keeps.
    pub(crate) fn set(&self, counter: Counter, number: u64) {
        self.counters[counter as usize].store(number, Ordering::Relaxed);
    }

    /// What a count is now.
    pub(crate) fn count(&self, counter: Counter) -> u64 {
        self.counters[counter as usize].load(Ordering::Relaxed)
    }

    /// Writing a batch and syncing it took so long.
    pub(crate) fn note_commit(&self, took: Duration) {
        self.commits.note(took);
        self.commits_by_bound.note(took);
    }

    /// Writing a batch took so long, without what it waited for room.
    pub(crate) fn note_write(&self, took: Duration) {
        self.writes.note(took);
    }

    /// Syncing what was written took so long.
    pub(crate) fn note_sync(&self, took: Duration) {
        self.syncs.note(took);
    }

    /// How long writes and syncs have taken.
    pub(crate) fn log_times(&self) -> LogTimes {
        LogTimes {
            append: self.writes.get(),
            fsync: self.syncs.get(),
            commit: self.commits_by_bound.get(),
        }
    }

    /// What was counted since the start of the process, in the order of [`COUNTERS`]. Times are found in their histogram: for
    /// reports, not for each message.
    pub(crate) fn counted(&self) -> [u64; COUNTERS.len()] {
        let mut counted = std::array::from_fn(|at| self.counters[at].load(Ordering::Relaxed));
        for (counter, share) in [
            (Counter::CommitP50, 500),
            (Counter::CommitP99, 990),
            (Counter::CommitP999, 999),
        ] {
            counted[counter as usize] = self.commits.at(share);
        }
        counted[Counter::CommitLongest as usize] = self.commits.longest();
        counted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn m39_all_shards_together_take_each_step_of_the_start() {
        let state = DiskState::new(2);
        assert_eq!(state.stage(), Stage::Reading);
        state.set_found(FoundInLog::default());
        assert_eq!(state.stage(), Stage::Restoring);
        assert!(!state.shard_restored() && state.stage() == Stage::Restoring);
        assert!(state.shard_restored() && state.stage() == Stage::Replaying);
        assert!(!state.shard_serves() && state.stage() == Stage::Replaying);
        assert!(state.shard_serves() && state.stage() == Stage::Serving);
    }

    #[test]
    fn the_first_failure_counts() {
        let state = DiskState::new(1);
        state.fail(DiskFailure::Io("sync failed".to_owned()));
        state.fail(DiskFailure::Io("write failed".to_owned()));
        let first = DiskFailure::Io("sync failed".to_owned());
        assert_eq!(state.failure(), Some(&first));
    }

    #[test]
    fn m47_how_long_the_writer_waits_is_known_while_it_does() {
        let mut state = DiskState::new(1);
        assert_eq!(state.waiting(), None);
        state.set_waiting(Some(Instant::now()));
        assert!(
            state
                .waiting()
                .is_some_and(|it| it < Duration::from_secs(5))
        );
        state.begun -= Duration::from_secs(7);
        assert!(
            state
                .waiting()
                .is_some_and(|it| it >= Duration::from_secs(7))
        );
        state.set_waiting(None);
        assert_eq!(state.waiting(), None);
    }

    #[test]
    fn m47_each_time_that_space_is_short_counts_once() {
        let state = DiskState::new(1);
        assert!(state.set_room(DiskRoom::Short) && !state.set_room(DiskRoom::Short));
        assert_eq!(state.room(), DiskRoom::Short);
        assert!(state.set_room(DiskRoom::Enough) && state.set_room(DiskRoom::Short));
        assert_eq!(state.counted()[Counter::TimesShort as usize], 2);
    }
}
