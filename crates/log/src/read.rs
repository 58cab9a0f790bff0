//! Reading entries back, one partition at a time, away from the writer.

use std::{collections::BTreeMap, fmt, io};

use bytes::{Bytes, BytesMut};
use courser_contract::{LogIndex, PartitionId, Term};
use zerocopy::FromBytes;

use crate::{
    disk::{Disk, is_passing},
    error::ReadError,
    format::{
        BATCH_BYTES_MAX, BLOCK_BYTES, KEPT_HEADER_BYTES, KeptHeader, Kind, PieceHeader, Seen,
    },
    ids::{Place, SegmentNumber},
    places::{Found, PartitionPlaces, STRETCH_BYTES},
    scan::{BatchSeen, Check, Frames, RawBatch, RawFrame, Stamp, Window, batch_at, header_at},
    summary::forget,
};

/// An entry that was read back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadEntry {
    /// Term of the leader that proposed it.
    pub term: Term,
    /// What it says.
    pub data: Bytes,
}

/// Bytes of an entry that a cleaner has moved (M41): one record, or some that follow each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptRecord {
    /// The entry's place in the partition's log.
    pub index: LogIndex,
    /// Byte of the entry at which they begin.
    pub byte: u32,
    /// They.
    pub data: Bytes,
}

/// Reads entries of one partition; in index order it reads each stretch of the log once.
#[derive(Debug)]
pub struct EntryReader<D: Disk> {
    partition: PartitionId,
    places: PartitionPlaces,
    /// Byte at which the last batch of each segment begins.
    ends: BTreeMap<SegmentNumber, u64>,
    files: Files<D>,
    /// What the batch that was read last has.
    held: Option<Held>,
    /// Batches with kept records that were read.
    kept: usize,
}

impl<D: Disk> EntryReader<D> {
    pub(crate) const fn new(
        disk: D,
        partition: PartitionId,
        places: PartitionPlaces,
        ends: BTreeMap<SegmentNumber, u64>,
    ) -> Self {
        Self {
            partition,
            places,
            ends,
            files: Files::new(disk),
            held: None,
            kept: 0,
        }
    }

    /// The entry at `index`. Cost: in index order one read a MiB; else one read of up to 256 KiB and a batch.
    ///
    /// # Errors
    /// When the log has no such entry, or what is there is not what was written, or the disk does not give it.
    pub fn read(&mut self, index: LogIndex) -> Result<ReadEntry, ReadError> {
        let partition = self.partition;
        match self.places.find(index) {
            None => Err(ReadError::Unknown { partition, index }),
            Some(Found::From(place)) => {
                let found = self.search(place, index);
                self.unless_in_vain(found)
            }
            Some(Found::Pieces(places)) => {
                let joined = join(&mut self.files, partition, index, places);
                joined.map_err(|(place, fault)| fault.of(place, partition, index))
            }
        }
    }

    /// The kept records of the next batch that has some, in the order of the log; `None` behind the last. What an entry has
    /// here it need not have by [`EntryReader::read`] any more. Each batch is read once; they follow each other in the file.
    ///
    /// # Errors
    /// When a batch is not what was written, or the disk does not give it; the next call goes on behind it.
    pub fn next_kept(&mut self) -> Option<Result<Vec<KeptRecord>, ReadError>> {
        let place = *self.places.kept().get(self.kept)?;
        self.kept += 1;
        let read = self.batch(place, LogIndex(0));
        Some(read.map(|(batch, check)| {
            let frames = frames_of(&batch, check, self.partition, Kind::Kept);
            frames.filter_map(|frame| kept_of(&frame)).collect()
        }))
    }

    /// Where an entry is not there, what was looked through behind its place says nothing of the next one, which may be before that.
    fn unless_in_vain<T>(&mut self, found: Result<T, ReadError>) -> Result<T, ReadError> {
        if found.is_err() {
            self.held = None;
        }
        found
    }

