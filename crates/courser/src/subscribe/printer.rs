//! How messages leave: in the format that was asked for, or as JSON.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clap::ValueEnum;
use courser_client::{Message, MessageProperty};
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::cli::exit::Exit;
use crate::cli::format::Format;
use crate::cli::{self, Reader};
use crate::operate::{Output, Sequence, Until};

/// Forms of JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Json {
    /// One document, when the last one has come: with -C or -W
    Json,
    /// One object a line, as they come
    Jsonl,
}

/// Prints messages.
pub(crate) enum Printer {
    /// Each as it comes.
    Formatted(Box<Format>),
    /// As JSON objects.
    Json(Sequence),
}

impl Printer {
    /// As JSON.
    ///
    /// # Errors
    /// How the command ends that should make one document of what has no end.
    pub(crate) fn of(form: Json, until: Until) -> Result<Self, Exit> {
        let output = match form {
            Json::Json => Output::Json,
            Json::Jsonl => Output::Jsonl,
        };
        Sequence::new(output, until).map(Self::Json)
    }

    /// Prints the next one. What cannot be said in its format is said otherwise, and `complain` hears why.
    ///
    /// # Errors
    /// How the command ends when it cannot be printed, or nobody reads any more.
    pub(crate) fn print(
        &mut self,
        message: &Message,
        complain: impl FnOnce(&str),
    ) -> Result<(), Exit> {
        let at = Timestamp::now();
        let format = match self {
            Self::Formatted(format) => format,
            Self::Json(sequence) => return sequence.add(&as_json(message, at), |_| String::new()),
        };
        let mut line = Vec::new();
        if let Err(why) = format.write(message, at, &mut line) {
            complain(&why);
        }
        match cli::write(&line)? {
            Reader::There => Ok(()),
            Reader::Gone => Err(Exit::Done),
        }
    }

    /// There are no more, and the command is to end like this: how it ends. Of a document that was ended before its end nothing is printed.
    pub(crate) fn end(self, exit: Exit) -> Exit {
        match (self, exit) {
            (Self::Json(sequence), Exit::Done | Exit::TimedOut) => {
                Exit::from(sequence.end()).or(exit)
            }
            _ => exit,
        }
    }
}

/// Bytes as JSON has them, and how: as they are where they are text.
fn text_or_base64(bytes: &[u8]) -> (Value, &'static str) {
    match std::str::from_utf8(bytes) {
        Ok(text) => (text.into(), "utf-8"),
        Err(_) => (STANDARD.encode(bytes).into(), "base64"),
    }
}

/// A message with all that came with it. Properties have the names of the standard; those that did not come are left out.
fn as_json(message: &Message, at: Timestamp) -> Value {
    let (payload, encoding) = text_or_base64(&message.payload);
    json!({
        "time": at.to_string(),
        "topic": message.topic,
        "qos": message.qos.number(),
        "retain": message.retain,
        "duplicate": message.duplicate,
        "packet_id": message.packet_id,
        "payload": payload,
        "encoding": encoding,
        "properties": properties(message),
    })
}

fn properties(message: &Message) -> Map<String, Value> {
    let mut all = Map::new();
    let list = |all: &mut Map<String, Value>, name: &str, item: Value| match all.get_mut(name) {
        Some(Value::Array(items)) => items.push(item),
        _ => {
            all.insert(name.to_owned(), json!([item]));
        }
    };
    for property in &message.properties {
        let (name, value) = match property {
            MessageProperty::PayloadIsText(is) => {
                ("payload_format_indicator", json!(u8::from(*is)))
            }
            MessageProperty::MessageExpiry(seconds) => ("message_expiry_interval", json!(seconds)),
            MessageProperty::ContentType(kind) => ("content_type", json!(kind)),
            MessageProperty::ResponseTopic(topic) => ("response_topic", json!(topic)),
            MessageProperty::TopicAlias(alias) => ("topic_alias", json!(alias)),
            MessageProperty::CorrelationData(data) => {
                let (data, encoding) = text_or_base64(data);
                all.insert("correlation_data".to_owned(), data);
                ("correlation_data_encoding", encoding.into())
            }
            MessageProperty::SubscriptionId(id) => {
                list(&mut all, "subscription_identifiers", json!(id));
                continue;
            }
            MessageProperty::User(name, value) => {
                let pair = json!({"name": name, "value": value});
                list(&mut all, "user_properties", pair);
                continue;
            }
        };
        all.insert(name.to_owned(), value);
    }
    all
}

#[cfg(test)]
mod tests {
    use courser_client::QoS;

    use super::*;

    #[test]
    fn a_message_as_json_has_all_that_came_with_it() {
        let user = |name: &str, value: &str| MessageProperty::User(name.into(), value.into());
        let message = Message {
            topic: "a/b".into(),
            payload: b"\xffx".to_vec(),
            qos: QoS::AtLeastOnce,
            retain: true,
            duplicate: false,
            packet_id: Some(7),
            properties: vec![
                user("k", "1"),
                user("k", "2"),
                MessageProperty::SubscriptionId(9),
                MessageProperty::SubscriptionId(10),
                MessageProperty::CorrelationData(b"c".to_vec()),
                MessageProperty::MessageExpiry(60),
            ],
        };
        assert_eq!(
            as_json(&message, Timestamp::UNIX_EPOCH),
            json!({
                "time": "1970-01-01T00:00:00Z",
                "topic": "a/b",
                "qos": 1,
                "retain": true,
                "duplicate": false,
                "packet_id": 7,
                "payload": "/3g=",
                "encoding": "base64",
                "properties": {
                    "user_properties": [{"name": "k", "value": "1"}, {"name": "k", "value": "2"}],
                    "subscription_identifiers": [9, 10],
                    "correlation_data": "c",
                    "correlation_data_encoding": "utf-8",
                    "message_expiry_interval": 60,
                },
            })
        );
        let text = Message {
            payload: "{\"n\": 1}".into(),
            properties: Vec::new(),
            packet_id: None,
            ..message
        };
        let text = as_json(&text, Timestamp::UNIX_EPOCH);
        let found = [&text["payload"], &text["encoding"], &text["packet_id"]];
        assert_eq!(found, [&json!("{\"n\": 1}"), &json!("utf-8"), &json!(null)]);
        assert_eq!(text["properties"], json!({}));
    }
}
