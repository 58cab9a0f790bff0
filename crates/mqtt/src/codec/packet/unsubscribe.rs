//! UNSUBSCRIBE.

use super::filters::TopicFilters;
use crate::codec::encode::{Body, EncodeError, Trim, block_len, check_scope, write_trimmed};
use crate::codec::error::DecodeErrorKind;
use crate::codec::frame::Frame;
use crate::codec::limits::Rules;
use crate::codec::property::{Properties, PropertyScope};
use crate::codec::reader::Reader;
use crate::codec::types::{PacketId, PacketType, ProtocolVersion};

/// UNSUBSCRIBE: subscriptions to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unsubscribe<'a> {
    /// Comes back in UNSUBACK.
    pub packet_id: PacketId,
    /// User Properties; empty in 3.1.1.
    pub properties: Properties<'a>,
    /// One filter or more: v3 [MQTT-3.10.3-2], v5 [MQTT-3.10.3-2].
    pub filters: TopicFilters<'a>,
}

impl<'a> Unsubscribe<'a> {
    pub(crate) fn read(frame: &Frame<'a>, rules: &Rules) -> Result<Self, DecodeErrorKind> {
        let mut reader = Reader::new(frame.body());
        let packet_id = reader.packet_id()?;
        let properties = match rules.version {
            ProtocolVersion::V311 => Properties::EMPTY,
            ProtocolVersion::V5 => {
                Properties::read(&mut reader, PropertyScope::Unsubscribe, &rules.limits)?.0
            }
        };
        let filters = TopicFilters::read(&mut reader, &rules.limits)?;
        Ok(Self {
            packet_id,
            properties,
            filters,
        })
    }
}

impl Body for Unsubscribe<'_> {
    const PACKET_TYPE: PacketType = PacketType::Unsubscribe;
    const TRIMS: bool = false;

    fn check(&self, _: ProtocolVersion) -> Result<(), EncodeError> {
        if self.filters.is_empty() {
            return Err(EncodeError::Refused(DecodeErrorKind::NoTopicFilter));
        }
        check_scope(&self.properties, PropertyScope::Unsubscribe)
    }

    fn body_len(&self, version: ProtocolVersion, _: Trim) -> usize {
        let properties = match version {
            ProtocolVersion::V311 => 0,
            ProtocolVersion::V5 => block_len(self.properties.as_bytes().len()),
        };
        2 + properties + self.filters.as_bytes().len()
    }

    fn write_body(&self, version: ProtocolVersion, trim: Trim, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.packet_id.get().to_be_bytes());
        if version == ProtocolVersion::V5 {
            write_trimmed(&self.properties, trim, out);
        }
        out.extend_from_slice(self.filters.as_bytes());
    }
}
