//! A message on its way in ([`Publish`]) and as it is kept and shared ([`Record`]).

use bytes::{BufMut, Bytes};

/// Quality of service of a publish, a subscription or a delivery.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum QoS {
    /// At most once: routed, never stored for a stream.
    #[default]
    AtMostOnce = 0,
    /// At least once.
    AtLeastOnce = 1,
    /// Exactly once.
    ExactlyOnce = 2,
}

impl QoS {
    /// From the two bits of the wire; 3 is none.
    #[must_use]
    pub const fn from_bits(bits: u8) -> Option<Self> {
        match bits {
            0 => Some(Self::AtMostOnce),
            1 => Some(Self::AtLeastOnce),
            2 => Some(Self::ExactlyOnce),
            _ => None,
        }
    }
}

/// A message as its publisher gave it: borrowed from the receive buffer, already checked by the protocol's codec.
#[derive(Clone, Copy, Debug)]
pub struct Publish<'a> {
    /// Topic name, without wildcards.
    pub topic: &'a str,
    /// Properties that travel with the message, in the encoding of MQTT 5 without a length in front: payload format
    /// indicator, content type, response topic, correlation data, user properties, in the publisher's order.
    pub properties: &'a [u8],
    /// Application message.
    pub payload: &'a [u8],
    /// Quality of service of the publisher.
    pub qos: QoS,
    /// Whether the publisher set RETAIN.
    pub retain: bool,
    /// When the message stops being of use; none: never.
    pub expires_at: Option<super::WallMs>,
    /// Session that published, for the subscription option No Local.
    pub publisher: Option<super::HomeRef>,
}

/// What a stored or forwarded message says, borrowed from wherever its bytes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordView<'a> {
    /// Topic name.
    pub topic: &'a str,
    /// As in [`Publish::properties`].
    pub properties: &'a [u8],
    /// Application message.
    pub payload: &'a [u8],
    /// Quality of service of the publisher.
    pub qos: QoS,
    /// Whether the publisher set RETAIN.
    pub retain: bool,
    /// When the message stops being of use.
    pub expires_at: Option<super::WallMs>,
    /// Session that published.
    pub publisher: Option<super::HomeRef>,
}

impl<'a> From<&Publish<'a>> for RecordView<'a> {
    fn from(publish: &Publish<'a>) -> Self {
        Self {
            topic: publish.topic,
            properties: publish.properties,
            payload: publish.payload,
            qos: publish.qos,
            retain: publish.retain,
            expires_at: publish.expires_at,
            publisher: publish.publisher,
        }
    }
}

impl<'a> From<RecordView<'a>> for Publish<'a> {
    fn from(record: RecordView<'a>) -> Self {
        Self {
            topic: record.topic,
            properties: record.properties,
            payload: record.payload,
            qos: record.qos,
            retain: record.retain,
            expires_at: record.expires_at,
            publisher: record.publisher,
        }
    }
}

/// Layout of an encoded record, little endian:
///
/// ```text
///  0 u32 length of all        4 u16 topic length   6 u8 flags: bits 0-1 QoS, 2 RETAIN, 3 expires, 4 publisher   7 u8 version
///  8 u32 properties length   12 u32 payload length
/// 16 u64 expires at, ms      24 u64 publisher: session uid     32 u16 publisher: partition     34 six zero bytes
/// 40 topic, properties, payload, zero bytes up to a multiple of 8
/// ```
const HEADER_BYTES: usize = 40;
const FLAG_RETAIN: u8 = 1 << 2;
const FLAG_EXPIRES: u8 = 1 << 3;
const FLAG_PUBLISHER: u8 = 1 << 4;
const VERSION: u8 = 1;

impl<'a> RecordView<'a> {
    /// The record at the beginning of `bytes`; `None` when there is no whole and well-formed one.
    /// Cost: header checks and one pass of UTF-8 checking over the topic.
    #[must_use]
    pub fn parse(bytes: &'a [u8]) -> Option<Self> {
        decode(bytes)
    }
}

impl RecordView<'_> {
    /// Bytes of the encoded form, a multiple of 8.
    #[must_use]
    pub const fn encoded_len(&self) -> usize {
        (HEADER_BYTES + self.topic.len() + self.properties.len() + self.payload.len())
            .next_multiple_of(8)
    }

    /// Appends the encoded form to `out`.
    ///
    /// # Panics
    /// When a topic is longer than 65,535 bytes or a part longer than `u32`: the codec refuses such packets.
    pub fn encode(&self, out: &mut impl BufMut) {
        let len = self.encoded_len();
        let topic_len = u16::try_from(self.topic.len()).expect("a topic has at most 65,535 bytes");
        let flags = self.qos as u8
            | if self.retain { FLAG_RETAIN } else { 0 }
            | if self.expires_at.is_some() {
                FLAG_EXPIRES
            } else {
                0
            }
            | if self.publisher.is_some() {
                FLAG_PUBLISHER
            } else {
                0
            };
        let publisher = self
            .publisher
            .map_or((0, 0), |home| (home.session.0, home.partition.0));
        let mut header = [0; HEADER_BYTES];
        header[0..4].copy_from_slice(&length_u32(len).to_le_bytes());
        header[4..6].copy_from_slice(&topic_len.to_le_bytes());
        header[6] = flags;
        header[7] = VERSION;
        header[8..12].copy_from_slice(&length_u32(self.properties.len()).to_le_bytes());
        header[12..16].copy_from_slice(&length_u32(self.payload.len()).to_le_bytes());
        header[16..24].copy_from_slice(&self.expires_at.map_or(0, |at| at.0).to_le_bytes());
        header[24..32].copy_from_slice(&publisher.0.to_le_bytes());
        header[32..34].copy_from_slice(&publisher.1.to_le_bytes());
        out.put_slice(&header);
        out.put_slice(self.topic.as_bytes());
        out.put_slice(self.properties);
        out.put_slice(self.payload);
        let written = HEADER_BYTES + self.topic.len() + self.properties.len() + self.payload.len();
        out.put_slice(&[0; 8][..len - written]);
    }
}

