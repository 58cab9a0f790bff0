//! The facts that happen for every message: fixed layouts, read and written without an intermediate form.
//!
//! ```text
//! publish  1 u8 flags: bits 0-1 kind of the key, 2-3 where the targets are, 4 kept as the retained message
//!          2 u16 inline targets   8 key: 24 bytes, if it is written   then u32 set, u32 zero, if a set is named
//!          then targets: u64 stream, u8 options, u8 identifiers n, 6 zero bytes, n u32, zero bytes to a multiple of 8
//!          then the record, to the end of the fact
//! outcome  1 u8 what   8 u64 stream   16 u64 first   24 u64 last   32 u64 sent_limit
//! ```
//!
//! A publish says by a flag that its key is the next one of the same sender, and that its targets are the same, as those of
//! the publish before it in its entry: in a batch most are, and such a publish is 8 bytes and its record.

use bytes::{BufMut, Bytes};
use courser_contract::{AppendKey, RecordRef, RecordView};

use super::{
    FACT_BYTES, Gather, OUTCOME, PUBLISH, Target, Targets, TargetsAt, Trust,
    gather::Haste,
    key::{
        KEY_BYTES, KEY_MASK, KEY_NEXT, KEY_NUMBERED, KEY_OUTBOX, Key, next_key, read_key, write_key,
    },
    lone::{LONE_BYTES, Lone},
    read_u16, read_u32, read_u64,
    target::skip_target,
};
use crate::canonical::DecodeError;

const SET_BYTES: usize = 8;
/// Bytes before the record of a publish to a set, with its key.
pub(super) const SET_FACT_BYTES: usize = FACT_BYTES + KEY_BYTES + SET_BYTES;
const OUTCOME_BYTES: usize = 40;

const TARGETS_INLINE: u8 = 0;
const TARGETS_SET: u8 = 1 << 2;
/// Those of the publish before.
const TARGETS_SAME: u8 = 2 << 2;
const TARGETS_MASK: u8 = 3 << 2;
const KEEP_RETAINED: u8 = 1 << 4;
const FLAGS_MASK: u8 = KEY_MASK | TARGETS_MASK | KEEP_RETAINED;

/// A record and where it goes.
#[derive(Clone, Debug)]
pub(crate) struct PublishFact<'a> {
    pub(crate) key: Key,
    pub(crate) keep_retained: bool,
    pub(crate) targets: TargetsAt,
    bytes: &'a Bytes,
    /// Where the record begins in the entry, and its length.
    pub(crate) record_at: usize,
    pub(crate) record_len: usize,
}

impl<'a> PublishFact<'a> {
    /// Appends the fact.
    pub(crate) fn write(
        gather: &mut Gather,
        key: &Key,
        keep_retained: bool,
        targets: Targets<'_>,
        record: &RecordView<'_>,
    ) {
        let (key_flag, key_bytes) = match key {
            AppendKey::Unanswered => (0, 0),
            key if gather.before.key.and_then(|before| next_key(&before)) == Some(*key) => {
                (KEY_NEXT, 0)
            }
            AppendKey::Numbered { .. } => (KEY_NUMBERED, KEY_BYTES),
            AppendKey::Outbox { .. } => (KEY_OUTBOX, KEY_BYTES),
        };
        gather.before.key = Some(*key);
        let (targets_flag, count, targets_bytes) = match targets {
            Targets::Set(_) => (TARGETS_SET, 0, SET_BYTES),
            Targets::Inline(list) => {
                let bytes = list.iter().map(Target::encoded_len).sum();
                (TARGETS_INLINE, list.len(), bytes)
            }
            Targets::Same => (TARGETS_SAME, 0, 0),
        };
        if targets != Targets::Same {
            gather.before.list = None;
        }
        let head_bytes = FACT_BYTES + key_bytes + targets_bytes;
        let len = head_bytes + record.encoded_len();
        let kept = if keep_retained { KEEP_RETAINED } else { 0 };
        let count = u16::try_from(count).expect("longer lists are written as sets");
        let (mut out, record_out) = gather.fact(len, Haste::Now).split_at_mut(head_bytes);
        let len = u32::try_from(len).expect("a packet is far below 4 GiB");
        let head = u64::from(PUBLISH)
            | u64::from(key_flag | targets_flag | kept) << 8
            | u64::from(count) << 16
            | u64::from(len) << 32;
        out.put_u64_le(head);
        if key_bytes > 0 {
            write_key(key, &mut out);
        }
        match targets {
            Targets::Set(set) => out.put_u64_le(u64::from(set)),
            Targets::Inline(list) => list.iter().for_each(|target| target.write(&mut out)),
            Targets::Same => {}
        }
        record.encode_into(record_out);
    }

