//! Pooled receive buffers of one shard.
//!
//! A shard takes a block when a socket is readable, reads into it, parses all of it, and gives it back within the turn.
//! What is left of an unfinished packet moves to the smallest buffer that holds it ([`Buffer::settle`]); most turns
//! leave nothing, so an idle connection holds no buffer at all.
//!
//! Invariants (`ReceivePool::check`, run after every step of the tests):
//! - a free list is never longer than its limit; what comes back above it is freed
//! - bytes held = buffers in use + free buffers; nothing is counted twice
//! - memory follows bytes received: a buffer is at most twice what it holds unparsed, or one block ([`Buffer::fit`] makes less of it)
//!
//! One thread owns a pool: there is no lock and no atomic in it.

mod buffer;
#[cfg(test)]
mod tests;

pub use buffer::{Buffer, Detached};

use crate::{Component, Scope};
use std::cell::RefCell;
use std::rc::Rc;

/// Size of a receive block: the most that is read from a socket at once.
pub const BLOCK_BYTES: usize = 64 * 1024;

/// The sizes that are pooled: two for rests of packets, one for reading.
const CLASS_BYTES: [usize; 3] = [512, 4 * 1024, BLOCK_BYTES];
const CLASSES: usize = CLASS_BYTES.len();

/// How many free buffers of each size a pool keeps for the next take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolLimits {
    /// Free blocks of 64 KiB. Default 16 (1 MiB a shard): a turn holds one at a time, more are in use only while
    /// turns are cut short or packets are larger than a block.
    pub blocks_max: usize,
    /// Free rests of 4 KiB, and of 512 B. Default 256 of each (1.1 MiB a shard).
    pub rests_max: usize,
}

impl Default for PoolLimits {
    fn default() -> Self {
        Self {
            blocks_max: 16,
            rests_max: 256,
        }
    }
}

/// Figures of one size.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ClassStats {
    /// Bytes of one buffer.
    pub bytes: usize,
    /// Buffers that are in use now.
    pub in_use: usize,
    /// Free buffers that are kept.
    pub free: usize,
    /// Buffers allocated since the start.
    pub allocated: u64,
    /// Buffers that came from the free list since the start.
    pub reused: u64,
    /// Buffers freed because the free list was full (or trimmed) since the start.
    pub freed: u64,
}

/// Figures of a pool.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PoolStats {
    /// The pooled sizes, smallest first; the last one is the block.
    pub classes: [ClassStats; CLASSES],
    /// Buffers in use of sizes that are not pooled: larger than a block, or fitted to their rest ([`Buffer::fit`]).
    pub odd_in_use: usize,
    /// Bytes of these.
    pub odd_bytes: usize,
}

impl PoolStats {
    /// Bytes of all buffers in use and free.
    #[must_use]
    pub fn bytes_held(&self) -> usize {
        let pooled: usize = self
            .classes
            .iter()
            .map(|class| (class.in_use + class.free) * class.bytes)
            .sum();
        pooled + self.odd_bytes
    }

    /// Buffers in use, of every size.
    #[must_use]
    pub fn in_use(&self) -> usize {
        self.classes.iter().map(|class| class.in_use).sum::<usize>() + self.odd_in_use
    }
}

/// The receive buffers of one shard. Cloning gives another handle to the same pool.
#[derive(Debug, Clone)]
pub struct ReceivePool {
    shared: Rc<RefCell<Lists>>,
}

impl ReceivePool {
    /// A pool without buffers; they are allocated when they are first needed.
    #[must_use]
    pub fn new(limits: PoolLimits) -> Self {
        let free_max = [limits.rests_max, limits.rests_max, limits.blocks_max];
        let mut stats = PoolStats::default();
        for (class, bytes) in stats.classes.iter_mut().zip(CLASS_BYTES) {
            class.bytes = bytes;
        }
        let lists = Lists {
            free: Default::default(),
            free_max,
            stats,
        };
        Self {
            shared: Rc::new(RefCell::new(lists)),
        }
    }

    /// An empty block of [`BLOCK_BYTES`] to read into. It goes back when it is dropped.
    ///
    /// Cost: a pop from the free list, or one zeroed allocation while that is empty.
    #[must_use]
    pub fn take(&self) -> Buffer {
        self.buffer(BLOCK_BYTES)
    }

    /// The buffer to read into for a connection that kept `rest` in its last turn: with the bytes of `rest` at its
    /// start and room behind them.
    ///
    /// A small rest moves to a block. One that is in a block or more stays there, and moves to storage of twice its
    /// size when less than a quarter is room, so that a packet of n bytes is copied O(n) in all however it arrives.
    #[must_use]
    pub fn resume(&self, rest: Option<Buffer>) -> Buffer {
        match rest {
            None => self.take(),
            Some(mut rest) => {
                rest.make_room();
                rest
            }
        }
    }

