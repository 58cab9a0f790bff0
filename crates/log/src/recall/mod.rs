//! Reading single records of all partitions back, for many streams at once (M17): one elevator that goes through the files.
//!
//! ```text
//! cursor ──▶ a batch is read once ─▶ all heads in it get their records ─▶ those who ran dry are waited for ─▶ the next place that
//!    ▲                                                                                          somebody wants, in log order ──┐
//!    └────────────────────────── behind the last one it begins again with the lowest: a round ─────────────────────────────────┘
//! ```
//! - A stream gets its records in order, so of each stream only the first want, its **head**, is looked for. A partition has room for
//!   so many bytes; without room its heads are not looked for either.
//! - The cursor only goes forward, and skips what nobody wants. Each stream gets what it wants from where it stands in at most two
//!   rounds, however many others there are. Those who lag far apart are read for in one round after the other, and come together.
//! - Before the batch in hand is left, those are waited for who will ask for more of it, and before a round begins, those who come a little
//!   later than others (`linger`).
//! - What cannot be read for want of a descriptor, or of anything else that may be there a moment later, is read again after a rest:
//!   it is not lost, and nobody passes it by.
//! - Where things are the log says ([`LogPlaces`]), and says anew when something is not there: a cleaner moves records, and segments
//!   are used again. Only what newer places do not give either is **lost**.
//!
//! Each record is copied: an answer shares no memory with what was read. Besides wants and answers that are not taken yet there are a
//! read of 512 KiB, a batch, and for a large entry in pieces that entry.
//!
//! The reader has no thread and no clock: whoever runs it calls [`RecordReader::step`] with a time since any origin.

mod fail;
mod hand;
mod index;
mod kept;
mod known;
mod linger;
mod run;
mod serve;
mod wants;

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    time::Duration,
};

use courser_contract::{LogIndex, PartitionId, Question, Recalled};

use self::{
    fail::Missing,
    hand::Hand,
    index::Indexing,
    known::{Known, Stop, What},
    linger::Linger,
    run::{READ_BYTES_MAX, READ_BYTES_MIN, Run},
    wants::Asking,
};
use crate::{
    config::Planted,
    disk::Disk,
    error::ReadError,
    ids::{Place, SegmentNumber},
    places::LogPlaces,
    read::{BatchFault, Files, join},
    scan::{Check, RawBatch},
};

/// What whoever runs the reader is to do.
#[derive(Debug)]
pub enum RecallStep {
    /// Give this to the partition that has asked.
    Answer(Recalled),
    /// Ask the log for [`crate::Log::places`], and give them by [`RecordReader::set_places`]. Other steps may be made meanwhile.
    AskPlaces,
    /// Call again.
    Again,
    /// Call again at this time, or when a question comes.
    Rest(Duration),
    /// Call again when a question comes, or places; or at the time of [`RecordReader::sweep`].
    Idle,
}

/// What was done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecallCounts {
    /// Bytes read of files, those for the index of kept records included.
    pub read_bytes: u64,
    /// Bytes of records that were delivered.
    pub bytes: u64,
    /// Records that were delivered.
    pub records: u64,
    /// Records that could not be had.
    pub lost: u64,
    /// Questions taken.
    pub questions: u64,
    /// Times that the elevator has begun with the lowest place.
    pub rounds: u64,
    /// Times that it has read elsewhere than behind the batch before.
    pub runs: u64,
    /// Times that it has rested because something was not to be had for the moment.
    pub held_up: u64,
    /// Bytes of memory that the indexes of kept records take.
    pub index_bytes: u64,
}

/// After so long it is tried again to read what was not to be had for the moment.
const HELD_UP: Duration = Duration::from_millis(200);
/// An index of kept records that nobody has needed for so long, or up to twice as long, goes. To make it again, all batches that have
/// some are read: a consumer that is slow should not come to that.
const SWEEP: Duration = Duration::from_secs(60);

/// See the module.
#[derive(Debug)]
pub struct RecordReader<D: Disk> {
    /// Of the elevator.
    files: Files<D>,
    /// For all else.
    aside: Files<D>,
    known: Known,
    indexing: Indexing,
    askings: BTreeMap<PartitionId, Asking>,
    /// Partitions with wants or room that they had not when the hand was looked through.
    changed: BTreeSet<PartitionId>,
    run: Option<Run>,
    hand: Option<Hand>,
    /// What is before it waits for the next round.
    cursor: Stop,
    linger: Linger,
    /// On their way out.
    ready: VecDeque<Recalled>,
    counts: RecallCounts,
    /// Why the last record was lost.
    error: Option<ReadError>,
    /// Nothing is read before this time.
    held_up: Option<Duration>,
    /// Why, until somebody has asked.
    hold_up: Option<ReadError>,
    /// When indexes are looked at that nobody needs any more; none: there are no indexes.
    sweep: Option<Duration>,
    planted: Option<Planted>,
}

