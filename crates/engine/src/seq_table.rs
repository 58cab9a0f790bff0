//! A map from positions of a stream to what is known of them, for what comes in ascending order and leaves in any.

use std::collections::{BTreeMap, VecDeque};

use courser_contract::Seq;

use crate::emptied::Emptied;

/// An empty place in a row costs as much as a full one, up to this many.
const GAP_MAX: u64 = 64;

/// The dense part is thinned out when fewer than one in this many of its places is full.
const SPARSE: usize = 8;

/// An ordered map by [`Seq`]. The recent positions lie in a dense ring: adding the next one, finding and removing one is O(1)
/// and allocates nothing once the ring has its size. What stays behind while the ring moves on (a stuck message) is moved to a
/// tree, so that memory follows the number of entries: at most eight places of the ring for each.
///
/// Invariants (`check`): all of `old` is below `base`; the ring begins and ends with a full place; `live` counts its full ones.
#[derive(Clone, Debug)]
pub(crate) struct SeqTable<T> {
    old: BTreeMap<Seq, T>,
    base: u64,
    ring: VecDeque<Option<T>>,
    live: usize,
}

impl<T> Default for SeqTable<T> {
    fn default() -> Self {
        Self {
            old: BTreeMap::new(),
            base: 0,
            ring: VecDeque::new(),
            live: 0,
        }
    }
}

impl<T> SeqTable<T> {
    /// Puts `value` at `seq` and returns what was there.
    pub(crate) fn insert(&mut self, seq: Seq, value: T) -> Option<T> {
        if self.ring.is_empty() {
            let before = self.old.remove(&seq);
            if self
                .old
                .last_key_value()
                .is_some_and(|(last, _)| *last > seq)
            {
                self.old.insert(seq, value);
            } else {
                self.base = seq.0;
                self.push(value);
            }
            return before;
        }
        if seq.0 < self.base {
            return self.old.insert(seq, value);
        }
        let end = self.base + self.ring.len() as u64;
        if seq.0 < end {
            let place = &mut self.ring[(seq.0 - self.base) as usize];
            let before = place.replace(value);
            self.live += usize::from(before.is_none());
            return before;
        }
        if seq.0 - end > GAP_MAX {
            while !self.ring.is_empty() {
                self.retire_front();
            }
            self.base = seq.0;
        } else {
            self.ring
                .extend(std::iter::repeat_with(|| None).take((seq.0 - end) as usize));
        }
        self.push(value);
        self.thin_out();
        None
    }

    /// What is at `seq`.
    pub(crate) fn get(&self, seq: Seq) -> Option<&T> {
        match self.place(seq) {
            Some(place) => self.ring.get(place)?.as_ref(),
            None => self.old.get(&seq),
        }
    }

    /// What is at `seq`, to be changed.
    pub(crate) fn get_mut(&mut self, seq: Seq) -> Option<&mut T> {
        match self.place(seq) {
            Some(place) => self.ring.get_mut(place)?.as_mut(),
            None => self.old.get_mut(&seq),
        }
    }

    /// Takes out what is at `seq`.
    pub(crate) fn remove(&mut self, seq: Seq) -> Option<T> {
        let Some(place) = self.place(seq) else {
            return self.old.remove(&seq);
        };
        let removed = self.ring.get_mut(place)?.take();
        if removed.is_some() {
            self.live -= 1;
            self.trim();
            self.thin_out();
        }
        removed
    }

    /// The lowest position with its value.
    pub(crate) fn first(&self) -> Option<(Seq, &T)> {
        self.iter().next()
    }

    /// All positions in order. Cost: the number of entries, times eight at worst.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Seq, &T)> {
        self.old.iter().map(|(&seq, value)| (seq, value)).chain(
            self.ring
                .iter()
                .zip(self.base..)
                .filter_map(|(place, seq)| Some((Seq(seq), place.as_ref()?))),
        )
    }

    /// Changes all values, in no order.
    pub(crate) fn for_each(&mut self, change: impl FnMut(&mut T)) {
        let ring = self.ring.iter_mut().flatten();
        self.old.values_mut().chain(ring).for_each(change);
    }

    /// The lowest position from `seq` on.
    pub(crate) fn next_from(&self, seq: Seq) -> Option<(Seq, &T)> {
        if seq.0 < self.base
            && let Some((&seq, value)) = self.old.range(seq..).next()
        {
            return Some((seq, value));
        }
        let skip = usize::try_from(seq.0.saturating_sub(self.base)).unwrap_or(usize::MAX);
        if skip >= self.ring.len() {
            return None;
        }
        self.ring
            .range(skip..)
            .zip(self.base + skip as u64..)
            .find_map(|(place, seq)| Some((Seq(seq), place.as_ref()?)))
    }

    /// Those from `seq` on, in order.
    pub(crate) fn iter_from(&self, seq: Seq) -> impl Iterator<Item = (Seq, &T)> {
        let skip = usize::try_from(seq.0.saturating_sub(self.base)).unwrap_or(usize::MAX);
        let skip = skip.min(self.ring.len());
        let old = self.old.range(seq..).map(|(&seq, value)| (seq, value));
        let ring = self.ring.range(skip..).zip(self.base + skip as u64..);
        old.chain(ring.filter_map(|(place, seq)| Some((Seq(seq), place.as_ref()?))))
    }

    /// Number of positions.
    pub(crate) fn len(&self) -> usize {
        self.old.len() + self.live
    }

    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Gives back what it has kept for more than there is.
    pub(crate) fn shrink(&mut self) {
        self.old.give_back_if_empty();
        self.ring.shrink_to_fit();
    }

    /// Asserts the invariants of the type.
    pub(crate) fn check(&self) {
        assert!(
            self.ring.is_empty()
                || self
                    .old
                    .last_key_value()
                    .is_none_or(|(last, _)| last.0 < self.base),
            "the tree holds what is before the ring"
        );
        assert_eq!(
            self.live,
            self.ring.iter().flatten().count(),
            "full places are counted"
        );
        for end in [self.ring.front(), self.ring.back()].into_iter().flatten() {
            assert!(end.is_some(), "the ring begins and ends with a full place");
        }
        assert!(
            self.ring.len() <= self.live * SPARSE + GAP_MAX as usize,
            "the ring is not sparse"
        );
    }

    fn place(&self, seq: Seq) -> Option<usize> {
        if self.ring.is_empty() {
            return None;
        }
        usize::try_from(seq.0.checked_sub(self.base)?).ok()
    }

    fn push(&mut self, value: T) {
        self.ring.push_back(Some(value));
        self.live += 1;
    }

    /// Drops empty places at both ends.
    fn trim(&mut self) {
        while matches!(self.ring.front(), Some(None)) {
            self.ring.pop_front();
            self.base += 1;
        }
        while matches!(self.ring.back(), Some(None)) {
            self.ring.pop_back();
        }
    }

    /// Moves the first entry of the ring to the tree.
    fn retire_front(&mut self) {
        if let Some(Some(value)) = self.ring.pop_front() {
            self.old.insert(Seq(self.base), value);
            self.live -= 1;
        }
        self.base += 1;
        self.trim();
    }

    /// Each entry moves to the tree once at most, so that this is O(1) amortised.
    fn thin_out(&mut self) {
        while self.ring.len() > self.live * SPARSE + GAP_MAX as usize {
            self.retire_front();
        }
    }
}

#[cfg(test)]
mod tests;
