//! The cleaner's place in the process: between the reader's jobs, a step at a time (M41). It has its turn when none waits, and while they do
//! behind so many of them.
//!
//! It asks the log through the writer, which owns it, and writes by orders as a shard does; so there stays one writer for a disk,
//! and what it writes shares batches and syncs with live traffic.

use std::sync::Arc;
use std::sync::mpsc;
use std::task::{Wake, Waker};
use std::time::{Duration, Instant};

use courser_engine::CheckpointNeeds;
use courser_log::{Cleaner, Disk, Manifest, Pressure, Question, Record, Source, Step, Survey};

use super::disk::{Counter, DiskState, Stage};
use super::orders::{Mark, Order, OrderReceiver, OrderSender, orders};
use super::reader::Job;
use crate::rings::Doze;

/// How long the cleaner waits for more budget, and for what cannot be read for the moment.
const BUDGET_LOOK: Duration = Duration::from_millis(200);

/// How often it looks whether the start is over.
const START_LOOK: Duration = Duration::from_millis(200);

/// Jobs after which the cleaner has a step although others wait.
const TURN_JOBS: u32 = 16;

/// And the time: as long as a job waits for a step at most, about. So the cleaner has up to half of the reader while checkpoints come without an end.
const TURN_TIME: Duration = Duration::from_millis(4);

/// The jobs since the cleaner's last step.
#[derive(Debug)]
pub(crate) struct Turn {
    jobs: u32,
    since: Instant,
}

impl Default for Turn {
    fn default() -> Self {
        Self {
            jobs: 0,
            since: Instant::now(),
        }
    }
}

impl Turn {
    /// One more. The time is that of the jobs: what the reader slept before the first one is none.
    pub(crate) fn job(&mut self) {
        if self.jobs == 0 {
            self.since = Instant::now();
        }
        self.jobs += 1;
    }

    /// Whether the cleaner's step comes before the next job.
    pub(crate) fn is_due(&self) -> bool {
        self.jobs >= TURN_JOBS || self.jobs > 0 && self.since.elapsed() >= TURN_TIME
    }
}

/// The writer's ends.
#[derive(Debug)]
pub(crate) struct CleanerPorts {
    pub(crate) orders: OrderReceiver,
    pub(crate) questions: mpsc::Receiver<Question>,
}

/// What the reader does when no job waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pause {
    /// Looks for a job and goes on at once.
    None,
    /// Waits for a job, for so long at most.
    For(Duration),
    /// Waits for a job.
    Job,
}

/// Wakes a reader that waits for a job.
struct Knock<D: Disk>(mpsc::Sender<Job<D>>);

impl<D> Wake for Knock<D>
where
    D: Disk + Send + 'static,
    D::File: Send,
{
    fn wake(self: Arc<Self>) {
        // A reader that has ended needs no answer.
        let _ = self.0.send(Job::Look);
    }
}

/// See the module.
pub(crate) struct CleanerStation<D: Disk> {
    /// Once the log is read.
    cleaner: Option<Box<Cleaner<D, CheckpointNeeds>>>,
    orders: OrderSender,
    order: Order,
    questions: mpsc::Sender<Question>,
    writer: Arc<Doze>,
    doze: Arc<Doze>,
    state: Arc<DiskState>,
    /// When the cleaner was told how much live traffic has written.
    told_at: Instant,
    /// Something could not be read, and nothing was written since.
    is_held_up: bool,
}

