//! Checkpoints of the shard's partitions (M42), one at a time, in slices of turns.
//!
//! A partition's turn comes when the log has taken `log.checkpoint_bytes` since its last one, and partitions come one after the
//! other so that they do not all write at once. Pieces go to the reader station, which writes them; when the manifest is
//! durable, the group and the log forget what is below. An idle partition writes none: nothing of it is in newer segments.
//!
//! An orderly stop saves what the next start would have to apply, the longest first, for as long as the stop may take
//! ([`Saves::All`]). A process that ends in the middle leaves a file that no manifest names, which the start removes.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;

use courser_contract::{LogIndex, PartitionId, ShardId, Tick};
use courser_engine::{DiskRoom, EntrySet};
use courser_log::{BatchNumber, CheckpointAt, FileDisk};

use super::Shard;
use super::stop::Saves;
use crate::clock::thread_cpu_us;
use crate::stations::{CheckpointDone, Checkpointed, Job};
use crate::store::Stores;

/// Bytes of state that one turn writes at most, of messages those with which the engine charges a look at each as well: so one chunk of 256, or
/// a little more.
const SLICE_BYTES: usize = 2 << 10;
/// Pieces on their way to the reader at most: 1 MiB. The engine gathers slices, of whatever size, until a piece has 64 KiB.
const PIECES_MAX: usize = 16;

/// A stop saves a partition when the next start would apply at least so many bytes of entries: less are applied in less time
/// than the syncs of a checkpoint take.
const LAST_BYTES_MIN: u64 = 64 << 10;

/// How often every partition is saved while the disk is short of room, in milliseconds.
const HURRY_MS: u64 = 1_000;

/// A shard's way to the reader.
pub(crate) struct CheckpointLink {
    pub(crate) jobs: mpsc::Sender<Job<FileDisk>>,
    pub(crate) done: mpsc::Receiver<CheckpointDone>,
    /// Pieces of this shard that the reader has not written.
    pub(crate) pieces: Arc<AtomicUsize>,
}

/// What is under way.
#[derive(Debug)]
enum Progress {
    /// Nothing.
    None,
    /// The partition at this place gives pieces.
    Pieces(usize),
    /// It has given all, and is to be the one that counts once the log is synced to its entry.
    Given {
        place: usize,
        live: EntrySet,
        written: BatchNumber,
        /// Whether the log was asked how far it is synced.
        asked: bool,
    },
    /// All of it is at the reader.
    Handed(usize),
}

/// Checkpoints of one shard's partitions.
pub(crate) struct Checkpoints {
    link: CheckpointLink,
    /// Bytes of log from one checkpoint of a partition to its next.
    every: u64,
    progress: Progress,
    /// Bytes of entries of its partition that were applied after the checkpoint before it.
    covers: u64,
    /// While the disk is short of room: when all partitions are due again, whatever the log has taken.
    hurry_at: Tick,
    /// By place: where the log stands when the next one is due, and the entry of the last one.
    due: Vec<(u64, CheckpointAt)>,
    /// The lowest of those: most turns look at nothing else.
    next_due: u64,
}

impl Checkpoints {
    /// For these partitions, each with its place among all of the node: the first ones come spread over one interval.
    pub(crate) fn new(
        link: CheckpointLink,
        every: u64,
        partitions: u16,
        owned: impl Iterator<Item = PartitionId>,
    ) -> Self {
        let none = CheckpointAt {
            index: LogIndex(0),
            term: courser_contract::Term(0),
        };
        let due = owned.map(|id| match id.volatile_shard() {
            // The place of partition 0: what it has is little, and keeps segments from going.
            Some(ShardId(0)) => (every, none),
            Some(_) => (u64::MAX, none),
            None => (every * u64::from(id.0) / u64::from(partitions), none),
        });
        Self {
            link,
            every,
            progress: Progress::None,
            covers: 0,
            hurry_at: Tick(0),
            due: due.collect(),
            next_due: 0,
        }
    }

