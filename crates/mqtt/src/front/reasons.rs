//! What a refusal says besides its code: the Reason String of v5, for people. Nothing that the client sent is in it.

use super::{Front, ProblemInformation, Redirect};
use crate::codec::{
    Ack, Connack, Disconnect, MqttStr, Packet, PacketId, PacketType, Properties, PropertiesBuilder,
    Property, PropertyScope, ProtocolVersion, ReasonCode, ReasonCodes, Suback, Unsuback,
};

impl Front {
    /// A CONNACK that cannot be sent is left out: 3.1.1 has no code for some reasons, v3 [MQTT-3.2.2-6]. Without a text it says what its
    /// reason says.
    #[cold]
    pub(super) fn send_connack_refused(&mut self, (reason, text): (ReasonCode, &str)) {
        let text = match (reason, text) {
            // Who speaks neither version may not know what follows the code.
            (ReasonCode::UnsupportedProtocolVersion, _) => "",
            (_, "") => of_connack(reason),
            (_, text) => text,
        };
        let builder = self.explained(PropertyScope::Connack, text);
        let connack = |properties| Connack {
            properties,
            ..Connack::refused(reason)
        };
        self.send_shortened(
            [builder.properties(), Properties::EMPTY].map(connack),
            Packet::Connack,
        );
    }

    /// CONNACK that names another server.
    pub(super) fn send_connack_elsewhere(&mut self, redirect: &Redirect) {
        let [explained, bare] = self.elsewhere(PropertyScope::Connack, redirect);
        let connack = |properties| Connack {
            properties,
            ..Connack::refused(redirect.reason())
        };
        self.send_shortened(
            [explained.properties(), bare.properties(), Properties::EMPTY].map(connack),
            Packet::Connack,
        );
    }

    /// DISCONNECT that does, where the version has it.
    pub(super) fn send_disconnect_elsewhere(&mut self, redirect: &Redirect) {
        if self.peer.version == ProtocolVersion::V5 {
            let [explained, bare] = self.elsewhere(PropertyScope::Disconnect, redirect);
            let disconnect = |properties| Disconnect {
                reason: redirect.reason(),
                properties,
            };
            self.send_shortened(
                [explained.properties(), bare.properties(), Properties::EMPTY].map(disconnect),
                Packet::Disconnect,
            );
        }
    }

    /// With the text, and without it.
    fn elsewhere(&self, scope: PropertyScope, redirect: &Redirect) -> [PropertiesBuilder; 2] {
        [of_disconnect(redirect.reason()), ""].map(|text| {
            let mut builder = self.explained(scope, text);
            redirect.name_in(&mut builder);
            builder
        })
    }

    /// PUBACK or PUBREC with an error; whether it was sent.
    #[cold]
    pub(super) fn send_ack_refused(
        &mut self,
        packet: PacketType,
        packet_id: PacketId,
        reason: ReasonCode,
    ) -> bool {
        let scope = match packet {
            PacketType::Puback => PropertyScope::Puback,
            PacketType::Pubrec => PropertyScope::Pubrec,
            _ => return false,
        };
        let builder = self.explained(scope, of_publish(reason));
        let all = [builder.properties(), Properties::EMPTY];
        if packet == PacketType::Puback {
            self.send_shortened(acks(packet_id, reason, all), Packet::Puback)
        } else {
            self.send_shortened(acks(packet_id, reason, all), Packet::Pubrec)
        }
    }

    /// The text is that of the first filter that was refused. Whether it was sent.
    pub(super) fn send_suback_codes(&mut self, packet_id: PacketId, codes: &[u8]) -> bool {
        let text = first_error(codes).map_or("", of_subscribe);
        let builder = self.explained(PropertyScope::Suback, text);
        let Ok(codes) = ReasonCodes::new(PacketType::Suback, codes) else {
            return false;
        };
        let suback = |properties| Suback {
            packet_id,
            properties,
            codes,
        };
        self.send_shortened(
            [builder.properties(), Properties::EMPTY].map(suback),
            Packet::Suback,
        )
    }

    /// As [`send_suback_codes`](Self::send_suback_codes).
    pub(super) fn send_unsuback_codes(&mut self, packet_id: PacketId, codes: &[u8]) -> bool {
        let text = first_error(codes).map_or("", of_subscribe);
        let builder = self.explained(PropertyScope::Unsuback, text);
        let Ok(codes) = ReasonCodes::new(PacketType::Unsuback, codes) else {
            return false;
        };
        let unsuback = |properties| Unsuback {
            packet_id,
            properties,
            codes,
        };
        self.send_shortened(
            [builder.properties(), Properties::EMPTY].map(unsuback),
            Packet::Unsuback,
        )
    }

    /// The text, where the client wants to hear it.
    pub(super) fn explained(&self, scope: PropertyScope, text: &str) -> PropertiesBuilder {
        let mut builder = PropertiesBuilder::new(scope);
        if self.peer.version == ProtocolVersion::V5
            && self.peer.problem_information == ProblemInformation::Wanted
            && !text.is_empty()
            && let Ok(text) = MqttStr::new(text)
        {
            let added = builder.push(Property::ReasonString(text));
            debug_assert!(added.is_ok(), "{scope:?} has a Reason String");
        }
        builder
    }