    /// Reads the fact of `len` bytes at `start`; `before` is the key of the publish before it in the entry.
    #[inline(always)]
    pub(super) fn read(
        bytes: &'a Bytes,
        (start, len): (usize, usize),
        before: Option<Key>,
        trust: Trust,
    ) -> Result<Self, DecodeError> {
        let fact = &bytes[start..start + len];
        let flags = fact[1];
        if flags & !FLAGS_MASK != 0 {
            return Err(DecodeError::Invalid("flags of a publish"));
        }
        let mut at = FACT_BYTES;
        let key = match flags & KEY_MASK {
            0 => AppendKey::Unanswered,
            KEY_NEXT => before
                .and_then(|before| next_key(&before))
                .ok_or(DecodeError::Invalid("key after another"))?,
            kind => {
                at += KEY_BYTES;
                read_key(fact, kind, FACT_BYTES)?
            }
        };
        let inline = read_u16(fact, 2)?;
        let targets = match flags & TARGETS_MASK {
            TARGETS_INLINE => {
                let targets = TargetsAt::Inline(inline, start + at);
                for _ in 0..inline {
                    skip_target(fact, &mut at, trust)?;
                }
                targets
            }
            TARGETS_SET => {
                at += SET_BYTES;
                TargetsAt::Set(read_u32(fact, at - SET_BYTES)?)
            }
            TARGETS_SAME if before.is_some() => TargetsAt::Same,
            _ => return Err(DecodeError::Invalid("targets of a publish")),
        };
        let record_len = read_u32(fact, at)? as usize;
        if at + record_len != len {
            return Err(DecodeError::Invalid("length of a record"));
        }
        let record_at = start + at;
        if trust == Trust::Foreign && RecordRef::parse(bytes, record_at).is_none() {
            return Err(DecodeError::Invalid("record"));
        }
        Ok(Self {
            key,
            keep_retained: flags & KEEP_RETAINED != 0,
            targets,
            bytes,
            record_at,
            record_len,
        })
    }

    /// The fact of an entry that is nothing else ([`lone`](super::lone)).
    pub(super) fn of_lone(
        bytes: &'a Bytes,
        lone: &Lone,
        trust: Trust,
    ) -> Result<Self, DecodeError> {
        let record_at = LONE_BYTES;
        let record_len = read_u32(bytes, record_at)? as usize;
        if record_at + record_len != bytes.len() {
            return Err(DecodeError::Invalid("length of a record"));
        }
        if trust == Trust::Foreign && RecordRef::parse(bytes, record_at).is_none() {
            return Err(DecodeError::Invalid("record"));
        }
        Ok(Self {
            key: lone.key,
            keep_retained: false,
            targets: TargetsAt::Set(lone.set),
            bytes,
            record_at,
            record_len,
        })
    }

    /// Targets that are written in place.
    pub(crate) fn inline(&self, count: u16, mut at: usize) -> impl Iterator<Item = Target> + 'a {
        let bytes = self.bytes;
        (0..count).map(move |_| {
            Target::read(bytes, &mut at).expect("targets were read when the fact was")
        })
    }

    /// The record.
    pub(crate) fn record(&self) -> RecordRef<'a> {
        RecordRef::trusted(self.bytes, self.record_at, self.record_len)
    }
}

/// Set and key of a fact that this process wrote, if it is a publish to a set with its key, and nothing else is said of it.
pub(super) fn set_of(fact: &[u8]) -> Option<(u32, Key)> {
    if fact[..2] != [PUBLISH, KEY_NUMBERED | TARGETS_SET] {
        return None;
    }
    let key = read_key(fact, KEY_NUMBERED, FACT_BYTES).ok()?;
    let set = read_u32(fact, FACT_BYTES + KEY_BYTES).ok()?;
    Some((set, key))
}

/// What became of references.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Fate {
    /// Acknowledged for good.
    Done = 0,
    /// QoS 2: PUBREC.
    Received = 1,
    /// Refused by the client.
    Rejected = 2,
    /// Never sent.
    Skipped = 3,
    /// Its time was over.
    Expired = 4,
    /// Dropped by the session's policy.
    Dropped = 5,
}

/// What became of `first..=last` of a session's stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OutcomeFact {
    pub(crate) stream: u64,
    pub(crate) first: u64,
    pub(crate) last: u64,
    pub(crate) fate: Fate,
    /// Nothing at or above it is sent (M30); it never goes down by an outcome.
    pub(crate) sent_limit: u64,
}

impl OutcomeFact {
    /// Appends the fact.
    pub(crate) fn write(&self, gather: &mut Gather, haste: Haste) {
        let mut out = gather.fact(OUTCOME_BYTES, haste);
        let head =
            u64::from(OUTCOME) | u64::from(self.fate as u8) << 8 | (OUTCOME_BYTES as u64) << 32;
        out.put_u64_le(head);
        out.put_u64_le(self.stream);
        out.put_u64_le(self.first);
        out.put_u64_le(self.last);
        out.put_u64_le(self.sent_limit);
    }

    pub(super) fn read(fact: &[u8]) -> Result<Self, DecodeError> {
        let fate = match fact[1] {
            0 => Fate::Done,
            1 => Fate::Received,
            2 => Fate::Rejected,
            3 => Fate::Skipped,
            4 => Fate::Expired,
            5 => Fate::Dropped,
            _ => return Err(DecodeError::Invalid("fate")),
        };
        Ok(Self {
            stream: read_u64(fact, 8)?,
            first: read_u64(fact, 16)?,
            last: read_u64(fact, 24)?,
            fate,
            sent_limit: read_u64(fact, 32)?,
        })
    }
}
