//! The router: the public face of it all, and the hot path of a post.
#![allow(unsafe_code)]

use crate::filter::{Filter, FilterError, IntoFilter};
use crate::handler::{Closure, Handler, SubscriptionId, SubscriptionRef};
use crate::inner::Inner;
use crate::key::{Key, KeyError};
use crate::keys::Keys;
use crate::local;
use crate::plan::PlanRef;
use crate::presence::{Barrier, Visit};
use crate::record::{Limits, Record, add};
use crate::retained::Retained;
use crate::ring::{Ring, RingOptions};
use crate::stats::Stats;
use crate::stream::MessageStream;
use crate::subscription::Subscription;
use crate::walk::{self, Marks, Post};
use std::fmt;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard};

/// How a router is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RouterOptions {
    /// Keys that the cache of each posting thread holds, rounded up to a power of two. 24 bytes each, taken as
    /// needed. A thread that posts to more keys in turn matches anew for those that met another.
    pub cached_keys: usize,
    /// Bytes of match lists that the cache of each posting thread holds; equal lists are held once. When there
    /// are more, all are dropped and made again as needed.
    pub cached_bytes: usize,
}

impl Default for RouterOptions {
    /// 131,072 keys, 32 MiB of lists.
    fn default() -> Self {
        RouterOptions {
            cached_keys: 1 << 17,
            cached_bytes: 32 << 20,
        }
    }
}

/// Routes messages of type `M` from posters to handlers. Cheap to clone: all clones are the same router.
///
/// Posting takes no lock and writes to no memory that other threads write or read while posting; the first
/// post of a thread registers it, which takes one. Everything else takes a lock, under which no code of the user
/// runs. A router, with what its detached handlers hold, lives as long as any clone or [`Subscription`]: a handler
/// that holds one of them keeps it alive until it is unsubscribed.
pub struct Router<M: 'static> {
    inner: Arc<Inner>,
    more: Arc<More<M>>,
}

/// What a post does not need.
struct More<M> {
    keys: Mutex<Keys>,
    retained: Mutex<Retained<M>>,
}

// SAFETY: handlers are `Send + Sync`, and messages are only lent to them on the thread that posts. Messages are
// kept in `more.retained` only, which only methods with `M: Send + Sync` fill; else it is empty.
unsafe impl<M> Send for Router<M> {}
// SAFETY: as above.
unsafe impl<M> Sync for Router<M> {}

impl<M> Clone for Router<M> {
    fn clone(&self) -> Self {
        Router {
            inner: Arc::clone(&self.inner),
            more: Arc::clone(&self.more),
        }
    }
}

impl<M> Default for Router<M> {
    fn default() -> Self {
        Router::new()
    }
}

impl<M> fmt::Debug for Router<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Router")
            .field("stats", &self.stats())
            .finish()
    }
}