/// Before all.
const BEGIN: Stop = Stop {
    place: Place {
        segment: SegmentNumber(0),
        offset: 0,
    },
    what: What::Batch,
};

impl<D: Disk> RecordReader<D> {
    /// Of a log on this disk.
    pub fn new(disk: D) -> Self {
        Self {
            files: Files::new(disk.clone()),
            aside: Files::new(disk),
            known: Known::default(),
            indexing: Indexing::default(),
            askings: BTreeMap::new(),
            changed: BTreeSet::new(),
            run: None,
            hand: None,
            cursor: BEGIN,
            linger: Linger::default(),
            ready: VecDeque::new(),
            counts: RecallCounts::default(),
            error: None,
            held_up: None,
            hold_up: None,
            sweep: None,
            planted: None,
        }
    }

    /// The same with a bug.
    #[cfg(feature = "testing")]
    #[must_use]
    pub fn with(mut self, planted: Planted) -> Self {
        self.planted = Some(planted);
        self
    }

    /// What was done.
    #[must_use]
    pub fn counts(&self) -> RecallCounts {
        RecallCounts {
            read_bytes: self.read_bytes(),
            index_bytes: self.known.index_bytes() as u64,
            ..self.counts
        }
    }

    fn read_bytes(&self) -> u64 {
        self.files.read_bytes() + self.aside.read_bytes()
    }

    /// Why the last record was lost, once; a record that is nowhere has no error.
    pub const fn take_error(&mut self) -> Option<ReadError> {
        self.error.take()
    }

    /// Why nothing could be read for a moment, once.
    pub const fn take_hold_up(&mut self) -> Option<ReadError> {
        self.hold_up.take()
    }

    /// Takes a question: each want of it is answered once, with its record or as lost.
    pub fn ask(&mut self, question: Question) {
        let Question {
            partition,
            streams,
            room,
        } = question;
        self.counts.questions += 1;
        self.known.want(partition);
        let generation = self.known.newest();
        let known = &self.known;
        let asking = self.askings.entry(partition).or_default();
        asking.add_room(room);
        for more in streams {
            let stream = more.stream;
            self.linger.asked(partition, stream);
            if asking.ask(more, generation) {
                asking.place(stream, |head, standing| {
                    known.spot(partition, head, standing)
                });
            }
        }
        if asking.has_room() {
            self.linger.has_room(partition);
        }
        self.changed.insert(partition);
    }

    /// Takes where everything is now.
    pub fn set_places(&mut self, places: LogPlaces) {
        self.known.set(places);
        let known = &self.known;
        let mut doubted: Option<Stop> = None;
        for (partition, asking) in &mut self.askings {
            asking.place_all(|head, standing| known.spot(*partition, head, standing));
            if asking.has_room() {
                let places = known.doubted(*partition, asking);
                doubted = doubted.into_iter().chain(places).min();
            }
            self.changed.insert(*partition);
        }
        // Before they change again.
        if let Some(stop) = doubted {
            self.cursor = self.cursor.min(stop);
            self.run = None;
        }
    }

    /// When memory is given back that nobody needs by then: a reader that idles wants another step at this time.
    #[must_use]
    pub const fn sweep(&self) -> Option<Duration> {
        self.sweep
    }

    fn sweep_at(&mut self, now: Duration) {
        let askings = &self.askings;
        let waits = |partition| askings.get(&partition).is_some_and(Asking::waits);
        self.known.sweep(waits);
        self.sweep = self.known.has_indexes().then_some(now + SWEEP);
    }

