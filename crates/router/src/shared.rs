//! One writer, many readers that take no lock.
//!
//! Two tries ([`left_right`](crate::left_right)): the writer applies a batch to the one that nobody reads and
//! makes it the one that everybody reads; the other gets the same batch before the next one is published. So a
//! change is applied twice (two inserts, and one text copied), memory is twice that of a matcher, and readers
//! always see whole batches. Epochs are shared, and move after the batch can be seen: a result that a reader
//! tags with the epoch it read *before* matching is never newer than it claims and never valid for too long.

use crate::epoch::{COUNTERS, Epoch, Epochs, Stripes, Striping, sum};
use crate::left_right::{ReadSide, WriteSide, left_right};
use crate::trie::{Known, Levels, Trie};
use crate::walk::Visited;
use std::fmt;
use std::hash::Hash;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

struct Shared {
    striping: Striping,
    counters: [AtomicU64; COUNTERS],
}

#[derive(Clone, Copy)]
enum Action<S> {
    Insert(S),
    Remove(S),
}

struct Change<S> {
    filter: Box<str>,
    action: Action<S>,
    /// Where the filter was found when the change was applied to a copy: the other one then needs no search.
    found: Option<(Levels, Known)>,
}

impl<S: Copy + Eq + Hash> Change<S> {
    fn new(filter: &str, action: Action<S>) -> Self {
        Change {
            filter: filter.into(),
            action,
            found: None,
        }
    }

    fn apply(&mut self, trie: &mut Trie<S>) {
        let (levels, known) = self.found.get_or_insert_with(|| trie.locate(&self.filter));
        match &self.action {
            Action::Insert(s) => {
                trie.insert_located(&self.filter, levels, *known, *s);
            }
            Action::Remove(s) => {
                trie.remove_located(*known, s);
            }
        }
    }
}

/// Where a filter is, or would be, in what a [`Writer`] will publish next; see [`Writer::locate`].
pub struct Spot {
    filter: Box<str>,
    levels: Levels,
    known: Known,
    /// Changes that the writer had made by then.
    changes: u64,
}

impl Spot {
    /// The filter.
    #[must_use]
    pub fn filter(&self) -> &str {
        &self.filter
    }
}

/// A reader still looks at the trie that the writer needs: try again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Busy;

impl fmt::Display for Busy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a reader still looks at the matcher's other copy")
    }
}

impl std::error::Error for Busy {}

/// A matcher for one writer and many readers. This type only makes them: see [`SharedMatcher::new`].
pub struct SharedMatcher<S>(std::marker::PhantomData<S>);

impl<S: Copy + Eq + Hash> SharedMatcher<S> {
    /// The writer of an empty matcher, and its first reader (clone it for more).
    #[must_use]
    #[allow(clippy::new_ret_no_self)]
    pub fn new() -> (Writer<S>, Reader<S>) {
        let (write, read) = left_right(Trie::default(), Trie::default());
        let counters = std::array::from_fn(|_| AtomicU64::new(0));
        let shared = Arc::new(Shared {
            striping: Striping::default(),
            counters,
        });
        let reader = Reader {
            shared: Arc::clone(&shared),
            side: read,
        };
        (
            Writer {
                shared,
                side: write,
                gathered: Vec::new(),
                lagging: Vec::new(),
                changes: 0,
            },
            reader,
        )
    }
}

/// Gathers changes, and publishes them.
pub struct Writer<S> {
    shared: Arc<Shared>,
    side: WriteSide<Trie<S>>,
    /// Not yet published.
    gathered: Vec<Change<S>>,
    /// Published, but not yet applied to the copy that was active before.
    lagging: Vec<Change<S>>,
    /// Times that the copies were changed.
    changes: u64,
}

impl<S: Copy + Eq + Hash> Writer<S> {
    /// Adds `subscriber` to `filter` in place of an equal one, with the next [`publish`](Self::publish).
    pub fn insert(&mut self, filter: &str, subscriber: S) {
        self.gathered
            .push(Change::new(filter, Action::Insert(subscriber)));
    }

