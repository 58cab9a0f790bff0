//! How `courser sub` prints a message: Mosquitto's `-v`, `-F` and payload forms.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::{self, IsTerminal};
use std::iter::Peekable;
use std::str::Chars;

use courser_client::{Message, MessageProperty, QoS};
use jiff::{Timestamp, Zoned, tz::TimeZone};

use super::payload::PayloadFlags;
use super::plain::{plain, plain_json, plain_payload};

/// The QoS of a number that clap has checked.
///
/// # Panics
/// Above 2.
pub(crate) fn qos(number: u8) -> QoS {
    QoS::from_number(number).expect("a checked QoS is 0, 1 or 2")
}

/// How messages are printed, parsed once.
#[derive(Clone, Debug)]
pub(crate) struct Format {
    parts: Vec<Part>,
    target: Target,
    payload: PayloadFlags,
}

/// Where messages are printed to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// A file or another program: every byte as it came, as Mosquitto prints it.
    Program,
    /// Somebody who looks at it: what others have made up, topics, properties and payloads, cannot move the cursor.
    Terminal,
}

impl Target {
    /// That of standard output.
    pub(crate) fn of_stdout() -> Self {
        if io::stdout().is_terminal() {
            Self::Terminal
        } else {
            Self::Program
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(String),
    Field(char, Shape),
    Time(char),
}

/// The widest that a field can be made.
const WIDTH_MAX: usize = 10_000;

/// What stands between `%` and the letter of a field, as Mosquitto has it: `-` for what is filled up at its right, `0` to fill up numbers and
/// payloads with zeros, the least width, and behind a point the most characters of a text. A width is also the most of a payload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Shape {
    side: Side,
    fill: Fill,
    /// 0: as wide as it is.
    width: usize,
    characters_max: Option<usize>,
}

/// Where a field stands in its width.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Side {
    #[default]
    Right,
    Left,
}

/// What stands before a field that is not as wide as it is to be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Fill {
    #[default]
    Spaces,
    Zeros,
}

/// What a shape does to a field depends on what it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Text,
    Number,
    Payload,
    /// As it is, whatever its shape.
    Fixed,
}

impl Kind {
    const fn of(letter: char) -> Self {
        match letter {
            't' | 'C' | 'D' | 'I' | 'R' => Self::Text,
            'l' | 'm' | 'A' | 'E' | 'F' | 'S' => Self::Number,
            'p' | 'x' | 'X' => Self::Payload,
            _ => Self::Fixed,
        }
    }
}

impl Shape {
    /// Takes what stands before the letter.
    fn parse(chars: &mut Peekable<Chars<'_>>) -> Result<Self, String> {
        let mut shape = Self::default();
        if chars.next_if_eq(&'-').is_some() {
            shape.side = Side::Left;
        }
        if chars.next_if_eq(&'0').is_some() {
            shape.fill = Fill::Zeros;
        }
        shape.width = number(chars)?;
        if chars.next_if_eq(&'.').is_some() {
            shape.characters_max = Some(number(chars)?);
        }
        Ok(shape)
    }

    /// What there is to see of a text.
    fn cut(self, kind: Kind, text: &str) -> &str {
        let most = match kind {
            Kind::Text => self.characters_max,
            Kind::Payload if self.width > 0 => Some(self.width),
            Kind::Payload | Kind::Number | Kind::Fixed => None,
        };
        let end = most.and_then(|most| text.char_indices().nth(most));
        end.map_or(text, |(end, _)| &text[..end])
    }

    fn write(self, kind: Kind, text: &str, out: &mut Vec<u8>) {
        let fill = match (kind, self.side, self.fill) {
            (Kind::Fixed, ..) => return out.extend_from_slice(text.as_bytes()),
            (Kind::Number | Kind::Payload, Side::Right, Fill::Zeros) => b'0',
            (Kind::Number | Kind::Payload | Kind::Text, ..) => b' ',
        };
        self.fill_up(fill, (text.as_bytes(), text.chars().count()), out);
    }

