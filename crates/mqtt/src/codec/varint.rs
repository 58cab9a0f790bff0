//! Variable byte integers: seven bits a byte, least significant first, at most four bytes.

use super::error::DecodeErrorKind;

/// Largest value: 268,435,455.
pub const VARINT_MAX: u32 = 0x0FFF_FFFF;

/// What the bytes of a variable byte integer say so far.
pub(crate) enum Varint {
    /// All bytes given have the continuation bit.
    Incomplete,
    /// The value and how many bytes it took.
    Value(u32, usize),
}

/// Reads a variable byte integer from the front of `bytes`.
///
/// Refuses a fifth byte and, v5 [MQTT-1.5.5-1], encodings that are longer than needed. 3.1.1 has no numbered clause for the latter,
/// but its table 2.4 gives each length its own range of values.
#[inline]
pub(crate) fn read(bytes: &[u8]) -> Result<Varint, DecodeErrorKind> {
    match bytes {
        [byte @ 0..=0x7F, ..] => Ok(Varint::Value(u32::from(*byte), 1)),
        _ => read_long(bytes),
    }
}

fn read_long(bytes: &[u8]) -> Result<Varint, DecodeErrorKind> {
    let mut value = 0_u32;
    for (index, &byte) in bytes.iter().take(4).enumerate() {
        value |= u32::from(byte & 0x7F) << (7 * index);
        if byte & 0x80 == 0 {
            return if byte == 0 && index > 0 {
                Err(DecodeErrorKind::LengthNotMinimal)
            } else {
                Ok(Varint::Value(value, index + 1))
            };
        }
    }
    if bytes.len() >= 4 {
        Err(DecodeErrorKind::LengthTooLong)
    } else {
        Ok(Varint::Incomplete)
    }
}

/// Bytes that `value` takes: 1 to 4.
#[must_use]
pub(crate) const fn len(value: u32) -> usize {
    match value {
        0..=0x7F => 1,
        0x80..=0x3FFF => 2,
        0x4000..=0x1F_FFFF => 3,
        _ => 4,
    }
}

/// Appends `value` in as few bytes as possible, v5 [MQTT-1.5.5-1]. `value` must not be above [`VARINT_MAX`].
pub(crate) fn write(mut value: u32, out: &mut Vec<u8>) {
    debug_assert!(
        value <= VARINT_MAX,
        "lengths are bounded before they are written"
    );
    while value >= 0x80 {
        out.push((value & 0x7F) as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}
