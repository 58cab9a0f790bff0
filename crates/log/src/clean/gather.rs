//! What is needed of one segment, gathered out of its batches.

use std::collections::VecDeque;

use bytes::Bytes;
use courser_contract::{LogIndex, Needs, PartitionId, Term};

use super::{
    obstacle::{Obstacle, Trouble},
    survey::Source,
    wants::{Address, Pass},
};
use crate::{
    batch::frame_bytes,
    disk::DiskFile,
    format::{BLOCK_BYTES, FRAME_ALIGN, KEPT_HEADER_BYTES, Kind},
    ids::BatchNumber,
    read::kept_of,
    record::Record,
    scan::{BatchSeen, Check, Frames, RawBatch, RawFrame, Window, batch_at},
};

/// Bytes of a file that one step reads, and a batch more.
const STEP_BYTES: u64 = 256 << 10;
/// So much is gathered before it is sorted and written.
const GATHERED_MAX: usize = 16 << 20;
/// Bytes between two records that are kept as one: less than what a frame of its own takes.
const GAP_MAX: u32 = 40;

/// A record that a checkpoint needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Wanted {
    pub(super) partition: PartitionId,
    pub(super) index: LogIndex,
    pub(super) byte: u32,
    /// Place among all that is wanted: by stream.
    pub(super) order: u64,
    pub(super) is_taken: bool,
}

impl Wanted {
    /// Where it is in its partition.
    pub(super) const fn address(&self) -> Address {
        (self.partition, self.index, self.byte)
    }
}

/// Bytes that are moved together.
#[derive(Clone, Copy, Debug)]
struct Extent {
    order: u64,
    partition: PartitionId,
    term: Term,
    index: LogIndex,
    byte: u32,
    /// Where they are in the buffer.
    at: usize,
    len: usize,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Gathering<F> {
    pub(super) source: Source,
    window: Window<F>,
    offset: u64,
    wanted: Vec<Wanted>,
    /// Bytes that are kept as one at most.
    kept_max: usize,
    /// Records that this pass and later ones move, about.
    left: u64,
    /// Where the next pass begins.
    pub(super) next: Option<Address>,
    buffer: Vec<u8>,
    extents: Vec<Extent>,
    /// Sorted, on their way out.
    pub(super) out: VecDeque<Record>,
    is_read: bool,
    /// Something of it is on its way into the log.
    pub(super) is_begun: bool,
    /// It is not the first pass over the segment.
    pub(super) is_later: bool,
    /// Bytes and records gathered so far, and those that are kept as one.
    bytes: u64,
    records: u64,
    kept: u64,
    /// Bytes in which records of later passes are.
    later_max: u64,
    /// Nothing is gathered, only weighed.
    pub(super) is_weighing: bool,
    /// Bytes that are needed of the segment, if they were weighed before.
    pub(super) weighed: Option<u64>,
}

/// How far a step has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gathered {
    /// There is more to read.
    More,
    /// As much as memory may hold, or all.
    Full,
}

impl<F: DiskFile> Gathering<F> {
    /// Of what one pass moves of a segment, at most `kept_max` bytes as one.
    pub(super) fn new(source: Source, window: Window<F>, pass: Pass, kept_max: usize) -> Self {
        let Pass { wanted, left, next } = pass;
        Self {
            source,
            window,
            offset: BLOCK_BYTES as u64,
            wanted,
            kept_max,
            left,
            next,
            buffer: Vec::new(),
            extents: Vec::new(),
            out: VecDeque::new(),
            is_read: false,
            is_begun: false,
            is_later: false,
            bytes: 0,
            records: 0,
            kept: 0,
            later_max: 0,
            is_weighing: false,
            weighed: None,
        }
    }

