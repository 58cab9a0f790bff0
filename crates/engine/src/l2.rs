//! L2: filters of this partition to streams, and the cached target lists of topics (M8, M37).
//!
//! What several subscriptions of one session match becomes one target: the highest QoS, the identifiers of all, RETAIN as published
//! if one of them asks for it (v3 [MQTT-3.3.5-1], v5 [MQTT-3.3.4-2], v5 [MQTT-3.3.4-4]). Equal lists are kept once, however
//! many topics have them.

use std::{
    hash::{Hash, Hasher},
    rc::Rc,
    sync::Arc,
};

use courser_contract::{ClientHash, QoS, SubscriptionOptions};
use hashbrown::HashSet;
use router::{CacheLimits, Inserted, Matcher, TopicCache, Visited, Weigh};
use smallvec::SmallVec;

use crate::entry::{IDENTIFIERS_MAX, RetainMark, SettledAs, Target, TargetList};
use crate::state::weight;

/// One subscription in the trie. Equal when it is of the same stream: a filter has each stream once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub(crate) stream: u64,
    /// 0: none.
    pub(crate) identifier: u32,
    pub(crate) qos: QoS,
    pub(crate) no_local: bool,
    pub(crate) retain_as_published: bool,
}

impl Entry {
    /// Of a subscription.
    pub(crate) fn new(stream: u64, options: SubscriptionOptions, identifier: Option<u32>) -> Self {
        Self {
            stream,
            identifier: identifier.unwrap_or(0),
            qos: options.qos,
            no_local: options.no_local,
            retain_as_published: options.retain_as_published,
        }
    }
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.stream == other.stream
    }
}

impl Eq for Entry {}

impl Hash for Entry {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.stream.hash(state);
    }
}

/// Seeded: clients choose what they subscribe to, and with it the lists.
type Seeded = foldhash::fast::RandomState;

/// A resolved list in the cache.
#[derive(Clone, Debug)]
pub(crate) struct Cached(pub(crate) Rc<TargetList>);

impl Weigh for Cached {
    /// The list itself counts where it is pooled.
    fn heap_bytes(&self) -> usize {
        let targets = self.0.targets.as_slice();
        let identifiers = targets.iter().filter_map(|it| it.identifiers.as_deref());
        let identifiers: usize = identifiers.map(size_of_val).sum();
        16 + size_of_val(targets) + identifiers + size_of_val(&*self.0.no_local)
    }
}

#[derive(Clone, Debug)]
struct Pooled(Rc<TargetList>);

impl PartialEq for Pooled {
    fn eq(&self, other: &Self) -> bool {
        self.0.targets == other.0.targets && self.0.no_local == other.0.no_local
    }
}

impl Eq for Pooled {}

impl Hash for Pooled {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.targets.hash(state);
    }
}

/// See the module.
pub(crate) struct L2 {
    matcher: Matcher<Entry>,
    cache: TopicCache<Cached>,
    pool: HashSet<Pooled, Seeded>,
    sweep_at: usize,
    /// Sets whose lists nobody needs any more, to be proposed as dropped.
    unused_sets: Vec<u32>,
    /// Nodes that were visited since somebody asked.
    visited: u64,
}

impl std::fmt::Debug for L2 {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("L2")
            .field("filters", &self.matcher.filters())
            .finish_non_exhaustive()
    }
}

/// Lists in the pool before it is looked through for the first time.
const SWEEP_MIN: usize = 64;
/// Nodes whose visit costs as much as a filter that goes (measured: a session of 9,900 filters took 12 ms to end, 43 ns a node).
const CHANGE: u64 = 28;

/// What a change did to the set of filters that lead to this partition (M38).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FilterChange {
    /// The filter is new here, or nobody here has it any more.
    Changed,
    /// The set of filters is the same.
    Same,
}

impl L2 {
    pub(crate) fn new() -> Self {
        Self {
            matcher: Matcher::new(),
            cache: TopicCache::new(CacheLimits::default()),
            pool: HashSet::default(),
            sweep_at: SWEEP_MIN,
            unused_sets: Vec::new(),
            visited: 0,
        }
    }

