//! A batch while it gathers: what is written with one `pwritev` and made durable by one sync.
//!
//! All of it stands in one buffer that is used again and begins at a multiple of the block size in memory, so that a disk may
//! take it as it is, without a copy through the page cache. An
//! entry that is larger than a batch can be goes ahead as pieces: the first with the batch that it was pushed into, the
//! others with those that [`Batch::clear`] begins, until [`Batch::is_unfinished`] says no.

use bytes::Bytes;
use courser_contract::{LogIndex, PartitionId, Term};
use zerocopy::{
    FromZeros, IntoBytes,
    little_endian::{U16, U32, U64},
};

use crate::{
    format::{
        BATCH_HEADER_BYTES, BLOCK_BYTES, BatchHeader, FRAME_ALIGN, FRAME_BYTES,
        FRAME_FLAG_OPTIONAL, Frame, Header, KEPT_HEADER_BYTES, KeptHeader, Kind,
        PIECE_HEADER_BYTES, PieceHeader, ShortFrame, frame_crc, frame_seed, padded, partition_bit,
    },
    ids::{BatchNumber, SegmentNumber, StartId},
    record::{CheckpointAt, HardState, Record, SegmentEnd},
};

mod aligned;
#[cfg(test)]
mod tests;

use self::aligned::Aligned;

/// Room that must be left for the first piece of a large entry, unless the batch is empty.
const PIECE_BYTES_MIN: usize = 64 << 10;

/// What became of a pushed record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a record that did not fit must be pushed into the next batch"]
pub enum Push {
    /// It is in the batch; of a large entry, its beginning.
    Taken,
    /// There is no room: write the batch, clear it, push again.
    Full,
}

/// Entries of one partition that follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) partition: PartitionId,
    pub(crate) first: LogIndex,
    pub(crate) last: LogIndex,
}

/// A piece of a large entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PieceRef {
    pub(crate) partition: PartitionId,
    pub(crate) index: LogIndex,
    pub(crate) is_last: bool,
}

/// What a batch changes in the log's own picture once it is written, in the order of its records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    Entries(Run),
    Piece(PieceRef),
    HardState(PartitionId, HardState),
    /// Records of these entries were kept; not that each of them has one.
    Kept(Run),
    Cleaned(SegmentNumber),
}

/// See the module.
#[derive(Debug)]
pub struct Batch {
    limit: usize,
    /// What this one may take, until it is cleared: `limit` at most.
    most: usize,
    tags: Tags,
    seed: u32,
    /// Header and frames.
    buffer: Aligned,
    records: u32,
    partitions: u64,
    changes: Vec<Change>,
    kept: KeptCount,
    carry: Option<Carry>,
}

/// What of a batch a cleaner has moved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct KeptCount {
    pub(crate) records: u64,
    /// Bytes of their frames.
    pub(crate) bytes: u64,
}

/// The rest of a large entry.
#[derive(Debug)]
struct Carry {
    partition: PartitionId,
    term: Term,
    index: LogIndex,
    data: Bytes,
    /// Bytes that are in batches already.
    offset: usize,
}

/// Tags of the batches of one [`Batch`], none of them used twice in a start.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tags {
    word: u64,
    next: u64,
}

impl Tags {
    /// Those of the `nth` batch object of a start.
    pub(crate) const fn new(start: StartId, nth: u32) -> Self {
        Self {
            word: start.word.rotate_left(32) ^ start.counter as u64,
            next: (nth as u64) << 48,
        }
    }

    const fn tag(self) -> u64 {
        self.word.wrapping_add(self.next)
    }
}

/// What the header of a batch says besides what the batch itself knows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seal {
    pub(crate) flags: u16,
    pub(crate) number: BatchNumber,
    pub(crate) segment: SegmentNumber,
    pub(crate) synced: BatchNumber,
    pub(crate) start: StartId,
    pub(crate) previous_partitions: u64,
    pub(crate) previous_crc: u32,
}

impl Batch {
    /// An empty batch of at most `limit` bytes of file.
    pub(crate) fn new(limit: usize, tags: Tags) -> Self {
        assert!(
            limit >= 2 * BLOCK_BYTES,
            "a batch has room for more than its header"
        );
        let mut batch = Self {
            limit,
            most: limit,
            tags,
            seed: 0,
            buffer: Aligned::new(limit),
            records: 0,
            partitions: 0,
            changes: Vec::new(),
            kept: KeptCount::default(),
            carry: None,
        };
        batch.reset();
        batch
    }

