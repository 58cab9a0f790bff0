//! The pass over the batches: which one follows, and what a place is where none does.

use std::collections::{BTreeMap, VecDeque};

use super::{
    ReadSoFar,
    bad::Way,
    ends::{headers, never_used, sealed_tails},
    picture::Picture,
    report::{DamageKind, RecoveryReport},
    survey::{Found, Survey},
};
use crate::{
    checkpoint::Manifests,
    config::{LogConfig, Planted},
    disk::DiskFile,
    error::OpenError,
    format::{BLOCK_BYTES, BatchHeader},
    ids::{BatchNumber, Place, SegmentNumber, StartId},
    record::SegmentEnd,
    scan::{BatchSeen, Check, Frames, RawBatch, Stamp, batch_at},
};

pub(super) const BLOCK: u64 = BLOCK_BYTES as u64;

/// All that the pass found.
#[derive(Debug)]
pub(super) struct Scanned<F> {
    pub(super) survey: Survey<F>,
    pub(super) picture: Picture,
    pub(super) report: RecoveryReport,
    /// The last batch that counts.
    pub(super) last: Option<Link>,
    /// Where the next one goes; `None` when what stands there must not be overwritten.
    pub(super) tail: Option<Place>,
    /// Batches of which no sync is known.
    pub(super) unproven: VecDeque<Unproven>,
}

impl<F> Scanned<F> {
    /// Whether the last segment begins with a head that is known to be whole. Of one of several batches the last ones may be torn.
    pub(super) fn has_whole_head(&self) -> bool {
        let begins = self.tail.is_some_and(|tail| tail.offset == BLOCK);
        !begins && !self.last.is_some_and(|last| last.is_full_head)
    }
}

/// What the next batch must follow.
#[derive(Clone, Copy, Debug)]
pub(super) struct Link {
    pub(super) number: BatchNumber,
    /// `None` when the batch was lost.
    pub(super) crc: Option<u32>,
    pub(super) partitions: u64,
    pub(super) is_witness: bool,
    /// It is of a head, and there may have been a next one of the same.
    pub(super) is_full_head: bool,
    pub(super) start: u32,
    pub(super) word: u64,
}

impl Link {
    const fn stamp(&self) -> Stamp {
        Stamp {
            number: self.number.0,
            start: self.start,
            word: self.word,
        }
    }
}

/// A batch in the file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unproven {
    pub(super) number: BatchNumber,
    pub(super) place: Place,
    pub(super) bytes: u64,
}

/// Reads everything.
pub(super) fn scan<F: DiskFile>(
    survey: Survey<F>,
    config: LogConfig,
    start: StartId,
    manifests: &Manifests,
    watch: &mut dyn FnMut(ReadSoFar),
) -> Result<Scanned<F>, OpenError> {
    let mut chain = Chain {
        files: survey.files,
        config,
        start,
        picture: Picture::new(manifests),
        report: RecoveryReport::default(),
        last: None,
        held: None,
        proven: manifests
            .values()
            .map(|manifest| manifest.synced.batch())
            .max()
            .unwrap_or_default(),
        unproven: VecDeque::new(),
        ends: None,
    };
    chain.picture.counts_void = chain.config.has(Planted::CountVoid);
    let place = Place {
        segment: survey.next_segment,
        offset: BLOCK,
    };
    let is_gone = chain.files.is_empty() && chain.lose_all(place)?;
    let tail = chain.run(watch)?;
    chain.flush()?;
    let (mut picture, mut report) = (chain.picture, chain.report);
    let mut survey = Survey {
        files: chain.files,
        ..survey
    };
    if is_gone {
        survey.gone = Some(place.segment);
        survey.next_segment = place.segment.next();
    }
    sealed_tails(&mut picture, &survey, &mut report);
    never_used(&picture, &mut survey);
    headers(&mut picture, &survey, &mut report);
    Ok(Scanned {
        survey,
        picture,
        report,
        last: chain.last,
        tail,
        unproven: chain.unproven,
    })
}

/// The pass while it runs.
#[derive(Debug)]
pub(super) struct Chain<F> {
    pub(super) files: BTreeMap<SegmentNumber, Found<F>>,
    pub(super) config: LogConfig,
    pub(super) start: StartId,
    pub(super) picture: Picture,
    pub(super) report: RecoveryReport,
    pub(super) last: Option<Link>,
    /// The last batch: taken once the next one has said that it is the one that was followed.
    pub(super) held: Option<(Place, RawBatch)>,
    pub(super) proven: BatchNumber,
    pub(super) unproven: VecDeque<Unproven>,
    /// What the newest heads say of the ends of segments, once that was asked for.
    pub(super) ends: Option<BTreeMap<SegmentNumber, SegmentEnd>>,
}