impl<M: 'static> Router<M> {
    /// A router without subscriptions.
    #[must_use]
    pub fn new() -> Self {
        Router::with_options(RouterOptions::default())
    }

    /// A router with other limits.
    #[must_use]
    pub fn with_options(options: RouterOptions) -> Self {
        Self::build(options, Barrier::detect())
    }

    fn build(options: RouterOptions, barrier: Barrier) -> Self {
        let keys = options.cached_keys.clamp(1, 1 << 30).next_power_of_two();
        let limits = Limits {
            keys,
            bytes: options.cached_bytes,
        };
        let inner = Inner::new(barrier, limits, Marks::of::<M>());
        let more = More {
            keys: Mutex::default(),
            retained: Mutex::default(),
        };
        Router {
            inner: Arc::new(inner),
            more: Arc::new(more),
        }
    }

    /// A router that uses fences although the system has `membarrier`, for tests of that way.
    #[doc(hidden)]
    #[must_use]
    pub fn with_fences() -> Self {
        Self::build(RouterOptions::default(), Barrier::Fence)
    }

    /// The key of this text: the same for the same text, as long as somebody holds it. Linear in the text, under a lock.
    ///
    /// # Errors
    /// [`KeyError`], in particular for text with a wildcard.
    pub fn key(&self, text: &str) -> Result<Key, KeyError> {
        self.more
            .keys
            .lock()
            .expect("no code panics under this lock")
            .get(text)
    }

    /// Keys of this router that somebody holds, in no order. Linear in them, under the lock of [`key`](Self::key).
    #[must_use]
    pub fn keys(&self) -> Vec<Key> {
        self.more
            .keys
            .lock()
            .expect("no code panics under this lock")
            .live()
    }

    /// Calls `handler` for each message that is posted to a key that `filter` matches, on the poster's thread,
    /// with (subscription, the key that was posted to, message). See [`Handler`] for what holds there.
    ///
    /// Posts that start after this returned see it. Linear in the tokens of the filter and in the types of handlers that it
    /// has already, under the router's lock: one to two microseconds among a million. The first posts to each key that the
    /// filter matches then look anew what that matches, unless the filter had many subscriptions before.
    ///
    /// # Errors
    /// [`FilterError`] if `filter` is none.
    pub fn subscribe<F>(
        &self,
        filter: impl IntoFilter,
        handler: F,
    ) -> Result<Subscription, FilterError>
    where
        F: Fn(SubscriptionRef<'_, M>, &Key, &M) + Send + Sync + 'static,
    {
        self.subscribe_handler(filter, Closure(handler))
    }

    /// Like [`subscribe`](Self::subscribe), for a type of one's own.
    ///
    /// # Errors
    /// [`FilterError`] if `filter` is none.
    pub fn subscribe_handler<H: Handler<M>>(
        &self,
        filter: impl IntoFilter,
        handler: H,
    ) -> Result<Subscription, FilterError> {
        let filter = filter.into_filter()?;
        let (slot, id) = self.inner.subscribe::<M, H>(filter, handler);
        Ok(Subscription::new(Arc::clone(&self.inner), slot, id))
    }

    /// Puts matching messages into a bounded ring, to be taken out on any thread. Ends when the ring is dropped.
    /// Its memory is taken at once, but with [`Overflow::Coalesce`](crate::Overflow::Coalesce) as it fills.
    ///
    /// # Errors
    /// [`FilterError`] if `filter` is none.
    pub fn subscribe_ring(
        &self,
        filter: impl IntoFilter,
        options: RingOptions,
    ) -> Result<Ring<M>, FilterError>
    where
        M: Clone + Send,
    {
        let (sender, shared) = crate::ring::ring(options);
        let subscription = self.subscribe_handler(filter, sender)?;
        Ok(Ring::new(shared, subscription))
    }

    /// Like [`subscribe_ring`](Self::subscribe_ring), to be taken out as an asynchronous stream, in any runtime.
    ///
    /// # Errors
    /// [`FilterError`] if `filter` is none.
    pub fn subscribe_stream(
        &self,
        filter: impl IntoFilter,
        options: RingOptions,
    ) -> Result<MessageStream<M>, FilterError>
    where
        M: Clone + Send,
    {
        self.subscribe_ring(filter, options).map(MessageStream::new)
    }

    /// Ends a subscription by its number, detached or not. Linear in the subscriptions of its filter; a
    /// [`Subscription`] does the same at once. `false` if it has ended before.
    pub fn unsubscribe(&self, id: SubscriptionId) -> bool {
        self.inner.unsubscribe_by_id(id)
    }

    /// Calls every handler whose filter matches `key` with `message`. Returns when all have been called.
    ///
    /// A handler may post in turn; what it posts is delivered before its own call ends.
    ///
    /// Linear in the handlers called: about a nanosecond each and a few in all, without a lock and an allocation. The first
    /// post of a thread to a key, and the next one after a change of what the key matches, searches the filters, in some
    /// microseconds. Never panics by itself; a handler's panic is caught.
    #[inline]
    pub fn post(&self, key: &Key, message: &M) {
        match local::last(self.inner.id) {
            // SAFETY: the record is this thread's, and lives as long as the router.
            Some(record) => unsafe { self.post_on(&*record, key, message) },
            None => self.post_elsewhere(key, message),
        }
    }

    /// A post of a thread that last used another router, or none.
    #[cold]
    fn post_elsewhere(&self, key: &Key, message: &M) {
        let inner = &*self.inner;
        local::with_record(
            inner.id,
            &inner.alive,
            || inner.new_record(),
            |record| {
                // SAFETY: `with_record` gives the record of this thread.
                unsafe { self.post_on(record, key, message) }
            },
        );
    }

    /// # Safety
    /// The caller is the thread that owns `record`, which is one of this router.
    #[inline(always)] // with its arguments in registers
    unsafe fn post_on(&self, record: &Record, key: &Key, message: &M) {
        let Some(visit) = record.presence().enter() else {
            // SAFETY: passed on, and the thread is present.
            return unsafe { self.post_within(key, message, record) };
        };
        // Acquire: who sees the version sees everything that it stands for.
        let version = self.inner.version.load(Ordering::Acquire);
        // SAFETY: passed on.
        let Some(plan) = (unsafe { record.cached(key.id(), version) }) else {
            // SAFETY: as above.
            return unsafe { self.post_anew(key, message, record, visit) };
        };
        self.walk(record, plan, key, message, visit);
    }

    /// A post of a key whose plan is not known to hold. Apart, like the next one, so that the other way saves no
    /// registers for it.
    ///
    /// # Safety
    /// As for `post_on`; the thread is present, and was so before if the visit is one within another.
    #[cold]
    #[inline(never)]
    unsafe fn post_anew(&self, key: &Key, message: &M, record: &Record, visit: Visit) {
        let version = self.inner.version.load(Ordering::Acquire);
        let describe = |planner: &mut _, list| self.inner.describe(planner, list);
        // SAFETY: the thread is present and owns the record; `describe` does not post; nothing is walked on this
        // thread if it was not present before.
        let plan = unsafe { record.look_up(key, version, visit.is_outermost(), describe) };
        self.walk(record, plan, key, message, visit);
    }

    /// A post within a post.
    ///
    /// # Safety
    /// As for `post_on`; the thread is present.
    #[cold]
    #[inline(never)]
    unsafe fn post_within(&self, key: &Key, message: &M, record: &Record) {
        add(&record.counters.nested, 1);
        let visit = record.presence().again();
        let version = self.inner.version.load(Ordering::Acquire);
        // SAFETY: passed on.
        match unsafe { record.cached(key.id(), version) } {
            Some(plan) => self.walk(record, plan, key, message, visit),
            // SAFETY: passed on.
            None => unsafe { self.post_anew(key, message, record, visit) },
        }
    }

    /// Calls the handlers of a plan, then ends the visit.
    #[inline(always)]
    fn walk(&self, record: &Record, plan: PlanRef, key: &Key, message: &M, visit: Visit) {
        add(&record.counters.hits, plan.singles() as u64); // see `walk::miss`
        let post = Post {
            router: self,
            key,
            message,
            record,
            visit,
        };
        // SAFETY: the plan is one of this router, this thread is present, and frees no plan while one is walked.
        unsafe { walk::run(plan.groups(), post) };
    }

    /// All live subscriptions with their filters, in no order. Linear, under the router's lock.
    #[must_use]
    pub fn subscriptions(&self) -> Vec<(String, SubscriptionId)> {
        self.inner.subscriptions()
    }

    /// Counters and sizes. Linear in the threads that post, under the router's lock.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.inner.stats()
    }

    /// Drops handlers whose subscriptions have ended and which nobody runs any more, and clears out filters
    /// without subscriptions. Never waits for a post. Returns how many handlers still wait for a running one. Linear in the
    /// filters, under the router's lock.
    pub fn collect(&self) -> usize {
        self.inner.collect_all()
    }

    pub(crate) fn inner(&self) -> &Inner {
        &self.inner
    }

    fn retained_lock(&self) -> MutexGuard<'_, Retained<M>> {
        self.more
            .retained
            .lock()
            .expect("no code panics under this lock")
    }
}

