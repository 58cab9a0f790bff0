//! What one thread keeps for one router: its presence, its counters, and its cache of plans.
//!
//! The cache is a table in which each key has one place; it doubles when keys meet, up to a limit, so it is
//! bounded in keys, and the plans behind it in bytes: when they are too many, all are dropped and made anew.
//! Nothing here is written by two threads.
#![allow(unsafe_code)]

use crate::key::Key;
use crate::plan::{PlanBuilder, PlanPool, PlanRef};
use crate::presence::{Barrier, Presence};
use crate::walk::End;
use router::{Epoch, Epochs, Reader};
use std::borrow::Borrow;
use std::cell::{Cell, UnsafeCell};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Limits of the cache of one thread.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Keys: a power of two.
    pub(crate) keys: usize,
    /// Bytes of plans.
    pub(crate) bytes: usize,
}

/// A key's place: what it matched, and until when that is known to hold.
#[derive(Clone, Copy, Default)]
#[repr(align(32))]
struct Entry {
    key: u64,
    /// The router's version at which `plan` was last known to hold.
    version: u64,
    epoch: Epoch,
    plan: Option<PlanRef>,
}

const _: () = assert!(size_of::<Entry>() == 32, "two entries a cache line");
const KEYS_MIN: usize = 64;

/// The part that only the owner touches.
struct Private {
    entries: Vec<Entry>,
    pool: PlanPool,
    builder: PlanBuilder,
    reader: Reader<u32>,
    /// Replaced within a post: an outer post may still be walking them.
    garbage: Vec<PlanRef>,
    limits: Limits,
}

/// Counters that their owner adds to by a load and a store, and anyone reads.
#[derive(Default)]
pub(crate) struct Counters {
    pub(crate) nested: AtomicU64,
    pub(crate) hits: AtomicU64,
    pub(crate) misses: AtomicU64,
    pub(crate) rechecks: AtomicU64,
    pub(crate) panics: AtomicU64,
    pub(crate) plans: AtomicU64,
    pub(crate) plan_bytes: AtomicU64,
}

/// Adds to a counter that only the calling thread writes.
#[inline]
pub(crate) fn add(counter: &AtomicU64, more: u64) {
    counter.store(
        counter.load(Ordering::Relaxed).wrapping_add(more),
        Ordering::Relaxed,
    );
}

#[repr(C)]
pub(crate) struct Record {
    presence: Presence,
    table: Cell<Table>,
    pub(crate) counters: Counters,
    /// Its thread has ended.
    left: AtomicBool,
    private: UnsafeCell<Private>,
}

/// Where the entries are, for the hot path. A copy of what `Private::entries` says.
#[derive(Clone, Copy)]
struct Table {
    entries: *const Entry,
    mask: usize,
}

// SAFETY: `presence`, `counters` and `left` are atomics. `table` and `private` are touched by the owning thread
// only, or, when the last reference goes, by whoever drops it; what they own may be dropped on any thread.
unsafe impl Sync for Record {}
// SAFETY: as above.
unsafe impl Send for Record {}

impl Borrow<Presence> for Record {
    fn borrow(&self) -> &Presence {
        &self.presence
    }
}

impl Record {
    pub(crate) fn new(barrier: Barrier, reader: Reader<u32>, limits: Limits, end: End) -> Record {
        let entries = vec![Entry::default(); KEYS_MIN.min(limits.keys)];
        let table = Cell::new(Table {
            entries: entries.as_ptr(),
            mask: entries.len() - 1,
        });
        let private = Private {
            entries,
            pool: PlanPool::default(),
            builder: PlanBuilder::new(end),
            reader,
            garbage: Vec::new(),
            limits,
        };
        Record {
            presence: Presence::new(barrier),
            table,
            counters: Counters::default(),
            left: AtomicBool::new(false),
            private: UnsafeCell::new(private),
        }
    }

    #[inline]
    pub(crate) fn presence(&self) -> &Presence {
        &self.presence
    }

    pub(crate) fn has_left(&self) -> bool {
        self.left.load(Ordering::Acquire)
    }

    pub(crate) fn leave_for_good(&self) {
        self.left.store(true, Ordering::Release);
    }

    /// The plan of `key` if it is known to hold at `version`.
    ///
    /// # Safety
    /// The caller is the owning thread.
    #[inline]
    pub(crate) unsafe fn cached(&self, key: u64, version: u64) -> Option<PlanRef> {
        let table = self.table.get();
        // SAFETY: the mask keeps the index within the entries, which change only on this thread, elsewhere.
        let entry = unsafe { &*table.entries.add(key as usize & table.mask) };
        if entry.key == key && entry.version == version {
            entry.plan
        } else {
            None
        }
    }