    fn write_bytes(self, payload: &[u8], out: &mut Vec<u8>) {
        let shown = match self.width {
            0 => payload,
            width => &payload[..payload.len().min(width)],
        };
        let fill = match (self.side, self.fill) {
            (Side::Right, Fill::Zeros) => b'0',
            (Side::Right, Fill::Spaces) | (Side::Left, _) => b' ',
        };
        self.fill_up(fill, (shown, shown.len()), out);
    }

    fn fill_up(self, fill: u8, (bytes, wide): (&[u8], usize), out: &mut Vec<u8>) {
        let fills = std::iter::repeat_n(fill, self.width.saturating_sub(wide));
        match self.side {
            Side::Right => {
                out.extend(fills);
                out.extend_from_slice(bytes);
            }
            Side::Left => {
                out.extend_from_slice(bytes);
                out.extend(fills);
            }
        }
    }
}

/// The number that comes next; 0 without a digit.
fn number(chars: &mut Peekable<Chars<'_>>) -> Result<usize, String> {
    let mut number = 0;
    while let Some(digit) = chars.peek().and_then(|c| c.to_digit(10)) {
        chars.next();
        number = number * 10 + digit as usize;
        if number > WIDTH_MAX {
            return Err(format!(
                "a field can be {WIDTH_MAX} characters wide at most"
            ));
        }
    }
    Ok(number)
}

/// A field as wide as it is.
fn whole(letter: char) -> Part {
    Part::Field(letter, Shape::default())
}

impl Format {
    /// Payload alone, or topic and payload, each message on a line of its own unless `end_of_line` is false.
    pub(crate) fn plain(verbose: bool, end_of_line: bool, target: Target) -> Self {
        let mut parts = if verbose {
            vec![whole('t'), Part::Text(" ".into()), whole('p')]
        } else {
            vec![whole('p')]
        };
        if end_of_line {
            parts.push(Part::Text("\n".into()));
        }
        Self {
            parts,
            target,
            payload: PayloadFlags::default(),
        }
    }

    /// The same with payloads in the form that was asked for, except in `%x` and `%X`.
    pub(crate) fn with_payloads(self, payload: &PayloadFlags) -> Self {
        Self {
            payload: payload.clone(),
            ..self
        }
    }

    /// A format string of `-F`: `%` and a letter for a field, between them how wide it is to be ([`Shape`]), `@` and a letter for the time as `strftime` has it, `\n` and the
    /// like for characters.
    ///
    /// # Errors
    /// With a letter that means nothing, or a width above [`WIDTH_MAX`].
    pub(crate) fn parse(text: &str, end_of_line: bool, target: Target) -> Result<Self, String> {
        let mut parts = Vec::new();
        let mut literal = String::new();
        let mut chars = text.chars().peekable();
        while let Some(c) = chars.next() {
            match c {
                '%' | '@' | '\\' => {
                    let shape = match c {
                        '%' => Shape::parse(&mut chars)?,
                        _ => Shape::default(),
                    };
                    let next = chars
                        .next()
                        .ok_or_else(|| format!("\"{text}\" ends after {c}"))?;
                    match special(c, next, shape)? {
                        Part::Text(text) => literal.push_str(&text),
                        part => {
                            push_text(&mut parts, &mut literal);
                            parts.push(part);
                        }
                    }
                }
                _ => literal.push(c),
            }
        }
        if end_of_line {
            literal.push('\n');
        }
        push_text(&mut parts, &mut literal);
        Ok(Self {
            parts,
            target,
            payload: PayloadFlags::default(),
        })
    }

