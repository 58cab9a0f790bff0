//! What a copy of a log needs: a place at which it is consistent, and that nothing before it is used again meanwhile.

use std::{collections::BTreeSet, ops::RangeInclusive, sync::Arc};

use courser_contract::{LogIndex, PartitionId};

use super::Log;
use crate::{
    config::Planted,
    disk::Disk,
    error::WriteError,
    ids::{BatchNumber, Place, SegmentNumber, Synced},
    kept::KeptEntries,
};

/// What a log held when its last batch was this one: what a crash right behind it would leave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogCut {
    /// The last batch, which is durable.
    pub synced: Synced,
    /// Where it ends.
    pub end: Place,
    /// Segments with something that may be needed, by number; the last one up to [`end`](Self::end).
    pub segments: Vec<HeldSegment>,
    /// The last entry of every partition of which the log knows one.
    pub partitions: Vec<(PartitionId, LogIndex)>,
}

/// A segment with something that may be needed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldSegment {
    /// Which.
    pub segment: SegmentNumber,
    /// Bytes of its file.
    pub bytes: u64,
    /// Its last batch.
    pub last: BatchNumber,
    /// Lowest and highest index of each partition's entries in it.
    pub entries: Vec<(PartitionId, LogIndex, LogIndex)>,
    /// Entries of which a cleaner has put records into it.
    pub kept: Vec<(PartitionId, Arc<KeptEntries>)>,
}

impl<D: Disk> Log<D> {
    /// Makes all that was written durable and says what the log is then. Cost: a sync, and a walk over the segments.
    ///
    /// # Errors
    /// As [`Log::sync`].
    pub fn cut(&mut self) -> Result<LogCut, WriteError> {
        let synced = self.sync()?;
        let end = Place {
            segment: self.active.segment,
            offset: self.active.offset,
        };
        let written = self.segments.values().flat_map(|it| it.ranges.keys());
        let ids: BTreeSet<PartitionId> = self.partitions.keys().chain(written).copied().collect();
        let partitions = ids.into_iter().filter_map(|id| {
            let checkpoint = self.partitions.get(&id).and_then(|known| known.checkpoint);
            let last = self.places.of(id).and_then(|places| places.last());
            let last = last.max(checkpoint.map(|at| at.index));
            last.map(|index| (id, index))
        });
        Ok(LogCut {
            synced,
            end,
            partitions: partitions.collect(),
            segments: self.held_segments(),
        })
    }

    /// Segments with something that may be needed, by number, the one that is written last.
    #[must_use]
    pub fn held_segments(&self) -> Vec<HeldSegment> {
        let segments = self.segments.iter();
        let segments = segments.map(|(number, segment)| HeldSegment {
            segment: *number,
            bytes: segment.bytes,
            last: match self.config.has(Planted::HeldTooShort) {
                true => BatchNumber(segment.last.0.saturating_sub(1)),
                false => segment.last,
            },
            entries: segment
                .ranges
                .iter()
                .map(|(id, (first, last))| (*id, *first, *last))
                .collect(),
            kept: segment
                .kept
                .iter()
                .map(|(id, kept)| (*id, Arc::clone(kept)))
                .collect(),
        });
        segments.collect()
    }

    /// Segments of these numbers are not used again until somebody says otherwise; with `None` all are, at once.
    pub fn hold(&mut self, segments: Option<RangeInclusive<SegmentNumber>>) {
        self.held = segments;
        self.free_dead();
    }
}
