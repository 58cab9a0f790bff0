//! A bounded cache of what topics match.
//!
//! Entries are looked up by one hash of the topic and are valid as long as the epoch of their topic stands.
//! Bounded in entries and in bytes; the hand of a clock finds the victim. A topic gets in only on its second miss
//! within a while (a filter of fingerprints remembers the first): a sweep over very many topics then neither throws
//! out the busy ones nor pays for storing what is not asked again.

use crate::epoch::{Epoch, Epochs, Stripes};
use foldhash::fast::RandomState;
use hashbrown::HashTable;
use std::hash::BuildHasher;

/// How large a [`TopicCache`] may grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheLimits {
    /// Topics. At least one is kept.
    pub entries: usize,
    /// Bytes of topics and values ([`Weigh`]), each with a fixed part for the entry itself.
    pub bytes: usize,
}

impl Default for CacheLimits {
    /// 65,536 topics, 16 MiB.
    fn default() -> Self {
        CacheLimits {
            entries: 1 << 16,
            bytes: 16 << 20,
        }
    }
}

/// Bytes that a cached value has on the heap, its own share where it is shared.
pub trait Weigh {
    /// Bytes beyond `size_of::<Self>()`.
    fn heap_bytes(&self) -> usize;
}

impl<T> Weigh for Vec<T> {
    fn heap_bytes(&self) -> usize {
        self.capacity() * size_of::<T>()
    }
}

impl<T> Weigh for Box<[T]> {
    fn heap_bytes(&self) -> usize {
        size_of_val::<[T]>(self)
    }
}

impl<T> Weigh for std::sync::Arc<[T]> {
    /// Counted whole for every holder, so that the limit also holds when nothing is shared.
    fn heap_bytes(&self) -> usize {
        size_of_val::<[T]>(self) + 2 * size_of::<usize>()
    }
}

impl<T> Weigh for std::rc::Rc<[T]> {
    /// Counted whole for every holder, so that the limit also holds when nothing is shared.
    fn heap_bytes(&self) -> usize {
        size_of_val::<[T]>(self) + 2 * size_of::<usize>()
    }
}

/// Places for fingerprints of topics at first.
const SEEN_MIN: usize = 256;

/// What a cache has done and holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheStats {
    /// Look-ups answered from the cache.
    pub hits: u64,
    /// Look-ups of topics that were not there.
    pub misses: u64,
    /// Look-ups of topics that were there with a result that no longer held.
    pub stale: u64,
    /// Topics thrown out for others.
    pub evicted: u64,
    /// Topics held now.
    pub entries: usize,
    /// Bytes held now, as the limit counts them.
    pub bytes: usize,
}

struct Entry<V> {
    topic: String,
    stripes: Stripes,
    epoch: Epoch,
    /// Asked for since the hand last came by.
    used: bool,
    value: V,
}

/// Bounded cache from topic to what it matches. See the module for how victims are found.
pub struct TopicCache<V> {
    entries: Vec<Entry<V>>,
    by_topic: HashTable<u32>,
    hasher: RandomState,
    limits: CacheLimits,
    bytes: usize,
    hand: usize,
    /// The entry that was asked for last.
    last: usize,
    /// Whether it was asked for twice in a row: then it is looked at first, since publishers repeat themselves.
    repeats: bool,
    /// Fingerprints of topics that missed once.
    seen: Vec<[u8; 2]>,
    /// Holds the answer for a topic that was not let in.
    guest: Option<V>,
    stats: CacheStats,
}

impl<V: Weigh> TopicCache<V> {
    /// An empty cache; memory is taken as it fills.
    #[must_use]
    pub fn new(limits: CacheLimits) -> Self {
        let entries = limits.entries.clamp(1, u32::MAX as usize);
        TopicCache {
            entries: Vec::new(),
            by_topic: HashTable::new(),
            hasher: RandomState::default(),
            limits: CacheLimits {
                entries,
                bytes: limits.bytes,
            },
            bytes: 0,
            hand: 0,
            last: 0,
            repeats: false,
            seen: Vec::new(),
            guest: None,
            stats: CacheStats::default(),
        }
    }

    /// What `topic` matches: the cached value if its epoch still stands, else what `make` returns. A hit costs
    /// one hash of the topic and one comparison with it; a topic that is asked for again and again only the comparison.
    ///
    /// All calls on one cache must name the same `epochs`: stripes of another source mean nothing.
    #[inline]
    pub fn get_or_insert_with(
        &mut self,
        topic: &str,
        epochs: &impl Epochs,
        make: impl FnOnce() -> V,
    ) -> &V {
        let entries = &self.entries;
        let last = entries.get(self.last);
        let again = self.repeats && last.is_some_and(|entry| entry.topic == topic);
        if !again {
            let hash = self.hasher.hash_one(topic);
            let found = self
                .by_topic
                .find(hash, |&at| entries[at as usize].topic == topic);
            let Some(&at) = found else {
                return self.fill(hash, topic, epochs, make);
            };
            self.repeats = self.last == at as usize;
            self.last = at as usize;
        }
        let at = self.last;
        let entry = &mut self.entries[at];
        entry.used = true;
        let epoch = epochs.at(entry.stripes);
        if entry.epoch != epoch {
            return self.refresh(at, epoch, make());
        }
        self.stats.hits += 1;
        &self.entries[at].value
    }

