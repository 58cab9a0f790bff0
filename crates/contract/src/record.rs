//! A message on its way in ([`Publish`]) and as it is kept and shared ([`Record`]).

use bytes::Bytes;

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
    /// Client that published, for the subscription option No Local; none: nobody whose own it is.
    pub publisher: Option<super::ClientHash>,
    /// Who published what is to be retained, for the right that is asked for when it is replayed ([`author_of`](super::author_of)); none:
    /// nobody who has logged in.
    pub author: Option<&'a str>,
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
    /// Client that published.
    pub publisher: Option<super::ClientHash>,
    /// As in [`Publish::author`].
    pub author: Option<&'a str>,
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
            author: publish.author,
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
            author: record.author,
        }
    }
}

/// Layout of an encoded record, little endian:
///
/// ```text
///  0 u32 length of all       4 u16 topic length   6 u8 flags: bits 0-1 QoS, 2 RETAIN, 3 expires, 4 publisher,
///  7 u8 version                                     5-7 number of zero bytes at the end
///  8 u32 properties length  12 u16 publisher: first bytes, or zero   14 two zero bytes
/// 16 u64 expires at, ms, if the flags say so; then u64 publisher: the other bytes, if the flags say so
///    in version 2: u32 length of the author, author
///    topic, properties, payload, zero bytes up to a multiple of 8
/// ```
///
/// What has an author is written in version 2, all else in version 1: only what is retained pays for it.
///
/// A program before this one had partition and number of a session in place of the publisher's hash: they are the hash of nobody,
/// and what it retained may come back to its publisher.
const HEADER_BYTES: usize = 16;
const FLAG_RETAIN: u8 = 1 << 2;
const FLAG_EXPIRES: u8 = 1 << 3;
const FLAG_PUBLISHER: u8 = 1 << 4;
const PADDING_SHIFT: u32 = 5;
/// Version of the layout with an author, the highest that there is: each record has its own, and readers know no other.
pub const RECORD_VERSION: u8 = 2;
/// Version of the layout without one.
const PLAIN_VERSION: u8 = 1;
/// Fixed header with its length 5, length of the topic 2, packet id 2, length of the properties 4, expiry 5, alias 3, one identifier 5.
const DELIVERY_HEAD_BYTES_MAX: usize = 26;
/// Bytes that say how long an author is.
const AUTHOR_LEN_BYTES: usize = 4;

impl<'a> RecordView<'a> {
    /// The record at the beginning of `bytes`; `None` when there is no whole and well-formed one.
    /// Cost: header checks and one pass of UTF-8 checking over the topic.
    #[must_use]
    pub fn parse(bytes: &'a [u8]) -> Option<Self> {
        decode(bytes, "")
    }
}

