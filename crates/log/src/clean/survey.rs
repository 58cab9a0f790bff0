//! What the log tells a cleaner: which segments it may look at, and what of one of them counts.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use courser_contract::{LogIndex, PartitionId};

use crate::{
    config::Planted,
    disk::Disk,
    format::BLOCK_BYTES,
    ids::{BatchNumber, SegmentNumber},
    kept::KeptEntries,
    log::{Log, Segment, Void},
};

/// Segments that may be cleaned: older than the active one, wholly below the checkpoints, without doubt and without a needed
/// entry that lies in pieces.
#[derive(Clone, Debug, Default)]
pub struct Survey {
    pub(crate) segments: Vec<Surveyed>,
    /// Partitions whose checkpoint needs something of them.
    pub(crate) partitions: BTreeSet<PartitionId>,
    /// The segment that is written.
    pub(crate) active: u64,
    /// Bytes of kept records that there is room for.
    pub(crate) room: u64,
    /// Segments that would be among them, but that a needed entry lies there in pieces.
    pub(crate) in_pieces: u64,
}

/// Whether a segment may be cleaned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cleanable {
    Yes,
    /// It would, but that a needed entry lies there in pieces: kept records are of entries that a batch holds.
    InPieces,
    No,
}

/// Entries of a partition, from the first to the last.
pub(crate) type EntryRun = (PartitionId, LogIndex, LogIndex);

/// One of them.
#[derive(Clone, Debug)]
pub(crate) struct Surveyed {
    pub(crate) number: SegmentNumber,
    pub(crate) bytes: u64,
    /// Entries that may lie in it.
    pub(crate) entries: Vec<EntryRun>,
    /// Entries of which it may have kept records.
    pub(crate) kept: BTreeMap<PartitionId, Arc<KeptEntries>>,
}

/// What of a segment counts.
#[derive(Clone, Debug)]
pub struct Source {
    pub(crate) segment: SegmentNumber,
    pub(crate) bytes: u64,
    /// Bytes of kept records that there is room for.
    pub(crate) room: u64,
    /// Its last batch.
    pub(crate) last: BatchNumber,
    /// Entries that begin in it, each run with the byte of the batch with the first, ascending.
    pub(crate) entries: Vec<(PartitionId, LogIndex, LogIndex, u64)>,
    /// Entries of which it has kept records that are needed there.
    pub(crate) kept: Vec<EntryRun>,
    /// Partitions whose checkpoint needs something of it.
    pub(crate) partitions: BTreeSet<PartitionId>,
}

impl Source {
    /// Whether an entry begins in it, or something of it is kept there.
    pub(crate) fn has(&self, partition: PartitionId, index: LogIndex) -> bool {
        let after = self
            .entries
            .partition_point(|(of, first, ..)| (*of, *first) <= (partition, index));
        let run = after.checked_sub(1).and_then(|at| self.entries.get(at));
        run.is_some_and(|(of, _, last, _)| *of == partition && index <= *last)
            || is_in(&self.kept, partition, index)
    }

    /// Whether an entry in the batch at `offset` is the one that counts, and not one that was replaced later.
    pub(crate) fn counts(&self, partition: PartitionId, index: LogIndex, offset: u64) -> bool {
        let after = self
            .entries
            .partition_point(|(of, first, ..)| (*of, *first) <= (partition, index));
        let run = after.checked_sub(1).and_then(|at| self.entries.get(at));
        run.is_some_and(|(of, _, last, from)| *of == partition && index <= *last && *from <= offset)
    }
}

/// Whether an entry is in one of these runs, which ascend and do not overlap.
fn is_in(runs: &[EntryRun], partition: PartitionId, index: LogIndex) -> bool {
    let after = runs.partition_point(|(of, first, _)| (*of, *first) <= (partition, index));
    let run = after.checked_sub(1).and_then(|at| runs.get(at));
    run.is_some_and(|(of, _, last)| *of == partition && index <= *last)
}

/// Sorts runs and joins those that overlap or touch.
fn joined(mut runs: Vec<EntryRun>) -> Vec<EntryRun> {
    runs.sort_unstable();
    let mut joined: Vec<EntryRun> = Vec::with_capacity(runs.len());
    for (partition, first, last) in runs {
        match joined.last_mut() {
            Some((of, _, end)) if *of == partition && first.0 <= end.0 + 1 => *end = last.max(*end),
            Some(_) | None => joined.push((partition, first, last)),
        }
    }
    joined
}

impl<D: Disk> Log<D> {
    /// What a cleaner chooses from. Cost: a look at each partition of each segment.
    #[must_use]
    pub fn survey(&self) -> Survey {
        let closed = self.segments.range(..self.active.segment);
        let mut survey = Survey {
            active: self.active.segment.0,
            room: self.room_to_clean(),
            ..Survey::default()
        };
        let void = self.void_entries();
        for (number, segment) in closed {
            match self.cleanable(*number, segment, &void) {
                Cleanable::Yes => {}
                Cleanable::InPieces => {
                    survey.in_pieces += 1;
                    continue;
                }
                Cleanable::No => continue,
            }
            survey.partitions.extend(self.needed_of(segment));
            let ranges = segment.ranges.iter();
            let ranges = ranges.map(|(id, (first, last))| (*id, *first, *last));
            survey.segments.push(Surveyed {
                number: *number,
                bytes: segment.bytes,
                entries: ranges.collect(),
                kept: segment.kept.clone(),
            });
        }
        survey
    }

