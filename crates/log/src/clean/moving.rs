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
                gathering.is_begun = is_begun;
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
            self.state = State::Ending(segment);
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
            // Nothing is written yet: it can still be left. Without room it must be.
            Ok(Gathered::Full)
                if !gathering.is_begun && self.is_too_full(&gathering)
                    || gathering.lacks_room() =>
            {
                self.learn(&gathering);
                self.counts.too_full += 1;
                self.plan.pop_front();
                return Step::Again;
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

    /// Whether a segment has more in it than is worth moving: all that is wanted, if it is as large as what was read.
    fn is_too_full(&self, gathering: &Gathering<D::File>) -> bool {
        let share = self.pressure.live_max(gathering.source.bytes);
        gathering.of_all_left(gathering.bytes) > u128::from(share)
    }

    /// Remembers how large its needed records are.
    fn learn(&mut self, gathering: &Gathering<D::File>) {
        if let Some(mean) = gathering.bytes.checked_div(gathering.records) {
            let mean = mean + frame_bytes(KEPT_HEADER_BYTES) as u64;
            self.means.insert(gathering.source.segment, mean);
            self.mean = (3 * self.mean + mean) / 4;
        }
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
