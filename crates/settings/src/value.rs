//! Kinds of values: how each is read and shown.

mod address;
mod choices;
mod client_id;
mod filter;
mod listener;
mod network;
mod origin;
mod size;
mod span;
#[cfg(test)]
mod tests;

pub use choices::{
    Durability, Keep, Landlock, LogFormat, LogLevel, Login, Overflow, Placement, SharedStrategy,
};
pub use client_id::ClientIdPattern;
pub use filter::TopicFilter;
pub use listener::{ClientCertificates, IdentityFrom, ListenerProtocol, TlsVersion};
pub use network::Network;
pub use origin::WebOrigin;
pub use size::ByteSize;

use serde_json::{Value as Json, json};
use std::fmt::Write;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

/// A value as it was written, before anyone knows what it is for.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Raw {
    Bool(bool),
    Integer(i64),
    /// A whole number that is outside of every range, as it was written.
    Beyond(String),
    Text(String),
    List(Vec<Raw>),
    /// A kind that no setting has: its name.
    Other(&'static str),
}

/// How alike a text must be to a key or a word that it may mean, from 0 to 1.
pub(crate) const ALIKE: f64 = 0.7;

/// Characters of a wrong text that an error shows.
const SHOWN_MAX: usize = 200;

impl Raw {
    /// For error messages. Text is escaped, so that a file cannot write lines of its own into a log.
    pub(crate) fn show(&self) -> String {
        match self {
            Self::Bool(value) => value.to_string(),
            Self::Integer(value) => value.to_string(),
            Self::Beyond(text) => match text.char_indices().nth(SHOWN_MAX) {
                Some((end, _)) => format!("{} …", &text[..end]),
                None => text.clone(),
            },
            Self::Text(text) => match text.char_indices().nth(SHOWN_MAX) {
                Some((end, _)) => format!("{:?} …", &text[..end]),
                None => format!("{text:?}"),
            },
            Self::List(_) => "a list".to_owned(),
            Self::Other(kind) => (*kind).to_owned(),
        }
    }

    /// The text that it must be.
    pub(crate) fn text(&self) -> Result<&str, Mismatch> {
        match self {
            Self::Text(text) => Ok(text),
            Self::Bool(_) | Self::Integer(_) | Self::Beyond(_) | Self::List(_) | Self::Other(_) => {
                Err(Mismatch::Kind)
            }
        }
    }
}

/// Why a raw value is not a value of its kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Mismatch {
    /// Something else altogether.
    Kind,
    /// The right kind, but more than the type can hold.
    Range,
    /// A text that is not right: what would be.
    Text(&'static str),
    /// The same of one that is nearly right.
    Near {
        /// What would be right.
        expects: &'static str,
        /// What is meant, as it seems.
        meant: String,
    },
    /// A list with something in it that does not belong there.
    Item {
        /// Of the first such item, from 1.
        position: usize,
        /// What would be right there.
        expects: &'static str,
        /// As an error shows it.
        found: String,
    },
}

/// Why a text is not what it should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TextError {
    /// It says something else.
    #[error("expected {0}")]
    Kind(&'static str),
    /// It says more than there can be.
    #[error("out of range")]
    Range,
}

/// Reads a text as a setting of this kind reads it.
fn read<T: Value>(text: &str) -> Result<T, TextError> {
    T::from_raw(&Raw::Text(text.to_owned())).map_err(|mismatch| match mismatch {
        Mismatch::Kind | Mismatch::Item { .. } => TextError::Kind(T::EXPECTS),
        Mismatch::Text(expects) | Mismatch::Near { expects, .. } => TextError::Kind(expects),
        Mismatch::Range => TextError::Range,
    })
}

/// Reads a duration as settings do: `30s`, `250ms`, `1h30m`.
///
/// # Errors
/// [`TextError`].
pub fn parse_duration(text: &str) -> Result<Duration, TextError> {
    read(text)
}

/// Reads a size as settings do: `16MiB`, `1500`.
///
/// # Errors
/// [`TextError`].
pub fn parse_size(text: &str) -> Result<ByteSize, TextError> {
    read(text)
}

/// A kind of value.
pub(crate) trait Value: PartialOrd + Clone {
    /// A word for the reference page.
    const KIND: &'static str;
    /// For error messages: what would be right.
    const EXPECTS: &'static str;
    /// Whether it is the name of a file, which whatever is wrong with that file tells.
    const IS_PATH: bool = false;

    fn from_raw(raw: &Raw) -> Result<Self, Mismatch>;

    /// As it is written in the file.
    fn show(&self) -> String;

