//! Bad places: torn or rotten (M44).

use bytes::Bytes;

use super::{
    chain::{BLOCK, Chain, Link},
    report::{Cut, Damage, DamageKind},
};
use crate::{
    config::Planted,
    disk::DiskFile,
    error::OpenError,
    format::{BatchHeader, Seen},
    ids::{BatchNumber, Place, SegmentNumber},
    scan::{BatchSeen, Check, Frames, header_at},
};

/// How a bad place is left.
#[derive(Debug)]
pub(super) enum Way {
    /// Reading goes on there.
    On(Place),
    /// The log ends; the next batch goes there, or into another segment when there is no place.
    End(Option<Place>),
}

/// An intact header behind a bad place.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate {
    pub(super) place: Place,
    pub(super) header: BatchHeader,
}

impl Candidate {
    const fn number(&self) -> BatchNumber {
        BatchNumber(self.header.number.get())
    }

    /// Whether it was written by a start that had found the batches before it lost: then what is left of those was never given up.
    const fn is_behind_lost(&self) -> bool {
        self.header.previous_crc.get() == 0 && self.header.previous_partitions.get() == u64::MAX
    }
}

/// What is known of a place where no batch follows.
#[derive(Debug)]
struct Bad {
    place: Place,
    /// The number of the batch that should be there; `None` when none was read before.
    expected: Option<BatchNumber>,
    /// Its header, when that is intact, and what there is of its body.
    remains: Option<(BatchHeader, Bytes)>,
    /// Later batches, by number.
    later: Vec<Candidate>,
    is_short: bool,
}

impl Bad {
    /// Behind what is known to be of the bad batch itself.
    fn behind(&self) -> Place {
        let remains = self.remains.as_ref();
        let bytes = remains.map_or(BLOCK, |(header, _)| header.file_bytes());
        Place {
            offset: self.place.offset + bytes,
            ..self.place
        }
    }

    /// Whether nothing of the place counts beside a later batch: there is no batch, or the remains of one that the later
    /// batch's start has cut before it gave its number again.
    fn is_void_before(&self, next: &Candidate) -> bool {
        self.remains.as_ref().is_none_or(|(header, _)| {
            header.start.get() < next.header.start.get() && header.number == next.header.number
        })
    }

    /// Where something is damaged for certain. A segment begins with a batch: one that is gone before a later one of that segment lay there, not at the
    /// end of the segment before, unless something is left of one there.
    fn damaged_at(&self, next: Option<&Candidate>) -> Place {
        match next.map(|next| next.place) {
            Some(next)
                if next.segment > self.place.segment
                    && next.offset > BLOCK
                    && self.remains.is_none() =>
            {
                Place {
                    offset: BLOCK,
                    ..next
                }
            }
            Some(_) | None => self.place,
        }
    }

    /// Whether there was room for one batch before a later one.
    fn is_block_before(&self, next: &Candidate) -> bool {
        let behind = self.place.offset + BLOCK;
        (next.place.segment, next.place.offset) == (self.place.segment, behind)
    }
}

/// By number. A start gives the numbers again that it has cut: what an earlier start wrote under them or under higher ones is
/// void.
pub(super) fn without_void(mut found: Vec<Candidate>) -> Vec<Candidate> {
    let start = |candidate: &Candidate| candidate.header.start.get();
    found.sort_by_key(|candidate| (candidate.number(), std::cmp::Reverse(start(candidate))));
    let (mut newest, mut before) = (0, None);
    found.retain(|candidate| {
        let counts = start(candidate) >= newest && before != Some(candidate.number());
        newest = newest.max(start(candidate));
        before = Some(candidate.number());
        counts
    });
    found
}

impl<F: DiskFile> Chain<F> {
    /// A place where no batch follows: the end of a segment, the end of the log, a torn batch or rot.
    pub(super) fn leave(&mut self, place: Place, seen: BatchSeen) -> Result<Way, OpenError> {
        if matches!(seen, BatchSeen::Nothing)
            && let Some(way) = self.rolls(place)?
        {
            return Ok(way);
        }
        let mut bad = Bad {
            place,
            expected: self.last.map(|last| last.number.next()),
            remains: None,
            later: self.search(place)?,
            is_short: self.files.get(&place.segment).is_some_and(|f| f.is_short),
        };
        match seen {
            BatchSeen::Nothing => {}
            BatchSeen::Other(version) => {
                let segment = place.segment;
                return Err(OpenError::Version { segment, version });
            }
            BatchSeen::Unreadable(error) => self.cannot_see(place, error)?,
            BatchSeen::Whole(batch) => {
                let header = batch.header;
                if self.is_later(&header, place)? {
                    bad.later.push(Candidate { place, header });
                }
            }
            BatchSeen::BadBody(header, body) => self.take_remains(&mut bad, header, body)?,
            BatchSeen::UnreadableBody(header, error) => {
                self.cannot_see(place, error)?;
                self.take_remains(&mut bad, header, Bytes::new())?;
            }
        }
        bad.later = without_void(std::mem::take(&mut bad.later));
        if self.are_void_remains(&bad) {
            bad.remains = None;
        }
        if let Some(way) = self.rolled(&bad) {
            return Ok(way);
        }
        self.judge(bad)
    }

