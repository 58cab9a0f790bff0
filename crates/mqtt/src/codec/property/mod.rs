//! Properties of v5: typed values, the table of where each may stand, validated views and a builder.

mod builder;
mod id;
mod passthrough;
mod scan;
mod view;

use std::num::{NonZeroU16, NonZeroU32};

use super::error::DecodeErrorKind;
use super::reader::Reader;
use super::text::{Binary, MqttStr, Secret};
use super::topic::TopicName;
use super::types::{QoS, SubscriptionId, TopicAlias};
use super::varint;

pub use builder::{PropertiesBuilder, PropertyError};
pub use id::{PropertyId, PropertyScope};
pub use passthrough::Passthrough;
pub(crate) use scan::{Seen, scan};
pub use view::{Properties, PropertyIter, SubscriptionIds, UserProperties};

/// Whether a payload is bytes or text (Payload Format Indicator).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum PayloadFormat {
    /// 0: unspecified bytes.
    Bytes = 0,
    /// 1: UTF-8 text.
    Utf8 = 1,
}

/// One property with its value; what the standard forbids cannot be expressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // names and meanings are those of the standard's section 2.2.2.2
pub enum Property<'a> {
    PayloadFormatIndicator(PayloadFormat),
    MessageExpiryInterval(u32),
    ContentType(MqttStr<'a>),
    ResponseTopic(TopicName<'a>),
    CorrelationData(Binary<'a>),
    SubscriptionIdentifier(SubscriptionId),
    SessionExpiryInterval(u32),
    AssignedClientIdentifier(MqttStr<'a>),
    ServerKeepAlive(u16),
    AuthenticationMethod(MqttStr<'a>),
    AuthenticationData(Secret<'a>),
    RequestProblemInformation(bool),
    WillDelayInterval(u32),
    RequestResponseInformation(bool),
    ResponseInformation(MqttStr<'a>),
    ServerReference(MqttStr<'a>),
    ReasonString(MqttStr<'a>),
    ReceiveMaximum(NonZeroU16),
    TopicAliasMaximum(u16),
    TopicAlias(TopicAlias),
    /// Never [`QoS::ExactlyOnce`]: absence says that.
    MaximumQos(QoS),
    RetainAvailable(bool),
    UserProperty(MqttStr<'a>, MqttStr<'a>),
    MaximumPacketSize(NonZeroU32),
    WildcardSubscriptionAvailable(bool),
    SubscriptionIdentifierAvailable(bool),
    SharedSubscriptionAvailable(bool),
}

impl<'a> Property<'a> {
    /// Its identifier.
    #[must_use]
    pub const fn id(&self) -> PropertyId {
        match self {
            Self::PayloadFormatIndicator(_) => PropertyId::PayloadFormatIndicator,
            Self::MessageExpiryInterval(_) => PropertyId::MessageExpiryInterval,
            Self::ContentType(_) => PropertyId::ContentType,
            Self::ResponseTopic(_) => PropertyId::ResponseTopic,
            Self::CorrelationData(_) => PropertyId::CorrelationData,
            Self::SubscriptionIdentifier(_) => PropertyId::SubscriptionIdentifier,
            Self::SessionExpiryInterval(_) => PropertyId::SessionExpiryInterval,
            Self::AssignedClientIdentifier(_) => PropertyId::AssignedClientIdentifier,
            Self::ServerKeepAlive(_) => PropertyId::ServerKeepAlive,
            Self::AuthenticationMethod(_) => PropertyId::AuthenticationMethod,
            Self::AuthenticationData(_) => PropertyId::AuthenticationData,
            Self::RequestProblemInformation(_) => PropertyId::RequestProblemInformation,
            Self::WillDelayInterval(_) => PropertyId::WillDelayInterval,
            Self::RequestResponseInformation(_) => PropertyId::RequestResponseInformation,
            Self::ResponseInformation(_) => PropertyId::ResponseInformation,
            Self::ServerReference(_) => PropertyId::ServerReference,
            Self::ReasonString(_) => PropertyId::ReasonString,
            Self::ReceiveMaximum(_) => PropertyId::ReceiveMaximum,
            Self::TopicAliasMaximum(_) => PropertyId::TopicAliasMaximum,
            Self::TopicAlias(_) => PropertyId::TopicAlias,
            Self::MaximumQos(_) => PropertyId::MaximumQos,
            Self::RetainAvailable(_) => PropertyId::RetainAvailable,
            Self::UserProperty(..) => PropertyId::UserProperty,
            Self::MaximumPacketSize(_) => PropertyId::MaximumPacketSize,
            Self::WildcardSubscriptionAvailable(_) => PropertyId::WildcardSubscriptionAvailable,
            Self::SubscriptionIdentifierAvailable(_) => PropertyId::SubscriptionIdentifierAvailable,
            Self::SharedSubscriptionAvailable(_) => PropertyId::SharedSubscriptionAvailable,
        }
    }

    /// Reads the value behind an identifier.
    pub(crate) fn read(id: PropertyId, reader: &mut Reader<'a>) -> Result<Self, DecodeErrorKind> {
        let invalid = DecodeErrorKind::PropertyValue;
        Ok(match id {
            PropertyId::PayloadFormatIndicator => {
                Self::PayloadFormatIndicator(match reader.u8()? {
                    0 => PayloadFormat::Bytes,
                    1 => PayloadFormat::Utf8,
                    _ => return Err(invalid),
                })
            }
            PropertyId::MessageExpiryInterval => Self::MessageExpiryInterval(reader.u32()?),
            PropertyId::ContentType => Self::ContentType(reader.text()?),
            PropertyId::ResponseTopic => Self::ResponseTopic(response_topic(reader)?),
            PropertyId::CorrelationData => Self::CorrelationData(binary(reader)?),
            PropertyId::SubscriptionIdentifier => {
                Self::SubscriptionIdentifier(SubscriptionId::new(reader.varint()?).ok_or(invalid)?)
            }
            PropertyId::SessionExpiryInterval => Self::SessionExpiryInterval(reader.u32()?),
            PropertyId::AssignedClientIdentifier => Self::AssignedClientIdentifier(reader.text()?),
            PropertyId::ServerKeepAlive => Self::ServerKeepAlive(reader.u16()?),
            PropertyId::AuthenticationMethod => Self::AuthenticationMethod(reader.text()?),
            PropertyId::AuthenticationData => Self::AuthenticationData(
                Secret::new(reader.binary()?).ok_or(DecodeErrorKind::Truncated)?,
            ),
            PropertyId::RequestProblemInformation => Self::RequestProblemInformation(flag(reader)?),
            PropertyId::WillDelayInterval => Self::WillDelayInterval(reader.u32()?),
            PropertyId::RequestResponseInformation => {
                Self::RequestResponseInformation(flag(reader)?)
            }
            PropertyId::ResponseInformation => Self::ResponseInformation(reader.text()?),
            PropertyId::ServerReference => Self::ServerReference(reader.text()?),
            PropertyId::ReasonString => Self::ReasonString(reader.text()?),
            PropertyId::ReceiveMaximum => {
                Self::ReceiveMaximum(NonZeroU16::new(reader.u16()?).ok_or(invalid)?)
            }
            PropertyId::TopicAliasMaximum => Self::TopicAliasMaximum(reader.u16()?),
            PropertyId::TopicAlias => Self::TopicAlias(
                TopicAlias::new(reader.u16()?).ok_or(DecodeErrorKind::TopicAliasZero)?,
            ),
            PropertyId::MaximumQos => Self::MaximumQos(match reader.u8()? {
                0 => QoS::AtMostOnce,
                1 => QoS::AtLeastOnce,
                _ => return Err(invalid),
            }),
            PropertyId::RetainAvailable => Self::RetainAvailable(flag(reader)?),
            PropertyId::UserProperty => Self::UserProperty(reader.text()?, reader.text()?),
            PropertyId::MaximumPacketSize => {
                Self::MaximumPacketSize(NonZeroU32::new(reader.u32()?).ok_or(invalid)?)
            }
            PropertyId::WildcardSubscriptionAvailable => {
                Self::WildcardSubscriptionAvailable(flag(reader)?)
            }
            PropertyId::SubscriptionIdentifierAvailable => {
                Self::SubscriptionIdentifierAvailable(flag(reader)?)
            }
            PropertyId::SharedSubscriptionAvailable => {
                Self::SharedSubscriptionAvailable(flag(reader)?)
            }
        })
    }

    /// Bytes on the wire, identifier included.
    #[must_use]
    pub const fn wire_len(&self) -> usize {
        1 + match self {
            Self::PayloadFormatIndicator(_)
            | Self::RequestProblemInformation(_)
            | Self::RequestResponseInformation(_)
            | Self::MaximumQos(_)
            | Self::RetainAvailable(_)
            | Self::WildcardSubscriptionAvailable(_)
            | Self::SubscriptionIdentifierAvailable(_)
            | Self::SharedSubscriptionAvailable(_) => 1,
            Self::ServerKeepAlive(_)
            | Self::ReceiveMaximum(_)
            | Self::TopicAliasMaximum(_)
            | Self::TopicAlias(_) => 2,
            Self::MessageExpiryInterval(_)
            | Self::SessionExpiryInterval(_)
            | Self::WillDelayInterval(_)
            | Self::MaximumPacketSize(_) => 4,
            Self::SubscriptionIdentifier(id) => varint::len(id.get()),
            Self::ContentType(text)
            | Self::AssignedClientIdentifier(text)
            | Self::AuthenticationMethod(text)
            | Self::ResponseInformation(text)
            | Self::ServerReference(text)
            | Self::ReasonString(text) => text.wire_len(),
            Self::ResponseTopic(topic) => topic.text().wire_len(),
            Self::CorrelationData(data) => data.wire_len(),
            Self::AuthenticationData(data) => data.binary().wire_len(),
            Self::UserProperty(name, value) => name.wire_len() + value.wire_len(),
        }
    }

    /// Appends identifier and value.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        out.push(self.id() as u8);
        match *self {
            Self::PayloadFormatIndicator(format) => out.push(format as u8),
            Self::RequestProblemInformation(value)
            | Self::RequestResponseInformation(value)
            | Self::RetainAvailable(value)
            | Self::WildcardSubscriptionAvailable(value)
            | Self::SubscriptionIdentifierAvailable(value)
            | Self::SharedSubscriptionAvailable(value) => out.push(u8::from(value)),
            Self::MaximumQos(qos) => out.push(qos.number()),
            Self::ServerKeepAlive(value) | Self::TopicAliasMaximum(value) => {
                out.extend_from_slice(&value.to_be_bytes());
            }
            Self::ReceiveMaximum(value) => out.extend_from_slice(&value.get().to_be_bytes()),
            Self::TopicAlias(alias) => out.extend_from_slice(&alias.get().to_be_bytes()),
            Self::MessageExpiryInterval(value)
            | Self::SessionExpiryInterval(value)
            | Self::WillDelayInterval(value) => out.extend_from_slice(&value.to_be_bytes()),
            Self::MaximumPacketSize(value) => out.extend_from_slice(&value.get().to_be_bytes()),
            Self::SubscriptionIdentifier(id) => varint::write(id.get(), out),
            Self::ContentType(text)
            | Self::AssignedClientIdentifier(text)
            | Self::AuthenticationMethod(text)
            | Self::ResponseInformation(text)
            | Self::ServerReference(text)
            | Self::ReasonString(text) => text.write(out),
            Self::ResponseTopic(topic) => topic.text().write(out),
            Self::CorrelationData(data) => data.write(out),
            Self::AuthenticationData(data) => data.binary().write(out),
            Self::UserProperty(name, value) => {
                name.write(out);
                value.write(out);
            }
        }
    }
}

fn flag(reader: &mut Reader<'_>) -> Result<bool, DecodeErrorKind> {
    match reader.u8()? {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(DecodeErrorKind::PropertyValue),
    }
}

fn binary<'a>(reader: &mut Reader<'a>) -> Result<Binary<'a>, DecodeErrorKind> {
    Binary::new(reader.binary()?).ok_or(DecodeErrorKind::Truncated)
}

/// v5 [MQTT-3.3.2-13], v5 [MQTT-3.3.2-14]: a string, and a topic name without wildcards.
fn response_topic<'a>(reader: &mut Reader<'a>) -> Result<TopicName<'a>, DecodeErrorKind> {
    let text = reader.text()?;
    TopicName::new(text.as_str()).map_err(|_| DecodeErrorKind::ResponseTopic)
}
