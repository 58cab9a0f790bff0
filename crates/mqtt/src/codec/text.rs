//! Strings of the protocol: UTF-8 without U+0000, at most 65,535 bytes.

use std::fmt;
use std::ops::Deref;

use super::error::{DecodeError, DecodeErrorKind};

/// A UTF-8 Encoded String: well-formed UTF-8 (so no surrogates), no U+0000, at most 65,535 bytes.
///
/// v3 [MQTT-1.5.3-1], v3 [MQTT-1.5.3-2], v5 [MQTT-1.5.4-1], v5 [MQTT-1.5.4-2]. U+FEFF is kept, v3 [MQTT-1.5.3-3],
/// v5 [MQTT-1.5.4-3]. Control characters and non-characters, which the standards only advise against, are accepted.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct MqttStr<'a>(&'a str);

impl<'a> MqttStr<'a> {
    /// The string of no characters.
    pub const EMPTY: Self = Self("");

    /// Checks a string of ours.
    ///
    /// # Errors
    /// [`DecodeErrorKind::Nul`] for U+0000, [`DecodeErrorKind::PacketTooLarge`] above 65,535 bytes.
    pub fn new(text: &'a str) -> Result<Self, DecodeError> {
        if text.len() > usize::from(u16::MAX) {
            return Err(DecodeErrorKind::PacketTooLarge.into());
        }
        if memchr::memchr(0, text.as_bytes()).is_some() {
            return Err(DecodeErrorKind::Nul.into());
        }
        Ok(Self(text))
    }

    /// The text.
    #[must_use]
    pub const fn as_str(self) -> &'a str {
        self.0
    }

    /// For text that a stricter type has checked.
    pub(crate) const fn from_checked(text: &'a str) -> Self {
        Self(text)
    }

    /// Checks bytes behind a two-byte length, which therefore are short enough.
    #[inline]
    pub(crate) fn check(bytes: &'a [u8]) -> Result<Self, DecodeErrorKind> {
        let text = utf8(bytes)?;
        if has_nul(bytes) {
            return Err(DecodeErrorKind::Nul);
        }
        Ok(Self(text))
    }

    /// Bytes on the wire.
    pub(crate) const fn wire_len(self) -> usize {
        2 + self.0.len()
    }

    pub(crate) fn write(self, out: &mut Vec<u8>) {
        write_binary(self.0.as_bytes(), out);
    }
}

/// Most strings are short: below this length a plain loop beats the call into the search.
const SHORT_BYTES: usize = 64;

#[inline]
fn has_nul(bytes: &[u8]) -> bool {
    if bytes.len() < SHORT_BYTES {
        bytes.iter().fold(false, |found, &byte| found | (byte == 0))
    } else {
        memchr::memchr(0, bytes).is_some()
    }
}

#[inline]
pub(crate) fn utf8(bytes: &[u8]) -> Result<&str, DecodeErrorKind> {
    simdutf8::basic::from_utf8(bytes).map_err(|_| DecodeErrorKind::Utf8)
}

/// Appends a two-byte length and the bytes; callers hold types that bound the length.
pub(crate) fn write_binary(bytes: &[u8], out: &mut Vec<u8>) {
    debug_assert!(
        bytes.len() <= usize::from(u16::MAX),
        "fields are bounded by their types"
    );
    out.extend_from_slice(&(bytes.len() as u16).to_be_bytes());
    out.extend_from_slice(bytes);
}

impl Deref for MqttStr<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        self.0
    }
}

impl fmt::Debug for MqttStr<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.0, f)
    }
}

impl fmt::Display for MqttStr<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

/// Binary Data of at most 65,535 bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Binary<'a>(&'a [u8]);

impl<'a> Binary<'a> {
    /// `None` above 65,535 bytes.
    #[must_use]
    pub const fn new(bytes: &'a [u8]) -> Option<Self> {
        if bytes.len() <= u16::MAX as usize {
            Some(Self(bytes))
        } else {
            None
        }
    }

    /// The bytes.
    #[must_use]
    pub const fn as_bytes(self) -> &'a [u8] {
        self.0
    }

    pub(crate) const fn wire_len(self) -> usize {
        2 + self.0.len()
    }

    pub(crate) fn write(self, out: &mut Vec<u8>) {
        write_binary(self.0, out);
    }
}

impl Deref for Binary<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.0
    }
}

impl fmt::Debug for Binary<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.0, f)
    }
}

/// Binary Data that must not show up in logs: passwords and authentication data. `Debug` prints its length only.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Secret<'a>(Binary<'a>);

impl<'a> Secret<'a> {
    /// `None` above 65,535 bytes.
    #[must_use]
    pub const fn new(bytes: &'a [u8]) -> Option<Self> {
        match Binary::new(bytes) {
            Some(bytes) => Some(Self(bytes)),
            None => None,
        }
    }

    /// The secret bytes.
    #[must_use]
    pub const fn reveal(self) -> &'a [u8] {
        self.0.as_bytes()
    }

    pub(crate) const fn binary(self) -> Binary<'a> {
        self.0
    }
}

impl fmt::Debug for Secret<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secret({} bytes)", self.0.len())
    }
}
