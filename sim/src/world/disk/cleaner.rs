//! The cleaner while the node runs (M41): steps at the reader's station, between its other work; what it asks comes through the
//! writer, and what it moves goes there as an order. All three take time in which anything else happens.

use std::collections::BTreeSet;

use courser_contract::{Need, Needs, NeedsScan, PartitionId};
use courser_engine::{CheckpointNeeds, NeededRecords};
use courser_log::inspect::RecordAt;
use courser_log::{
    CheckpointStore, Cleaner, HeldSegment, Manifests, Pressure, Question, Record, SegmentNumber,
    Source, SpaceState, Step, Survey,
};

use super::super::World;
use super::planted::PlantedDisk;
use super::{DiskEvent, DiskNode, Mark, Order, Running, Waits};
use crate::bug::Bug;

/// How long it waits for more budget.
const BUDGET_LOOK_MS: u64 = 50;

/// What the writer tells it of the log.
#[derive(Debug)]
pub(crate) enum Answer {
    Survey(Survey),
    Source(Option<Source>),
}

/// A cleaner and whether its next step is on its way.
pub(super) struct Cleaning {
    pub(super) cleaner: Cleaner<PlantedDisk, PlantedNeeds>,
    is_due: bool,
    /// The last segment that it asked for.
    source: Option<SegmentNumber>,
    /// Which segments somebody knew to be damaged when the log first said what counts of that one.
    known: (Option<SegmentNumber>, BTreeSet<SegmentNumber>),
    /// When it was told of live traffic.
    told_at: u64,
}

impl Cleaning {
    pub(super) fn new(
        node: &DiskNode,
        store: CheckpointStore<PlantedDisk>,
        manifests: Manifests,
        now: u64,
    ) -> Self {
        let disk = node.folder(&node.log_folder);
        let needs = PlantedNeeds { bug: node.bug };
        let cleaner = Cleaner::new(disk, store, manifests, needs, node.plan.segment_bytes)
            .with_records_max(node.plan.cleaner_records);
        Self {
            cleaner: match node.bug.and_then(Bug::in_log) {
                Some(planted) => cleaner.with(planted),
                None => cleaner,
            },
            is_due: false,
            source: None,
            known: (None, BTreeSet::new()),
            told_at: now,
        }
    }

    /// Of other segments that are held those that were taken for whole when the log said what counts of one.
    fn unnoticed(&self, held: &[HeldSegment], segment: SegmentNumber) -> Vec<SegmentNumber> {
        let (of, known) = &self.known;
        let others = held.iter().map(|it| it.segment);
        let others = others.filter(|it| *it != segment);
        others
            .filter(|it| *of != Some(segment) || !known.contains(it))
            .collect()
    }
}

impl World {
    /// Adds what the log of this process has done to what the seed has come to.
    pub(in super::super) fn count_log(&mut self) {
        let Some(disk) = self.disk.as_deref() else {
            return;
        };
        let log = disk.log_counts();
        self.counts.segments += log.rolls;
        self.counts.cleaned += log.cleaned;
        self.counts.kept += log.kept_records;
    }

    /// It has something to look at: a step follows, unless one does anyway.
    pub(super) fn wake_cleaner(&mut self, longest_ms: u64) {
        let Some(disk) = self.disk.as_deref_mut() else {
            return;
        };
        let ms = disk.rng.below(longest_ms + 1);
        let Some(running) = &mut disk.running else {
            return;
        };
        if !std::mem::replace(&mut running.cleaning.is_due, true) {
            self.disk_later(ms, DiskEvent::Clean);
        }
    }