    /// Appends one message to `out`.
    ///
    /// # Errors
    /// Why its payload is none of the form that was asked for; then it was appended as it came.
    pub(crate) fn write(
        &self,
        message: &Message,
        at: Timestamp,
        out: &mut Vec<u8>,
    ) -> Result<(), String> {
        let shown = self.payload.show(&message.payload);
        let printed = Printed {
            message,
            payload: match &shown {
                Ok(Some(text)) if self.target == Target::Terminal => {
                    Cow::Owned(plain_json(text).into_bytes())
                }
                Ok(Some(text)) => Cow::Borrowed(text.as_bytes()),
                Ok(None) | Err(_) if self.target == Target::Terminal => {
                    plain_payload(&message.payload)
                }
                Ok(None) | Err(_) => Cow::Borrowed(&message.payload),
            },
            at,
            target: self.target,
        };
        for part in &self.parts {
            match part {
                Part::Text(text) => out.extend_from_slice(text.as_bytes()),
                Part::Field(letter, shape) => printed.field(*letter, *shape, out),
                Part::Time(letter) => time(*letter, at, out),
            }
        }
        shown
            .map(|_| ())
            .map_err(|why| format!("a payload on {} is {why}", plain(&message.topic)))
    }
}

/// A message on its way to whoever reads it.
struct Printed<'a> {
    message: &'a Message,
    /// Its payload in the form that was asked for.
    payload: Cow<'a, [u8]>,
    at: Timestamp,
    target: Target,
}

fn push_text(parts: &mut Vec<Part>, literal: &mut String) {
    if !literal.is_empty() {
        parts.push(Part::Text(std::mem::take(literal)));
    }
}

fn special(introducer: char, letter: char, shape: Shape) -> Result<Part, String> {
    let text = |text: &str| Ok(Part::Text(text.into()));
    match (introducer, letter) {
        ('%', '%') => text("%"),
        ('@', '@') => text("@"),
        ('\\', '\\') => text("\\"),
        ('\\', 'n') => text("\n"),
        ('\\', 'r') => text("\r"),
        ('\\', 't') => text("\t"),
        ('\\', '0') => text("\0"),
        ('\\', 'e') => text("\u{1b}"),
        ('\\', 'a') => text("\u{7}"),
        ('\\', 'v') => text("\u{b}"),
        ('%', 'A' | 'C' | 'D' | 'E' | 'F' | 'I' | 'J' | 'P' | 'R' | 'S' | 'U' | 'X') => {
            Ok(Part::Field(letter, shape))
        }
        ('%', 'd' | 'j' | 'l' | 'm' | 'p' | 'q' | 'r' | 't' | 'x') => {
            Ok(Part::Field(letter, shape))
        }
        ('@', letter) if letter.is_ascii_alphabetic() => Ok(Part::Time(letter)),
        _ => Err(format!(
            "\"{introducer}{letter}\" means nothing in a format; %p is the payload, %t the topic"
        )),
    }
}

