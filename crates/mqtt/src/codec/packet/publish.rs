//! PUBLISH, the packet of the data path.

use crate::codec::encode::{Body, EncodeError, Trim, block_len};
use crate::codec::error::{DecodeError, DecodeErrorKind};
use crate::codec::frame::Frame;
use crate::codec::limits::{Limits, PayloadFormatCheck, Rules};
use crate::codec::property::{
    Passthrough, PayloadFormat, Property, PropertyId, PropertyScope, SubscriptionIds, scan,
};
use crate::codec::reader::Reader;
use crate::codec::text;
use crate::codec::topic::TopicName;
use crate::codec::types::{
    PacketId, PacketType, ProtocolVersion, QoS, Sender, SubscriptionId, TopicAlias,
};
use crate::codec::varint;

pub(crate) const RETAIN: u8 = 1;
pub(crate) const QOS_SHIFT: u8 = 1;
pub(crate) const DUP: u8 = 1 << 3;

/// PUBLISH: one message on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Publish<'a> {
    /// QoS, and with QoS above 0 packet identifier and DUP.
    pub delivery: Delivery,
    /// RETAIN.
    pub retain: bool,
    /// Topic name, topic alias or both.
    pub topic: PublishTopic<'a>,
    /// Message Expiry Interval in seconds.
    pub message_expiry_interval: Option<u32>,
    /// From servers only: v5 [MQTT-3.3.4-6].
    pub subscription_ids: SubscriptionIds<'a>,
    /// What is handed on unchanged.
    pub passthrough: Passthrough<'a>,
    /// The application message; may be empty.
    pub payload: &'a [u8],
}

/// QoS with what it entails: no packet identifier and no DUP at QoS 0.
///
/// v3 [MQTT-2.3.1-5], v3 [MQTT-3.3.1-2]; v5 [MQTT-2.2.1-2], v5 [MQTT-3.3.1-2].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Delivery {
    /// QoS 0.
    AtMostOnce,
    /// QoS 1.
    AtLeastOnce {
        /// Packet identifier.
        packet_id: PacketId,
        /// Sent before: v3 [MQTT-3.3.1-1], v5 [MQTT-3.3.1-1].
        dup: bool,
    },
    /// QoS 2.
    ExactlyOnce {
        /// Packet identifier.
        packet_id: PacketId,
        /// Sent before: v3 [MQTT-3.3.1-1], v5 [MQTT-3.3.1-1].
        dup: bool,
    },
}

impl Delivery {
    /// The QoS.
    #[must_use]
    pub const fn qos(self) -> QoS {
        match self {
            Self::AtMostOnce => QoS::AtMostOnce,
            Self::AtLeastOnce { .. } => QoS::AtLeastOnce,
            Self::ExactlyOnce { .. } => QoS::ExactlyOnce,
        }
    }

    /// The packet identifier; `None` at QoS 0.
    #[must_use]
    pub const fn packet_id(self) -> Option<PacketId> {
        match self {
            Self::AtMostOnce => None,
            Self::AtLeastOnce { packet_id, .. } | Self::ExactlyOnce { packet_id, .. } => {
                Some(packet_id)
            }
        }
    }

    /// DUP; false at QoS 0.
    #[must_use]
    pub const fn dup(self) -> bool {
        match self {
            Self::AtMostOnce => false,
            Self::AtLeastOnce { dup, .. } | Self::ExactlyOnce { dup, .. } => dup,
        }
    }

    #[inline]
    fn read(flags: u8, reader: &mut Reader<'_>) -> Result<Self, DecodeErrorKind> {
        let dup = flags & DUP != 0;
        match flags >> QOS_SHIFT & 0b11 {
            0 if dup => Err(DecodeErrorKind::DupOnQos0),
            0 => Ok(Self::AtMostOnce),
            1 => Ok(Self::AtLeastOnce {
                packet_id: reader.packet_id()?,
                dup,
            }),
            2 => Ok(Self::ExactlyOnce {
                packet_id: reader.packet_id()?,
                dup,
            }),
            _ => Err(DecodeErrorKind::QosInvalid),
        }
    }

    pub(crate) const fn flags(self) -> u8 {
        self.qos().number() << QOS_SHIFT | if self.dup() { DUP } else { 0 }
    }
}

