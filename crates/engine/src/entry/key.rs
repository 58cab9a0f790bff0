//! Keys of appends in entries (M14, M19).

use bytes::BufMut;
use courser_contract::{AppendKey, AppendNumber, Origin, PartitionId, Seq, ShardId};

use super::{read_u16, read_u32, read_u64};
use crate::canonical::{DecodeError, Reader};

pub(super) const KEY_BYTES: usize = 24;

pub(super) const KEY_NUMBERED: u8 = 1;
pub(super) const KEY_OUTBOX: u8 = 2;
/// One more than that of the publish before, with the same floor.
pub(super) const KEY_NEXT: u8 = 3;
pub(super) const KEY_MASK: u8 = 3;

/// What makes a repeat known, as in [`AppendKey`].
pub(crate) type Key = AppendKey;

/// The key that follows in the numbers of the same sender; none where there is none.
#[inline]
pub(super) fn next_key(key: &Key) -> Option<Key> {
    match *key {
        AppendKey::Unanswered => None,
        AppendKey::Numbered {
            origin,
            number,
            floor,
        } => Some(AppendKey::Numbered {
            origin,
            number: AppendNumber(number.0.checked_add(1)?),
            floor,
        }),
        AppendKey::Outbox { source, seq, floor } => Some(AppendKey::Outbox {
            source,
            seq: Seq(seq.0.checked_add(1)?),
            floor,
        }),
    }
}

pub(super) fn write_key(key: &Key, out: &mut impl BufMut) {
    match *key {
        AppendKey::Unanswered => {}
        AppendKey::Numbered {
            origin,
            number,
            floor,
        } => {
            out.put_u16_le(origin.node);
            out.put_u16_le(origin.shard.0);
            out.put_u32_le(origin.start);
            out.put_u64_le(number.0);
            out.put_u64_le(floor.0);
        }
        AppendKey::Outbox { source, seq, floor } => {
            out.put_u64_le(u64::from(source.0));
            out.put_u64_le(seq.0);
            out.put_u64_le(floor.0);
        }
    }
}

pub(super) fn read_key(bytes: &[u8], kind: u8, at: usize) -> Result<Key, DecodeError> {
    Ok(match kind {
        KEY_NUMBERED => AppendKey::Numbered {
            origin: Origin {
                node: read_u16(bytes, at)?,
                shard: ShardId(read_u16(bytes, at + 2)?),
                start: read_u32(bytes, at + 4)?,
            },
            number: AppendNumber(read_u64(bytes, at + 8)?),
            floor: AppendNumber(read_u64(bytes, at + 16)?),
        },
        KEY_OUTBOX => AppendKey::Outbox {
            source: PartitionId(read_u16(bytes, at)?),
            seq: Seq(read_u64(bytes, at + 8)?),
            floor: Seq(read_u64(bytes, at + 16)?),
        },
        _ => return Err(DecodeError::Invalid("key of a publish")),
    })
}

/// Appends a key where the kind is not told by a flag.
pub(super) fn write_key_canonical(key: &Key, out: &mut Vec<u8>) {
    out.push(match key {
        AppendKey::Unanswered => 0,
        AppendKey::Numbered { .. } => KEY_NUMBERED,
        AppendKey::Outbox { .. } => KEY_OUTBOX,
    });
    write_key(key, out);
}

/// Reads what [`write_key_canonical`] wrote.
pub(super) fn read_key_canonical(reader: &mut Reader<'_>) -> Result<Key, DecodeError> {
    match reader.read::<u8>()? {
        0 => Ok(AppendKey::Unanswered),
        kind => read_key(reader.take(KEY_BYTES)?, kind, 0),
    }
}