    /// One step.
    pub(super) fn clean(&mut self) {
        let now = self.now;
        let Some(running) = self.station() else {
            return;
        };
        running.cleaning.is_due = false;
        running.earn(now);
        match running.cleaning.cleaner.step() {
            Step::Again => self.wake_cleaner(3),
            Step::Rest => {
                if running.cleaning.cleaner.is_short_of_budget() {
                    self.wake_cleaner(BUDGET_LOOK_MS);
                }
            }
            Step::Ask(question) => {
                if let Question::Source(segment) = question {
                    running.cleaning.source = Some(segment);
                }
                self.note_asked(question);
                let ms = self.rng.below(4);
                self.disk_later(ms, |life| DiskEvent::CleanerAsks(life, question));
            }
            Step::Write(records) => self.order_of_cleaner(records),
            Step::HeldUp { why } => {
                self.note(format_args!("the cleaner is held up: {why}"));
                self.wake_cleaner(BUDGET_LOOK_MS);
            }
            Step::GaveUp { segment, why } => {
                self.note(format_args!("the cleaner gives up {segment:?}: {why}"));
                self.wake_cleaner(3);
            }
        }
    }

    /// From now on the node knows of what has rotted in a segment.
    fn note_asked(&mut self, question: Question) {
        if let (Question::Damaged(segment), Some(node)) = (question, self.disk.as_deref_mut()) {
            node.rotten.note_known(segment);
        }
    }

    fn order_of_cleaner(&mut self, mut records: Vec<Record>) {
        let bug = self.plan.bug;
        self.note(format_args!("the cleaner moves {}", told(&records)));
        self.check_cleaned(&records);
        plant(bug, &mut records);
        if let Some(running) = self.station() {
            running.orders.push_back(Order {
                marks: vec![Waits::Cleaner],
                records: records.into(),
                ..Order::of(Mark::Synced)
            });
        }
        self.disk_later(0, DiskEvent::Write);
    }

    /// M41, M44: beside a segment that is called cleaned, another one gives what it had of what is needed. What of it has rotted and is nowhere else stays where it is, so
    /// that it can be said, and perhaps read another time.
    fn check_cleaned(&mut self, records: &[Record]) {
        let &[Record::Cleaned { segment }] = records else {
            return;
        };
        let Some(node) = self.disk.as_deref() else {
            return;
        };
        let Some(running) = node.running.as_ref().filter(|_| node.rotten.is_some()) else {
            return;
        };
        let held = running.log.held_segments();
        let unnoticed = running.cleaning.unnoticed(&held, segment);
        let nowhere_else = self.unread_in(&self.needed(|_| true), |it| it != segment);
        let not_here = self.unread_in(&nowhere_else, |it| it == segment);
        let lost = nowhere_else.into_iter().filter(|record| {
            !not_here.contains(record) || node.rotten.may_lack_in(segment, *record)
        });
        // What another segment holds is moved out of neither: where that has rotted and nobody has noticed, it is lost by that alone.
        let is_excused = |record: &RecordAt| {
            let mut unnoticed = unnoticed.iter();
            unnoticed.any(|it| node.rotten.may_lack_in(*it, *record))
        };
        let (excused, lost): (Vec<_>, Vec<_>) = lost.partition(is_excused);
        if let Some((id, index, byte)) = lost.first() {
            self.oracle.fail(format!(
                "partition {}: M41: segment {} is called cleaned, and byte {byte} of entry {} that is needed is in no other one",
                id.0, segment.0, index.0
            ));
        }
        if !excused.is_empty() {
            self.note(format_args!(
                "of {} records in segment {} the others have rotted, and nobody has noticed",
                excused.len(),
                segment.0
            ));
        }
    }

    /// The writer answers at once, and the answer is on its way for a while.
    pub(super) fn cleaner_asks(&mut self, question: Question) {
        let ms = self.rng.below(4);
        let Some(node) = self.disk.as_deref_mut() else {
            return;
        };
        let Some(running) = &mut node.running else {
            return;
        };
        let answer = match question {
            Question::Survey => Answer::Survey(running.log.survey()),
            Question::Source(segment) => {
                if running.cleaning.known.0 != Some(segment) {
                    running.cleaning.known = (Some(segment), node.rotten.known());
                }
                Answer::Source(running.log.source(segment))
            }
            Question::Damaged(segment) => {
                running.log.note_damaged(segment);
                Answer::Source(running.log.source(segment))
            }
        };
        self.disk_later(ms, |life| DiskEvent::CleanerTold(life, Box::new(answer)));
    }