    /// Reads batches from `from` on until one has the entry.
    fn search(&mut self, from: Place, index: LogIndex) -> Result<ReadEntry, ReadError> {
        let mut place = from;
        // In order, the entry is in the batch that was read last or behind it.
        if let Some(held) = &self.held
            && held.place.segment == from.segment
            && held.place >= from
        {
            if let Some(found) = held.entry(index) {
                return Ok(found);
            }
            if !held.begins_above(index) {
                place = held.next;
            }
        }
        let mut fault = None;
        while place.offset < end_of(from) {
            let (batch, check) = match self.files.batch(place) {
                Ok(read) => read,
                // It may be in the batch that is damaged, or behind it.
                Err(found) => {
                    let next = match found.is_passing() {
                        true => None,
                        false => self.behind(place),
                    };
                    fault.get_or_insert((place, found));
                    match next {
                        Some(next) => place = next,
                        None => break,
                    }
                    continue;
                }
            };
            let held = Held::new(place, &batch, check, self.partition);
            place = held.next;
            let found = held.entry(index);
            let is_passed = fault.is_some() && held.begins_above(index);
            self.held = Some(held);
            if let Some(found) = found {
                return Ok(found);
            }
            if is_passed {
                break;
            }
        }
        Err(match fault {
            Some((place, fault)) => fault.of(place, self.partition, index),
            None => self.damaged(from, index),
        })
    }

    /// Where the next batch is behind one that is not to be had, if one can be told.
    fn behind(&mut self, bad: Place) -> Option<Place> {
        let until = self.ends.get(&bad.segment).copied()?;
        let known = self.places.runs_in(bad.segment);
        let known = known.map(|(.., offset)| offset);
        let before = known.filter(|offset| *offset < bad.offset).max();
        let first = BLOCK_BYTES as u64;
        let mut before = [before.unwrap_or(first), first].into_iter();
        before.find_map(|offset| {
            let from = Place { offset, ..bad };
            self.files.behind(from, bad.offset, until).ok()?
        })
    }

    /// Where [`EntryReader::look`] looks for the entry at `index`; none: the log does not have it.
    #[must_use]
    pub fn next_place(&self, index: LogIndex) -> Option<Place> {
        match self.places.find(index)? {
            Found::Pieces(places) => places.first().copied(),
            Found::From(from) => Some(self.next_from(from, index)),
        }
    }

    /// Where to look for an entry of a stretch: in the batch that was read last, behind it, or from the beginning.
    fn next_from(&self, from: Place, index: LogIndex) -> Place {
        match &self.held {
            Some(held) if held.place.segment != from.segment || held.place < from => from,
            Some(held) if held.has(index) => held.place,
            Some(held) if !held.begins_above(index) => held.next,
            Some(_) | None => from,
        }
    }

    /// What could not be read is not to be passed over by the next start: that is to see whether it is damaged.
    pub fn distrust(&self, error: &ReadError) {
        match error {
            ReadError::Damaged { place, .. } | ReadError::Disk { place, .. } => {
                forget(&self.files.disk, place.segment);
            }
            ReadError::Unknown { .. } => {}
        }
    }

    /// For readers of this log that go through it together.
    #[must_use]
    pub fn shared(&self) -> SharedBatches<D> {
        SharedBatches {
            files: Files::new(self.files.disk.clone()),
            last: None,
        }
    }

    /// The entry at `index`, if it is in the batch at [`EntryReader::next_place`]; else the next call looks into the next one. For several
    /// readers that go through the log together, he with the lowest place first: each batch is read once for all of them. Entries come
    /// in ascending order.
    ///
    /// # Errors
    /// As [`EntryReader::read`].
    pub fn look(
        &mut self,
        index: LogIndex,
        shared: &mut SharedBatches<D>,
    ) -> Result<Option<ReadEntry>, ReadError> {
        let found = self.look_into(index, shared);
        self.unless_in_vain(found)
    }

