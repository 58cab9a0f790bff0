//! Who holds memory: live bytes by component, from a sample of the blocks.
//!
//! A block says nothing about who asked for it, and a header in each would cost memory and alignment. But a block has an address,
//! and whether an address is in the sample can be told from it alone: allocating and freeing agree without a look-up, and only
//! blocks of the sample are noted, with their component, in a table. Of blocks of `size` bytes one in `step / size` is in it,
//! 32 KiB at first, so each note stands for about `step` bytes and blocks of at least a step are all there.
//!
//! How exact: a component with `n` notes is right within `1 / sqrt(n)` of itself, one standard deviation: 6 % at 10 MiB while the step
//! is 32 KiB. The step doubles whenever the table is half full, and never shrinks: then 8,192 notes are shared out to all that is held.
//!
//! Invariants (`Table::check`, run in the tests):
//! - a note is reached from the place that its address wants without an empty slot in between
//! - every note is in the sample at the present step, and `held` is the sum of what the notes stand for
//! - at most half of the slots are used
//!
//! Nothing in here allocates: the allocator calls it.

#[cfg(test)]
mod tests;

use crate::component::{Component, current};
use crate::counting::snapshot;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What a note stands for at first, as a power of two: 32 KiB.
const STEP_BITS: u32 = 15;
/// Bits of the number of slots.
const SLOT_BITS: u32 = 14;
const SLOTS: usize = 1 << SLOT_BITS;
/// Notes from which on the step doubles.
const NOTES_MAX: usize = SLOTS / 2;
/// How often it may: a step of 32 PiB takes in no block at all but by chance.
const DOUBLINGS_MAX: u32 = 40;

/// How often the step has doubled. Beside the table, so that blocks outside of the sample take no lock; written with the lock held.
static DOUBLINGS: AtomicU32 = AtomicU32::new(0);

/// All zero at first, so that it takes no room in the binary and none in memory before it is used.
/// Lock: for a few slots, and for all of them (some 50 µs) when the step doubles; only blocks of the sample take it.
static TABLE: Mutex<Table> = Mutex::new(Table {
    slots: [Note::NONE; SLOTS],
    used: 0,
    doublings: 0,
    held: [0; Component::COUNT],
});

/// Spreads addresses, whose low bits are all the same, over all bits: the finalizer of MurmurHash3.
const fn mixed(address: usize) -> u64 {
    let mut bits = address as u64;
    bits ^= bits >> 33;
    bits = bits.wrapping_mul(0xff51_afd7_ed55_8ccd);
    bits ^= bits >> 33;
    bits = bits.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    bits ^ (bits >> 33)
}

/// One in two to the power of this many blocks of `size` bytes (at least 1) is in the sample.
const fn rarity(size: usize, doublings: u32) -> u32 {
    let size_bits = usize::BITS - size.saturating_sub(1).leading_zeros();
    (STEP_BITS + doublings).saturating_sub(size_bits)
}

/// Whether a block is in the sample.
const fn is_taken(address: usize, size: usize, doublings: u32) -> bool {
    mixed(address) & ((1 << rarity(size, doublings)) - 1) == 0
}

/// A block of the sample.
#[derive(Clone, Copy, Debug)]
struct Note {
    /// 0 in a free slot: no block is there.
    address: usize,
    size: usize,
    component: Component,
}

impl Note {
    const NONE: Self = Self {
        address: 0,
        size: 0,
        component: Component::Other,
    };

    /// Bytes that it stands for.
    const fn weight(&self, doublings: u32) -> u64 {
        (self.size as u64) << rarity(self.size, doublings)
    }

    /// The slot that it wants.
    const fn home(&self) -> usize {
        home(self.address)
    }
}

const fn home(address: usize) -> usize {
    // The low bits are those that are zero in the sample.
    (mixed(address) >> (u64::BITS - SLOT_BITS)) as usize
}

/// The notes: open addressing, the next free slot.
struct Table {
    slots: [Note; SLOTS],
    used: usize,
    doublings: u32,
    /// What the notes of each component stand for.
    held: [u64; Component::COUNT],
}

impl Table {
    fn insert(&mut self, note: Note) {
        // The step may have doubled since the caller looked.
        if !is_taken(note.address, note.size, self.doublings) {
            return;
        }
        let mut slot = note.home();
        while self.slots[slot].address != 0 {
            slot = (slot + 1) % SLOTS;
        }
        self.slots[slot] = note;
        self.used += 1;
        self.held[note.component.index()] += note.weight(self.doublings);
        while self.used > NOTES_MAX && self.doublings < DOUBLINGS_MAX {
            self.double_step();
        }
    }

