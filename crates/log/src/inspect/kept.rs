//! What of kept records (M41) a segment still gives: for a damage in it, and for records that may be elsewhere.

use std::collections::{BTreeMap, BTreeSet};

use courser_contract::{LogIndex, PartitionId, Term};

use super::{Found, InspectError, InspectedDamage, RecordKind, RecordSummary, SegmentInspector};
use crate::{disk::DiskFile, format::KEPT_HEADER_BYTES, ids::BatchNumber, log::HeldSegment};

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

/// Notes what a segment gives, up to its last batch, of the records that it was given. Cost: one pass over the file, and 16 bytes a
/// record that it gives.
///
/// # Errors
/// When the file cannot be read at all, or is of another version. Damage is no error.
pub fn read_kept<F: DiskFile>(
    file: F,
    segment: &HeldSegment,
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

/// Looks for records in all segments of a log, moved or not. One in an entry of which there are pieces is found when all of those are:
/// they may lie in several segments.
#[derive(Debug)]
pub struct RecordFinder<'a> {
    wanted: &'a BTreeSet<RecordAt>,
    found: Vec<RecordAt>,
    pieces: BTreeMap<(PartitionId, LogIndex), Pieces>,
}

/// What was found of an entry in pieces. They are written one behind the other, so those of a later term replace the ones before.
#[derive(Clone, Copy, Debug)]
struct Pieces {
    term: Term,
    /// Bytes without a gap from the first one on.
    bytes: u64,
}

impl<'a> RecordFinder<'a> {
    /// For these.
    #[must_use]
    pub const fn new(wanted: &'a BTreeSet<RecordAt>) -> Self {
        Self {
            wanted,
            found: Vec::new(),
            pieces: BTreeMap::new(),
        }
    }

    /// Looks through a segment up to its last batch; segments come in the order of their numbers. Cost: one pass over the file.
    ///
    /// # Errors
    /// As [`read_kept`].
    pub fn segment<F: DiskFile>(
        &mut self,
        file: F,
        segment: &HeldSegment,
    ) -> Result<(), InspectError> {
        for record in records(file, segment)? {
            match record.kind {
                RecordKind::Entry => self.take(&record, (0, u32::MAX)),
                RecordKind::Kept => self.take(&record, span(&record)),
                RecordKind::Piece => self.piece(&record),
                RecordKind::HardState
                | RecordKind::Checkpoint
                | RecordKind::Sealed
                | RecordKind::Cleaned
                | RecordKind::Last
                | RecordKind::Unknown(_) => {}
            }
        }
        Ok(())
    }

    /// Those that were found, some perhaps several times.
    #[must_use]
    pub fn finish(self) -> Vec<RecordAt> {
        self.found
    }

    fn take(&mut self, record: &RecordSummary, (first, end): (u32, u32)) {
        let at = |byte| (record.partition, record.index, byte);
        self.found.extend(self.wanted.range(at(first)..at(end)));
    }

    fn piece(&mut self, record: &RecordSummary) {
        let Some(piece) = record.piece else {
            return;
        };
        let key = (record.partition, record.index);
        let begin = Pieces {
            term: record.term,
            bytes: 0,
        };
        let so_far = self.pieces.entry(key).or_insert(begin);
        if piece.offset == 0 {
            *so_far = begin;
        }
        // One before it is lost, or was replaced.
        if (so_far.term, so_far.bytes) != (record.term, piece.offset) {
            return;
        }
        so_far.bytes += piece.bytes;
        if so_far.bytes == piece.total {
            self.take(record, (0, u32::MAX));
        }
    }
}

/// The bytes of its entry that a kept record has.
fn span(record: &RecordSummary) -> (u32, u32) {
    let bytes = record.data_bytes.saturating_sub(KEPT_HEADER_BYTES as u64);
    let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
    (record.byte, record.byte.saturating_add(bytes))
}

/// The records up to the last batch of a segment that can be read; none when the file is not that segment. Behind that batch there may
/// be whole ones that do not count: what a start has cut, or what was written since somebody asked what the segment holds.
fn records<F: DiskFile>(
    file: F,
    segment: &HeldSegment,
) -> Result<impl Iterator<Item = RecordSummary>, InspectError> {
    let inspector = match SegmentInspector::new(file) {
        Ok(inspector) => Some(inspector),
        Err(InspectError::NotASegment) => None,
        Err(error) => return Err(error),
    };
    let last = segment.last;
    let inspector = inspector.filter(|it| it.summary().segment == segment.segment);
    let found = inspector.into_iter().flatten();
    let found = found.take_while(move |found| counts(found, last));
    Ok(found.filter_map(|found| match found {
        Found::Record(record) => Some(record),
        Found::Batch(_) | Found::Damage { .. } | Found::End { .. } => None,
    }))
}

/// Whether what was found is not behind a batch.
fn counts(found: &Found, last: BatchNumber) -> bool {
    match found {
        Found::Batch(batch) => batch.number <= last,
        Found::Damage { kind, .. } => match kind {
            InspectedDamage::BadBody { number, .. } => *number <= last,
            InspectedDamage::Lost { first, .. } => *first <= last,
            InspectedDamage::Beginning { .. }
            | InspectedDamage::ShortFile { .. }
            | InspectedDamage::Unreadable { .. } => true,
        },
        Found::Record(_) | Found::End { .. } => true,
    }
}
