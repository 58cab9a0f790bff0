//! The timers of one shard: a hierarchical wheel.
//!
//! Nine levels of 64 slots, the slots of a level 64 times as long as those below. A timer is linked into the slot of
//! the highest 6-bit digit in which its deadline differs from the wheel's clock, and moves down a level when the
//! clock reaches that slot; so insert, cancel and re-arm cost O(1), and a timer moves at most eight times in its life.
//!
//! Moving a deadline later, which keep-alive does for every packet, only stores the new deadline: the timer stays where
//! it is linked and is placed again when its slot is reached.
//!
//! Invariants (`check`, run after every step of the tests; `now` is the wheel's clock):
//! - a linked timer is in exactly one list, and that list is the one which it names
//! - the slot of a timer begins no later than its deadline, so none fires late
//! - every occupied slot of a level begins after `now` and lies in the same slot of the level above as `now`, except the
//!   slot that is being worked off; so the first occupied slot of the lowest occupied level is the next to come
//! - a free node is in the free list, and no key that was given out names it
//!
//! What does not hold: timers of the same tick fire in no promised order, and [`Wheel::next_deadline`] may be earlier
//! than the earliest deadline.
//!
//! The wheel does not shrink: it keeps 24 bytes (for a value of four) for as many timers as there ever were at once.

#[cfg(test)]
mod bench;
mod node;
mod slots;
#[cfg(test)]
mod tests;

use courser_contract::Tick;
use node::Nodes;
use slots::{NONE, Place, Slots};

pub(crate) use node::TimerKey;

/// Whether [`Wheel::advance`] did all that was due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub(crate) enum Advanced {
    /// Nothing with a deadline up to `now` is left.
    Whole,
    /// The work limit was reached; the next call goes on.
    Cut,
}

/// Timers of one shard; `T` is what fires, best a small id.
#[derive(Debug)]
pub(crate) struct Wheel<T> {
    now: u64,
    nodes: Nodes<T>,
    slots: Slots,
    /// The slot that the clock has reached and that still has timers in it.
    reached: Option<Place>,
}

impl<T: Copy> Wheel<T> {
    /// An empty wheel whose clock stands at `now`. Cost: 2.4 KB.
    #[must_use]
    pub(crate) fn new(now: Tick) -> Self {
        Self {
            now: now.0,
            nodes: Nodes::new(),
            slots: Slots::new(),
            reached: None,
        }
    }

    /// Arms a timer. One whose deadline has passed fires at the next [`advance`](Self::advance). Deadlines end at
    /// 2^54 ms, which is half a million years.
    ///
    /// # Panics
    /// With 2^32 - 1 timers at once, which take 100 GB.
    pub(crate) fn insert(&mut self, deadline: Tick, value: T) -> TimerKey {
        let index = self.nodes.allocate(deadline.0, value);
        self.link(index);
        self.nodes.key(index)
    }

    /// Takes a timer out before it fires; `None` when it has fired or was cancelled.
    pub(crate) fn cancel(&mut self, key: TimerKey) -> Option<T> {
        let index = self.nodes.find(key)?;
        self.unlink(index);
        Some(self.nodes.release(index))
    }

    /// Gives a timer another deadline. False when it has fired or was cancelled.
    ///
    /// Cost: one store when the new deadline is not before the slot in which the timer waits, as with every deadline
    /// that moves later; otherwise it is linked again.
    #[must_use = "a timer that has fired must be inserted again"]
    pub(crate) fn rearm(&mut self, key: TimerKey, deadline: Tick) -> bool {
        let Some(index) = self.nodes.find(key) else {
            return false;
        };
        let place = self.nodes.place(index);
        self.nodes.set_deadline(index, deadline.0);
        if self.nodes.deadline(index) < place.begin(self.now) {
            self.unlink(index);
            self.link(index);
        }
        true
    }

    /// When to call [`advance`](Self::advance) next: not after any deadline. It may be earlier, for a timer that was
    /// moved later or that must move down a level. Cost: at most nine words are looked at.
    #[must_use]
    pub(crate) fn next_deadline(&self) -> Option<Tick> {
        if self.reached.is_some() {
            return Some(Tick(self.now));
        }
        self.slots
            .first()
            .map(|place| Tick(place.begin(self.now).max(self.now)))
    }

    /// Moves the clock to `now` and hands every timer with a deadline up to it to `fire`, in the order of deadlines
    /// (those that had passed when they were set come as they come). At most `work_max` timers are fired or moved, so
    /// that a turn keeps to its budget. A `now` before the last one counts as the last one.
    pub(crate) fn advance(
        &mut self,
        now: Tick,
        work_max: usize,
        mut fire: impl FnMut(T),
    ) -> Advanced {
        let mut work_left = work_max;
        while let Some(place) = self.next_place(now.0) {
            self.reached = Some(place);
            loop {
                let index = self.slots.head(place);
                if index == NONE {
                    break;
                }
                if work_left == 0 {
                    return Advanced::Cut;
                }
                work_left -= 1;
                self.unlink(index);
                if self.nodes.deadline(index) <= self.now {
                    fire(self.nodes.release(index));
                } else {
                    self.link(index);
                }
            }
            self.reached = None;
        }
        self.now = self.now.max(now.0);
        Advanced::Whole
    }

    /// The next slot with work at or before `now`; the clock moves to its begin.
    fn next_place(&mut self, now: u64) -> Option<Place> {
        if let Some(place) = self.reached {
            return Some(place);
        }
        let place = self.slots.first()?;
        let begin = place.begin(self.now);
        if begin > now {
            return None;
        }
        self.now = self.now.max(begin);
        Some(place)
    }

    fn link(&mut self, index: u32) {
        let place = Place::of(self.now, self.nodes.deadline(index));
        self.nodes.link(index, place, self.slots.head(place));
        self.slots.set_head(place, index);
    }

    fn unlink(&mut self, index: u32) {
        let place = self.nodes.place(index);
        let next = self.nodes.unlink(index);
        if self.slots.head(place) == index {
            self.slots.set_head(place, next);
        }
    }

    /// How many timers are armed. Cost: all free nodes are visited.
    #[cfg(test)]
    fn len(&self) -> usize {
        self.nodes.count() - self.nodes.free_count()
    }

    /// Panics when an invariant of the module does not hold. Cost: all timers are visited.
    #[cfg(test)]
    fn check(&self) {
        let mut linked = 0;
        for place in self.slots.lists() {
            let begin = place.begin(self.now);
            let comes = place == Place::DUE || begin > self.now || self.reached == Some(place);
            assert!(
                comes,
                "an occupied slot is still to come: {place:?} at {}",
                self.now
            );
            for index in self.nodes.list(self.slots.head(place)) {
                assert_eq!(self.nodes.place(index), place, "a timer names its list");
                assert!(
                    begin <= self.nodes.deadline(index),
                    "a slot begins no later than its deadlines"
                );
                linked += 1;
            }
        }
        assert_eq!(linked, self.len(), "a node is in one list or free");
    }
}