fn length_u32(len: usize) -> u32 {
    u32::try_from(len).expect("parts of a record are shorter than 4 GiB")
}

/// An encoded record inside shared bytes, without owning a share of them.
#[derive(Clone, Copy, Debug)]
pub struct RecordRef<'a> {
    block: &'a Bytes,
    start: usize,
    len: usize,
}

impl<'a> RecordRef<'a> {
    /// The record that begins at byte `start` of `block`; `None` when there is no whole and well-formed record.
    /// Cost: header checks and one pass of UTF-8 checking over the topic.
    #[must_use]
    pub fn parse(block: &'a Bytes, start: usize) -> Option<Self> {
        let bytes = block.get(start..)?;
        decode(bytes)?;
        let len = read_u32(bytes, 0)? as usize;
        Some(Self { block, start, len })
    }

    /// A record whose place was checked when it was written there.
    #[must_use]
    pub const fn trusted(block: &'a Bytes, start: usize, len: usize) -> Self {
        Self { block, start, len }
    }

    /// Its parts.
    ///
    /// # Panics
    /// When the place holds no record: a bug of whoever vouched for it.
    #[must_use]
    pub fn view(&self) -> RecordView<'a> {
        let block: &'a [u8] = self.block;
        decode(&block[self.start..self.start + self.len]).expect("a trusted place holds a record")
    }

    /// A share of the bytes: one atomic count, no copy.
    #[must_use]
    pub fn to_record(&self) -> Record {
        Record(self.block.slice(self.start..self.start + self.len))
    }

    /// Bytes of the encoded form.
    #[must_use]
    pub const fn encoded_len(&self) -> usize {
        self.len
    }

    /// The block in which it is: who passes on many records of one block shares it once.
    #[must_use]
    pub const fn block(&self) -> &'a Bytes {
        self.block
    }

    /// Where it begins in the block.
    #[must_use]
    pub const fn start(&self) -> usize {
        self.start
    }
}

/// An encoded record with a share of its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record(Bytes);

impl Record {
    /// Encodes `view` into bytes of its own.
    #[must_use]
    pub fn copy_of(view: &RecordView<'_>) -> Self {
        let mut out = Vec::with_capacity(view.encoded_len());
        view.encode(&mut out);
        Self(out.into())
    }

    /// Checks that `bytes` are exactly one record.
    #[must_use]
    pub fn from_bytes(bytes: Bytes) -> Option<Self> {
        let len = RecordRef::parse(&bytes, 0)?.len;
        (len == bytes.len()).then_some(Self(bytes))
    }

    /// Its parts.
    #[must_use]
    pub fn view(&self) -> RecordView<'_> {
        decode(&self.0).expect("a record was checked when it was made")
    }

    /// The same as a borrowed place.
    #[must_use]
    pub fn as_ref(&self) -> RecordRef<'_> {
        RecordRef {
            block: &self.0,
            start: 0,
            len: self.0.len(),
        }
    }

    /// Its encoded bytes.
    #[must_use]
    pub const fn bytes(&self) -> &Bytes {
        &self.0
    }
}

fn read_u16(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn read_u32(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn read_u64(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

fn decode(bytes: &[u8]) -> Option<RecordView<'_>> {
    let header = bytes.get(..HEADER_BYTES)?;
    let len = read_u32(header, 0)? as usize;
    let topic_end = HEADER_BYTES + usize::from(read_u16(header, 4)?);
    let properties_end = topic_end.checked_add(read_u32(header, 8)? as usize)?;
    let payload_end = properties_end.checked_add(read_u32(header, 12)? as usize)?;
    let flags = header[6];
    if header[7] != VERSION || payload_end.next_multiple_of(8) != len || bytes.len() < len {
        return None;
    }
    let publisher = super::HomeRef {
        partition: super::PartitionId(read_u16(header, 32)?),
        session: super::SessionUid(read_u64(header, 24)?),
    };
    Some(RecordView {
        topic: std::str::from_utf8(&bytes[HEADER_BYTES..topic_end]).ok()?,
        properties: &bytes[topic_end..properties_end],
        payload: &bytes[properties_end..payload_end],
        qos: QoS::from_bits(flags & 3)?,
        retain: flags & FLAG_RETAIN != 0,
        expires_at: (flags & FLAG_EXPIRES != 0).then_some(super::WallMs(read_u64(header, 16)?)),
        publisher: (flags & FLAG_PUBLISHER != 0).then_some(publisher),
    })
}

#[cfg(test)]
mod tests;