impl Printed<'_> {
    fn field(&self, letter: char, shape: Shape, out: &mut Vec<u8>) {
        let (message, at) = (self.message, self.at);
        let mut text = String::new();
        match letter {
            't' => text.push_str(&message.topic),
            'p' => return shape.write_bytes(&self.payload, out),
            'x' => hex(&message.payload, false, &mut text),
            'X' => hex(&message.payload, true, &mut text),
            'l' => put(&mut text, message.payload.len()),
            'q' => put(&mut text, message.qos.number()),
            'r' => put(&mut text, u8::from(message.retain)),
            'd' => put(&mut text, u8::from(message.duplicate)),
            'm' => put(&mut text, message.packet_id.unwrap_or(0)),
            'U' => put(
                &mut text,
                format_args!("{}.{:09}", at.as_second(), at.subsec_nanosecond()),
            ),
            'I' => put(
                &mut text,
                at.to_zoned(TimeZone::system())
                    .strftime("%Y-%m-%dT%H:%M:%S%z"),
            ),
            'j' => put(&mut text, self.json(false)),
            'J' => put(&mut text, self.json(true)),
            _ => property(letter, message, &mut text),
        }
        let kind = Kind::of(letter);
        let cut = shape.cut(kind, &text);
        let text = match (self.target, letter) {
            (Target::Program, _) => cut.to_owned(),
            (Target::Terminal, 'j' | 'J') => plain_json(cut),
            (Target::Terminal, _) => plain(cut),
        };
        shape.write(kind, &text, out);
    }

    /// One JSON object; the payload as a string, or as JSON itself where it is some.
    fn json(&self, payload_as_json: bool) -> serde_json::Value {
        use serde_json::{Map, Value, json};
        let (message, at) = (self.message, self.at);
        let as_text = || Value::from(String::from_utf8_lossy(&self.payload).into_owned());
        let payload = match serde_json::from_slice(&self.payload) {
            Ok(value) if payload_as_json => value,
            _ => as_text(),
        };
        let mut object = Map::from_iter([
            ("tst".into(), json!(at.to_string())),
            ("topic".into(), json!(message.topic)),
            ("qos".into(), json!(message.qos.number())),
            ("retain".into(), json!(u8::from(message.retain))),
            ("payloadlen".into(), json!(message.payload.len())),
        ]);
        if let Some(id) = message.packet_id {
            object.insert("mid".into(), json!(id));
        }
        let mut properties = Map::new();
        for property in &message.properties {
            let (name, value) = match property {
                MessageProperty::TopicAlias(alias) => ("topic-alias", json!(alias)),
                MessageProperty::ContentType(kind) => ("content-type", json!(kind)),
                MessageProperty::CorrelationData(data) => {
                    ("correlation-data", json!(String::from_utf8_lossy(data)))
                }
                MessageProperty::MessageExpiry(seconds) => {
                    ("message-expiry-interval", json!(seconds))
                }
                MessageProperty::PayloadIsText(is) => {
                    ("payload-format-indicator", json!(u8::from(*is)))
                }
                MessageProperty::ResponseTopic(topic) => ("response-topic", json!(topic)),
                MessageProperty::SubscriptionId(id) => ("subscription-identifier", json!(id)),
                MessageProperty::User(name, value) => {
                    let list = properties
                        .entry("user-properties")
                        .or_insert_with(|| json!([]));
                    if let Value::Array(list) = list {
                        list.push(json!({ name: value }));
                    }
                    continue;
                }
            };
            properties.insert(name.into(), value);
        }
        if !properties.is_empty() {
            object.insert("properties".into(), Value::Object(properties));
        }
        object.insert("payload".into(), payload);
        Value::Object(object)
    }
}

/// The fields that only MQTT 5 has: all of a kind, separated by spaces; nothing when there is none.
fn property(letter: char, message: &Message, text: &mut String) {
    let mut first = true;
    for property in &message.properties {
        let before = text.len();
        match (letter, property) {
            ('A', MessageProperty::TopicAlias(alias)) => put(text, alias),
            ('C', MessageProperty::ContentType(kind)) => text.push_str(kind),
            ('D', MessageProperty::CorrelationData(data)) => {
                text.push_str(&String::from_utf8_lossy(data))
            }
            ('E', MessageProperty::MessageExpiry(seconds)) => put(text, seconds),
            ('F', MessageProperty::PayloadIsText(is)) => put(text, u8::from(*is)),
            ('R', MessageProperty::ResponseTopic(topic)) => text.push_str(topic),
            ('S', MessageProperty::SubscriptionId(id)) => put(text, id),
            ('P', MessageProperty::User(name, value)) => put(text, format_args!("{name}:{value}")),
            _ => continue,
        }
        if !std::mem::take(&mut first) {
            text.insert(before, ' ');
        }
    }
}

fn put(text: &mut String, value: impl std::fmt::Display) {
    write!(text, "{value}").expect("a string takes everything");
}

/// Two digits a byte.
pub(super) fn hex(bytes: &[u8], upper: bool, text: &mut String) {
    for byte in bytes {
        if upper {
            put(text, format_args!("{byte:02X}"));
        } else {
            put(text, format_args!("{byte:02x}"));
        }
    }
}

