//! The log writer: one thread, the one owner of the log.
//!
//! It takes all orders of all shards that gathered while the last sync was under way, writes them in one batch, syncs once,
//! and answers each shard with one wake; orders that wait for no sync (M1) are answered before it. What does not fit the batch goes into the next one, in order. Alone, an order is
//! written at once: no delay is added for company.
//!
//! A write or sync that fails, here or in another station, is final (`docs/durability.md`): nothing is answered any more, the disk counts as
//! failed, the thread ends, and the process is to end with code 74. A disk without room is not a failure: orders wait until there is
//! some (M47), or until all shards have ended, who then never hear of them.

mod requests;
mod room;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc;
use std::task::{Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use courser_log::{Batch, Disk, Log, PrepareError, Prepared, Push, Question, WriteError};

use super::cleaner::CleanerPorts;
use super::disk::{Counter, DiskState};
use super::orders::{Mark, Order, OrderReceiver};
use super::reader::Job;
use super::requests::{Holding, Request};
use crate::causes::with_causes;
use crate::rings::Doze;

/// A disk that is idle for so long gets a witness: an empty batch which says that all before it is synced (M44).
const IDLE: Duration = Duration::from_millis(100);
/// What was only written is synced within so long (M1).
const RELAXED: Duration = Duration::from_millis(100);
/// What a sync may take for that: most disks need less.
const SYNC_TAKES: Duration = Duration::from_millis(25);
/// When that sync begins at the latest.
const SYNC_AFTER: Duration = RELAXED.saturating_sub(SYNC_TAKES);

/// Wakes a thread that parks.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// A waker of the calling thread.
pub(crate) fn unparker() -> Waker {
    Waker::from(Arc::new(Unpark(thread::current())))
}

/// An order that is being worked off.
struct Pending {
    shard: usize,
    order: Order,
    /// Records of it that were taken into a batch.
    taken: usize,
    /// Of these, those in batches before the one that is being filled.
    written: usize,
}

/// What is to be done with time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Clockwork {
    /// Nothing: all is synced, and the last batch says so.
    Rest,
    /// All is synced since then; a witness is to follow.
    Synced(Instant),
    /// Something is only written, since then.
    Written(Instant),
}

impl Clockwork {
    /// When it is to be done.
    fn due(self) -> Option<Instant> {
        match self {
            Self::Rest => None,
            Self::Synced(since) => Some(since + IDLE),
            Self::Written(since) => Some(since + SYNC_AFTER),
        }
    }
}

/// See the module.
pub(crate) struct Writer<D: Disk> {
    log: Log<D>,
    batch: Batch,
    /// It begins with a piece of an entry whose other pieces are written.
    begins_with_piece: bool,
    shards: Vec<OrderReceiver>,
    /// In order of arrival. Those in front are taken into batches, the last of them perhaps in part.
    pending: VecDeque<Pending>,
    clockwork: Clockwork,
    doze: Arc<Doze>,
    state: Arc<DiskState>,
    /// To the reader.
    jobs: mpsc::Sender<Job<D>>,
    /// Segments that the reader has made ready.
    prepared: mpsc::Receiver<Prepared<D::File>>,
    /// Orders of a shard above these are the cleaner's, who does not keep the writer from ending.
    ends_with: usize,
    /// What the cleaner asks.
    questions: Option<mpsc::Receiver<Question>>,
    /// Of those who copy the log, and whether somebody does.
    requests: mpsc::Receiver<Request>,
    /// Those that have come while there was no room.
    put_off: VecDeque<Request>,
    holding: Holding,
    /// When the free space was looked at last.
    looked: Instant,
    /// Since when the batch has waited for room, and whether this was told.
    waits_since: Option<Instant>,
    is_waiting_told: bool,
    /// A file that nobody needs could not be removed, and this was told.
    is_stuck: bool,
    /// What was in the log at the start.
    recovered_bytes: u64,
    /// Segments that the log had begun when shards were last woken for that.
    told_rolls: u64,
}

