//! Segments whose ends are not what later ones say, and files without their beginning.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::{
    bad::{Candidate, without_void},
    chain::{BLOCK, Chain},
    picture::Picture,
    report::{Damage, DamageKind, RecoveryReport},
    survey::{Found, Survey},
};
use crate::{
    disk::DiskFile,
    format::{BATCH_HEADER_BYTES, BatchHeader, Kind},
    ids::{BatchNumber, Place, SegmentNumber},
    record::SegmentEnd,
    scan::{Check, Frames, RawFrame, Window},
};

/// Bytes of one read of a file that may hold nothing.
const ZEROS_BYTES: u64 = 1 << 20;

/// How far a segment is looked through for what it says of others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Until {
    HeadEnds,
    /// Also what a start has said behind the head: the next head says the same, but there is none yet.
    SegmentEnds,
}

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
    /// What is said about the last batch of an older segment: by the head of `next`, with which the log goes on behind it, or else by the newest head that
    /// names it. One that was written while the segment was called cleaned does not.
    pub(super) fn sealed_at(
        &mut self,
        next: SegmentNumber,
        segment: SegmentNumber,
    ) -> Option<SegmentEnd> {
        let mut said = None;
        self.each_sealed(next, Until::HeadEnds, |number, end| {
            said = said.or((number == segment).then_some(end));
        });
        if said.is_some_and(|end| end.crc.is_some()) {
            return said;
        }
        if self.ends.is_none() {
            self.ends = Some(self.newest_ends());
        }
        let newest = self.ends.as_ref().and_then(|ends| ends.get(&segment));
        newest.copied().or(said)
    }

    /// What the newest heads say that name a segment. Cost: a look at the head of each segment, and at all headers of the last one.
    fn newest_ends(&self) -> BTreeMap<SegmentNumber, SegmentEnd> {
        let heads = self.files.keys().filter_map(|segment| {
            let place = Place {
                segment: *segment,
                offset: BLOCK,
            };
            let header = self.header(place)?;
            let is_its = header.is_head() && header.segment.get() == segment.0;
            is_its.then_some(Candidate { place, header })
        });
        let heads = without_void(heads.collect());
        let newest = heads.last().map(|head| head.place.segment);
        let mut ends = BTreeMap::new();
        for head in heads {
            let segment = head.place.segment;
            let until = match newest == Some(segment) {
                true => Until::SegmentEnds,
                false => Until::HeadEnds,
            };
            self.each_sealed(segment, until, |number, end| {
                let known = ends.entry(number).or_insert(end);
                // A former version leaves out the checksum.
                if end.crc.is_some() || end.batch != known.batch {
                    *known = end;
                }
            });
        }
        ends
    }

    /// Goes through what the head of a segment says of others.
    fn each_sealed(
        &self,
        segment: SegmentNumber,
        until: Until,
        mut take: impl FnMut(SegmentNumber, SegmentEnd),
    ) {
        let mut place = Place {
            segment,
            offset: BLOCK,
        };
        let mut before: Option<BatchHeader> = None;
        while let Some(header) = self.header(place) {
            let follows = before.is_none_or(|before| {
                header.number.get() == before.number.get() + 1
                    && header.start.get() >= before.start.get()
            });
            let is_head = header.is_head();
            let ends = !is_head && until == Until::HeadEnds;
            if header.segment.get() != segment.0 || !follows || ends {
                break;
            }
            let body = is_head.then(|| self.body(place, &header)).flatten();
            for frame in body
                .iter()
                .flat_map(|body| Frames::new(body, header.tag.get(), Check::Lengths).flatten())
            {
                if frame.known() == Some(Kind::Sealed) {
                    take(SegmentNumber(frame.term.0), SegmentEnd::of(&frame));
                }
            }
            place.offset += header.file_bytes();
            before = Some(header);
        }
    }

    /// That of a batch, if it is whole.
    fn body(&self, place: Place, header: &BatchHeader) -> Option<Bytes> {
        let file = self.files.get(&place.segment)?.window.file();
        let mut body = vec![0; header.body_bytes.get() as usize];
        let from = place.offset + BATCH_HEADER_BYTES as u64;
        file.read_at(&mut body, from).ok()?;
        (crc32c::crc32c(&body) == header.body_crc.get()).then(|| Bytes::from(body))
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
        let end = is_next
            .then(|| self.sealed_at(head.segment, segment))
            .flatten()?;
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
        picture.doubt(place, *number, u64::MAX);
        picture.lose(*number, *end);
    }
}

/// Takes files out that hold nothing and never did. Segments are used in the order of their numbers: behind one that is ready and was never written to none
/// was. Without such a one an empty file may be what is left of the end of the log.
pub(super) fn never_used<F: DiskFile>(picture: &Picture, survey: &mut Survey<F>) {
    let newest = picture.segments.keys().next_back().copied();
    let is_ready = |(number, found): &(&SegmentNumber, &Found<F>)| {
        found.has_header && !found.is_short && newest.is_none_or(|newest| newest < **number)
    };
    let Some((first, _)) = survey.files.iter().find(is_ready) else {
        return;
    };
    let behind = survey.files.range_mut(first.next()..);
    let empty: Vec<SegmentNumber> = behind
        .filter(|(_, found)| !found.has_header && found.unseen.is_none())
        .filter_map(|(number, found)| is_zeros(&mut found.window).then_some(*number))
        .collect();
    for number in empty {
        survey.files.remove(&number);
        survey.unfinished.push(number.file_name());
        survey.leftovers.empty += 1;
    }
}

/// Whether a file has nothing but zeros, or no bytes at all.
fn is_zeros<F: DiskFile>(window: &mut Window<F>) -> bool {
    let mut at = 0;
    while at < window.len() {
        let len = (window.len() - at).min(ZEROS_BYTES);
        match window.bytes(at, len) {
            Ok(bytes) if bytes.iter().all(|byte| *byte == 0) => at += len,
            Ok(_) | Err(_) => return false,
        }
    }
    true
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
            picture.doubt(place, *number, u64::MAX);
        }
    }
}
