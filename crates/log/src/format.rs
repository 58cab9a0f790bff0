//! Layout of segment files: what `docs/log-format.md` says, as types.
//!
//! Everything is little endian. The types hold bytes in the order of the file, so that a cast is the whole conversion;
//! checksums are CRC32C and stand last, over all bytes before them.

use zerocopy::{
    FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned,
    little_endian::{U16, U32, U64},
};

/// Batches begin at multiples of this many bytes of a file, so that a block with synced data is never written again.
pub const BLOCK_BYTES: usize = 4096;

/// Version of the layout of segments and batches that this code writes. Version 1 had no short frames.
pub const SEGMENT_VERSION: u16 = 2;
/// The first one. This code reads all from here on.
pub(crate) const SEGMENT_VERSION_FIRST: u16 = 1;

/// A batch is at most this long in the file, whatever the size of a segment (M45).
pub const BATCH_BYTES_MAX: usize = 4 << 20;

/// Frames begin at multiples of this many bytes of a batch.
pub(crate) const FRAME_ALIGN: usize = 8;

/// Batches, segments and entries are not numbered higher: counting from there cannot overflow.
pub(crate) const NUMBER_MAX: u64 = u64::MAX / 4;

pub(crate) const SEGMENT_MAGIC: [u8; 8] = *b"CourSeg\n";
pub(crate) const BATCH_MAGIC: u32 = 0x4843_4243; // "CBCH"

/// First block of a segment; the rest of the block is zero.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct SegmentHeader {
    pub(crate) magic: [u8; 8],
    pub(crate) version: U16,
    pub(crate) reserved: U16,
    pub(crate) block_bytes: U32,
    pub(crate) segment: U64,
    pub(crate) segment_bytes: U64,
    pub(crate) node: U64,
    pub(crate) start: U32,
    pub(crate) reserved2: U32,
    pub(crate) word: U64,
    pub(crate) reserved3: U32,
    pub(crate) crc: U32,
}

/// What precedes the frames of a batch.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct BatchHeader {
    pub(crate) magic: U32,
    pub(crate) version: U16,
    pub(crate) flags: U16,
    pub(crate) number: U64,
    pub(crate) segment: U64,
    /// All batches up to this number were synced when this one was written.
    pub(crate) synced: U64,
    pub(crate) start: U32,
    pub(crate) records: U32,
    /// Random word of the start, so that no payload can look like a header.
    pub(crate) word: U64,
    /// Seed of the frames' checksums: binds them to this batch.
    pub(crate) tag: U64,
    /// Partitions with records in this batch: bit `id mod 64`.
    pub(crate) partitions: U64,
    /// The same of the batch before, which is asked when that one cannot be read.
    pub(crate) previous_partitions: U64,
    /// `crc` of the batch before.
    pub(crate) previous_crc: U32,
    pub(crate) body_bytes: U32,
    pub(crate) body_crc: U32,
    pub(crate) crc: U32,
}

/// What precedes the data of a record; data is followed by zeros up to a multiple of eight.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct Frame {
    /// Over the batch's tag, the rest of the frame and the data.
    pub(crate) crc: U32,
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    pub(crate) partition: U16,
    pub(crate) data_bytes: U32,
    pub(crate) reserved: U32,
    pub(crate) term: U64,
    pub(crate) index: U64,
}

/// What precedes the data of an entry with small numbers, instead of a [`Frame`].
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct ShortFrame {
    /// As in [`Frame`].
    pub(crate) crc: U32,
    /// [`KIND_SHORT_ENTRY`].
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    pub(crate) partition: U16,
    /// Bits 0 to 35 the index, 36 to 51 the term, 52 to 63 an eighth of the data's bytes.
    pub(crate) numbers: U64,
}

/// Kind of an entry behind a [`ShortFrame`]. It is no [`Kind`]: whoever reads frames is shown an entry.
pub(crate) const KIND_SHORT_ENTRY: u8 = 10;

const SHORT_INDEX_BITS: u32 = 36;
const SHORT_TERM_BITS: u32 = 16;
const SHORT_LEN_SHIFT: u32 = SHORT_INDEX_BITS + SHORT_TERM_BITS;

impl ShortFrame {
    /// That of an entry; none where a number is too large for it, or the data would be followed by zeros.
    #[inline]
    pub(crate) fn of(partition: u16, (term, index): (u64, u64), data_bytes: usize) -> Option<Self> {
        let eighths = data_bytes as u64 / FRAME_ALIGN as u64;
        // One test for all three: what does not fit leaves a bit.
        let above = index >> SHORT_INDEX_BITS
            | term >> SHORT_TERM_BITS
            | eighths >> (u64::BITS - SHORT_LEN_SHIFT);
        (above == 0 && data_bytes.is_multiple_of(FRAME_ALIGN)).then(|| Self {
            crc: U32::ZERO,
            kind: KIND_SHORT_ENTRY,
            flags: 0,
            partition: U16::new(partition),
            numbers: U64::new(index | term << SHORT_INDEX_BITS | eighths << SHORT_LEN_SHIFT),
        })
    }