    pub(super) fn cleaner_told(&mut self, answer: Answer) {
        let Some(running) = self.station() else {
            return;
        };
        let cleaner = &mut running.cleaning.cleaner;
        match answer {
            Answer::Survey(survey) => cleaner.surveyed(survey),
            Answer::Source(source) => cleaner.sourced(source),
        }
        if self.plan.bug == Some(Bug::CleanedFirst) {
            self.call_cleaned();
        }
        self.wake_cleaner(3);
    }

    /// The planted bug: the end comes first.
    fn call_cleaned(&mut self) {
        let Some(running) = self.station() else {
            return;
        };
        if let Some(segment) = running.cleaning.source.take() {
            running.orders.push_back(Order {
                records: [Record::Cleaned { segment }].into(),
                ..Order::of(Mark::Synced)
            });
        }
        self.disk_later(0, DiskEvent::Write);
    }
}

impl Running {
    fn earn(&mut self, now: u64) {
        let pressure = match self.log.space().state {
            SpaceState::Enough => Pressure::None,
            SpaceState::Low => Pressure::Short,
        };
        let live = self.log.counts().live_bytes();
        let Cleaning {
            cleaner, told_at, ..
        } = &mut self.cleaning;
        cleaner.earn(live, now - *told_at, pressure);
        *told_at = now;
    }
}

fn told(records: &[Record]) -> String {
    match records {
        [Record::Cleaned { segment }] => format!("the last of segment {}", segment.0),
        records => format!("{} records", records.len()),
    }
}

/// What a cleaner that forgets a duty would order.
fn plant(bug: Option<Bug>, records: &mut Vec<Record>) {
    match bug {
        Some(Bug::KeptLost) if records.len() > 1 => drop(records.pop()),
        Some(Bug::KeptElsewhere) => swap_addresses(records),
        Some(Bug::CleanedMisnamed) => {
            for record in records {
                if let Record::Cleaned { segment } = record {
                    segment.0 += 1;
                }
            }
        }
        _ => {}
    }
}

/// Two records of one partition change their addresses.
fn swap_addresses(records: &mut [Record]) {
    let [.., before, last] = records else { return };
    if let (
        Record::Kept {
            partition: one,
            index: first,
            byte: from,
            ..
        },
        Record::Kept {
            partition: other,
            index: second,
            byte: to,
            ..
        },
    ) = (before, last)
        && one == other
    {
        std::mem::swap(first, second);
        std::mem::swap(from, to);
    }
}

/// What checkpoints need; with a bug, not all of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct PlantedNeeds {
    bug: Option<Bug>,
}

/// Goes through one checkpoint.
#[derive(Debug)]
pub(super) struct PlantedScan {
    scan: NeededRecords,
    bug: Option<Bug>,
    told: u64,
}

impl Needs for PlantedNeeds {
    type Scan = PlantedScan;

    fn scan(&self, partition: PartitionId) -> PlantedScan {
        PlantedScan {
            scan: CheckpointNeeds.scan(partition),
            bug: self.bug,
            told: 0,
        }
    }

    fn record_bytes(&self, entry: &bytes::Bytes, byte: u32) -> Option<usize> {
        let bytes = CheckpointNeeds.record_bytes(entry, byte)?;
        match self.bug {
            Some(Bug::KeptTooShort) => Some(bytes - 1),
            _ => Some(bytes),
        }
    }
}

impl NeedsScan for PlantedScan {
    fn piece(&mut self, bytes: &[u8], need: &mut dyn FnMut(Need)) -> Result<(), String> {
        let Self { scan, bug, told } = self;
        NeedsScan::piece(scan, bytes, &mut |it| {
            *told += 1;
            if *bug != Some(Bug::NeedForgotten) || !told.is_multiple_of(3) {
                need(it);
            }
        })
    }

    fn finish(self) -> Result<(), String> {
        NeedsScan::finish(self.scan)
    }
}