    fn look_into(
        &mut self,
        index: LogIndex,
        shared: &mut SharedBatches<D>,
    ) -> Result<Option<ReadEntry>, ReadError> {
        let partition = self.partition;
        let from = match self.places.find(index) {
            None => return Err(ReadError::Unknown { partition, index }),
            Some(Found::Pieces(_)) => return self.read(index).map(Some),
            Some(Found::From(from)) => from,
        };
        let place = self.next_from(from, index);
        if let Some(held) = self.held.as_ref().filter(|held| held.place == place) {
            return Ok(held.entry(index));
        }
        if place.offset >= end_of(from) {
            return Err(self.damaged(from, index));
        }
        let (batch, check) = match shared.batch(place) {
            Ok(read) => read,
            Err(fault) if fault.is_passing() => return Err(fault.of(place, partition, index)),
            // It may be behind that.
            Err(_) => return self.read(index).map(Some),
        };
        let held = Held::new(place, &batch, check, partition);
        if held.begins_above(index) {
            return Err(self.damaged(from, index));
        }
        let found = held.entry(index);
        self.held = Some(held);
        Ok(found)
    }

    fn batch(&mut self, place: Place, index: LogIndex) -> Result<(RawBatch, Check), ReadError> {
        let read = self.files.batch(place);
        read.map_err(|fault| fault.of(place, self.partition, index))
    }

    const fn damaged(&self, place: Place, index: LogIndex) -> ReadError {
        ReadError::Damaged {
            place,
            partition: self.partition,
            index,
        }
    }
}

/// An entry of a stretch begins before.
const fn end_of(from: Place) -> u64 {
    from.offset + STRETCH_BYTES + BATCH_BYTES_MAX as u64
}

/// Batches that several readers go through together; see [`EntryReader::look`].
#[derive(Debug)]
pub struct SharedBatches<D: Disk> {
    files: Files<D>,
    last: Option<(Place, RawBatch, Check)>,
}

impl<D: Disk> SharedBatches<D> {
    /// Bytes that were read.
    #[must_use]
    pub fn read_bytes(&self) -> u64 {
        self.files.read_bytes()
    }

    fn batch(&mut self, place: Place) -> Result<(RawBatch, Check), BatchFault> {
        if let Some((_, batch, check)) = self.last.as_ref().filter(|(at, ..)| *at == place) {
            return Ok((batch.clone(), *check));
        }
        // Its memory serves again.
        self.last = None;
        let (batch, check) = self.files.batch(place)?;
        self.last = Some((place, batch.clone(), check));
        Ok((batch, check))
    }
}

/// Why a batch is not to be had.
#[derive(Debug)]
pub(crate) enum BatchFault {
    /// It is not what was written.
    Damaged,
    /// The disk does not give it.
    Disk(io::Error),
}

impl BatchFault {
    /// Whether another try may give it, see [`is_passing`].
    pub(crate) fn is_passing(&self) -> bool {
        match self {
            Self::Damaged => false,
            Self::Disk(source) => is_passing(source),
        }
    }

    /// The same for somebody else.
    pub(crate) fn again(&self) -> Self {
        match self {
            Self::Damaged => Self::Damaged,
            Self::Disk(source) => Self::Disk(io::Error::new(source.kind(), source.to_string())),
        }
    }

    /// What it means to whoever wants an entry.
    pub(crate) fn of(self, place: Place, partition: PartitionId, index: LogIndex) -> ReadError {
        match self {
            Self::Damaged => ReadError::Damaged {
                place,
                partition,
                index,
            },
            Self::Disk(source) => ReadError::Disk { place, source },
        }
    }
}

/// The segments of a disk, the one that was read last open.
pub(crate) struct Files<D: Disk> {
    disk: D,
    open: Option<(SegmentNumber, Window<D::File>)>,
    /// Bytes of one read, where it is not the usual.
    ahead: Option<u64>,
    /// Bytes read of files that are closed.
    read_bytes: u64,
}

impl<D: Disk> fmt::Debug for Files<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let open = self.open.as_ref().map(|(segment, _)| segment);
        f.debug_struct("Files")
            .field("open", &open)
            .finish_non_exhaustive()
    }
}