/// What the writer's thread is started with.
pub(crate) struct WriterParts<D: Disk> {
    pub(crate) shards: Vec<OrderReceiver>,
    pub(crate) doze: Arc<Doze>,
    pub(crate) state: Arc<DiskState>,
    pub(crate) jobs: mpsc::Sender<Job<D>>,
    pub(crate) prepared: mpsc::Receiver<Prepared<D::File>>,
    /// None where nothing is cleaned.
    pub(crate) cleaner: Option<CleanerPorts>,
    pub(crate) requests: mpsc::Receiver<Request>,
}

impl<D: Disk> Writer<D> {
    /// Of a log that was just opened, with so many bytes in it.
    pub(crate) fn new(mut log: Log<D>, recovered_bytes: u64, parts: WriterParts<D>) -> Self {
        let WriterParts {
            mut shards,
            doze,
            state,
            jobs,
            prepared,
            cleaner,
            requests,
        } = parts;
        let ends_with = shards.len();
        let questions = cleaner.map(|ports| {
            shards.push(ports.orders);
            ports.questions
        });
        state.set_log_stands(recovered_bytes);
        let mut writer = Self {
            batch: log.new_batch(),
            begins_with_piece: false,
            log,
            shards,
            pending: VecDeque::new(),
            clockwork: Clockwork::Rest,
            doze,
            state,
            jobs,
            prepared,
            ends_with,
            questions,
            requests,
            put_off: VecDeque::new(),
            holding: Holding::default(),
            looked: Instant::now(),
            waits_since: None,
            is_waiting_told: false,
            is_stuck: false,
            recovered_bytes,
            told_rolls: 0,
        };
        writer.share_room();
        writer
    }

    /// Works until all shards have ended and all that they ordered is done; the log is synced then. Ends at once when the disk has failed
    /// in another station.
    ///
    /// # Errors
    /// The failure of the log, which is final.
    pub(crate) fn run(mut self) -> Result<(), WriteError> {
        self.doze.set_waker(&unparker());
        while self.state.failure().is_none() {
            self.doze.get_up();
            self.gather();
            self.take_requests()?;
            if !self.pending.is_empty() {
                self.work()?;
                continue;
            }
            if self.has_ended() {
                if matches!(self.clockwork, Clockwork::Written(_)) {
                    self.sync()?;
                }
                self.bear_witness()?;
                self.publish();
                return Ok(());
            }
            self.doze.lie_down();
            self.take_prepared()?;
            self.tell_cleaner();
            self.take_requests()?;
            if !self.shards.iter().any(OrderReceiver::has_order) && !self.has_ended() {
                self.rest()?;
            }
        }
        Ok(())
    }

    /// Whether nobody is left to order anything.
    fn has_ended(&self) -> bool {
        let shards = &self.shards[..self.ends_with];
        shards.iter().all(OrderReceiver::has_ended)
    }

    /// Takes all orders that are there.
    fn gather(&mut self) {
        for (shard, orders) in self.shards.iter_mut().enumerate() {
            while let Some(order) = orders.take() {
                self.pending.push_back(Pending {
                    shard,
                    order,
                    taken: 0,
                    written: 0,
                });
            }
        }
    }

    /// One batch: as many of the pending records as fit, written, synced and answered.
    fn work(&mut self) -> Result<(), WriteError> {
        self.begins_with_piece = !self.batch.is_empty();
        self.fill();
        let begun = Instant::now();
        if !self.batch.is_empty() && !self.write()? {
            self.pending.clear();
            return self.sync().map(drop);
        }
        // The rest of a large entry is in the next batch: nobody is answered before that is durable.
        let whole = self.batch.is_empty();
        if self.wants_sync() {
            if whole {
                self.answer(Mark::Written);
            }
            let now = self.sync()?;
            self.state.note_commit(now - begun);
            self.clockwork = Clockwork::Synced(now);
        }
        // First of all: clients wait for it, and what follows may wake another thread.
        if whole {
            self.answer(Mark::Synced);
        }
        // Also while there is always another order: else each segment would be made while all wait for it.
        self.take_prepared()?;
        self.look_ahead();
        self.tell_cleaner();
        Ok(())
    }

