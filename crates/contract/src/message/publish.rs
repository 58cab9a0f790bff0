//! A publish on its way into a partition, and what becomes of it (M11, M14, M28).

#[cfg(doc)]
use crate::ToPartition;
use crate::{AppendNumber, Cut, Origin, PartitionId, Publish, Record, Seq};

/// A publish on its way into one partition. The partition's leader resolves the streams (M37).
#[derive(Clone, Copy, Debug)]
pub struct Append<'a> {
    /// Who waits for the answer.
    pub key: AppendKey,
    /// The message; borrowed, as it is the same for all partitions that get it.
    pub publish: &'a Publish<'a>,
    /// Whether this partition keeps the topic's retained message (M33): RETAIN is set and the topic's slot is here.
    pub keep_retained: bool,
    /// Whether its streams get it; false when only the retained message is meant.
    pub deliver: bool,
    /// The last cut of the receiver's shard that the publisher's shard had heard of when it matched.
    pub cut: Cut,
}

/// Who waits for the answer to an append, and what makes a repeat known (M14, M19).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AppendKey {
    /// Nobody: QoS 0, and volatile partitions that refuse nothing (M13).
    Unanswered,
    /// A shard: answered by [`PartitionEffects::settled`](crate::PartitionEffects::settled).
    Numbered {
        /// Who numbers.
        origin: Origin,
        /// Its number.
        number: AppendNumber,
        /// The origin's lowest unsettled number: everything below may be forgotten.
        floor: AppendNumber,
    },
    /// An outbox of a partition: answered by [`ToPartition::Forwarded`].
    Outbox {
        /// Partition of the outbox.
        source: PartitionId,
        /// Position in the outbox that leads here.
        seq: Seq,
        /// The source's committed floor.
        floor: Seq,
    },
}

/// What became of a publish at a destination (M11).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settled {
    /// Stored as its class says, or handed over.
    Ok,
    /// Not stored.
    Refused(Refusal),
}

/// Why something was not taken; each protocol has its own code for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Refusal {
    /// A stream, the retained store or the disk is full.
    QuotaExceeded,
    /// Not allowed.
    NotAuthorized,
    /// Longer than this place takes.
    TooLarge,
    /// The partition cannot serve now.
    Unavailable,
    /// Anything else.
    Unspecified,
}

/// A QoS 2 publish of a durable session: its home stores message, hold and places in the outboxes by one entry (M28).
#[derive(Clone, Debug)]
pub struct PublishedQos2 {
    /// Packet id of the hold.
    pub packet_id: u16,
    /// Hash of topic and payload: the same id with another hash is a client that lost its state.
    pub hash: u64,
    /// The message.
    pub record: Record,
    /// Where L1 sends it, the home's own partition included.
    pub destinations: crate::Destinations,
    /// For each of them what [`Append::cut`] says.
    pub cuts: crate::Cuts,
    /// What its PUBREC can say.
    pub pubrec: PubrecCan,
}

/// What a PUBREC says in the client's version (M28).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PubrecCan {
    /// 5.0: also that the message is refused, which ends the exchange (v5 [MQTT-4.3.3-9]).
    Refuse,
    /// 3.1.1: only that it is taken. The exchange of a message that is refused stays open, and the client sends it again on its next
    /// connection (v3 [MQTT-4.4.0-1]).
    OnlyAccept,
}
