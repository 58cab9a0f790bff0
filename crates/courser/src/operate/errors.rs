//! `courser errors`: what a number means, and what to do about it. Asks no server.

use clap::Args;
use courser_admin::error::Code;
use courser_client::ReasonCode;
use serde_json::{Value, json};

use super::print::OutputFlags;
use crate::cli::exit::{Exit, usage};
use crate::cli::plain::{plain, quoted};

/// Flags of `courser errors`.
#[derive(Args, Debug)]
pub(crate) struct Errors {
    /// Number of an error of the API, or a reason code of MQTT as 0x87 or, as libraries print it, 135; none: all of them
    code: Option<String>,
    #[command(flatten)]
    output: OutputFlags,
}

/// What to look at when MQTT says so.
const fn hint(code: ReasonCode) -> &'static str {
    match code {
        ReasonCode::Success
        | ReasonCode::GrantedQos1
        | ReasonCode::GrantedQos2
        | ReasonCode::DisconnectWithWillMessage
        | ReasonCode::NoMatchingSubscribers
        | ReasonCode::NoSubscriptionExisted
        | ReasonCode::ContinueAuthentication
        | ReasonCode::ReAuthenticate => "nothing went wrong",
        ReasonCode::UnspecifiedError => "the log of the other side may say more",
        ReasonCode::MalformedPacket => {
            "the client sent bytes that are no packet: look at its library, or at what stands between"
        }
        ReasonCode::ProtocolError => {
            "the client did something at the wrong time: look at its library"
        }
        ReasonCode::ImplementationSpecificError => {
            "the receiver does not take this, although the standard would"
        }
        ReasonCode::UnsupportedProtocolVersion => "the server speaks 3.1.1 and 5.0",
        ReasonCode::ClientIdentifierNotValid => {
            "the client id is too long, or has what is not allowed in it: mqtt.client_id_bytes_max"
        }
        ReasonCode::BadUserNameOrPassword => "user name or password are not right",
        ReasonCode::NotAuthorized => "the user may not do this",
        ReasonCode::ServerUnavailable => "the server is starting or has no room: look at /readyz",
        ReasonCode::ServerBusy => "try again later",
        ReasonCode::Banned => "the client was locked out",
        ReasonCode::ServerShuttingDown => "the server was stopped: connect again",
        ReasonCode::BadAuthenticationMethod => {
            "the method of AUTH is not the one of the connection, or is not supported"
        }
        ReasonCode::KeepAliveTimeout => {
            "nothing was heard for 1.5 times the keep-alive: network, or a client that sleeps"
        }
        ReasonCode::SessionTakenOver => {
            "another connection came with the same client id: are two devices named alike?"
        }
        ReasonCode::TopicFilterInvalid => "wildcards stand alone in a level, # only at the end",
        ReasonCode::TopicNameInvalid => {
            "no wildcards in a topic that is published to; mqtt.topic_bytes_max, mqtt.topic_levels_max"
        }
        ReasonCode::PacketIdentifierInUse => {
            "the client used a packet id again before it was free: look at its library"
        }
        ReasonCode::PacketIdentifierNotFound => "after a lost session this is usual and harmless",
        ReasonCode::ReceiveMaximumExceeded => {
            "more QoS 1 and 2 publishes under way than CONNACK allowed: look at the client's library"
        }
        ReasonCode::TopicAliasInvalid => "the alias is 0 or above the maximum, or was never set",
        ReasonCode::PacketTooLarge => "mqtt.packet_bytes_max",
        ReasonCode::MessageRateTooHigh => "the client is over its rate",
        ReasonCode::QuotaExceeded => {
            "a limit of the session or of the server is reached: queue, subscriptions, retained messages"
        }
        ReasonCode::AdministrativeAction => "an operator closed the connection",
        ReasonCode::PayloadFormatInvalid => "the payload is not the UTF-8 that it says it is",
        ReasonCode::RetainNotSupported => "mqtt.retain_available",
        ReasonCode::QosNotSupported => "mqtt.qos_max",
        ReasonCode::UseAnotherServer => {
            "an operator sent it there (courser client redirect), or mqtt.redirect_to sends all, for now"
        }
        ReasonCode::ServerMoved => {
            "an operator sent it there (courser client redirect), or mqtt.redirect_to sends all, for good"
        }
        ReasonCode::ConnectionRateExceeded => {
            "too many logins from this address have failed, or too many connections came at once: look for wrong passwords, and try again with a pause that grows"
        }
        ReasonCode::MaximumConnectTime => "the time of the connection is over",
        ReasonCode::SharedSubscriptionsNotSupported => "mqtt.shared_subscriptions_available",
        ReasonCode::SubscriptionIdentifiersNotSupported => {
            "mqtt.subscription_identifiers_available"
        }
        ReasonCode::WildcardSubscriptionsNotSupported => "mqtt.wildcard_subscriptions_available",
    }
}

/// Reason codes of MQTT 5.0 that say that something went wrong (v5 section 2.4).
fn reasons() -> impl Iterator<Item = ReasonCode> {
    let all = ReasonCode::ALL.iter().copied();
    all.filter(|code| code.is_error())
}

fn reason(code: ReasonCode) -> Value {
    json!({"code": format!("0x{:02X}", code.byte()), "name": code.name(), "meaning": "reason code of MQTT 5.0", "hint": hint(code)})
}

fn reason_of(byte: u8) -> Option<Value> {
    let code = ReasonCode::from_byte(byte).filter(|code| code.is_error());
    code.map(reason)
}

fn api(code: Code) -> Value {
    json!({"code": (code as u16).to_string(), "name": code.word(), "meaning": code.meaning().trim(), "hint": code.hint()})
}

/// Runs the command.
pub(crate) fn run(arguments: &Errors) -> Exit {
    let output = arguments.output.output();
    let Some(text) = &arguments.code else {
        let all: Vec<Value> = Code::ALL
            .iter()
            .copied()
            .map(api)
            .chain(reasons().map(reason))
            .collect();
        return output.rows(&all, &["code", "name", "hint"]).into();
    };
    let found = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => match u8::from_str_radix(digits, 16) {
            Ok(code) => reason_of(code),
            Err(_) => return usage(&wrong(text)),
        },
        // No number of the API is so small.
        None => match text.parse::<u16>() {
            Ok(code) => match u8::try_from(code) {
                Ok(code) => reason_of(code),
                Err(_) => Code::of(code).map(api),
            },
            Err(_) => return usage(&wrong(text)),
        },
    };
    match found {
        Some(found) => output.value(&found).into(),
        None => {
            eprintln!(
                "courser: there is no error {}: courser errors lists all",
                plain(text)
            );
            Exit::NotFound
        }
    }
}

fn wrong(text: &str) -> String {
    format!(
        "{} is no number of an error: write 1100, or 0x87 or 135 for a reason code of MQTT",
        quoted(text)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_of_the_api_or_of_mqtt() {
        let least = Code::ALL.iter().map(|code| *code as u16).min();
        assert!(least > Some(u16::from(u8::MAX)));
        assert_eq!(
            reason_of(135).map(|it| it["code"].clone()),
            Some(json!("0x87"))
        );
        assert_eq!(reason_of(4), None, "nothing went wrong");
    }

    #[test]
    fn every_reason_code_of_the_standard_has_its_place() {
        for (place, code) in (0x80..).zip(reasons()) {
            assert_eq!(code.byte(), place);
            assert!(!code.name().is_empty() && !hint(code).is_empty());
        }
        assert_eq!(reasons().count(), 35);
    }
}
