//! The matcher of one owner: the trie with its epochs.

use crate::epoch::{COUNTERS, Epoch, Epochs, Stripes, Striping, sum};
use crate::trie::Trie;
use crate::walk::Visited;
use std::hash::Hash;

/// What an insertion did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Inserted<S> {
    /// The filter had no equal subscriber.
    New,
    /// An equal subscriber was there and is replaced; this is the old one.
    Replaced(S),
}

/// What the filters of a matcher are made of: see the crate's documentation for what each takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Parts {
    /// Nodes of the trie, the root not counted.
    pub nodes: usize,
    /// Levels of tails of two or more.
    pub tail_levels: usize,
    /// Distinct level texts.
    pub texts: usize,
    /// Bytes of those of more than 24 bytes.
    pub long_text_bytes: usize,
}

/// Topic filters and their subscribers, for one owner. See the crate's documentation for rules, cost, memory.
///
/// `S` should be small: it is stored by value, and copied.
#[derive(Clone)]
pub struct Matcher<S> {
    trie: Trie<S>,
    striping: Striping,
    counters: Box<[u64; COUNTERS]>,
}

impl<S: Copy + Eq + Hash> Default for Matcher<S> {
    fn default() -> Self {
        Matcher::new()
    }
}

impl<S: Copy + Eq + Hash> Matcher<S> {
    /// A matcher without filters. Allocates 8 KiB for the epochs.
    #[must_use]
    pub fn new() -> Self {
        Matcher {
            trie: Trie::default(),
            striping: Striping::default(),
            counters: Box::new([0; COUNTERS]),
        }
    }

    /// Adds `subscriber` to `filter`, in place of an equal one. Linear in the levels of the filter.
    pub fn insert(&mut self, filter: &str, subscriber: S) -> Inserted<S> {
        self.touch(filter);
        match self.trie.insert(filter, subscriber) {
            None => Inserted::New,
            Some(old) => Inserted::Replaced(old),
        }
    }

    /// Removes the subscriber of `filter` that equals `subscriber`, and returns it. Linear in the levels of
    /// the filter. Text and nodes that nothing else needs are freed for reuse.
    pub fn remove(&mut self, filter: &str, subscriber: &S) -> Option<S> {
        let removed = self.trie.remove(filter, subscriber);
        if removed.is_some() {
            self.touch(filter);
        }
        removed
    }

    /// Calls `found` for each subscriber of each filter that matches `topic`: once for each such filter, in
    /// the same order as long as nothing changes. No allocation up to 16 levels.
    #[inline]
    pub fn for_each_match<'a>(&'a self, topic: &str, mut found: impl FnMut(&'a S)) -> Visited {
        self.for_each_list(topic, |list| list.iter().for_each(&mut found))
    }

    /// Like [`for_each_match`](Self::for_each_match), with all subscribers of a matching filter at once;
    /// no list is empty.
    #[inline]
    pub fn for_each_list<'a>(&'a self, topic: &str, found: impl FnMut(&'a [S])) -> Visited {
        self.trie.for_each_list(topic, found)
    }

    /// Calls `found` with each filter and its subscribers, in no order that is promised.
    pub fn for_each_filter(&self, found: impl FnMut(&str, &[S])) {
        self.trie.for_each_filter(found);
    }

    /// The subscribers of exactly this filter, in no order that is promised.
    #[must_use]
    pub fn subscribers(&self, filter: &str) -> &[S] {
        self.trie.subscribers(filter)
    }

    /// Filters with at least one subscriber.
    #[must_use]
    pub fn filters(&self) -> usize {
        self.trie.filters()
    }

    /// Subscribers over all filters.
    #[must_use]
    pub fn len(&self) -> usize {
        self.trie.subscriptions()
    }

    /// Whether there is no filter.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Nodes of the trie, the root not counted.
    #[must_use]
    pub fn nodes(&self) -> usize {
        self.trie.nodes.len()
    }

    /// What there is now, without what was freed for reuse. In constant time.
    #[must_use]
    pub fn parts(&self) -> Parts {
        Parts {
            nodes: self.nodes(),
            tail_levels: self.trie.tails.levels(),
            texts: self.trie.tokens.len(),
            long_text_bytes: self.trie.tokens.long(),
        }
    }

    /// Asserts the invariants of the trie; linear in what is stored, for tests.
    ///
    /// # Panics
    /// When one is broken.
    #[doc(hidden)]
    pub fn check(&self) {
        self.trie.check();
    }

    fn touch(&mut self, filter: &str) {
        let counter = &mut self.counters[self.striping.of_filter(filter)];
        *counter = counter.wrapping_add(1);
    }
}

impl<S> Epochs for Matcher<S> {
    fn stripes(&self, topic: &str) -> Stripes {
        self.striping.of_topic(topic)
    }

    #[inline]
    fn at(&self, stripes: Stripes) -> Epoch {
        sum(stripes, |at| self.counters[at])
    }
}