    /// The place whose checkpoint has been due for longest; its next one is due an interval later.
    fn take_due(&mut self, stands: u64) -> Option<usize> {
        if stands < self.next_due {
            return None;
        }
        let longest = (0..self.due.len()).min_by_key(|&place| self.due[place].0);
        let place = longest.filter(|&place| self.due[place].0 <= stands);
        if let Some(place) = place {
            self.due[place].0 = stands + self.every;
        }
        let all = self.due.iter().map(|(due, _)| *due);
        self.next_due = all.min().unwrap_or(u64::MAX);
        place
    }

    /// The partition at `place` was made of the checkpoint at `at`.
    pub(crate) fn restored(&mut self, place: usize, at: CheckpointAt) {
        self.due[place].1 = at;
    }

    /// The partition at `place` is set aside: its checkpoint stays as it is.
    pub(crate) fn exclude(&mut self, place: usize) {
        self.due[place].0 = u64::MAX;
    }

    /// A start would have to replay an entry that the disk has lost: the partition at `place` is saved next, unless that was done
    /// after the entry.
    pub(crate) fn hasten(&mut self, place: usize, entry: LogIndex) {
        let (due, at) = &mut self.due[place];
        if *due != u64::MAX && at.index < entry {
            *due = 0;
            self.next_due = 0;
        }
    }

    /// A disk that is short of room gets some back only where a checkpoint lets segments go.
    fn hurry(&mut self, stands: u64, now: Tick) {
        self.hurry_at = now.after_ms(HURRY_MS);
        for (due, _) in &mut self.due {
            if *due != u64::MAX {
                *due = stands;
            }
        }
        self.next_due = stands;
    }

    /// Whether the next turn would go on, without anything from the reader.
    pub(crate) fn is_at_work(&self) -> bool {
        matches!(self.progress, Progress::Pieces(_))
            && self.link.pieces.load(Ordering::Acquire) < PIECES_MAX
    }

    fn send(&self, job: Job<FileDisk>) {
        // A reader that is gone has failed, which others see; the checkpoint is then never done.
        let _ = self.link.jobs.send(job);
    }
}

impl Shard {
    /// Goes on with the checkpoint that is under way, or begins one that is due.
    pub(crate) fn save(&mut self) {
        let Some(mut checkpoints) = self.checkpoints.take() else {
            return;
        };
        while let Ok(done) = checkpoints.link.done.try_recv() {
            self.timed(|it| it.checkpoint_done(&mut checkpoints, done));
        }
        match (&checkpoints.progress, self.saving()) {
            (Progress::None, Saves::Due) if self.hub.serving => self.begin_due(&mut checkpoints),
            (Progress::None, Saves::All) if self.hub.serving => {
                if let Some(place) = self.partitions.longest_unsaved(LAST_BYTES_MIN) {
                    self.timed(|it| it.begin_checkpoint(&mut checkpoints, place));
                }
            }
            (&Progress::Pieces(place), Saves::Due | Saves::All) if checkpoints.is_at_work() => {
                self.timed(|it| it.save_slice(&mut checkpoints, place));
            }
            (
                Progress::None | Progress::Pieces(_) | Progress::Given { .. } | Progress::Handed(_),
                Saves::Due | Saves::Nothing | Saves::All,
            ) => {}
        }
        self.hand_over(&mut checkpoints);
        self.checkpoints = Some(checkpoints);
    }

    /// Begins the checkpoint that has been due for longest.
    fn begin_due(&mut self, checkpoints: &mut Checkpoints) {
        let Stores::Disk(store) = &self.store else {
            return;
        };
        let stands = store.log_bytes();
        if self.disk_room == DiskRoom::Short && self.hub.now.tick >= checkpoints.hurry_at {
            checkpoints.hurry(stands, self.hub.now.tick);
        }
        if let Some(place) = checkpoints.take_due(stands) {
            self.timed(|it| it.begin_checkpoint(checkpoints, place));
        }
    }

    /// Does something for a checkpoint, and counts for how long.
    fn timed(&mut self, what: impl FnOnce(&mut Self)) {
        let begun = thread_cpu_us();
        what(self);
        let took = thread_cpu_us() - begun;
        let longest = &mut self.hub.counters.longest_save_us;
        *longest = took.max(*longest);
    }

