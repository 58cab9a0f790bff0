//! Records that partitions have read back from the log (M17): questions go to the record reader at the end of a turn, what it has read
//! comes in at the beginning of one.

use std::sync::mpsc;

use courser_contract::Recalled;

use super::Shard;
use super::budget::Budget;
use crate::stations::{Counter, QuestionDoor};

/// A shard's way to the record reader.
pub(crate) struct Recalls {
    questions: QuestionDoor,
    recalled: mpsc::Receiver<Recalled>,
    /// One that came as the shard was about to sleep.
    next: Option<Recalled>,
    /// Whether [`Timer::LOSSES`](super::timers::Timer::LOSSES) is armed.
    pub(super) watches_losses: bool,
}

impl Recalls {
    /// By these ways.
    pub(crate) const fn new(questions: QuestionDoor, recalled: mpsc::Receiver<Recalled>) -> Self {
        Self {
            questions,
            recalled,
            next: None,
            watches_losses: false,
        }
    }

    /// Whether something has been read.
    pub(crate) fn has_some(&mut self) -> bool {
        if self.next.is_none() {
            self.next = self.recalled.try_recv().ok();
        }
        self.next.is_some()
    }

    fn take(&mut self) -> Option<Recalled> {
        self.next.take().or_else(|| self.recalled.try_recv().ok())
    }
}

impl Shard {
    /// Takes in what has been read, until the budget is spent: one at least, or who lags would get nothing beside many commits.
    pub(super) fn handle_recalled(&mut self) {
        while let Some(recalled) = self.recalls.as_mut().and_then(Recalls::take) {
            let lost = self.with_partition(recalled.partition, |it, now, fx| {
                it.handle_recalled(now, &recalled, fx)
            });
            if lost > 0 {
                self.tell_unreadable(&recalled, lost);
            }
            let bytes = i64::try_from(recalled.room()).unwrap_or(i64::MAX);
            self.hub.budget.spend(bytes / Budget::ENTRY_BYTES);
            if self.hub.budget.is_spent() {
                return;
            }
        }
    }

    /// The log does not give records: streams stop at them, and which ones is said soon.
    #[cold]
    fn tell_unreadable(&mut self, recalled: &Recalled, records: usize) {
        let error = recalled.error.as_deref();
        tracing::error!(
            event = "record_unreadable",
            partition = recalled.partition.0,
            records,
            error = error.unwrap_or("the log does not have it"),
            "messages that left memory cannot be read back from the log"
        );
        let state = self.hub.disk_state();
        state.add(Counter::RecalledLost, records as u64);
        self.watch_losses();
    }

    /// Asks what a partition wants to know.
    #[cold]
    pub(super) fn ask_for_records(&mut self, place: usize) {
        let now = self.hub.now;
        let partition = self.partitions.at(place).partition.as_mut();
        let question = partition.and_then(|partition| partition.take_question(now));
        let partition = self.partitions.at(place).partition.as_ref();
        let asks_on = partition.is_some_and(|partition| partition.has_question());
        if let (Some(question), Some(recalls)) = (question, &self.recalls) {
            recalls.questions.ask(question);
            if asks_on {
                // More than one question may ask for: the next turn goes on.
                self.partitions.touch(place);
            }
        }
    }
}
