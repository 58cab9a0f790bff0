//! One encoding of a message for many receivers.
//!
//! Receivers of one version, QoS, RETAIN, DUP and the same subscription identifiers get the same bytes but for the packet identifier.
//! [`PublishEncoder`] writes these bytes once into its own reusable buffer; each receiver then costs a copy and two bytes.

use super::encode::{Body, EncodeError, Receiver, Trim};
use super::limits::PACKET_BYTES_MAX;
use super::packet::Publish;
use super::types::{PacketId, PacketType, ProtocolVersion};
use super::varint;

/// Payloads up to this many bytes are kept behind the head, so that a receiver costs one copy; larger ones stay where they are.
pub const INLINE_PAYLOAD_BYTES: usize = 4096;

/// A reusable buffer for one prepared message at a time. After warm-up preparing allocates nothing.
#[derive(Debug, Default)]
pub struct PublishEncoder {
    buffer: Vec<u8>,
}

/// A message ready to be sent to any number of receivers.
#[derive(Clone, Copy, Debug)]
pub struct PreparedPublish<'a> {
    /// The head, with the payload behind it when that is small.
    buffer: &'a [u8],
    head_len: usize,
    /// Where the packet identifier stands; 0 at QoS 0, where nothing does.
    packet_id_at: usize,
    payload: &'a [u8],
}

impl PublishEncoder {
    /// An encoder that has no buffer yet.
    #[must_use]
    pub const fn new() -> Self {
        Self { buffer: Vec::new() }
    }

    /// Encodes everything but the packet identifier; the one in `publish` stands for any.
    ///
    /// For 3.1.1 properties and alias are left out. The receiver's own Maximum Packet Size is compared later, with
    /// [`PreparedPublish::packet_len`], v5 [MQTT-3.1.2-24].
    ///
    /// # Errors
    /// [`EncodeError::TooLarge`] beyond what MQTT can express, [`EncodeError::NotInVersion`] for an alias without a name in 3.1.1.
    ///
    /// # Examples
    /// ```
    /// use courser_mqtt::codec::{Delivery, PacketId, ProtocolVersion, Publish, PublishEncoder, TopicName};
    ///
    /// let any = PacketId::MIN;
    /// let mut publish = Publish::new(TopicName::new("a/b")?, b"hi");
    /// publish.delivery = Delivery::AtLeastOnce { packet_id: any, dup: false };
    ///
    /// let mut encoder = PublishEncoder::new();
    /// let prepared = encoder.prepare(&publish, ProtocolVersion::V311)?;
    /// let mut outputs = [Vec::new(), Vec::new()];
    /// for (output, id) in outputs.iter_mut().zip([7, 8]) {
    ///     prepared.append(PacketId::new(id), output);
    /// }
    /// assert_eq!(outputs[0], b"\x32\x09\x00\x03a/b\x00\x07hi");
    /// assert_eq!(outputs[1], b"\x32\x09\x00\x03a/b\x00\x08hi");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn prepare<'e>(
        &'e mut self,
        publish: &Publish<'e>,
        version: ProtocolVersion,
    ) -> Result<PreparedPublish<'e>, EncodeError> {
        publish.check(version)?;
        let body_len = publish.body_len(version, Trim::Nothing);
        let length_len = varint::len(body_len.try_into().unwrap_or(u32::MAX));
        if body_len > varint::VARINT_MAX as usize {
            return Err(EncodeError::TooLarge {
                packet: PacketType::Publish,
                bytes: 1 + length_len + body_len,
                bytes_max: PACKET_BYTES_MAX,
            });
        }
        let buffer = &mut self.buffer;
        buffer.clear();
        buffer.push((PacketType::Publish as u8) << 4 | publish.flag_bits());
        varint::write(body_len as u32, buffer);
        publish.write_variable_head(version, buffer);
        let head_len = buffer.len();
        if publish.payload.len() <= INLINE_PAYLOAD_BYTES {
            buffer.extend_from_slice(publish.payload);
        }
        let name_len = publish.topic.name().map_or(0, |name| name.as_str().len());
        let packet_id_at = match publish.delivery.packet_id() {
            Some(_) => 1 + length_len + 2 + name_len,
            None => 0,
        };
        Ok(PreparedPublish {
            buffer: &self.buffer,
            head_len,
            packet_id_at,
            payload: publish.payload,
        })
    }
}

impl<'a> PreparedPublish<'a> {
    /// Bytes of the whole packet.
    #[must_use]
    pub const fn packet_len(&self) -> usize {
        self.head_len + self.payload.len()
    }

    /// Whether the receiver takes a packet of this size: v5 [MQTT-3.1.2-24].
    #[must_use]
    pub const fn fits(&self, receiver: &Receiver) -> bool {
        self.packet_len() <= receiver.packet_bytes_max as usize
    }

    /// Appends the whole packet: one copy when the payload is small, else two.
    ///
    /// # Panics
    /// When `packet_id` is given at QoS 0 or missing above (debug builds only; a release build keeps the placeholder).
    #[inline]
    pub fn append(&self, packet_id: Option<PacketId>, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(self.buffer);
        if self.buffer.len() == self.head_len {
            out.extend_from_slice(self.payload);
        }
        self.patch(packet_id, out, start);
    }

    /// Appends the head only; [`PreparedPublish::payload`] must follow. For outputs that refer to large payloads.
    ///
    /// # Panics
    /// As [`PreparedPublish::append`].
    #[inline]
    pub fn append_head(&self, packet_id: Option<PacketId>, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(self.buffer.get(..self.head_len).unwrap_or_default());
        self.patch(packet_id, out, start);
    }

    /// What follows the head.
    #[must_use]
    pub const fn payload(&self) -> &'a [u8] {
        self.payload
    }

    /// Bytes of the head.
    #[must_use]
    pub const fn head_len(&self) -> usize {
        self.head_len
    }

    #[inline]
    fn patch(&self, packet_id: Option<PacketId>, out: &mut [u8], start: usize) {
        debug_assert_eq!(
            packet_id.is_some(),
            self.packet_id_at != 0,
            "a packet has an identifier exactly when its QoS is above 0"
        );
        let Some(packet_id) = packet_id else { return };
        if self.packet_id_at == 0 {
            return;
        }
        let at = start + self.packet_id_at;
        if let Some(place) = out.get_mut(at..at + 2) {
            place.copy_from_slice(&packet_id.get().to_be_bytes());
        }
    }
}
