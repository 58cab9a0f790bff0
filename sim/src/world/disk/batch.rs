//! The writer's batches: one of all that gathered while it synced, with all that a large entry needs.

use courser_log::{Push, WriteError};

use super::{Mark, Marks, Order, Running};
use crate::bug::Bug;

/// Who waits for a batch.
#[derive(Debug, Default)]
pub(super) struct Answers {
    /// For its sync.
    pub(super) synced: Marks,
    /// For no more than that it is written.
    pub(super) written: Marks,
    /// Whether the batch has a part of an order that waits for the sync.
    pub(super) is_awaited: bool,
}

impl Answers {
    fn take(&mut self, order: &mut Order, bug: Option<Bug>) {
        let marks = match order.waits_for_sync(bug) {
            true => &mut self.synced,
            false => &mut self.written,
        };
        marks.append(&mut order.marks);
    }
}

impl Order {
    /// Who waits for a batch that has to be written once more.
    fn again(mark: Mark, marks: Marks) -> Self {
        Self {
            marks,
            ..Self::of(mark)
        }
    }

    fn waits_for_sync(&self, bug: Option<Bug>) -> bool {
        match (bug, self.mark) {
            (Some(Bug::AllRelaxed), Mark::Synced) => self.sync,
            (_, mark) => self.sync || mark == Mark::Synced,
        }
    }
}

/// How a write went.
pub(super) enum Wrote {
    Nothing,
    Batch(Answers),
    NoRoom,
    Failed(WriteError),
}

impl Running {
    /// Writes one batch of what waits, with all that a large entry needs.
    pub(super) fn write(&mut self, bug: Option<Bug>) -> Wrote {
        if self.writing.is_some() || self.orders.is_empty() {
            return Wrote::Nothing;
        }
        if bug == Some(Bug::SwapOrders) && self.orders.len() > 1 && !self.batch.is_unfinished() {
            self.orders.swap(0, 1);
        }
        let mut answers = Answers::default();
        while let Some(order) = self.orders.front_mut() {
            while let Some(record) = order.records.front() {
                match self.batch.push(record) {
                    Push::Taken => drop(order.records.pop_front()),
                    Push::Full => break,
                }
                answers.is_awaited |= order.waits_for_sync(bug);
            }
            if !order.records.is_empty() || self.batch.is_unfinished() {
                break;
            }
            answers.take(order, bug);
            self.orders.pop_front();
        }
        self.put(answers, bug)
    }

    fn put(&mut self, mut answers: Answers, bug: Option<Bug>) -> Wrote {
        if self.batch.is_empty() {
            return Wrote::Nothing;
        }
        loop {
            match self.log.write(&mut self.batch) {
                Ok(_) => {}
                Err(WriteError::NoSpace) => {
                    // The same batch again, later: its marks wait with it.
                    let written = answers.written;
                    if !written.is_empty() {
                        self.orders.push_front(Order::again(Mark::Written, written));
                    }
                    let synced = Order::again(Mark::Synced, answers.synced);
                    self.orders.push_front(synced);
                    return Wrote::NoRoom;
                }
                Err(error) => return Wrote::Failed(error),
            }
            let unfinished = self.batch.is_unfinished();
            self.batch.clear();
            if !unfinished {
                break;
            }
        }
        // The entry that was large has been written to its end.
        if let Some(order) = self
            .orders
            .front_mut()
            .filter(|order| order.records.is_empty())
        {
            answers.take(order, bug);
            self.orders.pop_front();
        }
        Wrote::Batch(answers)
    }
}
