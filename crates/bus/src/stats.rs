//! Counters. Threads count for themselves; they are summed when asked for.

use crate::inner::{Inner, Records};
use crate::record::Record;
use std::sync::atomic::{AtomicU64, Ordering};

/// What a router has done and holds. Each number is exact once the posts that it counts have ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Messages posted, those within handlers included.
    pub posts: u64,
    /// Handlers called.
    pub hits: u64,
    /// Posts that had to match their key against the filters, because it was new to the thread, had fallen out
    /// of the thread's cache, or something that concerns it had changed.
    pub cache_misses: u64,
    /// Posts that had to look whether a change concerned their key, which it did not.
    pub cache_rechecks: u64,
    /// Calls of handlers that panicked, retained messages included, and handlers that panicked when they were dropped.
    pub panics: u64,
    /// Live subscriptions.
    pub subscriptions: usize,
    /// Filters in the trie, one for each type of handlers; those without subscriptions go after a while.
    pub filters: usize,
    /// Nodes of the trie.
    pub nodes: usize,
    /// Handlers of ended subscriptions that are not dropped yet.
    pub retired: usize,
    /// Distinct match lists in the caches of all threads.
    pub cached_lists: u64,
    /// Bytes of those.
    pub cached_bytes: u64,
    /// Threads that have posted and still run.
    pub threads: usize,
}

impl Stats {
    /// Share of the posts that were answered from a cache, 1 if there were none.
    #[must_use]
    pub fn cache_hit_rate(&self) -> f64 {
        if self.posts == 0 {
            1.0
        } else {
            1.0 - self.cache_misses as f64 / self.posts as f64
        }
    }
}

/// Sums over records.
#[derive(Clone, Copy, Default)]
pub(crate) struct Sums {
    posts: u64,
    hits: u64,
    misses: u64,
    rechecks: u64,
    panics: u64,
}

impl Sums {
    fn add(&mut self, record: &Record) {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let counters = &record.counters;
        self.posts += record.presence().entered() + load(&counters.nested);
        self.hits += load(&counters.hits);
        self.misses += load(&counters.misses);
        self.rechecks += load(&counters.rechecks);
        self.panics += load(&counters.panics);
    }
}

impl Records {
    /// Forgets the records of threads that have ended, but not what they counted.
    pub(crate) fn fold_left(&mut self) {
        let past = &mut self.past;
        self.all.retain(|record| {
            let left = record.has_left();
            if left {
                past.add(record);
            }
            !left
        });
    }
}

impl Inner {
    pub(crate) fn stats(&self) -> Stats {
        let sizes = self.sizes();
        let mut records = self.records.lock().expect("no code panics under this lock");
        records.fold_left();
        let mut sums = records.past;
        records.all.iter().for_each(|record| sums.add(record));
        let cached = |pick: fn(&Record) -> &AtomicU64| -> u64 {
            records
                .all
                .iter()
                .map(|record| pick(record).load(Ordering::Relaxed))
                .sum()
        };
        Stats {
            posts: sums.posts,
            hits: sums.hits,
            cache_misses: sums.misses,
            cache_rechecks: sums.rechecks,
            panics: sums.panics + self.panics.load(Ordering::Relaxed),
            subscriptions: sizes.subscriptions,
            filters: sizes.filters,
            nodes: sizes.nodes,
            retired: sizes.retired,
            cached_lists: cached(|record| &record.counters.plans),
            cached_bytes: cached(|record| &record.counters.plan_bytes),
            threads: records.all.len(),
        }
    }
}
