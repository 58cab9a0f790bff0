//! A disk in memory that does what disks do to logs: it forgets what was not synced, whole or by sectors; fails; fills up;
//! rots. For tests and the simulator (feature `testing`).
//!
//! What it models:
//! - A write is visible at once and durable after [`DiskFile::sync`] of its file. A loss of power keeps any subset of what was
//!   not synced, each write whole, not at all, or some of its sectors of 512 or 4096 bytes. So a block may have what it had before,
//!   a batch of an older life of its segment say, while writes that came later are there. After a sync that is damage, as rot is:
//!   [`MemDisk::lose_block`], [`MemDisk::lose_write`].
//! - A change of names is durable after [`Disk::sync_dir`]. A loss of power keeps the first of them up to some point, as a
//!   journal does.
//! - After a sync that failed, what it should have written stays visible and is clean: later syncs succeed and do not write it.
//! - A file that was removed or replaced can be read by who has it open, until the process ends.
//! - A full disk refuses to let files grow, and nothing else. One may also give less than it says it has: [`MemDisk::withhold`].
//! - What it does not give any more it gives again once something was written there.
//!
//! One `u64` decides what a loss of power leaves; the same number leaves the same.

mod disk;
mod pages;
mod state;
#[cfg(test)]
mod tests;

pub use crate::config::Planted;

pub use self::{
    disk::{MemDisk, MemFile},
    state::{Call, Survival, Unsynced, Withheld},
};

#[cfg(doc)]
use crate::disk::{Disk, DiskFile};

/// Small generator for choices of the disk (SplitMix64).
#[derive(Clone, Copy, Debug)]
pub struct Choices(u64);

impl Choices {
    /// From a seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    pub const fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`, which is not 0.
    pub const fn below(&mut self, bound: u64) -> u64 {
        self.next_u64() % bound
    }
}