    /// Whether what remains is not of the batch that later ones followed: an earlier start left it, and another batch got its number.
    fn are_void_remains(&mut self, bad: &Bad) -> bool {
        let (Some((header, _)), Some(next)) = (&bad.remains, bad.later.first()) else {
            return false;
        };
        match next.number().0.checked_sub(header.number.get()) {
            None | Some(0) => false,
            Some(1) => next.header.previous_crc != header.crc,
            Some(_) if next.header.start.get() <= header.start.get() || next.is_behind_lost() => {
                false
            }
            // Segments between may have been used again. Then it was the last one of this, and later heads name it; or those behind it are lost, too.
            Some(_) => match self.sealed_at(next.place.segment, bad.place.segment) {
                Some(end) if end.crc == Some(header.crc.get()) => false,
                Some(end) if end.batch.0 > header.number.get() => {
                    // No start can have cut it that has not written to its segment.
                    let found = self.files.get(&bad.place.segment);
                    found.and_then(|found| found.writer) != Some(header.start.get())
                }
                Some(_) | None => true,
            },
        }
    }

    /// Takes the header of a damaged batch, if it is the one that should be there.
    fn take_remains(
        &self,
        bad: &mut Bad,
        header: BatchHeader,
        body: Bytes,
    ) -> Result<(), OpenError> {
        let number = BatchNumber(header.number.get());
        let is_it = bad.expected.is_none_or(|expected| expected == number);
        if is_it && self.is_later(&header, bad.place)? {
            bad.expected = Some(number);
            bad.remains = Some((header, body));
        }
        Ok(())
    }

    /// The usual end of a segment: no batch stands in the rest of it, and the next file begins with a whole one that goes on. Then no
    /// other segment is looked at, or a start would read each as often as there are segments before it.
    ///
    /// Nothing else can be what goes on. A number is given again only by a start that has cut the batch which had it, and one that has read
    /// the log to here found this head as it is, and cut nothing.
    fn rolls(&mut self, place: Place) -> Result<Option<Way>, OpenError> {
        let rest = Place {
            offset: place.offset + BLOCK,
            ..place
        };
        let next = self.files.range(place.segment.next()..).next();
        let Some(segment) = next.map(|(number, _)| *number) else {
            return Ok(None);
        };
        if self.last.is_none() || !self.search_in(rest)?.is_empty() {
            return Ok(None);
        }
        let head = Place {
            segment,
            offset: BLOCK,
        };
        let BatchSeen::Whole(batch) = self.look(head) else {
            return Ok(None);
        };
        let header = batch.header;
        if !self.is_later(&header, head)? {
            return Ok(None);
        }
        let next = Candidate {
            place: head,
            header,
        };
        Ok(self.rolled_into(place, next).map(Way::On))
    }

    /// Intact headers of later batches, in the rest of this segment and in all later ones: batches of other segments carry
    /// other numbers. Cost: all of them are read.
    fn search(&mut self, from: Place) -> Result<Vec<Candidate>, OpenError> {
        let mut found = Vec::new();
        let segments: Vec<SegmentNumber> = self
            .files
            .range(from.segment..)
            .map(|(number, _)| *number)
            .collect();
        for segment in segments {
            let mut offset = BLOCK;
            if segment == from.segment {
                offset = from.offset + BLOCK;
            }
            found.extend(self.search_in(Place { segment, offset })?);
        }
        Ok(found)
    }

    /// Those of one segment, from there on.
    fn search_in(&mut self, mut place: Place) -> Result<Vec<Candidate>, OpenError> {
        let mut found = Vec::new();
        while let Some(seen) = self.header_at(place)? {
            if let Seen::Header(header) = seen
                && self.is_later(&header, place)?
            {
                found.push(Candidate { place, header });
            }
            place.offset += BLOCK;
        }
        Ok(found)
    }

    /// `None` behind the end of the file.
    fn header_at(&mut self, place: Place) -> Result<Option<Seen<BatchHeader>>, OpenError> {
        let Some(found) = self.files.get_mut(&place.segment) else {
            return Ok(None);
        };
        match header_at(&mut found.window, place.offset) {
            Ok(seen) => Ok(seen),
            Err(error) => {
                self.cannot_see(place, error)?;
                Ok(Some(Seen::Nothing))
            }
        }
    }

