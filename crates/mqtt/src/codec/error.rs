//! Why bytes were refused: a closed list of kinds, each with the reason code that goes on the wire.

use super::reason::ReasonCode;
use super::types::ProtocolVersion;

macro_rules! decode_error_kinds {
    ($($(#[$doc:meta])* $name:ident, $label:literal, $reason:ident, $text:literal;)*) => {
        /// What was wrong with a packet. Closed, so that counters can be an array over [`DecodeErrorKind::ALL`].
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum DecodeErrorKind {
            $($(#[$doc])* #[doc = concat!("`", stringify!($reason), "`: ", $text, ".")] $name,)*
        }

        impl DecodeErrorKind {
            /// Every kind; `kind as usize` is its place here.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// The reason code for CONNACK or DISCONNECT.
            #[must_use]
            pub const fn reason(self) -> ReasonCode {
                match self { $(Self::$name => ReasonCode::$reason,)* }
            }

            /// A stable name for metrics labels.
            #[must_use]
            pub const fn label(self) -> &'static str {
                match self { $(Self::$name => $label,)* }
            }

            /// A sentence for logs and the Reason String; holds nothing that the peer sent.
            #[must_use]
            pub const fn text(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }
        }
    };
}

decode_error_kinds! {
    PacketTypeReserved, "packet_type_reserved", MalformedPacket, "the packet type is reserved in this version";
    FixedHeaderFlags, "fixed_header_flags", MalformedPacket, "the flag bits of the fixed header are wrong for this packet type";
    LengthTooLong, "length_too_long", MalformedPacket, "a variable byte integer has more than four bytes";
    LengthNotMinimal, "length_not_minimal", MalformedPacket, "a variable byte integer is longer than needed";
    PacketTooLarge, "packet_too_large", PacketTooLarge, "the packet is larger than the maximum packet size";
    WrongDirection, "wrong_direction", ProtocolError, "this side must not send this packet type";
    Truncated, "truncated", MalformedPacket, "a field reaches beyond the end of the packet";
    TrailingBytes, "trailing_bytes", MalformedPacket, "bytes follow the last field";
    Utf8, "utf8", MalformedPacket, "a string is not valid UTF-8";
    Nul, "nul", MalformedPacket, "a string contains U+0000";
    PacketIdZero, "packet_id_zero", ProtocolError, "the packet identifier is zero";
    ProtocolName, "protocol_name", UnsupportedProtocolVersion, "the protocol name is not MQTT";
    ProtocolLevelOld, "protocol_level_old", UnsupportedProtocolVersion, "the protocol level is below 4 or private";
    ProtocolLevelNew, "protocol_level_new", UnsupportedProtocolVersion, "the protocol level is above 5";
    ConnectFlagReserved, "connect_flag_reserved", MalformedPacket, "the reserved CONNECT flag is set";
    WillFlags, "will_flags", MalformedPacket, "Will QoS or Will Retain is set without Will Flag";
    WillQos, "will_qos", MalformedPacket, "Will QoS is 3";
    PasswordWithoutUserName, "password_without_user_name", MalformedPacket, "a password without a user name is not 3.1.1";
    ClientIdTooLong, "client_id_too_long", ClientIdentifierNotValid, "the client identifier is longer than the limit";
    ClientIdEmpty, "client_id_empty", ClientIdentifierNotValid, "an empty client identifier needs a clean session in 3.1.1";
    AcknowledgeFlags, "acknowledge_flags", MalformedPacket, "reserved CONNACK flag bits are set";
    SessionPresentOnError, "session_present_on_error", ProtocolError, "Session Present is set in a refusing CONNACK";
    QosInvalid, "qos_invalid", MalformedPacket, "the QoS bits are 3";
    DupOnQos0, "dup_on_qos0", MalformedPacket, "DUP is set on a QoS 0 PUBLISH";
    TopicNameEmpty, "topic_name_empty", ProtocolError, "the topic name is empty and there is no topic alias";
    TopicNameWildcard, "topic_name_wildcard", TopicNameInvalid, "the topic name contains a wildcard";
    TopicNameLimit, "topic_name_limit", TopicNameInvalid, "the topic name is longer or deeper than the limit";
    TopicAliasZero, "topic_alias_zero", TopicAliasInvalid, "the topic alias is zero";
    ResponseTopic, "response_topic", ProtocolError, "the response topic is empty or contains a wildcard";
    TopicFilterInvalid, "topic_filter_invalid", TopicFilterInvalid, "the topic filter is empty or has a misplaced wildcard";
    ShareNameInvalid, "share_name_invalid", TopicFilterInvalid, "the shared subscription has no share name or no topic filter";
    TopicFilterLimit, "topic_filter_limit", TopicFilterInvalid, "the topic filter is longer or deeper than the limit";
    NoTopicFilter, "no_topic_filter", ProtocolError, "SUBSCRIBE or UNSUBSCRIBE has no topic filter";
    SubscriptionOptionsReserved, "subscription_options_reserved", MalformedPacket, "reserved bits of the subscription options are set";
    SubscriptionQos, "subscription_qos", ProtocolError, "the QoS of a subscription is 3";
    SubscriptionQosV311, "subscription_qos_v311", MalformedPacket, "reserved bits are set or the requested QoS is 3";
    RetainHandling, "retain_handling", ProtocolError, "Retain Handling is 3";
    NoLocalOnShared, "no_local_on_shared", ProtocolError, "No Local is set on a shared subscription";
    NoReasonCode, "no_reason_code", ProtocolError, "SUBACK or UNSUBACK has no reason code";
    ReasonCodeUnknown, "reason_code_unknown", MalformedPacket, "the reason code is not defined";
    ReasonCodeMisplaced, "reason_code_misplaced", ProtocolError, "the reason code is not one of this packet and sender";
    PropertyUnknown, "property_unknown", MalformedPacket, "a property identifier is not defined";
    PropertyMisplaced, "property_misplaced", MalformedPacket, "a property does not belong to this packet";
    PropertyDuplicate, "property_duplicate", ProtocolError, "a property occurs more than once";
    PropertyValue, "property_value", ProtocolError, "a property has a value that the standard forbids";
    PropertySender, "property_sender", ProtocolError, "this side must not send this property";
    AuthenticationDataAlone, "authentication_data_alone", ProtocolError, "Authentication Data without Authentication Method";
    AuthenticationMethodMissing, "authentication_method_missing", ProtocolError, "AUTH without Authentication Method";
    UserPropertiesLimit, "user_properties_limit", QuotaExceeded, "more user properties than the limit";
    PayloadFormat, "payload_format", PayloadFormatInvalid, "the payload is not the UTF-8 that it says it is";
}

/// Bytes that are not a packet of this version and direction.
///
/// The receiver closes the connection: v3 [MQTT-4.8.0-1], v5 [MQTT-4.13.1-1]. One byte, free to copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[error("{}", kind.text())]
pub struct DecodeError {
    kind: DecodeErrorKind,
}

impl DecodeError {
    /// What was wrong.
    #[must_use]
    pub const fn kind(self) -> DecodeErrorKind {
        self.kind
    }

    /// The reason code to answer with where the version and state allow an answer.
    #[must_use]
    pub const fn reason(self) -> ReasonCode {
        self.kind.reason()
    }

    /// The version of the CONNACK that answers a refused CONNECT with [`DecodeError::reason`]; `None`: close without an answer.
    ///
    /// `spoken` is what [`Connect::peek_version`](super::Connect::peek_version) says. An unsupported level below 4 (also `MQIsdp`,
    /// and the private levels from 0x80 on that bridges try first) gets a 3.1.1 CONNACK 0x01, v3 [MQTT-3.1.2-2]; a level above 5
    /// a v5 CONNACK 0x84, v5 [MQTT-3.1.2-2]; a refused client identifier of 3.1.1 gets 0x02, v3 [MQTT-3.1.3-8] and
    /// v3 [MQTT-3.1.3-9]. All else that is wrong with a 3.1.1 CONNECT is closed without an answer, v3 [MQTT-3.1.4-1].
    #[must_use]
    pub const fn connack_version(self, spoken: Option<ProtocolVersion>) -> Option<ProtocolVersion> {
        match (self.kind, spoken) {
            (DecodeErrorKind::ProtocolLevelOld, _) => Some(ProtocolVersion::V311),
            (DecodeErrorKind::ProtocolLevelNew, _) => Some(ProtocolVersion::V5),
            (
                DecodeErrorKind::ClientIdEmpty | DecodeErrorKind::ClientIdTooLong,
                Some(ProtocolVersion::V311),
            ) => Some(ProtocolVersion::V311),
            (_, Some(ProtocolVersion::V5)) => Some(ProtocolVersion::V5),
            (_, Some(ProtocolVersion::V311) | None) => None,
        }
    }
}

impl From<DecodeErrorKind> for DecodeError {
    fn from(kind: DecodeErrorKind) -> Self {
        Self { kind }
    }
}
