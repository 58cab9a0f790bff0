//! Masks of WebSocket (RFC 6455 5.3).

/// A mask, turned so that it begins with what the next byte is masked with. Putting it on and taking it off are the same.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mask([u8; 4]);

impl Mask {
    /// Of a frame whose payload has not begun.
    pub(crate) const fn new(bytes: [u8; 4]) -> Self {
        Self(bytes)
    }

    /// Masks the next bytes.
    pub(crate) fn apply(&mut self, bytes: &mut [u8]) {
        let mask = u32::from_ne_bytes(self.0);
        let (fours, rest) = bytes.as_chunks_mut();
        for four in fours {
            *four = (u32::from_ne_bytes(*four) ^ mask).to_ne_bytes();
        }
        for (byte, mask) in rest.iter_mut().zip(self.0) {
            *byte ^= mask;
        }
        self.0.rotate_left(rest.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_in_pieces_is_masked_as_in_one() {
        let all: Vec<u8> = (0..40).collect();
        let mask = [0x11, 0x22, 0x44, 0x88];
        let mut expected = all.clone();
        for (byte, mask) in expected.iter_mut().zip(mask.iter().cycle()) {
            *byte ^= mask;
        }
        for first in 0..all.len() {
            for second in first..all.len() {
                let (mut bytes, mut turning) = (all.clone(), Mask::new(mask));
                turning.apply(&mut bytes[..first]);
                turning.apply(&mut bytes[first..second]);
                turning.apply(&mut bytes[second..]);
                assert_eq!(bytes, expected, "cut at {first} and {second}");
            }
        }
    }
}