    /// Removes the subscriber of `filter` that equals `subscriber`, with the next [`publish`](Self::publish).
    pub fn remove(&mut self, filter: &str, subscriber: &S) {
        self.gathered
            .push(Change::new(filter, Action::Remove(*subscriber)));
    }

    /// Changes that wait to be published.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.gathered.len()
    }

    /// Publishes what was gathered, in its order: matches that start after this call see all of it.
    ///
    /// # Errors
    /// [`Busy`] if a match that started before the last publish still runs; nothing is lost, call again.
    pub fn try_publish(&mut self) -> Result<(), Busy> {
        if self.gathered.is_empty() {
            return Ok(());
        }
        if !self.side.drained() {
            return Err(Busy);
        }
        self.changes += 1;
        let (lagging, batch) = (&mut self.lagging, &mut self.gathered);
        self.side.switch(|trie| {
            lagging.drain(..).for_each(|mut lag| lag.apply(trie));
            batch.iter_mut().for_each(|change| change.apply(trie));
        });
        std::mem::swap(lagging, batch);
        self.lagging
            .iter()
            .for_each(|change| self.touch(&change.filter));
        Ok(())
    }

    /// Finds a filter, after publishing what was gathered; `wait` is called as by [`publish`](Self::publish). What
    /// is found is good until the next change: [`insert_at`](Self::insert_at) then does not search again, which
    /// makes it cheaper than [`subscribers`](Self::subscribers) and [`insert`](Self::insert) for who needs both.
    pub fn locate(&mut self, filter: Box<str>, mut wait: impl FnMut()) -> Spot {
        self.publish(&mut wait);
        while !self.side.drained() {
            wait();
        }
        let lagging = &mut self.lagging;
        self.side
            .prepare(|trie| lagging.drain(..).for_each(|mut lag| lag.apply(trie)));
        let (levels, known) = self.side.inactive().locate(&filter);
        Spot {
            filter,
            levels,
            known,
            changes: self.changes,
        }
    }

    /// The subscribers of the filter that was found.
    ///
    /// # Panics
    /// If there was a change since.
    #[must_use]
    pub fn subscribers_at(&self, spot: &Spot) -> &[S] {
        self.check(spot);
        self.side.inactive().subscribers_of(spot.known)
    }

    /// Adds `subscriber` to the filter that was found, in place of an equal one, and publishes that. Never waits.
    ///
    /// # Panics
    /// If there was a change since.
    pub fn insert_at(&mut self, spot: Spot, subscriber: S) {
        self.check(&spot);
        self.changes += 1;
        let mut change = Change {
            filter: spot.filter,
            action: Action::Insert(subscriber),
            found: Some((spot.levels, spot.known)),
        };
        self.side.switch(|trie| change.apply(trie));
        self.touch(&change.filter);
        self.lagging.push(change);
    }

    fn check(&self, spot: &Spot) {
        assert!(
            spot.changes == self.changes && self.gathered.is_empty(),
            "a spot is used before the next change"
        );
    }

    /// Moves the epoch of what `filter` concerns, at once and without a change: for callers who keep something
    /// behind a subscriber that results depend on.
    pub fn touch(&self, filter: &str) {
        let counter = &self.shared.counters[self.shared.striping.of_filter(filter)];
        // Release: who reads the new epoch also sees what was done before, and finds the copy active that was
        // switched to. Only the writer adds.
        counter.store(
            counter.load(Ordering::Relaxed).wrapping_add(1),
            Ordering::Release,
        );
    }

    /// [`try_publish`](Self::try_publish) until it succeeds, calling `wait` in between (spin, yield, park:
    /// a match takes about a microsecond unless its thread was put aside). Must not be called from within a
    /// match of the same thread: that would wait for itself.
    pub fn publish(&mut self, mut wait: impl FnMut()) {
        while self.try_publish().is_err() {
            wait();
        }
    }

    /// Brings the copy that nobody reads up to date and drops the changes kept for it, for the memory they
    /// take; otherwise the next publish does it.
    ///
    /// # Errors
    /// [`Busy`] as for [`try_publish`](Self::try_publish).
    pub fn try_settle(&mut self) -> Result<(), Busy> {
        if self.lagging.is_empty() {
            return Ok(());
        }
        if !self.side.drained() {
            return Err(Busy);
        }
        self.changes += 1;
        let mut lagging = std::mem::take(&mut self.lagging);
        // The other copy is complete after this, so it may as well be the active one from here on.
        self.side.switch(|trie| {
            lagging.iter_mut().for_each(|change| change.apply(trie));
        });
        Ok(())
    }

    /// A reader more. Takes a lock that only this and dropping a reader take.
    #[must_use]
    pub fn reader(&self) -> Reader<S> {
        Reader {
            shared: Arc::clone(&self.shared),
            side: self.side.reader(),
        }
    }

    /// The published subscribers of exactly this filter.
    #[must_use]
    pub fn subscribers(&self, filter: &str) -> &[S] {
        self.side.active().subscribers(filter)
    }

    /// Calls `found` with each published filter and its subscribers, in no order that is promised.
    pub fn for_each_filter(&self, found: impl FnMut(&str, &[S])) {
        self.side.active().for_each_filter(found);
    }

    /// Calls `found` with those published filters among the next `count` places whose subscribers are `wanted`,
    /// and returns where to go on (0: from the start again). For passing over everything in bounded steps;
    /// what changes in between may be met twice or missed.
    pub fn scan(
        &self,
        from: u32,
        count: u32,
        wanted: impl Fn(&[S]) -> bool,
        found: impl FnMut(&str, &[S]),
    ) -> u32 {
        self.side.active().scan(from, count, wanted, found)
    }

    /// Published filters.
    #[must_use]
    pub fn filters(&self) -> usize {
        self.side.active().filters()
    }

    /// Published subscribers over all filters.
    #[must_use]
    pub fn len(&self) -> usize {
        self.side.active().subscriptions()
    }

    /// Whether nothing is published.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Nodes of the published trie, the root not counted.
    #[must_use]
    pub fn nodes(&self) -> usize {
        self.side.active().nodes.len()
    }
}