    /// The next step. Reads at most 512 KiB, or a batch; or an entry in pieces.
    pub fn step(&mut self, now: Duration) -> RecallStep {
        if self.sweep.is_some_and(|due| due <= now) {
            self.sweep_at(now);
        }
        for partition in std::mem::take(&mut self.changed) {
            self.serve(partition, now);
        }
        if let Some(answer) = self.ready.pop_front() {
            return self.give(answer);
        }
        if !self.known.has_asked && self.lacks_places() {
            self.known.has_asked = true;
            return RecallStep::AskPlaces;
        }
        if let Some(until) = self.held_up.filter(|until| *until > now) {
            return match self.flush() {
                Some(answer) => self.give(answer),
                None => RecallStep::Rest(until),
            };
        }
        let next = self.next_stop();
        let rest = next.and_then(|(_, is_next_round)| {
            let read_bytes = self.read_bytes();
            let lingers = self.linger.until(read_bytes, now);
            match lingers {
                None if is_next_round => self.linger.before_round(now),
                _ => lingers,
            }
        });
        let Some((stop, is_next_round)) = next.filter(|_| rest.is_none()) else {
            if let Some(answer) = self.flush() {
                return self.give(answer);
            }
            return match rest {
                _ if self.index(now) => RecallStep::Again,
                Some(until) => RecallStep::Rest(until),
                None => RecallStep::Idle,
            };
        };
        let is_read = stop.what == What::Batch && self.files.holds(stop.place);
        if !is_read && let Some(answer) = self.flush() {
            return self.give(answer);
        }
        self.index(now);
        if is_next_round || self.counts.rounds == 0 {
            self.counts.rounds += 1;
            self.linger.begin_round();
        }
        match stop.what {
            What::Batch | What::Over => self.read(stop.place, now),
            What::Pieces => self.join(stop.place, now),
        }
        RecallStep::Again
    }

    fn give(&mut self, answer: Recalled) -> RecallStep {
        self.counts.lost += answer.lost.len() as u64;
        RecallStep::Answer(answer)
    }

    /// Answers go out before anything takes time, however small they are.
    fn flush(&mut self) -> Option<Recalled> {
        let mut askings = self.askings.iter_mut();
        askings.find_map(|(partition, asking)| asking.answer(*partition, 0))
    }

    /// What is at a place is not to be had for the moment: the elevator stands there until it is.
    fn hold_up(&mut self, stop: Stop, error: ReadError, now: Duration) {
        self.cursor = stop;
        self.hold_up_for(error, now);
    }

    pub(super) fn hold_up_for(&mut self, error: ReadError, now: Duration) {
        self.counts.held_up += 1;
        self.held_up = Some(now + HELD_UP);
        self.hold_up = Some(error);
    }

    fn lacks_places(&self) -> bool {
        let known = &self.known;
        let is_stuck = self.indexing.is_stuck(known.generation);
        is_stuck
            || self.askings.iter().any(|(partition, asking)| {
                let mut unknown = asking.unknown.iter();
                unknown.any(|head| known.lacks_places(*partition, *head, asking))
            })
    }

    /// Where somebody who has room wants something, and whether that is in the next round.
    fn next_stop(&self) -> Option<(Stop, bool)> {
        let asking = || self.askings.iter().filter(|(_, it)| it.has_room());
        let ahead = |from: Stop| {
            let stops = asking().filter_map(move |(id, it)| self.known.ahead(*id, it, from));
            stops.min()
        };
        let goes_on = self.run.as_ref().filter(|run| {
            asking().any(|(id, it)| {
                let places = self.known.of(*id);
                places.is_some_and(|places| run.expected(*id, it, places).is_some())
            })
        });
        let goes_on = goes_on.map(|run| Stop {
            place: run.next(),
            what: What::Batch,
        });
        match goes_on.into_iter().chain(ahead(self.cursor)).min() {
            Some(stop) => Some((stop, false)),
            None => ahead(BEGIN).map(|stop| (stop, true)),
        }
    }

