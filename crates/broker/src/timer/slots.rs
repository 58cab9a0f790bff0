//! Places of the wheel: levels, slots, and the lists that begin in them.

/// Bits of a tick that one level covers.
const LEVEL_BITS: u32 = 6;
const SLOTS: u16 = 1 << LEVEL_BITS;
/// Nine levels of six bits.
const LEVELS: u16 = 9;

/// Bits of a deadline that the wheel can place; what is left of a word holds a place.
pub(super) const DEADLINE_BITS: u32 = LEVELS as u32 * LEVEL_BITS;

/// The list that a node is in: a slot of a level, or one of the lists beside the wheel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place(u16);

impl Place {
    /// Timers whose deadline had passed when it was set.
    pub(super) const DUE: Self = Self(LEVELS * SLOTS);
    /// No timer at all.
    pub(super) const FREE: Self = Self(LEVELS * SLOTS + 1);

    const LISTS: usize = Self::FREE.0 as usize;

    /// Where a timer of this deadline is linked while the clock stands at `now`. Both are below 2^54.
    pub(super) fn of(now: u64, deadline: u64) -> Self {
        if deadline <= now {
            return Self::DUE;
        }
        let level = (now ^ deadline).ilog2() / LEVEL_BITS;
        let slot = (deadline >> (level * LEVEL_BITS)) as u16 & (SLOTS - 1);
        Self(level as u16 * SLOTS + slot)
    }

    /// The first tick of this slot, taken in the same slot of the level above as `now`. What is due begins at once.
    pub(super) fn begin(self, now: u64) -> u64 {
        if self == Self::DUE {
            return 0;
        }
        let shift = u32::from(self.0 / SLOTS) * LEVEL_BITS;
        let above = now >> (shift + LEVEL_BITS) << (shift + LEVEL_BITS);
        above | u64::from(self.0 % SLOTS) << shift
    }

    pub(super) fn code(self) -> u16 {
        self.0
    }

    pub(super) fn from_code(code: u16) -> Self {
        assert!(code <= Self::FREE.0, "a node names a list of the wheel");
        Self(code)
    }
}

// A place fits beside a deadline in one word.
const _: () = assert!((Place::FREE.0 as u64) < 1 << (64 - DEADLINE_BITS));

/// No node: the end of a list.
pub(super) const NONE: u32 = u32::MAX;

/// First node of every list.
#[derive(Debug)]
pub(super) struct Slots {
    /// A bit for every slot with a timer; the level above the last one is the due list.
    occupied: [u64; LEVELS as usize + 1],
    heads: [u32; Place::LISTS],
}

impl Slots {
    pub(super) fn new() -> Self {
        Self {
            occupied: [0; LEVELS as usize + 1],
            heads: [NONE; Place::LISTS],
        }
    }

    /// What comes first: the due list, else the first occupied slot of the lowest occupied level.
    pub(super) fn first(&self) -> Option<Place> {
        if self.head(Place::DUE) != NONE {
            return Some(Place::DUE);
        }
        let level = self.occupied.iter().position(|&slots| slots != 0)?;
        let slot = self.occupied[level].trailing_zeros();
        Some(Place(level as u16 * SLOTS + slot as u16))
    }

    pub(super) fn head(&self, place: Place) -> u32 {
        self.heads[usize::from(place.0)]
    }

    pub(super) fn set_head(&mut self, place: Place, index: u32) {
        self.heads[usize::from(place.0)] = index;
        let bit = 1 << (place.0 % SLOTS);
        let slots = &mut self.occupied[usize::from(place.0 / SLOTS)];
        if index == NONE {
            *slots &= !bit;
        } else {
            *slots |= bit;
        }
    }

    /// Every list that is not empty, after comparing it with its bit.
    #[cfg(test)]
    pub(super) fn lists(&self) -> Vec<Place> {
        let occupied = |place: Place| {
            self.occupied[usize::from(place.0 / SLOTS)] & 1 << (place.0 % SLOTS) != 0
        };
        let all = (0..Place::FREE.0).map(Place);
        let (full, empty): (Vec<Place>, Vec<Place>) =
            all.partition(|&place| self.head(place) != NONE);
        assert!(
            full.iter().all(|&place| occupied(place)),
            "an occupied slot has its bit"
        );
        assert!(
            !empty.iter().any(|&place| occupied(place)),
            "an empty slot has none"
        );
        full
    }
}
