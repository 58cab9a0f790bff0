//! Whether two encodings mean the same: properties in any order (user properties in theirs), and absent where a value is the default.

use courser_mqtt::codec::{
    Packet, PayloadFormat, Properties, Property, PropertyId, ProtocolVersion, Sender,
};

/// Whether `returned`, read by us, means what `packet` means.
#[must_use]
pub fn same(
    packet: &Packet<'_>,
    returned: &[u8],
    version: ProtocolVersion,
    sender: Sender,
) -> bool {
    crate::ours(returned, version, sender)
        .is_ok_and(|returned| meaning(packet) == meaning(&returned))
}

/// A text that two packets share when they mean the same.
#[must_use]
pub fn meaning(packet: &Packet<'_>) -> String {
    let mut bare = *packet;
    let properties = take_properties(&mut bare);
    let mut text = format!("{bare:?}");
    for properties in properties {
        text.push_str(&sorted(properties));
    }
    if let Packet::Publish(publish) = packet {
        let mut passing: Vec<_> = publish.passthrough.iter().collect();
        passing.sort_by_key(Property::id);
        passing.retain(|property| !is_default(property));
        text.push_str(&format!("{passing:?}"));
    }
    text
}

/// Removes the blocks that are compared apart.
fn take_properties<'a>(packet: &mut Packet<'a>) -> Vec<Properties<'a>> {
    let mut taken = Vec::new();
    let mut take = |properties: &mut Properties<'a>| taken.push(std::mem::take(properties));
    match packet {
        Packet::Connect(connect) => {
            take(&mut connect.properties);
            if let Some(will) = &mut connect.will {
                take(&mut will.properties);
            }
        }
        Packet::Connack(connack) => take(&mut connack.properties),
        Packet::Publish(publish) => publish.passthrough = Default::default(),
        Packet::Puback(ack) => take(&mut ack.properties),
        Packet::Pubrec(ack) => take(&mut ack.properties),
        Packet::Pubrel(ack) => take(&mut ack.properties),
        Packet::Pubcomp(ack) => take(&mut ack.properties),
        Packet::Subscribe(subscribe) => take(&mut subscribe.properties),
        Packet::Suback(suback) => take(&mut suback.properties),
        Packet::Unsubscribe(unsubscribe) => take(&mut unsubscribe.properties),
        Packet::Unsuback(unsuback) => take(&mut unsuback.properties),
        Packet::Disconnect(disconnect) => take(&mut disconnect.properties),
        Packet::Auth(auth) => take(&mut auth.properties),
        Packet::Pingreq(_) | Packet::Pingresp(_) => {}
    }
    taken
}

fn sorted(properties: Properties<'_>) -> String {
    let mut all: Vec<_> = properties.iter().collect();
    all.sort_by_key(Property::id);
    all.retain(|property| !is_default(property));
    // Secrets do not print themselves.
    let data = properties
        .authentication_data()
        .map(|data| data.reveal().to_vec());
    format!("{all:?}{data:?}")
}

/// Values that the standard gives to an absent property.
fn is_default(property: &Property<'_>) -> bool {
    match property {
        Property::PayloadFormatIndicator(format) => *format == PayloadFormat::Bytes,
        Property::RequestProblemInformation(value)
        | Property::RetainAvailable(value)
        | Property::WildcardSubscriptionAvailable(value)
        | Property::SubscriptionIdentifierAvailable(value)
        | Property::SharedSubscriptionAvailable(value) => *value,
        Property::RequestResponseInformation(value) => !value,
        Property::ReceiveMaximum(value) => value.get() == u16::MAX,
        Property::TopicAliasMaximum(value) => *value == 0,
        Property::WillDelayInterval(value) => *value == 0,
        other => {
            other.id() == PropertyId::SessionExpiryInterval
                && matches!(other, Property::SessionExpiryInterval(0))
        }
    }
}