    /// JSON schema of the values in a file.
    fn schema(_range: Option<&RangeInclusive<Self>>) -> Json {
        json!({ "type": "string" })
    }
}

/// Why a value was refused, to stand behind the key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refused {
    pub(crate) message: String,
}

/// A value as it was written.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Written {
    pub(crate) raw: Raw,
    /// What else it may mean, tried where `raw` is another kind of value.
    pub(crate) otherwise: Option<Raw>,
    /// The text itself, where the value was drawn from somewhere by `${…}`: what was drawn is never shown.
    pub(crate) reference: Option<String>,
    /// Files that were read for it.
    pub(crate) files: Vec<PathBuf>,
}

impl Written {
    /// What an error shows of it; of what was drawn only the reference.
    fn shown(&self, tried: impl FnOnce() -> String) -> String {
        self.reference
            .as_ref()
            .map_or_else(tried, |text| quoted(text))
    }
}

/// A value of its kind within its range.
pub(crate) fn accept<T: Value>(
    written: &Written,
    range: Option<RangeInclusive<T>>,
) -> Result<T, Refused> {
    if T::IS_PATH && !written.files.is_empty() {
        // Meant is likely the file itself. What is in it is a secret then, and would be told as the name of a file that is not there.
        let found = written.shown(|| written.raw.show());
        return Err(Refused {
            message: format!("expected the path of the file, not what is in it: found {found}"),
        });
    }
    let refused = |mismatch, tried: &Raw| Refused {
        message: message(mismatch, written, tried, range.as_ref()),
    };
    let (read, tried) = match (T::from_raw(&written.raw), &written.otherwise) {
        (Err(Mismatch::Kind | Mismatch::Near { .. }), Some(other)) => (T::from_raw(other), other),
        // A list in brackets may have been taken for one with commas.
        (Err(item @ Mismatch::Item { .. }), Some(other)) => {
            (T::from_raw(other).map_err(|_| item), &written.raw)
        }
        (read, _) => (read, &written.raw),
    };
    let value = read.map_err(|mismatch| refused(mismatch, tried))?;
    match &range {
        Some(range) if !range.contains(&value) => Err(refused(Mismatch::Range, tried)),
        Some(_) | None => Ok(value),
    }
}

fn message<T: Value>(
    mismatch: Mismatch,
    written: &Written,
    tried: &Raw,
    range: Option<&RangeInclusive<T>>,
) -> String {
    let raw = || written.shown(|| tried.show());
    match (mismatch, range) {
        (Mismatch::Range, Some(range)) => {
            format!(
                "{} is out of range; allowed: {} to {}",
                raw(),
                range.start().show(),
                range.end().show()
            )
        }
        (Mismatch::Range | Mismatch::Kind, _) => {
            format!("expected {}, found {}", T::EXPECTS, raw())
        }
        (Mismatch::Text(expects), _) => format!("expected {expects}, found {}", raw()),
        (Mismatch::Near { expects, meant }, _) => {
            let near = || format!("{}; {}", tried.show(), did_you_mean(&meant));
            format!("expected {expects}, found {}", written.shown(near))
        }
        (
            Mismatch::Item {
                position,
                expects,
                found,
            },
            _,
        ) => {
            let found = written.shown(|| found);
            format!("item {position} of the list: expected {expects}, found {found}")
        }
    }
}

/// Why a value is none of the words that there are.
pub(crate) fn no_word(raw: &Raw, words: &[&str], expects: &'static str) -> Mismatch {
    let Raw::Text(text) = raw else {
        return Mismatch::Kind;
    };
    let text = text.trim().to_lowercase();
    let likeness = |word: &str| strsim::normalized_damerau_levenshtein(&text, word);
    let nearest = words
        .iter()
        .map(|word| (likeness(word), *word))
        .filter(|(likeness, _)| *likeness >= ALIKE)
        .max_by(|one, other| one.0.total_cmp(&other.0));
    nearest.map_or(Mismatch::Kind, |(_, word)| Mismatch::Near {
        expects,
        meant: word.to_owned(),
    })
}

fn did_you_mean(meant: &str) -> String {
    format!("did you mean {}?", quoted(meant))
}