    /// Where it goes on if nothing is bad at the end of a segment, behind which this is the first batch.
    pub(super) fn rolled_into(&mut self, end: Place, next: Candidate) -> Option<Place> {
        let way = self.rolled(&Bad {
            place: end,
            expected: None,
            remains: None,
            later: vec![next],
            is_short: false,
        });
        match way? {
            Way::On(place) => Some(place),
            Way::End(_) => None,
        }
    }

    /// Whether nothing is bad: the segment was full, and the log goes on with the head of a later one.
    fn rolled(&mut self, bad: &Bad) -> Option<Way> {
        let next = bad.later.first()?;
        let begins = next.place.offset == BLOCK && next.place.segment > bad.place.segment;
        if !begins || !next.header.is_head() || !bad.is_void_before(next) {
            return None;
        }
        let on = match self.last {
            // Nothing before it: segments are removed from the beginning, or were never used. Of one that was the head would say more.
            None => {
                self.config.has(Planted::ForgetLost)
                    || self
                        .sealed_at(next.place.segment, bad.place.segment)
                        .is_none()
            }
            Some(last) if last.number.next() == next.number() => true,
            // Segments between were used again. Then this head says with which batch the last one before ended.
            Some(last) => {
                let adjacent = bad.place.segment.next() == next.place.segment;
                match self.sealed_at(next.place.segment, bad.place.segment) {
                    Some(end) => end.batch == last.number,
                    None => !adjacent,
                }
            }
        };
        if !on {
            return None;
        }
        if let Some(last) = &mut self.last
            && last.number.next() != next.number()
        {
            *last = Link {
                number: BatchNumber(next.number().0 - 1),
                crc: None,
                ..*last
            };
        }
        Some(Way::On(next.place))
    }

    /// There is no segment, and a checkpoint says that batches were synced: all of them are lost. Gives whether it is so. `place` is where a
    /// segment stands for them from now on.
    pub(super) fn lose_all(&mut self, place: Place) -> Result<bool, OpenError> {
        if self.proven == BatchNumber(0) || self.config.has(Planted::ForgetLost) {
            return Ok(false);
        }
        self.rot(Bad {
            place,
            expected: Some(BatchNumber(1)),
            remains: None,
            later: Vec::new(),
            is_short: false,
        })?;
        Ok(true)
    }

    fn judge(&mut self, bad: Bad) -> Result<Way, OpenError> {
        let synced = bad.later.iter().map(|later| later.header.synced.get());
        if let Some(synced) = synced.max() {
            self.prove(BatchNumber(synced));
        }
        // Whatever was the first batch of all, it was synced if anything was.
        let was_synced = match bad.expected {
            Some(expected) => self.proven >= expected,
            None => self.proven > BatchNumber(0),
        };
        let is_planted = self.config.has(Planted::CutRot)
            || bad.remains.is_none() && self.config.has(Planted::CutLost);
        if (was_synced || bad.is_short) && !is_planted {
            return self.rot(bad);
        }
        self.has_seen_all(bad.place)?;
        self.cut(&bad);
        Ok(Way::End(Some(bad.place)))
    }

    /// Written and never known to be synced: the log ends before it.
    fn cut(&mut self, bad: &Bad) {
        let torn = bad.remains.iter().map(|(header, _)| header);
        let headers = torn.chain(bad.later.iter().map(|later| &later.header));
        let (mut batches, mut bytes) = (0, 0);
        for header in headers {
            batches += 1;
            bytes += header.file_bytes();
        }
        if batches > 0 {
            self.report.cut = Some(Cut {
                place: bad.place,
                batches,
                bytes,
            });
        }
    }

