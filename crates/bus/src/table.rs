//! The cache of a thread: which plan a key has, and until when that is known to hold.
//!
//! Each key has one place, by its identity; the table doubles when keys meet, up to a limit. What a post reads is 16
//! bytes a key; what tells whether a change concerns the key is beside it and only looked at after changes.
//!
//! Instead of the router's version an entry has the *generation* of the table in which its plan was found to hold: a
//! number for the version, small enough to stand above the key's identity, so that one comparison checks both.

use crate::key::ID_BITS;
use crate::plan::PlanRef;
use router::Epoch;

/// What a post reads of a key.
#[derive(Clone, Copy, Default)]
pub(crate) struct Entry {
    /// The key's identity, and above it the generation.
    pub(crate) stamp: u64,
    pub(crate) plan: Option<PlanRef>,
}

const _: () = assert!(size_of::<Entry>() == 16, "four entries a cache line");

const IDENTITY: u64 = (1 << ID_BITS) - 1;
/// One more in the place of generations.
const GENERATION: u64 = 1 << ID_BITS;
const KEYS_MIN: usize = 64;

impl Entry {
    fn key(&self) -> u64 {
        self.stamp & IDENTITY
    }
}

pub(crate) struct Table {
    entries: Vec<Entry>,
    epochs: Vec<Epoch>,
    /// In its place, and never 0 there: no stamp that was not set is one of it.
    generation: u64,
    /// The version that the generation stands for.
    version: u64,
    keys_max: usize,
}

/// Where the entries are and what is current, for the hot path. A copy of what the table says.
#[derive(Clone, Copy)]
pub(crate) struct View {
    pub(crate) entries: *const Entry,
    pub(crate) mask: usize,
    pub(crate) version: u64,
    pub(crate) generation: u64,
}

impl Table {
    /// A table for up to `keys_max` keys, which is a power of two.
    pub(crate) fn new(keys_max: usize) -> Self {
        let keys = KEYS_MIN.min(keys_max);
        Table {
            entries: vec![Entry::default(); keys],
            epochs: vec![Epoch::default(); keys],
            generation: GENERATION,
            version: 0,
            keys_max,
        }
    }

    pub(crate) fn view(&self) -> View {
        View {
            entries: self.entries.as_ptr(),
            mask: self.entries.len() - 1,
            version: self.version,
            generation: self.generation,
        }
    }

    /// Makes `version` the current one: no plan is known to hold from here on.
    pub(crate) fn advance(&mut self, version: u64) {
        if self.version == version {
            return;
        }
        self.version = version;
        self.generation = self.generation.wrapping_add(GENERATION);
        if self.generation == 0 {
            // Old stamps must not become current again.
            self.entries
                .iter_mut()
                .for_each(|entry| entry.stamp = entry.key());
            self.generation = GENERATION;
        }
    }

    /// The plan of a key if it was found at `epoch`, which the key has now: then it holds at the current version.
    pub(crate) fn confirm(&mut self, key: u64, epoch: Epoch) -> Option<PlanRef> {
        let at = self.place(key);
        let entry = &mut self.entries[at];
        let plan = entry.plan?;
        if entry.key() != key || self.epochs[at] != epoch {
            return None;
        }
        entry.stamp = key | self.generation;
        Some(plan)
    }

    /// Puts a plan in its place, making room by growing or by forgetting what is there. Returns the plan that goes;
    /// for a key without identity that is the very same.
    pub(crate) fn store(&mut self, key: u64, epoch: Epoch, plan: PlanRef) -> Option<PlanRef> {
        if key == 0 {
            return Some(plan);
        }
        loop {
            let at = self.place(key);
            let other = self.entries[at].key();
            if other != 0 && other != key && self.entries.len() < self.keys_max {
                self.grow();
                continue;
            }
            self.epochs[at] = epoch;
            let entry = Entry {
                stamp: key | self.generation,
                plan: Some(plan),
            };
            return std::mem::replace(&mut self.entries[at], entry).plan;
        }
    }

    /// Forgets everything.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = PlanRef> {
        let entries = self.entries.iter_mut();
        entries.filter_map(|entry| std::mem::take(entry).plan)
    }

    fn place(&self, key: u64) -> usize {
        key as usize & (self.entries.len() - 1)
    }

    fn grow(&mut self) {
        let len = 2 * self.entries.len();
        let entries = std::mem::replace(&mut self.entries, vec![Entry::default(); len]);
        let epochs = std::mem::replace(&mut self.epochs, vec![Epoch::default(); len]);
        for (entry, epoch) in entries.into_iter().zip(epochs) {
            if entry.key() != 0 {
                let at = self.place(entry.key()); // keys that had a place each still do
                (self.entries[at], self.epochs[at]) = (entry, epoch);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::PlanPool;
    use crate::planner::Planner;
    use crate::walk::Marks;

    fn is_current(table: &Table, key: u64) -> bool {
        let entry = table.entries[table.place(key)];
        entry.stamp == key | table.view().generation
    }

    #[test]
    fn an_old_stamp_never_becomes_current_again() {
        let mut pool = PlanPool::default();
        let plan = pool.share(&mut Planner::new(Marks::of::<()>()));
        let mut table = Table::new(64);
        table.advance(1);
        assert_eq!(table.store(7, Epoch::default(), plan), None);
        assert!(is_current(&table, 7));
        for version in 2..200_000 {
            table.advance(version);
            assert!(!is_current(&table, 7), "version {version}");
        }
        assert_eq!(table.confirm(7, Epoch::default()), Some(plan));
        assert!(is_current(&table, 7));
    }

    #[test]
    fn a_key_without_identity_is_never_kept() {
        let mut pool = PlanPool::default();
        let plan = pool.share(&mut Planner::new(Marks::of::<()>()));
        let mut table = Table::new(64);
        assert_eq!(table.store(0, Epoch::default(), plan), Some(plan));
        assert_eq!(table.confirm(0, Epoch::default()), None);
        assert!(!is_current(&table, 0));
    }
}