    /// Adds a subscription, in place of one of the same stream.
    pub(crate) fn insert(&mut self, filter: &str, entry: Entry) -> FilterChange {
        let new = self.matcher.subscribers(filter).is_empty();
        self.matcher.insert(filter, entry);
        if new {
            FilterChange::Changed
        } else {
            FilterChange::Same
        }
    }

    /// Adds a subscription; false: the stream had one with this filter, which it replaces.
    pub(crate) fn insert_new(&mut self, filter: &str, entry: Entry) -> bool {
        matches!(self.matcher.insert(filter, entry), Inserted::New)
    }

    /// Removes a subscription.
    pub(crate) fn remove(&mut self, filter: &str, stream: u64) -> FilterChange {
        let entry = Entry::new(stream, SubscriptionOptions::default(), None);
        let removed = self.matcher.remove(filter, &entry).is_some();
        if removed && self.matcher.subscribers(filter).is_empty() {
            FilterChange::Changed
        } else {
            FilterChange::Same
        }
    }

    /// Whether a stream has this filter; linear in those that have it.
    pub(crate) fn has_stream(&self, filter: &str, stream: u64) -> bool {
        let entries = self.matcher.subscribers(filter);
        entries.iter().any(|entry| entry.stream == stream)
    }

    /// All filters.
    pub(crate) fn filters(&self) -> Vec<Box<str>> {
        let mut filters = Vec::with_capacity(self.matcher.filters());
        self.matcher
            .for_each_filter(|filter, _| filters.push(filter.into()));
        filters
    }

    /// The targets of a topic for a publisher that none of its subscribers is; `client` says whose a session is.
    #[inline]
    pub(crate) fn targets(
        &mut self,
        topic: &str,
        client: impl Fn(u64) -> Option<ClientHash>,
    ) -> Rc<TargetList> {
        let Self {
            matcher,
            cache,
            pool,
            visited,
            ..
        } = self;
        let cached = cache.get_or_insert_with(topic, matcher, || {
            let (list, nodes) = resolve(matcher, topic, client, None);
            *visited += nodes.0;
            let list = Pooled(Rc::new(list));
            Cached(pool.get_or_insert(list).0.clone())
        });
        let list = cached.0.clone();
        if self.pool.len() >= self.sweep_at {
            self.sweep();
        }
        list
    }

    /// The targets of a topic for a publisher whom some subscriptions with No Local leave out (v5 [MQTT-3.8.3-3]). Not cached.
    pub(crate) fn targets_without(
        &mut self,
        topic: &str,
        client: impl Fn(u64) -> Option<ClientHash>,
        publisher: ClientHash,
    ) -> TargetList {
        let (list, nodes) = resolve(&self.matcher, topic, client, Some(publisher));
        self.visited += nodes.0;
        list.set.set(SettledAs::Passing);
        list
    }

    /// Bytes that all filters take, here and in L1.
    pub(crate) fn filter_bytes(&self) -> u64 {
        let listed = self.matcher.len() - self.matcher.filters();
        weight::of_filters(self.matcher.parts(), listed)
    }

    /// So many filters are written, or go with the end of a session: counted as matches are.
    pub(crate) const fn note_changes(&mut self, filters: usize) {
        self.visited += filters as u64 * CHANGE;
    }

    /// So many topics were looked at for somebody who searches what is retained: counted as nodes of matches are.
    pub(crate) const fn note_looked_at(&mut self, topics: usize) {
        self.visited += topics as u64;
    }

    /// What matches have cost since this was asked last, and what ends of sessions and searches do. A topic whose targets are known costs nothing.
    #[inline]
    pub(crate) fn take_visited(&mut self) -> Visited {
        Visited(std::mem::take(&mut self.visited))
    }

    /// A set that no cached list has: it may be dropped behind the fact that names it.
    pub(crate) fn note_unused(&mut self, set: u32) {
        self.unused_sets.push(set);
    }