impl RecordView<'_> {
    /// Bytes of the encoded form, a multiple of 8.
    #[must_use]
    #[inline]
    pub const fn encoded_len(&self) -> usize {
        let parts = self.topic.len() + self.properties.len() + self.payload.len();
        (self.header_len() + parts).next_multiple_of(8)
    }

    /// No delivery of it has more bytes on a connection, whatever is told beside what it says: heads of the packet, lengths, packet id, and the
    /// properties that a delivery adds (expiry, alias, one identifier).
    #[must_use]
    #[inline]
    pub const fn delivery_bytes_most(&self) -> usize {
        self.topic.len() + self.properties.len() + self.payload.len() + DELIVERY_HEAD_BYTES_MAX
    }

    const fn header_len(&self) -> usize {
        HEADER_BYTES
            + if self.expires_at.is_some() { 8 } else { 0 }
            + if self.publisher.is_some() { 8 } else { 0 }
            + match self.author {
                Some(author) => AUTHOR_LEN_BYTES + author.len(),
                None => 0,
            }
    }

    /// Appends the encoded form to `out`.
    ///
    /// # Panics
    /// As [`RecordView::encode_into`].
    pub fn encode(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.resize(start + self.encoded_len(), 0);
        self.encode_into(&mut out[start..]);
    }

    /// Writes the encoded form over `out`, of which the last 7 bytes are zero.
    ///
    /// # Panics
    /// When `out` is not [`RecordView::encoded_len`] bytes long; when a topic is longer than 65,535 bytes or a part longer
    /// than `u32`: the codec refuses such packets.
    #[inline]
    pub fn encode_into(&self, out: &mut [u8]) {
        let header_len = self.header_len();
        let (header, rest) = out.split_at_mut(header_len);
        let (topic, rest) = rest.split_at_mut(self.topic.len());
        let (properties, rest) = rest.split_at_mut(self.properties.len());
        let (payload, padding) = rest.split_at_mut(self.payload.len());
        topic.copy_from_slice(self.topic.as_bytes());
        if !properties.is_empty() {
            properties.copy_from_slice(self.properties);
        }
        payload.copy_from_slice(self.payload);
        assert!(
            padding.len() < 8,
            "there is room for the record and no more"
        );
        let len = header_len + topic.len() + properties.len() + payload.len() + padding.len();
        self.write_header(header, len, padding.len());
    }

    #[inline]
    fn write_header(&self, header: &mut [u8], len: usize, padding: usize) {
        let topic_len = u16::try_from(self.topic.len()).expect("a topic has at most 65,535 bytes");
        let flag = |on, flag| if on { flag } else { 0 };
        let flags = self.qos as u8
            | flag(self.retain, FLAG_RETAIN)
            | flag(self.expires_at.is_some(), FLAG_EXPIRES)
            | flag(self.publisher.is_some(), FLAG_PUBLISHER)
            | (padding as u8) << PADDING_SHIFT;
        let first = u64::from(length_u32(len))
            | u64::from(topic_len) << 32
            | u64::from(flags) << 48
            | u64::from(PLAIN_VERSION + u8::from(self.author.is_some())) << 56;
        let publisher = self.publisher.map(super::ClientHash::words);
        let first_of_publisher = publisher.map_or(0, |(first, _)| first);
        let second =
            u64::from(length_u32(self.properties.len())) | u64::from(first_of_publisher) << 32;
        header[..8].copy_from_slice(&first.to_le_bytes());
        header[8..16].copy_from_slice(&second.to_le_bytes());
        let mut at = HEADER_BYTES;
        for word in [
            self.expires_at.map(|at| at.0),
            publisher.map(|(_, rest)| rest),
        ]
        .into_iter()
        .flatten()
        {
            header[at..at + 8].copy_from_slice(&word.to_le_bytes());
            at += 8;
        }
        if let Some(author) = self.author {
            write_author(author, &mut header[at..]);
        }
    }
}

#[cold]
fn write_author(author: &str, out: &mut [u8]) {
    let (len, text) = out.split_at_mut(AUTHOR_LEN_BYTES);
    len.copy_from_slice(&length_u32(author.len()).to_le_bytes());
    text.copy_from_slice(author.as_bytes());
}