/// How a PUBLISH says its topic; an empty name without an alias cannot be expressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PublishTopic<'a> {
    /// A name.
    Name(TopicName<'a>),
    /// A name, and from now on this alias for it.
    NameAndAlias(TopicName<'a>, TopicAlias),
    /// An alias that was bound before.
    Alias(TopicAlias),
}

impl<'a> PublishTopic<'a> {
    /// The name, where there is one.
    #[must_use]
    pub const fn name(self) -> Option<TopicName<'a>> {
        match self {
            Self::Name(name) | Self::NameAndAlias(name, _) => Some(name),
            Self::Alias(_) => None,
        }
    }

    /// The alias, where there is one.
    #[must_use]
    pub const fn alias(self) -> Option<TopicAlias> {
        match self {
            Self::Name(_) => None,
            Self::NameAndAlias(_, alias) | Self::Alias(alias) => Some(alias),
        }
    }
}

/// What a property block says about a message.
#[derive(Clone, Copy)]
pub(super) struct MessageProperties<'a> {
    expiry: Option<u32>,
    alias: Option<TopicAlias>,
    format: PayloadFormat,
    has_subscription_id: bool,
    pub(super) passthrough: Passthrough<'a>,
}

impl<'a> MessageProperties<'a> {
    const NONE: Self = Self {
        expiry: None,
        alias: None,
        format: PayloadFormat::Bytes,
        has_subscription_id: false,
        passthrough: Passthrough::EMPTY,
    };

    fn read(
        block: &'a [u8],
        scope: PropertyScope,
        limits: &Limits,
    ) -> Result<Self, DecodeErrorKind> {
        let mut found = Self::NONE;
        let mut position = 0;
        let mut span: Option<(usize, usize)> = None;
        let mut passing = 0;
        let seen = scan(block, scope, limits, |property, bytes| {
            let start = position;
            position += bytes.len();
            match property {
                Property::MessageExpiryInterval(seconds) => found.expiry = Some(seconds),
                Property::TopicAlias(alias) => found.alias = Some(alias),
                Property::PayloadFormatIndicator(format) => found.format = format,
                _ => {}
            }
            if property.id().passes_through() {
                passing += bytes.len() as u32;
                span = Some((span.map_or(start, |(first, _)| first), position));
            }
        })?;
        if let Some((first, end)) = span {
            let bytes = block.get(first..end).unwrap_or_default();
            found.passthrough = Passthrough::from_span(bytes, passing);
        }
        found.has_subscription_id = seen.has(PropertyId::SubscriptionIdentifier);
        Ok(found)
    }

    /// For blocks that a scan has passed.
    pub(super) fn of_checked(block: &'a [u8], scope: PropertyScope) -> Self {
        Self::read(block, scope, &Limits::STANDARD).unwrap_or(Self::NONE)
    }
}

impl<'a> Publish<'a> {
    /// Reads PUBLISH; the data path calls this directly.
    ///
    /// Costs about 330 instructions for a small packet without properties (README); grows with topic and properties, not with the payload.
    ///
    /// # Errors
    /// [`DecodeErrorKind::WrongDirection`] for other packets, and what is wrong with this one.
    #[inline]
    pub fn decode(frame: &Frame<'a>, rules: &Rules) -> Result<Self, DecodeError> {
        if frame.packet_type() != PacketType::Publish {
            return Err(DecodeErrorKind::WrongDirection.into());
        }
        let mut reader = Reader::new(frame.body());
        let topic_bytes = reader.binary()?;
        let delivery = Delivery::read(frame.flags(), &mut reader)?;
        if rules.version == ProtocolVersion::V5 {
            let properties_len = reader.varint()?;
            if properties_len > 0 {
                let block = reader.bytes(properties_len as usize)?;
                return Self::read_with_properties(
                    (frame.flags(), delivery),
                    topic_bytes,
                    block,
                    reader.rest(),
                    rules,
                );
            }
        }
        Ok(Self {
            delivery,
            retain: frame.flags() & RETAIN != 0,
            topic: PublishTopic::Name(TopicName::check(topic_bytes, &rules.limits)?),
            message_expiry_interval: None,
            subscription_ids: SubscriptionIds::NONE,
            passthrough: Passthrough::EMPTY,
            payload: reader.rest(),
        })
    }

