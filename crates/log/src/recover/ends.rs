//! Segments whose ends are not what later ones say, and files without their beginning.

use super::{
    chain::Chain,
    picture::Picture,
    report::{Damage, DamageKind, RecoveryReport},
    survey::Survey,
};
use crate::{
    disk::DiskFile,
    format::Kind,
    ids::{BatchNumber, Place, SegmentNumber},
    record::SegmentEnd,
    scan::{BatchSeen, Check, Frames, RawFrame, batch_at},
};

impl SegmentEnd {
    /// What a record says.
    pub(super) fn of(frame: &RawFrame) -> Self {
        Self {
            batch: BatchNumber(frame.index.0),
            crc: (*frame.data).try_into().ok().map(u32::from_le_bytes),
        }
    }
}

impl<F: DiskFile> Chain<F> {
    /// What the head at a place says about the last batch of an older segment.
    pub(super) fn sealed_at(&mut self, head: Place, segment: SegmentNumber) -> Option<SegmentEnd> {
        let window = &mut self.files.get_mut(&head.segment)?.window;
        let BatchSeen::Whole(batch) = batch_at(window, head.offset) else {
            return None;
        };
        Frames::new(&batch.body, batch.header.tag.get(), Check::Lengths)
            .flatten()
            .find(|frame| frame.known() == Some(Kind::Sealed) && frame.term.0 == segment.0)
            .map(|frame| SegmentEnd::of(&frame))
    }

    /// With which batch a segment ended of which those from `first` on are lost, as the head says with which the log goes on; none where that goes on behind
    /// them, or another file may have held some of those between.
    pub(super) fn ended_at(
        &mut self,
        segment: SegmentNumber,
        first: BatchNumber,
        head: Place,
    ) -> Option<BatchNumber> {
        let is_next = head.segment > segment
            && self
                .files
                .range(segment.next()..head.segment)
                .next()
                .is_none();
        let end = is_next.then(|| self.sealed_at(head, segment)).flatten()?;
        (end.batch >= first).then_some(end.batch)
    }
}

/// Segments that end before the batch with which they were left, as a later head says.
pub(super) fn sealed_tails<F: DiskFile>(
    picture: &mut Picture,
    survey: &Survey<F>,
    report: &mut RecoveryReport,
) {
    let sealed = std::mem::take(&mut picture.sealed);
    for (number, end) in &sealed {
        let Some(segment) = picture.segments.get(number) else {
            continue;
        };
        let known = |damage: &Damage| damage.first <= *end && *end <= damage.last;
        if segment.last >= *end || report.damages.iter().any(known) {
            continue;
        }
        let offset = survey.files.get(number).map_or(0, |f| f.window.len());
        let place = Place {
            segment: *number,
            offset,
        };
        report.damages.push(Damage {
            place,
            first: segment.last.next(),
            last: *end,
            kind: DamageKind::Rot {
                salvaged: 0,
                lost: None,
            },
        });
        picture.doubt(place, u64::MAX);
        picture.lose(*number, *end);
    }
}

/// Files whose header is gone. Names are given to files that have one, so each of them had.
pub(super) fn headers<F>(picture: &mut Picture, survey: &Survey<F>, report: &mut RecoveryReport) {
    for (number, found) in survey.files.iter().filter(|(_, f)| !f.has_header) {
        let segment = picture.segments.get(number);
        let last = segment.map_or(BatchNumber(0), |segment| segment.last);
        let is_lost = segment.is_none() && found.is_short;
        let place = Place {
            segment: *number,
            offset: 0,
        };
        report.damages.push(Damage {
            place,
            first: last,
            last,
            kind: if is_lost {
                DamageKind::ShortFile
            } else {
                DamageKind::SegmentHeader
            },
        });
        if is_lost {
            picture.doubt(place, u64::MAX);
        }
    }
}