    /// Sets that no cached list has any more. Each comes once.
    pub(crate) fn take_unused_sets(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.unused_sets)
    }

    /// Forgets which lists are written as sets: another leader may have dropped them.
    pub(crate) fn forget_sets(&mut self) {
        self.cache.clear();
        self.pool.clear();
        self.unused_sets.clear();
    }

    /// Drops lists that no topic has any more. Runs when the pool has doubled, so it costs a constant per new list.
    fn sweep(&mut self) {
        let unused = &mut self.unused_sets;
        let before = unused.len();
        self.pool.retain(|list| {
            let used = Rc::strong_count(&list.0) > 1;
            if !used && let SettledAs::Set(set) = list.0.set.get() {
                unused.push(set);
            }
            used
        });
        // They go into an entry, and the order of the pool is another one in each run.
        unused[before..].sort_unstable();
        self.sweep_at = (2 * self.pool.len()).max(SWEEP_MIN);
    }

    /// Asserts the invariants of the trie.
    pub(crate) fn check(&self) {
        self.matcher.check();
    }
}

fn resolve(
    matcher: &Matcher<Entry>,
    topic: &str,
    client: impl Fn(u64) -> Option<ClientHash>,
    publisher: Option<ClientHash>,
) -> (TargetList, Visited) {
    let mut matched: SmallVec<[Entry; 16]> = SmallVec::new();
    let mut no_local = Vec::new();
    let visited = matcher.for_each_match(topic, |entry| {
        let own = entry.no_local.then(|| client(entry.stream)).flatten();
        no_local.extend(own);
        if own.is_none() || own != publisher {
            matched.push(*entry);
        }
    });
    no_local.sort_unstable();
    no_local.dedup();
    matched.sort_unstable_by_key(|entry| (entry.stream, entry.identifier));
    let mut targets = Vec::new();
    for same in matched.chunk_by(|a, b| a.stream == b.stream) {
        targets.push(merge(same));
    }
    // What is stored comes first, what is only routed after it.
    targets.sort_by_key(|target| target.qos == QoS::AtMostOnce);
    let stored = targets.partition_point(|target| target.qos > QoS::AtMostOnce);
    (TargetList::new(targets, stored, no_local.into()), visited)
}

fn merge(same: &[Entry]) -> Target {
    let mut identifiers: SmallVec<[u32; 4]> = same
        .iter()
        .map(|entry| entry.identifier)
        .filter(|&identifier| identifier != 0)
        .collect();
    // Two subscriptions with one identifier give it twice: v5 section 3.3.4.
    identifiers.truncate(IDENTIFIERS_MAX);
    let keep = same.iter().any(|entry| entry.retain_as_published);
    Target {
        stream: same[0].stream,
        qos: same.iter().map(|entry| entry.qos).max().unwrap_or_default(),
        retain: if keep {
            RetainMark::Keep
        } else {
            RetainMark::Clear
        },
        identifiers: (!identifiers.is_empty()).then(|| Arc::from(identifiers.as_slice())),
    }
}

#[cfg(test)]
mod tests {
    use std::hash::BuildHasher as _;

    use super::*;

    #[test]
    fn i10_nobody_can_choose_subscriptions_whose_lists_collide() {
        let list = TargetList::new(Vec::new(), 0, Box::default());
        let list = Pooled(Rc::new(list));
        let hash = |l2: &L2| l2.pool.hasher().hash_one(&list);
        assert_ne!(hash(&L2::new()), hash(&L2::new()));
    }

    /// I9: what one delivery says of subscriptions is bounded.
    #[test]
    fn of_more_identifiers_than_a_delivery_carries_the_lowest_are_kept() {
        let entry = |identifier| Entry {
            stream: 1,
            identifier,
            qos: QoS::AtLeastOnce,
            no_local: false,
            retain_as_published: false,
        };
        let all: Vec<Entry> = (1..20_000).map(entry).collect();
        let kept = merge(&all).identifiers.expect("there are some");
        let lowest: Vec<u32> = (1..=IDENTIFIERS_MAX as u32).collect();
        assert_eq!(&kept[..], lowest);
    }
}
