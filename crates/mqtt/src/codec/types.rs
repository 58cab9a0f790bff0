//! Small value types of both protocol versions; each holds only what the standard allows.

use std::fmt;
use std::num::{NonZeroU16, NonZeroU32};

use super::varint::VARINT_MAX;

/// The protocol versions that this codec speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ProtocolVersion {
    /// MQTT 3.1.1, protocol level 4.
    V311,
    /// MQTT 5.0, protocol level 5.
    V5,
}

impl ProtocolVersion {
    /// The protocol level byte of CONNECT: 4 or 5.
    #[must_use]
    pub const fn level(self) -> u8 {
        match self {
            Self::V311 => 4,
            Self::V5 => 5,
        }
    }
}

impl fmt::Display for ProtocolVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::V311 => "3.1.1",
            Self::V5 => "5.0",
        })
    }
}

/// The side that sent a packet; some rules bind only one side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Sender {
    /// The packet travels from a client to a server.
    Client,
    /// The packet travels from a server to a client.
    Server,
}

/// The fifteen control packet types, numbered as in the fixed header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
#[allow(missing_docs)] // the names are the standard's own
pub enum PacketType {
    Connect = 1,
    Connack = 2,
    Publish = 3,
    Puback = 4,
    Pubrec = 5,
    Pubrel = 6,
    Pubcomp = 7,
    Subscribe = 8,
    Suback = 9,
    Unsubscribe = 10,
    Unsuback = 11,
    Pingreq = 12,
    Pingresp = 13,
    Disconnect = 14,
    Auth = 15,
}

impl PacketType {
    /// All types in order of their number.
    pub const ALL: [Self; 15] = [
        Self::Connect,
        Self::Connack,
        Self::Publish,
        Self::Puback,
        Self::Pubrec,
        Self::Pubrel,
        Self::Pubcomp,
        Self::Subscribe,
        Self::Suback,
        Self::Unsubscribe,
        Self::Unsuback,
        Self::Pingreq,
        Self::Pingresp,
        Self::Disconnect,
        Self::Auth,
    ];

    /// The type in the high half of a first byte; `None` for the reserved number 0.
    #[must_use]
    pub const fn from_first_byte(first: u8) -> Option<Self> {
        let number = first >> 4;
        if number == 0 {
            None
        } else {
            Some(Self::ALL[number as usize - 1])
        }
    }

    /// The low half of the first byte that the standard prescribes; `None` for PUBLISH, whose bits mean something.
    #[must_use]
    pub const fn required_flags(self) -> Option<u8> {
        match self {
            Self::Publish => None,
            Self::Pubrel | Self::Subscribe | Self::Unsubscribe => Some(0b0010),
            Self::Connect
            | Self::Connack
            | Self::Puback
            | Self::Pubrec
            | Self::Pubcomp
            | Self::Suback
            | Self::Unsuback
            | Self::Pingreq
            | Self::Pingresp
            | Self::Disconnect
            | Self::Auth => Some(0),
        }
    }

    /// Whether this side may send this type in this version (table of packet types in section 2 of both standards).
    #[must_use]
    pub const fn sent_by(self, sender: Sender, version: ProtocolVersion) -> bool {
        let client = matches!(sender, Sender::Client);
        match self {
            Self::Connect | Self::Subscribe | Self::Unsubscribe | Self::Pingreq => client,
            Self::Connack | Self::Suback | Self::Unsuback | Self::Pingresp => !client,
            Self::Publish | Self::Puback | Self::Pubrec | Self::Pubrel | Self::Pubcomp => true,
            Self::Disconnect => client || matches!(version, ProtocolVersion::V5),
            Self::Auth => matches!(version, ProtocolVersion::V5),
        }
    }

    /// The standard's name in capitals.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Connect => "CONNECT",
            Self::Connack => "CONNACK",
            Self::Publish => "PUBLISH",
            Self::Puback => "PUBACK",
            Self::Pubrec => "PUBREC",
            Self::Pubrel => "PUBREL",
            Self::Pubcomp => "PUBCOMP",
            Self::Subscribe => "SUBSCRIBE",
            Self::Suback => "SUBACK",
            Self::Unsubscribe => "UNSUBSCRIBE",
            Self::Unsuback => "UNSUBACK",
            Self::Pingreq => "PINGREQ",
            Self::Pingresp => "PINGRESP",
            Self::Disconnect => "DISCONNECT",
            Self::Auth => "AUTH",
        }
    }
}

impl fmt::Display for PacketType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Quality of service of a message or the maximum of a subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum QoS {
    /// 0: no acknowledgement.
    AtMostOnce = 0,
    /// 1: PUBACK.
    AtLeastOnce = 1,
    /// 2: PUBREC, PUBREL, PUBCOMP.
    ExactlyOnce = 2,
}

impl QoS {
    /// The QoS of a number; `None` above 2.
    #[must_use]
    pub const fn from_number(number: u8) -> Option<Self> {
        match number {
            0 => Some(Self::AtMostOnce),
            1 => Some(Self::AtLeastOnce),
            2 => Some(Self::ExactlyOnce),
            _ => None,
        }
    }

    /// 0, 1 or 2.
    #[must_use]
    pub const fn number(self) -> u8 {
        self as u8
    }
}

/// A packet identifier, never zero: v3 [MQTT-2.3.1-1], v5 [MQTT-2.2.1-3], v5 [MQTT-2.2.1-4].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PacketId(NonZeroU16);

impl PacketId {
    /// The lowest packet identifier, 1.
    pub const MIN: Self = Self(NonZeroU16::MIN);

    /// `None` for zero.
    #[must_use]
    pub const fn new(id: u16) -> Option<Self> {
        match NonZeroU16::new(id) {
            Some(id) => Some(Self(id)),
            None => None,
        }
    }

    /// The number, 1 to 65,535.
    #[must_use]
    pub const fn get(self) -> u16 {
        self.0.get()
    }
}

impl From<NonZeroU16> for PacketId {
    fn from(id: NonZeroU16) -> Self {
        Self(id)
    }
}

impl fmt::Display for PacketId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A topic alias, never zero: v5 [MQTT-3.3.2-8]. Whether it is within the Topic Alias Maximum is the session's business.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TopicAlias(NonZeroU16);

impl TopicAlias {
    /// `None` for zero.
    #[must_use]
    pub const fn new(alias: u16) -> Option<Self> {
        match NonZeroU16::new(alias) {
            Some(alias) => Some(Self(alias)),
            None => None,
        }
    }

    /// The number, 1 to 65,535.
    #[must_use]
    pub const fn get(self) -> u16 {
        self.0.get()
    }
}

/// A subscription identifier, 1 to 268,435,455 (v5 section 3.8.2.1.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SubscriptionId(NonZeroU32);

impl SubscriptionId {
    /// `None` for zero and above 268,435,455.
    #[must_use]
    pub const fn new(id: u32) -> Option<Self> {
        match NonZeroU32::new(id) {
            Some(number) if id <= VARINT_MAX => Some(Self(number)),
            _ => None,
        }
    }

    /// The number.
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0.get()
    }
}