impl<D: Disk> Files<D> {
    pub(crate) const fn new(disk: D) -> Self {
        Self {
            disk,
            open: None,
            ahead: None,
            read_bytes: 0,
        }
    }

    /// See [`Window::set_ahead`].
    pub(crate) const fn set_ahead(&mut self, bytes: u64) {
        self.ahead = Some(bytes);
        if let Some((_, window)) = &mut self.open {
            window.set_ahead(bytes);
        }
    }

    /// Bytes that were read.
    pub(crate) fn read_bytes(&self) -> u64 {
        self.read_bytes + self.open.as_ref().map_or(0, |(_, it)| it.read_bytes)
    }

    /// Whether a batch is here without another read.
    pub(crate) fn holds(&self, place: Place) -> bool {
        let open = self.open.as_ref();
        open.is_some_and(|(of, it)| *of == place.segment && it.holds_batch(place.offset))
    }

    /// Closes what is open: the next look is at the disk as it is then.
    pub(crate) fn close(&mut self) {
        self.read_bytes = self.read_bytes();
        self.open = None;
    }

    /// A batch, and how its records are to be looked at: of a damaged one those count whose own checksums are right.
    pub(crate) fn batch(&mut self, place: Place) -> Result<(RawBatch, Check), BatchFault> {
        let window = self.window(place).map_err(BatchFault::Disk)?;
        match batch_at(window, place.offset) {
            BatchSeen::Whole(batch) if batch.header.segment.get() == place.segment.0 => {
                Ok((batch, Check::Lengths))
            }
            BatchSeen::BadBody(header, body) if header.segment.get() == place.segment.0 => {
                Ok((RawBatch { header, body }, Check::Checksums))
            }
            BatchSeen::UnreadableBody(header, _) if header.segment.get() == place.segment.0 => {
                let body = Bytes::new();
                Ok((RawBatch { header, body }, Check::Checksums))
            }
            BatchSeen::Unreadable(source) => Err(BatchFault::Disk(source)),
            BatchSeen::Whole(_)
            | BatchSeen::Nothing
            | BatchSeen::Other(_)
            | BatchSeen::BadBody(..)
            | BatchSeen::UnreadableBody(..) => Err(BatchFault::Damaged),
        }
    }

    /// Where the next batch is behind one that is not to be had: at the first intact header behind `bad` and at or before `until` that may
    /// follow what lies before. It reads on from a batch at or before `bad`, so that what lies in a batch, and may look like a header, is
    /// not taken for one. None: there is none, or nothing before it is intact that says what may follow.
    ///
    /// A start finds by the same rule what is behind a bad place (M44). It also knows by later segments what an earlier start wrote that was cut: here
    /// `until` keeps that out, since it lies behind all batches of its segment that count.
    ///
    /// An error is passing, see [`is_passing`].
    pub(crate) fn behind(
        &mut self,
        from: Place,
        bad: u64,
        until: u64,
    ) -> Result<Option<Place>, BatchFault> {
        let window = match self.window(from) {
            Ok(window) => window,
            Err(error) if is_passing(&error) => return Err(BatchFault::Disk(error)),
            Err(_) => return Ok(None),
        };
        let mut last: Option<Stamp> = None;
        let mut place = from;
        while place.offset <= until {
            let header = match header_at(window, place.offset) {
                Ok(None) => break,
                Ok(Some(Seen::Header(header))) => Some(header),
                Ok(Some(Seen::Nothing | Seen::Other(_))) => None,
                Err(error) if is_passing(&error) => return Err(BatchFault::Disk(error)),
                Err(_) => None,
            };
            let follows = header.filter(|header| {
                header.segment.get() == place.segment.0
                    && last.is_none_or(|last| last.allows(header))
            });
            let Some(header) = follows else {
                place.offset += BLOCK_BYTES as u64;
                continue;
            };
            if place.offset > bad {
                return Ok(last.map(|_| place));
            }
            last = Some(Stamp::of(&header));
            place.offset += header.file_bytes();
        }
        Ok(None)
    }

