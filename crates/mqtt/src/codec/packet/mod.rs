//! Packets as views over the receive buffer; the same types are written from.

mod ack;
mod auth;
mod codes;
mod connack;
mod connect;
mod disconnect;
mod filters;
mod ping;
mod publish;
mod subscribe;
mod unsubscribe;

use super::error::{DecodeError, DecodeErrorKind};
use super::frame::Frame;
use super::limits::Rules;
use super::types::{PacketType, ProtocolVersion};

pub use ack::{Ack, Puback, Pubcomp, Pubrec, Pubrel};
pub use auth::Auth;
pub use codes::{ReasonCodes, Suback, Unsuback};
pub use connack::Connack;
pub use connect::{Connect, Will};
pub use disconnect::Disconnect;
pub use filters::{
    RetainHandling, Subscription, SubscriptionOptions, Subscriptions, SubscriptionsBuilder,
    TopicFilters, TopicFiltersBuilder,
};
pub use ping::{Pingreq, Pingresp};
pub use publish::{Delivery, Publish, PublishTopic};
pub use subscribe::Subscribe;
pub use unsubscribe::Unsubscribe;

/// Any control packet of either version.
///
/// Borrowed from the receive buffer: decoding copies and allocates nothing. A value of this type keeps all rules of the standard that
/// one packet alone can break; what depends on the state of the connection is left to the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, clippy::large_enum_variant)] // named after the packets; values live on the stack only
pub enum Packet<'a> {
    Connect(Connect<'a>),
    Connack(Connack<'a>),
    Publish(Publish<'a>),
    Puback(Puback<'a>),
    Pubrec(Pubrec<'a>),
    Pubrel(Pubrel<'a>),
    Pubcomp(Pubcomp<'a>),
    Subscribe(Subscribe<'a>),
    Suback(Suback<'a>),
    Unsubscribe(Unsubscribe<'a>),
    Unsuback(Unsuback<'a>),
    Pingreq(Pingreq),
    Pingresp(Pingresp),
    Disconnect(Disconnect<'a>),
    Auth(Auth<'a>),
}

impl<'a> Packet<'a> {
    /// Reads a whole packet under the rules of its connection. CONNECT is judged by the protocol level that it carries.
    ///
    /// # Errors
    /// [`DecodeError`] with the reason code that the standard gives.
    ///
    /// # Examples
    /// ```
    /// use courser_mqtt::codec::{Frame, Packet, ProtocolVersion, Rules, Split};
    ///
    /// let bytes = b"\x30\x07\x00\x03a/bhi";
    /// let Split::Whole(frame) = Frame::split(bytes, 1024)? else { panic!() };
    /// let packet = Packet::decode(&frame, &Rules::from_client(ProtocolVersion::V311))?;
    /// let Packet::Publish(publish) = packet else { panic!() };
    /// assert_eq!(publish.payload, b"hi");
    /// # Ok::<(), courser_mqtt::codec::DecodeError>(())
    /// ```
    #[inline]
    pub fn decode(frame: &Frame<'a>, rules: &Rules) -> Result<Self, DecodeError> {
        if frame.packet_type() == PacketType::Publish {
            return Publish::decode(frame, rules).map(Self::Publish);
        }
        Self::decode_other(frame, rules)
    }

    #[inline(never)]
    fn decode_other(frame: &Frame<'a>, rules: &Rules) -> Result<Self, DecodeError> {
        let packet_type = frame.packet_type();
        if !packet_type.sent_by(rules.sender, rules.version) {
            return Err(direction_fault(packet_type, rules.version).into());
        }
        Ok(match packet_type {
            PacketType::Connect => Self::Connect(Connect::decode(frame, &rules.limits)?),
            PacketType::Connack => Self::Connack(Connack::read(frame, rules)?),
            PacketType::Publish => Self::Publish(Publish::decode(frame, rules)?),
            PacketType::Puback => Self::Puback(Ack::read(frame, rules)?),
            PacketType::Pubrec => Self::Pubrec(Ack::read(frame, rules)?),
            PacketType::Pubrel => Self::Pubrel(Ack::read(frame, rules)?),
            PacketType::Pubcomp => Self::Pubcomp(Ack::read(frame, rules)?),
            PacketType::Subscribe => Self::Subscribe(Subscribe::read(frame, rules)?),
            PacketType::Suback => Self::Suback(Suback::read(frame, rules)?),
            PacketType::Unsubscribe => Self::Unsubscribe(Unsubscribe::read(frame, rules)?),
            PacketType::Unsuback => Self::Unsuback(Unsuback::read(frame, rules)?),
            PacketType::Pingreq => Self::Pingreq(Pingreq::read(frame)?),
            PacketType::Pingresp => Self::Pingresp(Pingresp::read(frame)?),
            PacketType::Disconnect => Self::Disconnect(Disconnect::read(frame, rules)?),
            PacketType::Auth => Self::Auth(Auth::read(frame, rules)?),
        })
    }

    /// Its type.
    #[must_use]
    pub const fn packet_type(&self) -> PacketType {
        match self {
            Self::Connect(_) => PacketType::Connect,
            Self::Connack(_) => PacketType::Connack,
            Self::Publish(_) => PacketType::Publish,
            Self::Puback(_) => PacketType::Puback,
            Self::Pubrec(_) => PacketType::Pubrec,
            Self::Pubrel(_) => PacketType::Pubrel,
            Self::Pubcomp(_) => PacketType::Pubcomp,
            Self::Subscribe(_) => PacketType::Subscribe,
            Self::Suback(_) => PacketType::Suback,
            Self::Unsubscribe(_) => PacketType::Unsubscribe,
            Self::Unsuback(_) => PacketType::Unsuback,
            Self::Pingreq(_) => PacketType::Pingreq,
            Self::Pingresp(_) => PacketType::Pingresp,
            Self::Disconnect(_) => PacketType::Disconnect,
            Self::Auth(_) => PacketType::Auth,
        }
    }
}

/// AUTH does not exist in 3.1.1: there its number is reserved, not misused.
const fn direction_fault(packet_type: PacketType, version: ProtocolVersion) -> DecodeErrorKind {
    match (packet_type, version) {
        (PacketType::Auth, ProtocolVersion::V311) => DecodeErrorKind::PacketTypeReserved,
        _ => DecodeErrorKind::WrongDirection,
    }
}
