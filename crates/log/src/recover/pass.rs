//! Segments that a start passes over: nothing of them is to be applied, and their summaries say where everything is.
//!
//! A start has to read what lies above the checkpoints, and what decides where the log ends. Of a segment that is wholly below all
//! checkpoints, and of which a manifest says that all of it was synced, it has to know only what a summary says. Whether its bytes are
//! still what was written is looked at when somebody reads them, and by a scrub: what is damaged is never delivered either way (M44).
//!
//! Wherever a summary does not fit what stands around its segment, the segment is read. A start that finds anything wrong reads them all
//! ([`super::Log::open`]), so what is said of damage never depends on summaries. So does one that finds no whole head in the last segment: that
//! says of each segment that was called cleaned whether it counts again, which summaries do not.

use std::collections::BTreeSet;

use courser_contract::LogIndex;

use super::{
    bad::Candidate,
    chain::{BLOCK, Chain, Link},
    picture::Picture,
    report::Damage,
    survey::Survey,
};
use crate::{
    batch::Run,
    config::{Planted, SEGMENT_BYTES_MIN, batch_bytes_max},
    disk::DiskFile,
    error::OpenError,
    format::{BATCH_HEADER_BYTES, BatchHeader, FLAG_WITNESS, Header, Seen},
    ids::{BatchNumber, Place, SegmentNumber},
    log::{LastBatch, Segment, replace},
    summary::Summary,
};

/// No batch that is full takes less of the file, whatever the setting was when it was written.
const FULL_BYTES_MIN: u64 = batch_bytes_max(SEGMENT_BYTES_MIN) as u64;

impl<F: DiskFile> Chain<F> {
    /// The place behind a segment that begins here and need not be read.
    pub(super) fn pass_over(&mut self, place: Place) -> Result<Option<Place>, OpenError> {
        if place.offset != BLOCK || self.config.reads_all {
            return Ok(None);
        }
        let found = self.files.get(&place.segment);
        let said = found.and_then(|found| found.summary.as_ref());
        let is_covered = |said: &Summary| {
            self.config.has(Planted::PassUncovered) || self.picture.is_below_checkpoints(said)
        };
        if !said.is_some_and(is_covered) {
            return Ok(None);
        }
        let Some(summary) = self.take_summary(place.segment) else {
            return Ok(None);
        };
        let Some((last, behind)) = self.ends_as_said(&summary, place)? else {
            return Ok(None);
        };
        // The last batch is the one that this segment goes on behind. It may begin an entry that ends here.
        self.flush()?;
        if self.picture.has_open_entry() {
            return Ok(None);
        }
        let before = self.last.replace(Link::of(&last));
        let Some(next) = self.next_segment(behind)? else {
            self.last = before;
            return Ok(None);
        };
        self.prove(self.proven);
        self.report.passed_segments += 1;
        self.report.passed_bytes += behind.offset - BLOCK;
        self.picture.pass(summary, BatchNumber(last.number.get()));
        Ok(Some(next))
    }

    /// The summary of a segment, if it is of this segment as it is. Another one is to be made anew.
    fn take_summary(&mut self, segment: SegmentNumber) -> Option<Summary> {
        let summary = self.files.get_mut(&segment)?.summary.take()?;
        let last = self.header(summary.last());
        let fits = last.is_some_and(|last| last.crc.get() == summary.last_crc);
        if let Some(found) = self.files.get_mut(&segment) {
            found.is_summed = fits;
        }
        fits.then_some(summary)
    }

    /// The last batch of a segment, and the place behind it: if all of it was synced, and it goes on where the log has come to.
    fn ends_as_said(
        &self,
        summary: &Summary,
        place: Place,
    ) -> Result<Option<(BatchHeader, Place)>, OpenError> {
        let last_at = summary.last();
        let (Some(first), Some(last)) = (self.header(place), self.header(last_at)) else {
            return Ok(None);
        };
        let counts = last.number.get() <= self.proven.0
            && self.goes_on_with(&first, place)?
            && self.is_later(&last, last_at)?;
        let behind = Place {
            offset: last_at.offset + last.file_bytes(),
            ..place
        };
        Ok(counts.then_some((last, behind)))
    }