    /// Bytes of kept records that have room: with more of them the writer would stop in the middle, before anything is free, and
    /// acknowledgements with it.
    ///
    /// One segment always stays for others (M47). What a move takes is given back at its end, but a process that is killed before has
    /// written it for nothing, and one that is killed again and again would have no segment left to clean in.
    fn room_to_clean(&self) -> u64 {
        let segment = self.config.segment_bytes();
        let makeable = self.space.free_bytes / segment;
        let there = makeable.saturating_add((self.ready.len() + self.free.len()) as u64);
        let batch = self.config.batch_bytes_max() as u64;
        // The header, and an end into which the next batch does not fit.
        let lost = BLOCK_BYTES as u64 + batch;
        let whole = there.saturating_sub(1).saturating_mul(segment - lost);
        // Others write there too, meanwhile.
        let left = self.left_in_segment();
        whole.saturating_add(left.saturating_sub(batch).max(left / 2))
    }

    /// Of kept records in a segment those that are needed there: none of an entry that another one holds whole. A move that was killed before its end
    /// leaves some that are, and they would be moved for nothing again and again.
    fn kept_nowhere_else(&self, number: SegmentNumber, segment: &Segment) -> Vec<EntryRun> {
        let holds = |of: SegmentNumber| {
            let other = self.segments.get(&of).filter(|_| of != number);
            other.is_some_and(|it| {
                it.moved.is_none() && it.in_doubt == 0 && !it.is_damaged && it.lost.0 == 0
            })
        };
        let mut left = Vec::new();
        for (id, first, last) in joined(kept_runs(segment).collect()) {
            let mut from = first;
            let places = self.places.of(id);
            let whole = places
                .into_iter()
                .flat_map(|it| it.whole_between(first, last));
            for (whole_first, whole_last, _) in whole.filter(|(.., of)| holds(*of)) {
                if from < whole_first {
                    left.push((id, from, LogIndex(whole_first.0 - 1)));
                }
                from = LogIndex(whole_last.0 + 1);
            }
            if from <= last {
                left.push((id, from, last));
            }
        }
        left
    }

    /// What of a segment counts; `None` when it is none any more that may be cleaned, or there is no room for anything.
    #[must_use]
    pub fn source(&self, number: SegmentNumber) -> Option<Source> {
        let segment = self.segments.get(&number)?;
        let void = self.void_entries();
        let cleanable = self.cleanable(number, segment, &void) == Cleanable::Yes;
        if number >= self.active.segment || !cleanable {
            return None;
        }
        let room = self.room_to_clean();
        if room == 0 {
            return None;
        }
        let mut entries = Vec::new();
        for (id, places) in self.places.iter() {
            let runs = places.runs_in(number);
            entries.extend(runs.map(|(first, last, from)| (id, first, last, from)));
        }
        entries.sort_unstable();
        Some(Source {
            segment: number,
            bytes: segment.bytes,
            room,
            // A lost batch may have held something that is needed: it stays where it was.
            last: segment.last.max(segment.lost),
            entries,
            kept: self.kept_nowhere_else(number, segment),
            partitions: self.needed_of(segment).collect(),
        })
    }

    /// Whether moving what is needed of it would free it: all its entries are below the checkpoints.
    fn cleanable(&self, number: SegmentNumber, segment: &Segment, void: &[Void]) -> Cleanable {
        let covered = segment.ranges.iter().all(|(id, (_, last))| {
            let checkpoint = self.partitions.get(id).and_then(|known| known.checkpoint);
            checkpoint.is_some_and(|at| *last <= at.index)
        });
        let in_pieces = || {
            self.places.iter().any(|(id, places)| {
                let known = self.partitions.get(&id);
                places.has_piece(number, |index| {
                    known.is_some_and(|known| known.live.contains(index))
                })
            })
        };
        let covered = covered || self.config.has(Planted::CleanUncovered);
        let waits = self.shadows(number, segment, void);
        if segment.in_doubt != 0 || segment.moved.is_some() || !covered || waits {
            return Cleanable::No;
        }
        match in_pieces() {
            true => Cleanable::InPieces,
            false => Cleanable::Yes,
        }
    }

    /// Partitions whose checkpoint needs something of a segment.
    fn needed_of<'a>(&'a self, segment: &'a Segment) -> impl Iterator<Item = PartitionId> + 'a {
        let known = |id: &PartitionId| self.partitions.get(id).map(|known| &known.live);
        let entries = segment.ranges.iter().filter(move |(id, (first, last))| {
            known(id).is_some_and(|live| live.overlaps(*first, *last))
        });
        let known = |id: &PartitionId| self.partitions.get(id).map(|known| &known.live);
        let kept = segment
            .kept
            .iter()
            .filter(move |(id, kept)| known(id).is_some_and(|live| kept.overlaps(live)));
        entries.map(|(id, _)| *id).chain(kept.map(|(id, _)| *id))
    }
}

fn kept_runs(segment: &Segment) -> impl Iterator<Item = EntryRun> + '_ {
    segment
        .kept
        .iter()
        .flat_map(|(id, kept)| kept.runs().map(|(first, last)| (*id, first, last)))
}
