//! What a copy of a log needs: a place at which it is consistent, and that nothing before it is used again meanwhile.

use std::{collections::BTreeSet, io, ops::RangeInclusive, sync::Arc};

use courser_contract::{LogIndex, PartitionId};

use super::Log;
use crate::{
    config::Planted,
    disk::{Disk, DiskFile},
    error::WriteError,
    format::{BLOCK_BYTES, SegmentHeader},
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

impl LogCut {
    /// Bytes of the file of one of its segments that a copy needs: of the one that was written last those up to the end. The rest is zeros.
    #[must_use]
    pub fn bytes_of(&self, segment: &HeldSegment) -> u64 {
        match segment.segment == self.end.segment {
            true => self.end.offset,
            false => segment.bytes,
        }
    }
}

/// Whether two files that were written to their end are the same segment: they have one length and one header. A start that goes on in a segment
/// writes its own random word there, so this holds also where a folder and a copy of it have both gone on.
///
/// # Errors
/// When one of them cannot be read.
pub fn is_same_segment(a: &impl DiskFile, b: &impl DiskFile) -> io::Result<bool> {
    if a.len()? != b.len()? {
        return Ok(false);
    }
    let (mut of_a, mut of_b) = ([0; HEADER_BYTES], [0; HEADER_BYTES]);
    a.read_at(&mut of_a, 0)?;
    b.read_at(&mut of_b, 0)?;
    Ok(of_a == of_b)
}

const HEADER_BYTES: usize = size_of::<SegmentHeader>();

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
        let missed = match self.config.has(Planted::CutShort) {
            true => BLOCK_BYTES as u64,
            false => 0,
        };
        let end = Place {
            segment: self.active.segment,
            offset: self.active.offset - missed,
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
