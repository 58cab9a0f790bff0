//! Packets of a client, written with the codec.

use std::num::NonZeroU16;

use courser_mqtt::codec::{
    Binary, Connect, Delivery, Disconnect, MqttStr, Packet, PacketId, Properties,
    PropertiesBuilder, Property, PropertyScope, ProtocolVersion, Puback, Pubcomp, Publish, Pubrec,
    Pubrel, QoS, ReasonCode, Receiver, Subscribe, SubscriptionId, SubscriptionOptions,
    SubscriptionsBuilder, TopicFilter, TopicFiltersBuilder, TopicName, Unsubscribe, Will,
};

/// What a CONNECT says.
#[derive(Clone, Debug)]
pub(crate) struct Hello<'a> {
    pub(crate) version: ProtocolVersion,
    pub(crate) client_id: &'a str,
    pub(crate) clean: bool,
    pub(crate) expiry_seconds: u32,
    pub(crate) receive_maximum: Option<u16>,
    pub(crate) will: Option<HelloWill>,
}

/// The will of a CONNECT.
#[derive(Clone, Debug)]
pub(crate) struct HelloWill {
    pub(crate) topic: String,
    pub(crate) payload: Vec<u8>,
    pub(crate) qos: QoS,
    pub(crate) retain: bool,
    pub(crate) delay_seconds: u32,
}

fn encode(version: ProtocolVersion, packet: &Packet<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    packet
        .encode(&Receiver::new(version), &mut out)
        .expect("the model sends only what its version can say");
    out
}

fn id(packet_id: u16) -> PacketId {
    PacketId::new(packet_id).expect("packet ids are counted from 1")
}

fn push(builder: &mut PropertiesBuilder, property: Property<'_>) {
    builder
        .push(property)
        .expect("the property is allowed here");
}

pub(crate) fn connect(hello: &Hello<'_>) -> Vec<u8> {
    let v5 = hello.version == ProtocolVersion::V5;
    let mut properties = PropertiesBuilder::new(PropertyScope::Connect);
    let mut will_properties = PropertiesBuilder::new(PropertyScope::Will);
    if v5 {
        push(
            &mut properties,
            Property::SessionExpiryInterval(hello.expiry_seconds),
        );
        if let Some(most) = hello.receive_maximum.and_then(NonZeroU16::new) {
            push(&mut properties, Property::ReceiveMaximum(most));
        }
    }
    let will = hello.will.as_ref().map(|will| {
        if v5 {
            push(
                &mut will_properties,
                Property::WillDelayInterval(will.delay_seconds),
            );
        }
        Will {
            topic: TopicName::new(&will.topic).expect("a topic of the model"),
            payload: Binary::new(&will.payload).expect("a short payload"),
            qos: will.qos,
            retain: will.retain,
            properties: will_properties.properties(),
        }
    });
    let packet = Packet::Connect(Connect {
        version: hello.version,
        clean_start: hello.clean,
        keep_alive_seconds: 0,
        properties: properties.properties(),
        client_id: MqttStr::new(hello.client_id).expect("a client id of the model"),
        will,
        user_name: None,
        password: None,
    });
    encode(hello.version, &packet)
}

/// A PUBLISH of the model.
#[derive(Clone, Debug)]
pub(crate) struct Outgoing<'a> {
    pub(crate) topic: &'a str,
    pub(crate) payload: &'a [u8],
    pub(crate) qos: QoS,
    pub(crate) retain: bool,
    pub(crate) packet_id: u16,
    pub(crate) dup: bool,
    /// Message Expiry Interval.
    pub(crate) life_seconds: Option<u32>,
}

pub(crate) fn publish(version: ProtocolVersion, outgoing: &Outgoing<'_>) -> Vec<u8> {
    let topic = TopicName::new(outgoing.topic).expect("a topic of the model");
    let mut publish = Publish::new(topic, outgoing.payload);
    publish.retain = outgoing.retain;
    publish.message_expiry_interval = outgoing.life_seconds;
    publish.delivery = match outgoing.qos {
        QoS::AtMostOnce => Delivery::AtMostOnce,
        QoS::AtLeastOnce => Delivery::AtLeastOnce {
            packet_id: id(outgoing.packet_id),
            dup: outgoing.dup,
        },
        QoS::ExactlyOnce => Delivery::ExactlyOnce {
            packet_id: id(outgoing.packet_id),
            dup: outgoing.dup,
        },
    };
    encode(version, &Packet::Publish(publish))
}

pub(crate) fn puback(version: ProtocolVersion, packet_id: u16) -> Vec<u8> {
    encode(version, &Packet::Puback(Puback::new(id(packet_id))))
}

pub(crate) fn pubrec(version: ProtocolVersion, packet_id: u16) -> Vec<u8> {
    encode(version, &Packet::Pubrec(Pubrec::new(id(packet_id))))
}

pub(crate) fn pubrel(version: ProtocolVersion, packet_id: u16) -> Vec<u8> {
    encode(version, &Packet::Pubrel(Pubrel::new(id(packet_id))))
}

pub(crate) fn pubcomp(version: ProtocolVersion, packet_id: u16) -> Vec<u8> {
    encode(version, &Packet::Pubcomp(Pubcomp::new(id(packet_id))))
}

pub(crate) fn subscribe(
    version: ProtocolVersion,
    packet_id: u16,
    filters: &[(String, SubscriptionOptions)],
    identifier: Option<u32>,
) -> Vec<u8> {
    let mut builder = SubscriptionsBuilder::new();
    for (filter, options) in filters {
        builder.push(
            TopicFilter::new(filter).expect("a filter of the model"),
            *options,
        );
    }
    let mut properties = PropertiesBuilder::new(PropertyScope::Subscribe);
    if let Some(identifier) = identifier.and_then(SubscriptionId::new) {
        push(
            &mut properties,
            Property::SubscriptionIdentifier(identifier),
        );
    }
    let packet = Packet::Subscribe(Subscribe {
        packet_id: id(packet_id),
        properties: properties.properties(),
        subscriptions: builder.subscriptions(),
    });
    encode(version, &packet)
}

pub(crate) fn unsubscribe(version: ProtocolVersion, packet_id: u16, filter: &str) -> Vec<u8> {
    let mut builder = TopicFiltersBuilder::new();
    builder.push(TopicFilter::new(filter).expect("a filter of the model"));
    let packet = Packet::Unsubscribe(Unsubscribe {
        packet_id: id(packet_id),
        properties: Properties::EMPTY,
        filters: builder.filters(),
    });
    encode(version, &packet)
}

pub(crate) fn disconnect(version: ProtocolVersion, with_will: bool) -> Vec<u8> {
    let reason = if with_will {
        ReasonCode::DisconnectWithWillMessage
    } else {
        ReasonCode::NORMAL_DISCONNECTION
    };
    encode(version, &Packet::Disconnect(Disconnect::new(reason)))
}