    /// Bytes of all that this pass and later ones move: as they were weighed before; else of what was read so far, and of the rest if it is
    /// like that, but no more than there is to read.
    pub(super) fn live(&self) -> u64 {
        if let Some(weighed) = self.weighed {
            return weighed;
        }
        let (rest, rest_max) = match self.is_read {
            true => (self.left.saturating_sub(self.wanted.len() as u64), 0),
            false => (
                self.left.saturating_sub(self.records),
                self.source.bytes.saturating_sub(self.offset),
            ),
        };
        let of_rest = |so_far: u64| {
            let of_rest = u128::from(so_far) * u128::from(rest) / u128::from(self.records.max(1));
            u64::try_from(of_rest).unwrap_or(u64::MAX)
        };
        let records = self.bytes + of_rest(self.bytes).min(rest_max + self.later_max);
        records
            + self
                .frames_bytes()
                .saturating_add(of_rest(self.frames_bytes()))
    }

    /// What surrounds the kept records gathered so far.
    fn frames_bytes(&self) -> u64 {
        self.kept * frame_bytes(KEPT_HEADER_BYTES + FRAME_ALIGN) as u64
    }

    /// Mean bytes of a record, if there is one.
    pub(super) fn mean(&self) -> Option<u64> {
        (self.bytes + self.frames_bytes()).checked_div(self.records)
    }

    /// Whether the log would have no room in the middle of what this pass and later ones move.
    pub(super) fn lacks_room(&self) -> bool {
        let needed = u128::from(self.live());
        // Headers of batches, and what fills their last blocks.
        needed + needed / 16 > u128::from(self.source.room)
    }

    /// What is left to be read is only weighed, and what was gathered forgotten.
    pub(super) fn weigh(&mut self) {
        self.is_weighing = true;
        (self.buffer, self.extents) = (Vec::new(), Vec::new());
    }

    /// Bytes of the file that were gone through.
    pub(super) const fn read_bytes(&self) -> u64 {
        self.offset
    }

    /// Whether all of the segment is read.
    pub(super) const fn is_read(&self) -> bool {
        self.is_read
    }

    /// Reads on.
    pub(super) fn step(&mut self, needs: &impl Needs) -> Result<Gathered, Obstacle> {
        let end = self.offset + STEP_BYTES;
        while !self.is_read && self.offset < end && self.buffer.len() < GATHERED_MAX {
            let batch = match batch_at(&mut self.window, self.offset) {
                BatchSeen::Whole(batch) if batch.header.segment.get() == self.source.segment.0 => {
                    batch
                }
                BatchSeen::Unreadable(error) | BatchSeen::UnreadableBody(_, error) => {
                    return Err(Obstacle::Trouble(Trouble::from(error)));
                }
                BatchSeen::Whole(_)
                | BatchSeen::Nothing
                | BatchSeen::Other(_)
                | BatchSeen::BadBody(..) => return Err("a batch is not what was written".into()),
            };
            let number = BatchNumber(batch.header.number.get());
            self.batch(&batch, needs)?;
            self.offset += batch.header.file_bytes();
            self.is_read = number >= self.source.last;
        }
        if self.is_read {
            self.check()?;
        }
        if self.is_read || self.buffer.len() >= GATHERED_MAX {
            return Ok(Gathered::Full);
        }
        Ok(Gathered::More)
    }

    /// Takes what is wanted of a batch. Of two entries of one index in it the later one counts.
    fn batch(&mut self, batch: &RawBatch, needs: &impl Needs) -> Result<(), Obstacle> {
        let tag = batch.header.tag.get();
        let frames: Option<Vec<RawFrame>> = Frames::new(&batch.body, tag, Check::Lengths).collect();
        for frame in frames
            .ok_or("a record is not what was written")?
            .iter()
            .rev()
        {
            match frame.known() {
                Some(Kind::Entry)
                    if self
                        .source
                        .counts(frame.partition, frame.index, self.offset) =>
                {
                    self.take(frame, 0, &frame.data, needs)?;
                }
                Some(Kind::Kept) => {
                    let kept = kept_of(frame).ok_or("a kept record has no head")?;
                    self.take(frame, kept.byte, &kept.data, needs)?;
                }
                Some(
                    Kind::Entry
                    | Kind::HardState
                    | Kind::Checkpoint
                    | Kind::Piece
                    | Kind::Sealed
                    | Kind::Cleaned
                    | Kind::Last,
                )
                | None => {}
            }
        }
        Ok(())
    }

