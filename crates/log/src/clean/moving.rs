//! One segment of the plan: what is needed of it is collected, gathered and written elsewhere, in as many passes as it takes.

use std::collections::BTreeSet;

use courser_contract::{Need, Needs, PartitionId};

use super::{
    CHUNK_BYTES, Cleaner, State, Step,
    checkpoint::{CheckpointScan, Scanned},
    gather::{Gathered, Gathering},
    obstacle::{Obstacle, Trouble},
    survey::Source,
    talk::Question,
    wants::{Address, Wants},
};
use crate::{
    batch::{frame_bytes, kept_bytes_max},
    config::batch_bytes_max,
    disk::Disk,
    format::KEPT_HEADER_BYTES,
    ids::SegmentNumber,
    record::Record,
    scan::Window,
};

/// The needs of a segment are collected, partition by partition.
#[derive(Debug)]
pub(super) struct Needing<F, S> {
    source: Source,
    left: BTreeSet<PartitionId>,
    wants: Wants,
    open: Option<(PartitionId, CheckpointScan<F, S>)>,
    /// Something of the segment is in the log already: it is a later pass.
    is_begun: bool,
}

impl<F, S> Needing<F, S> {
    /// Of what has not been moved: all, or what is from an address on.
    pub(super) fn new(source: Source, from: Option<Address>, records_max: usize) -> Self {
        Self {
            left: source.partitions.clone(),
            source,
            wants: Wants::new(from, records_max),
            open: None,
            is_begun: from.is_some(),
        }
    }
}

impl<D: Disk, N: Needs> Cleaner<D, N> {
    /// Collects on; once all is known it is gathered.
    pub(super) fn need(&mut self, mut needing: Box<Needing<D::File, N::Scan>>) -> Step {
        let next = match needing.open.take() {
            Some((partition, scan)) => Some((partition, Ok(scan))),
            None => {
                needing.wants.next_partition();
                let next = needing.left.pop_first();
                next.map(|partition| (partition, self.scan(partition)))
            }
        };
        let Some((partition, scan)) = next else {
            return self.begin_gathering(*needing);
        };
        let Needing {
            source,
            wants,
            open,
            ..
        } = &mut *needing;
        let read = scan.and_then(|mut scan| {
            let mut tell = |need: Need| {
                let is_here = source.has(partition, need.index);
                wants.tell(partition, need, is_here);
            };
            match scan.step(&mut tell)? {
                Scanned::More => *open = Some((partition, scan)),
                Scanned::All => self.counts.read_bytes += scan.finish()?,
            }
            Ok(())
        });
        if let Err(why) = read {
            return self.leave(needing.source.segment, why);
        }
        self.state = State::Needing(needing);
        Step::Again
    }

    fn begin_gathering(&mut self, needing: Needing<D::File, N::Scan>) -> Step {
        let Needing {
            source,
            wants,
            is_begun,
            ..
        } = needing;
        let segment = source.segment;
        let file = self.disk.open(&segment.file_name());
        match file.and_then(Window::new) {
            Ok(window) => {
                let kept_max = kept_bytes_max(batch_bytes_max(self.segment_bytes));
                let mut gathering = Gathering::new(source, window, wants.finish(), kept_max);
                (gathering.is_begun, gathering.is_later) = (is_begun, is_begun);
                let chosen = self.plan.front().filter(|_| !is_begun);
                gathering.weighed = chosen.and_then(|it| it.live);
                // Most of these are full: nothing of one is held in memory before that is known.
                if chosen.is_some_and(|it| it.is_sample && it.live.is_none()) {
                    gathering.weigh();
                }
                self.state = State::Gathering(Box::new(gathering));
                Step::Again
            }
            // Used again meanwhile, if it is not damaged: the next survey tells.
            Err(error) => self.leave_damaged(segment, error.into()),
        }
    }

