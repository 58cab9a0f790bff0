//! The cleaner: moves the few records of old segments that are still needed, so that the segments can be used again (M41).
//!
//! ```text
//! checkpoint ─▶ survey ─▶ weigh ─▶ plan ─▶ source ─▶ needs ─▶ gather ─▶ Kept … Kept, Cleaned ─▶ synced: the segment is free
//!               of the log  by the checkpoints' files          of the file    through the one writer
//! ```
//!
//! What is needed is what the checkpoint that counts names, so nobody is asked who is busy: [`Needs`] reads addresses out of the
//! checkpoints' files. A record that a checkpoint does not name is never named by a later one, so what was
//! found to be needed of a segment stays enough, however long moving it takes. Entries above a checkpoint are whole where they
//! are; a segment with one is not touched.
//!
//! Records go out sorted by stream, and behind the last of them one that says that the segment is cleaned. Only when that is
//! synced is the segment free. A loss of power before leaves both copies, which say the same; one after it finds the segment
//! cleaned.
//!
//! A step reads at most some pieces of a checkpoint, or some batches of a segment. A checkpoint that is replaced while it is read stays
//! open and is read to its end. Memory does not grow with the segment: what is needed of one that has more small records than a pass
//! moves ([`Cleaner::with_records_max`]) goes in passes by address, and only the last of them ends with *cleaned*.
//!
//! What cannot be read for the moment says nothing of the disk: the cleaner comes back to it.
//!
//! The cleaner has no thread and no clock: whoever runs it calls [`Cleaner::step`], asks the log what it wants to know, writes
//! what it gives, and says when that is synced.

mod budget;
mod checkpoint;
mod choose;
mod gather;
mod moving;
mod obstacle;
mod sketch;
mod survey;
mod talk;
mod wants;
mod weigh;
mod weighing;
mod weights;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use courser_contract::{LogIndex, Needs, PartitionId};

pub use self::{
    budget::Budget,
    choose::Pressure,
    survey::{Source, Survey},
    talk::{CleanerCounts, Question, Step},
};
use self::{
    checkpoint::CheckpointScan,
    choose::{Chosen, PLAN_MIN},
    gather::Gathering,
    moving::Needing,
    obstacle::Trouble,
    wants::{Address, RECORDS_MAX},
    weighing::Weighing,
    weights::Weights,
};
use crate::{
    checkpoint::{CheckpointStore, Manifest, Manifests},
    config::Planted,
    disk::Disk,
    ids::SegmentNumber,
    record::Record,
};

/// Bytes of kept records that are written at once: what live traffic beside them waits for.
const CHUNK_BYTES: u64 = 256 << 10;
/// A look at all checkpoints costs time: not before so many segments more are written, or an eighth of what there is to clean.
const LOOK_SEGMENTS: u64 = 2;

/// How far it is.
#[derive(Debug)]
enum State<F, S> {
    Idle,
    Asked,
    /// Part of a segment is moved; the log is asked whether the rest from there on may be.
    AskedAgain(Address),
    Weighing(Box<Weighing<F, S>>),
    /// The needs of a segment are collected.
    Needing(Box<Needing<F, S>>),
    Gathering(Box<Gathering<F>>),
    /// Records are being written; more follow.
    Writing(Box<Gathering<F>>),
    /// The last ones are being written.
    Ending,
    /// It could not be read, for this reason; the log is asked whether it still counts.
    Doubting(SegmentNumber, String),
    /// It could not be, and counts.
    Left(SegmentNumber, String),
}

