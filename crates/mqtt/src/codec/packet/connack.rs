//! CONNACK.

use super::ack::read_reason;
use crate::codec::encode::{Body, EncodeError, Trim, block_len, check_scope};
use crate::codec::encode::{trimmed_len, write_trimmed};
use crate::codec::error::DecodeErrorKind;
use crate::codec::frame::Frame;
use crate::codec::limits::Rules;
use crate::codec::property::{Properties, PropertyScope};
use crate::codec::reader::Reader;
use crate::codec::reason::ReasonCode;
use crate::codec::types::{PacketType, ProtocolVersion};

/// CONNACK: whether a connection is accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connack<'a> {
    /// Whether the server has a session of this client. Never true with an error: v3 [MQTT-3.2.2-4], v5 [MQTT-3.2.2-6].
    pub session_present: bool,
    /// 3.1.1 return codes are mapped: [`ReasonCode::from_connack_return_code`].
    pub reason: ReasonCode,
    /// Empty in 3.1.1.
    pub properties: Properties<'a>,
}

impl<'a> Connack<'a> {
    /// A refusal without properties.
    #[must_use]
    pub const fn refused(reason: ReasonCode) -> Self {
        Self {
            session_present: false,
            reason,
            properties: Properties::EMPTY,
        }
    }

    pub(crate) fn read(frame: &Frame<'a>, rules: &Rules) -> Result<Self, DecodeErrorKind> {
        let mut reader = Reader::new(frame.body());
        let flags = reader.u8()?;
        // v5 [MQTT-3.2.2-1]
        if flags > 1 {
            return Err(DecodeErrorKind::AcknowledgeFlags);
        }
        let (reason, properties) = match rules.version {
            ProtocolVersion::V311 => {
                let reason = ReasonCode::from_connack_return_code(reader.u8()?)
                    .ok_or(DecodeErrorKind::ReasonCodeUnknown)?;
                (reason, Properties::EMPTY)
            }
            ProtocolVersion::V5 => {
                let reason = read_reason(&mut reader, PacketType::Connack, rules)?;
                let (properties, _) =
                    Properties::read(&mut reader, PropertyScope::Connack, &rules.limits)?;
                (reason, properties)
            }
        };
        reader.finish()?;
        let session_present = flags == 1;
        if session_present && reason != ReasonCode::Success {
            return Err(DecodeErrorKind::SessionPresentOnError);
        }
        Ok(Self {
            session_present,
            reason,
            properties,
        })
    }
}

impl Body for Connack<'_> {
    const PACKET_TYPE: PacketType = PacketType::Connack;
    const TRIMS: bool = true;

    fn check(&self, version: ProtocolVersion) -> Result<(), EncodeError> {
        if self.session_present && self.reason != ReasonCode::Success {
            return Err(EncodeError::Refused(DecodeErrorKind::SessionPresentOnError));
        }
        match version {
            ProtocolVersion::V311 if self.reason.connack_return_code().is_none() => {
                Err(EncodeError::NoReturnCode(self.reason))
            }
            ProtocolVersion::V5 if !self.reason.allowed_in(PacketType::Connack) => {
                Err(EncodeError::Refused(DecodeErrorKind::ReasonCodeMisplaced))
            }
            ProtocolVersion::V311 | ProtocolVersion::V5 => {
                check_scope(&self.properties, PropertyScope::Connack)
            }
        }
    }

    fn body_len(&self, version: ProtocolVersion, trim: Trim) -> usize {
        match version {
            ProtocolVersion::V311 => 2,
            ProtocolVersion::V5 => 2 + block_len(trimmed_len(&self.properties, trim)),
        }
    }

    fn write_body(&self, version: ProtocolVersion, trim: Trim, out: &mut Vec<u8>) {
        out.push(u8::from(self.session_present));
        match version {
            ProtocolVersion::V311 => out.push(
                self.reason
                    .connack_return_code()
                    .expect("`check` has refused reasons without a return code"),
            ),
            ProtocolVersion::V5 => {
                out.push(self.reason.byte());
                write_trimmed(&self.properties, trim, out);
            }
        }
    }
}