    /// Finds out what `key` matches, from the cache if nothing that concerns it has changed.
    ///
    /// `describe` adds one list to the builder.
    ///
    /// # Safety
    /// The caller is the owning thread and present; `version` was read after it became so. `describe` does not
    /// come back to this record. `outermost` is true only if no plan of this record is being walked.
    #[cold]
    pub(crate) unsafe fn look_up(
        &self,
        key: &Key,
        version: u64,
        outermost: bool,
        describe: impl FnMut(&mut PlanBuilder, u32),
    ) -> PlanRef {
        // SAFETY: only the owner gets here, and nothing below comes back.
        let private = unsafe { &mut *self.private.get() };
        // Read before matching: a change in between makes the result stale, not wrong.
        let epoch = private.reader.epoch(key.as_str());
        let at = key.id() as usize & (private.entries.len() - 1);
        let entry = &mut private.entries[at];
        if let Some(plan) = entry
            .plan
            .filter(|_| entry.key == key.id() && entry.epoch == epoch)
        {
            entry.version = version;
            add(&self.counters.rechecks, 1);
            return plan;
        }
        add(&self.counters.misses, 1);
        private.collect_garbage(outermost);
        let plan = private.build(key, describe);
        private.store(Entry {
            key: key.id(),
            version,
            epoch,
            plan: Some(plan),
        });
        self.table.set(Table {
            entries: private.entries.as_ptr(),
            mask: private.entries.len() - 1,
        });
        self.counters
            .plans
            .store(private.pool.len() as u64, Ordering::Relaxed);
        self.counters
            .plan_bytes
            .store(private.pool.bytes() as u64, Ordering::Relaxed);
        plan
    }
}

impl Private {
    fn build(&mut self, key: &Key, mut describe: impl FnMut(&mut PlanBuilder, u32)) -> PlanRef {
        let builder = &mut self.builder;
        self.reader
            .for_each_match(key.as_str(), |&list| describe(builder, list));
        let plan = self.pool.share(builder);
        if self.pool.bytes() > self.limits.bytes {
            let all = self
                .entries
                .iter_mut()
                .filter_map(|entry| std::mem::take(entry).plan);
            self.garbage.extend(all);
        }
        plan
    }

    /// Puts an entry in its place, making room by growing or by forgetting what is there. The plan that goes
    /// may be walked by an outer post, or be the very one that was just made: it waits.
    fn store(&mut self, entry: Entry) {
        loop {
            let at = entry.key as usize & (self.entries.len() - 1);
            let other = self.entries[at].key;
            if other != 0 && other != entry.key && self.entries.len() < self.limits.keys {
                self.grow();
                continue;
            }
            self.garbage
                .extend(std::mem::replace(&mut self.entries[at], entry).plan);
            return;
        }
    }

    fn grow(&mut self) {
        let mask = 2 * self.entries.len() - 1;
        let old = std::mem::replace(&mut self.entries, vec![Entry::default(); mask + 1]);
        for entry in old {
            if entry.key != 0 {
                self.entries[entry.key as usize & mask] = entry; // keys that had a place each still do
            }
        }
    }

    fn collect_garbage(&mut self, nothing_is_walked: bool) {
        if nothing_is_walked {
            self.garbage
                .drain(..)
                .for_each(|plan| self.pool.release(plan));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use router::SharedMatcher;

    fn record(keys: usize, bytes: usize) -> Record {
        let (_writer, reader) = SharedMatcher::new();
        Record::new(
            Barrier::Fence,
            reader,
            Limits { keys, bytes },
            crate::walk::end::<()>(),
        )
    }

    #[test]
    fn the_table_grows_to_its_limit_and_forgets_the_rest() {
        let record = record(256, 1 << 20);
        let keys: Vec<Key> = (0..1_000)
            .map(|i| Key::new(&format!("k/{i}")).unwrap())
            .collect();
        for key in &keys {
            // SAFETY: this thread owns the record, and no plan is walked.
            unsafe { record.look_up(key, 1, true, |_, _| unreachable!("no list")) };
            // SAFETY: as above.
            assert!(unsafe { record.cached(key.id(), 1) }.is_some());
            // SAFETY: as above.
            let of_another_version = unsafe { record.cached(key.id(), 2) };
            assert!(of_another_version.is_none());
        }
        let is_known = |key: &&Key| {
            // SAFETY: as above.
            unsafe { record.cached(key.id(), 1) }.is_some()
        };
        let known = keys.iter().filter(is_known).count();
        assert_eq!(known, 256);
        assert_eq!(record.counters.misses.load(Ordering::Relaxed), 1_000);
        assert_eq!(
            record.counters.plans.load(Ordering::Relaxed),
            1,
            "all keys share the empty plan"
        );
    }
}
