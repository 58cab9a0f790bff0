//! Every disagreement that is known, with the clause that decides it. In each of them we keep to the standard.
//!
//! [`lax`] lists what an oracle lets through, by the kind of our refusal, the packets and what becomes of them; the clause of a kind is in [`clause`].
//! [`OTHER`] lists packets that an oracle refuses or changes although they are valid, with the condition under which that was seen.

use courser_mqtt::codec::DecodeErrorKind as Kind;
use courser_mqtt::codec::{Packet, PacketType, ProtocolVersion, ReasonCode};

use crate::{Disagreement, Key};

pub mod lax;

/// The clause behind a kind of refusal: 3.1.1, 5.0.
#[must_use]
pub const fn clause(kind: Kind) -> (&'static str, &'static str) {
    match kind {
        Kind::PacketTypeReserved => ("v3 [MQTT-2.2.2-2]", "v5 2.1.2"),
        Kind::FixedHeaderFlags => ("v3 [MQTT-2.2.2-2]", "v5 [MQTT-2.1.3-1]"),
        Kind::LengthTooLong => ("v3 2.2.3", "v5 [MQTT-1.5.5-1]"),
        Kind::LengthNotMinimal => ("v3 table 2.4", "v5 [MQTT-1.5.5-1]"),
        Kind::PacketTooLarge => ("v3 2.2.3", "v5 [MQTT-3.2.2-15]"),
        Kind::WrongDirection => ("v3 table 2.1", "v5 table 2-1"),
        Kind::Truncated => ("v3 [MQTT-4.8.0-1]", "v5 4.13.1"),
        Kind::TrailingBytes => ("v3 [MQTT-4.8.0-1]", "v5 4.13.1"),
        Kind::Utf8 => ("v3 [MQTT-1.5.3-1]", "v5 [MQTT-1.5.4-1]"),
        Kind::Nul => ("v3 [MQTT-1.5.3-2]", "v5 [MQTT-1.5.4-2]"),
        Kind::PacketIdZero => ("v3 [MQTT-2.3.1-1]", "v5 [MQTT-2.2.1-3]"),
        Kind::ProtocolName => ("v3 [MQTT-3.1.2-1]", "v5 [MQTT-3.1.2-1]"),
        Kind::ProtocolLevelOld | Kind::ProtocolLevelNew => {
            ("v3 [MQTT-3.1.2-2]", "v5 [MQTT-3.1.2-2]")
        }
        Kind::ConnectFlagReserved => ("v3 [MQTT-3.1.2-3]", "v5 [MQTT-3.1.2-3]"),
        Kind::WillFlags => ("v3 [MQTT-3.1.2-11]", "v5 [MQTT-3.1.2-11]"),
        Kind::WillQos => ("v3 [MQTT-3.1.2-14]", "v5 [MQTT-3.1.2-12]"),
        Kind::PasswordWithoutUserName => ("v3 [MQTT-3.1.2-22]", "not a rule of v5"),
        Kind::ClientIdTooLong => ("v3 [MQTT-3.1.3-9]", "v5 [MQTT-3.1.3-8]"),
        Kind::ClientIdEmpty => ("v3 [MQTT-3.1.3-7]", "not a rule of v5"),
        Kind::AcknowledgeFlags => ("v3 3.2.2.1", "v5 [MQTT-3.2.2-1]"),
        Kind::SessionPresentOnError => ("v3 [MQTT-3.2.2-4]", "v5 [MQTT-3.2.2-6]"),
        Kind::QosInvalid => ("v3 [MQTT-3.3.1-4]", "v5 [MQTT-3.3.1-4]"),
        Kind::DupOnQos0 => ("v3 [MQTT-3.3.1-2]", "v5 [MQTT-3.3.1-2]"),
        Kind::TopicNameEmpty => ("v3 [MQTT-4.7.3-1]", "v5 [MQTT-4.7.3-1]"),
        Kind::TopicNameWildcard => ("v3 [MQTT-3.3.2-2]", "v5 [MQTT-3.3.2-2]"),
        Kind::TopicNameLimit | Kind::TopicFilterLimit => ("v3 [MQTT-4.7.3-3]", "v5 [MQTT-4.7.3-3]"),
        Kind::TopicAliasZero => ("not in v3", "v5 [MQTT-3.3.2-8]"),
        Kind::ResponseTopic => ("not in v3", "v5 [MQTT-3.3.2-14]"),
        Kind::TopicFilterInvalid => ("v3 [MQTT-4.7.1-2]", "v5 [MQTT-4.7.1-1]"),
        Kind::ShareNameInvalid => ("v3: our $share/", "v5 [MQTT-4.8.2-1]"),
        Kind::NoTopicFilter => ("v3 [MQTT-3.8.3-3]", "v5 [MQTT-3.8.3-2]"),
        Kind::SubscriptionOptionsReserved => ("not in v3", "v5 [MQTT-3.8.3-5]"),
        Kind::SubscriptionQos | Kind::SubscriptionQosV311 => ("v3 [MQTT-3.8.3-4]", "v5 3.8.3.1"),
        Kind::RetainHandling => ("not in v3", "v5 3.8.3.1"),
        Kind::NoLocalOnShared => ("not in v3", "v5 [MQTT-3.8.3-4]"),
        Kind::NoReasonCode => ("v3 [MQTT-3.8.4-5]", "v5 [MQTT-3.8.4-6]"),
        Kind::ReasonCodeUnknown | Kind::ReasonCodeMisplaced => (
            "v3 [MQTT-3.9.3-2], v3 table 3.1",
            "v5 2.4, v5 [MQTT-3.14.2-1], v5 [MQTT-3.15.2-1]",
        ),
        Kind::PropertyUnknown | Kind::PropertyMisplaced | Kind::PropertyDuplicate => {
            ("not in v3", "v5 2.2.2.2")
        }
        Kind::PropertyValue => ("not in v3", "v5 2.2.2.2"),
        Kind::PropertySender => ("not in v3", "v5 [MQTT-3.3.4-6], v5 [MQTT-3.14.2-2]"),
        Kind::AuthenticationDataAlone => ("not in v3", "v5 3.1.2.11.10"),
        Kind::AuthenticationMethodMissing => ("not in v3", "v5 3.15.2.2.2"),
        Kind::UserPropertiesLimit => ("not in v3", "our limit"),
        Kind::PayloadFormat => ("not in v3", "v5 3.3.2.3.2"),
    }
}

