//! The facts that do not happen per message, written field by field.

use std::sync::Arc;

use courser_contract::{
    AppendKey, Cut, Epoch, GroupRef, HomeRef, LogIndex, PartitionId, Seq, SessionUid,
    SharedStrategy, SubscriptionOptions, WallMs, Will,
};

use super::{
    FACT_BYTES, Gather, Key, RARE, Target,
    gather::Haste,
    key::{read_key_canonical, write_key_canonical},
    packed::PackedTargets,
};
use crate::canonical::{Canonical, DecodeError, Reader, read_str, write_count, write_str};
use crate::group::Fact as GroupFact;

macro_rules! rare_facts {
    ($($(#[$doc:meta])* $tag:literal $name:ident { $($(#[$field_doc:meta])* $field:ident: $kind:ty,)* })*) => {
        /// A fact that does not happen per message.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub(crate) enum Rare {
            $($(#[$doc])* $name { $($(#[$field_doc])* $field: $kind,)* },)*
        }

        impl Rare {
            fn write_fields(&self, out: &mut Vec<u8>) {
                match self {
                    $(Self::$name { $($field,)* } => {
                        $tag.write(out);
                        $(Canonical::write($field, out);)*
                    })*
                }
            }

            fn read_fields(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
                Ok(match reader.read::<u8>()? {
                    $($tag => Self::$name { $($field: reader.read()?,)* },)*
                    _ => return Err(DecodeError::Invalid("kind of a rare fact")),
                })
            }
        }
    };
}

rare_facts! {
    /// First fact of a term (M5).
    1u8 TermBegun {}
    /// A list of targets gets a number (M8): as it was written before engine version 3, and is still read.
    2u8 SetDefined { set: u32, targets: Vec<Target>, }
    /// The number is free again.
    3u8 SetDropped { set: u32, }
    /// A numbered append of which nothing was stored (M14).
    4u8 Taken { key: Key, }
    /// A list of targets gets a number (M8).
    5u8 SetPacked { set: u32, targets: PackedTargets, }

    /// A session begins, attached.
    10u8 SessionOpened { session: SessionUid, client_id: Box<str>, attach: AttachFact, }
    /// A stored session is attached again; a will that was under way to being due is gone.
    11u8 SessionAttached { session: SessionUid, attach: AttachFact, }
    /// Its front let go.
    12u8 SessionDetached { session: SessionUid, expiry_seconds: u32, sent_limit: u64, ends_at: Option<WallMs>, will_due: Option<WallMs>, }
    /// The session and all that it holds is gone.
    13u8 SessionEnded { session: SessionUid, }
    /// The will is published by the facts that follow.
    14u8 WillTaken { session: SessionUid, }
    /// A session subscribes, or changes a subscription; scan 0: no retained messages are wanted.
    15u8 Subscribed { session: SessionUid, filter: Box<str>, share: Option<Box<str>>, options: SubscriptionOptions, identifier: Option<u32>, scan: u64, }
    /// A subscription is gone.
    16u8 Unsubscribed { session: SessionUid, filter: Box<str>, share: Option<Box<str>>, }
    /// A scan of retained messages went on in one partition (M34).
    17u8 ScanMoved { session: SessionUid, scan: u64, partition: PartitionId, state: ScanState, }
    /// A scan is at its end everywhere.
    18u8 ScanEnded { session: SessionUid, scan: u64, }
    /// The session belongs to a user from now on.
    19u8 SessionOwned { session: SessionUid, owner: Box<str>, }

    /// A QoS 2 publish is held (M28); the record follows.
    20u8 Held { session: SessionUid, packet_id: u16, hash: u64, }
    /// The hold is gone.
    21u8 Released { session: SessionUid, packet_id: u16, }
    /// The record before this fact goes to another partition, by its outbox (M19).
    22u8 Forward { to: PartitionId, keep_retained: bool, session: Option<SessionUid>, refusable: bool, cut: Cut, }
    /// A forward was answered.
    23u8 ForwardDone { to: PartitionId, seq: Seq, }

    /// The retained message of a topic is over; only if it is still that of this entry.
    30u8 RetainedExpired { topic: Box<str>, index: LogIndex, ordinal: u32, }

    /// A shared group begins.
    40u8 GroupMade { group: u64, share: Box<str>, filter: Box<str>, strategy: SharedStrategy, }
    /// A session joins, or changes what it asked for.
    41u8 GroupJoined { group: u64, member: HomeRef, options: SubscriptionOptions, identifier: Option<u32>, }
    /// A session leaves.
    42u8 GroupLeft { group: u64, member: HomeRef, ended: bool, }
    /// The last member left.
    43u8 GroupEnded { group: u64, }
    /// What is known of one of its messages.
    44u8 GroupFact { group: u64, fact: GroupFact, }
    /// A durable part gets the messages of its group from this cut on, and what the volatile part passes on (M36); 0: that part is
    /// gone with its process, and it gets all.
    45u8 GroupInherits { group: u64, cut: Cut, }
    /// It took what was passed on to it, below this number; the last so many messages of its stream. All: nothing else waits there.
    48u8 GroupTook { group: u64, next: u64, stored: u32, all: bool, }
    /// A volatile part gets nothing more.
    49u8 GroupClosed { group: u64, }
    /// A session of this partition left a group and the group must hear of it.
    46u8 LeaveBegun { request: u64, share: Box<str>, filter: Box<str>, member: SessionUid, ended: bool, part: Option<GroupRef>, }
    /// The group has heard of it.
    47u8 LeaveDone { request: u64, }
}

/// What a connection brings to its session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AttachFact {
    pub(crate) epoch: Epoch,
    pub(crate) expiry_seconds: u32,
    pub(crate) receive_maximum: u16,
    pub(crate) sent_limit: u64,
    pub(crate) will: Option<Box<Will>>,
}

/// How far a scan of retained messages is in one partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ScanState {
    /// Everything up to this topic was found.
    After(Box<str>),
    /// Nothing is left there.
    Finished,
}

impl Rare {
    /// Appends the fact; `scratch` is emptied.
    pub(crate) fn write(&self, gather: &mut Gather, haste: Haste, scratch: &mut Vec<u8>) {
        scratch.clear();
        scratch.resize(FACT_BYTES + 4, 0);
        self.write_fields(scratch);
        let fields =
            u32::try_from(scratch.len() - FACT_BYTES - 4).expect("a fact is far below 4 GiB");
        scratch.resize(scratch.len().next_multiple_of(8), 0);
        let len = u32::try_from(scratch.len()).expect("a fact is far below 4 GiB");
        scratch[0] = RARE;
        scratch[4..8].copy_from_slice(&len.to_le_bytes());
        scratch[8..12].copy_from_slice(&fields.to_le_bytes());
        gather.fact(scratch.len(), haste).copy_from_slice(scratch);
    }

    /// Reads what stands behind the head of the fact: the length of the fields, the fields, zero bytes.
    pub(super) fn read_framed(body: &[u8]) -> Result<Self, DecodeError> {
        let mut framed = Reader::new(body);
        let len = framed.count(1)?;
        let mut reader = Reader::new(framed.take(len)?);
        let fact = Self::read_fields(&mut reader)?;
        reader.finish()?;
        Ok(fact)
    }
}

impl<T: Canonical> Canonical for Vec<T> {
    const MIN_BYTES: usize = 4;

    fn write(&self, out: &mut Vec<u8>) {
        write_count(self.len(), out);
        self.iter().for_each(|item| item.write(out));
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let count = reader.count(T::MIN_BYTES)?;
        (0..count).map(|_| reader.read()).collect()
    }
}

impl Canonical for LogIndex {
    const MIN_BYTES: usize = 8;

    fn write(&self, out: &mut Vec<u8>) {
        self.0.write(out);
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self(reader.read()?))
    }
}

