//! What of kept records (M41) a segment still gives: for a damage in it, and for records that may be elsewhere.

use std::collections::{BTreeMap, BTreeSet};

use courser_contract::{LogIndex, PartitionId};

use super::{Found, InspectError, RecordKind, RecordSummary, SegmentInspector};
use crate::{disk::DiskFile, format::KEPT_HEADER_BYTES, ids::SegmentNumber, log::HeldSegment};

/// A record: whose, its entry, and the byte of that at which it begins.
pub type RecordAt = (PartitionId, LogIndex, u32);

/// Kept records of a partition in a segment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeptCheck {
    /// Entries of which the segment was given some, a few more perhaps: both ends included, ascending and apart.
    had: Vec<(u64, u64)>,
    /// Those that can be read: entry, first byte, and the one behind the last. Ascending.
    readable: Vec<(LogIndex, u32, u32)>,
}

impl KeptCheck {
    /// What a segment was given, by partition, with nothing read of it yet.
    #[must_use]
    pub fn of(segment: &HeldSegment) -> BTreeMap<PartitionId, Self> {
        let kept = segment.kept.iter();
        let checks = kept.map(|(id, kept)| {
            let had = kept.sorted();
            let readable = Vec::new();
            (*id, Self { had, readable })
        });
        checks.collect()
    }

    /// Whether the segment may have had this record and does not give it any more. O(log n).
    #[must_use]
    pub fn lacks(&self, index: LogIndex, byte: u32) -> bool {
        let run = self.had.partition_point(|(_, last)| *last < index.0);
        let had = self
            .had
            .get(run)
            .is_some_and(|(first, _)| *first <= index.0);
        had && !self.gives(index, byte)
    }

    fn gives(&self, index: LogIndex, byte: u32) -> bool {
        let behind = self
            .readable
            .partition_point(|(of, first, _)| (*of, *first) <= (index, byte));
        let before = behind.checked_sub(1).map(|at| self.readable[at]);
        before.is_some_and(|(of, _, end)| of == index && byte < end)
    }
}

/// Notes what a segment gives of the records that it was given. Cost: one pass over the file, and 16 bytes a record that it gives.
///
/// # Errors
/// When the file cannot be read at all, or is of another version. Damage is no error.
pub fn read_kept<F: DiskFile>(
    file: F,
    segment: SegmentNumber,
    checks: &mut BTreeMap<PartitionId, KeptCheck>,
) -> Result<(), InspectError> {
    for record in records(file, segment)?.filter(|it| it.kind == RecordKind::Kept) {
        if let Some(check) = checks.get_mut(&record.partition) {
            let (first, end) = span(&record);
            check.readable.push((record.index, first, end));
        }
    }
    for check in checks.values_mut() {
        check.readable.sort_unstable();
    }
    Ok(())
}

/// Whether a segment may have one of these records.
#[must_use]
pub fn may_have(segment: &HeldSegment, wanted: &BTreeSet<RecordAt>) -> bool {
    let among = |id: PartitionId, first: LogIndex, last: LogIndex| {
        let mut between = wanted.range((id, first, 0)..=(id, last, u32::MAX));
        between.next().is_some()
    };
    let mut entries = segment.entries.iter();
    entries.any(|(id, first, last)| among(*id, *first, *last))
        || segment.kept.iter().any(|(id, kept)| {
            let mut runs = kept.runs();
            runs.any(|(first, last)| among(*id, first, last))
        })
}

/// Those of these records that a segment gives, moved or not. Of an entry in pieces only what was moved counts. Cost: one pass over the
/// file.
///
/// # Errors
/// As [`read_kept`].
pub fn find_records<F: DiskFile>(
    file: F,
    segment: SegmentNumber,
    wanted: &BTreeSet<RecordAt>,
) -> Result<Vec<RecordAt>, InspectError> {
    let mut found = Vec::new();
    for record in records(file, segment)? {
        let (first, end) = match record.kind {
            RecordKind::Entry => (0, u32::MAX),
            RecordKind::Kept => span(&record),
            RecordKind::Piece
            | RecordKind::HardState
            | RecordKind::Checkpoint
            | RecordKind::Sealed
            | RecordKind::Cleaned
            | RecordKind::Unknown(_) => continue,
        };
        let at = |byte| (record.partition, record.index, byte);
        found.extend(wanted.range(at(first)..at(end)));
    }
    Ok(found)
}

/// The bytes of its entry that a kept record has.
fn span(record: &RecordSummary) -> (u32, u32) {
    let bytes = record.data_bytes.saturating_sub(KEPT_HEADER_BYTES as u64);
    let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
    (record.byte, record.byte.saturating_add(bytes))
}

/// The records that can be read; none when the file is not that segment.
fn records<F: DiskFile>(
    file: F,
    segment: SegmentNumber,
) -> Result<impl Iterator<Item = RecordSummary>, InspectError> {
    let inspector = match SegmentInspector::new(file) {
        Ok(inspector) => Some(inspector),
        Err(InspectError::NotASegment) => None,
        Err(error) => return Err(error),
    };
    let inspector = inspector.filter(|it| it.summary().segment == segment);
    let found = inspector.into_iter().flatten();
    Ok(found.filter_map(|found| match found {
        Found::Record(record) => Some(record),
        Found::Batch(_) | Found::Damage { .. } | Found::End { .. } => None,
    }))
}
