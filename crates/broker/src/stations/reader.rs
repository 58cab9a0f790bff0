//! The log reader: slow work with files that must delay neither a shard nor the writer.
//!
//! Segments are made ready ahead of need, and checkpoints are written. A checkpoint that cannot be written for want of room, of which no
//! file can be made for want of descriptors, or which does not get the name of a damaged one whose place it takes, is given up and tried again later;
//! any other failure of the disk is final (`docs/durability.md`).

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;

use bytes::Bytes;
use courser_contract::{PartitionId, ShardId};
use courser_engine::{AbandonedCheckpoint, CheckpointNeeds, EntrySet};
use courser_log::{
    CheckpointAt, CheckpointError, CheckpointStore, CheckpointWriter, Cleaner, Disk, LiveEntries,
    PrepareJob, Prepared, Source, Survey, Synced,
};

use super::cleaner::{CleanerStation, Pause, Turn};
use super::disk::{Counter, DiskFailure, DiskState};
use super::requests::{HeldData, NotHeld, RequestDoor};
use crate::causes::with_causes;
use crate::rings::Doze;

/// What the reader is asked for.
pub(crate) enum Job<D: Disk> {
    /// Make a segment ready and tell the writer.
    Prepare(PrepareJob<D>),
    /// The folder of checkpoints, which recovery has opened; before any checkpoint.
    Checkpoints(CheckpointStore<D>, Box<Cleaner<D, CheckpointNeeds>>),
    /// A partition begins a checkpoint at an entry. It is answered once: when it counts, or as soon as it cannot be written.
    CheckpointBegins {
        /// Whose.
        partition: PartitionId,
        /// The entry.
        at: CheckpointAt,
        /// Which writer it gets.
        place: CheckpointPlace,
        /// Who waits for the answer.
        shard: ShardId,
    },
    /// Its next piece.
    CheckpointPiece {
        /// Whose.
        partition: PartitionId,
        /// What is written.
        bytes: Bytes,
        /// Pieces of the shard on their way: one less when it is written.
        waiting: Arc<AtomicUsize>,
        /// Who waits for that.
        shard: ShardId,
    },
    /// Its last piece was the one before: make it the one that counts.
    CheckpointEnds {
        /// Whose.
        partition: PartitionId,
        /// Entries below it that are still needed; the shard has no time to make ranges of them.
        live: EntrySet,
        /// Proof that the log is synced to its index.
        synced: Synced,
        /// Who waits.
        shard: ShardId,
    },
    /// It is given up. What the shard had gathered for it is dropped here, since that takes longer than a turn may.
    CheckpointCancelled(PartitionId, Option<AbandonedCheckpoint>),
    /// The writer's answer to a question of the cleaner.
    Surveyed(Survey),
    /// The same.
    Sourced(Option<Source>),
    /// The writer has done what the cleaner ordered.
    Look,
    /// Hold everything that a copy is made of.
    Held {
        /// For the answer.
        answer: mpsc::SyncSender<Result<HeldData<D::File>, NotHeld>>,
        /// Set when it is not held any more.
        lost: Arc<AtomicBool>,
    },
    /// Nothing more will come.
    End,
}

/// What a checkpoint is beside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CheckpointPlace {
    /// The one that counts, which is whole as far as anybody knows, and older.
    Behind,
    /// One that is damaged on the disk, perhaps at the same entry.
    OfDamaged,
}

/// What came of a checkpoint.
#[derive(Debug)]
pub(crate) struct CheckpointDone {
    /// Whose.
    pub(crate) partition: PartitionId,
    /// Entries below it that are still needed; none: it was given up.
    pub(crate) live: Option<LiveEntries>,
}

/// Where a shard hears of its checkpoints.
pub(crate) struct CheckpointDoor {
    pub(crate) done: mpsc::Sender<CheckpointDone>,
    pub(crate) doze: Arc<Doze>,
}