/// Reads a list of texts: one in brackets, or a text with commas, as in `--set mqtt.listen=127.0.0.1:1883,[::1]:1883`. An item that
/// `read` does not take should have been what it says, or else what `expects` says.
fn read_list<T>(
    raw: &Raw,
    expects: &'static str,
    read: impl Fn(&str) -> Result<T, Mismatch>,
) -> Result<Vec<T>, Mismatch> {
    let texts;
    let items = match raw {
        Raw::Text(text) if text.is_empty() => return Ok(Vec::new()),
        Raw::Text(text) => {
            let parts = text.split(',').map(|part| Raw::Text(part.trim().into()));
            texts = parts.collect::<Vec<_>>();
            &texts
        }
        Raw::List(items) => items,
        Raw::Bool(_) | Raw::Integer(_) | Raw::Beyond(_) | Raw::Other(_) => {
            return Err(Mismatch::Kind);
        }
    };
    let item = |(at, item): (usize, &Raw)| {
        item.text()
            .and_then(&read)
            .map_err(|mismatch| match (raw, mismatch) {
                (Raw::Text(_), mismatch) if items.len() == 1 => mismatch,
                (_, mismatch) => {
                    let (expects, found) = match mismatch {
                        Mismatch::Text(expects) => (expects, item.show()),
                        Mismatch::Near { expects, meant } => (
                            expects,
                            format!("{}; {}", item.show(), did_you_mean(&meant)),
                        ),
                        Mismatch::Kind | Mismatch::Range | Mismatch::Item { .. } => {
                            (expects, item.show())
                        }
                    };
                    Mismatch::Item {
                        position: at + 1,
                        expects,
                        found,
                    }
                }
            })
    };
    items.iter().enumerate().map(item).collect()
}

impl Value for bool {
    const KIND: &'static str = "true or false";
    const EXPECTS: &'static str = "true or false";

    fn from_raw(raw: &Raw) -> Result<Self, Mismatch> {
        match raw {
            Raw::Bool(value) => Ok(*value),
            Raw::Integer(_) | Raw::Beyond(_) | Raw::Text(_) | Raw::List(_) | Raw::Other(_) => {
                Err(Mismatch::Kind)
            }
        }
    }

    fn show(&self) -> String {
        self.to_string()
    }

    fn schema(_range: Option<&RangeInclusive<Self>>) -> Json {
        json!({ "anyOf": [{ "type": "boolean" }, drawn()] })
    }
}

fn integer<T: TryFrom<i64>>(raw: &Raw) -> Result<T, Mismatch> {
    match raw {
        Raw::Integer(value) => T::try_from(*value).map_err(|_| Mismatch::Range),
        Raw::Beyond(_) => Err(Mismatch::Range),
        Raw::Bool(_) | Raw::Text(_) | Raw::List(_) | Raw::Other(_) => Err(Mismatch::Kind),
    }
}

/// A list as it stands in a file, of items that do.
fn shown_list(items: impl Iterator<Item = String>) -> String {
    format!("[{}]", items.collect::<Vec<_>>().join(", "))
}

/// A list of texts, or one text with commas.
fn schema_of_texts() -> Json {
    json!({ "anyOf": [
        { "type": "array", "items": { "type": "string" } },
        { "type": "string" },
    ] })
}

/// A number, or a text that draws one.
fn whole_number<T: Into<Json> + Copy>(range: RangeInclusive<T>) -> Json {
    let (least, most): (Json, Json) = ((*range.start()).into(), (*range.end()).into());
    json!({ "anyOf": [
        { "type": "integer", "minimum": least, "maximum": most },
        drawn(),
    ] })
}

/// A text that draws the value from elsewhere.
pub(crate) fn drawn() -> Json {
    json!({ "type": "string", "pattern": r"\$\{" })
}

impl Value for u16 {
    const KIND: &'static str = "number";
    const EXPECTS: &'static str = "a whole number";

    fn from_raw(raw: &Raw) -> Result<Self, Mismatch> {
        integer(raw)
    }

    fn show(&self) -> String {
        self.to_string()
    }

    fn schema(range: Option<&RangeInclusive<Self>>) -> Json {
        whole_number(range.map_or(0..=Self::MAX, Clone::clone))
    }
}

impl Value for u32 {
    const KIND: &'static str = u16::KIND;
    const EXPECTS: &'static str = u16::EXPECTS;

    fn from_raw(raw: &Raw) -> Result<Self, Mismatch> {
        integer(raw)
    }

    fn show(&self) -> String {
        self.to_string()
    }

    fn schema(range: Option<&RangeInclusive<Self>>) -> Json {
        whole_number(range.map_or(0..=Self::MAX, Clone::clone))
    }
}

impl Value for ByteSize {
    const KIND: &'static str = "size";
    const EXPECTS: &'static str = "a size such as \"16MiB\" or a number of bytes";