impl<F: DiskFile> Chain<F> {
    /// Gives the place of the next batch.
    fn run(&mut self, watch: &mut dyn FnMut(ReadSoFar)) -> Result<Option<Place>, OpenError> {
        let Some(first) = self.files.keys().next().copied() else {
            return Ok(None);
        };
        let mut place = Place {
            segment: first,
            offset: BLOCK,
        };
        let of = self.files.len() as u64;
        let (mut segment, mut segments) = (None, 0);
        loop {
            if segment != Some(place.segment) {
                segments += u64::from(segment.is_some());
                segment = Some(place.segment);
                watch(ReadSoFar { segments, of });
            }
            if let Some(next) = self.pass_over(place)? {
                place = next;
                continue;
            }
            let seen = self.look(place);
            place = match seen {
                BatchSeen::Whole(batch) if self.follows(&batch.header, place)? => {
                    self.accept(place, batch)?
                }
                bad => match self.leave(place, bad)? {
                    Way::On(place) => place,
                    Way::End(tail) => return Ok(tail),
                },
            };
        }
    }

    pub(super) fn look(&mut self, place: Place) -> BatchSeen {
        match self.files.get_mut(&place.segment) {
            Some(found) => batch_at(&mut found.window, place.offset),
            None => BatchSeen::Nothing,
        }
    }

    /// Whether a header may stand behind the last batch.
    pub(super) fn follows(&self, header: &BatchHeader, place: Place) -> Result<bool, OpenError> {
        let next = self
            .last
            .is_none_or(|last| last.number.0.checked_add(1) == Some(header.number.get()));
        Ok(next && self.is_later(header, place)?)
    }

    /// Whether a header was written into this segment, by the start of the last batch or a later one, with a higher number.
    pub(super) fn is_later(&self, header: &BatchHeader, place: Place) -> Result<bool, OpenError> {
        let is_here = header.segment.get() == place.segment.0;
        if !is_here && !self.config.has(Planted::ReadRecycled) {
            return Ok(false);
        }
        if let Some(last) = &self.last {
            let stamp = last.stamp();
            let later = stamp.allows_start_of(header) || self.config.has(Planted::ReadVoid);
            if !later || header.number.get() <= stamp.number {
                return Ok(false);
            }
        }
        if header.start.get() >= self.start.counter {
            return Err(OpenError::Start {
                place,
                found: header.start.get(),
                given: self.start.counter,
            });
        }
        Ok(true)
    }

    /// Takes the next batch; gives the place behind it.
    fn accept(&mut self, place: Place, batch: RawBatch) -> Result<Place, OpenError> {
        let header = batch.header;
        let number = BatchNumber(header.number.get());
        let followed = self.last.filter(|last| last.number.next() == number);
        if let Some(last) = followed
            && last.crc.is_some_and(|crc| crc != header.previous_crc.get())
            && let Some((at, _)) = self.held.take()
        {
            // An older batch lay where the followed one was: what it says was never acknowledged.
            self.picture.doubt(
                at,
                at.segment,
                last.partitions | header.previous_partitions.get(),
            );
            self.damage(at, (last.number, last.number), DamageKind::Replaced);
        }
        self.flush()?;
        let bytes = header.file_bytes();
        let synced = BatchNumber(header.synced.get());
        self.prove(synced);
        self.unproven.push_back(Unproven {
            number,
            place,
            bytes,
        });
        self.last = Some(Link::of(&header));
        self.held = Some((place, batch));
        self.report.batches += 1;
        self.report.bytes += bytes;
        let segment = self.picture.segments.entry(place.segment).or_default();
        segment.last = number;
        (segment.last_at, segment.last_crc) = (place.offset, header.crc.get());
        Ok(Place {
            offset: place.offset + bytes,
            ..place
        })
    }

    pub(super) fn prove(&mut self, synced: BatchNumber) {
        self.proven = self.proven.max(synced);
        while self
            .unproven
            .front()
            .is_some_and(|first| first.number <= self.proven)
        {
            self.unproven.pop_front();
        }
    }

    /// Takes the records of the held batch.
    pub(super) fn flush(&mut self) -> Result<(), OpenError> {
        let Some((place, batch)) = self.held.take() else {
            return Ok(());
        };
        let tag = batch.header.tag.get();
        let mut makes_sense = true;
        let mut records = 0;
        for frame in Frames::new(&batch.body, tag, Check::Lengths) {
            records += 1;
            makes_sense &= match frame {
                Some(frame) => self.picture.take(frame, place)?,
                None => false,
            };
        }
        if !makes_sense || records != batch.header.records.get() {
            let number = BatchNumber(batch.header.number.get());
            self.picture
                .doubt(place, place.segment, batch.header.partitions.get());
            self.damage(place, (number, number), DamageKind::Malformed);
        }
        Ok(())
    }
}