/// The reader's ways to the others, and what it has open.
pub(crate) struct Reader<D: Disk> {
    pub(crate) jobs: mpsc::Receiver<Job<D>>,
    pub(crate) prepared: mpsc::Sender<Prepared<D::File>>,
    /// Wakes the writer.
    pub(crate) writer: Arc<Doze>,
    pub(crate) requests: RequestDoor,
    /// Once recovery has opened it.
    pub(crate) checkpoints: Option<CheckpointStore<D>>,
    /// By shard.
    pub(crate) shards: Vec<CheckpointDoor>,
    pub(crate) state: Arc<DiskState>,
    pub(crate) open: HashMap<PartitionId, CheckpointWriter<D>>,
    pub(crate) cleaner: CleanerStation<D>,
    pub(crate) turn: Turn,
    /// A checkpoint was given up, and that was told; none has ended since.
    pub(crate) is_held_up: bool,
}

impl<D> Reader<D>
where
    D: Disk + Send + 'static,
    D::File: Send,
{
    /// Works until it is told to end.
    pub(crate) fn run(mut self) {
        while let Ok(job) = self.next() {
            let Some(job) = job else {
                continue;
            };
            match job {
                Job::Prepare(job) => {
                    // A writer that has ended needs no segment.
                    let _ = self.prepared.send(job.run());
                    self.writer.wake();
                }
                Job::Checkpoints(store, cleaner) => {
                    self.checkpoints = Some(store);
                    self.cleaner.begin(cleaner);
                }
                Job::CheckpointBegins {
                    partition,
                    at,
                    place,
                    shard,
                } => self.begin(partition, at, place, shard),
                Job::CheckpointPiece {
                    partition,
                    bytes,
                    waiting,
                    shard,
                } => {
                    self.piece(partition, &bytes, shard);
                    waiting.fetch_sub(1, Ordering::AcqRel);
                    self.shards[usize::from(shard.0)].doze.wake();
                }
                Job::CheckpointEnds {
                    partition,
                    live,
                    synced,
                    shard,
                } => self.end(partition, &live, synced, shard),
                Job::CheckpointCancelled(partition, abandoned) => {
                    self.give_up(partition);
                    drop(abandoned);
                }
                Job::Surveyed(survey) => self.cleaner.surveyed(survey),
                Job::Sourced(source) => self.cleaner.sourced(source),
                Job::Look => {}
                Job::Held { answer, lost } => {
                    if answer.send(self.hold(lost)).is_err() {
                        // Who asked has waited long enough, and let go before it was held.
                        self.requests.hold(None);
                    }
                }
                Job::End => return,
            }
        }
    }

    /// The next job; none: the cleaner has time for a step. Jobs go first, since a shard waits for them, and at the worst the writer; but
    /// not all of them: they may come without an end, and what gives room is the cleaner.
    fn next(&mut self) -> Result<Option<Job<D>>, mpsc::RecvError> {
        if !self.turn.is_due() {
            match self.jobs.try_recv() {
                Ok(job) => {
                    self.turn.job();
                    return Ok(Some(job));
                }
                Err(mpsc::TryRecvError::Empty) => {}
                Err(mpsc::TryRecvError::Disconnected) => return Err(mpsc::RecvError),
            }
        }
        let pause = self.cleaner.step();
        self.turn = Turn::default();
        match pause {
            Pause::None => Ok(None),
            Pause::Job => self.jobs.recv().map(Some),
            Pause::For(time) => match self.jobs.recv_timeout(time) {
                Ok(job) => Ok(Some(job)),
                Err(mpsc::RecvTimeoutError::Timeout) => Ok(None),
                Err(mpsc::RecvTimeoutError::Disconnected) => Err(mpsc::RecvError),
            },
        }
    }

    /// No checkpoint ends meanwhile: this thread ends them.
    fn hold(&self, lost: Arc<AtomicBool>) -> Result<HeldData<D::File>, NotHeld> {
        let store = self.checkpoints.as_ref().ok_or(NotHeld::Writer)?;
        let held = store.hold();
        let checkpoints = held.map_err(|error| NotHeld::Checkpoints(with_causes(&error)))?;
        let cut = self.requests.cut(lost)?;
        Ok(HeldData { cut, checkpoints })
    }

    fn begin(
        &mut self,
        partition: PartitionId,
        at: CheckpointAt,
        place: CheckpointPlace,
        shard: ShardId,
    ) {
        let store = self.checkpoints.as_ref();
        let store = store.expect("partitions are recovered before one is saved");
        let begun = match place {
            CheckpointPlace::Behind => store.writer(partition, at),
            CheckpointPlace::OfDamaged => store.renewing_writer(partition, at),
        };
        match begun {
            Ok(writer) => drop(self.open.insert(partition, writer)),
            Err(error) => {
                self.failed(&error);
                self.answer(partition, shard, None);
            }
        }
    }

    fn piece(&mut self, partition: PartitionId, bytes: &Bytes, shard: ShardId) {
        let Some(writer) = self.open.get_mut(&partition) else {
            return;
        };
        if let Err(error) = writer.piece(bytes) {
            self.failed(&error);
            self.give_up(partition);
            self.answer(partition, shard, None);
        }
    }

    fn give_up(&mut self, partition: PartitionId) {
        if let Some(writer) = self.open.remove(&partition) {
            writer.give_up();
        }
    }

    fn end(&mut self, partition: PartitionId, live: &EntrySet, synced: Synced, shard: ShardId) {
        // One that could not be begun, or lacks a piece, is answered.
        let Some(writer) = self.open.remove(&partition) else {
            return;
        };
        let mut ranges = LiveEntries::NONE;
        for (first, last) in live.ranges() {
            ranges.push_range(first, last);
        }
        ranges.shrink();
        let bytes = writer.bytes();
        match writer.finish(ranges.clone(), synced) {
            Ok(manifest) => {
                self.cleaner.checkpointed(manifest);
                self.is_held_up = false;
                self.state.add(Counter::Checkpoints, 1);
                self.state.add(Counter::CheckpointBytes, bytes);
                self.state.note_checkpoint(bytes);
                self.answer(partition, shard, Some(ranges));
            }
            Err(error) => {
                self.failed(&error);
                self.answer(partition, shard, None);
            }
        }
    }

    fn answer(&self, partition: PartitionId, shard: ShardId, live: Option<LiveEntries>) {
        let door = &self.shards[usize::from(shard.0)];
        // A shard that has ended needs no answer.
        let _ = door.done.send(CheckpointDone { partition, live });
        door.doze.wake();
    }

    /// A disk without room is no failure, nor is a process without descriptors.
    fn failed(&mut self, error: &CheckpointError) {
        if !error.is_passing() {
            return self.state.fail(DiskFailure::Io(with_causes(error)));
        }
        self.state.add(Counter::CheckpointsGivenUp, 1);
        if !std::mem::replace(&mut self.is_held_up, true) {
            let error = with_causes(error);
            tracing::warn!(
                event = "checkpoint_held_up",
                error,
                "a partition cannot be saved; it is tried again until it can"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use courser_log::testing::MemDisk;
    use courser_log::{Manifests, NodeIdentity};

    /// Checkpoints under way all the time left it no turn: the log grew for as long as they came.
    #[test]
    fn m41_the_cleaner_has_its_turn_while_jobs_wait() {
        let state = Arc::new(DiskState::new(0));
        let (jobs, jobs_taken) = mpsc::channel();
        let writer = Arc::new(Doze::default());
        let (cleaner, ports) =
            CleanerStation::new(jobs.clone(), Arc::clone(&writer), Arc::clone(&state));
        let (prepared, _prepared_taken) = mpsc::channel();
        let (requests, _requests_taken) = RequestDoor::new(&writer);
        let mut reader = Reader::<MemDisk> {
            jobs: jobs_taken,
            prepared,
            writer,
            requests,
            checkpoints: None,
            shards: Vec::new(),
            state,
            open: HashMap::new(),
            cleaner,
            turn: Turn::default(),
            is_held_up: false,
        };
        let (store, _) =
            CheckpointStore::open(MemDisk::new(), NodeIdentity(7)).expect("an empty folder");
        let none = Manifests::new();
        let cleaner = Cleaner::new(MemDisk::new(), store, none, CheckpointNeeds, 1 << 20);
        reader.cleaner.begin(Box::new(cleaner));
        for _ in 0..100 {
            jobs.send(Job::Look).expect("it is there");
        }
        let mut taken = 0;
        while ports.questions.try_recv().is_err() {
            assert!(reader.next().expect("jobs are there").is_some());
            taken += 1;
            assert!(taken < 20, "the cleaner has not been asked");
        }
    }
}