    fn window(&mut self, place: Place) -> io::Result<&mut Window<D::File>> {
        let is_open = self.open.as_ref().is_some_and(|(segment, window)| {
            *segment == place.segment && place.offset < window.len()
        });
        if !is_open {
            self.close();
            let mut window = Window::new(self.disk.open(&place.segment.file_name())?)?;
            if let Some(bytes) = self.ahead {
                window.set_ahead(bytes);
            }
            self.open = Some((place.segment, window));
        }
        let (_, window) = self.open.as_mut().expect("it was opened above");
        Ok(window)
    }
}

/// An entry out of its pieces; or the place of the first one that is not to be had.
pub(crate) fn join<D: Disk>(
    files: &mut Files<D>,
    partition: PartitionId,
    index: LogIndex,
    places: &[Place],
) -> Result<ReadEntry, (Place, BatchFault)> {
    let mut data = BytesMut::new();
    let mut term = Term(0);
    for place in places {
        let (batch, check) = files.batch(*place).map_err(|fault| (*place, fault))?;
        let piece = frames_of(&batch, check, partition, Kind::Piece)
            .filter(|piece| piece.index == index)
            .last();
        let head = piece
            .as_ref()
            .and_then(|piece| PieceHeader::read_from_prefix(&piece.data).ok());
        let (Some(piece), Some((head, part))) = (&piece, head) else {
            return Err((*place, BatchFault::Damaged));
        };
        if head.offset.get() != data.len() as u64 {
            return Err((*place, BatchFault::Damaged));
        }
        data.extend_from_slice(part);
        term = piece.term;
    }
    Ok(ReadEntry {
        term,
        data: data.freeze(),
    })
}

/// The partition's entries of one batch, ascending.
#[derive(Debug)]
struct Held {
    place: Place,
    /// Behind it.
    next: Place,
    entries: Vec<(LogIndex, ReadEntry)>,
}

impl Held {
    fn new(place: Place, batch: &RawBatch, check: Check, partition: PartitionId) -> Self {
        let mut entries: Vec<(LogIndex, ReadEntry)> = Vec::new();
        for frame in frames_of(batch, check, partition, Kind::Entry) {
            // One of the same index or a higher one before it was replaced.
            while entries
                .last()
                .is_some_and(|(index, _)| *index >= frame.index)
            {
                entries.pop();
            }
            let entry = ReadEntry {
                term: frame.term,
                data: frame.data,
            };
            entries.push((frame.index, entry));
        }
        let next = Place {
            offset: place.offset + batch.header.file_bytes(),
            ..place
        };
        Self {
            place,
            next,
            entries,
        }
    }

    fn has(&self, index: LogIndex) -> bool {
        let found = self.entries.binary_search_by_key(&index, |(at, _)| *at);
        found.is_ok()
    }

    fn entry(&self, index: LogIndex) -> Option<ReadEntry> {
        let found = self.entries.binary_search_by_key(&index, |(at, _)| *at);
        found.ok().map(|at| self.entries[at].1.clone())
    }

    fn begins_above(&self, index: LogIndex) -> bool {
        self.entries
            .first()
            .is_some_and(|(first, _)| *first > index)
    }
}

/// What a frame of kept bytes says.
pub(crate) fn kept_of(frame: &RawFrame) -> Option<KeptRecord> {
    let (head, _) = KeptHeader::read_from_prefix(&frame.data).ok()?;
    Some(KeptRecord {
        index: frame.index,
        byte: head.byte.get(),
        data: frame.data.slice(KEPT_HEADER_BYTES..),
    })
}

fn frames_of(
    batch: &RawBatch,
    check: Check,
    partition: PartitionId,
    kind: Kind,
) -> impl Iterator<Item = RawFrame> {
    Frames::new(&batch.body, batch.header.tag.get(), check)
        .flatten()
        .filter(move |frame| frame.kind == kind.number() && frame.partition == partition)
}
