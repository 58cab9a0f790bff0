//! One message for many fronts: encoded once for all receivers that differ only in packet id and topic alias.
//!
//! The first receiver of a shape gets the message encoded straight into its output, so that a message for one receiver is
//! copied once. The second one makes the shared encoding, which it and all later ones copy and patch. Large payloads of
//! stored messages are not copied at all: outputs refer to the block in which they are.

use bytes::Bytes;
use courser_contract::{Delivery, Now, QoS};
use courser_memory::{Component, Scope};
use smallvec::SmallVec;

use super::output::Output;
use crate::codec::{PACKET_BYTES_MAX, PacketType, ProtocolVersion};

/// Payloads from this size on are referenced, not copied. Measured with `benches/front_time.rs` (fan-out to 50): a reference costs about
/// 25 ns (two atomics and a slot of a vectored write), a copy of 2 KiB about as much.
pub const SHARED_PAYLOAD_BYTES_MIN: usize = 2 * 1024;

/// The same for a client that does not read: what a copy costs is then memory, as long as it does not.
pub const BLOCKED_SHARED_PAYLOAD_BYTES_MIN: usize = 256;

/// A payload that is stored nowhere is copied for its first receiver up to this size: one copy, as sharing it would cost.
const UNSTORED_COPY_BYTES_MAX: usize = 64 * 1024;

/// Property identifiers that are written here, v5 section 2.2.2.2.
const MESSAGE_EXPIRY_INTERVAL: u8 = 0x02;
const SUBSCRIPTION_IDENTIFIER: u8 = 0x0B;
const TOPIC_ALIAS: u8 = 0x23;

/// Buffers of [`Prepared`]; one a shard, used for message after message.
#[derive(Debug, Default)]
pub struct PreparedScratch {
    bytes: Vec<u8>,
    encodings: Vec<Encoding>,
}

/// A message with the encodings that its receivers have asked for so far.
#[derive(Debug)]
pub struct Prepared<'a> {
    pub(super) delivery: &'a Delivery<'a>,
    /// Seconds that the message is still of use; 0 when its time is over.
    remaining_seconds: Option<u32>,
    topic_hash: Option<u64>,
    payload: Option<Bytes>,
    /// Whether a receiver got a copy of a payload that is stored nowhere.
    copied: bool,
    scratch: &'a mut PreparedScratch,
}

/// How the topic is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum AliasUse {
    /// By its name.
    None,
    /// By its name, and this alias means it from now on.
    Bind(u16),
    /// By its alias.
    Use(u16),
}

impl AliasUse {
    const fn number(self) -> u16 {
        match self {
            Self::None => 0,
            Self::Bind(alias) | Self::Use(alias) => alias,
        }
    }

    const fn kind(self) -> u8 {
        match self {
            Self::None => 0,
            Self::Bind(_) => 1,
            Self::Use(_) => 2,
        }
    }
}

/// What a receiver gets, but for the packet id.
#[derive(Clone, Copy, Debug)]
pub(super) struct Variant<'i> {
    pub(super) version: ProtocolVersion,
    pub(super) qos: QoS,
    pub(super) retain: bool,
    pub(super) duplicate: bool,
    pub(super) alias: AliasUse,
    pub(super) identifiers: &'i [u32],
}

/// Receivers with the same one get the same bytes, but for two numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Shape {
    version: ProtocolVersion,
    first: u8,
    alias: u8,
    payload: Payload,
    identifiers: SmallVec<[u32; 2]>,
}

impl Shape {
    fn is(&self, variant: &Variant<'_>, payload: Payload) -> bool {
        self.first == variant.first_byte()
            && self.payload == payload
            && self.version == variant.version
            && self.alias == variant.alias.kind()
            && same(&self.identifiers, variant.identifiers)
    }
}

/// Most lists are empty, and comparing nothing is a call all the same.
#[inline]
fn same(ours: &[u32], theirs: &[u32]) -> bool {
    ours.len() == theirs.len() && (ours.is_empty() || ours == theirs)
}

#[derive(Debug)]
struct Encoding {
    shape: Shape,
    /// Where in the scratch; nothing yet after the first receiver.
    cached: Option<Cached>,
}

#[derive(Clone, Copy, Debug)]
struct Cached {
    start: usize,
    end: usize,
    places: Places,
}

/// Where the numbers of one receiver stand, from the start of the packet; 0: nowhere.
#[derive(Clone, Copy, Debug, Default)]
struct Places {
    packet_id: usize,
    alias: usize,
}

/// How the payload leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Payload {
    /// Copied behind the head.
    Copied,
    /// Referenced behind the head.
    Shared,
}

impl Variant<'_> {
    fn first_byte(&self) -> u8 {
        (PacketType::Publish as u8) << 4
            | u8::from(self.duplicate) << 3
            | (self.qos as u8) << 1
            | u8::from(self.retain)
    }
}

/// Lengths of a packet, known before its first byte is written.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sizes {
    properties: usize,
    body: usize,
    total: usize,
}

