//! Whether a door takes one more connection: asked as soon as it is accepted, before its handshakes cost anything.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use courser_memory::snapshot;

use crate::live::Live;
use crate::memory::{Level, MemoryBudget, handshakes_share};
use crate::peer::Entrance;

/// Handshakes under way at once on one thread, whatever the memory.
const HANDSHAKES_MAX: u64 = 4096;
/// The same, however little memory there is.
const HANDSHAKES_MIN: u64 = 16;
/// What one holds at most: 16 KiB that came, what one read may bring more, and what TLS has of its own.
const HANDSHAKE_BYTES: u64 = 24 * 1024;
/// What one address may have under way is one part of so many.
const ADDRESSES: u32 = 4;

/// What the whole process has, as doors ask for it.
#[derive(Debug)]
pub(crate) struct Admission {
    pub(crate) live: Arc<Live>,
    /// Connections that shards have let in and that are open.
    pub(crate) connections: Arc<AtomicUsize>,
    pub(crate) memory: Arc<MemoryBudget>,
}

/// Handshakes that may be under way on one thread of doors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct HandshakesMax {
    /// Of all.
    pub(super) at_once: usize,
    /// From one address.
    pub(super) of_an_address: NonZeroU32,
}

impl Admission {
    /// Whether there may be one connection more. That there is room for it is asked again when its handshakes are over.
    pub(super) fn has_room(&self, entrance: &Entrance) -> bool {
        let connections = self.connections.load(Ordering::Relaxed);
        entrance.has_room(&self.live.get(), connections)
            && self.memory.glance(snapshot().live_bytes()) != Level::Over
    }
}

impl HandshakesMax {
    /// On each of so many threads, of a process that may have `memory_max` bytes.
    pub(super) fn new(memory_max: u64, threads: usize) -> Self {
        let of_all = handshakes_share(memory_max) / HANDSHAKE_BYTES;
        let of_each = of_all / (threads as u64).max(1);
        let at_once = of_each.clamp(HANDSHAKES_MIN, HANDSHAKES_MAX) as u32;
        Self {
            at_once: at_once as usize,
            of_an_address: NonZeroU32::new(at_once / ADDRESSES).unwrap_or(NonZeroU32::MIN),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c2_handshakes_have_a_sixteenth_of_the_memory() {
        const MIB: u64 = 1 << 20;
        for (memory_max, threads, at_once, of_an_address) in [
            (u64::MAX, 1, 4096, 1024),
            (2048 * MIB, 1, 4096, 1024),
            (2048 * MIB, 4, 1365, 341),
            (96 * MIB, 1, 256, 64),
            (48 * MIB, 1, 128, 32),
            (24 * MIB, 1, 64, 16),
            (24 * MIB, 4, 16, 4),
            (0, 4, 16, 4),
        ] {
            let found = HandshakesMax::new(memory_max, threads);
            let found = (found.at_once, found.of_an_address.get());
            assert_eq!(found, (at_once, of_an_address), "{memory_max} {threads}");
        }
    }
}