    /// Adds a record; its data is copied.
    ///
    /// A record that did not fit changes nothing. While a large entry is unfinished nothing else fits behind it, so that
    /// records keep their order.
    pub fn push(&mut self, record: &Record) -> Push {
        if self.carry.is_some() {
            return Push::Full;
        }
        match record {
            Record::Entry {
                partition,
                term,
                index,
                data,
            } => self.push_entry(*partition, *term, *index, data),
            Record::HardState {
                partition,
                term,
                vote,
                commit,
            } => {
                let state = HardState {
                    term: *term,
                    vote: *vote,
                    commit: *commit,
                };
                self.push_hard_state(*partition, state)
            }
            Record::Kept {
                partition,
                term,
                index,
                byte,
                data,
            } => self.push_kept(*partition, (*term, *index), *byte, data),
            Record::Cleaned { segment } => {
                let at = (Term(segment.0), LogIndex(0));
                let pushed = self.push_small(Kind::Cleaned, PartitionId(0), at, &[]);
                if pushed == Push::Taken {
                    self.changes.push(Change::Cleaned(*segment));
                }
                pushed
            }
        }
    }

    /// Whether nothing is in it that must be written.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.records == 0
    }

    /// Whether the rest of a large entry must follow in the next batch: what was pushed is durable only with that one. No other
    /// batch is written in between.
    #[must_use]
    pub const fn is_unfinished(&self) -> bool {
        self.carry.is_some()
    }

    /// Bytes that the batch takes in the file, whole blocks.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        padded(self.buffer.len() as u64) as usize
    }

    /// Records in it.
    #[must_use]
    pub const fn records(&self) -> u32 {
        self.records
    }

    /// Begins the next batch in the same buffers; with the next piece of an unfinished entry when there is one.
    pub fn clear(&mut self) {
        self.tags.next += 1;
        self.reset();
        if self.carry.is_some() {
            self.push_piece();
        }
    }

    /// Forgets what was pushed since it was cleared, to be pushed again as far as it fits into `bytes` of file: a log without room for more
    /// ([`crate::Log::left_in_segment`]). Not for one that begins with a piece.
    pub fn restart(&mut self, bytes: usize) {
        self.carry = None;
        self.reset();
        self.most = bytes.clamp(BLOCK_BYTES, self.limit);
    }

    fn reset(&mut self) {
        self.most = self.limit;
        self.seed = frame_seed(self.tags.tag());
        self.buffer.clear();
        self.buffer.zeros(BATCH_HEADER_BYTES);
        self.records = 0;
        self.partitions = 0;
        self.changes.clear();
        self.kept = KeptCount::default();
    }

    const fn room(&self) -> usize {
        self.most - self.buffer.len()
    }

    fn push_entry(
        &mut self,
        partition: PartitionId,
        term: Term,
        index: LogIndex,
        data: &Bytes,
    ) -> Push {
        let len = frame_bytes(data.len());
        if len > self.room() {
            let ever = len <= self.limit - BATCH_HEADER_BYTES;
            let begin = self.is_empty() || self.room() >= PIECE_BYTES_MIN;
            if ever || !begin || self.most < self.limit {
                return Push::Full;
            }
            self.carry = Some(Carry {
                partition,
                term,
                index,
                data: data.clone(),
                offset: 0,
            });
            self.push_piece();
            return Push::Taken;
        }
        self.put_entry(partition, (term, index), data);
        self.note_entry(partition, index);
        Push::Taken
    }

    /// With the short frame where its numbers fit: most entries are small, and there is one for each partition and turn.
    fn put_entry(&mut self, partition: PartitionId, at: (Term, LogIndex), data: &[u8]) {
        match ShortFrame::of(partition.0, (at.0.0, at.1.0), data.len()) {
            Some(mut frame) => {
                frame.crc = U32::new(frame_crc(self.seed, frame.as_bytes(), &[], data));
                self.buffer.extend(frame.as_bytes());
                self.buffer.extend(data);
                self.records += 1;
                self.partitions |= partition_bit(partition.0);
            }
            None => {
                let frame = self.frame(Kind::Entry, partition, at, data.len());
                self.put(frame, &[], data);
            }
        }
    }

    fn note_entry(&mut self, partition: PartitionId, index: LogIndex) {
        if let Some(Change::Entries(run)) = self.changes.last_mut()
            && run.partition == partition
            && run.last.0 + 1 == index.0
        {
            run.last = index;
            return;
        }
        self.changes.push(Change::Entries(Run {
            partition,
            first: index,
            last: index,
        }));
    }

    /// As much of the unfinished entry as fits.
    fn push_piece(&mut self) {
        let Some(carry) = self.carry.take() else {
            return;
        };
        let room = self.room() - FRAME_BYTES - PIECE_HEADER_BYTES - FRAME_ALIGN;
        let end = carry.data.len().min(carry.offset + room);
        let part = carry.data.slice(carry.offset..end);
        let mut head = PieceHeader::new_zeroed();
        head.offset = U64::new(carry.offset as u64);
        head.total = U64::new(carry.data.len() as u64);
        let bytes = PIECE_HEADER_BYTES + part.len();
        let at = (carry.term, carry.index);
        let frame = self.frame(Kind::Piece, carry.partition, at, bytes);
        self.put(frame, head.as_bytes(), &part);
        let is_last = end == carry.data.len();
        self.changes.push(Change::Piece(PieceRef {
            partition: carry.partition,
            index: carry.index,
            is_last,
        }));
        if !is_last {
            self.carry = Some(Carry {
                offset: end,
                ..carry
            });
        }
    }

    pub(crate) fn push_hard_state(&mut self, partition: PartitionId, state: HardState) -> Push {
        let vote = state.vote.to_le_bytes();
        let at = (state.term, state.commit);
        let pushed = self.push_small(Kind::HardState, partition, at, &vote);
        if pushed == Push::Taken {
            self.changes.push(Change::HardState(partition, state));
        }
        pushed
    }

    /// It fits an empty batch, whatever the size of the batch that it comes from: the cleaner sees to that ([`kept_bytes_max`]).
    fn push_kept(
        &mut self,
        partition: PartitionId,
        at: (Term, LogIndex),
        byte: u32,
        data: &[u8],
    ) -> Push {
        // `Full` for ever would hold up all that waits behind it.
        assert!(
            data.len() <= kept_bytes_max(self.limit),
            "M45: bytes that are kept together fit an empty batch"
        );
        let bytes = KEPT_HEADER_BYTES + data.len();
        if frame_bytes(bytes) > self.room() {
            return Push::Full;
        }
        let mut head = KeptHeader::new_zeroed();
        head.byte = U32::new(byte);
        let frame = self.frame(Kind::Kept, partition, at, bytes);
        self.put(frame, head.as_bytes(), data);
        self.kept.records += 1;
        self.kept.bytes += frame_bytes(bytes) as u64;
        let (_, index) = at;
        match self.changes.last_mut() {
            Some(Change::Kept(run))
                if run.partition == partition
                    && run.first <= index
                    && index.0 <= run.last.0 + 1 =>
            {
                run.last = run.last.max(index);
            }
            Some(_) | None => self.changes.push(Change::Kept(Run {
                partition,
                first: index,
                last: index,
            })),
        }
        Push::Taken
    }

    pub(crate) fn push_checkpoint(&mut self, partition: PartitionId, at: CheckpointAt) -> Push {
        self.push_small(Kind::Checkpoint, partition, (at.term, at.index), &[])
    }

    /// Says that no entry of a partition above `last` was written before. Programs that do not know it do without.
    pub(crate) fn push_last(&mut self, partition: PartitionId, last: LogIndex) -> Push {
        if frame_bytes(0) > self.room() {
            return Push::Full;
        }
        let mut frame = self.frame(Kind::Last, partition, (Term(0), last), 0);
        frame.flags = FRAME_FLAG_OPTIONAL;
        self.put(frame, &[], &[]);
        Push::Taken
    }

    /// Says with which batch an older segment ended.
    pub(crate) fn push_sealed(&mut self, segment: SegmentNumber, end: SegmentEnd) -> Push {
        let at = (Term(segment.0), LogIndex(end.batch.0));
        let crc = end.crc.map(u32::to_le_bytes);
        let data = crc.as_ref().map_or(&[][..], |crc| crc);
        self.push_small(Kind::Sealed, PartitionId(0), at, data)
    }

    fn push_small(
        &mut self,
        kind: Kind,
        partition: PartitionId,
        at: (Term, LogIndex),
        data: &[u8],
    ) -> Push {
        if frame_bytes(data.len()) > self.room() {
            return Push::Full;
        }
        let frame = self.frame(kind, partition, at, data.len());
        self.put(frame, &[], data);
        Push::Taken
    }

    fn frame(
        &self,
        kind: Kind,
        partition: PartitionId,
        (term, index): (Term, LogIndex),
        data_bytes: usize,
    ) -> Frame {
        let data_bytes = u32::try_from(data_bytes).expect("a frame is not longer than a batch");
        Frame {
            crc: U32::ZERO,
            kind: kind.number(),
            flags: 0,
            partition: U16::new(partition.0),
            data_bytes: U32::new(data_bytes),
            reserved: U32::ZERO,
            term: U64::new(term.0),
            index: U64::new(index.0),
        }
    }

    fn put(&mut self, mut frame: Frame, head: &[u8], data: &[u8]) {
        frame.crc = U32::new(frame_crc(self.seed, frame.as_bytes(), head, data));
        self.buffer.extend(frame.as_bytes());
        self.buffer.extend(head);
        self.buffer.extend(data);
        let len = self.buffer.len();
        self.buffer.zeros(len.next_multiple_of(FRAME_ALIGN) - len);
        self.records += 1;
        // Kinds from there on are facts about segments, which belong to no partition, and kept records, without which none lacks
        // an entry.
        if frame.kind < Kind::Sealed.number() {
            self.partitions |= partition_bit(frame.partition.get());
        }
    }

    /// Writes the header: after this the batch is what goes to the file.
    pub(crate) fn seal(&mut self, seal: Seal) -> BatchHeader {
        let body = &self.buffer.bytes()[BATCH_HEADER_BYTES..];
        let mut header = BatchHeader::new_zeroed();
        header.magic = U32::new(crate::format::BATCH_MAGIC);
        header.version = U16::new(crate::format::SEGMENT_VERSION);
        header.flags = U16::new(seal.flags);
        header.number = U64::new(seal.number.0);
        header.segment = U64::new(seal.segment.0);
        header.synced = U64::new(seal.synced.0);
        header.start = U32::new(seal.start.counter);
        header.word = U64::new(seal.start.word);
        header.records = U32::new(self.records);
        header.tag = U64::new(self.tags.tag());
        header.partitions = U64::new(self.partitions);
        header.previous_partitions = U64::new(seal.previous_partitions);
        header.previous_crc = U32::new(seal.previous_crc);
        header.body_bytes =
            U32::new(u32::try_from(body.len()).expect("a batch is not longer than its limit"));
        header.body_crc = U32::new(crc32c::crc32c(body));
        header.seal();
        self.buffer.bytes_mut()[..BATCH_HEADER_BYTES].copy_from_slice(header.as_bytes());
        header
    }

    /// What goes into the file: whole blocks, the last one filled with zeros.
    pub(crate) fn blocks(&mut self) -> &[u8] {
        self.buffer.blocks()
    }

    pub(crate) const fn kept(&self) -> KeptCount {
        self.kept
    }

    pub(crate) fn changes(&self) -> &[Change] {
        &self.changes
    }

    pub(crate) const fn partitions(&self) -> u64 {
        self.partitions
    }
}

/// Bytes that an empty batch of at most `limit` bytes keeps as one record.
pub(crate) const fn kept_bytes_max(limit: usize) -> usize {
    (limit - BATCH_HEADER_BYTES - FRAME_BYTES - KEPT_HEADER_BYTES) / FRAME_ALIGN * FRAME_ALIGN
}

/// Bytes of a frame with its data; those of an entry at most, since its frame may be the short one.
pub(crate) const fn frame_bytes(data_bytes: usize) -> usize {
    (FRAME_BYTES + data_bytes).next_multiple_of(FRAME_ALIGN)
}