impl Canonical for Box<[u8]> {
    const MIN_BYTES: usize = 4;

    fn write(&self, out: &mut Vec<u8>) {
        write_count(self.len(), out);
        out.extend_from_slice(self);
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let len = reader.count(1)?;
        Ok(reader.take(len)?.into())
    }
}

impl Canonical for Box<Will> {
    const MIN_BYTES: usize = 19;

    fn write(&self, out: &mut Vec<u8>) {
        write_str(&self.topic, out);
        self.properties.write(out);
        self.payload.write(out);
        self.qos.write(out);
        self.retain.write(out);
        self.delay_seconds.write(out);
        self.expiry_seconds.write(out);
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self::new(Will {
            topic: read_str(reader)?.into(),
            properties: reader.read()?,
            payload: reader.read()?,
            qos: reader.read()?,
            retain: reader.read()?,
            delay_seconds: reader.read()?,
            expiry_seconds: reader.read()?,
        }))
    }
}

impl Canonical for AttachFact {
    const MIN_BYTES: usize = 23;

    fn write(&self, out: &mut Vec<u8>) {
        self.epoch.write(out);
        self.expiry_seconds.write(out);
        self.receive_maximum.write(out);
        self.sent_limit.write(out);
        self.will.write(out);
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            epoch: reader.read()?,
            expiry_seconds: reader.read()?,
            receive_maximum: reader.read()?,
            sent_limit: reader.read()?,
            will: reader.read()?,
        })
    }
}