/// Matches what was published. One a thread: it can be sent, but not shared.
pub struct Reader<S> {
    shared: Arc<Shared>,
    side: ReadSide<Trie<S>>,
}

impl<S: Copy + Eq + Hash> Reader<S> {
    /// Like [`Matcher::for_each_match`](crate::Matcher::for_each_match), on what is published when the call
    /// starts. Wait-free: no lock, and no write but to this reader's own cache line. Keep `found` short: the
    /// writer's publish after the next waits for it.
    pub fn for_each_match(&self, topic: &str, mut found: impl FnMut(&S)) -> Visited {
        self.for_each_list(topic, |list| list.iter().for_each(&mut found))
    }

    /// Like [`Matcher::for_each_list`](crate::Matcher::for_each_list), under the same conditions.
    pub fn for_each_list(&self, topic: &str, mut found: impl FnMut(&[S])) -> Visited {
        self.side.read(|trie| trie.for_each_list(topic, &mut found))
    }

    /// Calls `found` with each published filter and its subscribers. Holds a copy for as long as it takes.
    pub fn for_each_filter(&self, mut found: impl FnMut(&str, &[S])) {
        self.side.read(|trie| trie.for_each_filter(&mut found));
    }

    /// Published filters.
    #[must_use]
    pub fn filters(&self) -> usize {
        self.side.read(Trie::filters)
    }
}

impl<S> Clone for Reader<S> {
    /// Registers a reader more; takes a lock that only this and dropping a reader take.
    fn clone(&self) -> Self {
        Reader {
            shared: Arc::clone(&self.shared),
            side: self.side.clone(),
        }
    }
}

impl<S> Epochs for Reader<S> {
    fn stripes(&self, topic: &str) -> Stripes {
        self.shared.striping.of_topic(topic)
    }

    #[inline]
    fn at(&self, stripes: Stripes) -> Epoch {
        sum(stripes, |at| {
            self.shared.counters[at].load(Ordering::Acquire)
        })
    }
}
