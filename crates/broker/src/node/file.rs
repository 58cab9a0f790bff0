//! The file `node`: 64 bytes, little endian, checked by a CRC32C over all that stands before it.

use zerocopy::byteorder::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::Relaxed;

const MAGIC: [u8; 8] = *b"CRSRNODE";
/// Version of the whole folder: of this file, and of which other files there are.
pub(crate) const VERSION: u32 = 1;

/// What a node must not forget.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NodeFile {
    /// Made once, with the folder. Segments name it, so that files of another node are not taken for own ones.
    pub(crate) identity: [u8; 16],
    /// Starts so far, this one included. Above every start in any partition's state (M14).
    pub(crate) start: u32,
    /// Random word of this start: two copies of one folder that were both started do not agree in it (M44).
    pub(crate) word: u64,
    /// Durable partitions besides partition 0, fixed when the folder was made (M3).
    pub(crate) partitions: u16,
    /// Whether there are as many relaxed ones (M2).
    pub(crate) relaxed: Relaxed,
}

/// Bit of the flags: there are relaxed partitions.
const RELAXED: u16 = 1 << 0;

/// Why bytes are no node file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NodeFileError {
    /// Wrong length, magic or checksum.
    Damaged,
    /// Another version of this program wrote it.
    Version(u32),
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
struct Layout {
    magic: [u8; 8],
    version: U32,
    partitions: U16,
    /// [`RELAXED`]; room for a replica's doubt (M44).
    flags: U16,
    identity: [u8; 16],
    start: U32,
    reserved: U32,
    word: U64,
    reserved_too: [u8; 12],
    checksum: U32,
}

const LEN: usize = 64;
const CHECKED: usize = LEN - size_of::<U32>();
const _: () = assert!(size_of::<Layout>() == LEN);

impl NodeFile {
    /// The bytes of the file.
    pub(crate) fn encode(&self) -> [u8; LEN] {
        let mut layout = Layout {
            magic: MAGIC,
            version: VERSION.into(),
            partitions: self.partitions.into(),
            flags: match self.relaxed {
                Relaxed::None => 0,
                Relaxed::Made => RELAXED,
            }
            .into(),
            identity: self.identity,
            start: self.start.into(),
            reserved: 0.into(),
            word: self.word.into(),
            reserved_too: [0; 12],
            checksum: 0.into(),
        };
        layout.checksum = crc32c::crc32c(&layout.as_bytes()[..CHECKED]).into();
        zerocopy::transmute!(layout)
    }

    /// Reads the bytes of a file. The version is looked at before the checksum: a later one may keep it elsewhere.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, NodeFileError> {
        let (head, _) =
            Layout::read_from_prefix(bytes).map_err(|_too_short| NodeFileError::Damaged)?;
        if head.magic != MAGIC {
            return Err(NodeFileError::Damaged);
        }
        if head.version.get() != VERSION {
            return Err(NodeFileError::Version(head.version.get()));
        }
        if bytes.len() != LEN || crc32c::crc32c(&bytes[..CHECKED]) != head.checksum.get() {
            return Err(NodeFileError::Damaged);
        }
        Ok(Self {
            identity: head.identity,
            start: head.start.get(),
            word: head.word.get(),
            partitions: head.partitions.get(),
            relaxed: match head.flags.get() & RELAXED {
                0 => Relaxed::None,
                _ => Relaxed::Made,
            },
        })
    }
}