    /// Takes what is wanted of some bytes of an entry, which begin at `base` of it.
    fn take(
        &mut self,
        frame: &RawFrame,
        base: u32,
        bytes: &Bytes,
        needs: &impl Needs,
    ) -> Result<(), Obstacle> {
        let key = (frame.partition, frame.index, base);
        let end = (key.0, key.1, base.saturating_add(bytes.len() as u32));
        if self.next.is_some_and(|next| end > next) {
            self.later_max += bytes.len() as u64;
        }
        let from = self
            .wanted
            .partition_point(|it| (it.partition, it.index, it.byte) < key);
        let mut before: Option<(u64, u32)> = None;
        for place in from..self.wanted.len() {
            let wanted = &mut self.wanted[place];
            if (wanted.partition, wanted.index) != (frame.partition, frame.index) {
                break;
            }
            let at = (wanted.byte - base) as usize;
            if at >= bytes.len() {
                break;
            }
            if std::mem::replace(&mut wanted.is_taken, true) {
                continue;
            }
            let len = needs.record_bytes(bytes, at as u32);
            let record = len.and_then(|len| bytes.get(at..at + len));
            let record = record.ok_or("an entry has no record where a checkpoint names one")?;
            if record.len() > self.kept_max {
                return Err(Obstacle::TooLarge(frame.partition, frame.index));
            }
            let bytes_before = before
                .filter(|(order, until)| {
                    let near = *until..=until.saturating_add(GAP_MAX);
                    wanted.order == order + 1 && near.contains(&wanted.byte)
                })
                .map(|(_, until)| &bytes[(until - base) as usize..at]);
            let wanted = *wanted;
            let end = wanted.byte.saturating_add(record.len() as u32);
            self.put(wanted, frame.term, bytes_before, record);
            before = Some((wanted.order, end));
        }
        Ok(())
    }

    /// Adds a record; to the extent before it, with what lies between them, if there is something that does and a batch holds both.
    fn put(&mut self, wanted: Wanted, term: Term, between: Option<&[u8]>, record: &[u8]) {
        let before = self.extents.last().map_or(0, |extent| extent.len);
        let between = between.filter(|it| before + it.len() + record.len() <= self.kept_max);
        if self.is_weighing {
            self.records += 1;
            self.bytes += (between.map_or(0, <[u8]>::len) + record.len()) as u64;
            self.kept += u64::from(between.is_none());
            return;
        }
        let at = self.buffer.len();
        self.buffer.extend_from_slice(between.unwrap_or_default());
        self.buffer.extend_from_slice(record);
        let len = self.buffer.len() - at;
        self.records += 1;
        self.bytes += len as u64;
        match self.extents.last_mut() {
            Some(extent) if between.is_some() => extent.len += len,
            Some(_) | None => {
                self.kept += 1;
                self.extents.push(Extent {
                    order: wanted.order,
                    partition: wanted.partition,
                    term,
                    index: wanted.index,
                    byte: wanted.byte,
                    at,
                    len,
                });
            }
        }
    }

    /// All entries that begin in the segment have been there.
    fn check(&self) -> Result<(), &'static str> {
        let mut missing = self.wanted.iter().filter(|it| !it.is_taken);
        match missing.find(|it| self.source.counts(it.partition, it.index, u64::MAX)) {
            Some(_) => Err("an entry is missing"),
            None => Ok(()),
        }
    }

    /// What is gathered goes out, sorted by stream.
    pub(super) fn flush(&mut self) {
        let buffer = Bytes::from(std::mem::take(&mut self.buffer));
        let mut extents = std::mem::take(&mut self.extents);
        extents.sort_unstable_by_key(|extent| extent.order);
        self.out.extend(extents.into_iter().map(|it| Record::Kept {
            partition: it.partition,
            term: it.term,
            index: it.index,
            byte: it.byte,
            data: buffer.slice(it.at..it.at + it.len),
        }));
    }
}
