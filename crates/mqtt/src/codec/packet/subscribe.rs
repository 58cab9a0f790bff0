//! SUBSCRIBE.

use super::filters::Subscriptions;
use crate::codec::encode::{Body, EncodeError, Trim, block_len, check_scope, write_trimmed};
use crate::codec::error::DecodeErrorKind;
use crate::codec::frame::Frame;
use crate::codec::limits::Rules;
use crate::codec::property::{Properties, PropertyScope};
use crate::codec::reader::Reader;
use crate::codec::types::{PacketId, PacketType, ProtocolVersion};

/// SUBSCRIBE: subscriptions to make or replace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subscribe<'a> {
    /// Comes back in SUBACK.
    pub packet_id: PacketId,
    /// Subscription Identifier and User Properties; empty in 3.1.1.
    pub properties: Properties<'a>,
    /// One entry or more: v3 [MQTT-3.8.3-3], v5 [MQTT-3.8.3-2].
    pub subscriptions: Subscriptions<'a>,
}

impl<'a> Subscribe<'a> {
    pub(crate) fn read(frame: &Frame<'a>, rules: &Rules) -> Result<Self, DecodeErrorKind> {
        let mut reader = Reader::new(frame.body());
        let packet_id = reader.packet_id()?;
        let properties = match rules.version {
            ProtocolVersion::V311 => Properties::EMPTY,
            ProtocolVersion::V5 => {
                Properties::read(&mut reader, PropertyScope::Subscribe, &rules.limits)?.0
            }
        };
        let subscriptions = Subscriptions::read(&mut reader, rules.version, &rules.limits)?;
        Ok(Self {
            packet_id,
            properties,
            subscriptions,
        })
    }
}

impl Body for Subscribe<'_> {
    const PACKET_TYPE: PacketType = PacketType::Subscribe;
    const TRIMS: bool = false;

    fn check(&self, version: ProtocolVersion) -> Result<(), EncodeError> {
        if self.subscriptions.is_empty() {
            return Err(EncodeError::Refused(DecodeErrorKind::NoTopicFilter));
        }
        // Options that may not stand together end the walk early.
        if self.subscriptions.iter().count() != self.subscriptions.len() {
            return Err(EncodeError::Refused(DecodeErrorKind::NoLocalOnShared));
        }
        let sayable = version == ProtocolVersion::V5
            || self
                .subscriptions
                .iter()
                .all(|subscription| subscription.options.fits_v311());
        if !sayable {
            return Err(EncodeError::NotInVersion(PacketType::Subscribe));
        }
        check_scope(&self.properties, PropertyScope::Subscribe)
    }

    fn body_len(&self, version: ProtocolVersion, _: Trim) -> usize {
        let properties = match version {
            ProtocolVersion::V311 => 0,
            ProtocolVersion::V5 => block_len(self.properties.as_bytes().len()),
        };
        2 + properties + self.subscriptions.as_bytes().len()
    }

    fn write_body(&self, version: ProtocolVersion, trim: Trim, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.packet_id.get().to_be_bytes());
        if version == ProtocolVersion::V5 {
            write_trimmed(&self.properties, trim, out);
        }
        out.extend_from_slice(self.subscriptions.as_bytes());
    }
}
