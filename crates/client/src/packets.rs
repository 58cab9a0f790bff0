//! Packets that a client sends, from what its user gave.

use courser_mqtt::codec::{
    Binary, Connect, DecodeError, Delivery, EncodeError, Limits, MqttStr, Packet, PacketId,
    Passthrough, PayloadFormat, PropertiesBuilder, Property, PropertyError, PropertyScope,
    ProtocolVersion, Publish, PublishTopic, QoS, Receiver, Secret, Subscribe, SubscriptionId,
    SubscriptionIds, SubscriptionOptions, SubscriptionsBuilder, TopicFilter, TopicFiltersBuilder,
    TopicName, Unsubscribe, Will as ConnectWill,
};

use crate::{ClientError, Filter, Message, MessageProperty, Options};

impl From<DecodeError> for ClientError {
    fn from(error: DecodeError) -> Self {
        Self::Options(error.to_string())
    }
}

impl From<EncodeError> for ClientError {
    fn from(error: EncodeError) -> Self {
        Self::Options(error.to_string())
    }
}

impl From<PropertyError> for ClientError {
    fn from(error: PropertyError) -> Self {
        Self::Options(error.to_string())
    }
}

/// Appends CONNECT.
pub(crate) fn connect(
    options: &Options,
    version: ProtocolVersion,
    out: &mut Vec<u8>,
) -> Result<(), ClientError> {
    let mut properties = PropertiesBuilder::new(PropertyScope::Connect);
    if version == ProtocolVersion::V5 && options.session_expiry > 0 {
        properties.push(Property::SessionExpiryInterval(options.session_expiry))?;
    }
    let too_long =
        |what: &str| ClientError::Options(format!("the {what} is longer than 65535 bytes"));
    let will = match &options.will {
        None => None,
        Some(will) => Some(ConnectWill {
            topic: TopicName::new(&will.topic)?,
            payload: Binary::new(&will.payload).ok_or_else(|| too_long("will"))?,
            qos: will.qos,
            retain: will.retain,
            properties: courser_mqtt::codec::Properties::EMPTY,
        }),
    };
    let password = match &options.password {
        None => None,
        Some(password) => Some(Secret::new(password).ok_or_else(|| too_long("password"))?),
    };
    let packet = Packet::Connect(Connect {
        version,
        clean_start: options.clean_start,
        keep_alive_seconds: options.keep_alive,
        properties: properties.properties(),
        client_id: MqttStr::new(&options.client_id)?,
        will,
        user_name: options.username.as_deref().map(MqttStr::new).transpose()?,
        password,
    });
    packet.encode(&Receiver::new(version), out)?;
    Ok(())
}

/// Whether a message was sent before, under the same packet id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Try {
    First,
    Again,
}

/// Appends PUBLISH.
pub(crate) fn publish(
    message: &Message,
    (packet_id, which): (PacketId, Try),
    receiver: &Receiver,
    out: &mut Vec<u8>,
) -> Result<(), ClientError> {
    let (block, message_expiry_interval) = match receiver.version {
        ProtocolVersion::V5 => message_properties(message)?,
        ProtocolVersion::V311 => (PropertiesBuilder::new(PropertyScope::Publish), None),
    };
    let dup = which == Try::Again;
    let delivery = match message.qos {
        QoS::AtMostOnce => Delivery::AtMostOnce,
        QoS::AtLeastOnce => Delivery::AtLeastOnce { packet_id, dup },
        QoS::ExactlyOnce => Delivery::ExactlyOnce { packet_id, dup },
    };
    let packet = Packet::Publish(Publish {
        delivery,
        retain: message.retain,
        topic: PublishTopic::Name(TopicName::new(&message.topic)?),
        message_expiry_interval,
        subscription_ids: SubscriptionIds::NONE,
        passthrough: Passthrough::new(block.properties().as_bytes(), &Limits::STANDARD)?,
        payload: &message.payload,
    });
    packet.encode(receiver, out)?;
    Ok(())
}