    /// Whether a batch is what follows the last one, and not only by its number.
    fn goes_on_with(&self, header: &BatchHeader, place: Place) -> Result<bool, OpenError> {
        let crc = self.last.and_then(|last| last.crc);
        let is_its = crc.is_none_or(|crc| crc == header.previous_crc.get());
        Ok(is_its && self.follows(header, place)?)
    }

    /// Where the log goes on behind a segment that ends here: with the head of a later one, which says so.
    fn next_segment(&mut self, end: Place) -> Result<Option<Place>, OpenError> {
        let next = self.files.range(end.segment.next()..).next();
        let Some(segment) = next.map(|(number, _)| *number) else {
            return Ok(None);
        };
        let place = Place {
            segment,
            offset: BLOCK,
        };
        let Some(header) = self.header(place) else {
            return Ok(None);
        };
        // Behind segments that were used again it names this one's end instead.
        let is_next = self.follows(&header, place)?;
        let fits = if is_next {
            self.goes_on_with(&header, place)?
        } else {
            self.is_later(&header, place)?
        };
        let next = Candidate { place, header };
        Ok(fits.then(|| self.rolled_into(end, next)).flatten())
    }

    /// An intact header, read alone. What cannot be read is for those who read it all.
    pub(super) fn header(&self, place: Place) -> Option<BatchHeader> {
        let file = self.files.get(&place.segment)?.window.file();
        let mut bytes = [0; BATCH_HEADER_BYTES];
        file.read_at(&mut bytes, place.offset).ok()?;
        match BatchHeader::see(&bytes) {
            Seen::Header(header) => Some(header),
            Seen::Nothing | Seen::Other(_) => None,
        }
    }
}

impl Link {
    pub(super) fn of(header: &BatchHeader) -> Self {
        Self {
            number: BatchNumber(header.number.get()),
            crc: Some(header.crc.get()),
            partitions: header.partitions.get(),
            is_witness: header.flags.get() & FLAG_WITNESS != 0,
            is_full_head: header.is_head() && header.file_bytes() >= FULL_BYTES_MIN,
            start: header.start.get(),
            word: header.word.get(),
        }
    }
}

impl From<Link> for LastBatch {
    fn from(link: Link) -> Self {
        Self {
            number: link.number,
            crc: link.crc.unwrap_or(0),
            partitions: link.partitions,
            is_witness: link.is_witness,
        }
    }
}

impl Picture {
    /// Whether nothing of a segment is to be applied.
    fn is_below_checkpoints(&self, summary: &Summary) -> bool {
        let mut partitions = summary.partitions.iter();
        partitions.all(|(id, said)| {
            said.range.is_none_or(|(_, last)| {
                let known = self.partitions.get(id);
                known.is_some_and(|it| last <= it.checkpoint())
            })
        })
    }

    /// Takes what a summary says, as if its segment had been read.
    fn pass(&mut self, summary: Summary, last: BatchNumber) {
        let number = summary.segment;
        let mut segment = Segment {
            last,
            last_at: summary.last_at,
            last_crc: summary.last_crc,
            cleaned: summary.cleaned,
            ..Segment::default()
        };
        segment.cleaned.iter().for_each(|it| self.clean(*it));
        for (id, said) in summary.partitions {
            if let Some(from) = self.places.take(id, &said) {
                replace(&mut self.segments, id, from);
            }
            if let Some((first, last)) = said.range {
                segment.ranges.insert(id, (first, last));
                let partition = self.partitions.entry(id).or_default();
                partition.seen = partition.seen.max(last);
                // Of those behind the last one that counts, others were in their place when it was written.
                let counts = said.runs.iter().map(|run| run.last).max();
                let void = counts.map_or(first, LogIndex::next);
                if void <= last {
                    segment.note_void(Run {
                        partition: id,
                        first: void,
                        last,
                    });
                }
            }
            if said.kept.runs().next().is_some() {
                segment.kept.insert(id, said.kept);
            }
        }
        self.segments.insert(number, segment);
    }
}

/// Segments that lack a summary and may have one.
pub(super) fn unsummed<F>(
    survey: &Survey<F>,
    picture: &Picture,
    damages: &[Damage],
) -> BTreeSet<SegmentNumber> {
    let lacks = |number: &SegmentNumber| {
        let is_damaged = damages.iter().any(|it| it.place.segment == *number);
        let found = survey.files.get(number);
        !is_damaged && found.is_some_and(|found| !found.is_summed)
    };
    let segments = picture.segments.keys();
    segments.copied().filter(lacks).collect()
}
