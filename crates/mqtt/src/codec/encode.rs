//! Writing packets: the exact size is known before the first byte is written.

use super::error::DecodeErrorKind;
use super::limits::PACKET_BYTES_MAX;
use super::packet::Packet;
use super::property::{Properties, PropertyId, PropertyIter, PropertyScope};
use super::reason::ReasonCode;
use super::types::{PacketType, ProtocolVersion};
use super::varint;

/// For whom a packet is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Receiver {
    /// The version of the connection. CONNECT is written in its own version.
    pub version: ProtocolVersion,
    /// The receiver's Maximum Packet Size in bytes; v5 [MQTT-3.1.2-24], v5 [MQTT-3.2.2-15].
    pub packet_bytes_max: u32,
}

impl Receiver {
    /// A receiver that has set no maximum.
    #[must_use]
    pub const fn new(version: ProtocolVersion) -> Self {
        Self {
            version,
            packet_bytes_max: PACKET_BYTES_MAX,
        }
    }

    /// The same with a Maximum Packet Size.
    #[must_use]
    pub const fn with_packet_bytes_max(mut self, bytes: u32) -> Self {
        self.packet_bytes_max = bytes;
        self
    }
}

/// A packet that cannot be written for this receiver; nothing was written then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EncodeError {
    /// Larger than the receiver takes, even without Reason String and User Properties.
    #[error("{packet} of {bytes} bytes, the receiver takes {bytes_max}")]
    TooLarge {
        /// Its type.
        packet: PacketType,
        /// Bytes that it would have.
        bytes: usize,
        /// The receiver's maximum.
        bytes_max: u32,
    },
    /// 3.1.1 has no return code for this; close without CONNACK, v3 [MQTT-3.2.2-6].
    #[error("3.1.1 has no CONNACK return code for {0}")]
    NoReturnCode(ReasonCode),
    /// The packet, or something that it says, does not exist in the receiver's version.
    #[error("{0} says what the receiver's version cannot")]
    NotInVersion(PacketType),
    /// A receiver would refuse it for this.
    #[error("a receiver would refuse the packet: {}", .0.text())]
    Refused(DecodeErrorKind),
}

/// Which optional properties are left out so that a packet fits.
///
/// v5 [MQTT-3.2.2-19], v5 [MQTT-3.2.2-20] and the same rules of the other packets with a Reason String.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trim {
    Nothing,
    UserProperties,
    ReasonString,
    Both,
}

impl Trim {
    /// In order of preference: the reason is worth more than the rest.
    const STEPS: [Self; 4] = [
        Self::Nothing,
        Self::UserProperties,
        Self::ReasonString,
        Self::Both,
    ];

    const fn keeps(self, id: PropertyId) -> bool {
        match id {
            PropertyId::UserProperty => matches!(self, Self::Nothing | Self::ReasonString),
            PropertyId::ReasonString => matches!(self, Self::Nothing | Self::UserProperties),
            _ => true,
        }
    }
}

/// Property blocks of packets whose optional properties may be left out.
pub(crate) fn trimmed_len(properties: &Properties<'_>, trim: Trim) -> usize {
    if trim == Trim::Nothing {
        return properties.as_bytes().len();
    }
    properties
        .iter()
        .filter(|property| trim.keeps(property.id()))
        .map(|property| property.wire_len())
        .sum()
}

/// Bytes of length and block.
pub(crate) fn block_len(len: usize) -> usize {
    varint::len(len.try_into().unwrap_or(u32::MAX)) + len
}

/// Appends length and block; with nothing left in it a length of 0, v5 [MQTT-2.2.2-1].
pub(crate) fn write_trimmed(properties: &Properties<'_>, trim: Trim, out: &mut Vec<u8>) {
    varint::write(trimmed_len(properties, trim) as u32, out);
    if trim == Trim::Nothing {
        out.extend_from_slice(properties.as_bytes());
        return;
    }
    let mut all = PropertyIter::new(properties.as_bytes());
    while let Some((property, bytes)) = all.next_with_bytes() {
        if trim.keeps(property.id()) {
            out.extend_from_slice(bytes);
        }
    }
}

/// What each packet knows of its own layout.
pub(crate) trait Body {
    const PACKET_TYPE: PacketType;
    /// Whether Reason String and User Properties may be left out.
    const TRIMS: bool;