    pub(crate) const fn index(&self) -> u64 {
        self.numbers.get() & ((1 << SHORT_INDEX_BITS) - 1)
    }

    pub(crate) const fn term(&self) -> u64 {
        self.numbers.get() >> SHORT_INDEX_BITS & ((1 << SHORT_TERM_BITS) - 1)
    }

    pub(crate) const fn data_bytes(&self) -> usize {
        (self.numbers.get() >> SHORT_LEN_SHIFT) as usize * FRAME_ALIGN
    }
}

/// What precedes the bytes of a piece, as part of its frame's data.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct PieceHeader {
    pub(crate) offset: U64,
    pub(crate) total: U64,
}

/// What precedes the bytes of a kept record, as part of its frame's data.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct KeptHeader {
    /// Byte of the entry at which they begin.
    pub(crate) byte: U32,
    pub(crate) reserved: U32,
}

/// Version of the layout of summaries. One of another version is not read, and its segment is.
pub(crate) const SUMMARY_VERSION: u16 = 1;
pub(crate) const SUMMARY_MAGIC: [u8; 8] = *b"CourSum\n";

/// What a segment's summary begins with.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct SummaryHeader {
    pub(crate) magic: [u8; 8],
    pub(crate) version: U16,
    pub(crate) reserved: U16,
    /// Checksum of the header of the segment's last batch.
    pub(crate) last_crc: U32,
    pub(crate) segment: U64,
    pub(crate) node: U64,
    /// Byte of that batch.
    pub(crate) last_at: U64,
    /// Segments that it says were cleaned.
    pub(crate) cleaned: U32,
    pub(crate) partitions: U32,
}

/// What precedes what a summary says of a partition.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct SummaryPartition {
    pub(crate) partition: U16,
    pub(crate) reserved: U16,
    pub(crate) runs: U32,
    /// Runs of entries with kept records.
    pub(crate) kept: U32,
    /// Batches with those.
    pub(crate) kept_at: U32,
    /// First and last index; the first is above the last where there are none.
    pub(crate) first: U64,
    pub(crate) last: U64,
}

/// Entries that follow each other within a stretch, or one in pieces; then come the places of these.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct SummaryRun {
    pub(crate) first: U64,
    pub(crate) last: U64,
    /// Byte of the batch with the first.
    pub(crate) offset: U64,
    pub(crate) pieces: U64,
}

pub(crate) const BATCH_HEADER_BYTES: usize = size_of::<BatchHeader>();
pub(crate) const FRAME_BYTES: usize = size_of::<Frame>();
pub(crate) const SHORT_FRAME_BYTES: usize = size_of::<ShortFrame>();
pub(crate) const PIECE_HEADER_BYTES: usize = size_of::<PieceHeader>();
pub(crate) const KEPT_HEADER_BYTES: usize = size_of::<KeptHeader>();

const _: () = assert!(size_of::<SegmentHeader>() == 64);
const _: () = assert!(BATCH_HEADER_BYTES == 88 && BATCH_HEADER_BYTES.is_multiple_of(FRAME_ALIGN));
const _: () = assert!(FRAME_BYTES == 32 && FRAME_BYTES.is_multiple_of(FRAME_ALIGN));
const _: () = assert!(SHORT_FRAME_BYTES == 16);
// A torn write leaves sectors of 512 bytes whole: a header is there or not.
const _: () = assert!(BATCH_HEADER_BYTES <= 512);
const _: () = assert!(BATCH_BYTES_MAX.is_multiple_of(BLOCK_BYTES));

/// First batches of a segment: term, vote, commit and checkpoint of every partition.
pub(crate) const FLAG_HEAD: u16 = 1;
/// An empty batch, written by an idle disk to say that all before it is synced.
pub(crate) const FLAG_WITNESS: u16 = 2;

/// What a record is. Numbers are never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Entry,
    HardState,
    Checkpoint,
    Piece,
    Sealed,
    Kept,
    Cleaned,
    Last,
}

impl Kind {
    pub(crate) const fn number(self) -> u8 {
        match self {
            Self::Entry => 1,
            Self::HardState => 2,
            Self::Checkpoint => 3,
            Self::Piece => 4,
            Self::Sealed => 5,
            Self::Kept => 6,
            Self::Cleaned => 7,
            Self::Last => 8,
        }
    }