    /// Synced once, and no longer there: reported, what can be read of it is, and reading goes on behind it.
    fn rot(&mut self, bad: Bad) -> Result<Way, OpenError> {
        self.flush()?;
        let first = bad.expected.unwrap_or_else(|| {
            let next = bad.later.first().map(Candidate::number);
            BatchNumber(next.map_or(self.proven.0, |next| next.0.saturating_sub(1)))
        });
        // Only behind batches that were all synced: whatever lies behind one that was not is void with it.
        let resume = bad.later.iter().copied().find(|later| {
            let after = later.number() > first || bad.expected.is_none();
            after && later.number().0 <= self.proven.0.saturating_add(1)
        });
        let before = match &resume {
            Some(resume) => BatchNumber(resume.number().0 - 1),
            None => self.proven.max(first),
        };
        let end = resume.and_then(|resume| self.ended_at(bad.place.segment, first, resume.place));
        // Those behind it lay in segments that were used again since.
        let last = end.filter(|_| bad.expected.is_some()).unwrap_or(before);
        let follower = resume.filter(|_| last == before);
        let mut kind = DamageKind::Rot {
            salvaged: 0,
            lost: None,
        };
        let mut partitions = self.concerned(&bad, (first, last), follower.as_ref());
        if let Some((header, body)) = &bad.remains {
            let (salvaged, lost) = self.salvage(bad.place, header, body)?;
            if first == last {
                kind = DamageKind::Rot {
                    salvaged,
                    lost: Some(lost),
                };
                if lost == 0 {
                    partitions = 0;
                }
            }
        }
        if bad.is_short && resume.is_none() {
            kind = DamageKind::ShortFile;
            partitions = u64::MAX;
        }
        let place = bad.damaged_at(resume.as_ref());
        self.picture.doubt(place, bad.place.segment, partitions);
        self.picture.lose(bad.place.segment, last);
        self.damage(place, (first, last), kind);
        let Some(resume) = resume else {
            self.has_seen_all(bad.behind())?;
            self.skip_to(before, &bad, None);
            return Ok(Way::End(None));
        };
        self.picture.places.break_stretches();
        let only = follower.as_ref().filter(|_| first == last);
        self.skip_to(before, &bad, only);
        Ok(Way::On(resume.place))
    }

    /// Partitions of which something may be in lost batches.
    fn concerned(
        &self,
        bad: &Bad,
        (first, last): (BatchNumber, BatchNumber),
        resume: Option<&Candidate>,
    ) -> u64 {
        let mut lost = last.0 - first.0 + 1;
        let mut partitions = 0;
        if bad.expected.is_none() && !resume.is_some_and(|it| bad.is_block_before(it)) {
            // Nobody knows how many there were.
            return u64::MAX;
        }
        if let Some((header, _)) = &bad.remains {
            partitions |= header.partitions.get();
            lost -= 1;
        }
        if lost > 0
            && let Some(resume) = resume
        {
            partitions |= resume.header.previous_partitions.get();
            lost -= 1;
        }
        if lost == 0 { partitions } else { u64::MAX }
    }

    /// Takes the records of a damaged batch whose own checksums are right: they are bound to this batch by its tag. Gives how
    /// many there were and how many are lost.
    fn salvage(
        &mut self,
        place: Place,
        header: &BatchHeader,
        body: &Bytes,
    ) -> Result<(u64, u64), OpenError> {
        let mut salvaged = 0;
        let check = if self.config.has(Planted::TakeDamaged) {
            Check::Lengths
        } else {
            Check::Checksums
        };
        for frame in Frames::new(body, header.tag.get(), check).flatten() {
            salvaged += 1;
            self.picture.take(frame, place)?;
        }
        // Who goes through the segment is not done before it: the cleaner would take what is left of it for moved.
        let segment = self.picture.segments.entry(place.segment).or_default();
        segment.last = segment.last.max(BatchNumber(header.number.get()));
        (segment.last_at, segment.last_crc) = (place.offset, header.crc.get());
        let all = u64::from(header.records.get());
        Ok((salvaged, all.saturating_sub(salvaged)))
    }

    /// Goes on as if the lost batches had been read. What `resume` says of the only one before it is kept also where it is cut itself: the batch that
    /// takes its place says the same, and the next start finds no more in doubt. Of several one that says nothing tells that the others were not given up.
    fn skip_to(&mut self, number: BatchNumber, bad: &Bad, resume: Option<&Candidate>) {
        let header = bad.remains.as_ref().map(|(header, _)| header);
        let (start, word) = match (header, self.last) {
            (Some(header), _) => (header.start.get(), header.word.get()),
            (None, Some(last)) => (last.start, last.word),
            // Nothing was read yet: any start follows.
            (None, None) => (0, 0),
        };
        let same = header
            .filter(|header| header.number.get() == number.0)
            .map(|header| (header.crc.get(), header.partitions.get()));
        let said =
            resume
                .filter(|next| !next.is_behind_lost())
                .map(|Candidate { header, .. }| {
                    (header.previous_crc.get(), header.previous_partitions.get())
                });
        let (crc, partitions) = same.or(said).unzip();
        self.last = Some(Link {
            number,
            crc,
            partitions: partitions.unwrap_or(u64::MAX),
            is_witness: false,
            is_full_head: false,
            start,
            word,
        });
    }

    pub(super) fn damage(
        &mut self,
        place: Place,
        (first, last): (BatchNumber, BatchNumber),
        kind: DamageKind,
    ) {
        self.report.damages.push(Damage {
            place,
            first,
            last,
            kind,
        });
    }
}
