//! Records that are only in the log are read back (M17): the record reader's steps, what it asks the writer, and its answers all take
//! time in which anything else happens.

use std::time::Duration;

use courser_contract::{Question, Recalled};
use courser_log::{LogPlaces, ReadError, RecallStep, RecordReader};

use super::super::World;
use super::planted::PlantedDisk;
use super::{DiskEvent, DiskNode};
use crate::bug::Bug;
use crate::shell::Inbound;

/// The record reader and whether its next step is on its way.
pub(super) struct Recalling {
    reader: RecordReader<PlantedDisk>,
    is_due: bool,
    has_places: bool,
}

impl Recalling {
    pub(super) fn new(node: &DiskNode) -> Self {
        let reader = RecordReader::new(node.folder(&node.log_folder));
        Self {
            reader: match node.bug.and_then(Bug::in_log) {
                Some(planted) => reader.with(planted),
                None => reader,
            },
            is_due: false,
            has_places: false,
        }
    }
}

impl World {
    /// A partition asks.
    pub(in super::super) fn ask_for_records(&mut self, question: Question) {
        if let Some(running) = self.station() {
            running.recalling.reader.ask(question);
            self.wake_recall(3);
        }
    }

    /// The reader makes a step, unless one is on its way.
    fn wake_recall(&mut self, longest_ms: u64) {
        let Some(disk) = self.disk.as_deref_mut() else {
            return;
        };
        let ms = disk.rng.below(longest_ms + 1);
        let Some(running) = &mut disk.running else {
            return;
        };
        if !std::mem::replace(&mut running.recalling.is_due, true) {
            self.disk_later(ms, DiskEvent::Recall);
        }
    }

    /// One step.
    pub(super) fn recall(&mut self) {
        let now = self.now;
        let Some(running) = self.station() else {
            return;
        };
        let recalling = &mut running.recalling;
        recalling.is_due = false;
        let step = recalling.reader.step(Duration::from_millis(now));
        recalling.reader.check();
        let error = recalling.reader.take_error();
        match step {
            RecallStep::Answer(answer) => {
                self.answer(answer, error);
                self.wake_recall(2);
            }
            RecallStep::AskPlaces => {
                self.tell_places();
                self.wake_recall(2);
            }
            RecallStep::Again => self.wake_recall(2),
            RecallStep::Rest(until) => {
                let until = u64::try_from(until.as_millis()).unwrap_or(u64::MAX);
                self.wake_recall_at(until.max(now + 1));
            }
            RecallStep::Idle => {}
        }
    }

    fn wake_recall_at(&mut self, at: u64) {
        let ms = at - self.now;
        if let Some(running) = self.station() {
            running.recalling.is_due = true;
            self.disk_later(ms, DiskEvent::Recall);
        }
    }

    /// The writer says where things are; its word takes a while.
    fn tell_places(&mut self) {
        let is_old = self.plan.bug == Some(Bug::OldPlaces);
        let ms = self.rng.below(4);
        let Some(running) = self.station() else {
            return;
        };
        let has_some = std::mem::replace(&mut running.recalling.has_places, true);
        let places = running.log.places();
        if !(is_old && has_some) {
            self.disk_later(ms, |life| DiskEvent::Places(life, Box::new(places)));
        } else {
            // As if nothing had changed since they were first told.
            let reader = &mut running.recalling.reader;
            reader.set_places(LogPlaces::default());
        }
    }

    pub(super) fn take_places(&mut self, places: LogPlaces) {
        if let Some(running) = self.station() {
            running.recalling.reader.set_places(places);
            self.wake_recall(2);
        }
    }

    /// An answer is on its way to its shard.
    fn answer(&mut self, mut answer: Recalled, error: Option<ReadError>) {
        self.check_recalled(&answer);
        match &error {
            Some(ReadError::Disk { place, .. } | ReadError::Damaged { place, .. })
                if self.has_rotted(place.segment) =>
            {
                self.suspect(place.segment);
            }
            // The operator starts the node again: the disk gives it another time.
            Some(ReadError::Disk { source, .. }) => return self.stop_for_disk(&source.to_string()),
            Some(_) | None => {}
        }
        answer.error = error.map(|error| error.to_string());
        self.counts.recalled += answer.records.len() as u64;
        match self.plan.bug {
            Some(Bug::RecallLost) if self.rng.chance(10) => return,
            Some(Bug::RecallSwapped) => swap(&mut answer),
            _ => {}
        }
        let ms = self.rng.below(8);
        self.disk_later(ms, |life| DiskEvent::Recalled(life, answer));
    }

    pub(super) fn recalled(&mut self, answer: Recalled) {
        let shard = self.places.shard_of(answer.partition);
        self.inbound(shard, Inbound::Recalled(answer));
    }
}

/// Two records of the same length change places.
fn swap(answer: &mut Recalled) {
    let records = &mut answer.records;
    for first in 0..records.len() {
        let same = |it: &(courser_contract::Want, u32)| it.0.len == records[first].0.len;
        let Some(second) = records[first + 1..].iter().position(same) else {
            continue;
        };
        let second = first + 1 + second;
        let at = records[first].1;
        records[first].1 = records[second].1;
        records[second].1 = at;
        return;
    }
}
