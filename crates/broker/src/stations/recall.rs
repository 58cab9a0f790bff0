//! The record reader: reads records back that partitions have let go of (M17), one thread for all shards.
//!
//! ```text
//! shard ──question──▶ ┌───────────────┐ ──places?──▶ log-writer
//!       ◀──records─── │ record-reader │ ◀──places────
//!                     └───────────────┘ ──reads────▶ segment files
//! ```
//! It has a thread of its own since the log reader fills segments and writes checkpoints for 100 ms at a time, and somebody waits for
//! each of these records. What waits in a shard's channel is bounded by the room that its partitions have given.
//!
//! A disk that does not give a record has not failed: the record is lost, as by any damage (M44), and an operator is told. What cannot be
//! read for want of a descriptor, or the like, is waited for, and an operator is told that too.

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError, TryRecvError};
use std::time::{Duration, Instant};

use courser_contract::{PartitionId, Question, Recalled, ShardId};
use courser_log::{Disk, ReadError, RecallStep, RecordReader};

use super::disk::{Counter, DiskState};
use super::requests::RequestDoor;
use crate::causes::with_causes;
use crate::rings::Doze;

/// A writer that has not said where things are is asked again after so long.
const PLACES_AGAIN: Duration = Duration::from_secs(1);
/// The writer copies them between two batches: it is asked again when so many times as long has passed as that took.
const PLACES_SHARE: u32 = 20;

/// What the thread is told.
#[derive(Debug)]
pub(super) enum Told {
    /// A partition of this shard asks.
    Asked(ShardId, Question),
    /// Nobody asks any more.
    End,
}

/// A shard asks by this.
#[derive(Clone, Debug)]
pub(crate) struct QuestionDoor {
    shard: ShardId,
    told: mpsc::Sender<Told>,
}

impl QuestionDoor {
    pub(super) const fn new(shard: ShardId, told: mpsc::Sender<Told>) -> Self {
        Self { shard, told }
    }

    /// Asks; the answers come to the shard of this door.
    pub(crate) fn ask(&self, question: Question) {
        // A reader that has ended answers nothing.
        let _ = self.told.send(Told::Asked(self.shard, question));
    }
}

/// Where a shard hears of its records.
pub(crate) struct RecallDoor {
    pub(crate) recalled: mpsc::Sender<Recalled>,
    pub(crate) doze: Arc<Doze>,
}

/// See the module.
pub(crate) struct RecallStation<D: Disk> {
    told: mpsc::Receiver<Told>,
    reader: RecordReader<D>,
    requests: RequestDoor,
    /// By shard.
    shards: Vec<RecallDoor>,
    /// The shard that asks for a partition.
    homes: HashMap<PartitionId, ShardId>,
    state: Arc<DiskState>,
    /// Of times given to the reader.
    origin: Instant,
    /// When the writer is to be asked for places.
    ask_places: Option<Duration>,
    /// It is not asked before.
    rest_places: Duration,
    /// It was told that nothing can be read for the moment.
    is_held_up: bool,
}

/// Nobody asks any more.
struct Ended;

impl<D: Disk> RecallStation<D> {
    /// Of a log on this disk.
    pub(super) fn new(
        disk: D,
        told: mpsc::Receiver<Told>,
        requests: RequestDoor,
        shards: Vec<RecallDoor>,
        state: Arc<DiskState>,
    ) -> Self {
        Self {
            told,
            reader: RecordReader::new(disk),
            requests,
            shards,
            homes: HashMap::new(),
            state,
            origin: Instant::now(),
            ask_places: None,
            rest_places: Duration::ZERO,
            is_held_up: false,
        }
    }

    /// Works until it is told to end, or nobody can ask any more.
    pub(super) fn run(mut self) {
        while let Ok(()) = self.turn() {}
    }

    fn turn(&mut self) -> Result<(), Ended> {
        self.take_all()?;
        let now = self.origin.elapsed();
        if self.ask_places.is_some_and(|due| due <= now) {
            match self.requests.places() {
                Some(places) => {
                    self.reader.set_places(places);
                    self.ask_places = None;
                    let took = self.origin.elapsed().saturating_sub(now);
                    self.rest_places = self.origin.elapsed() + PLACES_SHARE * took;
                }
                None => self.ask_places = Some(self.origin.elapsed() + PLACES_AGAIN),
            }
        }
        let step = self.reader.step(now);
        if let Some(error) = self.reader.take_hold_up() {
            self.tell_hold_up(&error);
        }
        match step {
            RecallStep::Answer(answer) => self.answer(answer),
            RecallStep::AskPlaces => self.ask_places = Some(now.max(self.rest_places)),
            RecallStep::Again => {}
            RecallStep::Rest(until) => self.wait(Some(until), now)?,
            RecallStep::Idle => self.wait(self.reader.sweep(), now)?,
        }
        Ok(())
    }

    fn take_all(&mut self) -> Result<(), Ended> {
        loop {
            match self.told.try_recv() {
                Ok(told) => self.take(told)?,
                Err(TryRecvError::Empty) => return Ok(()),
                Err(TryRecvError::Disconnected) => return Err(Ended),
            }
        }
    }

    fn take(&mut self, told: Told) -> Result<(), Ended> {
        match told {
            Told::Asked(shard, question) => {
                self.homes.insert(question.partition, shard);
                self.reader.ask(question);
                Ok(())
            }
            Told::End => Err(Ended),
        }
    }

    /// Waits for a question, until then at most.
    fn wait(&mut self, until: Option<Duration>, now: Duration) -> Result<(), Ended> {
        self.publish();
        let due = until.into_iter().chain(self.ask_places).min();
        let told = match due {
            Some(due) => self.told.recv_timeout(due.saturating_sub(now)),
            None => self.told.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        match told {
            Ok(told) => self.take(told),
            Err(RecvTimeoutError::Timeout) => Ok(()),
            Err(RecvTimeoutError::Disconnected) => Err(Ended),
        }
    }

    /// Once, until something could be read again.
    #[cold]
    fn tell_hold_up(&mut self, error: &ReadError) {
        if !std::mem::replace(&mut self.is_held_up, true) {
            let error = with_causes(error);
            tracing::warn!(
                event = "recall_held_up",
                error,
                "messages that left memory cannot be read for the moment: it is tried again until they can"
            );
        }
    }

    fn answer(&mut self, mut answer: Recalled) {
        self.publish();
        self.is_held_up = false;
        // Why the last one was lost says nothing of an answer that lacks nothing.
        let error = match answer.lost.is_empty() {
            true => None,
            false => self.reader.take_error(),
        };
        if let Some(ReadError::Damaged { place, .. } | ReadError::Disk { place, .. }) = &error {
            self.state.damage().suspect(place.segment.0);
        }
        answer.error = error.map(|error| with_causes(&error));
        let Some(shard) = self.homes.get(&answer.partition) else {
            return;
        };
        let door = &self.shards[usize::from(shard.0)];
        // A shard that has ended needs no answer.
        let _ = door.recalled.send(answer);
        door.doze.wake();
    }

    /// Shows what was counted.
    fn publish(&self) {
        let counts = self.reader.counts();
        let numbers = [
            (Counter::RecallReadBytes, counts.read_bytes),
            (Counter::RecalledBytes, counts.bytes),
            (Counter::RecalledRecords, counts.records),
            (Counter::RecallQuestions, counts.questions),
            (Counter::RecallRounds, counts.rounds),
            (Counter::RecallHeldUp, counts.held_up),
            (Counter::RecallIndexBytes, counts.index_bytes),
        ];
        for (counter, number) in numbers {
            self.state.set(counter, number);
        }
    }
}
