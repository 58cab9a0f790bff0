//! Reason codes of v5, used as the one vocabulary for both versions, and the tables of which packet may carry which.

use std::fmt;

use super::types::{PacketType, QoS, Sender};

macro_rules! reason_codes {
    ($($(#[$doc:meta])* $name:ident = $byte:literal, $text:literal;)*) => {
        /// A v5 reason code. 3.1.1 return codes are mapped onto it ([`ReasonCode::connack_return_code`]).
        ///
        /// 0x00 has three names in the standard: [`ReasonCode::Success`], [`ReasonCode::NORMAL_DISCONNECTION`] and
        /// [`ReasonCode::GRANTED_QOS_0`] are the same value.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum ReasonCode {
            $($(#[$doc])* #[doc = concat!($text, ".")] $name = $byte,)*
        }

        impl ReasonCode {
            /// Every reason code, in order of its byte.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// The code of a byte; `None` for bytes that v5 does not define.
            #[must_use]
            pub const fn from_byte(byte: u8) -> Option<Self> {
                match byte {
                    $($byte => Some(Self::$name),)*
                    _ => None,
                }
            }

            /// The standard's name.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)*
                }
            }
        }
    };
}

reason_codes! {
    Success = 0x00, "Success";
    GrantedQos1 = 0x01, "Granted QoS 1";
    GrantedQos2 = 0x02, "Granted QoS 2";
    DisconnectWithWillMessage = 0x04, "Disconnect with Will Message";
    NoMatchingSubscribers = 0x10, "No matching subscribers";
    NoSubscriptionExisted = 0x11, "No subscription existed";
    ContinueAuthentication = 0x18, "Continue authentication";
    ReAuthenticate = 0x19, "Re-authenticate";
    UnspecifiedError = 0x80, "Unspecified error";
    MalformedPacket = 0x81, "Malformed Packet";
    ProtocolError = 0x82, "Protocol Error";
    ImplementationSpecificError = 0x83, "Implementation specific error";
    UnsupportedProtocolVersion = 0x84, "Unsupported Protocol Version";
    ClientIdentifierNotValid = 0x85, "Client Identifier not valid";
    BadUserNameOrPassword = 0x86, "Bad User Name or Password";
    NotAuthorized = 0x87, "Not authorized";
    ServerUnavailable = 0x88, "Server unavailable";
    ServerBusy = 0x89, "Server busy";
    Banned = 0x8A, "Banned";
    ServerShuttingDown = 0x8B, "Server shutting down";
    BadAuthenticationMethod = 0x8C, "Bad authentication method";
    KeepAliveTimeout = 0x8D, "Keep Alive timeout";
    SessionTakenOver = 0x8E, "Session taken over";
    TopicFilterInvalid = 0x8F, "Topic Filter invalid";
    TopicNameInvalid = 0x90, "Topic Name invalid";
    PacketIdentifierInUse = 0x91, "Packet Identifier in use";
    PacketIdentifierNotFound = 0x92, "Packet Identifier not found";
    ReceiveMaximumExceeded = 0x93, "Receive Maximum exceeded";
    TopicAliasInvalid = 0x94, "Topic Alias invalid";
    PacketTooLarge = 0x95, "Packet too large";
    MessageRateTooHigh = 0x96, "Message rate too high";
    QuotaExceeded = 0x97, "Quota exceeded";
    AdministrativeAction = 0x98, "Administrative action";
    PayloadFormatInvalid = 0x99, "Payload format invalid";
    RetainNotSupported = 0x9A, "Retain not supported";
    QosNotSupported = 0x9B, "QoS not supported";
    UseAnotherServer = 0x9C, "Use another server";
    ServerMoved = 0x9D, "Server moved";
    SharedSubscriptionsNotSupported = 0x9E, "Shared Subscriptions not supported";
    ConnectionRateExceeded = 0x9F, "Connection rate exceeded";
    MaximumConnectTime = 0xA0, "Maximum connect time";
    SubscriptionIdentifiersNotSupported = 0xA1, "Subscription Identifiers not supported";
    WildcardSubscriptionsNotSupported = 0xA2, "Wildcard Subscriptions not supported";
}

impl ReasonCode {
    /// 0x00 in DISCONNECT.
    pub const NORMAL_DISCONNECTION: Self = Self::Success;
    /// 0x00 in SUBACK.
    pub const GRANTED_QOS_0: Self = Self::Success;

    /// The byte on the wire.
    #[must_use]
    pub const fn byte(self) -> u8 {
        self as u8
    }

    /// 0x80 and above: the operation failed.
    #[must_use]
    pub const fn is_error(self) -> bool {
        self.byte() >= 0x80
    }

    /// The SUBACK code that grants a maximum QoS.
    #[must_use]
    pub const fn granted(qos: QoS) -> Self {
        match qos {
            QoS::AtMostOnce => Self::GRANTED_QOS_0,
            QoS::AtLeastOnce => Self::GrantedQos1,
            QoS::ExactlyOnce => Self::GrantedQos2,
        }
    }

    /// Whether the table of this v5 packet lists the code; false for packets without a reason code.
    ///
    /// v5 [MQTT-3.2.2-8], v5 [MQTT-3.4.2-1], v5 [MQTT-3.5.2-1], v5 [MQTT-3.6.2-1], v5 [MQTT-3.7.2-1],
    /// v5 [MQTT-3.9.3-2], v5 [MQTT-3.11.3-2], v5 [MQTT-3.14.2-1], v5 [MQTT-3.15.2-1].
    #[must_use]
    pub const fn allowed_in(self, packet: PacketType) -> bool {
        match packet {
            PacketType::Connack => self.allowed_in_connack(),
            PacketType::Puback | PacketType::Pubrec => {
                matches!(
                    self.byte(),
                    0x00 | 0x10 | 0x80 | 0x83 | 0x87 | 0x90 | 0x91 | 0x97 | 0x99
                )
            }
            PacketType::Pubrel | PacketType::Pubcomp => matches!(self.byte(), 0x00 | 0x92),
            PacketType::Suback => matches!(
                self.byte(),
                0x00..=0x02 | 0x80 | 0x83 | 0x87 | 0x8F | 0x91 | 0x97 | 0x9E | 0xA1 | 0xA2
            ),
            PacketType::Unsuback => {
                matches!(self.byte(), 0x00 | 0x11 | 0x80 | 0x83 | 0x87 | 0x8F | 0x91)
            }
            PacketType::Disconnect => self.allowed_in_disconnect(),
            PacketType::Auth => matches!(self.byte(), 0x00 | 0x18 | 0x19),
            PacketType::Connect
            | PacketType::Publish
            | PacketType::Subscribe
            | PacketType::Unsubscribe
            | PacketType::Pingreq
            | PacketType::Pingresp => false,
        }
    }

    /// Like [`ReasonCode::allowed_in`], and this side may send it: the tables of DISCONNECT and AUTH have a column for that.
    #[must_use]
    pub const fn allowed_from(self, packet: PacketType, sender: Sender) -> bool {
        if !self.allowed_in(packet) {
            return false;
        }
        match (packet, sender) {
            (PacketType::Disconnect, Sender::Client) => matches!(
                self.byte(),
                0x00 | 0x04 | 0x80..=0x83 | 0x90 | 0x93..=0x99
            ),
            (PacketType::Disconnect, Sender::Server) => self.byte() != 0x04,
            (PacketType::Auth, Sender::Client) => self.byte() != 0x00,
            (PacketType::Auth, Sender::Server) => self.byte() != 0x19,
            _ => true,
        }
    }

    const fn allowed_in_connack(self) -> bool {
        matches!(
            self.byte(),
            0x00 | 0x80..=0x8A | 0x8C | 0x90 | 0x95 | 0x97 | 0x99..=0x9D | 0x9F
        )
    }

    /// 0x8C stands in the table of section 2.4 but not in that of section 3.14.2.1: accepted.
    const fn allowed_in_disconnect(self) -> bool {
        matches!(
            self.byte(),
            0x00 | 0x04 | 0x80..=0x83 | 0x87 | 0x89 | 0x8B..=0x90 | 0x93..=0xA2
        )
    }

    /// The 3.1.1 CONNACK return code that says this; `None` when none fits and the connection is only closed,
    /// v3 [MQTT-3.2.2-6].
    #[must_use]
    pub const fn connack_return_code(self) -> Option<u8> {
        match self {
            Self::Success => Some(0x00),
            Self::UnsupportedProtocolVersion => Some(0x01),
            Self::ClientIdentifierNotValid => Some(0x02),
            Self::ServerUnavailable
            | Self::ServerBusy
            | Self::ServerShuttingDown
            | Self::ConnectionRateExceeded
            | Self::QuotaExceeded
            | Self::UseAnotherServer
            | Self::ServerMoved => Some(0x03),
            Self::BadUserNameOrPassword => Some(0x04),
            Self::NotAuthorized | Self::Banned | Self::BadAuthenticationMethod => Some(0x05),
            _ => None,
        }
    }

    /// The reason code of a 3.1.1 CONNACK return code; `None` above 5, which 3.1.1 reserves.
    #[must_use]
    pub const fn from_connack_return_code(code: u8) -> Option<Self> {
        match code {
            0x00 => Some(Self::Success),
            0x01 => Some(Self::UnsupportedProtocolVersion),
            0x02 => Some(Self::ClientIdentifierNotValid),
            0x03 => Some(Self::ServerUnavailable),
            0x04 => Some(Self::BadUserNameOrPassword),
            0x05 => Some(Self::NotAuthorized),
            _ => None,
        }
    }

    /// The 3.1.1 SUBACK code: the granted QoS, or 0x80 for every failure, v3 [MQTT-3.9.3-2].
    #[must_use]
    pub const fn suback_v311(self) -> u8 {
        if self.byte() <= 0x02 {
            self.byte()
        } else {
            0x80
        }
    }
}

impl fmt::Display for ReasonCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "0x{:02X} {}", self.byte(), self.name())
    }
}
