//! How payloads are said on the command line: `--payload-format`.

mod proto;

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clap::Args;
use serde_json::Value;

use self::proto::MessageType;
use super::format::hex;
use super::headings;

/// The flag of commands that send or print payloads.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct PayloadFlags {
    /// How payloads are written here: text, json, hex, base64, or proto:FILE[:MESSAGE], which is the JSON form of a message type of a .proto file or of
    /// what `protoc --include_imports -o FILE` has written
    #[arg(long, value_name = "FORMAT", value_parser = PayloadFormat::parse, help_heading = headings::PAYLOAD)]
    payload_format: Option<PayloadFormat>,
}

/// How a payload is written for people.
#[derive(Clone, Debug)]
pub(crate) enum PayloadFormat {
    /// As its bytes are.
    Text,
    /// JSON: checked; sent as it was written, printed on one line.
    Json,
    /// Two hexadecimal digits a byte.
    Hex,
    /// Base64 with its padding.
    Base64,
    /// A message of Protocol Buffers, in its JSON form.
    Proto(Box<MessageType>),
}

impl PayloadFlags {
    /// The bytes of a payload that is written like this.
    ///
    /// # Errors
    /// What is wrong with it, and where.
    pub(crate) fn read(&self, written: Vec<u8>) -> Result<Vec<u8>, String> {
        match &self.payload_format {
            Some(format) => format.read(written),
            None => Ok(written),
        }
    }

    /// What to print of a payload; `None`: as it came, since no form was asked for.
    ///
    /// # Errors
    /// Why it is none of that form.
    pub(crate) fn show(&self, payload: &[u8]) -> Result<Option<String>, String> {
        match &self.payload_format {
            None | Some(PayloadFormat::Text) => Ok(None),
            Some(format) => format.show(payload).map(Some),
        }
    }

    /// The same for a payload among other fields, where text is asked for as well.
    ///
    /// # Errors
    /// As of [`show`](Self::show).
    pub(crate) fn show_field(&self, payload: &[u8]) -> Result<Option<String>, String> {
        self.payload_format
            .as_ref()
            .map(|format| format.show(payload))
            .transpose()
    }
}

impl PayloadFormat {
    /// A format by its name.
    ///
    /// # Errors
    /// With a name that means nothing, and with a file that cannot be read or has no such message type.
    fn parse(text: &str) -> Result<Self, String> {
        match text {
            "text" => Ok(Self::Text),
            "json" => Ok(Self::Json),
            "hex" => Ok(Self::Hex),
            "base64" => Ok(Self::Base64),
            _ => match text.strip_prefix("proto:") {
                Some(named) => Ok(Self::Proto(Box::new(MessageType::find(named)?))),
                None => Err("write text, json, hex, base64 or proto:FILE[:MESSAGE]".to_owned()),
            },
        }
    }

    fn read(&self, written: Vec<u8>) -> Result<Vec<u8>, String> {
        match self {
            Self::Text => Ok(written),
            Self::Json => serde_json::from_slice::<Value>(&written)
                .map(|_| written)
                .map_err(|error| format!("the message is not JSON: {error}")),
            Self::Hex => bytes_of_hex(&written),
            Self::Base64 => STANDARD
                .decode(without_spaces(&written))
                .map_err(|error| format!("the message is not base64: {error}")),
            Self::Proto(message) => message.encode(&written),
        }
    }

    fn show(&self, payload: &[u8]) -> Result<String, String> {
        match self {
            Self::Text => Ok(String::from_utf8_lossy(payload).into_owned()),
            Self::Json => serde_json::from_slice::<Value>(payload)
                .map(|_| compact(payload))
                .map_err(|error| format!("not JSON: {error}")),
            Self::Hex => {
                let mut text = String::with_capacity(2 * payload.len());
                hex(payload, false, &mut text);
                Ok(text)
            }
            Self::Base64 => Ok(STANDARD.encode(payload)),
            Self::Proto(message) => message.show(payload),
        }
    }
}

/// JSON without what stands between its parts: digits of numbers and the order of names stay as they are.
fn compact(json: &[u8]) -> String {
    let (mut quoted, mut escaped) = (false, false);
    let kept = json.iter().copied().filter(|&byte| {
        let ends = byte == b'"' && !escaped;
        escaped = quoted && byte == b'\\' && !escaped;
        quoted ^= ends;
        quoted || !byte.is_ascii_whitespace()
    });
    String::from_utf8_lossy(&kept.collect::<Vec<u8>>()).into_owned()
}

fn without_spaces(text: &[u8]) -> Cow<'_, [u8]> {
    if text.iter().any(u8::is_ascii_whitespace) {
        let kept = text.iter().copied().filter(|it| !it.is_ascii_whitespace());
        Cow::Owned(kept.collect())
    } else {
        Cow::Borrowed(text)
    }
}

/// Bytes of pairs of hexadecimal digits, with any white space between and in them.
///
/// # Errors
/// With anything else, and with half a byte.
pub(crate) fn bytes_of_hex(text: &[u8]) -> Result<Vec<u8>, String> {
    let digits = without_spaces(text);
    let value = |&digit: &u8| {
        char::from(digit)
            .to_digit(16)
            .ok_or_else(|| format!("{:?} is no hexadecimal digit", char::from(digit)))
    };
    let pairs = digits.chunks(2).map(|pair| match pair {
        [high, low] => Ok((value(high)? * 16 + value(low)?) as u8),
        _ => Err("half a byte is left over at the end of the hexadecimal digits".to_owned()),
    });
    pairs.collect()
}

#[cfg(test)]
mod tests;