    /// Reads on in the segment, and gives out what is gathered.
    pub(super) fn gather(&mut self, mut gathering: Box<Gathering<D::File>>) -> Step {
        if !gathering.out.is_empty() {
            return self.write(gathering);
        }
        let segment = gathering.source.segment;
        if gathering.is_read() {
            self.learn(&gathering);
            if let Some(from) = gathering.next {
                return self.next_pass(segment, from);
            }
            self.state = State::Ending;
            return Step::Write(vec![Record::Cleaned { segment }]);
        }
        let before = gathering.read_bytes();
        let step = gathering.step(&self.needs);
        self.counts.read_bytes += gathering.read_bytes() - before;
        match step {
            // Nothing of the batch that could not be read was taken.
            Err(Obstacle::Trouble(Trouble::Passing(why))) => {
                self.state = State::Gathering(gathering);
                return Step::HeldUp { why };
            }
            Err(Obstacle::Trouble(why)) => return self.leave_damaged(segment, why),
            // What of it is in the log twice now says the same.
            Err(Obstacle::TooLarge(partition, index)) => {
                self.counts.too_large += 1;
                self.pinned.insert(segment, (partition, index));
                self.plan.pop_front();
                return Step::Again;
            }
            Ok(Gathered::More) => {}
            Ok(Gathered::Full) if self.is_not_worth_it(&gathering) => {
                return self.put_back(gathering);
            }
            // Now it is known that it is: once more, to gather it.
            Ok(Gathered::Full) if gathering.is_weighing => {
                if let Some(chosen) = self.plan.front_mut() {
                    chosen.live = Some(gathering.live());
                }
                self.state = State::Asked;
                return Step::Ask(Question::Source(segment));
            }
            Ok(Gathered::Full) => gathering.flush(),
        }
        self.state = State::Gathering(gathering);
        Step::Again
    }

    /// What is above this address is still to be moved, if there is room for it: others have written meanwhile.
    fn next_pass(&mut self, segment: SegmentNumber, from: Address) -> Step {
        self.state = State::AskedAgain(from);
        Step::Ask(Question::Source(segment))
    }

    /// Whether a segment has more in it than is worth moving, or than there is room for. Before something is written it can still be left;
    /// without room it must be.
    fn is_not_worth_it(&self, gathering: &Gathering<D::File>) -> bool {
        let live_max = self.pressure.live_max(gathering.source.bytes);
        let live_max = live_max.min(self.room);
        !gathering.is_begun && gathering.live() > live_max || gathering.lacks_room()
    }

    /// A segment is left, once its true weight is known: what is left of it may be of another kind than what was gathered.
    fn put_back(&mut self, mut gathering: Box<Gathering<D::File>>) -> Step {
        let is_known = gathering.is_read() || gathering.weighed.is_some();
        if !is_known && !gathering.is_begun {
            gathering.weigh();
            self.state = State::Gathering(gathering);
            return Step::Again;
        }
        self.learn(&gathering);
        let chosen = self.plan.pop_front();
        self.counts.too_full += u64::from(chosen.is_some_and(|it| !it.is_sample));
        Step::Again
    }

    /// Remembers what it weighs, and how large its needed records are.
    fn learn(&mut self, gathering: &Gathering<D::File>) {
        let segment = gathering.source.segment;
        let mean = gathering.mean();
        if let Some(mean) = mean {
            self.weights.learn(segment, mean);
        }
        let records = self.plan.front().map_or(0, |chosen| chosen.records);
        let live = match gathering.is_later {
            false => gathering.live(),
            true => records.saturating_mul(mean.unwrap_or(0)),
        };
        self.weights.read(segment, live, records);
    }

    fn write(&mut self, mut gathering: Box<Gathering<D::File>>) -> Step {
        if !self.may_write(CHUNK_BYTES) {
            self.state = State::Gathering(gathering);
            return Step::Rest;
        }
        gathering.is_begun = true;
        let (mut records, mut bytes) = (Vec::new(), 0);
        while bytes < CHUNK_BYTES
            && let Some(record) = gathering.out.pop_front()
        {
            if let Record::Kept { data, .. } = &record {
                bytes += frame_bytes(KEPT_HEADER_BYTES + data.len()) as u64;
            }
            records.push(record);
        }
        self.budget.spend(bytes);
        self.counts.records += records.len() as u64;
        self.counts.bytes += bytes;
        self.state = State::Writing(gathering);
        Step::Write(records)
    }

    /// What checkpoints need of a segment cannot be read.
    fn leave(&mut self, segment: SegmentNumber, why: Trouble) -> Step {
        self.doubt(segment, why, Question::Source(segment))
    }

    /// A segment cannot be read. What was moved out of it before, by a cleaner that has not come to its end, is not to be given up for what it had.
    fn leave_damaged(&mut self, segment: SegmentNumber, why: Trouble) -> Step {
        self.doubt(segment, why, Question::Damaged(segment))
    }

    /// Perhaps nothing of it is needed any more and it was used again: the log knows. Or it can be read later: it is the first of the plan still.
    fn doubt(&mut self, segment: SegmentNumber, why: Trouble, question: Question) -> Step {
        match why {
            Trouble::Passing(why) => Step::HeldUp { why },
            Trouble::Damaged(why) => {
                self.state = State::Doubting(segment, why);
                Step::Ask(question)
            }
        }
    }
}
