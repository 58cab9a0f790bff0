//! The short form of an entry that is one message for a set: what a publish to many sessions is in a partition.
//!
//! ```text
//!  0 u8 layout version 2   1 u8 engine version   2 u16 set   4 u32 number in the term   8 u48 wall_ms   14 u16 term
//! 16 key: u32 number, then from bit 32 on: 6 bits shard, 14 start, 12 how far the floor is below the number
//! 24 the record, to the end
//! ```
//!
//! It says what the long form says in 72 bytes. An entry of which a number does not fit has the long form, so nothing is
//! lost where counters have become large.

use bytes::{Buf, Bytes, BytesMut};
use courser_contract::{AppendKey, AppendNumber, Origin, ShardId, Term, WallMs};

use super::{
    ENGINE_VERSION, HEADER_BYTES, Head, Key,
    hot::{SET_FACT_BYTES, set_of},
};
use crate::canonical::DecodeError;

/// Layout version. In the first byte, where that of the long form has its number and a zero behind it.
pub(super) const LAYOUT_LONE: u8 = 2;
/// Bytes before the record.
pub(super) const LONE_BYTES: usize = 24;
const _: () = assert!(ENGINE_VERSION <= u8::MAX as u16);
/// Bytes before the record in the long form.
const LONG_BYTES: usize = HEADER_BYTES + SET_FACT_BYTES;

const WALL_BITS: u32 = 48;
const SHARD_BITS: u32 = 6;
const START_BITS: u32 = 14;
const SHARD_SHIFT: u32 = 32;
const START_SHIFT: u32 = SHARD_SHIFT + SHARD_BITS;
const BELOW_SHIFT: u32 = START_SHIFT + START_BITS;

/// What stands before the record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Lone {
    pub(super) head: Head,
    pub(super) set: u32,
    pub(super) key: Key,
}

/// The lowest bits of a word.
const fn low(word: u64, bits: u32) -> u64 {
    word & ((1 << bits) - 1)
}

/// A number that has so many bits at most.
fn fits(number: u64, bits: u32) -> Option<u64> {
    (number >> bits == 0).then_some(number)
}

/// An entry with one fact, as short as it can be.
pub(super) fn shorten(entry: BytesMut, head: Head) -> Bytes {
    let words = set_of(&entry[HEADER_BYTES..]).and_then(|(set, key)| {
        let lone = Lone { head, set, key };
        lone.words()
    });
    let mut entry = entry;
    let Some(words) = words else {
        return entry.freeze();
    };
    let begin = LONG_BYTES - LONE_BYTES;
    for (word, out) in words.iter().zip(entry[begin..].chunks_exact_mut(8)) {
        out.copy_from_slice(&word.to_le_bytes());
    }
    let mut entry = entry.freeze();
    entry.advance(begin);
    entry
}

/// Engine version of an entry of this form.
pub(super) fn engine_of(entry: &[u8]) -> Option<u16> {
    match entry {
        [LAYOUT_LONE, engine, ..] => Some(u16::from(*engine)),
        _ => None,
    }
}

impl Lone {
    /// The bytes before the record; none where a number is too large for them.
    fn words(&self) -> Option<[u64; LONE_BYTES / 8]> {
        let AppendKey::Numbered {
            origin,
            number,
            floor,
        } = self.key
        else {
            return None;
        };
        let first = u64::from(LAYOUT_LONE)
            | u64::from(ENGINE_VERSION) << 8
            | fits(u64::from(self.set), 16)? << 16
            | fits(self.head.number, 32)? << 32;
        let second = fits(self.head.wall.0, WALL_BITS)? | fits(self.head.term.0, 16)? << WALL_BITS;
        let below = number.0.checked_sub(floor.0)?;
        let third = fits(number.0, SHARD_SHIFT)?
            | fits(u64::from(origin.shard.0), SHARD_BITS)? << SHARD_SHIFT
            | fits(u64::from(origin.start), START_BITS)? << START_SHIFT
            | fits(below, u64::BITS - BELOW_SHIFT)? << BELOW_SHIFT;
        (origin.node == 0).then_some([first, second, third])
    }

    /// Reads what stands before the record of an entry of this form.
    pub(super) fn read(entry: &[u8]) -> Result<Self, DecodeError> {
        let bytes = entry.get(..LONE_BYTES).ok_or(DecodeError::Short)?;
        let (words, _) = bytes.as_chunks();
        let &[first, second, third] = words else {
            return Err(DecodeError::Short);
        };
        let [first, second, third] = [first, second, third].map(u64::from_le_bytes);
        if low(first >> 8, 8) > u64::from(ENGINE_VERSION) {
            return Err(DecodeError::Invalid(
                "engine version: written by a newer one",
            ));
        }
        let number = low(third, SHARD_SHIFT);
        let floor = number.checked_sub(third >> BELOW_SHIFT);
        Ok(Self {
            head: Head {
                facts: 1,
                wall: WallMs(low(second, WALL_BITS)),
                term: Term(second >> WALL_BITS),
                number: first >> 32,
            },
            set: low(first >> 16, 16) as u32,
            key: AppendKey::Numbered {
                origin: Origin {
                    node: 0,
                    shard: ShardId(low(third >> SHARD_SHIFT, SHARD_BITS) as u16),
                    start: low(third >> START_SHIFT, START_BITS) as u32,
                },
                number: AppendNumber(number),
                floor: AppendNumber(floor.ok_or(DecodeError::Invalid("floor of a key"))?),
            },
        })
    }
}

#[cfg(test)]
mod tests;
