//! What a segment says of the end of one before it.

use super::{BLOCK, BatchRole, Found, InspectError, RecordKind, SegmentInspector, SegmentSummary};
use crate::{disk::DiskFile, ids::BatchNumber};

/// With what an older segment ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ToldEnd {
    /// The last batch of it.
    pub last: BatchNumber,
    /// Whether its number is named; else it was left for this segment with the batch before this one's first.
    pub is_named: bool,
    /// All batches up to this one were synced.
    pub synced: BatchNumber,
}

/// What the head of `later` says of the end of `segment`; nothing when it is not of the same log, no later one, not written to, or when that one held
/// nothing any more. Cost: reads the head, and further until a batch says that the end was synced.
///
/// # Errors
/// When it is no segment, of another version, or cannot be read.
pub fn told_end<F: DiskFile>(
    later: F,
    segment: &SegmentSummary,
) -> Result<Option<ToldEnd>, InspectError> {
    let inspector = SegmentInspector::new(later)?;
    let own = inspector.summary();
    if own.node != segment.node || own.segment <= segment.segment {
        return Ok(None);
    }
    let is_next = own.segment == segment.segment.next();
    let (mut told, mut in_head) = (None::<ToldEnd>, true);
    for found in inspector {
        match found {
            Found::Batch(batch) => {
                in_head &= batch.role == BatchRole::Head;
                if is_next && in_head && batch.offset == BLOCK {
                    told = Some(ToldEnd {
                        last: BatchNumber(batch.number.0.saturating_sub(1)),
                        is_named: false,
                        synced: batch.synced,
                    });
                }
                match &mut told {
                    Some(told) => told.synced = told.synced.max(batch.synced),
                    None if in_head => {}
                    None => break,
                }
                if !in_head && told.is_some_and(|told| told.synced >= told.last) {
                    break;
                }
            }
            Found::Record(record) if in_head && record.kind == RecordKind::Sealed => {
                if record.term.0 == segment.segment.0 {
                    told = Some(ToldEnd {
                        last: BatchNumber(record.index.0),
                        is_named: true,
                        synced: told.map_or(BatchNumber(0), |told| told.synced),
                    });
                }
            }
            Found::Record(_) | Found::Damage { .. } | Found::End { .. } => {}
        }
    }
    Ok(told)
}
