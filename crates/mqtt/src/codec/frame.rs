//! Cutting a byte stream into packets.
//!
//! Nothing is allocated and nothing is copied: what a peer announces costs no memory before its bytes have arrived.

use super::error::{DecodeError, DecodeErrorKind};
use super::types::PacketType;
use super::varint::{self, Varint};

/// One whole packet in the receive buffer: its type and flags checked, its body not yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    packet_type: PacketType,
    first: u8,
    head_len: u8,
    body: &'a [u8],
}

/// What [`Frame::split`] found at the front of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Split<'a> {
    /// A whole packet; the next one begins [`Frame::len`] bytes on.
    Whole(Frame<'a>),
    /// At least this many more bytes are needed. Exact once the fixed header is there, and never more than the packet's rest.
    Need(usize),
}

impl<'a> Frame<'a> {
    /// Looks for a whole packet at the front of `buffer`.
    ///
    /// `packet_bytes_max` bounds the whole packet, fixed header included: before CONNECT
    /// [`BEFORE_CONNECT_BYTES_MAX`](super::BEFORE_CONNECT_BYTES_MAX), later
    /// [`Limits::packet_bytes_max`](super::Limits::packet_bytes_max).
    ///
    /// # Errors
    /// As early as the bytes allow: a reserved packet type or wrong flag bits at the first byte (v3 [MQTT-2.2.2-2],
    /// v5 [MQTT-2.1.3-1]), a bad length (v5 [MQTT-1.5.5-1]) or a packet above the maximum before its body has arrived.
    ///
    /// # Examples
    /// ```
    /// use courser_mqtt::codec::{Frame, PacketType, Split};
    ///
    /// assert_eq!(Frame::split(&[0xC0], 1024)?, Split::Need(1));
    /// let Split::Whole(frame) = Frame::split(&[0xC0, 0x00, 0xFF], 1024)? else { panic!() };
    /// assert_eq!((frame.packet_type(), frame.len()), (PacketType::Pingreq, 2));
    /// # Ok::<(), courser_mqtt::codec::DecodeError>(())
    /// ```
    #[inline]
    pub fn split(buffer: &'a [u8], packet_bytes_max: u32) -> Result<Split<'a>, DecodeError> {
        let Some((&first, rest)) = buffer.split_first() else {
            return Ok(Split::Need(2));
        };
        let packet_type = check_first(first)?;
        let (body_len, length_len) = match varint::read(rest)? {
            Varint::Value(value, taken) => (value, taken),
            Varint::Incomplete => return Ok(Split::Need(1)),
        };
        let head_len = 1 + length_len;
        let total = head_len + body_len as usize;
        if total > packet_bytes_max as usize {
            return Err(DecodeErrorKind::PacketTooLarge.into());
        }
        match buffer.get(head_len..total) {
            Some(body) => Ok(Split::Whole(Self {
                packet_type,
                first,
                head_len: head_len as u8,
                body,
            })),
            None => Ok(Split::Need(total - buffer.len())),
        }
    }

    /// The type of the packet at the front of `buffer` and what has come of its body, however large it is to become; `None` where its
    /// fixed header is wrong or not whole.
    #[must_use]
    pub fn begun(buffer: &[u8]) -> Option<(PacketType, &[u8])> {
        let (&first, rest) = buffer.split_first()?;
        let packet_type = check_first(first).ok()?;
        match varint::read(rest).ok()? {
            Varint::Value(body_len, taken) => {
                let come = &rest[taken..];
                let body = come.get(..body_len as usize).unwrap_or(come);
                Some((packet_type, body))
            }
            Varint::Incomplete => None,
        }
    }

    /// The packet type.
    #[must_use]
    pub const fn packet_type(&self) -> PacketType {
        self.packet_type
    }

    /// The low half of the first byte.
    #[must_use]
    pub const fn flags(&self) -> u8 {
        self.first & 0x0F
    }

    /// The bytes after the fixed header.
    #[must_use]
    pub const fn body(&self) -> &'a [u8] {
        self.body
    }

    /// Length of the whole packet in bytes.
    #[must_use]
    #[allow(clippy::len_without_is_empty)] // a packet has two bytes or more
    pub const fn len(&self) -> usize {
        self.head_len as usize + self.body.len()
    }
}

#[inline]
fn check_first(first: u8) -> Result<PacketType, DecodeError> {
    let Some(packet_type) = PacketType::from_first_byte(first) else {
        return Err(DecodeErrorKind::PacketTypeReserved.into());
    };
    match packet_type.required_flags() {
        Some(flags) if first & 0x0F != flags => Err(DecodeErrorKind::FixedHeaderFlags.into()),
        _ => Ok(packet_type),
    }
}