    /// Flag bits of the fixed header.
    fn flags(&self) -> u8 {
        Self::PACKET_TYPE.required_flags().unwrap_or(0)
    }

    /// Refuses what this version cannot say.
    fn check(&self, version: ProtocolVersion) -> Result<(), EncodeError>;

    /// Bytes after the fixed header.
    fn body_len(&self, version: ProtocolVersion, trim: Trim) -> usize;

    /// Appends exactly [`Body::body_len`] bytes.
    fn write_body(&self, version: ProtocolVersion, trim: Trim, out: &mut Vec<u8>);
}

/// How a packet will be written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    body_len: u32,
    trim: Trim,
    pub(crate) total: usize,
}

pub(crate) fn plan<B: Body>(body: &B, receiver: &Receiver) -> Result<Plan, EncodeError> {
    body.check(receiver.version)?;
    let steps: &[Trim] = if B::TRIMS {
        &Trim::STEPS
    } else {
        &[Trim::Nothing]
    };
    let bytes_max = receiver.packet_bytes_max.min(PACKET_BYTES_MAX);
    let mut smallest = usize::MAX;
    for &trim in steps {
        let body_len = body.body_len(receiver.version, trim);
        let total = 1 + block_len(body_len);
        if total <= bytes_max as usize {
            return Ok(Plan {
                body_len: body_len as u32,
                trim,
                total,
            });
        }
        smallest = smallest.min(total);
    }
    Err(EncodeError::TooLarge {
        packet: B::PACKET_TYPE,
        bytes: smallest,
        bytes_max,
    })
}

pub(crate) fn encode<B: Body>(
    body: &B,
    receiver: &Receiver,
    out: &mut Vec<u8>,
) -> Result<usize, EncodeError> {
    let plan = plan(body, receiver)?;
    out.reserve(plan.total);
    let start = out.len();
    out.push((B::PACKET_TYPE as u8) << 4 | body.flags());
    varint::write(plan.body_len, out);
    body.write_body(receiver.version, plan.trim, out);
    debug_assert_eq!(
        out.len() - start,
        plan.total,
        "a packet has the length that was planned"
    );
    Ok(plan.total)
}

/// Refuses a block that was made for another packet.
pub(crate) fn check_scope(
    properties: &Properties<'_>,
    scope: PropertyScope,
) -> Result<(), EncodeError> {
    if properties.fits(scope) {
        Ok(())
    } else {
        Err(EncodeError::Refused(DecodeErrorKind::PropertyMisplaced))
    }
}

macro_rules! each_packet {
    ($packet:expr, $body:ident => $do:expr) => {
        match $packet {
            Packet::Connect($body) => $do,
            Packet::Connack($body) => $do,
            Packet::Publish($body) => $do,
            Packet::Puback($body) => $do,
            Packet::Pubrec($body) => $do,
            Packet::Pubrel($body) => $do,
            Packet::Pubcomp($body) => $do,
            Packet::Subscribe($body) => $do,
            Packet::Suback($body) => $do,
            Packet::Unsubscribe($body) => $do,
            Packet::Unsuback($body) => $do,
            Packet::Pingreq($body) => $do,
            Packet::Pingresp($body) => $do,
            Packet::Disconnect($body) => $do,
            Packet::Auth($body) => $do,
        }
    };
}

impl Packet<'_> {
    /// Bytes of the whole packet for this receiver, after what does not fit and may be left out is left out.
    ///
    /// # Errors
    /// As [`Packet::encode`].
    pub fn encoded_len(&self, receiver: &Receiver) -> Result<usize, EncodeError> {
        each_packet!(self, body => plan(body, receiver).map(|plan| plan.total))
    }

    /// Appends the packet to `out` and says how many bytes it took.
    ///
    /// Reason String and User Properties of answers, DISCONNECT and AUTH are left out when the packet would otherwise exceed the
    /// receiver's maximum. For 3.1.1 all properties are left out.
    ///
    /// # Errors
    /// [`EncodeError`]; `out` is unchanged then.
    pub fn encode(&self, receiver: &Receiver, out: &mut Vec<u8>) -> Result<usize, EncodeError> {
        each_packet!(self, body => encode(body, receiver, out))
    }
}