fn message_properties(message: &Message) -> Result<(PropertiesBuilder, Option<u32>), ClientError> {
    let mut block = PropertiesBuilder::new(PropertyScope::Publish);
    let mut expiry = None;
    for property in &message.properties {
        let one = match property {
            MessageProperty::MessageExpiry(seconds) => {
                expiry = Some(*seconds);
                continue;
            }
            // Only received messages have these.
            MessageProperty::SubscriptionId(_) | MessageProperty::TopicAlias(_) => continue,
            MessageProperty::PayloadIsText(is) => Property::PayloadFormatIndicator(if *is {
                PayloadFormat::Utf8
            } else {
                PayloadFormat::Bytes
            }),
            MessageProperty::ContentType(kind) => Property::ContentType(MqttStr::new(kind)?),
            MessageProperty::ResponseTopic(topic) => {
                Property::ResponseTopic(TopicName::new(topic)?)
            }
            MessageProperty::CorrelationData(data) => {
                Property::CorrelationData(Binary::new(data).ok_or_else(|| {
                    ClientError::Options("correlation data of more than 65535 bytes".into())
                })?)
            }
            MessageProperty::User(name, value) => {
                Property::UserProperty(MqttStr::new(name)?, MqttStr::new(value)?)
            }
        };
        block.push(one)?;
    }
    Ok((block, expiry))
}

/// Appends SUBSCRIBE.
pub(crate) fn subscribe(
    filters: &[Filter],
    identifier: Option<u32>,
    packet_id: PacketId,
    receiver: &Receiver,
    out: &mut Vec<u8>,
) -> Result<(), ClientError> {
    let v5 = receiver.version == ProtocolVersion::V5;
    let mut properties = PropertiesBuilder::new(PropertyScope::Subscribe);
    if let Some(number) = identifier.filter(|_| v5) {
        let id = SubscriptionId::new(number);
        let id = id.ok_or_else(|| {
            ClientError::Options("a subscription identifier is 1 to 268435455".into())
        })?;
        properties.push(Property::SubscriptionIdentifier(id))?;
    }
    let mut list = SubscriptionsBuilder::default();
    for filter in filters {
        let mut options = SubscriptionOptions::new(filter.qos);
        options.no_local = v5 && filter.no_local;
        options.retain_as_published = v5 && filter.retain_as_published;
        list.push(TopicFilter::new(&filter.filter)?, options);
    }
    let packet = Packet::Subscribe(Subscribe {
        packet_id,
        properties: properties.properties(),
        subscriptions: list.subscriptions(),
    });
    packet.encode(receiver, out)?;
    Ok(())
}

/// Appends UNSUBSCRIBE.
pub(crate) fn unsubscribe(
    filters: &[String],
    packet_id: PacketId,
    receiver: &Receiver,
    out: &mut Vec<u8>,
) -> Result<(), ClientError> {
    let mut list = TopicFiltersBuilder::default();
    for filter in filters {
        list.push(TopicFilter::new(filter)?);
    }
    let packet = Packet::Unsubscribe(Unsubscribe {
        packet_id,
        properties: courser_mqtt::codec::Properties::EMPTY,
        filters: list.filters(),
    });
    packet.encode(receiver, out)?;
    Ok(())
}

/// A received PUBLISH as its user sees it. An alias must have been resolved to `topic` by the caller.
pub(crate) fn message(publish: &Publish<'_>, topic: &str) -> Message {
    let mut properties = Vec::new();
    properties.extend(
        publish
            .message_expiry_interval
            .map(MessageProperty::MessageExpiry),
    );
    properties.extend(
        publish
            .topic
            .alias()
            .map(|alias| MessageProperty::TopicAlias(alias.get())),
    );
    properties.extend(
        publish
            .subscription_ids
            .iter()
            .map(|id| MessageProperty::SubscriptionId(id.get())),
    );
    properties.extend(
        publish
            .passthrough
            .iter()
            .filter_map(|property| match property {
                Property::PayloadFormatIndicator(format) => Some(MessageProperty::PayloadIsText(
                    format == PayloadFormat::Utf8,
                )),
                Property::ContentType(kind) => {
                    Some(MessageProperty::ContentType(kind.as_str().into()))
                }
                Property::ResponseTopic(topic) => {
                    Some(MessageProperty::ResponseTopic(topic.as_str().into()))
                }
                Property::CorrelationData(data) => {
                    Some(MessageProperty::CorrelationData(data.as_bytes().into()))
                }
                Property::UserProperty(name, value) => Some(MessageProperty::User(
                    name.as_str().into(),
                    value.as_str().into(),
                )),
                _ => None,
            }),
    );
    Message {
        topic: topic.into(),
        payload: publish.payload.into(),
        qos: publish.delivery.qos(),
        retain: publish.retain,
        duplicate: publish.delivery.dup(),
        packet_id: publish.delivery.packet_id().map(PacketId::get),
        properties,
    }
}
