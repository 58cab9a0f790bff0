//! Messages in a row for the same fronts: encoded once, and appended to each output as one piece.
//!
//! A run is for receivers that get the very same bytes. Only QoS 0 goes into it, and of a front only what [`Front::deliver`] would
//! have appended at once: whether it would is asked when the run begins, and the run is shorter than the room that the output had
//! then. The shell ends the run before it does anything else with one of its fronts, so that the order is that of the deliveries.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};
use courser_contract::{DeliverTo, QoS};
use courser_memory::{Component, Scope};
use smallvec::SmallVec;

use super::prepared::{AliasUse, Prepared, SHARED_PAYLOAD_BYTES_MIN, Sizes, Variant};
use super::{Front, Phase};
use crate::codec::{PACKET_BYTES_MAX, ProtocolVersion};

/// Messages that are being gathered for fronts that get the same bytes. See the module's text.
#[derive(Debug)]
pub struct Run {
    version: ProtocolVersion,
    retain: bool,
    identifiers: SmallVec<[u32; 2]>,
    /// The lowest Maximum Packet Size of the receivers.
    packet_bytes_max: u32,
    packets: u32,
    bytes: Vec<u8>,
}

/// How the bytes of a run that is over are handed out.
#[derive(Debug)]
pub enum Packed {
    /// Few: copied into each output.
    Copied,
    /// Referenced by each output.
    Shared(Bytes),
}

impl Default for Run {
    fn default() -> Self {
        Self {
            version: ProtocolVersion::V311,
            retain: false,
            identifiers: SmallVec::new(),
            packet_bytes_max: PACKET_BYTES_MAX,
            packets: 0,
            bytes: Vec::new(),
        }
    }
}

impl Run {
    /// A run has at most so many bytes.
    pub const BYTES_MAX: usize = 16 * 1024;

    /// Begins anew with a first receiver; false when this front must get its messages one by one.
    #[must_use]
    pub fn begin(&mut self, front: &Front, to: &DeliverTo) -> bool {
        self.packets = 0;
        self.bytes.clear();
        self.version = front.peer.version;
        self.retain = to.flags.retain;
        self.identifiers = SmallVec::from_slice(front.identifiers(to));
        self.packet_bytes_max = front.peer.packet_bytes_max;
        front.takes_runs(to)
    }

    /// Adds a receiver to a run without messages; false when it needs other bytes, or its messages one by one.
    #[must_use]
    pub fn admit(&mut self, front: &Front, to: &DeliverTo) -> bool {
        debug_assert!(
            self.bytes.is_empty(),
            "receivers are known before the first message"
        );
        let same = self.version == front.peer.version
            && self.retain == to.flags.retain
            && self.identifiers.as_slice() == front.identifiers(to)
            && front.takes_runs(to);
        if same {
            self.packet_bytes_max = self.packet_bytes_max.min(front.peer.packet_bytes_max);
        }
        same
    }

    /// Whether the message can be appended: there is room, all receivers take a packet of its size, its time is not over, and its payload
    /// is not so large that it should be referenced.
    #[must_use]
    pub fn fits(&self, prepared: &Prepared<'_>) -> bool {
        let Some(sizes) = self.sizes(prepared) else {
            return false;
        };
        self.bytes.len() + sizes.total() <= Self::BYTES_MAX
            && prepared.delivery.view.payload.len() < SHARED_PAYLOAD_BYTES_MIN
            && !prepared.expired()
    }

    /// Appends a message.
    ///
    /// # Panics
    /// When it does not fit: ask [`fits`](Self::fits).
    pub fn append(&mut self, prepared: &Prepared<'_>) {
        let sizes = self.sizes(prepared).expect("the shell has asked");
        let mut bytes = std::mem::take(&mut self.bytes);
        prepared.write(&mut bytes, (&self.variant(), sizes));
        self.bytes = bytes;
        self.packets += 1;
    }

    fn variant(&self) -> Variant<'_> {
        Variant {
            version: self.version,
            qos: QoS::AtMostOnce,
            retain: self.retain,
            duplicate: false,
            alias: AliasUse::None,
            identifiers: &self.identifiers,
        }
    }

    fn sizes(&self, prepared: &Prepared<'_>) -> Option<Sizes> {
        prepared.fit(&self.variant(), self.packet_bytes_max)
    }

    /// How the bytes are handed out now that the run is over.
    #[must_use]
    pub fn pack(&self, blocks: &mut RunBlocks) -> Packed {
        if self.bytes.len() < SHARED_PAYLOAD_BYTES_MIN {
            Packed::Copied
        } else {
            Packed::Shared(blocks.share(&self.bytes))
        }
    }

    /// Appends the run to the output of one of its fronts.
    pub fn hand_over(&self, packed: &Packed, front: &mut Front) {
        if self.packets == 0 {
            return;
        }
        let output = &mut front.output;
        match packed {
            Packed::Copied => {
                output
                    .buffer(self.bytes.len())
                    .extend_from_slice(&self.bytes);
                output.count_packets(self.packets - 1);
            }
            Packed::Shared(bytes) => {
                output.push_shared(bytes.clone());
                output.count_packets(self.packets);
            }
        }
    }
}

impl Front {
    /// Whether it gets such messages as they are, as long as they are fewer than a run has.
    fn takes_runs(&self, to: &DeliverTo) -> bool {
        to.source.is_none()
            && matches!(self.phase, Phase::Attached)
            && self.peer.topic_alias_max == 0
            && !self.output.is_blocked()
            && !(to.flags.shared && self.is_behind())
            && self.output.len() + Run::BYTES_MAX <= self.config.output_bytes_max
    }

    /// The subscription identifiers that this client is told.
    fn identifiers<'i>(&self, to: &'i DeliverTo) -> &'i [u32] {
        match &to.identifiers {
            Some(identifiers) if self.peer.version == ProtocolVersion::V5 => identifiers,
            Some(_) | None => &[],
        }
    }
}

/// Memory of runs that outputs refer to. What is written comes back without being asked for: a block is used again when no output
/// refers to it any more.
#[derive(Debug, Default)]
pub struct RunBlocks {
    current: BytesMut,
    /// Full ones, oldest first.
    full: VecDeque<BytesMut>,
}

impl RunBlocks {
    const BLOCK_BYTES: usize = 2 * Run::BYTES_MAX;
    /// Full blocks that are kept in mind; with more under way the oldest is left to its outputs.
    const FULL_MAX: usize = 8;

    /// The same bytes, shared. At most a block of them.
    fn share(&mut self, bytes: &[u8]) -> Bytes {
        debug_assert!(bytes.len() <= Self::BLOCK_BYTES, "runs are bounded");
        if self.current.capacity() < bytes.len() {
            self.next_block();
        }
        self.current.extend_from_slice(bytes);
        self.current.split().freeze()
    }

    fn next_block(&mut self) {
        if self.current.try_reclaim(Self::BLOCK_BYTES) {
            return;
        }
        let mut next = BytesMut::new();
        let mut free = self.full.iter_mut();
        if let Some(at) = free.position(|block| block.try_reclaim(Self::BLOCK_BYTES)) {
            next = self.full.remove(at).unwrap_or_default();
        } else {
            let _scope = Scope::enter(Component::Output);
            next.reserve(Self::BLOCK_BYTES);
        }
        let full = std::mem::replace(&mut self.current, next);
        self.full.push_back(full);
        if self.full.len() > Self::FULL_MAX {
            self.full.pop_front();
        }
    }
}