    /// The first that the client takes: a text must not make a packet too large for it, v5 [MQTT-3.2.2-19], v5 [MQTT-3.4.2-2],
    /// v5 [MQTT-3.5.2-2], v5 [MQTT-3.9.2-1], v5 [MQTT-3.11.2-1]. Whether there was one.
    fn send_shortened<'a, T, const N: usize>(
        &mut self,
        all: [T; N],
        packet: fn(T) -> Packet<'a>,
    ) -> bool {
        all.into_iter().any(|one| self.send(&packet(one)).is_ok())
    }
}

fn acks<const TYPE: u8>(
    packet_id: PacketId,
    reason: ReasonCode,
    all: [Properties<'_>; 2],
) -> [Ack<'_, TYPE>; 2] {
    all.map(|properties| Ack {
        packet_id,
        reason,
        properties,
    })
}

fn first_error(codes: &[u8]) -> Option<ReasonCode> {
    let mut codes = codes.iter().filter_map(|&code| ReasonCode::from_byte(code));
    codes.find(|code| code.is_error())
}

const fn of_connack(reason: ReasonCode) -> &'static str {
    match reason {
        ReasonCode::BadUserNameOrPassword => "this does not prove who the client is",
        ReasonCode::NotAuthorized => "the client may not connect here",
        ReasonCode::ServerUnavailable => "the session cannot be served yet; try again later",
        ReasonCode::ServerBusy => {
            "another connection came for the session, or too many log in at once; try again later"
        }
        ReasonCode::QuotaExceeded => {
            "as many clients as there may be, or no memory or disk left; try again later"
        }
        ReasonCode::ConnectionRateExceeded => {
            "too many logins from this address have failed; try again later"
        }
        ReasonCode::Banned => "the client is kept out",
        ReasonCode::UnspecifiedError => {
            "the server could not take the connection; its log may say more"
        }
        ReasonCode::MalformedPacket => "CONNECT is not in the form of its version",
        ReasonCode::ProtocolError => "CONNECT breaks a rule of the protocol",
        ReasonCode::ImplementationSpecificError => "the server cannot do what CONNECT asks for",
        ReasonCode::ClientIdentifierNotValid => "the client identifier cannot be taken",
        ReasonCode::TopicNameInvalid => "the topic of the will cannot be taken",
        ReasonCode::PayloadFormatInvalid => {
            "the payload of the will is not in the format that it names"
        }
        ReasonCode::UseAnotherServer | ReasonCode::ServerMoved => of_disconnect(reason),
        ReasonCode::BadAuthenticationMethod => "this listener has no such authentication method",
        ReasonCode::PacketTooLarge => "CONNECT is larger than it may be before a login",
        ReasonCode::RetainNotSupported => "the will is to be retained, which is switched off",
        ReasonCode::QosNotSupported => "the QoS of the will is switched off",
        other => other.name(),
    }
}

const fn of_publish(reason: ReasonCode) -> &'static str {
    match reason {
        ReasonCode::NotAuthorized => "the client may not publish to this topic",
        ReasonCode::QuotaExceeded => {
            "no room: a limit of what may wait or be retained, of memory or of the disk"
        }
        ReasonCode::ImplementationSpecificError => {
            "it cannot be stored at the moment; send it again later"
        }
        other => other.name(),
    }
}

const fn of_subscribe(reason: ReasonCode) -> &'static str {
    match reason {
        ReasonCode::NotAuthorized => "the client may not subscribe to this filter",
        ReasonCode::QuotaExceeded => "as many subscriptions as the session may have",
        ReasonCode::ImplementationSpecificError => {
            "the server cannot do this with a filter of this kind"
        }
        other => other.name(),
    }
}

pub(super) const fn of_disconnect(reason: ReasonCode) -> &'static str {
    match reason {
        ReasonCode::ServerBusy => "a publish could not be stored in time; send it again later",
        ReasonCode::ServerShuttingDown => "the server is being stopped; try again later",
        ReasonCode::KeepAliveTimeout => "no packet came for one and a half times the keep-alive",
        ReasonCode::SessionTakenOver => "another connection has come with this client identifier",
        ReasonCode::QuotaExceeded => {
            "no room is left for this client: memory, or a limit of its user"
        }
        ReasonCode::AdministrativeAction => "an operator has ended the connection",
        ReasonCode::NotAuthorized => "this does not prove who the client is",
        ReasonCode::UseAnotherServer => {
            "for now the server that is named here takes the place of this one"
        }
        ReasonCode::ServerMoved => "the server that is named here has taken the place of this one",
        other => other.name(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::Sender;

    /// What the code is called is said already, where it is shown to people.
    #[test]
    fn a_refused_connect_is_told_more_than_the_name_of_its_reason() {
        let codes = (0..=u8::MAX).filter_map(ReasonCode::from_byte);
        let may_be_sent = |code: &ReasonCode| {
            code.is_error() && code.allowed_from(PacketType::Connack, Sender::Server)
        };
        let mut checked = 0;
        for code in codes.filter(may_be_sent) {
            // It goes out without a text.
            if code != ReasonCode::UnsupportedProtocolVersion {
                assert_ne!(of_connack(code), code.name(), "{code:?}");
                checked += 1;
            }
        }
        assert!(checked > 15, "{checked}");
    }
}
