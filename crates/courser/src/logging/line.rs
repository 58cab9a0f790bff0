//! One line of the log.

use std::error::Error;
use std::fmt::{Debug, Write};

use courser_broker::with_causes;
use jiff::Timestamp;
use serde_json::{Map, Value};
use tracing::Level;
use tracing::field::{Field, Visit};

use super::FACTS;
use crate::cli::plain::{plain_json, quoted};

/// Characters of a value that are written; the rest is left out.
const VALUE_MAX: usize = 1_024;

/// What an event says.
pub(super) struct Fields {
    /// Where it comes from: its name, if it has none of its own.
    target: String,
    values: Map<String, Value>,
    /// See [`FACTS`].
    facts: Map<String, Value>,
}

impl Fields {
    /// None yet, of an event from a module.
    pub(super) fn of(target: &str) -> Self {
        Self {
            target: target.to_owned(),
            values: Map::new(),
            facts: Map::new(),
        }
    }

    /// One more; a long text is cut.
    pub(super) fn add(&mut self, name: &str, value: Value) {
        self.values.insert(name.to_owned(), short(value));
    }

    /// One more that is as long as it is.
    pub(super) fn add_whole(&mut self, name: &str, text: String) {
        self.values.insert(name.to_owned(), Value::String(text));
    }

    /// The line with its end: time, level, event, the other fields in their order, the message.
    pub(super) fn line(mut self, at: Timestamp, level: Level, is_json: bool) -> String {
        let event = self.values.shift_remove("event");
        let message = self.values.shift_remove("message");
        let mut all = Map::new();
        all.insert("time".to_owned(), format!("{at:.3}").into());
        all.insert("level".to_owned(), word(level).into());
        all.insert(
            "event".to_owned(),
            event.unwrap_or_else(|| self.target.replace("::", "_").into()),
        );
        // A field cannot pass for one of those above.
        for (name, value) in self.values {
            all.entry(name).or_insert(value);
        }
        if is_json {
            for (name, value) in self.facts {
                all.entry(name).or_insert(value);
            }
        }
        all.extend(message.map(|message| ("message".to_owned(), message)));
        if is_json {
            return plain_json(&Value::Object(all).to_string()) + "\n";
        }
        text(&all)
    }
}

/// `time level key=value …`; a value that is not one word stands in quotation marks.
fn text(all: &Map<String, Value>) -> String {
    let mut line = String::new();
    for (name, value) in all {
        let shown = match value {
            Value::String(text) if is_word(text) => text.clone(),
            Value::String(text) => quoted(text),
            other => other.to_string(),
        };
        // Writing to a string cannot fail.
        let _ = match name.as_str() {
            "time" => write!(line, "{shown}"),
            "level" => write!(line, " {shown}"),
            name => write!(line, " {name}={shown}"),
        };
    }
    line + "\n"
}

fn is_word(text: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.:/[]@+".contains(&byte);
    !text.is_empty() && text.bytes().all(is_part)
}

fn short(value: Value) -> Value {
    match value {
        Value::String(text) => Value::String(cut(text)),
        other => other,
    }
}

fn cut(text: String) -> String {
    match text.char_indices().nth(VALUE_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

const fn word(level: Level) -> &'static str {
    match level {
        Level::ERROR => "error",
        Level::WARN => "warn",
        Level::INFO => "info",
        Level::DEBUG => "debug",
        Level::TRACE => "trace",
    }
}

impl Visit for Fields {
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.add(field.name(), value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.add(field.name(), value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.add(field.name(), value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.add(field.name(), value.into());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() != FACTS {
            return self.add(field.name(), value.into());
        }
        let facts: Map<String, Value> = serde_json::from_str(value).unwrap_or_default();
        let facts = facts.into_iter();
        self.facts = facts.map(|(name, fact)| (name, short(fact))).collect();
    }

    /// With all its causes.
    fn record_error(&mut self, field: &Field, value: &(dyn Error + 'static)) {
        self.add(field.name(), with_causes(value).into());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.add(field.name(), format!("{value:?}").into());
    }
}
