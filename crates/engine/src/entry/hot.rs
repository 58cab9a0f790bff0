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

use std::{cell::Cell, sync::Arc};

use bytes::{BufMut, Bytes};
use courser_contract::{
    AppendKey, AppendNumber, Origin, PartitionId, QoS, RecordRef, RecordView, Seq, ShardId,
};

use super::{
    FACT_BYTES, Gather, OUTCOME, PUBLISH, Trust, gather::Haste, read_u16, read_u32, read_u64,
};
use crate::canonical::{DecodeError, Reader};

const KEY_BYTES: usize = 24;
const SET_BYTES: usize = 8;
const TARGET_BYTES: usize = 16;
const OUTCOME_BYTES: usize = 40;

const KEY_NUMBERED: u8 = 1;
const KEY_OUTBOX: u8 = 2;
/// One more than that of the publish before, with the same floor.
const KEY_NEXT: u8 = 3;
const KEY_MASK: u8 = 3;
const TARGETS_INLINE: u8 = 0;
const TARGETS_SET: u8 = 1 << 2;
/// Those of the publish before.
const TARGETS_SAME: u8 = 2 << 2;
const TARGETS_MASK: u8 = 3 << 2;
const KEEP_RETAINED: u8 = 1 << 4;
const FLAGS_MASK: u8 = KEY_MASK | TARGETS_MASK | KEEP_RETAINED;

/// Where a record goes: one stream, and how the delivery looks (M7).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Target {
    /// Session or group, see [`crate::ids`].
    pub(crate) stream: u64,
    /// Highest QoS of the subscriptions that matched.
    pub(crate) qos: QoS,
    /// RETAIN of the delivery.
    pub(crate) retain: RetainMark,
    /// Subscription identifiers.
    pub(crate) identifiers: Option<Arc<[u32]>>,
}

/// RETAIN of a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub(crate) enum RetainMark {
    /// Cleared.
    Clear = 0,
    /// As the publisher gave it: Retain As Published.
    Keep = 1,
    /// Set: found among the retained messages.
    Set = 2,
}

impl RetainMark {
    pub(super) const fn from_bits(bits: u8) -> Option<Self> {
        match bits {
            0 => Some(Self::Clear),
            1 => Some(Self::Keep),
            2 => Some(Self::Set),
            _ => None,
        }
    }

    /// RETAIN of the delivery of a message that was published with `retain`.
    pub(crate) const fn of(self, retain: bool) -> bool {
        match self {
            Self::Clear => false,
            Self::Keep => retain,
            Self::Set => true,
        }
    }
}

impl Target {
    fn encoded_len(&self) -> usize {
        let count = self.identifiers.as_ref().map_or(0, |ids| ids.len());
        TARGET_BYTES + (count * 4).next_multiple_of(8)
    }

    fn write(&self, out: &mut impl BufMut) {
        let identifiers = self.identifiers.as_deref().unwrap_or(&[]);
        let count = u8::try_from(identifiers.len()).expect("at most 255 identifiers are kept");
        out.put_u64_le(self.stream);
        out.put_u8(self.qos as u8 | (self.retain as u8) << 2);
        out.put_u8(count);
        out.put_bytes(0, 6);
        for &identifier in identifiers {
            out.put_u32_le(identifier);
        }
        if !identifiers.len().is_multiple_of(2) {
            out.put_u32_le(0);
        }
    }

    fn read(bytes: &[u8], at: &mut usize) -> Result<Self, DecodeError> {
        let head = bytes
            .get(*at..*at + TARGET_BYTES)
            .ok_or(DecodeError::Short)?;
        let count = usize::from(head[9]);
        let qos = QoS::from_bits(head[8] & 3).ok_or(DecodeError::Invalid("QoS of a target"))?;
        let retain = RetainMark::from_bits(head[8] >> 2);
        *at += TARGET_BYTES;
        let identifiers = if count == 0 {
            None
        } else {
            let ids = bytes.get(*at..*at + count * 4).ok_or(DecodeError::Short)?;
            *at += (count * 4).next_multiple_of(8);
            let ids = ids.chunks_exact(4);
            Some(ids.map(|id| read_u32(id, 0)).collect::<Result<_, _>>()?)
        };
        Ok(Self {
            stream: read_u64(head, 0)?,
            qos,
            retain: retain.ok_or(DecodeError::Invalid("RETAIN of a target"))?,
            identifiers,
        })
    }
}

/// The targets of a topic: those that are stored for in stream order, then those of QoS 0. Many topics share one list.
#[derive(Debug, Default)]
pub(crate) struct TargetList {
    /// The targets.
    pub(crate) targets: Vec<Target>,
    stored: usize,
    /// Whether a subscription leaves out its own session's messages: then the list depends on the publisher.
    pub(crate) has_no_local: bool,
    /// How entries name the stored part (M8).
    pub(crate) set: Cell<SettledAs>,
}

impl TargetList {
    /// A list of which the first `stored` targets have QoS > 0.
    pub(crate) fn new(targets: Vec<Target>, stored: usize, has_no_local: bool) -> Self {
        Self {
            targets,
            stored,
            has_no_local,
            set: Cell::default(),
        }
    }

    /// One stream, whatever the QoS that was granted.
    pub(crate) fn of_one(target: Target) -> Self {
        Self::new(vec![target], 1, false)
    }

    /// Those with QoS > 0.
    pub(crate) fn stored(&self) -> &[Target] {
        &self.targets[..self.stored]
    }

    /// Those with QoS 0.
    pub(crate) fn routed(&self) -> &[Target] {
        &self.targets[self.stored..]
    }
}

/// How entries name a list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum SettledAs {
    /// Not yet written.
    #[default]
    Unwritten,
    /// Written in place once.
    Once,
    /// Written as a set.
    Set(u32),
}

/// How a publish names its targets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Targets<'a> {
    /// A set that was defined before.
    Set(u32),
    /// In place.
    Inline(&'a [Target]),
    /// Those of the publish before it in the entry.
    Same,
}

/// Where the targets of a publish are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TargetsAt {
    /// In a set.
    Set(u32),
    /// In the fact: as many, from this byte of the entry on.
    Inline(u16, usize),
    /// They are those of the publish before.
    Same,
}

/// Numbers of sets are lower: a table has a place for each, and a leader keeps few lists at a time.
pub(crate) const SETS_MAX: u32 = 1 << 20;

/// What makes a repeat known, as in [`AppendKey`].
pub(crate) type Key = AppendKey;

/// A record and where it goes.
#[derive(Debug)]
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

fn skip_target(fact: &[u8], at: &mut usize, trust: Trust) -> Result<(), DecodeError> {
    match trust {
        Trust::Own => {
            let head = fact
                .get(*at..*at + TARGET_BYTES)
                .ok_or(DecodeError::Short)?;
            *at += TARGET_BYTES + (usize::from(head[9]) * 4).next_multiple_of(8);
            Ok(())
        }
        Trust::Foreign => Target::read(fact, at).map(drop),
    }
}

/// The key that follows in the numbers of the same sender; none where there is none.
#[inline]
fn next_key(key: &Key) -> Option<Key> {
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

fn write_key(key: &Key, out: &mut impl BufMut) {
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

fn read_key(bytes: &[u8], kind: u8, at: usize) -> Result<Key, DecodeError> {
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

impl Fate {
    /// Whether the leader ended what nobody had: room that it had counted as free at once.
    pub(crate) const fn is_of_the_leader(self) -> bool {
        match self {
            Self::Expired | Self::Dropped => true,
            Self::Done | Self::Received | Self::Rejected | Self::Skipped => false,
        }
    }
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