impl<D> CleanerStation<D>
where
    D: Disk + Send + 'static,
    D::File: Send,
{
    /// For a reader that takes `jobs`, and a writer that is woken by `writer`.
    pub(crate) fn new(
        jobs: mpsc::Sender<Job<D>>,
        writer: Arc<Doze>,
        state: Arc<DiskState>,
    ) -> (Self, CleanerPorts) {
        let doze = Arc::new(Doze::default());
        doze.set_waker(&Waker::from(Arc::new(Knock(jobs))));
        let (sender, receiver) = orders(Arc::clone(&doze), Arc::clone(&writer));
        let (questions, asked) = mpsc::channel();
        let station = Self {
            cleaner: None,
            orders: sender,
            order: Order::of(Mark::Synced),
            questions,
            writer,
            doze,
            state,
            told_at: Instant::now(),
            is_held_up: false,
        };
        let ports = CleanerPorts {
            orders: receiver,
            questions: asked,
        };
        (station, ports)
    }

    /// The log is read.
    pub(crate) fn begin(&mut self, cleaner: Box<Cleaner<D, CheckpointNeeds>>) {
        self.cleaner = Some(cleaner);
        self.told_at = Instant::now();
    }

    /// A checkpoint counts now.
    pub(crate) fn checkpointed(&mut self, manifest: Manifest) {
        if let Some(cleaner) = &mut self.cleaner {
            cleaner.checkpointed(manifest);
        }
    }

    /// An answer of the log.
    pub(crate) fn surveyed(&mut self, survey: Survey) {
        if let Some(cleaner) = &mut self.cleaner {
            cleaner.surveyed(survey);
        }
    }

    /// An answer of the log.
    pub(crate) fn sourced(&mut self, source: Option<Source>) {
        if let Some(cleaner) = &mut self.cleaner {
            cleaner.sourced(source);
        }
    }

    /// One step. It sleeps by waiting for a job: an answer of the writer comes as one.
    pub(crate) fn step(&mut self) -> Pause {
        // Until all partitions are restored their readers have segments by name: none may be used again.
        if self.cleaner.is_some() && self.state.stage() != Stage::Serving {
            return Pause::For(START_LOOK);
        }
        let Some(mut cleaner) = self.cleaner.take() else {
            return Pause::Job;
        };
        self.doze.get_up();
        self.earn(&mut cleaner);
        self.take_written(&mut cleaner);
        let mut pause = self.go_on(&mut cleaner);
        if pause != Pause::None {
            self.doze.lie_down();
            // What came before the sign was up wakes nobody.
            if self.orders.has_answer() {
                pause = Pause::None;
            }
        }
        self.publish(&cleaner);
        self.cleaner = Some(cleaner);
        pause
    }

    fn take_written(&mut self, cleaner: &mut Cleaner<D, CheckpointNeeds>) {
        while let Some(order) = self.orders.next_done() {
            self.orders.keep(order);
            cleaner.written();
        }
    }

    fn go_on(&mut self, cleaner: &mut Cleaner<D, CheckpointNeeds>) -> Pause {
        match cleaner.step() {
            Step::Again => Pause::None,
            Step::Rest if cleaner.is_short_of_budget() => Pause::For(BUDGET_LOOK),
            Step::Rest => Pause::Job,
            Step::Ask(question) => {
                // A writer that has ended answers nothing.
                let _ = self.questions.send(question);
                self.writer.wake();
                Pause::Job
            }
            Step::Write(records) => {
                self.is_held_up = false;
                self.write(records);
                Pause::Job
            }
            Step::HeldUp { why } => {
                self.tell_hold_up(&why);
                Pause::For(BUDGET_LOOK)
            }
            Step::GaveUp { segment, why } => {
                let segment = segment.map(|segment| segment.0);
                tracing::error!(event = "cleaner_gave_up", segment, why);
                Pause::None
            }
        }
    }

    /// Once, until something is cleaned again.
    #[cold]
    fn tell_hold_up(&mut self, why: &str) {
        if !std::mem::replace(&mut self.is_held_up, true) {
            tracing::warn!(
                event = "cleaner_held_up",
                why,
                "what the cleaner reads is not to be had for the moment: it is tried again until it is"
            );
        }
    }

    fn write(&mut self, records: Vec<Record>) {
        for record in records {
            self.order.push(record);
        }
        self.orders.send(&mut self.order);
    }

    /// Tells what live traffic has written.
    fn earn(&mut self, cleaner: &mut Cleaner<D, CheckpointNeeds>) {
        let bytes = self.state.count(Counter::Bytes);
        let live = bytes.saturating_sub(self.state.count(Counter::KeptBytes));
        let millis = self.told_at.elapsed().as_millis() as u64;
        let pressure = match self.state.wants_room() {
            false => Pressure::None,
            true => Pressure::Short,
        };
        cleaner.earn(live, millis, pressure);
        self.told_at += Duration::from_millis(millis);
    }

    fn publish(&self, cleaner: &Cleaner<D, CheckpointNeeds>) {
        let counts = cleaner.counts();
        let left = counts.given_up + counts.too_full + counts.too_large;
        self.state.set(Counter::CleanerReadBytes, counts.read_bytes);
        self.state.set(Counter::CleanerGivenUp, left);
        self.state.set(Counter::CleanerInPieces, counts.in_pieces);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use courser_log::testing::MemDisk;
    use courser_log::{CheckpointStore, Manifests, NodeIdentity};

    /// A restore reads segments by their names and for as long as it takes: one that the cleaner emptied meanwhile, and the writer
    /// used again, would have been taken for lost.
    #[test]
    fn m41_nothing_is_cleaned_before_all_partitions_are_restored() {
        let state = Arc::new(DiskState::new(1));
        let (jobs, _taken) = mpsc::channel();
        let (mut station, ports) =
            CleanerStation::<MemDisk>::new(jobs, Arc::default(), Arc::clone(&state));
        let (store, _) =
            CheckpointStore::open(MemDisk::new(), NodeIdentity(7)).expect("an empty folder");
        let cleaner = Cleaner::new(
            MemDisk::new(),
            store,
            Manifests::new(),
            CheckpointNeeds,
            1 << 20,
        );
        station.begin(Box::new(cleaner));
        assert_eq!(station.step(), Pause::For(START_LOOK));
        state.shard_restored();
        assert_eq!(
            station.step(),
            Pause::For(START_LOOK),
            "entries are replayed"
        );
        assert!(ports.questions.try_recv().is_err());
        state.shard_serves();
        assert_eq!(station.step(), Pause::Job);
        assert_eq!(ports.questions.try_recv(), Ok(Question::Survey));
    }
}
