//! A front with a shell that records, a client that writes packets with the codec, and both sides as lines of text.

mod client;
mod lines;
mod shell;

use courser_contract::{
    Attached, DeliverFlags, DeliverTo, Epoch, FrontId, GroupRef, HomeRef, PartitionId, QoS,
    RecordView, Seq, SessionUid, ShardId, Source, ToFront,
};

pub(super) use self::client::{Client, Hello};
pub(super) use self::lines::{lines, texts};
use crate::codec::{
    self, PacketId, PropertiesBuilder, Property, PropertyScope, ProtocolVersion, PublishTopic,
    TopicAlias, TopicName,
};

pub(super) use ProtocolVersion::{V5, V311};

/// Where the slot of every client id is.
pub(super) const HOME: PartitionId = PartitionId(3);
/// The volatile partition of the front's shard.
pub(super) const VOLATILE: PartitionId = PartitionId::volatile_of(ShardId(0));
/// Home of a durable session.
pub(super) const DURABLE: HomeRef = HomeRef {
    partition: HOME,
    session: SessionUid(5),
};
/// Home of a clean session.
pub(super) const CLEAN: HomeRef = HomeRef {
    partition: VOLATILE,
    session: SessionUid(9),
};
pub(super) const GROUP: GroupRef = GroupRef {
    partition: PartitionId(4),
    group: 77,
};
const FRONT: FrontId = FrontId {
    shard: ShardId(0),
    slot: 1,
    generation: 1,
};

pub(super) fn attached(home: HomeRef, epoch: u64, present: bool) -> ToFront {
    ToFront::Attached(Attached {
        home,
        epoch: Epoch(epoch),
        present,
        next: Seq(0),
        groups: Vec::new(),
    })
}

pub(super) fn packet_id(id: u16) -> PacketId {
    PacketId::new(id).unwrap()
}

pub(super) fn block(scope: PropertyScope, properties: &[Property<'_>]) -> PropertiesBuilder {
    let mut builder = PropertiesBuilder::new(scope);
    for &property in properties {
        builder.push(property).unwrap();
    }
    builder
}

pub(super) fn publish(topic: &str, qos: u8, id: u16) -> codec::Publish<'_> {
    let mut packet = codec::Publish::new(TopicName::new(topic).unwrap(), b"x");
    packet.delivery = match qos {
        0 => codec::Delivery::AtMostOnce,
        1 => codec::Delivery::AtLeastOnce {
            packet_id: packet_id(id),
            dup: false,
        },
        _ => codec::Delivery::ExactlyOnce {
            packet_id: packet_id(id),
            dup: false,
        },
    };
    packet
}

pub(super) fn aliased(topic: Option<&str>, alias: u16) -> PublishTopic<'_> {
    let alias = TopicAlias::new(alias).unwrap();
    match topic {
        Some(topic) => PublishTopic::NameAndAlias(TopicName::new(topic).unwrap(), alias),
        None => PublishTopic::Alias(alias),
    }
}

pub(super) fn view<'a>(topic: &'a str, qos: QoS, payload: &'a [u8]) -> RecordView<'a> {
    RecordView {
        topic,
        properties: &[],
        payload,
        qos,
        retain: false,
        expires_at: None,
        publisher: None,
        author: None,
    }
}

pub(super) fn to_front(qos: QoS) -> DeliverTo {
    DeliverTo {
        front: FRONT,
        source: None,
        packet_id: None,
        qos,
        flags: DeliverFlags::default(),
        identifiers: None,
    }
}

pub(super) fn to_session(seq: u64, qos: QoS) -> DeliverTo {
    DeliverTo {
        source: Some((Source::Session, Seq(seq))),
        ..to_front(qos)
    }
}

pub(super) fn to_group(seq: u64, qos: QoS) -> DeliverTo {
    DeliverTo {
        source: Some((Source::Group(GROUP), Seq(seq))),
        ..to_front(qos)
    }
}