    /// Begins a checkpoint of the partition at `place`, if that has applied anything since its last one.
    fn begin_checkpoint(&mut self, checkpoints: &mut Checkpoints, place: usize) {
        let saved = self.saveable(place);
        let at = saved.applied();
        if at.index <= checkpoints.due[place].1.index || !saved.begin() {
            // Nothing for the next start to apply either: consensus has entries of its own.
            *saved.unsaved_bytes() = 0;
            return;
        }
        checkpoints.covers = *saved.unsaved_bytes();
        checkpoints.due[place].1 = at;
        checkpoints.progress = Progress::Pieces(place);
        checkpoints.send(Job::CheckpointBegins(saved.id(), at));
    }

    fn save_slice(&mut self, checkpoints: &mut Checkpoints, place: usize) {
        let saved = self.saveable(place);
        let id = saved.id();
        if let Some(bytes) = saved.take_piece(SLICE_BYTES) {
            checkpoints.link.pieces.fetch_add(1, Ordering::AcqRel);
            checkpoints.send(Job::CheckpointPiece {
                partition: id,
                bytes,
                waiting: Arc::clone(&checkpoints.link.pieces),
                shard: self.hub.id,
            });
            return;
        }
        let Some(live) = saved.end() else {
            return;
        };
        let Stores::Disk(store) = &self.store else {
            return;
        };
        checkpoints.progress = Progress::Given {
            place,
            live,
            written: store.written(),
            asked: false,
        };
    }

    /// Hands the end of a checkpoint over once the log is synced to its entry: at once, unless records are acknowledged before.
    /// Then the log is asked once, since nothing else may come that would tell.
    fn hand_over(&mut self, checkpoints: &mut Checkpoints) {
        let (
            Progress::Given {
                place,
                live,
                written,
                asked,
            },
            Stores::Disk(store),
        ) = (&mut checkpoints.progress, &mut self.store)
        else {
            return;
        };
        let Some(synced) = store.synced_to(*written) else {
            if !std::mem::replace(asked, true) {
                store.ask_synced();
            }
            return;
        };
        let (place, live) = (*place, std::mem::take(live));
        checkpoints.progress = Progress::Handed(place);
        checkpoints.send(Job::CheckpointEnds {
            partition: self.saveable(place).id(),
            live,
            synced,
            shard: self.hub.id,
        });
    }

    /// Whether a stop has partitions left to save.
    pub(crate) fn is_saving_last(&self) -> bool {
        let under_way = |it: &Checkpoints| !matches!(it.progress, Progress::None);
        self.saving() == Saves::All
            && self.hub.serving
            && self.checkpoints.as_ref().is_some_and(|checkpoints| {
                under_way(checkpoints) || self.partitions.longest_unsaved(LAST_BYTES_MIN).is_some()
            })
    }

    /// Its pieces cannot be written.
    fn give_up(&mut self, checkpoints: &mut Checkpoints, place: usize) {
        let saved = self.saveable(place);
        saved.cancel();
        checkpoints.progress = Progress::None;
        checkpoints.send(Job::CheckpointCancelled(saved.id()));
    }

    fn checkpoint_done(&mut self, checkpoints: &mut Checkpoints, done: CheckpointDone) {
        let place = self.partitions.place(done.partition);
        match checkpoints.progress {
            Progress::Handed(under_way) if under_way == place => {}
            // The reader could not write a piece.
            Progress::Given {
                place: under_way, ..
            } if under_way == place => {}
            Progress::Pieces(under_way) if under_way == place => {
                self.give_up(checkpoints, place);
            }
            Progress::None | Progress::Pieces(_) | Progress::Given { .. } | Progress::Handed(_) => {
                return;
            }
        }
        checkpoints.progress = Progress::None;
        let unsaved = self.saveable(place).unsaved_bytes();
        match done.live {
            Some(_) => *unsaved -= checkpoints.covers,
            // What did not work now is tried again when it is due, not by a stop.
            None => *unsaved = 0,
        }
        if let (Some(live), Stores::Disk(store)) = (done.live, &mut self.store) {
            store.checkpointed(Checkpointed {
                partition: done.partition,
                at: checkpoints.due[place].1,
                live,
            });
        }
    }
}