fn time(letter: char, at: Timestamp, out: &mut Vec<u8>) {
    let zoned: Zoned = at.to_zoned(TimeZone::system());
    let formatted = jiff::fmt::strtime::format(format!("%{letter}"), &zoned);
    out.extend_from_slice(formatted.unwrap_or_default().as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message() -> Message {
        Message {
            topic: "a/b".into(),
            payload: b"{\"n\":1}".to_vec(),
            qos: QoS::AtLeastOnce,
            retain: true,
            duplicate: false,
            packet_id: Some(7),
            properties: vec![
                MessageProperty::User("k".into(), "1".into()),
                MessageProperty::User("k".into(), "2".into()),
                MessageProperty::ContentType("text".into()),
                MessageProperty::SubscriptionId(9),
            ],
        }
    }

    fn written(format: &str) -> String {
        let format = Format::parse(format, false, Target::Program).expect("a good format");
        let mut out = Vec::new();
        let at = Timestamp::from_second(1).expect("a time");
        assert_eq!(format.write(&message(), at, &mut out), Ok(()));
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn each_letter_has_its_field() {
        for (format, expected) in [
            ("%t|%p", "a/b|{\"n\":1}"),
            ("%q %r %l %m %d", "1 1 7 7 0"),
            ("%x", "7b226e223a317d"),
            ("%X", "7B226E223A317D"),
            ("%P", "k:1 k:2"),
            ("%C;%R;%S;%E", "text;;9;"),
            ("%%@@\\\\\\n", "%@\\\n"),
            ("%U", "1.000000000"),
        ] {
            assert_eq!(written(format), expected, "{format}");
        }
    }

    /// What Mosquitto 2.0.11 prints of the same message.
    #[test]
    fn fields_are_as_wide_as_is_asked_for() {
        for (format, expected) in [
            ("[%10t]", "[       a/b]"),
            ("[%-10t]", "[a/b       ]"),
            ("[%010t]", "[       a/b]"),
            ("[%.2t]", "[a/]"),
            ("[%10.2t]", "[        a/]"),
            ("[%-10.2t]", "[a/        ]"),
            ("[%.t]", "[]"),
            ("[%2t]", "[a/b]"),
            ("[%.3C]", "[tex]"),
            ("[%010l]", "[0000000007]"),
            ("[%10l]", "[         7]"),
            ("[%-10l]", "[7         ]"),
            ("[%-010l]", "[7         ]"),
            ("[%.3l]", "[7]"),
            ("[%5E]", "[     ]"),
            ("[%05E]", "[00000]"),
            ("[%10p]", "[   {\"n\":1}]"),
            ("[%-10p]", "[{\"n\":1}   ]"),
            ("[%010p]", "[000{\"n\":1}]"),
            ("[%3p]", "[{\"n]"),
            ("[%.3p]", "[{\"n\":1}]"),
            ("[%4X]", "[7B22]"),
            ("[%5q%05r]", "[11]"),
            ("[%20P]", "[k:1 k:2]"),
            ("[%10%]", "[%]"),
        ] {
            assert_eq!(written(format), expected, "{format}");
        }
    }

    #[test]
    fn a_width_counts_what_is_seen() {
        let message = Message {
            topic: "\u{e4}\u{1b}b".into(),
            ..message()
        };
        let written = |format: &str, target| {
            let format = Format::parse(format, false, target).expect("a good format");
            let mut out = Vec::new();
            let said = format.write(&message, Timestamp::UNIX_EPOCH, &mut out);
            assert_eq!(said, Ok(()));
            String::from_utf8(out).expect("text")
        };
        assert_eq!(written("%5t", Target::Program), "  \u{e4}\u{1b}b");
        assert_eq!(written("%10.2t", Target::Terminal), "   \u{e4}\\u{1b}");
    }

    #[test]
    fn a_message_as_json_has_everything() {
        let text: serde_json::Value = serde_json::from_str(&written("%j")).expect("JSON");
        assert_eq!(text["payload"], "{\"n\":1}");
        assert_eq!(text["properties"]["user-properties"][1]["k"], "2");
        let inner: serde_json::Value = serde_json::from_str(&written("%J")).expect("JSON");
        assert_eq!(inner["payload"]["n"], 1);
        assert_eq!(inner["tst"], "1970-01-01T00:00:01Z");
    }

    #[test]
    fn what_means_nothing_is_refused() {
        for format in [
            "%", "%z", "\\q", "a@1", "%10", "%0-10l", "%10001t", "%.10001t", "@10H",
        ] {
            assert!(
                Format::parse(format, false, Target::Program).is_err(),
                "{format}"
            );
        }
    }

    #[test]
    fn plain_forms_end_their_lines() {
        let write = |format: Format| {
            let mut out = Vec::new();
            assert_eq!(
                format.write(&message(), Timestamp::UNIX_EPOCH, &mut out),
                Ok(())
            );
            String::from_utf8(out).expect("text")
        };
        let plain = |verbose, end| Format::plain(verbose, end, Target::Program);
        assert_eq!(write(plain(true, true)), "a/b {\"n\":1}\n");
        assert_eq!(write(plain(false, false)), "{\"n\":1}");
    }

    #[test]
    fn payloads_are_printed_in_the_form_that_was_asked_for() {
        #[derive(clap::Parser)]
        struct Flags {
            #[command(flatten)]
            payload: PayloadFlags,
        }
        let asked = |form: &str| {
            let flags = <Flags as clap::Parser>::parse_from(["sub", "--payload-format", form]);
            let format = Format::parse("%p %l %x", false, Target::Terminal).expect("a format");
            format.with_payloads(&flags.payload)
        };
        let payload = |payload: &[u8]| Message {
            payload: payload.to_vec(),
            ..message()
        };
        for (form, came, printed, complaint) in [
            ("base64", &b"hi"[..], "aGk= 2 6869", None),
            ("json", b"[1,\n2]", "[1,2] 6 5b312c0a325d", None),
            (
                "json",
                "\"\u{9b}\"".as_bytes(),
                "\"\\u009b\" 4 22c29b22",
                None,
            ),
            (
                "json",
                b"hi",
                "hi 2 6869",
                Some("a payload on a/b is not JSON"),
            ),
        ] {
            let mut out = Vec::new();
            let said = asked(form).write(&payload(came), Timestamp::UNIX_EPOCH, &mut out);
            assert_eq!(String::from_utf8_lossy(&out), printed, "{form}");
            let said = said.err();
            assert_eq!(said.is_some(), complaint.is_some(), "{form} {said:?}");
            assert!(said.is_none_or(|said| said.starts_with(complaint.unwrap_or_default())));
        }
    }

    #[test]
    fn what_others_made_up_moves_no_cursor_of_a_terminal() {
        let evil = "a\x1b[2J\r\u{9b}";
        let message = Message {
            topic: evil.into(),
            payload: b"\x1b[1mbold\n\t\xc3\xbc\xff\x9b".to_vec(),
            properties: vec![MessageProperty::User(evil.into(), evil.into())],
            ..message()
        };
        let written = |format: &str, target| {
            let format = Format::parse(format, false, target).expect("a good format");
            let mut out = Vec::new();
            assert_eq!(
                format.write(&message, Timestamp::UNIX_EPOCH, &mut out),
                Ok(())
            );
            out
        };
        let bytes = written("%p", Target::Program);
        assert_eq!(bytes, message.payload, "to a program every byte as it came");
        let written =
            |format: &str, target| String::from_utf8(written(format, target)).expect("text");
        let escaped = "a\\u{1b}[2J\\r\\u{9b}";
        let (terminal, program) = (Target::Terminal, Target::Program);
        assert_eq!(written("%t", terminal), escaped);
        assert_eq!(written("%P", terminal), format!("{escaped}:{escaped}"));
        assert_eq!(written("%p", terminal), "\\u{1b}[1mbold\n\tü\\xff\\x9b");
        let json = written("%j", terminal);
        assert!(!json.contains(char::is_control), "{json:?}");
        let json: serde_json::Value = serde_json::from_str(&json).expect("JSON still");
        assert_eq!(json["topic"], evil);
        assert_eq!(written("%t", program), evil);
    }
}