    /// Who had asked for the block, if it is noted.
    fn remove(&mut self, address: usize) -> Option<Component> {
        let mut slot = home(address);
        while self.slots[slot].address != address {
            if self.slots[slot].address == 0 {
                return None;
            }
            slot = (slot + 1) % SLOTS;
        }
        let note = self.slots[slot];
        self.held[note.component.index()] -= note.weight(self.doublings);
        self.clear(slot);
        Some(note.component)
    }

    /// Empties a slot; notes behind it that want to be nearer to their home move up.
    fn clear(&mut self, mut empty: usize) {
        self.used -= 1;
        let mut slot = empty;
        loop {
            slot = (slot + 1) % SLOTS;
            let note = self.slots[slot];
            if note.address == 0 {
                break;
            }
            let from_home = slot.wrapping_sub(note.home()) % SLOTS;
            let from_empty = slot.wrapping_sub(empty) % SLOTS;
            if from_home >= from_empty {
                self.slots[empty] = note;
                empty = slot;
            }
        }
        self.slots[empty] = Note::NONE;
    }

    /// Half of the notes of blocks below the step go, and the others stand for twice as much.
    fn double_step(&mut self) {
        self.doublings += 1;
        DOUBLINGS.store(self.doublings, Relaxed);
        let mut slot = 0;
        while slot < SLOTS {
            let note = self.slots[slot];
            if note.address != 0 && !is_taken(note.address, note.size, self.doublings) {
                // Another one may stand here now.
                self.clear(slot);
            } else {
                slot += 1;
            }
        }
        self.held = [0; Component::COUNT];
        for note in self.slots.iter().filter(|note| note.address != 0) {
            self.held[note.component.index()] += note.weight(self.doublings);
        }
    }
}

fn table() -> MutexGuard<'static, Table> {
    // Nothing in here panics; should it, the figures are wrong and the allocator goes on.
    TABLE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A block was given out, for the current component. Cost where it is not in the sample: some ten instructions.
#[inline]
pub(crate) fn note(address: usize, size: usize) {
    if is_taken(address, size, DOUBLINGS.load(Relaxed)) {
        note_for(address, size, current());
    }
}

/// A block was given out for this component.
#[cold]
pub(crate) fn note_for(address: usize, size: usize, component: Component) {
    table().insert(Note {
        address,
        size,
        component,
    });
}

/// A block is about to be given back; afterwards another thread could have the address. Who had asked for it, if it is known.
#[inline]
pub(crate) fn forget(address: usize, size: usize) -> Option<Component> {
    match is_taken(address, size, DOUBLINGS.load(Relaxed)) {
        true => forget_taken(address),
        false => None,
    }
}

#[cold]
fn forget_taken(address: usize) -> Option<Component> {
    table().remove(address)
}

/// What is allocated and not freed, by the component that asked for it. See [`held`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Held {
    bytes: [u64; Component::COUNT],
}

impl Held {
    /// `total` bytes in the ratio of what was `noted` of each component, in the order of [`Component::ALL`]; all of it is
    /// [`Component::Other`]'s where nothing was.
    #[must_use]
    pub fn share_out(total: u64, noted: [u64; Component::COUNT]) -> Self {
        let sum: u128 = noted.iter().map(|&bytes| u128::from(bytes)).sum();
        let mut found = Self {
            bytes: noted.map(|bytes| {
                let share = (u128::from(total) * u128::from(bytes)).checked_div(sum);
                share.unwrap_or(0) as u64
            }),
        };
        // What rounding has left, a byte for each at most.
        let left = total - found.total();
        let (most, _) = found.largest();
        found.bytes[most.index()] += left;
        found
    }

    /// Bytes of one.
    #[must_use]
    pub fn of(&self, component: Component) -> u64 {
        self.bytes[component.index()]
    }

    /// Bytes of all of them: [`Snapshot::live_bytes`](crate::Snapshot::live_bytes), exact.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.bytes.iter().sum()
    }

    /// The one that holds most, with its bytes; the first of several.
    #[must_use]
    pub fn largest(&self) -> (Component, u64) {
        let of = |component| (component, self.of(component));
        let more = |a: (Component, u64), b: (Component, u64)| if b.1 > a.1 { b } else { a };
        Component::ALL
            .map(of)
            .into_iter()
            .fold(of(Component::Other), more)
    }
}

/// Who holds what the process has allocated. The sum is counted, its parts are estimated (see the text of the module). Cost: that of
/// [`snapshot()`], and a lock that no thread has for long; for operators and for what happens seldom.
#[must_use]
pub fn held() -> Held {
    let noted = table().held;
    Held::share_out(snapshot().live_bytes(), noted)
}
