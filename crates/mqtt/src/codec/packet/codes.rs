//! SUBACK and UNSUBACK: a reason code for each filter, in order.

use std::fmt;

use crate::codec::encode::{Body, EncodeError, Trim, block_len, check_scope};
use crate::codec::encode::{trimmed_len, write_trimmed};
use crate::codec::error::{DecodeError, DecodeErrorKind};
use crate::codec::frame::Frame;
use crate::codec::limits::Rules;
use crate::codec::property::{Properties, PropertyScope};
use crate::codec::reader::Reader;
use crate::codec::reason::ReasonCode;
use crate::codec::types::{PacketId, PacketType, ProtocolVersion};

/// Reason codes in the order of the filters: v3 [MQTT-3.9.3-1], v5 [MQTT-3.9.3-1], v5 [MQTT-3.11.3-1].
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct ReasonCodes<'a>(&'a [u8]);

impl<'a> ReasonCodes<'a> {
    /// No codes: UNSUBACK of 3.1.1.
    pub const NONE: Self = Self(&[]);

    /// Codes to send, one byte each ([`ReasonCode::byte`]).
    ///
    /// # Errors
    /// [`DecodeErrorKind::ReasonCodeUnknown`] and, where the table of the packet does not list one,
    /// [`DecodeErrorKind::ReasonCodeMisplaced`].
    pub fn new(packet: PacketType, codes: &'a [u8]) -> Result<Self, DecodeError> {
        for &byte in codes {
            let code = ReasonCode::from_byte(byte).ok_or(DecodeErrorKind::ReasonCodeUnknown)?;
            if !code.allowed_in(packet) {
                return Err(DecodeErrorKind::ReasonCodeMisplaced.into());
            }
        }
        Ok(Self(codes))
    }

    /// How many.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The codes.
    pub fn iter(&self) -> impl Iterator<Item = ReasonCode> + use<'a> {
        self.0.iter().copied().filter_map(ReasonCode::from_byte)
    }

    fn read(
        reader: &mut Reader<'a>,
        packet: PacketType,
        version: ProtocolVersion,
    ) -> Result<Self, DecodeErrorKind> {
        let codes = reader.rest();
        if codes.is_empty() {
            return Err(DecodeErrorKind::NoReasonCode);
        }
        // v3 [MQTT-3.9.3-2]
        if version == ProtocolVersion::V311
            && codes.iter().any(|code| !matches!(code, 0..=2 | 0x80))
        {
            return Err(DecodeErrorKind::ReasonCodeUnknown);
        }
        Self::new(packet, codes).map_err(DecodeError::kind)
    }
}

impl fmt::Debug for ReasonCodes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// SUBACK: what became of each subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Suback<'a> {
    /// Of the SUBSCRIBE: v3 [MQTT-2.3.1-7], v5 [MQTT-2.2.1-6].
    pub packet_id: PacketId,
    /// Reason String and User Properties; empty in 3.1.1.
    pub properties: Properties<'a>,
    /// Granted QoS or failure of each filter. For 3.1.1 every failure is written as 0x80.
    pub codes: ReasonCodes<'a>,
}

/// UNSUBACK: what became of each filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unsuback<'a> {
    /// Of the UNSUBSCRIBE: v3 [MQTT-2.3.1-7], v5 [MQTT-2.2.1-6].
    pub packet_id: PacketId,
    /// Reason String and User Properties; empty in 3.1.1.
    pub properties: Properties<'a>,
    /// One code a filter; none in 3.1.1, where they are not written.
    pub codes: ReasonCodes<'a>,
}

impl<'a> Suback<'a> {
    pub(crate) fn read(frame: &Frame<'a>, rules: &Rules) -> Result<Self, DecodeErrorKind> {
        let mut reader = Reader::new(frame.body());
        let packet_id = reader.packet_id()?;
        let properties = match rules.version {
            ProtocolVersion::V311 => Properties::EMPTY,
            ProtocolVersion::V5 => {
                Properties::read(&mut reader, PropertyScope::Suback, &rules.limits)?.0
            }
        };
        let codes = ReasonCodes::read(&mut reader, PacketType::Suback, rules.version)?;
        Ok(Self {
            packet_id,
            properties,
            codes,
        })
    }
}

impl<'a> Unsuback<'a> {
    pub(crate) fn read(frame: &Frame<'a>, rules: &Rules) -> Result<Self, DecodeErrorKind> {
        let mut reader = Reader::new(frame.body());
        let packet_id = reader.packet_id()?;
        let (properties, codes) = match rules.version {
            ProtocolVersion::V311 => {
                reader.finish()?;
                (Properties::EMPTY, ReasonCodes::NONE)
            }
            ProtocolVersion::V5 => {
                let (properties, _) =
                    Properties::read(&mut reader, PropertyScope::Unsuback, &rules.limits)?;
                let codes = ReasonCodes::read(&mut reader, PacketType::Unsuback, rules.version)?;
                (properties, codes)
            }
        };
        Ok(Self {
            packet_id,
            properties,
            codes,
        })
    }
}

/// Refuses codes of the other packet, and none at all.
fn check_codes(codes: &ReasonCodes<'_>, packet: PacketType) -> Result<(), EncodeError> {
    if codes.is_empty() {
        return Err(EncodeError::Refused(DecodeErrorKind::NoReasonCode));
    }
    if codes.iter().all(|code| code.allowed_in(packet)) {
        Ok(())
    } else {
        Err(EncodeError::Refused(DecodeErrorKind::ReasonCodeMisplaced))
    }
}

impl Body for Suback<'_> {
    const PACKET_TYPE: PacketType = PacketType::Suback;
    const TRIMS: bool = true;

    fn check(&self, _: ProtocolVersion) -> Result<(), EncodeError> {
        check_codes(&self.codes, PacketType::Suback)?;
        check_scope(&self.properties, PropertyScope::Suback)
    }

    fn body_len(&self, version: ProtocolVersion, trim: Trim) -> usize {
        let properties = match version {
            ProtocolVersion::V311 => 0,
            ProtocolVersion::V5 => block_len(trimmed_len(&self.properties, trim)),
        };
        2 + properties + self.codes.len()
    }

    fn write_body(&self, version: ProtocolVersion, trim: Trim, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.packet_id.get().to_be_bytes());
        match version {
            ProtocolVersion::V311 => out.extend(self.codes.iter().map(ReasonCode::suback_v311)),
            ProtocolVersion::V5 => {
                write_trimmed(&self.properties, trim, out);
                out.extend_from_slice(self.codes.0);
            }
        }
    }
}

impl Body for Unsuback<'_> {
    const PACKET_TYPE: PacketType = PacketType::Unsuback;
    const TRIMS: bool = true;

    fn check(&self, version: ProtocolVersion) -> Result<(), EncodeError> {
        if version == ProtocolVersion::V5 {
            check_codes(&self.codes, PacketType::Unsuback)?;
        }
        check_scope(&self.properties, PropertyScope::Unsuback)
    }

    fn body_len(&self, version: ProtocolVersion, trim: Trim) -> usize {
        match version {
            ProtocolVersion::V311 => 2,
            ProtocolVersion::V5 => {
                2 + block_len(trimmed_len(&self.properties, trim)) + self.codes.len()
            }
        }
    }

    fn write_body(&self, version: ProtocolVersion, trim: Trim, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.packet_id.get().to_be_bytes());
        if version == ProtocolVersion::V5 {
            write_trimmed(&self.properties, trim, out);
            out.extend_from_slice(self.codes.0);
        }
    }
}