impl Sizes {
    /// Bytes of the packet.
    pub(super) const fn total(self) -> usize {
        self.total
    }
}

impl<'a> Prepared<'a> {
    /// Begins the fan-out of a message. What is left of its lifetime is told as of `now`, to the nearest second, as 0 only when it is over: shards read
    /// the clock at different moments, and who has just been given a message must not be told more than its publisher said.
    #[must_use]
    pub fn new(delivery: &'a Delivery<'a>, now: Now, scratch: &'a mut PreparedScratch) -> Self {
        scratch.bytes.clear();
        scratch.encodings.clear();
        let remaining_seconds = delivery.view.expires_at.map(|at| {
            let left_ms = at.0.saturating_sub(now.wall.0);
            let seconds = u32::try_from((left_ms + 500) / 1000).unwrap_or(u32::MAX);
            seconds.max(u32::from(left_ms > 0))
        });
        Self {
            delivery,
            remaining_seconds,
            topic_hash: None,
            payload: None,
            copied: false,
            scratch,
        }
    }

    /// Whether the message's time is over.
    pub(super) fn expired(&self) -> bool {
        self.remaining_seconds == Some(0)
    }

    /// Hash of the topic, found once a message.
    pub(super) fn topic_hash(&mut self) -> u64 {
        let topic = self.delivery.view.topic;
        *self
            .topic_hash
            .get_or_insert_with(|| rapidhash::v3::rapidhash_v3(topic.as_bytes()))
    }

    #[inline]
    fn sizes(&self, variant: &Variant<'_>) -> Sizes {
        let view = self.delivery.view;
        let topic = match variant.alias {
            AliasUse::None | AliasUse::Bind(_) => view.topic.len(),
            AliasUse::Use(_) => 0,
        };
        let packet_id = if variant.qos == QoS::AtMostOnce { 0 } else { 2 };
        let mut properties = 0;
        let mut block = 0;
        if variant.version == ProtocolVersion::V5 {
            properties = self.remaining_seconds.map_or(0, |_| 5)
                + if variant.alias == AliasUse::None {
                    0
                } else {
                    3
                }
                + identifiers_len(variant.identifiers)
                + view.properties.len();
            block = varint_len(properties) + properties;
        }
        let body = 2 + topic + packet_id + block + view.payload.len();
        Sizes {
            properties,
            body,
            total: 1 + varint_len(body) + body,
        }
    }

    /// Lengths of the packet, when it has at most so many bytes and MQTT can express it.
    #[inline]
    pub(super) fn fit(&self, variant: &Variant<'_>, packet_bytes_max: u32) -> Option<Sizes> {
        let sizes = self.sizes(variant);
        (sizes.total <= packet_bytes_max.min(PACKET_BYTES_MAX) as usize).then_some(sizes)
    }

    /// Whether an output that is blocked has room for the packet, of which [`Prepared::fit`] gave the lengths (M23).
    pub(super) fn fits_blocked(&self, sizes: Sizes, output: &Output) -> bool {
        let payload = self.delivery.view.payload.len();
        let own = if payload < BLOCKED_SHARED_PAYLOAD_BYTES_MIN {
            sizes.total
        } else {
            sizes.total - payload + Output::REFERENCE_BYTES
        };
        output.own_bytes() + own <= Output::OWN_BYTES_MAX
    }