#[inline]
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
        let len = decode(bytes, "")?.encoded_len();
        Some(Self { block, start, len })
    }

    /// A record whose place was checked when it was written there.
    #[must_use]
    pub const fn trusted(block: &'a Bytes, start: usize, len: usize) -> Self {
        Self { block, start, len }
    }

    /// The same with the length that the record says.
    ///
    /// # Panics
    /// When the block ends before that.
    #[must_use]
    #[inline]
    pub fn trusted_at(block: &'a Bytes, start: usize) -> Self {
        let len = Self::len_at(block, start) as usize;
        Self { block, start, len }
    }

    /// Bytes of the record that begins at byte `start` of `block`, as it says itself: nothing is checked.
    ///
    /// # Panics
    /// When the block ends before its head does.
    #[must_use]
    #[inline]
    pub fn len_at(block: &[u8], start: usize) -> u32 {
        let head = block[start..].first_chunk();
        u32::from_le_bytes(*head.expect("a record begins with its length"))
    }

    /// Its parts.
    ///
    /// # Panics
    /// When the place holds no record: a bug of whoever vouched for it.
    #[must_use]
    #[inline]
    pub fn view(&self) -> RecordView<'a> {
        self.view_like("")
    }

    /// The same for whoever looks at many records: when the topic equals `topic`, its UTF-8 is not checked again.
    ///
    /// # Panics
    /// As [`RecordRef::view`].
    #[must_use]
    #[inline]
    pub fn view_like(&self, topic: &'a str) -> RecordView<'a> {
        let block: &'a [u8] = self.block;
        decode(&block[self.start..self.start + self.len], topic)
            .expect("a trusted place holds a record")
    }

    /// [`RecordView::expires_at`] without a look at the rest.
    ///
    /// # Panics
    /// As [`RecordRef::view`].
    #[must_use]
    pub fn expires_at(&self) -> Option<super::WallMs> {
        let header = &self.block[self.start..self.start + HEADER_BYTES];
        if header[6] & FLAG_EXPIRES == 0 {
            return None;
        }
        self.view().expires_at
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
        let mut out = vec![0; view.encoded_len()];
        view.encode_into(&mut out);
        Self(out.into())
    }

    /// Its parts.
    #[must_use]
    pub fn view(&self) -> RecordView<'_> {
        decode(&self.0, "").expect("a record was checked when it was made")
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

/// Reads a record; `topic` is a text that its topic may equal.
#[inline]
fn decode<'a>(bytes: &'a [u8], topic: &'a str) -> Option<RecordView<'a>> {
    let (&head, _) = bytes.split_first_chunk::<HEADER_BYTES>()?;
    let head = u128::from_le_bytes(head);
    let [first, second] = [head as u64, (head >> 64) as u64];
    let len = first as u32 as usize;
    let [flags, version] = [(first >> 48) as u8, (first >> 56) as u8];
    if second >> 48 != 0 || !len.is_multiple_of(8) {
        return None;
    }
    let end = len.checked_sub(usize::from(flags >> PADDING_SHIFT))?;
    let parts = bytes.get(..len)?.get(HEADER_BYTES..end)?;
    let publisher = (second >> 32) as u16;
    let (expires_at, publisher, parts) = if flags & (FLAG_EXPIRES | FLAG_PUBLISHER) != 0 {
        decode_words(flags, publisher, parts)?
    } else if publisher == 0 {
        (None, None, parts)
    } else {
        return None;
    };
    let (author, parts) = match version {
        PLAIN_VERSION => (None, parts),
        _ => decode_author(version, parts)?,
    };
    let (name, parts) = parts.split_at_checked(usize::from((first >> 32) as u16))?;
    let (properties, payload) = parts.split_at_checked(second as u32 as usize)?;
    Some(RecordView {
        topic: if name == topic.as_bytes() {
            topic
        } else {
            std::str::from_utf8(name).ok()?
        },
        properties,
        payload,
        qos: QoS::from_bits(flags & 3)?,
        retain: flags & FLAG_RETAIN != 0,
        expires_at,
        publisher,
        author,
    })
}

/// Reads the author, and what follows.
#[cold]
fn decode_author(version: u8, parts: &[u8]) -> Option<(Option<&str>, &[u8])> {
    if version != RECORD_VERSION {
        return None;
    }
    let (len, parts) = parts.split_first_chunk::<AUTHOR_LEN_BYTES>()?;
    let (author, parts) = parts.split_at_checked(u32::from_le_bytes(*len) as usize)?;
    Some((Some(std::str::from_utf8(author).ok()?), parts))
}

type Words<'a> = (Option<super::WallMs>, Option<super::ClientHash>, &'a [u8]);

/// Reads the parts of a head that few records have, and what follows.
fn decode_words(flags: u8, first_of_publisher: u16, parts: &[u8]) -> Option<Words<'_>> {
    let mut parts = parts;
    let mut word = |flag| {
        if flags & flag == 0 {
            return Some(None);
        }
        let (word, rest) = parts.split_first_chunk()?;
        parts = rest;
        Some(Some(u64::from_le_bytes(*word)))
    };
    let expires_at = word(FLAG_EXPIRES)?.map(super::WallMs);
    let rest = word(FLAG_PUBLISHER)?;
    if rest.is_none() && first_of_publisher != 0 {
        return None;
    }
    let publisher = rest.map(|rest| super::ClientHash::from_words(first_of_publisher, rest));
    Some((expires_at, publisher, parts))
}

#[cfg(test)]
mod tests;
