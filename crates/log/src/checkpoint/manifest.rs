//! Manifests: which checkpoint of a partition counts, and which older entries it needs.

use courser_contract::{LogIndex, PartitionId, Term};
use zerocopy::{
    FromBytes, FromZeros, IntoBytes,
    little_endian::{U16, U32, U64},
};

use super::{
    CheckpointError, failed,
    format::{CHECKPOINT_VERSION, LiveRange, MANIFEST_MAGIC, ManifestHeader},
};
use crate::{
    disk::{Disk, DiskFile},
    format::NUMBER_MAX,
    ids::{BatchNumber, NodeIdentity, Synced},
    live::LiveEntries,
    record::CheckpointAt,
};

const SUFFIX: &str = ".manifest";

/// The checkpoint of a partition that counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    /// Whose.
    pub partition: PartitionId,
    /// The entry at which its pieces are valid.
    pub at: CheckpointAt,
    /// What of the log was durable when it was written; at least everything up to that entry.
    pub synced: Synced,
    /// Entries at or below it whose records are still needed.
    pub live: LiveEntries,
    /// Number of its pieces.
    pub pieces: u32,
    /// Their bytes.
    pub bytes: u64,
}

pub(super) fn file_name(partition: PartitionId) -> String {
    format!("{}{SUFFIX}", partition.0)
}

pub(super) fn of_file_name(name: &str) -> Option<PartitionId> {
    let partition = PartitionId(name.strip_suffix(SUFFIX)?.parse().ok()?);
    (file_name(partition) == name).then_some(partition)
}

pub(super) fn encode(manifest: &Manifest, node: NodeIdentity) -> Vec<u8> {
    let mut header = ManifestHeader::new_zeroed();
    header.magic = MANIFEST_MAGIC;
    header.version = U16::new(CHECKPOINT_VERSION);
    header.partition = U16::new(manifest.partition.0);
    header.ranges = U32::new(u32::try_from(manifest.live.count()).expect("fewer than 2^32 ranges"));
    header.index = U64::new(manifest.at.index.0);
    header.term = U64::new(manifest.at.term.0);
    header.node = U64::new(node.0);
    header.synced = U64::new(manifest.synced.batch().0);
    header.pieces = U32::new(manifest.pieces);
    header.bytes = U64::new(manifest.bytes);
    let mut bytes = header.as_bytes().to_vec();
    for (first, last) in manifest.live.ranges() {
        let range = LiveRange {
            first: U64::new(first.0),
            last: U64::new(last.0),
        };
        bytes.extend_from_slice(range.as_bytes());
    }
    let crc = crc32c::crc32c(&bytes);
    bytes.extend_from_slice(&crc.to_le_bytes());
    bytes
}

pub(super) fn read<D: Disk>(
    disk: &D,
    name: &str,
    node: NodeIdentity,
    partition: PartitionId,
) -> Result<Manifest, CheckpointError> {
    let file = disk.open(name).map_err(failed("opening", name))?;
    let (found, manifest) = decode(&bytes(&file, name)?, name)?;
    if found != node {
        return Err(CheckpointError::Foreign {
            name: name.to_owned(),
            found,
        });
    }
    if manifest.partition != partition {
        return Err(damaged(name, 10, "it is another partition's"));
    }
    Ok(manifest)
}

/// All of a file.
pub(super) fn bytes(file: &impl DiskFile, name: &str) -> Result<Vec<u8>, CheckpointError> {
    let len = file.len().map_err(failed("reading", name))?;
    let mut bytes = vec![0; usize::try_from(len).unwrap_or(0)];
    file.read_at(&mut bytes, 0)
        .map_err(failed("reading", name))?;
    Ok(bytes)
}

pub(super) fn decode(
    bytes: &[u8],
    name: &str,
) -> Result<(NodeIdentity, Manifest), CheckpointError> {
    let (body, crc) = bytes
        .split_last_chunk::<4>()
        .ok_or_else(|| damaged(name, 0, "it is too short"))?;
    if crc32c::crc32c(body) != u32::from_le_bytes(*crc) {
        return Err(damaged(name, 0, "its checksum is wrong"));
    }
    let (header, rest) =
        ManifestHeader::read_from_prefix(body).map_err(|_| damaged(name, 0, "it is too short"))?;
    if header.magic != MANIFEST_MAGIC {
        return Err(damaged(name, 0, "it is no manifest"));
    }
    let version = header.version.get();
    if version != CHECKPOINT_VERSION {
        let name = name.to_owned();
        return Err(CheckpointError::Version { name, version });
    }
    if header.index.get() > NUMBER_MAX || header.synced.get() > NUMBER_MAX {
        return Err(damaged(name, 16, "its numbers are none that are given"));
    }
    let ranges = <[LiveRange]>::ref_from_bytes(rest)
        .ok()
        .filter(|ranges| ranges.len() == header.ranges.get() as usize)
        .ok_or_else(|| damaged(name, 64, "its ranges end early or late"))?;
    let mut live = LiveEntries::NONE;
    let mut above = None;
    for range in ranges {
        let (first, last) = (range.first.get(), range.last.get());
        let ascends = above.is_none_or(|above| first > above);
        if first > last || !ascends || last > header.index.get() {
            return Err(damaged(name, 64, "its ranges do not ascend to its index"));
        }
        live.push_range(LogIndex(first), LogIndex(last));
        above = Some(last);
    }
    live.shrink();
    let manifest = Manifest {
        partition: PartitionId(header.partition.get()),
        at: CheckpointAt {
            index: LogIndex(header.index.get()),
            term: Term(header.term.get()),
        },
        synced: Synced(BatchNumber(header.synced.get())),
        live,
        pieces: header.pieces.get(),
        bytes: header.bytes.get(),
    };
    Ok((NodeIdentity(header.node.get()), manifest))
}

fn damaged(name: &str, offset: u64, what: &'static str) -> CheckpointError {
    CheckpointError::Damaged {
        name: name.to_owned(),
        offset,
        what,
    }
}
