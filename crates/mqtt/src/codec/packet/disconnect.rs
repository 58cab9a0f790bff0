//! DISCONNECT.

use super::ack::read_reason;
use crate::codec::encode::{Body, EncodeError, Trim, block_len, check_scope};
use crate::codec::encode::{trimmed_len, write_trimmed};
use crate::codec::error::DecodeErrorKind;
use crate::codec::frame::Frame;
use crate::codec::limits::Rules;
use crate::codec::property::{Properties, PropertyId, PropertyScope};
use crate::codec::reader::Reader;
use crate::codec::reason::ReasonCode;
use crate::codec::types::{PacketType, ProtocolVersion, Sender};

/// DISCONNECT: the last packet of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Disconnect<'a> {
    /// [`ReasonCode::NORMAL_DISCONNECTION`] in 3.1.1.
    pub reason: ReasonCode,
    /// Session Expiry Interval (from clients only), Reason String, Server Reference (from servers only), User Properties; empty in 3.1.1.
    pub properties: Properties<'a>,
}

impl<'a> Disconnect<'a> {
    /// A reason code without properties.
    #[must_use]
    pub const fn new(reason: ReasonCode) -> Self {
        Self {
            reason,
            properties: Properties::EMPTY,
        }
    }

    pub(crate) fn read(frame: &Frame<'a>, rules: &Rules) -> Result<Self, DecodeErrorKind> {
        let mut reader = Reader::new(frame.body());
        let mut disconnect = Self::new(ReasonCode::NORMAL_DISCONNECTION);
        if rules.version == ProtocolVersion::V5 && !reader.is_empty() {
            disconnect.reason = read_reason(&mut reader, PacketType::Disconnect, rules)?;
            if !reader.is_empty() {
                let (properties, seen) =
                    Properties::read(&mut reader, PropertyScope::Disconnect, &rules.limits)?;
                let of_the_other = match rules.sender {
                    // v5 section 3.14.2.2.5
                    Sender::Client => PropertyId::ServerReference,
                    // v5 [MQTT-3.14.2-2]
                    Sender::Server => PropertyId::SessionExpiryInterval,
                };
                if seen.has(of_the_other) {
                    return Err(DecodeErrorKind::PropertySender);
                }
                disconnect.properties = properties;
            }
        }
        reader.finish()?;
        Ok(disconnect)
    }
}

impl Body for Disconnect<'_> {
    const PACKET_TYPE: PacketType = PacketType::Disconnect;
    const TRIMS: bool = true;

    fn check(&self, version: ProtocolVersion) -> Result<(), EncodeError> {
        match version {
            // 3.1.1 cannot give a reason, and its server never sends DISCONNECT.
            ProtocolVersion::V311 if self.reason != ReasonCode::NORMAL_DISCONNECTION => {
                Err(EncodeError::NotInVersion(PacketType::Disconnect))
            }
            ProtocolVersion::V5 if !self.reason.allowed_in(PacketType::Disconnect) => {
                Err(EncodeError::Refused(DecodeErrorKind::ReasonCodeMisplaced))
            }
            ProtocolVersion::V311 | ProtocolVersion::V5 => {
                check_scope(&self.properties, PropertyScope::Disconnect)
            }
        }
    }

    fn body_len(&self, version: ProtocolVersion, trim: Trim) -> usize {
        if version == ProtocolVersion::V311 {
            return 0;
        }
        match (trimmed_len(&self.properties, trim), self.reason) {
            (0, ReasonCode::NORMAL_DISCONNECTION) => 0,
            (0, _) => 1,
            (properties, _) => 1 + block_len(properties),
        }
    }

    fn write_body(&self, version: ProtocolVersion, trim: Trim, out: &mut Vec<u8>) {
        let len = self.body_len(version, trim);
        if len > 0 {
            out.push(self.reason.byte());
        }
        if len > 1 {
            write_trimmed(&self.properties, trim, out);
        }
    }
}