    pub(crate) const fn of(number: u8) -> Option<Self> {
        match number {
            1 => Some(Self::Entry),
            2 => Some(Self::HardState),
            3 => Some(Self::Checkpoint),
            4 => Some(Self::Piece),
            5 => Some(Self::Sealed),
            6 => Some(Self::Kept),
            7 => Some(Self::Cleaned),
            8 => Some(Self::Last),
            _ => None,
        }
    }
}

/// A frame with this flag may be passed over by a reader that does not know its kind.
pub(crate) const FRAME_FLAG_OPTIONAL: u8 = 1;

/// What a block begins with.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Seen<H> {
    /// Nothing that was ever written here as a header, or no longer.
    Nothing,
    /// Intact, but of another version.
    Other(u16),
    /// Intact.
    Header(H),
}

/// A header that ends with the checksum of the bytes before it.
pub(crate) trait Header: FromBytes + IntoBytes + Immutable + KnownLayout + Sized {
    fn version(&self) -> u16;

    fn crc(&self) -> u32;

    fn set_crc(&mut self, crc: u32);

    /// Whether it begins with the magic of its kind.
    fn is_ours(&self) -> bool;

    /// Whether the numbers of a header of this version are ones that are given.
    fn is_sound(&self) -> bool;

    /// Writes the checksum: all else is set.
    fn seal(&mut self) {
        self.set_crc(checksum(self));
    }

    /// What a block begins with.
    fn see(block: &[u8]) -> Seen<Self> {
        let Ok((header, _)) = Self::read_from_prefix(block) else {
            return Seen::Nothing;
        };
        if !header.is_ours() || header.crc() != checksum(&header) {
            return Seen::Nothing;
        }
        match header.version() {
            SEGMENT_VERSION_FIRST..=SEGMENT_VERSION if header.is_sound() => Seen::Header(header),
            SEGMENT_VERSION_FIRST..=SEGMENT_VERSION => Seen::Nothing,
            other => Seen::Other(other),
        }
    }
}

/// CRC32C of all of a header but its last four bytes, which hold it.
fn checksum(header: &(impl IntoBytes + Immutable)) -> u32 {
    let bytes = header.as_bytes();
    crc32c::crc32c(&bytes[..bytes.len() - size_of::<U32>()])
}

impl Header for SegmentHeader {
    fn version(&self) -> u16 {
        self.version.get()
    }

    fn crc(&self) -> u32 {
        self.crc.get()
    }

    fn set_crc(&mut self, crc: u32) {
        self.crc = U32::new(crc);
    }

    fn is_ours(&self) -> bool {
        self.magic == SEGMENT_MAGIC
    }

    fn is_sound(&self) -> bool {
        true
    }
}

impl Header for BatchHeader {
    fn version(&self) -> u16 {
        self.version.get()
    }

    fn crc(&self) -> u32 {
        self.crc.get()
    }

    fn set_crc(&mut self, crc: u32) {
        self.crc = U32::new(crc);
    }

    fn is_ours(&self) -> bool {
        self.magic.get() == BATCH_MAGIC
    }

    fn is_sound(&self) -> bool {
        let number = self.number.get();
        let fits = self.body_bytes.get() as usize <= BATCH_BYTES_MAX - BATCH_HEADER_BYTES;
        fits && self.synced.get() < number && number <= NUMBER_MAX
    }
}

impl BatchHeader {
    /// Bytes that the batch takes in the file, whole blocks.
    pub(crate) fn file_bytes(&self) -> u64 {
        padded(BATCH_HEADER_BYTES as u64 + u64::from(self.body_bytes.get()))
    }

    pub(crate) fn is_head(&self) -> bool {
        self.flags.get() & FLAG_HEAD != 0
    }
}

/// `bytes`, rounded up to whole blocks.
pub(crate) const fn padded(bytes: u64) -> u64 {
    bytes.next_multiple_of(BLOCK_BYTES as u64)
}

/// First value of the checksum of a frame in a batch with this tag.
pub(crate) fn frame_seed(tag: u64) -> u32 {
    crc32c::crc32c(&tag.to_le_bytes())
}

/// Checksum of a frame, of either kind: its header without the checksum, then its data in one or two parts.
#[inline]
pub(crate) fn frame_crc(seed: u32, frame: &[u8], head: &[u8], data: &[u8]) -> u32 {
    let mut crc = crc32c::crc32c_append(seed, &frame[size_of::<U32>()..]);
    if !head.is_empty() {
        crc = crc32c::crc32c_append(crc, head);
    }
    crc32c::crc32c_append(crc, data)
}

/// Bit of a partition in the sets of headers.
pub(crate) const fn partition_bit(partition: u16) -> u64 {
    1 << (partition % 64)
}