/// See the module.
#[derive(Debug)]
pub struct Cleaner<D: Disk, N: Needs> {
    disk: D,
    store: CheckpointStore<D>,
    manifests: Manifests,
    needs: N,
    segment_bytes: u64,
    records_max: usize,
    state: State<D::File, N::Scan>,
    plan: VecDeque<Chosen>,
    budget: Budget,
    pressure: Pressure,
    /// Bytes of kept records that there was room for when the plan was made: what it frees is for others until the next one.
    room: u64,
    weights: Weights,
    /// Samples of a plan: twice as many as in the one before when one of those was cleaned.
    samples_max: usize,
    has_hit: bool,
    /// Damaged segments.
    left_alone: BTreeSet<SegmentNumber>,
    /// Segments with a record that is larger than a batch, and its entry.
    pinned: BTreeMap<SegmentNumber, (PartitionId, LogIndex)>,
    /// A checkpoint has come since the last survey.
    has_news: bool,
    /// Live bytes of which it was told.
    told: u64,
    /// Live bytes that were written since the last survey, and at which the next one is due.
    grown: u64,
    look_at: u64,
    counts: CleanerCounts,
    planted: Option<Planted>,
}

impl<D: Disk, N: Needs> Cleaner<D, N> {
    /// Of a log on `disk` with segments of `segment_bytes`, whose checkpoints are in `store`.
    pub fn new(
        disk: D,
        store: CheckpointStore<D>,
        manifests: Manifests,
        needs: N,
        segment_bytes: u64,
    ) -> Self {
        Self {
            disk,
            store,
            manifests,
            needs,
            segment_bytes,
            records_max: RECORDS_MAX,
            state: State::Idle,
            plan: VecDeque::new(),
            budget: Budget::new(segment_bytes),
            pressure: Pressure::None,
            room: 0,
            weights: Weights::default(),
            samples_max: PLAN_MIN,
            has_hit: false,
            left_alone: BTreeSet::new(),
            pinned: BTreeMap::new(),
            has_news: true,
            told: 0,
            grown: 0,
            look_at: 0,
            counts: CleanerCounts::default(),
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

    /// The same with so many records of a segment that one pass moves, at least 1; 131,072 unless it is said. Each costs 48 bytes
    /// while checkpoints are read; fewer of them than a segment holds cost further reads of it and of its partitions' checkpoints.
    #[must_use]
    pub fn with_records_max(mut self, records: usize) -> Self {
        self.records_max = records.max(1);
        self
    }

    /// What was done.
    #[must_use]
    pub const fn counts(&self) -> CleanerCounts {
        self.counts
    }

    /// Live traffic has written so many bytes since the log was opened ([`crate::LogCounts::live_bytes`]), so much time has passed
    /// since the last call, and so urgent is it to get room.
    pub fn earn(&mut self, live_bytes: u64, millis: u64, pressure: Pressure) {
        let more = live_bytes.saturating_sub(self.told);
        self.told = live_bytes.max(self.told);
        self.budget.earn(more, millis);
        self.grown = self.grown.saturating_add(more);
        self.pressure = pressure;
    }

    /// Whether it rests because live traffic has written too little.
    #[must_use]
    pub fn is_short_of_budget(&self) -> bool {
        let has_work = match &self.state {
            State::Idle => !self.plan.is_empty(),
            State::Gathering(gathering) => !gathering.out.is_empty(),
            State::Asked
            | State::AskedAgain(_)
            | State::Weighing(_)
            | State::Needing(_)
            | State::Writing(_)
            | State::Ending
            | State::Doubting(..)
            | State::Left(..) => false,
        };
        has_work && !self.may_write(CHUNK_BYTES)
    }

    /// A checkpoint is the one that counts now. Before the one that it replaces is removed, or in the same thread.
    pub fn checkpointed(&mut self, manifest: Manifest) {
        self.manifests.insert(manifest.partition, manifest);
        self.has_news = true;
    }

    /// The log's answer to [`Question::Survey`].
    pub fn surveyed(&mut self, survey: Survey) {
        let bytes: u64 = survey.segments.iter().map(|it| it.bytes).sum();
        self.look_at = (LOOK_SEGMENTS * self.segment_bytes).max(bytes / 8);
        self.grown = 0;
        self.counts.in_pieces = survey.in_pieces;
        self.has_news = false;
        let is_worth = survey.room > 0 && !survey.segments.is_empty();
        self.state = match is_worth {
            true => State::Weighing(Box::new(Weighing::new(survey))),
            false => State::Idle,
        };
    }

    /// The log's answer to [`Question::Source`] or [`Question::Damaged`].
    pub fn sourced(&mut self, source: Option<Source>) {
        let state = std::mem::replace(&mut self.state, State::Idle);
        self.state = match (state, source) {
            (State::Doubting(segment, why), Some(_)) => State::Left(segment, why),
            (state, Some(source)) => {
                let from = if let State::AskedAgain(from) = state {
                    Some(from)
                } else {
                    None
                };
                State::Needing(Box::new(Needing::new(source, from, self.records_max)))
            }
            (_, None) => {
                self.plan.pop_front();
                State::Idle
            }
        };
    }

    /// What the last [`Step::Write`] gave is synced.
    pub fn written(&mut self) {
        self.state = match std::mem::replace(&mut self.state, State::Idle) {
            State::Writing(gathering) => State::Gathering(gathering),
            State::Ending => {
                self.counts.segments += 1;
                let chosen = self.plan.pop_front();
                self.has_hit |= chosen.is_some_and(|it| it.is_sample);
                State::Idle
            }
            other @ (State::Idle
            | State::Asked
            | State::AskedAgain(_)
            | State::Weighing(_)
            | State::Needing(_)
            | State::Gathering(_)
            | State::Doubting(..)
            | State::Left(..)) => other,
        };
    }

    /// The next step: reads at most 512 KiB of a checkpoint, or 256 KiB of a segment and a batch.
    pub fn step(&mut self) -> Step {
        match std::mem::replace(&mut self.state, State::Idle) {
            State::Idle => self.begin(),
            waiting @ (State::Asked
            | State::AskedAgain(_)
            | State::Writing(_)
            | State::Ending
            | State::Doubting(..)) => {
                self.state = waiting;
                Step::Rest
            }
            State::Left(segment, _) if self.has(Planted::CleanDamaged) => {
                self.state = State::Ending;
                Step::Write(vec![Record::Cleaned { segment }])
            }
            State::Left(segment, why) => {
                self.left_alone.insert(segment);
                self.plan.pop_front();
                self.gave_up(Some(segment), why)
            }
            State::Weighing(weighing) => self.weigh(weighing),
            State::Needing(needing) => self.need(needing),
            State::Gathering(gathering) => self.gather(gathering),
        }
    }

    /// Whether this bug is planted: never without the feature `testing`.
    fn has(&self, planted: Planted) -> bool {
        cfg!(feature = "testing") && self.planted == Some(planted)
    }

    /// Goes on with the plan, or sees whether there is a new one to make.
    fn begin(&mut self) -> Step {
        let question = match self.plan.front() {
            Some(_) if !self.may_write(CHUNK_BYTES) => return Step::Rest,
            Some(chosen) => Question::Source(chosen.segment),
            None => {
                let is_due = self.grown >= self.look_at || self.pressure == Pressure::Short;
                if !self.has_news || !is_due {
                    return Step::Rest;
                }
                Question::Survey
            }
        };
        self.state = State::Asked;
        Step::Ask(question)
    }

    fn may_write(&self, bytes: u64) -> bool {
        match self.pressure {
            Pressure::None => self.budget.allows(bytes.min(self.segment_bytes)),
            Pressure::Short => true,
        }
    }

    /// Whether a record that no batch holds is still needed where it is, as far as the checkpoints say.
    fn is_pinned(&self, segment: SegmentNumber) -> bool {
        self.pinned.get(&segment).is_some_and(|(partition, index)| {
            let manifest = self.manifests.get(partition);
            manifest.is_some_and(|manifest| manifest.live.contains(*index))
        })
    }

    /// Begins to read what a partition's checkpoint needs.
    fn scan(&self, partition: PartitionId) -> Result<CheckpointScan<D::File, N::Scan>, Trouble> {
        CheckpointScan::new(&self.store, &self.manifests, &self.needs, partition)
    }

    fn gave_up(&mut self, segment: Option<SegmentNumber>, why: String) -> Step {
        self.counts.given_up += 1;
        Step::GaveUp { segment, why }
    }
}