    /// Takes in what another pool has let go; none when nothing is in it.
    ///
    /// Cost: no copy, unless the storage has a size that pools do not have.
    #[must_use]
    pub fn adopt(&self, detached: Detached) -> Option<Buffer> {
        let held = detached.bytes().len();
        if held == 0 {
            return None;
        }
        if detached.fits_a_pool() {
            self.shared.borrow_mut().attach(detached.storage_len());
            return Some(Buffer::attached(detached, self.clone()));
        }
        let mut buffer = self.buffer(held);
        buffer.room_mut()[..held].copy_from_slice(detached.bytes());
        buffer.advance(held);
        Some(buffer)
    }

    /// Figures of the pool now. Cost: a copy of about 150 bytes.
    #[must_use]
    pub fn stats(&self) -> PoolStats {
        self.shared.borrow().stats
    }

    /// Frees every free buffer, for a shard that is short of memory.
    pub fn trim(&self) {
        self.shared.borrow_mut().trim();
    }

    fn buffer(&self, bytes: usize) -> Buffer {
        let storage = self.shared.borrow_mut().take(bytes);
        Buffer::over(storage, self.clone())
    }

    /// Panics when an invariant of the module does not hold.
    #[cfg(test)]
    fn check(&self) {
        let lists = self.shared.borrow();
        for (class, (free, free_max)) in lists
            .stats
            .classes
            .iter()
            .zip(lists.free.iter().zip(lists.free_max))
        {
            assert!(free.len() <= free_max, "the free list is bounded");
            assert_eq!(free.len(), class.free, "the free list is counted");
            assert!(
                free.iter().all(|storage| storage.len() == class.bytes),
                "a list holds one size"
            );
            let live = u64::try_from(class.in_use + class.free).expect("a count fits u64");
            assert_eq!(
                class.allocated,
                live + class.freed,
                "every buffer is in use, free or freed"
            );
        }
    }
}

/// The free lists, by class.
#[derive(Debug)]
struct Lists {
    free: [Vec<Box<[u8]>>; CLASSES],
    free_max: [usize; CLASSES],
    stats: PoolStats,
}

/// The class of storage of this length, if it is pooled.
fn class_of(storage_len: usize) -> Option<usize> {
    CLASS_BYTES
        .iter()
        .position(|&class_bytes| storage_len == class_bytes)
}

/// The smallest class that holds `bytes`; `None` above a block.
fn class_for(bytes: usize) -> Option<usize> {
    CLASS_BYTES
        .iter()
        .position(|&class_bytes| bytes <= class_bytes)
}

impl Lists {
    /// Storage of at least `bytes`. Its content is whatever was in it before: bytes of other connections of this
    /// shard, so only what has been written since may be read.
    fn take(&mut self, bytes: usize) -> Box<[u8]> {
        let Some(class) = class_for(bytes) else {
            return self.take_odd(bytes);
        };
        let stats = &mut self.stats.classes[class];
        stats.in_use += 1;
        if let Some(storage) = self.free[class].pop() {
            stats.free -= 1;
            stats.reused += 1;
            return storage;
        }
        stats.allocated += 1;
        zeroed(CLASS_BYTES[class])
    }

    /// Storage of exactly `bytes`.
    fn take_exactly(&mut self, bytes: usize) -> Box<[u8]> {
        match class_of(bytes) {
            Some(_) => self.take(bytes),
            None => self.take_odd(bytes),
        }
    }

    fn take_odd(&mut self, bytes: usize) -> Box<[u8]> {
        self.stats.odd_in_use += 1;
        self.stats.odd_bytes += bytes;
        zeroed(bytes)
    }

    fn give_back(&mut self, storage: Box<[u8]>) {
        let Some(class) = class_of(storage.len()) else {
            self.stats.odd_in_use -= 1;
            self.stats.odd_bytes -= storage.len();
            return;
        };
        let stats = &mut self.stats.classes[class];
        stats.in_use -= 1;
        if self.free[class].len() < self.free_max[class] {
            stats.free += 1;
            self.free[class].push(storage);
        } else {
            stats.freed += 1;
        }
    }

    /// Counts storage of `bytes` that comes from elsewhere.
    fn attach(&mut self, bytes: usize) {
        match class_of(bytes) {
            Some(class) => {
                self.stats.classes[class].in_use += 1;
                self.stats.classes[class].allocated += 1;
            }
            None => {
                self.stats.odd_in_use += 1;
                self.stats.odd_bytes += bytes;
            }
        }
    }

    /// Forgets storage of `bytes` that its user keeps.
    fn detach(&mut self, bytes: usize) {
        match class_of(bytes) {
            Some(class) => {
                self.stats.classes[class].in_use -= 1;
                self.stats.classes[class].freed += 1;
            }
            None => {
                self.stats.odd_in_use -= 1;
                self.stats.odd_bytes -= bytes;
            }
        }
    }

    fn trim(&mut self) {
        for (free, stats) in self.free.iter_mut().zip(&mut self.stats.classes) {
            stats.freed += free.len() as u64;
            stats.free = 0;
            *free = Vec::new();
        }
    }
}

fn zeroed(bytes: usize) -> Box<[u8]> {
    let _scope = Scope::enter(Component::Receive);
    vec![0; bytes].into_boxed_slice()
}
