//! What one thread keeps for one router: its presence, its counters, and its cache of plans.
//!
//! The cache is bounded in keys by its table, and in bytes of the plans behind it: when they are too many, all are
//! dropped and made anew.
//! Nothing here is written by two threads.
#![allow(unsafe_code)]

use crate::key::Key;
use crate::plan::{PlanPool, PlanRef};
use crate::planner::Planner;
use crate::presence::{Barrier, Presence};
use crate::table::{Table, View};
use crate::walk::Marks;
use router::{Epochs, Reader};
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

/// The part that only the owner touches.
struct Private {
    table: Table,
    pool: PlanPool,
    planner: Planner,
    reader: Reader<u32>,
    /// Replaced within a post: an outer post may still be walking them.
    garbage: Vec<PlanRef>,
    bytes_max: usize,
}

/// Counters that their owner adds to by a load and a store, and anyone reads.
#[derive(Default)]
#[repr(C)]
pub(crate) struct Counters {
    pub(crate) hits: AtomicU64,
    pub(crate) nested: AtomicU64,
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

/// Alone on its cache lines (two: neighbours are fetched in pairs), and what each post touches is on the first.
#[repr(C, align(128))]
pub(crate) struct Record {
    presence: Presence,
    view: Cell<View>,
    pub(crate) counters: Counters,
    /// Its thread has ended.
    left: AtomicBool,
    private: UnsafeCell<Private>,
}

const _: () = assert!(
    std::mem::offset_of!(Record, counters.hits) < 64,
    "a post touches one line of its record"
);

// SAFETY: `presence`, `counters` and `left` are atomics. `view` and `private` are touched by the owning thread
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
    pub(crate) fn new(
        barrier: Barrier,
        reader: Reader<u32>,
        limits: Limits,
        marks: Marks,
    ) -> Record {
        let table = Table::new(limits.keys);
        let view = Cell::new(table.view());
        let private = Private {
            table,
            pool: PlanPool::default(),
            planner: Planner::new(marks),
            reader,
            garbage: Vec::new(),
            bytes_max: limits.bytes,
        };
        Record {
            presence: Presence::new(barrier),
            view,
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
        let view = self.view.get();
        // SAFETY: the mask keeps the index within the entries, which change only on this thread, elsewhere.
        let entry = unsafe { &*view.entries.add(key as usize & view.mask) };
        // One comparison for both, and none for the plan: the processor's width is what small posts are bound by.
        let differs = (view.version ^ version) | (entry.stamp ^ key ^ view.generation);
        (differs == 0).then(|| {
            // SAFETY: stamps with a generation, which is never 0, are set together with a plan.
            unsafe { entry.plan.unwrap_unchecked() }
        })
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
        describe: impl FnMut(&mut Planner, u32),
    ) -> PlanRef {
        // SAFETY: only the owner gets here, and nothing below comes back.
        let private = unsafe { &mut *self.private.get() };
        let table = &mut private.table;
        table.advance(version);
        // Read before matching: a change in between makes the result stale, not wrong.
        let epoch = private.reader.epoch(key.as_str());
        let confirmed = table.confirm(key.id(), epoch);
        if let Some(plan) = confirmed {
            add(&self.counters.rechecks, 1);
            self.view.set(table.view());
            return plan;
        }
        add(&self.counters.misses, 1);
        private.collect_garbage(outermost);
        let plan = private.build(key, describe);
        // What goes may be walked by an outer post, or be the very plan that was just made: it waits.
        let gone = private.table.store(key.id(), epoch, plan);
        private.garbage.extend(gone);
        self.view.set(private.table.view());
        let set = |counter: &AtomicU64, to: usize| counter.store(to as u64, Ordering::Relaxed);
        set(&self.counters.plans, private.pool.len());
        set(&self.counters.plan_bytes, private.pool.bytes());
        plan
    }
}

impl Private {
    fn build(&mut self, key: &Key, mut describe: impl FnMut(&mut Planner, u32)) -> PlanRef {
        let planner = &mut self.planner;
        self.reader
            .for_each_match(key.as_str(), |&list| describe(planner, list));
        let plan = self.pool.share(planner);
        if self.pool.bytes() > self.bytes_max {
            self.garbage.extend(self.table.drain());
        }
        plan
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
            Marks::of::<()>(),
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
