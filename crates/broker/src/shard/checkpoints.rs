//! Checkpoints of the shard's partitions (M42), one at a time, in slices of turns.
//!
//! A partition's turn comes when the log has taken `log.checkpoint_bytes` since its last one, and partitions come one after the
//! other so that they do not all write at once. Pieces go to the reader station, which writes them; when the manifest is
//! durable, the group and the log forget what is below. An idle partition writes none: nothing of it is in newer segments.
//! What counts is the log that all shards share, so one to which nothing comes is woken when that begins a segment.
//!
//! An orderly stop saves what the next start would have to apply, the longest first, for as long as the stop may take
//! ([`Saves::All`]). A process that ends in the middle leaves a file that no manifest names, which the start removes.

mod schedule;
mod slice;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;

use courser_contract::{LogIndex, PartitionId, Term};
use courser_engine::EntrySet;
use courser_log::{BatchNumber, CheckpointAt};

use self::schedule::Schedule;
use super::Shard;
use super::stop::Saves;
use crate::clock::thread_cpu_us;
use crate::stations::{CheckpointDone, CheckpointPlace, Checkpointed, Job, Medium};
use crate::store::Stores;

/// Pieces on their way to the reader at most: 1 MiB. The engine gathers slices, of whatever size, until a piece has 64 KiB.
const PIECES_MAX: usize = 16;

/// A stop saves a partition when the next start would apply at least so many bytes of entries: less are applied in less time
/// than the syncs of a checkpoint take.
const LAST_BYTES_MIN: u64 = 64 << 10;

/// A shard's way to the reader.
pub(crate) struct CheckpointLink {
    pub(crate) jobs: mpsc::Sender<Job<Medium>>,
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
    schedule: Schedule,
    progress: Progress,
    /// The entry of the one that is under way.
    at: CheckpointAt,
    /// Bytes of entries of its partition that were applied after the checkpoint before it.
    covers: u64,
}

impl Checkpoints {
    /// For these partitions, each with its place among all of the node.
    pub(crate) fn new(
        link: CheckpointLink,
        every: u64,
        partitions: u16,
        owned: impl Iterator<Item = PartitionId>,
    ) -> Self {
        Self {
            link,
            schedule: Schedule::new(every, partitions, owned),
            progress: Progress::None,
            at: CheckpointAt {
                index: LogIndex(0),
                term: Term(0),
            },
            covers: 0,
        }
    }

    /// See [`Schedule::restored`].
    pub(crate) fn restored(&mut self, place: usize, at: CheckpointAt) {
        self.schedule.restored(place, at);
    }

    /// See [`Schedule::exclude`].
    pub(crate) fn exclude(&mut self, place: usize) {
        self.schedule.exclude(place);
    }

    /// See [`Schedule::hasten`].
    pub(crate) fn hasten(&mut self, place: usize, entry: LogIndex) {
        self.schedule.hasten(place, entry);
    }

    /// See [`Schedule::renew`].
    pub(crate) fn renew(&mut self, place: usize) {
        self.schedule.renew(place);
    }

    /// Whether the next turn would go on, without anything from the reader.
    pub(crate) fn is_at_work(&self) -> bool {
        matches!(self.progress, Progress::Pieces(_))
            && self.link.pieces.load(Ordering::Acquire) < PIECES_MAX
    }

    fn send(&self, job: Job<Medium>) {
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
        let mut took_us = 0;
        while let Ok(done) = checkpoints.link.done.try_recv() {
            took_us += self.timed(|it| it.checkpoint_done(&mut checkpoints, done));
        }
        took_us += match (&checkpoints.progress, self.saving()) {
            (Progress::None, Saves::Due) if self.hub.serving => self.begin_due(&mut checkpoints),
            (Progress::None, Saves::All) if self.hub.serving => {
                let unsaved = self.partitions.longest_unsaved(LAST_BYTES_MIN);
                unsaved.map_or(0, |place| {
                    self.timed(|it| it.begin_checkpoint(&mut checkpoints, place))
                })
            }
            (&Progress::Pieces(place), Saves::Due | Saves::All) if checkpoints.is_at_work() => {
                self.timed(|it| it.save_slice(&mut checkpoints, place))
            }
            (
                Progress::None | Progress::Pieces(_) | Progress::Given { .. } | Progress::Handed(_),
                Saves::Due | Saves::Nothing | Saves::All,
            ) => 0,
        };
        if matches!(checkpoints.progress, Progress::Given { .. }) {
            took_us += self.timed(|it| it.hand_over(&mut checkpoints));
        }
        let longest = &mut self.hub.counters.longest_save_us;
        *longest = took_us.max(*longest);
        self.checkpoints = Some(checkpoints);
    }