impl Canonical for ScanState {
    const MIN_BYTES: usize = 1;

    fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::After(topic) => {
                0u8.write(out);
                topic.write(out);
            }
            Self::Finished => 1u8.write(out),
        }
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        match reader.read::<u8>()? {
            0 => Ok(Self::After(reader.read()?)),
            1 => Ok(Self::Finished),
            _ => Err(DecodeError::Invalid("state of a scan")),
        }
    }
}

impl Canonical for GroupFact {
    const MIN_BYTES: usize = 9;

    fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Assigned {
                seq,
                member,
                packet_id,
            } => {
                0u8.write(out);
                seq.write(out);
                member.write(out);
                packet_id.write(out);
            }
            Self::Unassigned { seq } => {
                1u8.write(out);
                seq.write(out);
            }
            Self::Received { seq } => {
                2u8.write(out);
                seq.write(out);
            }
            Self::Attempts { seq, attempts } => {
                3u8.write(out);
                seq.write(out);
                attempts.write(out);
            }
            Self::Done { seq } => {
                4u8.write(out);
                seq.write(out);
            }
        }
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(match reader.read::<u8>()? {
            0 => Self::Assigned {
                seq: reader.read()?,
                member: reader.read()?,
                packet_id: reader.read()?,
            },
            1 => Self::Unassigned {
                seq: reader.read()?,
            },
            2 => Self::Received {
                seq: reader.read()?,
            },
            3 => Self::Attempts {
                seq: reader.read()?,
                attempts: reader.read()?,
            },
            4 => Self::Done {
                seq: reader.read()?,
            },
            _ => return Err(DecodeError::Invalid("fact of a group")),
        })
    }
}

impl Canonical for Arc<[u32]> {
    const MIN_BYTES: usize = 4;

    fn write(&self, out: &mut Vec<u8>) {
        write_count(self.len(), out);
        self.iter().for_each(|item| item.write(out));
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let count = reader.count(4)?;
        (0..count).map(|_| reader.read()).collect()
    }
}

impl Canonical for Target {
    const MIN_BYTES: usize = 11;

    fn write(&self, out: &mut Vec<u8>) {
        self.stream.write(out);
        self.qos.write(out);
        (self.retain as u8).write(out);
        self.identifiers.write(out);
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            stream: reader.read()?,
            qos: reader.read()?,
            retain: super::RetainMark::from_bits(reader.read()?)
                .ok_or(DecodeError::Invalid("RETAIN of a target"))?,
            identifiers: reader.read()?,
        })
    }
}

impl Canonical for AppendKey {
    const MIN_BYTES: usize = 1;

    fn write(&self, out: &mut Vec<u8>) {
        write_key_canonical(self, out);
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        read_key_canonical(reader)
    }
}
