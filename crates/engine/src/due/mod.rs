//! The due-time index of a partition (M20): what happens at which moment.
//!
//! One index serves delays, wills, expiry and session ends; `K` says what is due and for whom. It knows no clock: the leader
//! asks with its own time what is due and proposes it; applying removes it (M4, M6).
//!
//! Order: by moment, then by key. Two replicas with the same contents hand out the same sequence however it was built.
//! An owner must remember the moment of its entry to remove it, which costs eight bytes there instead of a second index here.

use std::collections::BTreeSet;

use courser_contract::WallMs;

/// What is due when. All operations are O(log n), with about 1.5 times the size of an entry of memory each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DueIndex<K> {
    entries: BTreeSet<(WallMs, K)>,
}

impl<K: Ord> Default for DueIndex<K> {
    fn default() -> Self {
        Self {
            entries: BTreeSet::new(),
        }
    }
}

impl<K: Ord + Copy> DueIndex<K> {
    /// Makes `key` due at a moment; false when it already was due at that very moment. One key may be due at several.
    pub(crate) fn insert(&mut self, at: WallMs, key: K) -> bool {
        self.entries.insert((at, key))
    }

    /// Takes `key` back; false when it was not due at that moment.
    pub(crate) fn remove(&mut self, at: WallMs, key: K) -> bool {
        self.entries.remove(&(at, key))
    }

    /// Moves `key` from one moment to another; none: it is not due there.
    pub(crate) fn change(&mut self, key: K, from: Option<WallMs>, to: Option<WallMs>) {
        if from == to {
            return;
        }
        if let Some(from) = from {
            self.remove(from, key);
        }
        if let Some(to) = to {
            self.insert(to, key);
        }
    }

    /// The earliest moment at which something is due.
    pub(crate) fn next(&self) -> Option<WallMs> {
        self.entries.first().map(|&(at, _)| at)
    }

    /// All that is due ever, earliest first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (WallMs, K)> + '_ {
        self.entries.iter().copied()
    }

    /// Takes out what is due at `now`, earliest first, at most `max` of it, and appends it to `out`. Returns whether more is
    /// due: the turn's work budget decides when to go on.
    pub(crate) fn pop_due(&mut self, now: WallMs, max: usize, out: &mut Vec<(WallMs, K)>) -> bool {
        for _ in 0..max {
            match self.entries.first() {
                Some(&(at, _)) if at <= now => out.extend(self.entries.pop_first()),
                Some(_) | None => return false,
            }
        }
        self.next().is_some_and(|at| at <= now)
    }
}

#[cfg(test)]
mod tests;
