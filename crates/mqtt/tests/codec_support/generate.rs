//! Any valid packet from any bytes: one generator for property tests, fuzzing and the comparison with other codecs.
//!
//! Bytes say every choice, so that a shorter or smaller input gives a simpler packet; when they run out, zeros follow.
#![allow(dead_code)] // each user takes its part

use std::num::{NonZeroU16, NonZeroU32};

use courser_mqtt::codec::*;

/// A stream of choices.
pub(crate) struct Choices<'a> {
    bytes: &'a [u8],
}

impl<'a> Choices<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    pub(crate) fn byte(&mut self) -> u8 {
        match self.bytes.split_first() {
            Some((&byte, rest)) => {
                self.bytes = rest;
                byte
            }
            None => 0,
        }
    }

    /// Below `end`, which is at most 256.
    fn below(&mut self, end: usize) -> usize {
        usize::from(self.byte()) % end
    }

    fn flag(&mut self) -> bool {
        self.byte() & 1 == 1
    }

    fn u16(&mut self) -> u16 {
        u16::from_be_bytes([self.byte(), self.byte()])
    }

    /// Small, large and extreme numbers alike.
    fn u32(&mut self) -> u32 {
        match self.below(4) {
            0 => u32::from(self.byte()),
            1 => u32::from(self.u16()),
            2 => u32::MAX - u32::from(self.byte()),
            _ => u32::from(self.u16()) << 16 | u32::from(self.u16()),
        }
    }

    fn packet_id(&mut self) -> PacketId {
        PacketId::new(self.u16().max(1)).expect("not zero")
    }

    fn qos(&mut self) -> QoS {
        QoS::from_number(self.below(3) as u8).expect("below 3")
    }

    fn bytes(&mut self) -> Vec<u8> {
        let len = match self.below(8) {
            0..=5 => self.below(16),
            6 => self.below(200),
            _ => usize::from(self.u16()) % 5000,
        };
        (0..len).map(|_| self.byte()).collect()
    }

    fn character(&mut self) -> char {
        const ODD: [char; 8] = [
            'ä',
            '€',
            '日',
            '\u{10FFFF}',
            '\u{FEFF}',
            '\u{1}',
            '\u{7F}',
            '💡',
        ];
        match self.byte() {
            byte @ 0x20..=0x7E => char::from(byte),
            byte @ 0x80..=0x8F => ODD[usize::from(byte) % ODD.len()],
            byte => char::from(b'a' + byte % 26),
        }
    }

    fn text(&mut self) -> String {
        let len = self.below(12);
        (0..len).map(|_| self.character()).collect()
    }

    fn level(&mut self) -> String {
        let text = self.text();
        text.replace(['+', '#', '/'], "x")
    }

    fn topic_name(&mut self) -> String {
        let mut name = self.level();
        for _ in 0..self.below(4) {
            name.push('/');
            name.push_str(&self.level());
        }
        if name.is_empty() { "t".into() } else { name }
    }

    fn topic_filter(&mut self) -> String {
        let mut filter = match self.below(8) {
            0 => format!("$share/g{}/", self.level()),
            _ => String::new(),
        };
        filter.push('f');
        for _ in 0..self.below(4) {
            filter.push('/');
            filter.push_str(&match self.below(4) {
                0 => "+".into(),
                _ => self.level(),
            });
        }
        if self.below(4) == 0 {
            filter.push_str("/#");
        }
        filter
    }

    fn property_id(&mut self) -> PropertyId {
        PropertyId::ALL[self.below(PropertyId::ALL.len())]
    }

    /// A value for this property, shown to `use_it`.
    fn property<R>(&mut self, id: PropertyId, use_it: impl FnOnce(Property<'_>) -> R) -> R {
        let (first, second) = (self.text(), self.text());
        let (text, other) = (mqtt(&first), mqtt(&second));
        let topic = self.topic_name();
        let bytes = self.bytes();
        let number = self.u32();
        let short = number as u16;
        let (flag, format) = (
            number % 2 == 1,
            [PayloadFormat::Bytes, PayloadFormat::Utf8][number as usize % 2],
        );
        use_it(match id {
            PropertyId::PayloadFormatIndicator => Property::PayloadFormatIndicator(format),
            PropertyId::MessageExpiryInterval => Property::MessageExpiryInterval(number),
            PropertyId::ContentType => Property::ContentType(text),
            PropertyId::ResponseTopic => {
                Property::ResponseTopic(TopicName::new(&topic).expect("a topic name"))
            }
            PropertyId::CorrelationData => {
                Property::CorrelationData(Binary::new(&bytes).expect("short"))
            }
            PropertyId::SubscriptionIdentifier => Property::SubscriptionIdentifier(sub_id(number)),
            PropertyId::SessionExpiryInterval => Property::SessionExpiryInterval(number),
            PropertyId::AssignedClientIdentifier => Property::AssignedClientIdentifier(text),
            PropertyId::ServerKeepAlive => Property::ServerKeepAlive(short),
            PropertyId::AuthenticationMethod => Property::AuthenticationMethod(text),
            PropertyId::AuthenticationData => {
                Property::AuthenticationData(Secret::new(&bytes).expect("short"))
            }
            PropertyId::RequestProblemInformation => Property::RequestProblemInformation(flag),
            PropertyId::WillDelayInterval => Property::WillDelayInterval(number),
            PropertyId::RequestResponseInformation => Property::RequestResponseInformation(flag),
            PropertyId::ResponseInformation => Property::ResponseInformation(text),
            PropertyId::ServerReference => Property::ServerReference(text),
            PropertyId::ReasonString => Property::ReasonString(text),
            PropertyId::ReceiveMaximum => {
                Property::ReceiveMaximum(NonZeroU16::new(short.max(1)).expect("not zero"))
            }
            PropertyId::TopicAliasMaximum => Property::TopicAliasMaximum(short),
            PropertyId::TopicAlias => Property::TopicAlias(alias(short)),
            PropertyId::MaximumQos => {
                Property::MaximumQos([QoS::AtMostOnce, QoS::AtLeastOnce][number as usize % 2])
            }
            PropertyId::RetainAvailable => Property::RetainAvailable(flag),
            PropertyId::UserProperty => Property::UserProperty(text, other),
            PropertyId::MaximumPacketSize => {
                Property::MaximumPacketSize(NonZeroU32::new(number.max(1)).expect("not zero"))
            }
            PropertyId::WildcardSubscriptionAvailable => {
                Property::WildcardSubscriptionAvailable(flag)
            }
            PropertyId::SubscriptionIdentifierAvailable => {
                Property::SubscriptionIdentifierAvailable(flag)
            }
            PropertyId::SharedSubscriptionAvailable => Property::SharedSubscriptionAvailable(flag),
        })
    }

    /// A valid block: what does not belong there is left out by the builder itself.
    fn properties(&mut self, scope: PropertyScope, version: ProtocolVersion) -> PropertiesBuilder {
        let mut builder = PropertiesBuilder::new(scope);
        if version == ProtocolVersion::V311 {
            return builder;
        }
        if scope == PropertyScope::Auth {
            self.property(PropertyId::AuthenticationMethod, |property| {
                builder.push(property).expect("AUTH has a method");
            });
        }
        for _ in 0..self.below(9) {
            let id = self.property_id();
            let lone_data = id == PropertyId::AuthenticationData
                && builder.properties().authentication_method().is_none();
            if lone_data || !id.allowed_in(scope) {
                continue;
            }
            self.property(id, |property| {
                let _repeated = builder.push(property);
            });
        }
        builder
    }

    fn reason(
        &mut self,
        packet: PacketType,
        sender: Sender,
        version: ProtocolVersion,
    ) -> ReasonCode {
        if version == ProtocolVersion::V311 {
            return match packet {
                PacketType::Connack => {
                    ReasonCode::from_connack_return_code(self.below(6) as u8).expect("below 6")
                }
                _ => ReasonCode::Success,
            };
        }
        let allowed: Vec<_> = ReasonCode::ALL
            .iter()
            .copied()
            .filter(|code| code.allowed_from(packet, sender))
            .collect();
        allowed[self.below(allowed.len())]
    }

    fn codes(&mut self, packet: PacketType, version: ProtocolVersion) -> Vec<u8> {
        (0..=self.below(4))
            .map(|_| match version {
                ProtocolVersion::V311 => [0, 1, 2, 0x80][self.below(4)],
                ProtocolVersion::V5 => self.reason(packet, Sender::Server, version).byte(),
            })
            .collect()
    }

    fn delivery(&mut self) -> Delivery {
        let (packet_id, dup) = (self.packet_id(), self.flag());
        match self.qos() {
            QoS::AtMostOnce => Delivery::AtMostOnce,
            QoS::AtLeastOnce => Delivery::AtLeastOnce { packet_id, dup },
            QoS::ExactlyOnce => Delivery::ExactlyOnce { packet_id, dup },
        }
    }
}

