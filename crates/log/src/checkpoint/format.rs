//! Layout of checkpoint files and manifests, as `docs/log-format.md` says.

use zerocopy::{
    FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned,
    little_endian::{U16, U32, U64},
};

/// Version of the layout of checkpoints and manifests that this code writes, and the only one that it reads.
pub const CHECKPOINT_VERSION: u16 = 1;

/// A piece is at most this long (M42).
pub const PIECE_BYTES_MAX: usize = 64 << 10;

pub(super) const FILE_MAGIC: [u8; 8] = *b"CourCkp\n";
pub(super) const MANIFEST_MAGIC: [u8; 8] = *b"CourMan\n";
/// In place of a piece's length: no piece is as long.
pub(super) const END_MARK: u32 = 0xE0F0_E0F0;
const _: () = assert!(END_MARK as usize > PIECE_BYTES_MAX);

/// Beginning of a checkpoint's file.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct FileHeader {
    pub(super) magic: [u8; 8],
    pub(super) version: U16,
    pub(super) partition: U16,
    pub(super) reserved: U32,
    pub(super) index: U64,
    pub(super) term: U64,
    pub(super) node: U64,
    pub(super) reserved2: U32,
    pub(super) crc: U32,
}

/// Precedes the bytes of a piece.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct PieceHead {
    pub(super) bytes: U32,
    /// From 0.
    pub(super) number: U32,
    /// Over the file header's checksum, `bytes`, `number` and the piece.
    pub(super) crc: U32,
}

/// Follows the last piece.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct EndMark {
    pub(super) mark: U32,
    pub(super) pieces: U32,
    /// Of all pieces, without their heads.
    pub(super) bytes: U64,
    /// Over the file header's checksum and all before it here.
    pub(super) crc: U32,
}

/// A manifest; ranges of live entries follow, and a checksum of all.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct ManifestHeader {
    pub(super) magic: [u8; 8],
    pub(super) version: U16,
    pub(super) partition: U16,
    pub(super) ranges: U32,
    pub(super) index: U64,
    pub(super) term: U64,
    pub(super) node: U64,
    /// All batches of the log up to this number were synced when it was written.
    pub(super) synced: U64,
    pub(super) pieces: U32,
    pub(super) reserved: U32,
    pub(super) bytes: U64,
}

/// A range of live entries, both ends included.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct LiveRange {
    pub(super) first: U64,
    pub(super) last: U64,
}

pub(super) const FILE_HEADER_BYTES: u64 = size_of::<FileHeader>() as u64;
pub(super) const PIECE_HEAD_BYTES: u64 = size_of::<PieceHead>() as u64;
pub(super) const END_MARK_BYTES: u64 = size_of::<EndMark>() as u64;

const _: () = assert!(FILE_HEADER_BYTES == 48);
const _: () = assert!(size_of::<ManifestHeader>() == 64);

/// Checksum of a piece in the file with that header.
pub(super) fn piece_crc(file: u32, head: &PieceHead, piece: &[u8]) -> u32 {
    let crc = crc32c::crc32c_append(file, &head.as_bytes()[..8]);
    crc32c::crc32c_append(crc, piece)
}

/// Checksum of the end of the file with that header.
pub(super) fn end_crc(file: u32, end: &EndMark) -> u32 {
    crc32c::crc32c_append(file, &end.as_bytes()[..16])
}