    /// Puts a new value in the place of one whose epoch has gone by.
    #[cold]
    fn refresh(&mut self, at: usize, epoch: Epoch, value: V) -> &V {
        self.stats.stale += 1;
        let entry = &mut self.entries[at];
        let bytes = self.bytes - entry.value.heap_bytes() + value.heap_bytes();
        if bytes > self.limits.bytes {
            self.remove(at);
            return self.guest.insert(value);
        }
        self.bytes = bytes;
        entry.epoch = epoch;
        entry.value = value;
        &self.entries[at].value
    }

    #[cold]
    fn fill(
        &mut self,
        hash: u64,
        topic: &str,
        epochs: &impl Epochs,
        make: impl FnOnce() -> V,
    ) -> &V {
        self.stats.misses += 1;
        let stripes = epochs.stripes(topic);
        // Before the match: a change in between then makes the entry stale rather than wrong.
        let epoch = epochs.at(stripes);
        let value = make();
        let bytes = weight::<V>(topic.len(), value.heap_bytes());
        if !self.seen_before(hash) || bytes > self.limits.bytes {
            return self.guest.insert(value);
        }
        while self.bytes + bytes > self.limits.bytes || self.entries.len() >= self.limits.entries {
            self.evict();
        }
        self.bytes += bytes;
        let at = self.entries.len();
        self.entries.push(Entry {
            topic: topic.to_owned(),
            stripes,
            epoch,
            used: false,
            value,
        });
        let (entries, hasher) = (&self.entries, &self.hasher);
        self.by_topic.insert_unique(hash, at as u32, |&at| {
            hasher.hash_one(entries[at as usize].topic.as_str())
        });
        &self.entries[at].value
    }

    /// Whether `hash` missed not long ago; notes that it has now. Each place remembers two, so that two busy topics of one
    /// place do not keep each other out.
    fn seen_before(&mut self, hash: u64) -> bool {
        let most = self.limits.entries.next_power_of_two().clamp(2, 1 << 20) / 2;
        if self.seen.is_empty() || self.seen.len() < most && self.stats.misses > self.many() {
            // Small until there are misses to remember; what was remembered misses once more.
            let size = (4 * self.seen.len()).max(SEEN_MIN).min(most);
            self.seen = vec![[0; 2]; size];
        }
        let size = self.seen.len();
        let mark = (hash >> 56) as u8 | 1;
        let place = &mut self.seen[hash as usize & (size - 1)];
        let before = place.contains(&mark);
        if !before {
            // Either of the two, as if by chance: with the older one three topics in turn would never get in.
            let either = self.stats.misses.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 63;
            place[either as usize] = mark;
        }
        before
    }

    /// Misses that the places for fingerprints are enough for.
    fn many(&self) -> u64 {
        2 * self.seen.len() as u64
    }

    /// Throws out the next entry that was not asked for since the hand last came by. Two rounds at most.
    fn evict(&mut self) {
        loop {
            self.hand = if self.hand >= self.entries.len() {
                0
            } else {
                self.hand
            };
            let entry = &mut self.entries[self.hand];
            if !std::mem::take(&mut entry.used) {
                break;
            }
            self.hand += 1;
        }
        self.remove(self.hand);
        self.stats.evicted += 1;
    }

    fn remove(&mut self, at: usize) {
        self.unlink(at);
        let last = self.entries.len() - 1;
        if at != last {
            let hash = self.hasher.hash_one(self.entries[last].topic.as_str());
            *self
                .by_topic
                .find_mut(hash, |&i| i as usize == last)
                .expect("every entry is in the table") = at as u32;
        }
        let gone = self.entries.swap_remove(at);
        self.bytes -= weight::<V>(gone.topic.len(), gone.value.heap_bytes());
    }

    fn unlink(&mut self, at: usize) {
        let hash = self.hasher.hash_one(self.entries[at].topic.as_str());
        self.by_topic
            .find_entry(hash, |&i| i as usize == at)
            .expect("every entry is in the table")
            .remove();
    }

    /// Forgets everything but the counters.
    pub fn clear(&mut self) {
        self.entries.clear();
        self.by_topic.clear();
        self.guest = None;
        self.bytes = 0;
        self.hand = 0;
    }

    /// Counters and size.
    #[must_use]
    pub fn stats(&self) -> CacheStats {
        CacheStats {
            entries: self.entries.len(),
            bytes: self.bytes,
            ..self.stats
        }
    }
}

/// Bytes that an entry counts for: topic, value, the entry and its place in the table.
fn weight<V>(topic: usize, heap: usize) -> usize {
    topic + heap + size_of::<Entry<V>>() + 8
}