fn mqtt(text: &str) -> MqttStr<'_> {
    MqttStr::new(text).expect("no U+0000 and short")
}

fn sub_id(number: u32) -> SubscriptionId {
    SubscriptionId::new((number % VARINT_MAX).max(1)).expect("in range")
}

fn alias(number: u16) -> TopicAlias {
    TopicAlias::new(number.max(1)).expect("not zero")
}

/// Makes a valid packet of this type, as `sender` may send it, and shows it to `use_it`.
pub(crate) fn with_packet<R>(
    choices: &mut Choices<'_>,
    packet_type: PacketType,
    (version, sender): (ProtocolVersion, Sender),
    use_it: impl FnOnce(&Packet<'_>) -> R,
) -> R {
    match packet_type {
        PacketType::Connect => connect(choices, version, use_it),
        PacketType::Publish => publish(choices, version, sender, use_it),
        PacketType::Subscribe => subscribe(choices, version, use_it),
        PacketType::Unsubscribe => unsubscribe(choices, version, use_it),
        PacketType::Pingreq => use_it(&Packet::Pingreq(Pingreq)),
        PacketType::Pingresp => use_it(&Packet::Pingresp(Pingresp)),
        PacketType::Suback | PacketType::Unsuback => {
            codes_packet(choices, packet_type, version, use_it)
        }
        PacketType::Connack
        | PacketType::Puback
        | PacketType::Pubrec
        | PacketType::Pubrel
        | PacketType::Pubcomp
        | PacketType::Disconnect
        | PacketType::Auth => answer(choices, packet_type, (version, sender), use_it),
    }
}

fn connect<R>(
    choices: &mut Choices<'_>,
    version: ProtocolVersion,
    use_it: impl FnOnce(&Packet<'_>) -> R,
) -> R {
    let properties = choices.properties(PropertyScope::Connect, version);
    let will_properties = choices.properties(PropertyScope::Will, version);
    let (client_id, user_name) = (choices.text(), choices.text());
    let (topic, payload, password) = (choices.topic_name(), choices.bytes(), choices.bytes());
    let v5 = version == ProtocolVersion::V5;
    let will = choices.flag().then(|| Will {
        topic: TopicName::new(&topic).expect("a topic name"),
        payload: Binary::new(&payload).expect("short"),
        qos: choices.qos(),
        retain: choices.flag(),
        properties: if v5 {
            will_properties.properties()
        } else {
            Properties::EMPTY
        },
    });
    let user_name = choices.flag().then(|| mqtt(&user_name));
    let may_have_password = v5 || user_name.is_some();
    let password =
        (choices.flag() && may_have_password).then(|| Secret::new(&password).expect("short"));
    let clean_start = choices.flag() || (!v5 && client_id.is_empty());
    use_it(&Packet::Connect(Connect {
        version,
        clean_start,
        keep_alive_seconds: choices.u16(),
        properties: properties.properties(),
        client_id: mqtt(&client_id),
        will,
        user_name,
        password,
    }))
}

fn publish<R>(
    choices: &mut Choices<'_>,
    version: ProtocolVersion,
    sender: Sender,
    use_it: impl FnOnce(&Packet<'_>) -> R,
) -> R {
    let name = choices.topic_name();
    let name = TopicName::new(&name).expect("a topic name");
    let payload = choices.bytes();
    let mut publish = Publish::new(name, &payload);
    publish.delivery = choices.delivery();
    publish.retain = choices.flag();
    if version == ProtocolVersion::V311 {
        return use_it(&Packet::Publish(publish));
    }
    let number = choices.u16();
    publish.topic = match choices.below(4) {
        0 => PublishTopic::Alias(alias(number)),
        1 => PublishTopic::NameAndAlias(name, alias(number)),
        _ => PublishTopic::Name(name),
    };
    publish.message_expiry_interval = choices.flag().then(|| choices.u32());
    let ids: Vec<_> = match sender {
        Sender::Client => vec![],
        Sender::Server => (0..choices.below(3))
            .map(|_| sub_id(choices.u32()))
            .collect(),
    };
    let block = choices.properties(PropertyScope::Publish, version);
    let block = passthrough_block(&block);
    publish.passthrough = Passthrough::new(&block, &Limits::STANDARD).expect("a valid block");
    use_it(&Packet::Publish(publish.with_subscription_ids(&ids)))
}

/// Only those of a block that pass through, encoded again.
fn passthrough_block(builder: &PropertiesBuilder) -> Vec<u8> {
    let mut only = PropertiesBuilder::new(PropertyScope::Publish);
    for property in builder.properties().iter() {
        if property.id().passes_through() {
            only.push(property)
                .expect("it stood in such a block before");
        }
    }
    only.properties().as_bytes().to_vec()
}

fn subscribe<R>(
    choices: &mut Choices<'_>,
    version: ProtocolVersion,
    use_it: impl FnOnce(&Packet<'_>) -> R,
) -> R {
    let mut list = SubscriptionsBuilder::new();
    for _ in 0..=choices.below(4) {
        let filter = choices.topic_filter();
        let filter = TopicFilter::new(&filter).expect("a topic filter");
        let mut options = SubscriptionOptions::new(choices.qos());
        if version == ProtocolVersion::V5 {
            options.no_local = choices.flag() && filter.shared().is_none();
            options.retain_as_published = choices.flag();
            options.retain_handling = [
                RetainHandling::SendOnSubscribe,
                RetainHandling::SendIfNew,
                RetainHandling::DoNotSend,
            ][choices.below(3)];
        }
        list.push(filter, options);
    }
    let properties = choices.properties(PropertyScope::Subscribe, version);
    use_it(&Packet::Subscribe(Subscribe {
        packet_id: choices.packet_id(),
        properties: properties.properties(),
        subscriptions: list.subscriptions(),
    }))
}

fn unsubscribe<R>(
    choices: &mut Choices<'_>,
    version: ProtocolVersion,
    use_it: impl FnOnce(&Packet<'_>) -> R,
) -> R {
    let mut list = TopicFiltersBuilder::new();
    for _ in 0..=choices.below(4) {
        let filter = choices.topic_filter();
        list.push(TopicFilter::new(&filter).expect("a topic filter"));
    }
    let properties = choices.properties(PropertyScope::Unsubscribe, version);
    use_it(&Packet::Unsubscribe(Unsubscribe {
        packet_id: choices.packet_id(),
        properties: properties.properties(),
        filters: list.filters(),
    }))
}

fn codes_packet<R>(
    choices: &mut Choices<'_>,
    packet_type: PacketType,
    version: ProtocolVersion,
    use_it: impl FnOnce(&Packet<'_>) -> R,
) -> R {
    let codes = choices.codes(packet_type, version);
    let packet_id = choices.packet_id();
    if packet_type == PacketType::Suback {
        let properties = choices.properties(PropertyScope::Suback, version);
        return use_it(&Packet::Suback(Suback {
            packet_id,
            properties: properties.properties(),
            codes: ReasonCodes::new(packet_type, &codes).expect("codes of SUBACK"),
        }));
    }
    let properties = choices.properties(PropertyScope::Unsuback, version);
    let codes = match version {
        ProtocolVersion::V311 => ReasonCodes::NONE,
        ProtocolVersion::V5 => ReasonCodes::new(packet_type, &codes).expect("codes of UNSUBACK"),
    };
    use_it(&Packet::Unsuback(Unsuback {
        packet_id,
        properties: properties.properties(),
        codes,
    }))
}

fn answer<R>(
    choices: &mut Choices<'_>,
    packet_type: PacketType,
    (version, sender): (ProtocolVersion, Sender),
    use_it: impl FnOnce(&Packet<'_>) -> R,
) -> R {
    let scope = match packet_type {
        PacketType::Connack => PropertyScope::Connack,
        PacketType::Puback => PropertyScope::Puback,
        PacketType::Pubrec => PropertyScope::Pubrec,
        PacketType::Pubrel => PropertyScope::Pubrel,
        PacketType::Pubcomp => PropertyScope::Pubcomp,
        PacketType::Disconnect => PropertyScope::Disconnect,
        _ => PropertyScope::Auth,
    };
    let mut builder = choices.properties(scope, version);
    let found = builder.properties();
    let is_of_the_other = match sender {
        Sender::Client => found.server_reference().is_some(),
        Sender::Server => found.session_expiry_interval().is_some(),
    };
    if packet_type == PacketType::Disconnect && is_of_the_other {
        builder.reset(scope);
    }
    let properties = builder.properties();
    let reason = choices.reason(packet_type, sender, version);
    let packet_id = choices.packet_id();
    let session_present = choices.flag() && reason == ReasonCode::Success;
    use_it(&match packet_type {
        PacketType::Connack => Packet::Connack(Connack {
            session_present,
            reason,
            properties,
        }),
        PacketType::Puback => Packet::Puback(Ack {
            packet_id,
            reason,
            properties,
        }),
        PacketType::Pubrec => Packet::Pubrec(Ack {
            packet_id,
            reason,
            properties,
        }),
        PacketType::Pubrel => Packet::Pubrel(Ack {
            packet_id,
            reason,
            properties,
        }),
        PacketType::Pubcomp => Packet::Pubcomp(Ack {
            packet_id,
            reason,
            properties,
        }),
        PacketType::Disconnect => Packet::Disconnect(Disconnect { reason, properties }),
        _ => Packet::Auth(Auth { reason, properties }),
    })
}
