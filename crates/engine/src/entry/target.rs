//! Where a publish goes: targets, their lists, and how an entry names them (M7, M8).

use std::{cell::Cell, sync::Arc};

use bytes::BufMut;
use courser_contract::{ClientHash, QoS};

use super::{Trust, read_u32, read_u64};
use crate::canonical::DecodeError;

const TARGET_BYTES: usize = 16;

/// Identifiers that one delivery carries at most: more than a session may have subscriptions, unless `mqtt.subscriptions_max` is set higher. One
/// with more that match gets the lowest ones.
pub(crate) const IDENTIFIERS_MAX: usize = 16_384;
/// Of a target that is written in place, whose number of them has a byte.
const IDENTIFIERS_IN_PLACE_MAX: usize = u8::MAX as usize;

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
    /// Whether an entry can say it in place; what is longer is written in sets only.
    #[inline]
    pub(crate) fn fits_in_place(&self) -> bool {
        let identifiers = self.identifiers.as_deref();
        identifiers.is_none_or(|all| all.len() <= IDENTIFIERS_IN_PLACE_MAX)
    }

    pub(super) fn encoded_len(&self) -> usize {
        let count = self.identifiers.as_ref().map_or(0, |ids| ids.len());
        TARGET_BYTES + (count * 4).next_multiple_of(8)
    }

    pub(super) fn write(&self, out: &mut impl BufMut) {
        let identifiers = self.identifiers.as_deref().unwrap_or(&[]);
        let count = u8::try_from(identifiers.len()).expect("longer lists are written in sets");
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

    pub(super) fn read(bytes: &[u8], at: &mut usize) -> Result<Self, DecodeError> {
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
    /// Clients with a subscription that leaves out their own messages, in order: for these publishers the list is another one.
    pub(crate) no_local: Box<[ClientHash]>,
    /// How entries name the stored part (M8).
    pub(crate) set: Cell<SettledAs>,
}

impl TargetList {
    /// A list of which the first `stored` targets have QoS > 0.
    pub(crate) fn new(targets: Vec<Target>, stored: usize, no_local: Box<[ClientHash]>) -> Self {
        Self {
            targets,
            stored,
            no_local,
            set: Cell::default(),
        }
    }

    /// A list of one message, which no topic has: what names it ends with the message.
    pub(crate) fn passing(
        targets: Vec<Target>,
        stored: usize,
        no_local: Box<[ClientHash]>,
    ) -> Self {
        let list = Self::new(targets, stored, no_local);
        list.set.set(SettledAs::Passing);
        list
    }

    /// One stream, whatever the QoS that was granted.
    pub(crate) fn of_one(target: Target) -> Self {
        Self::new(vec![target], 1, Box::default())
    }

    /// Whether the list is another one for this publisher.
    #[inline]
    pub(crate) fn leaves_out(&self, publisher: ClientHash) -> bool {
        !self.no_local.is_empty() && self.no_local.binary_search(&publisher).is_ok()
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
    /// In place, or as a set that is dropped again: nobody would know that it is not needed any more.
    Passing,
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

/// Steps over a target in the bytes of a fact; looks at it unless this process wrote it.
pub(super) fn skip_target(fact: &[u8], at: &mut usize, trust: Trust) -> Result<(), DecodeError> {
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