/// Places of [`OTHER`] begin here in a report.
pub const OTHER_BASE: usize = 10_000;

use ProtocolVersion::{V5, V311};

/// A valid packet that an oracle refuses or changes.
pub struct Other {
    /// The crate.
    pub oracle: &'static str,
    /// The version.
    pub version: ProtocolVersion,
    /// The packet type.
    pub packet_type: PacketType,
    /// Refused or changed.
    pub disagreement: Disagreement,
    /// The rule that makes the packet valid.
    pub clause: &'static str,
    /// What about it the oracle cannot take.
    pub condition: fn(&Packet<'_>) -> bool,
}

/// Every valid packet that an oracle refuses or changes.
pub const OTHER: &[Other] = &[
    Other {
        oracle: "mqtt-protocol-core",
        version: V5,
        packet_type: PacketType::Connect,
        disagreement: Disagreement::Strict,
        clause: "v5 3.1.2.9: a password without a user name",
        condition: |packet| matches!(packet, Packet::Connect(connect) if connect.password.is_some() && connect.user_name.is_none()),
    },
    Other {
        oracle: "mqtt-protocol-core",
        version: V5,
        packet_type: PacketType::Disconnect,
        disagreement: Disagreement::Strict,
        clause: "v5 2.4: 0x8C in DISCONNECT (missing in 3.14.2.1)",
        condition: |packet| matches!(packet, Packet::Disconnect(disconnect) if disconnect.reason == ReasonCode::BadAuthenticationMethod),
    },
    Other {
        oracle: "rmqtt-codec",
        version: V5,
        packet_type: PacketType::Connect,
        disagreement: Disagreement::Strict,
        clause: "v5 [MQTT-3.1.3-6]: an empty client identifier without Clean Start; a Message Expiry Interval of 0 in a will",
        condition: |packet| {
            matches!(packet, Packet::Connect(connect)
            if (connect.client_id.is_empty() && !connect.clean_start)
                || connect.will.is_some_and(|will| will.properties.message_expiry_interval() == Some(0)))
        },
    },
    Other {
        oracle: "rmqtt-codec",
        version: V5,
        packet_type: PacketType::Publish,
        disagreement: Disagreement::Strict,
        clause: "v5 3.3.2.3.3: a Message Expiry Interval of 0",
        condition: |packet| matches!(packet, Packet::Publish(publish) if publish.message_expiry_interval == Some(0)),
    },
    Other {
        oracle: "rmqtt-codec",
        version: V5,
        packet_type: PacketType::Auth,
        disagreement: Disagreement::Differs,
        clause: "v5 3.15.2.1: AUTH without a body",
        condition: |packet| matches!(packet, Packet::Auth(auth) if auth.properties.is_empty()),
    },
    Other {
        oracle: "rumqttc",
        version: V311,
        packet_type: PacketType::Connect,
        disagreement: Disagreement::Strict,
        clause: "v3 3.1.3.5: a password is binary data, not a string",
        condition: |packet| matches!(packet, Packet::Connect(connect) if not_text(connect.password)),
    },
    Other {
        oracle: "rumqttc",
        version: V311,
        packet_type: PacketType::Connect,
        disagreement: Disagreement::Differs,
        clause: "v3 [MQTT-3.1.2-19]: an empty user name or password is there",
        condition: has_empty_login,
    },
    Other {
        oracle: "rumqttc",
        version: V5,
        packet_type: PacketType::Connect,
        disagreement: Disagreement::Strict,
        clause: "v5 3.1.3.6: a password is binary data, not a string",
        condition: |packet| matches!(packet, Packet::Connect(connect) if not_text(connect.password)),
    },
    Other {
        oracle: "rumqttc",
        version: V5,
        packet_type: PacketType::Connect,
        disagreement: Disagreement::Differs,
        clause: "v5 [MQTT-3.1.2-17]: an empty user name or password is there",
        condition: has_empty_login,
    },
    Other {
        oracle: "rumqttc",
        version: V5,
        packet_type: PacketType::Publish,
        disagreement: Disagreement::Differs,
        clause: "v5 [MQTT-3.3.4-4]: a subscription identifier of more than one byte, or several",
        condition: |packet| matches!(packet, Packet::Publish(publish) if !publish.subscription_ids.is_empty()),
    },
    Other {
        oracle: "rumqttc",
        version: V5,
        packet_type: PacketType::Disconnect,
        disagreement: Disagreement::Strict,
        clause: "v5 3.14.2.1: DISCONNECT without reason code or without property length; v5 2.4: 0x8C in DISCONNECT",
        condition: |packet| {
            matches!(packet, Packet::Disconnect(disconnect)
                if disconnect.properties.is_empty()
                    || disconnect.reason == ReasonCode::BadAuthenticationMethod)
        },
    },
    Other {
        oracle: "rumqttc",
        version: V5,
        packet_type: PacketType::Disconnect,
        disagreement: Disagreement::Differs,
        clause: "v5 3.14.2.1: a property length of 0 (it writes a longer remaining length than bytes)",
        condition: |packet| matches!(packet, Packet::Disconnect(disconnect) if disconnect.properties.is_empty()),
    },
    Other {
        oracle: "rumqttc",
        version: V5,
        packet_type: PacketType::Auth,
        disagreement: Disagreement::Strict,
        clause: "v5 3.15: AUTH is not known to it",
        condition: |_| true,
    },
];

fn not_text(password: Option<courser_mqtt::codec::Secret<'_>>) -> bool {
    password.is_some_and(|password| std::str::from_utf8(password.reveal()).is_err())
}

fn has_empty_login(packet: &Packet<'_>) -> bool {
    matches!(packet, Packet::Connect(connect)
        if connect.user_name.is_some_and(|name| name.is_empty())
            || connect.password.is_some_and(|password| password.reveal().is_empty()))
}

/// The entry that explains a disagreement; `packet` is our reading, where we accept.
#[must_use]
pub fn explain(key: &Key, packet: Option<&Packet<'_>>) -> Option<usize> {
    let (oracle, version, packet_type, disagreement) = *key;
    if matches!(disagreement, Disagreement::Lax(..)) {
        return lax::line(key);
    }
    let packet = packet?;
    OTHER
        .iter()
        .position(|other| {
            other.oracle == oracle
                && other.version == version
                && other.packet_type == packet_type
                && other.disagreement == disagreement
                && (other.condition)(packet)
        })
        .map(|place| OTHER_BASE + place)
}