/// Retained messages: the last one of each key for which it was asked.
impl<M: Send + Sync + 'static> Router<M> {
    /// Keeps `message` as the last one of `key`, in place of the one before, and posts it. Takes a lock before
    /// the post. Of several at once for one key any may be the one that is kept.
    pub fn post_retained(&self, key: &Key, message: impl Into<Arc<M>>) {
        let message = message.into();
        let old = self.retained_lock().set(key, Arc::clone(&message));
        drop(old); // not under the lock
        self.post(key, &message);
    }

    /// The retained message of `key`. Logarithmic in their number, under a lock, as for the others here.
    #[must_use]
    pub fn retained(&self, key: &Key) -> Option<Arc<M>> {
        self.retained_lock().get(key)
    }

    /// Forgets the retained message of `key`, and returns it.
    pub fn clear_retained(&self, key: &Key) -> Option<Arc<M>> {
        self.retained_lock().clear(key)
    }

    /// All retained messages that `filter` matches, ordered by key. Linear in those whose keys begin as the filter does
    /// up to its first wildcard.
    ///
    /// # Errors
    /// [`FilterError`] if `filter` is none.
    pub fn retained_matching(
        &self,
        filter: impl IntoFilter,
    ) -> Result<Vec<(Key, Arc<M>)>, FilterError> {
        let filter: Filter = filter.into_filter()?;
        Ok(self.retained_lock().matching(&filter))
    }

    /// Number of retained messages.
    #[must_use]
    pub fn retained_len(&self) -> usize {
        self.retained_lock().len()
    }

    /// Subscribes, then calls `handler` on this thread with each retained message that `filter` matches. A message that
    /// is retained at the same moment may reach it twice, but is never missed. Panics are caught and counted as within
    /// a post.
    ///
    /// # Errors
    /// [`FilterError`] if `filter` is none.
    pub fn subscribe_with_retained<F>(
        &self,
        filter: impl IntoFilter,
        handler: F,
    ) -> Result<Subscription, FilterError>
    where
        F: Fn(&Key, &M) + Send + Sync + 'static,
    {
        let filter = filter.into_filter()?;
        let handler = Arc::new(handler);
        let for_posts = Arc::clone(&handler);
        let subscription =
            self.subscribe(&filter, move |_, key, message| for_posts(key, message))?;
        for (key, message) in self.retained_matching(&filter)? {
            self.inner.guard(|| handler(&key, &message));
        }
        Ok(subscription)
    }
}