    /// Reads a batch, and gives everybody what is in it.
    fn read(&mut self, place: Place, now: Duration) {
        // Its memory serves again.
        self.hand = None;
        let goes_on = self.run.as_mut().is_some_and(|run| run.goes_on_at(place));
        if !goes_on {
            self.counts.runs += 1;
            self.files.set_ahead(READ_BYTES_MIN);
            self.run = Some(Run::new(place));
        }
        let run = self.run.get_or_insert_with(|| Run::new(place));
        if goes_on && !self.files.holds(place) {
            run.read_bytes = (2 * run.read_bytes).min(READ_BYTES_MAX);
            self.files.set_ahead(run.read_bytes);
        }
        let mut read = self.files.batch(place);
        if !matches!(read, Ok((_, Check::Lengths))) {
            // It may have been read ahead before it was written.
            self.files.close();
            read = self.files.batch(place);
        }
        if self.known.is_behind_end(place) {
            // Whoever looks for what is missing has come to what an earlier start wrote, or an earlier use of the file.
            read = Err(BatchFault::Damaged);
        }
        self.cursor = Stop {
            place,
            what: What::Pieces,
        };
        match plant(self.planted, read) {
            Ok((batch, check)) => {
                run.advance(batch.header.file_bytes());
                self.hand = Some(Hand::new(place, &batch, check));
                self.serve_all(now);
                while self.fail_passed() {
                    self.serve_all(now);
                }
                self.note_seen();
            }
            Err(fault) if fault.is_passing() => {
                let stop = Stop {
                    place,
                    what: What::Batch,
                };
                self.hold_up(stop, fault.of(place, NOBODY, FIRST), now);
            }
            Err(fault) => self.read_on(place, fault, now),
        }
    }

    /// The batch at a place cannot be read: the run goes on with the next one that is intact. What it has missed is found when something of the
    /// same partition comes from behind it, or nothing more can.
    fn read_on(&mut self, place: Place, fault: BatchFault, now: Duration) {
        let next = match self.behind(place) {
            Ok(next) => next,
            Err(fault) => {
                let stop = Stop {
                    place,
                    what: What::Batch,
                };
                return self.hold_up(stop, fault.of(place, NOBODY, FIRST), now);
            }
        };
        let missing = match next {
            Some(_) => Missing::There,
            None => Missing::Behind,
        };
        let Some(run) = &mut self.run else {
            return;
        };
        match next {
            Some(next) => run.pass(next, fault.again()),
            None => run.advance(0),
        }
        self.fail_at(place, &fault, missing);
    }

    /// Where the next batch is behind one that cannot be read.
    fn behind(&mut self, bad: Place) -> Result<Option<Place>, BatchFault> {
        let (before, until) = self.known.around(bad);
        self.aside.set_ahead(READ_BYTES_MAX);
        self.aside.close();
        let mut found = Ok(None);
        for from in before {
            if bad.offset < until && matches!(found, Ok(None)) {
                found = self.aside.behind(from, bad.offset, until);
            }
        }
        self.aside.close();
        found
    }

    /// Reads an entry whose first piece is at a place. The run goes on behind it.
    fn join(&mut self, place: Place, now: Duration) {
        self.cursor = Stop {
            place,
            what: What::Over,
        };
        let known = &self.known;
        let mut asking = self.askings.iter().filter(|(_, it)| it.has_room());
        let wanted = asking.find_map(|(partition, asking)| {
            let (index, places) = known.pieces_at(*partition, asking, place)?;
            Some((*partition, index, places))
        });
        let Some((partition, index, places)) = wanted else {
            return;
        };
        self.hand = None;
        self.aside.set_ahead(READ_BYTES_MAX);
        self.aside.close();
        let read = join(&mut self.aside, partition, index, &places);
        self.aside.close();
        match read {
            Ok(entry) => {
                self.hand = Some(Hand::joined(place, partition, index, entry.data));
                self.serve(partition, now);
            }
            Err((at, fault)) if fault.is_passing() => {
                let stop = Stop {
                    place,
                    what: What::Pieces,
                };
                self.hold_up(stop, fault.of(at, partition, index), now);
            }
            Err((at, fault)) => {
                let error = fault.of(at, partition, index);
                self.fail_entry(place, (partition, index), error);
            }
        }
    }

    /// Panics when an invariant of the module does not hold. Cost: a look at each stream.
    ///
    /// # Panics
    /// See above.
    pub fn check(&self) {
        self.askings.values().for_each(Asking::check);
    }
}

/// What a reader with a bug makes of a batch: nothing else without the feature `testing`.
fn plant(
    planted: Option<Planted>,
    read: Result<(RawBatch, Check), BatchFault>,
) -> Result<(RawBatch, Check), BatchFault> {
    match (planted.filter(|_| cfg!(feature = "testing")), read) {
        (Some(Planted::RecallDamaged), Ok((batch, _))) => Ok((batch, Check::Lengths)),
        (Some(Planted::RecallNeighbours), Ok((_, Check::Checksums))) => Err(BatchFault::Damaged),
        (_, read) => read,
    }
}

/// Of a batch that several want.
const NOBODY: PartitionId = PartitionId(0);

/// Before all entries.
const FIRST: LogIndex = LogIndex(0);