    /// Appends the packet, of which [`Prepared::fit`] gave the lengths, to an output.
    #[inline]
    pub(super) fn append(
        &mut self,
        (variant, sizes): (&Variant<'_>, Sizes),
        packet_id: u16,
        output: &mut Output,
    ) {
        let payload = self.payload_way(output);
        let known = self
            .scratch
            .encodings
            .iter()
            .position(|encoding| encoding.shape.is(variant, payload));
        match known {
            Some(index) => {
                let cached = self.cached(index, (variant, sizes), payload);
                self.append_cached(cached, (packet_id, variant.alias.number()), output);
            }
            None => {
                self.scratch.encodings.push(Encoding {
                    shape: Shape {
                        version: variant.version,
                        first: variant.first_byte(),
                        alias: variant.alias.kind(),
                        payload,
                        identifiers: match variant.identifiers {
                            [] => SmallVec::new(),
                            identifiers => SmallVec::from_slice(identifiers),
                        },
                    },
                    cached: None,
                });
                let inline = match payload {
                    Payload::Copied => self.delivery.view.payload.len(),
                    Payload::Shared => 0,
                };
                let room = sizes.total - self.delivery.view.payload.len() + inline;
                let out = output.buffer(room);
                self.write_head(out, variant, sizes, packet_id);
                if payload == Payload::Copied {
                    out.extend_from_slice(self.delivery.view.payload);
                }
            }
        }
        if payload == Payload::Shared {
            output.push_shared(self.shared_payload());
        }
    }

    /// Appends the whole packet of a message of QoS 0.
    pub(super) fn write(&self, out: &mut Vec<u8>, (variant, sizes): (&Variant<'_>, Sizes)) {
        out.reserve(sizes.total);
        self.write_head(out, variant, sizes, 0);
        out.extend_from_slice(self.delivery.view.payload);
    }

    fn payload_way(&mut self, output: &Output) -> Payload {
        let len = self.delivery.view.payload.len();
        if len < BLOCKED_SHARED_PAYLOAD_BYTES_MIN {
            return Payload::Copied;
        }
        if output.is_blocked() {
            return Payload::Shared;
        }
        if len < SHARED_PAYLOAD_BYTES_MIN {
            return Payload::Copied;
        }
        let once = self.delivery.record.is_none() && !self.copied;
        if once && len <= UNSTORED_COPY_BYTES_MAX {
            self.copied = true;
            return Payload::Copied;
        }
        Payload::Shared
    }

    fn shared_payload(&mut self) -> Bytes {
        if let Some(payload) = &self.payload {
            return payload.clone();
        }
        let payload = match &self.delivery.record {
            Some(record) => record.block().slice_ref(record.view().payload),
            None => {
                let _scope = Scope::enter(Component::Output);
                Bytes::copy_from_slice(self.delivery.view.payload)
            }
        };
        self.payload.insert(payload).clone()
    }

    /// The shared encoding of a shape, made for its second receiver.
    fn cached(
        &mut self,
        index: usize,
        (variant, sizes): (&Variant<'_>, Sizes),
        payload: Payload,
    ) -> Cached {
        if let Some(cached) = self.scratch.encodings[index].cached {
            return cached;
        }
        let mut bytes = std::mem::take(&mut self.scratch.bytes);
        let start = bytes.len();
        let places = self.write_head(&mut bytes, variant, sizes, 0);
        if payload == Payload::Copied {
            bytes.extend_from_slice(self.delivery.view.payload);
        }
        let cached = Cached {
            start,
            end: bytes.len(),
            places,
        };
        self.scratch.bytes = bytes;
        self.scratch.encodings[index].cached = Some(cached);
        cached
    }

    fn append_cached(&self, cached: Cached, (packet_id, alias): (u16, u16), output: &mut Output) {
        let encoded = &self.scratch.bytes[cached.start..cached.end];
        let out = output.buffer(encoded.len());
        let start = out.len();
        out.extend_from_slice(encoded);
        patch(&mut out[start..], cached.places.packet_id, packet_id);
        patch(&mut out[start..], cached.places.alias, alias);
    }

    /// Appends everything before the payload.
    fn write_head(
        &self,
        out: &mut Vec<u8>,
        variant: &Variant<'_>,
        sizes: Sizes,
        packet_id: u16,
    ) -> Places {
        let view = self.delivery.view;
        let start = out.len();
        let mut places = Places::default();
        out.push(variant.first_byte());
        write_varint(out, sizes.body);
        let topic = match variant.alias {
            AliasUse::None | AliasUse::Bind(_) => view.topic,
            AliasUse::Use(_) => "",
        };
        let topic_len = u16::try_from(topic.len()).expect("a topic has at most 65,535 bytes");
        out.extend_from_slice(&topic_len.to_be_bytes());
        out.extend_from_slice(topic.as_bytes());
        if variant.qos != QoS::AtMostOnce {
            places.packet_id = out.len() - start;
            out.extend_from_slice(&packet_id.to_be_bytes());
        }
        if variant.version == ProtocolVersion::V5 {
            write_varint(out, sizes.properties);
            if sizes.properties > 0 {
                places.alias = self.write_properties(out, variant, start);
            }
        }
        places
    }

    /// Appends the properties and says where the alias stands.
    fn write_properties(&self, out: &mut Vec<u8>, variant: &Variant<'_>, start: usize) -> usize {
        let mut alias_at = 0;
        if let Some(seconds) = self.remaining_seconds {
            out.push(MESSAGE_EXPIRY_INTERVAL);
            out.extend_from_slice(&seconds.to_be_bytes());
        }
        if variant.alias != AliasUse::None {
            out.push(TOPIC_ALIAS);
            alias_at = out.len() - start;
            out.extend_from_slice(&variant.alias.number().to_be_bytes());
        }
        for &identifier in variant.identifiers {
            out.push(SUBSCRIPTION_IDENTIFIER);
            write_varint(out, identifier as usize);
        }
        out.extend_from_slice(self.delivery.view.properties);
        alias_at
    }
}

fn patch(packet: &mut [u8], at: usize, number: u16) {
    if at > 0 {
        packet[at..at + 2].copy_from_slice(&number.to_be_bytes());
    }
}

fn identifiers_len(identifiers: &[u32]) -> usize {
    identifiers
        .iter()
        .map(|&identifier| 1 + varint_len(identifier as usize))
        .sum()
}

const fn varint_len(value: usize) -> usize {
    match value {
        0..=0x7F => 1,
        0x80..=0x3FFF => 2,
        0x4000..=0x1F_FFFF => 3,
        _ => 4,
    }
}

fn write_varint(out: &mut Vec<u8>, mut value: usize) {
    while value >= 0x80 {
        out.push((value & 0x7F) as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}
