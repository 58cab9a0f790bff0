//! The packets that are measured.
#![allow(dead_code)] // each bench takes its part

use courser_mqtt::codec::{
    Delivery, Frame, Limits, PACKET_BYTES_MAX, PacketId, Passthrough, ProtocolVersion, Publish,
    PublishTopic, Receiver, Rules, Split, TopicAlias, TopicName,
};

pub(crate) const TOPIC: &str = "site/7/line/3/machine/12/temperature";
pub(crate) const PAYLOAD: [u8; 64] = [0x55; 64];

/// A user property and a content type, as a publisher may send them.
pub(crate) const PROPERTIES: &[u8] =
    b"\x03\x00\x10application/json\x26\x00\x05trace\x00\x08a1b2c3d4";

pub(crate) fn message(delivery: Delivery) -> Publish<'static> {
    let mut publish = Publish::new(TopicName::new(TOPIC).expect("a topic name"), &PAYLOAD);
    publish.delivery = delivery;
    publish
}

pub(crate) fn qos1() -> Delivery {
    Delivery::AtLeastOnce {
        packet_id: PacketId::MIN,
        dup: false,
    }
}

pub(crate) fn with_properties(delivery: Delivery) -> Publish<'static> {
    let mut publish = message(delivery);
    publish.passthrough = Passthrough::new(PROPERTIES, &Limits::DEFAULT).expect("valid");
    publish
}

pub(crate) fn with_alias(delivery: Delivery) -> Publish<'static> {
    let mut publish = message(delivery);
    publish.topic = PublishTopic::Alias(TopicAlias::new(3).expect("not zero"));
    publish
}

pub(crate) fn wire(publish: &Publish<'_>, version: ProtocolVersion) -> Vec<u8> {
    let mut out = Vec::new();
    courser_mqtt::codec::Packet::Publish(*publish)
        .encode(&Receiver::new(version), &mut out)
        .expect("valid");
    out
}

/// Cut and decode, as the data path does; says something of every field so that none is left out.
#[inline(never)]
pub(crate) fn parse(bytes: &[u8], rules: &Rules) -> usize {
    let Ok(Split::Whole(frame)) = Frame::split(bytes, PACKET_BYTES_MAX) else {
        return 0;
    };
    match Publish::decode(&frame, rules) {
        Ok(publish) => {
            publish.payload.len()
                + publish.topic.name().map_or(0, |name| name.as_str().len())
                + usize::from(publish.delivery.packet_id().map_or(0, PacketId::get))
                + publish.passthrough.len()
        }
        Err(_) => 0,
    }
}
