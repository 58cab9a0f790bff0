//! What every checked payload begins with: stream, number and time of sending.

/// Bytes of a stamp.
pub const BYTES: usize = 24;
const MAGIC: u32 = 0x436f_7572;

/// Who sent a message as which one, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// Stream: one publisher on one topic.
    pub stream: u32,
    /// Number in the stream, from 0.
    pub number: u64,
    /// Nanoseconds since the run began: when the message was due (open loop) or written (closed).
    pub sent_ns: u64,
}

impl Stamp {
    /// Its bytes.
    #[must_use]
    pub fn encode(self) -> [u8; BYTES] {
        let mut out = [0; BYTES];
        out[..4].copy_from_slice(&MAGIC.to_le_bytes());
        out[4..8].copy_from_slice(&self.stream.to_le_bytes());
        out[8..16].copy_from_slice(&self.number.to_le_bytes());
        out[16..].copy_from_slice(&self.sent_ns.to_le_bytes());
        out
    }

    /// The stamp at the start of a payload; `None` for a message of somebody else.
    #[must_use]
    pub fn decode(payload: &[u8]) -> Option<Self> {
        let bytes: &[u8; BYTES] = payload.first_chunk()?;
        let (magic, rest) = bytes.split_first_chunk::<4>()?;
        let (stream, rest) = rest.split_first_chunk::<4>()?;
        let (number, rest) = rest.split_first_chunk::<8>()?;
        (u32::from_le_bytes(*magic) == MAGIC).then_some(Self {
            stream: u32::from_le_bytes(*stream),
            number: u64::from_le_bytes(*number),
            sent_ns: u64::from_le_bytes(*rest.first_chunk()?),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_is_read_back_and_nothing_else_is_one() {
        let stamp = Stamp {
            stream: 7,
            number: 1 << 40,
            sent_ns: 123_456_789,
        };
        let mut payload = stamp.encode().to_vec();
        payload.push(0);
        assert_eq!(Stamp::decode(&payload), Some(stamp));
        assert_eq!(Stamp::decode(&payload[..BYTES - 1]), None);
        payload[0] ^= 1;
        assert_eq!(Stamp::decode(&payload), None);
    }
}
