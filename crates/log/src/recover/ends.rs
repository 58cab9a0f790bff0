//! Segments whose ends are not what later ones say, and files without their beginning.

use super::{
    picture::Picture,
    report::{Damage, DamageKind, RecoveryReport},
    survey::Survey,
};
use crate::{
    disk::DiskFile,
    ids::{BatchNumber, Place},
};

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
