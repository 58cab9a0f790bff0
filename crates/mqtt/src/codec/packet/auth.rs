//! AUTH, v5 only.

use super::ack::read_reason;
use crate::codec::encode::{Body, EncodeError, Trim, block_len, check_scope};
use crate::codec::encode::{trimmed_len, write_trimmed};
use crate::codec::error::DecodeErrorKind;
use crate::codec::frame::Frame;
use crate::codec::limits::Rules;
use crate::codec::property::{Properties, PropertyId, PropertyScope};
use crate::codec::reader::Reader;
use crate::codec::reason::ReasonCode;
use crate::codec::types::{PacketType, ProtocolVersion};

/// AUTH: one step of an authentication exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Auth<'a> {
    /// Success, Continue authentication or Re-authenticate.
    pub reason: ReasonCode,
    /// Authentication Method and Data, Reason String, User Properties. Without a method only when the packet has no body at all, which
    /// v5 section 3.15.2.1 allows for Success.
    pub properties: Properties<'a>,
}

impl<'a> Auth<'a> {
    pub(crate) fn read(frame: &Frame<'a>, rules: &Rules) -> Result<Self, DecodeErrorKind> {
        let mut reader = Reader::new(frame.body());
        if reader.is_empty() {
            return if ReasonCode::Success.allowed_from(PacketType::Auth, rules.sender) {
                Ok(Self {
                    reason: ReasonCode::Success,
                    properties: Properties::EMPTY,
                })
            } else {
                Err(DecodeErrorKind::ReasonCodeMisplaced)
            };
        }
        let reason = read_reason(&mut reader, PacketType::Auth, rules)?;
        let (properties, seen) = Properties::read(&mut reader, PropertyScope::Auth, &rules.limits)?;
        reader.finish()?;
        if !seen.has(PropertyId::AuthenticationMethod) {
            return Err(DecodeErrorKind::AuthenticationMethodMissing);
        }
        Ok(Self { reason, properties })
    }

    fn is_short(&self, trim: Trim) -> bool {
        self.reason == ReasonCode::Success && trimmed_len(&self.properties, trim) == 0
    }
}

impl Body for Auth<'_> {
    const PACKET_TYPE: PacketType = PacketType::Auth;
    const TRIMS: bool = true;

    fn check(&self, version: ProtocolVersion) -> Result<(), EncodeError> {
        if version == ProtocolVersion::V311 {
            return Err(EncodeError::NotInVersion(PacketType::Auth));
        }
        if !self.reason.allowed_in(PacketType::Auth) {
            return Err(EncodeError::Refused(DecodeErrorKind::ReasonCodeMisplaced));
        }
        let short = self.reason == ReasonCode::Success && self.properties.is_empty();
        if !short && self.properties.authentication_method().is_none() {
            return Err(EncodeError::Refused(
                DecodeErrorKind::AuthenticationMethodMissing,
            ));
        }
        check_scope(&self.properties, PropertyScope::Auth)
    }

    fn body_len(&self, _: ProtocolVersion, trim: Trim) -> usize {
        if self.is_short(trim) {
            0
        } else {
            1 + block_len(trimmed_len(&self.properties, trim))
        }
    }

    fn write_body(&self, _: ProtocolVersion, trim: Trim, out: &mut Vec<u8>) {
        if !self.is_short(trim) {
            out.push(self.reason.byte());
            write_trimmed(&self.properties, trim, out);
        }
    }
}
