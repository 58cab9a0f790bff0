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
        if has_any(bytes, [0]) {
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

const LOW_BITS: u64 = 0x0101_0101_0101_0101;
const HIGH_BITS: u64 = 0x8080_8080_8080_8080;

/// Whether any byte is one of `wanted`: eight at a time, without an exit in between. Topics are too short for a search by vectors to pay
/// for its call; the compiler leaves a loop over single bytes as it is (8 instructions a byte, this takes 2).
#[inline]
pub(crate) fn has_any<const N: usize>(bytes: &[u8], wanted: [u8; N]) -> bool {
    let test = |chunk: [u8; 8]| {
        let word = u64::from_ne_bytes(chunk);
        wanted.iter().fold(0, |found, &byte| {
            // A byte of `other` is 0 where `word` has the wanted one; the lowest such byte always shows.
            let other = word ^ (LOW_BITS * u64::from(byte));
            found | (other.wrapping_sub(LOW_BITS) & !other & HIGH_BITS)
        })
    };
    let (chunks, tail) = bytes.as_chunks::<8>();
    let mut found = chunks.iter().fold(0, |found, &chunk| found | test(chunk));
    if !tail.is_empty() {
        found |= match bytes.last_chunk::<8>() {
            // Some bytes are looked at twice.
            Some(&last) => test(last),
            None => return tail.iter().any(|byte| wanted.contains(byte)),
        };
    }
    found != 0
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

#[cfg(test)]
mod tests {
    use super::has_any;

    /// Every length and place around the words of eight, and neighbours of the wanted bytes that must not count.
    #[test]
    fn finds_bytes_wherever_they_stand() {
        for len in 0..40 {
            for near in [0x01, 0x22, 0x24, 0x2A, 0x2C, 0x7F, 0x80, 0xFF] {
                let mut bytes = vec![near; len];
                assert!(!has_any(&bytes, [0, b'+', b'#']), "{len} times {near:#x}");
                for at in 0..len {
                    for wanted in [0, b'+', b'#'] {
                        bytes[at] = wanted;
                        assert!(
                            has_any(&bytes, [0, b'+', b'#']),
                            "{wanted:#x} at {at} of {len}"
                        );
                        bytes[at] = near;
                    }
                }
            }
        }
    }
}
