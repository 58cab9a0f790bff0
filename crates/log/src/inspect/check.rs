//! Whether a segment still holds what was written: for a scrub, and for copies.

use std::collections::BTreeMap;

use courser_contract::{LogIndex, PartitionId};

use super::{Found, InspectError, InspectedDamage, RecordKind, SegmentInspector};
use crate::{disk::DiskFile, ids::BatchNumber, log::HeldSegment};

/// What was found in a segment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SegmentCheck {
    /// Damage, each with the byte of the file.
    pub damages: Vec<(u64, InspectedDamage)>,
    /// Entries that the segment had and that cannot be read in it any more: ranges, both ends included. Entries in pieces count as
    /// lost wherever there is damage.
    pub missing: Vec<(PartitionId, LogIndex, LogIndex)>,
}

/// Ranges of indexes that were read, in the order of the file.
type Ranges = Vec<(u64, u64)>;

/// Reads a segment from its beginning to the last batch that it is to have. Cost: one pass over the file.
///
/// # Errors
/// When the file cannot be read at all, or is of another version. Damage is no error.
pub fn check_segment<F: DiskFile>(
    file: F,
    expected: &HeldSegment,
) -> Result<SegmentCheck, InspectError> {
    let inspector = match SegmentInspector::new(file) {
        Ok(inspector) => inspector,
        Err(InspectError::NotASegment) => return Ok(headless(expected)),
        Err(error) => return Err(error),
    };
    let mut check = SegmentCheck::default();
    if inspector.summary().segment != expected.segment {
        return Ok(headless(expected));
    }
    let mut readable: BTreeMap<PartitionId, Ranges> = BTreeMap::new();
    let (mut last, mut end) = (BatchNumber(0), 0);
    for found in inspector {
        match found {
            Found::Batch(batch) if batch.number > expected.last => break,
            Found::Batch(batch) => {
                last = batch.number;
                end = batch.offset + batch.bytes;
            }
            Found::Record(record) if record.kind == RecordKind::Entry => {
                add(readable.entry(record.partition).or_default(), record.index);
            }
            Found::Record(_) => {}
            // Behind the last batch nothing counts; and a copy need not have it.
            Found::Damage { .. } if last >= expected.last => break,
            Found::Damage {
                kind: InspectedDamage::ShortFile { .. },
                ..
            } => {}
            Found::Damage { offset, kind } => check.damages.push((offset, kind)),
            Found::End { offset, .. } => end = end.max(offset),
        }
    }
    let is_known = check.damages.iter().any(|(_, kind)| match kind {
        InspectedDamage::Lost { last, .. } | InspectedDamage::Beginning { last, .. } => {
            *last >= expected.last
        }
        InspectedDamage::BadBody { number, .. } => *number >= expected.last,
        InspectedDamage::ShortFile { .. } | InspectedDamage::Unreadable { .. } => false,
    });
    if last < expected.last && !is_known {
        let kind = InspectedDamage::Lost {
            first: BatchNumber(last.0 + 1),
            last: expected.last,
            was_synced: true,
        };
        check.damages.push((end, kind));
    }
    if !check.damages.is_empty() {
        check.missing = missing(expected, &readable);
    }
    Ok(check)
}

/// Its header is not that of this segment: nothing in it counts.
fn headless(expected: &HeldSegment) -> SegmentCheck {
    let kind = InspectedDamage::Unreadable {
        error: "its header is not what was written".to_owned(),
    };
    SegmentCheck {
        damages: vec![(0, kind)],
        missing: expected.entries.clone(),
    }
}

fn add(ranges: &mut Ranges, index: LogIndex) {
    match ranges.last_mut() {
        Some((_, last)) if last.checked_add(1) == Some(index.0) => *last = index.0,
        Some(_) | None => ranges.push((index.0, index.0)),
    }
}

fn missing(
    expected: &HeldSegment,
    readable: &BTreeMap<PartitionId, Ranges>,
) -> Vec<(PartitionId, LogIndex, LogIndex)> {
    let mut missing = Vec::new();
    for &(id, first, last) in &expected.entries {
        let mut ranges = readable.get(&id).cloned().unwrap_or_default();
        ranges.sort_unstable();
        let mut wanted = first.0;
        for (from, to) in ranges {
            if from > wanted {
                missing.push((id, LogIndex(wanted), LogIndex(from - 1)));
            }
            wanted = wanted.max(to + 1);
        }
        if wanted <= last.0 {
            missing.push((id, LogIndex(wanted), last));
        }
    }
    missing
}