    fn from_raw(raw: &Raw) -> Result<Self, Mismatch> {
        match raw {
            Raw::Integer(bytes) => u64::try_from(*bytes)
                .map(Self::new)
                .map_err(|_| Mismatch::Range),
            Raw::Beyond(_) => Err(Mismatch::Range),
            Raw::Text(text) => size::parse(text),
            Raw::Bool(_) | Raw::List(_) | Raw::Other(_) => Err(Mismatch::Kind),
        }
    }

    fn show(&self) -> String {
        format!("\"{self}\"")
    }

    fn schema(range: Option<&RangeInclusive<Self>>) -> Json {
        let range = range.map_or(0..=u64::MAX, |range| {
            range.start().bytes()..=range.end().bytes()
        });
        json!({ "anyOf": [
            { "type": "integer", "minimum": range.start(), "maximum": range.end() },
            { "type": "string", "pattern": r"^\s*[0-9]+\s*([KkMmGgTt]?[Ii]?[Bb])?\s*$|\$\{" },
        ] })
    }
}

impl Value for Duration {
    const KIND: &'static str = "duration";
    const EXPECTS: &'static str = "a duration such as \"30s\", \"250ms\" or \"1h30m\"";

    fn from_raw(raw: &Raw) -> Result<Self, Mismatch> {
        raw.text().and_then(span::parse)
    }

    fn show(&self) -> String {
        format!("\"{}\"", span::show(*self))
    }

    fn schema(_range: Option<&RangeInclusive<Self>>) -> Json {
        json!({ "type": "string", "pattern": r"^\s*([0-9]+(ms|d|h|m|s)\s*)+$|\$\{" })
    }
}

impl Value for PathBuf {
    const KIND: &'static str = "path";
    const EXPECTS: &'static str = "a path";
    const IS_PATH: bool = true;

    fn from_raw(raw: &Raw) -> Result<Self, Mismatch> {
        let text = raw.text()?;
        let good = !text.is_empty() && !text.contains('\0');
        good.then(|| Self::from(text)).ok_or(Mismatch::Kind)
    }

    fn show(&self) -> String {
        quoted(&self.display().to_string())
    }
}

/// The most bytes of an MQTT string.
pub(crate) const STRING_BYTES_MAX: usize = 65_535;

/// Texts that are sent to clients: MQTT allows 65,535 bytes, nobody needs them.
const TEXT_BYTES_MAX: usize = 1024;

fn text_within(text: &str) -> Option<String> {
    let good = text.len() <= TEXT_BYTES_MAX && !text.contains(char::is_control);
    good.then(|| text.to_owned())
}

impl Value for String {
    const KIND: &'static str = "text";
    const EXPECTS: &'static str = "a text of at most 1,024 bytes without control characters";

    fn from_raw(raw: &Raw) -> Result<Self, Mismatch> {
        text_within(raw.text()?).ok_or(Mismatch::Kind)
    }

    fn show(&self) -> String {
        quoted(self)
    }
}

/// A text as TOML reads it, in its quotes.
#[must_use]
pub fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for character in text.chars() {
        match character {
            '"' | '\\' => quoted.extend(['\\', character]),
            // Writing to a string cannot fail.
            _ if character.is_control() => {
                let _ = write!(quoted, "\\u{:04X}", u32::from(character));
            }
            _ => quoted.push(character),
        }
    }
    quoted.push('"');
    quoted
}

/// A setting that may have no value.
impl<T: Value> Value for Option<T> {
    const KIND: &'static str = T::KIND;
    const EXPECTS: &'static str = T::EXPECTS;
    const IS_PATH: bool = T::IS_PATH;

    fn from_raw(raw: &Raw) -> Result<Self, Mismatch> {
        T::from_raw(raw).map(Some)
    }

    fn show(&self) -> String {
        self.as_ref().map_or_else(String::new, T::show)
    }

    fn schema(range: Option<&RangeInclusive<Self>>) -> Json {
        let ends = range.and_then(|range| Some((range.start().as_ref()?, range.end().as_ref()?)));
        match ends {
            Some((least, most)) => T::schema(Some(&(least.clone()..=most.clone()))),
            None => T::schema(None),
        }
    }
}

impl Value for Vec<String> {
    const KIND: &'static str = "list of texts";
    const EXPECTS: &'static str = "a list of texts such as [\"a\", \"b\"]";

    fn from_raw(raw: &Raw) -> Result<Self, Mismatch> {
        let read = |text: &str| text_within(text).ok_or(Mismatch::Kind);
        read_list(raw, String::EXPECTS, read)
    }

    fn show(&self) -> String {
        shown_list(self.iter().map(|text| quoted(text)))
    }

    fn schema(_range: Option<&RangeInclusive<Self>>) -> Json {
        schema_of_texts()
    }
}