    /// Takes records into the batch until it is full.
    fn fill(&mut self) {
        for pending in &mut self.pending {
            pending.written = pending.taken;
            for record in &pending.order.records[pending.taken..] {
                match self.batch.push(record) {
                    Push::Taken => pending.taken += 1,
                    Push::Full => return,
                }
            }
        }
    }

    /// Syncs what was only written for as long as may be.
    fn sync_overdue(&mut self, now: Instant) -> Result<(), WriteError> {
        if let Clockwork::Written(since) = self.clockwork
            && since + SYNC_AFTER <= now
        {
            self.clockwork = Clockwork::Synced(self.sync()?);
        }
        Ok(())
    }

    /// Writes that all is synced. Without room it does not: that makes recovery surer, not right.
    fn bear_witness(&mut self) -> Result<(), WriteError> {
        match self.log.witness() {
            Err(error) if error.is_final() => Err(error),
            Ok(_) | Err(_) => Ok(()),
        }
    }

    /// Makes what was written durable. When that was done.
    fn sync(&mut self) -> Result<Instant, WriteError> {
        let begun = Instant::now();
        self.log.sync()?;
        let now = Instant::now();
        self.state.note_sync(now - begun);
        Ok(now)
    }

    /// Whether what was written is to be synced now.
    fn wants_sync(&self) -> bool {
        let awaited = |Pending { order, taken, .. }: &Pending| {
            order.sync || *taken > 0 && order.mark == Mark::Synced
        };
        match self.clockwork {
            Clockwork::Rest | Clockwork::Synced(_) => false,
            Clockwork::Written(since) => {
                self.pending.iter().any(awaited) || since.elapsed() >= SYNC_AFTER
            }
        }
    }

    /// Answers the orders whose records are all taken, and wakes each of their shards once: those that wait for no more than the
    /// write, or all.
    fn answer(&mut self, reached: Mark) {
        if self.state.failure().is_some() {
            return;
        }
        self.tell_position();
        let mut woken: u64 = 0;
        let mut at = 0;
        while let Some(Pending { order, taken, .. }) = self.pending.get(at)
            && *taken == order.records.len()
        {
            let waits = order.sync || order.mark == Mark::Synced;
            if waits && reached == Mark::Written {
                at += 1;
                continue;
            }
            woken |= self.answer_at(at);
        }
        self.wake(woken);
        self.publish();
    }

    /// Answers one of the pending orders: the bit of its shard.
    fn answer_at(&mut self, at: usize) -> u64 {
        let Some(Pending { shard, order, .. }) = self.pending.remove(at) else {
            return 0;
        };
        self.answer_one(shard, order);
        1 << (shard % 64)
    }

    /// Says where the log stands, and wakes all shards when it has begun a segment: one to which nothing comes has to save what keeps older ones (M42).
    /// Nothing that it saves would free the one that is written, so it is not woken before.
    fn tell_position(&mut self) {
        let counts = self.log.counts();
        let stands = self.recovered_bytes + counts.bytes;
        self.state.set_log_stands(stands);
        if std::mem::replace(&mut self.told_rolls, counts.rolls) != counts.rolls {
            self.wake_shards();
        }
    }

    /// Wakes all shards that sleep.
    fn wake_shards(&self) {
        for orders in &self.shards[..self.ends_with] {
            orders.wake();
        }
    }

    fn wake(&self, woken: u64) {
        for (shard, orders) in self.shards.iter().enumerate() {
            if woken & (1 << (shard % 64)) != 0 {
                orders.wake();
            }
        }
    }

