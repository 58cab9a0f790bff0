//! `courser errors`: what a number means, and what to do about it. Asks no server.

use clap::Args;
use courser_admin::error::Code;
use serde_json::{Value, json};

use super::print::OutputFlags;
use crate::cli::exit::{Exit, usage};

/// Flags of `courser errors`.
#[derive(Args, Debug)]
pub(crate) struct Errors {
    /// Number of an error of the API, or a reason code of MQTT as 0x87; none: all of them
    code: Option<String>,
    #[command(flatten)]
    output: OutputFlags,
}

/// Reason codes of MQTT 5.0 that say that something went wrong (v5 section 2.4): code, name, what to look at.
const REASONS: [(u8, &str, &str); 35] = [
    (
        0x80,
        "Unspecified error",
        "the log of the other side may say more",
    ),
    (
        0x81,
        "Malformed Packet",
        "the client sent bytes that are no packet: look at its library, or at what stands between",
    ),
    (
        0x82,
        "Protocol Error",
        "the client did something at the wrong time: look at its library",
    ),
    (
        0x83,
        "Implementation specific error",
        "the receiver does not take this, although the standard would",
    ),
    (
        0x84,
        "Unsupported Protocol Version",
        "the server speaks 3.1.1 and 5.0",
    ),
    (
        0x85,
        "Client Identifier not valid",
        "the client id is too long, or has what is not allowed in it: mqtt.client_id_bytes_max",
    ),
    (
        0x86,
        "Bad User Name or Password",
        "user name or password are not right",
    ),
    (0x87, "Not authorized", "the user may not do this"),
    (
        0x88,
        "Server unavailable",
        "the server is starting or has no room: look at /readyz",
    ),
    (0x89, "Server busy", "try again later"),
    (0x8A, "Banned", "the client was locked out"),
    (
        0x8B,
        "Server shutting down",
        "the server was stopped: connect again",
    ),
    (
        0x8C,
        "Bad authentication method",
        "the method of AUTH is not the one of the connection, or is not supported",
    ),
    (
        0x8D,
        "Keep Alive timeout",
        "nothing was heard for 1.5 times the keep-alive: network, or a client that sleeps",
    ),
    (
        0x8E,
        "Session taken over",
        "another connection came with the same client id: are two devices named alike?",
    ),
    (
        0x8F,
        "Topic Filter invalid",
        "wildcards stand alone in a level, # only at the end",
    ),
    (
        0x90,
        "Topic Name invalid",
        "no wildcards in a topic that is published to; mqtt.topic_bytes_max, mqtt.topic_levels_max",
    ),
    (
        0x91,
        "Packet Identifier in use",
        "the client used a packet id again before it was free: look at its library",
    ),
    (
        0x92,
        "Packet Identifier not found",
        "after a lost session this is usual and harmless",
    ),
    (
        0x93,
        "Receive Maximum exceeded",
        "more QoS 1 and 2 publishes under way than CONNACK allowed: look at the client's library",
    ),
    (
        0x94,
        "Topic Alias invalid",
        "the alias is 0 or above the maximum, or was never set",
    ),
    (0x95, "Packet too large", "mqtt.packet_bytes_max"),
    (0x96, "Message rate too high", "the client is over its rate"),
    (
        0x97,
        "Quota exceeded",
        "a limit of the session or of the server is reached: queue, subscriptions, retained messages",
    ),
    (
        0x98,
        "Administrative action",
        "an operator closed the connection",
    ),
    (
        0x99,
        "Payload format invalid",
        "the payload is not the UTF-8 that it says it is",
    ),
    (0x9A, "Retain not supported", "mqtt.retain_available"),
    (
        0x9B,
        "QoS not supported",
        "the server takes all of them; this comes from elsewhere",
    ),
    (
        0x9C,
        "Use another server",
        "an operator sent it there (courser client redirect), or mqtt.redirect_to sends all, for now",
    ),
    (
        0x9D,
        "Server moved",
        "an operator sent it there (courser client redirect), or mqtt.redirect_to sends all, for good",
    ),
    (
        0x9E,
        "Shared Subscriptions not supported",
        "the server has them; this comes from elsewhere",
    ),
    (
        0x9F,
        "Connection rate exceeded",
        "too many logins from this address have failed, or too many connections came at once: look for wrong passwords, and try again with a pause that grows",
    ),
    (
        0xA0,
        "Maximum connect time",
        "the time of the connection is over",
    ),
    (
        0xA1,
        "Subscription Identifiers not supported",
        "the server has them; this comes from elsewhere",
    ),
    (
        0xA2,
        "Wildcard Subscriptions not supported",
        "the server has them; this comes from elsewhere",
    ),
];

fn reason((code, name, hint): (u8, &str, &str)) -> Value {
    json!({"code": format!("0x{code:02X}"), "name": name, "meaning": "reason code of MQTT 5.0", "hint": hint})
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
            .chain(REASONS.map(reason))
            .collect();
        return output.rows(&all, &["code", "name", "hint"]).into();
    };
    let found = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => match u8::from_str_radix(digits, 16) {
            Ok(code) => REASONS
                .into_iter()
                .find(|&(known, ..)| known == code)
                .map(reason),
            Err(_) => return usage(&wrong(text)),
        },
        None => match text.parse() {
            Ok(code) => Code::of(code).map(api),
            Err(_) => return usage(&wrong(text)),
        },
    };
    match found {
        Some(found) => output.value(&found).into(),
        None => {
            eprintln!("courser: there is no error {text}: courser errors lists all");
            Exit::NotFound
        }
    }
}

fn wrong(text: &str) -> String {
    format!("\"{text}\" is no number of an error: write 1100, or 0x87 for a reason code of MQTT")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_code_of_the_standard_has_its_place() {
        for (place, (code, name, hint)) in (0x80..).zip(REASONS) {
            assert_eq!(code, place);
            assert!(!name.is_empty() && !hint.is_empty());
        }
    }
}