    fn read_with_properties(
        (flags, delivery): (u8, Delivery),
        topic_bytes: &'a [u8],
        block: &'a [u8],
        payload: &'a [u8],
        rules: &Rules,
    ) -> Result<Self, DecodeError> {
        let found = MessageProperties::read(block, PropertyScope::Publish, &rules.limits)?;
        if found.has_subscription_id && rules.sender == Sender::Client {
            return Err(DecodeErrorKind::PropertySender.into());
        }
        let topic = match (topic_bytes, found.alias) {
            ([], Some(alias)) => PublishTopic::Alias(alias),
            (name, Some(alias)) => {
                PublishTopic::NameAndAlias(TopicName::check(name, &rules.limits)?, alias)
            }
            (name, None) => PublishTopic::Name(TopicName::check(name, &rules.limits)?),
        };
        if rules.limits.payload_format == PayloadFormatCheck::Verify
            && found.format == PayloadFormat::Utf8
            && text::utf8(payload).is_err()
        {
            return Err(DecodeErrorKind::PayloadFormat.into());
        }
        let subscription_ids = if found.has_subscription_id {
            SubscriptionIds::in_block(block)
        } else {
            SubscriptionIds::NONE
        };
        Ok(Self {
            delivery,
            retain: flags & RETAIN != 0,
            topic,
            message_expiry_interval: found.expiry,
            subscription_ids,
            passthrough: found.passthrough,
            payload,
        })
    }

    /// A QoS 0 message without properties, for a start; the fields are public.
    #[must_use]
    pub const fn new(topic: TopicName<'a>, payload: &'a [u8]) -> Self {
        Self {
            delivery: Delivery::AtMostOnce,
            retain: false,
            topic: PublishTopic::Name(topic),
            message_expiry_interval: None,
            subscription_ids: SubscriptionIds::NONE,
            passthrough: Passthrough::EMPTY,
            payload,
        }
    }

    fn properties_len(&self) -> usize {
        let expiry = if self.message_expiry_interval.is_some() {
            5
        } else {
            0
        };
        let alias = if self.topic.alias().is_some() { 3 } else { 0 };
        expiry + alias + self.subscription_ids.wire_len() + self.passthrough.len()
    }

    /// Bytes after the fixed header and before the payload.
    pub(crate) fn variable_head_len(&self, version: ProtocolVersion) -> usize {
        let name = self.topic.name().map_or(0, |name| name.as_str().len());
        let packet_id = if self.delivery.packet_id().is_some() {
            2
        } else {
            0
        };
        let properties = match version {
            ProtocolVersion::V311 => 0,
            ProtocolVersion::V5 => block_len(self.properties_len()),
        };
        2 + name + packet_id + properties
    }

    /// Appends what stands between fixed header and payload.
    pub(crate) fn write_variable_head(&self, version: ProtocolVersion, out: &mut Vec<u8>) {
        let name = self.topic.name().map_or("", TopicName::as_str);
        text::write_binary(name.as_bytes(), out);
        if let Some(packet_id) = self.delivery.packet_id() {
            out.extend_from_slice(&packet_id.get().to_be_bytes());
        }
        if version == ProtocolVersion::V311 {
            return;
        }
        varint::write(self.properties_len() as u32, out);
        if let Some(seconds) = self.message_expiry_interval {
            Property::MessageExpiryInterval(seconds).write(out);
        }
        if let Some(alias) = self.topic.alias() {
            Property::TopicAlias(alias).write(out);
        }
        self.subscription_ids.write(out);
        self.passthrough.copy_to(out);
    }

    /// The low half of the first byte.
    pub(crate) const fn flag_bits(&self) -> u8 {
        self.delivery.flags() | if self.retain { RETAIN } else { 0 }
    }
}

impl<'a> Publish<'a> {
    /// The same with these subscription identifiers.
    #[must_use]
    pub const fn with_subscription_ids(mut self, ids: &'a [SubscriptionId]) -> Self {
        self.subscription_ids = SubscriptionIds::new(ids);
        self
    }
}

impl Body for Publish<'_> {
    const PACKET_TYPE: PacketType = PacketType::Publish;
    const TRIMS: bool = false;

    fn flags(&self) -> u8 {
        self.flag_bits()
    }

    /// An alias alone means nothing in 3.1.1; other properties are left out there.
    fn check(&self, version: ProtocolVersion) -> Result<(), EncodeError> {
        match (version, self.topic) {
            (ProtocolVersion::V311, PublishTopic::Alias(_)) => {
                Err(EncodeError::NotInVersion(PacketType::Publish))
            }
            _ => Ok(()),
        }
    }

    fn body_len(&self, version: ProtocolVersion, _: Trim) -> usize {
        self.variable_head_len(version) + self.payload.len()
    }

    fn write_body(&self, version: ProtocolVersion, _: Trim, out: &mut Vec<u8>) {
        self.write_variable_head(version, out);
        out.extend_from_slice(self.payload);
    }
}
