//! Numbers that are mostly small, seven bits a byte, lowest first.

use crate::canonical::{DecodeError, Reader};

/// Appends a number.
pub(crate) fn write(mut number: u64, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Reads what [`write()`] wrote, in the one form that it has.
pub(crate) fn read(reader: &mut Reader<'_>) -> Result<u64, DecodeError> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let byte = reader.read::<u8>()?;
        let bits = u64::from(byte & 0x7f);
        if bits << shift >> shift != bits || (byte == 0 && shift > 0) {
            return Err(DecodeError::Invalid("number of variable length"));
        }
        number |= bits << shift;
        if byte < 0x80 {
            return Ok(number);
        }
    }
    Err(DecodeError::Invalid("number of variable length"))
}

/// A difference as a number that is small when the difference is.
pub(crate) const fn zigzag(difference: i64) -> u64 {
    (difference << 1 ^ difference >> 63).cast_unsigned()
}

/// Back again.
pub(crate) const fn unzigzag(number: u64) -> i64 {
    (number >> 1).cast_signed() ^ -((number & 1).cast_signed())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn numbers_come_back(number in prop_oneof![any::<u64>(), 0..300u64, Just(u64::MAX)], difference: i64) {
            let mut out = Vec::new();
            write(number, &mut out);
            write(zigzag(difference), &mut out);
            let mut reader = Reader::new(&out);
            prop_assert_eq!(read(&mut reader), Ok(number));
            prop_assert_eq!(read(&mut reader).map(unzigzag), Ok(difference));
            prop_assert!(reader.finish().is_ok());
        }

        #[test]
        fn what_is_read_has_one_form(bytes in prop::collection::vec(any::<u8>(), 0..12)) {
            let mut reader = Reader::new(&bytes);
            if let Ok(number) = read(&mut reader) {
                let mut again = Vec::new();
                write(number, &mut again);
                prop_assert!(bytes.starts_with(&again));
            }
        }
    }
}
