//! MQTT 3.1.1 and 5.0 in one packet model: bytes to packets and back.
//!
//! - [`Frame::split`] cuts a byte stream into packets, [`Packet::decode`] reads one as views over the receive buffer,
//!   [`Packet::encode`] writes one, [`PublishEncoder`] writes one PUBLISH for many receivers.
//! - Decoding allocates nothing, copies nothing, never panics and never recurses; work and memory follow the bytes received, never
//!   the lengths announced.
//! - Strict: a decoded value keeps every rule that one packet alone can break. What depends on the state of a connection (which
//!   packet when, aliases in use, packet identifiers in use) is the session's business.
//!
//! Both versions have the same types: properties are empty in 3.1.1, its return codes are mapped to reason codes.

mod encode;
mod error;
mod frame;
mod limits;
mod packet;
mod prepared;
mod property;
mod reader;
mod reason;
mod text;
mod topic;
mod types;
mod varint;

pub use encode::{EncodeError, Receiver};
pub use error::{DecodeError, DecodeErrorKind};
pub use frame::{Frame, Split};
pub use limits::{BEFORE_CONNECT_BYTES_MAX, Limits, PACKET_BYTES_MAX, PayloadFormatCheck, Rules};
pub use packet::{
    Ack, Auth, Connack, Connect, Delivery, Disconnect, Packet, Pingreq, Pingresp, Puback, Pubcomp,
    Publish, PublishTopic, Pubrec, Pubrel, ReasonCodes, RetainHandling, Suback, Subscribe,
    Subscription, SubscriptionOptions, Subscriptions, SubscriptionsBuilder, TopicFilters,
    TopicFiltersBuilder, Unsuback, Unsubscribe, Will,
};
pub use prepared::{INLINE_PAYLOAD_BYTES, PreparedPublish, PublishEncoder};
pub use property::{
    Passthrough, PayloadFormat, Properties, PropertiesBuilder, Property, PropertyError, PropertyId,
    PropertyIter, PropertyScope, SubscriptionIds, UserProperties,
};
pub use reason::ReasonCode;
pub use text::{Binary, MqttStr, Secret};
pub use topic::{SharedFilter, TopicFilter, TopicName};
pub use types::{PacketId, PacketType, ProtocolVersion, QoS, Sender, SubscriptionId, TopicAlias};
pub use varint::VARINT_MAX;

#[cfg(test)]
pub(crate) use reader::work::fields_read;