    fn answer_one(&mut self, shard: usize, mut order: Order) {
        for done in order.checkpoints.drain(..) {
            self.log.set_checkpoint(done.partition, done.at, done.live);
        }
        order.log = Some((self.log.last_batch(), self.log.synced()));
        // The shard's own copies alone keep the bytes from now on.
        order.records.clear();
        self.shards[shard].answer(order);
    }

    /// What comes due while there is no order; sleeps until then at most.
    fn rest(&mut self) -> Result<(), WriteError> {
        let due = self.clockwork.due();
        let look = self.next_look();
        let now = Instant::now();
        match due.into_iter().chain(look).min() {
            None => thread::park(),
            Some(due) if due > now => thread::park_timeout(due - now),
            Some(_) => self.come_due(now)?,
        }
        Ok(())
    }

    fn come_due(&mut self, now: Instant) -> Result<(), WriteError> {
        match self.clockwork {
            Clockwork::Synced(since) if since + IDLE <= now => {
                self.bear_witness()?;
                self.clockwork = Clockwork::Rest;
            }
            Clockwork::Rest | Clockwork::Synced(_) | Clockwork::Written(_) => {
                self.sync_overdue(now)?;
            }
        }
        if self.next_look().is_some_and(|look| look <= now) {
            self.look_at_space();
        }
        self.publish();
        Ok(())
    }

    /// Asks the reader for a segment where one is wanted, and sees whether space is short.
    fn look_ahead(&mut self) {
        self.log.leave_free(self.state.checkpoint_room());
        if let Some(job) = self.log.prepare() {
            // Without a reader the process is ending.
            let _ = self.jobs.send(Job::Prepare(job));
        }
        self.tell_space();
    }

    fn take_prepared(&mut self) -> Result<(), WriteError> {
        while let Ok(prepared) = self.prepared.try_recv() {
            if let Some(error @ PrepareError::Failed { .. }) = prepared.error() {
                let error = with_causes(error);
                tracing::error!(event = "segment_not_made", error);
            }
            self.tell_removed(prepared.removed());
            self.log.prepared(prepared)?;
            self.is_stuck = self.log.has_stuck();
            self.look_ahead();
        }
        Ok(())
    }

    /// Says once that a file cannot be removed, until all could be: it is tried again with each segment and look at the disk.
    fn tell_removed(&self, removed: Result<u64, &PrepareError>) {
        if let Err(error) = removed
            && !self.is_stuck
        {
            let error = with_causes(error);
            tracing::warn!(event = "segment_not_removed", error);
        }
    }

    /// Answers what the cleaner has asked.
    fn tell_cleaner(&mut self) {
        let mut is_damaged = false;
        let questions = self.questions.iter();
        for question in questions.flat_map(mpsc::Receiver::try_iter) {
            let job = match question {
                Question::Survey => Job::Surveyed(self.log.survey()),
                Question::Source(segment) => Job::Sourced(self.log.source(segment)),
                Question::Damaged(segment) => {
                    self.log.note_damaged(segment);
                    is_damaged = true;
                    Job::Sourced(self.log.source(segment))
                }
            };
            // Without a reader the process is ending.
            let _ = self.jobs.send(job);
        }
        if is_damaged {
            self.look_ahead();
        }
    }

    /// Shows what the log has counted.
    fn publish(&self) {
        let counts = self.log.counts();
        let numbers = [
            (Counter::Syncs, counts.syncs),
            (Counter::Batches, counts.batches),
            (Counter::Records, counts.records),
            (Counter::Bytes, counts.bytes),
            (Counter::Witnesses, counts.witnesses),
            (Counter::CreatedSegments, counts.created),
            (Counter::RecycledSegments, counts.recycled),
            (Counter::RollsUnprepared, counts.rolls_unprepared),
            (Counter::CleanedSegments, counts.cleaned),
            (Counter::KeptRecords, counts.kept_records),
            (Counter::KeptBytes, counts.kept_bytes),
            (Counter::SegmentsBytes, self.log.segments_bytes()),
        ];
        for (counter, number) in numbers {
            self.state.set(counter, number);
        }
    }
}
