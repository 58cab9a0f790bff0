//! What the log knows of one segment.
//!
//! Entries that later ones have replaced are *void*. After an accepted loss (M44) that may be many, and those that have taken their place come
//! one by one, perhaps over months. Two rules keep the void ones from counting again once the others are below a checkpoint and their segments
//! are used again:
//! - above the checkpoint, an entry of a lower term than the checkpoint's is void: terms ascend in a partition's log, and who goes on without
//!   entries does so in a higher one;
//! - at or below it nobody can tell them by their terms. There an entry is found where it was written last, so a segment with one that is needed is not
//!   cleaned while an older one holds a void entry of that index: what was moved is looked for at its entry first.

use std::{collections::BTreeMap, sync::Arc};

use courser_contract::{LogIndex, PartitionId};

use super::Log;
use crate::{
    batch::Run,
    disk::Disk,
    ids::{BatchNumber, SegmentNumber},
    kept::KeptEntries,
    record::SegmentEnd,
};

/// What is in a segment.
#[derive(Clone, Debug, Default)]
pub(crate) struct Segment {
    /// Lowest and highest index of each partition's entries in it.
    pub(crate) ranges: BTreeMap<PartitionId, (LogIndex, LogIndex)>,
    /// The same of entries that later ones have replaced: nothing of them is needed.
    pub(crate) void: BTreeMap<PartitionId, (LogIndex, LogIndex)>,
    pub(crate) last: BatchNumber,
    /// Byte of its last batch, and the checksum of that one's header.
    pub(crate) last_at: u64,
    pub(crate) last_crc: u32,
    /// A batch that it is known to have ended with, or one of a later segment that is gone, where that one is lost; 0 when none is.
    pub(crate) lost: BatchNumber,
    pub(crate) bytes: u64,
    /// Damage of which nobody knows yet whom it concerns: bits of partitions.
    pub(crate) in_doubt: u64,
    /// Something of it was found damaged: it gets no summary, and its file is not used again.
    pub(crate) is_damaged: bool,
    /// Entries of which it has kept records.
    pub(crate) kept: BTreeMap<PartitionId, Arc<KeptEntries>>,
    /// Older segments of which it says that all that was needed of them was moved.
    pub(crate) cleaned: Vec<SegmentNumber>,
    /// All that is needed of it is elsewhere, once this batch is synced.
    pub(crate) moved: Option<BatchNumber>,
    /// It was called cleaned, and a start that found damage kept it: what was moved may be gone, so heads name it for as long as it is there.
    pub(crate) counts_again: bool,
}

/// Void entries of a partition in a segment, from the first to the last.
pub(crate) type Void = (SegmentNumber, Run);

/// Entries of a partition from an index on are void, whichever segment they are in: others are in their place.
pub(crate) fn replace(
    segments: &mut BTreeMap<SegmentNumber, Segment>,
    partition: PartitionId,
    from: LogIndex,
) {
    for segment in segments.values_mut() {
        segment.replace(partition, from);
    }
}

impl Segment {
    /// Takes entries that lie in it.
    pub(crate) fn note(&mut self, run: Run) {
        let (first, last) = self
            .ranges
            .entry(run.partition)
            .or_insert((run.first, run.last));
        *first = run.first.min(*first);
        *last = run.last.max(*last);
    }

    /// Takes entries that lie in it and do not count.
    pub(crate) fn note_void(&mut self, run: Run) {
        let (first, last) = self
            .void
            .entry(run.partition)
            .or_insert((run.first, run.last));
        *first = run.first.min(*first);
        *last = run.last.max(*last);
    }

    /// Entries from here on have been replaced.
    fn replace(&mut self, partition: PartitionId, from: LogIndex) {
        let range = self.ranges.get(&partition).copied();
        if let Some((first, last)) = range.filter(|(_, last)| from <= *last) {
            self.note_void(Run {
                partition,
                first: from.max(first),
                last,
            });
        }
    }

    /// The batch with which it ended. One that is lost is named for ever, or the next start would find nothing missing; and with it the last one of
    /// which something is left, or a later start would give that up.
    pub(crate) fn end(&self, forgets_lost: bool) -> SegmentEnd {
        let is_known = forgets_lost || self.last >= self.lost;
        SegmentEnd {
            batch: if is_known { self.last } else { self.lost },
            crc: (self.last.0 > 0).then_some(self.last_crc),
        }
    }

    /// It is full: what is known of it takes as little memory as it can.
    pub(crate) fn close(&mut self) {
        for kept in self.kept.values_mut() {
            Arc::make_mut(kept).close();
        }
    }

    /// Takes kept records that lie in it.
    pub(crate) fn keep(&mut self, run: Run) {
        let kept = self.kept.entry(run.partition).or_default();
        // Shared with a cleaner only once the segment is full.
        Arc::make_mut(kept).add(run.first, run.last);
    }
}

impl<D: Disk> Log<D> {
    /// All void entries that are known of. Nearly always there are none.
    pub(crate) fn void_entries(&self) -> Vec<Void> {
        let runs = self.segments.iter().flat_map(|(number, segment)| {
            let void = segment.void.iter();
            void.map(|(partition, (first, last))| {
                let run = Run {
                    partition: *partition,
                    first: *first,
                    last: *last,
                };
                (*number, run)
            })
        });
        runs.collect()
    }

    /// Whether an older segment holds void entries of the indexes of needed ones in this one.
    pub(crate) fn shadows(&self, number: SegmentNumber, segment: &Segment, void: &[Void]) -> bool {
        void.iter().any(|(older, run)| {
            let live = self.partitions.get(&run.partition).map(|known| &known.live);
            let range = segment.ranges.get(&run.partition);
            *older < number
                && range.zip(live).is_some_and(|((first, last), live)| {
                    let (first, last) = (run.first.max(*first), run.last.min(*last));
                    first <= last && live.overlaps(first, last)
                })
        })
    }
}
