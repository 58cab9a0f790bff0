//! PUBACK, PUBREC, PUBREL and PUBCOMP: one layout.

use crate::codec::encode::{Body, EncodeError, Trim, block_len, check_scope};
use crate::codec::encode::{trimmed_len, write_trimmed};
use crate::codec::error::DecodeErrorKind;
use crate::codec::frame::Frame;
use crate::codec::limits::Rules;
use crate::codec::property::{Properties, PropertyScope};
use crate::codec::reader::Reader;
use crate::codec::reason::ReasonCode;
use crate::codec::types::{PacketId, PacketType, ProtocolVersion};

/// PUBACK: the receiver owns a QoS 1 message.
pub type Puback<'a> = Ack<'a, { PacketType::Puback as u8 }>;
/// PUBREC: the receiver owns a QoS 2 message.
pub type Pubrec<'a> = Ack<'a, { PacketType::Pubrec as u8 }>;
/// PUBREL: the sender has let go of a QoS 2 message.
pub type Pubrel<'a> = Ack<'a, { PacketType::Pubrel as u8 }>;
/// PUBCOMP: a QoS 2 exchange is over.
pub type Pubcomp<'a> = Ack<'a, { PacketType::Pubcomp as u8 }>;

/// One of the four acknowledgements; `TYPE` is the number of its packet type, so that they do not mix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ack<'a, const TYPE: u8> {
    /// The packet identifier of the PUBLISH: v3 [MQTT-2.3.1-6], v5 [MQTT-2.2.1-5].
    pub packet_id: PacketId,
    /// Success in 3.1.1.
    pub reason: ReasonCode,
    /// Reason String and User Properties; empty in 3.1.1.
    pub properties: Properties<'a>,
}

impl<'a, const TYPE: u8> Ack<'a, TYPE> {
    const TYPE_OF: PacketType = match PacketType::from_first_byte(TYPE << 4) {
        Some(packet_type) => packet_type,
        None => panic!("TYPE is the number of a packet type"),
    };
    const SCOPE: PropertyScope = match Self::TYPE_OF {
        PacketType::Puback => PropertyScope::Puback,
        PacketType::Pubrec => PropertyScope::Pubrec,
        PacketType::Pubrel => PropertyScope::Pubrel,
        PacketType::Pubcomp => PropertyScope::Pubcomp,
        _ => panic!("only four packet types have this layout"),
    };

    /// Success without properties.
    #[must_use]
    pub const fn new(packet_id: PacketId) -> Self {
        Self {
            packet_id,
            reason: ReasonCode::Success,
            properties: Properties::EMPTY,
        }
    }

    /// A reason code without properties.
    #[must_use]
    pub const fn with_reason(packet_id: PacketId, reason: ReasonCode) -> Self {
        Self {
            packet_id,
            reason,
            properties: Properties::EMPTY,
        }
    }

    pub(crate) fn read(frame: &Frame<'a>, rules: &Rules) -> Result<Self, DecodeErrorKind> {
        let mut reader = Reader::new(frame.body());
        let mut ack = Self::new(reader.packet_id()?);
        if rules.version == ProtocolVersion::V5 && !reader.is_empty() {
            ack.reason = read_reason(&mut reader, Self::TYPE_OF, rules)?;
            if !reader.is_empty() {
                ack.properties = Properties::read(&mut reader, Self::SCOPE, &rules.limits)?.0;
            }
        }
        reader.finish()?;
        Ok(ack)
    }
}

/// Reads a reason code that this packet and sender may carry.
pub(super) fn read_reason(
    reader: &mut Reader<'_>,
    packet: PacketType,
    rules: &Rules,
) -> Result<ReasonCode, DecodeErrorKind> {
    let reason = ReasonCode::from_byte(reader.u8()?).ok_or(DecodeErrorKind::ReasonCodeUnknown)?;
    if reason.allowed_from(packet, rules.sender) {
        Ok(reason)
    } else {
        Err(DecodeErrorKind::ReasonCodeMisplaced)
    }
}

impl<const TYPE: u8> Body for Ack<'_, TYPE> {
    const PACKET_TYPE: PacketType = Self::TYPE_OF;
    const TRIMS: bool = true;

    fn check(&self, version: ProtocolVersion) -> Result<(), EncodeError> {
        if version == ProtocolVersion::V5 && !self.reason.allowed_in(Self::TYPE_OF) {
            return Err(EncodeError::Refused(DecodeErrorKind::ReasonCodeMisplaced));
        }
        check_scope(&self.properties, Self::SCOPE)
    }

    fn body_len(&self, version: ProtocolVersion, trim: Trim) -> usize {
        if version == ProtocolVersion::V311 {
            return 2;
        }
        match (trimmed_len(&self.properties, trim), self.reason) {
            (0, ReasonCode::Success) => 2,
            (0, _) => 3,
            (properties, _) => 3 + block_len(properties),
        }
    }

    /// Reason code and properties are left out where they would say nothing (v5 section 3.4.2.1).
    fn write_body(&self, version: ProtocolVersion, trim: Trim, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.packet_id.get().to_be_bytes());
        let len = self.body_len(version, trim);
        if len > 2 {
            out.push(self.reason.byte());
        }
        if len > 3 {
            write_trimmed(&self.properties, trim, out);
        }
    }
}