    /// Begins the checkpoint that has been due for longest; microseconds of CPU.
    fn begin_due(&mut self, checkpoints: &mut Checkpoints) -> u64 {
        let (stands, now) = (self.hub.disk_state().log_stands(), self.hub.now.tick);
        if self.hub.disk_state().wants_room() {
            checkpoints.schedule.hurry(stands, now);
        }
        let has_news = |place: usize, saved: CheckpointAt| self.has_news(place, saved);
        let due = checkpoints.schedule.take_due(stands, now, has_news);
        due.map_or(0, |place| {
            self.timed(|it| it.begin_checkpoint(checkpoints, place))
        })
    }

    /// Whether the partition at `place` has applied anything since its checkpoint at `saved`. One that has not needs no other: nothing above that
    /// one is in the log, however much others have written.
    fn has_news(&mut self, place: usize, saved: CheckpointAt) -> bool {
        let owned = self.saveable(place);
        let has_news = saved.index < owned.applied().index;
        if !has_news {
            // Nothing for the next start to apply either: consensus has entries of its own.
            *owned.unsaved_bytes() = 0;
        }
        has_news
    }

    /// Whether a shard that is about to sleep has a checkpoint to begin: what brings that about is what others write.
    pub(super) fn is_save_due(&self) -> bool {
        let now = self.hub.now.tick;
        self.checkpoints.as_ref().is_some_and(|it| {
            matches!(it.progress, Progress::None)
                && self.saving() == Saves::Due
                && self.hub.serving
                && it.schedule.is_due(self.hub.disk_state().log_stands(), now)
        })
    }

    /// Whether one that failed is to be tried again in a while, whatever happens until then.
    pub(super) fn has_failed_save(&self) -> bool {
        let checkpoints = self.checkpoints.as_ref();
        checkpoints.is_some_and(|it| it.schedule.is_resting(self.hub.now.tick))
    }

    /// Does something for a checkpoint; gives the microseconds of CPU that it took.
    fn timed(&mut self, what: impl FnOnce(&mut Self)) -> u64 {
        let begun = thread_cpu_us();
        what(self);
        thread_cpu_us() - begun
    }

    /// Begins a checkpoint of the partition at `place`, if that has applied anything since its last one, or that is damaged.
    fn begin_checkpoint(&mut self, checkpoints: &mut Checkpoints, place: usize) {
        let renews = checkpoints.schedule.renews(place);
        if !renews && !self.has_news(place, checkpoints.schedule.saved(place)) {
            return;
        }
        let saved = self.saveable(place);
        let at = saved.applied();
        if !saved.begin() {
            *saved.unsaved_bytes() = 0;
            return;
        }
        checkpoints.covers = *saved.unsaved_bytes();
        checkpoints.at = at;
        checkpoints.progress = Progress::Pieces(place);
        checkpoints.send(Job::CheckpointBegins {
            partition: saved.id(),
            at,
            place: match renews {
                true => CheckpointPlace::OfDamaged,
                false => CheckpointPlace::Behind,
            },
            shard: self.hub.id,
        });
    }

    fn save_slice(&mut self, checkpoints: &mut Checkpoints, place: usize) {
        let clock = self.clock;
        let begun = clock.moment();
        let saved = self.saveable(place);
        let id = saved.id();
        if let Some(bytes) = slice::take(saved, || begun.until(clock.moment())) {
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
        let abandoned = saved.cancel();
        checkpoints.progress = Progress::None;
        checkpoints.send(Job::CheckpointCancelled(saved.id(), abandoned));
    }

    fn checkpoint_done(&mut self, checkpoints: &mut Checkpoints, done: CheckpointDone) {
        let place = self.partitions.place(done.partition);
        match checkpoints.progress {
            Progress::Handed(under_way) if under_way == place => {}
            // The reader could not begin, or not write a piece.
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
        let (at, now) = (checkpoints.at, self.hub.now.tick);
        let stops = self.saving() == Saves::All;
        let unsaved = self.saveable(place).unsaved_bytes();
        match done.live {
            Some(_) => *unsaved -= checkpoints.covers,
            // A stop tries each once.
            None if stops => *unsaved = 0,
            None => {}
        }
        let Stores::Disk(store) = &mut self.store else {
            return;
        };
        let Some(live) = done.live else {
            let stands = self.hub.disk_state().log_stands();
            return checkpoints.schedule.failed(place, stands, now);
        };
        checkpoints.schedule.succeeded(place, at);
        store.checkpointed(Checkpointed {
            partition: done.partition,
            at,
            live,
        });
    }
}
