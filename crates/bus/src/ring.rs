//! Delivery to a bounded ring, so that the subscriber takes messages out in its own time.
//!
//! Three of the policies use a lock-free queue; coalescing needs to find the waiting message of a key, and uses a
//! lock of the ring's own. Sleepers are woken through a lock that posters take only if somebody sleeps.

use crate::handler::{Handler, SubscriptionId, SubscriptionRef};
use crate::key::Key;
use crate::subscription::{Subscription, WithinHandler};
use crossbeam_queue::ArrayQueue;
use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::task::Waker;
use std::time::{Duration, Instant};

/// What happens to a message that finds the ring full.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Overflow {
    /// The poster waits until there is room or the ring is dropped. A ring that is emptied only by the thread
    /// that posts, or under a lock that the poster holds, then stops for good.
    Block,
    /// The message that waits longest is dropped.
    DropOldest,
    /// The message is dropped.
    DropNewest,
    /// A message replaces the waiting one of the same key, keeping its place, whether the ring is full or not;
    /// with no such message and no room the one that waits longest is dropped.
    Coalesce,
}

/// How a ring is made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RingOptions {
    /// Messages that may wait.
    pub capacity: NonZeroUsize,
    /// What happens to those beyond.
    pub overflow: Overflow,
}

impl RingOptions {
    /// Room for `capacity` messages.
    ///
    /// # Panics
    /// If `capacity` is 0.
    #[must_use]
    pub fn new(capacity: usize, overflow: Overflow) -> Self {
        let capacity =
            NonZeroUsize::new(capacity).expect("a ring has room for at least one message");
        RingOptions { capacity, overflow }
    }
}

/// A message that waited in a ring, with the key that it was posted to.
pub type Delivered<M> = (Key, M);

#[allow(clippy::large_enum_variant)] // one a ring: a hop for each message would cost more than the bytes
enum Queue<M> {
    Plain(ArrayQueue<Delivered<M>>),
    ByKey(Mutex<ByKey<M>>, usize),
}

/// The message that a later one has driven out of a ring.
enum Gone<M> {
    Nothing,
    /// It was of the same key.
    Replaced(Delivered<M>),
    /// There was no room.
    Oldest(Delivered<M>),
}

/// Waiting messages by key: places count up from the first that ever waited.
struct ByKey<M> {
    waiting: VecDeque<Delivered<M>>,
    first: u64,
    places: HashMap<Key, u64>,
}

pub(crate) struct Shared<M> {
    queue: Queue<M>,
    overflow: Overflow,
    dropped: AtomicU64,
    closed: AtomicBool,
    /// Threads and tasks that wait for a message, and posters that wait for room.
    sleepers: AtomicUsize,
    lock: Mutex<Option<Waker>>,
    changed: Condvar,
}

/// The handler that fills a ring.
pub(crate) struct Sender<M>(Arc<Shared<M>>);

pub(crate) fn ring<M: Clone + Send + 'static>(options: RingOptions) -> (Sender<M>, Arc<Shared<M>>) {
    let capacity = options.capacity.get();
    let queue = match options.overflow {
        Overflow::Block | Overflow::DropOldest | Overflow::DropNewest => {
            Queue::Plain(ArrayQueue::new(capacity))
        }
        Overflow::Coalesce => {
            let empty = ByKey {
                waiting: VecDeque::new(),
                first: 0,
                places: HashMap::new(),
            };
            Queue::ByKey(Mutex::new(empty), capacity)
        }
    };
    let shared = Arc::new(Shared {
        queue,
        overflow: options.overflow,
        dropped: AtomicU64::new(0),
        closed: AtomicBool::new(false),
        sleepers: AtomicUsize::new(0),
        lock: Mutex::new(None),
        changed: Condvar::new(),
    });
    (Sender(Arc::clone(&shared)), shared)
}

impl<M: Clone + Send + 'static> Handler<M> for Sender<M> {
    fn handle(&self, _: SubscriptionRef<'_, M>, route: &Key, message: &M) {
        self.0.put((route.clone(), message.clone()));
    }
}

impl<M> ByKey<M> {
    /// Puts a message in; what has to go for it is for the caller to drop, not under the lock.
    fn put(&mut self, delivered: Delivered<M>, capacity: usize) -> Gone<M> {
        if let Some(&place) = self.places.get(&delivered.0) {
            let waiting = &mut self.waiting[(place - self.first) as usize];
            return Gone::Replaced(std::mem::replace(waiting, delivered));
        }
        let full = self.waiting.len() == capacity;
        let oldest = if full { self.take() } else { None };
        self.places
            .insert(delivered.0.clone(), self.first + self.waiting.len() as u64);
        self.waiting.push_back(delivered);
        oldest.map_or(Gone::Nothing, Gone::Oldest)
    }

    fn take(&mut self) -> Option<Delivered<M>> {
        let delivered = self.waiting.pop_front()?;
        self.first += 1;
        self.places.remove(&delivered.0);
        Some(delivered)
    }
}

impl<M> Shared<M> {
    fn put(&self, delivered: Delivered<M>) {
        let dropped = match (&self.queue, self.overflow) {
            (Queue::ByKey(waiting, capacity), _) => {
                let mut waiting = waiting.lock().unwrap_or_else(|e| e.into_inner());
                let gone = waiting.put(delivered, *capacity);
                drop(waiting); // what goes may post in turn when it is dropped
                match gone {
                    Gone::Nothing | Gone::Replaced(_) => false,
                    Gone::Oldest(_) => true,
                }
            }
            (Queue::Plain(queue), Overflow::Block) => self.put_blocking(queue, delivered),
            (Queue::Plain(queue), Overflow::DropOldest) => queue.force_push(delivered).is_some(),
            (Queue::Plain(queue), Overflow::DropNewest | Overflow::Coalesce) => {
                queue.push(delivered).is_err()
            }
        };
        if dropped {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
        self.wake();
    }

    fn put_blocking(&self, queue: &ArrayQueue<Delivered<M>>, mut delivered: Delivered<M>) -> bool {
        loop {
            match queue.push(delivered) {
                Ok(()) => return false,
                Err(back) => delivered = back,
            }
            if self.closed.load(Ordering::Acquire) {
                return true;
            }
            let room = || (!queue.is_full() || self.closed.load(Ordering::Acquire)).then_some(());
            self.sleep(None, room);
        }
    }

    pub(crate) fn take(&self) -> Option<Delivered<M>> {
        let taken = match &self.queue {
            Queue::Plain(queue) => queue.pop(),
            Queue::ByKey(waiting, _) => waiting.lock().unwrap_or_else(|e| e.into_inner()).take(),
        };
        if taken.is_some() && self.overflow == Overflow::Block {
            self.wake();
        }
        taken
    }

    pub(crate) fn len(&self) -> usize {
        match &self.queue {
            Queue::Plain(queue) => queue.len(),
            Queue::ByKey(waiting, _) => waiting
                .lock()
                .unwrap_or_else(|e| e.into_inner())
                .waiting
                .len(),
        }
    }

    fn sleepers_lock(&self) -> MutexGuard<'_, Option<Waker>> {
        self.lock.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// After a change: wakes whoever announced to wait for one.
    fn wake(&self) {
        // The change, then the look at `sleepers`; sleepers announce themselves, then look for the change. With
        // a full fence on both sides at least one sees the other.
        fence(Ordering::SeqCst);
        if self.sleepers.load(Ordering::Relaxed) == 0 {
            return;
        }
        let mut lock = self.sleepers_lock();
        let waker = lock.take();
        if waker.is_some() {
            self.sleepers.fetch_sub(1, Ordering::Relaxed);
        }
        drop(lock);
        self.changed.notify_all();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Waits until `look` finds something, or the time is over.
    fn sleep<R>(&self, until: Option<Instant>, look: impl Fn() -> Option<R>) -> Option<R> {
        let mut lock = self.sleepers_lock();
        self.sleepers.fetch_add(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let found = loop {
            if let Some(found) = look() {
                break Some(found);
            }
            lock = match until {
                None => self.changed.wait(lock).unwrap_or_else(|e| e.into_inner()),
                Some(until) => {
                    let left = until.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        break None;
                    }
                    self.changed
                        .wait_timeout(lock, left)
                        .unwrap_or_else(|e| e.into_inner())
                        .0
                }
            };
        };
        self.sleepers.fetch_sub(1, Ordering::Relaxed);
        found
    }

    /// Takes a message, or leaves a waker that is called when there may be one.
    pub(crate) fn take_or_register(&self, waker: &Waker) -> Option<Delivered<M>> {
        if let Some(taken) = self.take() {
            return Some(taken);
        }
        let waker = waker.clone();
        let mut lock = self.sleepers_lock();
        let before = lock.replace(waker);
        if before.is_none() {
            self.sleepers.fetch_add(1, Ordering::Relaxed);
        }
        drop(lock);
        drop(before); // wakers are the runtime's: not under the lock
        fence(Ordering::SeqCst);
        self.take()
    }

    fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
        drop(self.sleepers_lock()); // whoever looked before the store is asleep by now
        self.changed.notify_all();
    }
}

/// A bounded ring of messages. Dropping it ends the subscription and lets go of posters that wait.
pub struct Ring<M> {
    shared: Arc<Shared<M>>,
    subscription: Option<Subscription>,
}

impl<M> Ring<M> {
    pub(crate) fn new(shared: Arc<Shared<M>>, subscription: Subscription) -> Self {
        Ring {
            shared,
            subscription: Some(subscription),
        }
    }

    /// The message that waits longest, if there is one. Never waits.
    pub fn try_recv(&self) -> Option<Delivered<M>> {
        self.shared.take()
    }

    /// The message that waits longest; waits for one.
    #[must_use]
    pub fn recv(&self) -> Delivered<M> {
        self.try_recv()
            .or_else(|| self.shared.sleep(None, || self.shared.take_quietly()))
            .map(|d| self.taken(d))
            .expect("without a time limit the wait ends with a message")
    }

    /// The message that waits longest; waits for one, but no longer than `at_most`.
    pub fn recv_timeout(&self, at_most: Duration) -> Option<Delivered<M>> {
        let until = Instant::now().checked_add(at_most);
        self.try_recv()
            .or_else(|| self.shared.sleep(until, || self.shared.take_quietly()))
            .map(|d| self.taken(d))
    }

    fn taken(&self, delivered: Delivered<M>) -> Delivered<M> {
        if self.shared.overflow == Overflow::Block {
            self.shared.wake();
        }
        delivered
    }

    /// Messages that wait now.
    #[must_use]
    pub fn len(&self) -> usize {
        self.shared.len()
    }

    /// Whether none waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Messages that were dropped because the ring was full. One that was replaced by a later message of the
    /// same key ([`Overflow::Coalesce`]) is not counted.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.shared.dropped.load(Ordering::Relaxed)
    }

    /// Number of the subscription.
    #[must_use]
    pub fn id(&self) -> SubscriptionId {
        self.subscription
            .as_ref()
            .expect("it is there until the ring is dropped")
            .id()
    }

    /// Ends the subscription, waits for posts under way, and returns what still waited.
    ///
    /// # Errors
    /// [`WithinHandler`] when called from a handler of the same router. The subscription has ended all the same, and what
    /// still waited is dropped: take it out before.
    pub fn close(mut self) -> Result<Vec<Delivered<M>>, WithinHandler> {
        self.shared.close();
        self.subscription
            .take()
            .expect("it is there until the ring is dropped")
            .unsubscribe_wait()?;
        Ok(std::iter::from_fn(|| self.shared.take()).collect())
    }

    pub(crate) fn shared(&self) -> &Shared<M> {
        &self.shared
    }
}

impl<M> Shared<M> {
    /// Takes a message while the sleepers' lock is held, so nobody may be woken in here.
    fn take_quietly(&self) -> Option<Delivered<M>> {
        match &self.queue {
            Queue::Plain(queue) => queue.pop(),
            Queue::ByKey(waiting, _) => waiting.lock().unwrap_or_else(|e| e.into_inner()).take(),
        }
    }
}

impl<M> Drop for Ring<M> {
    fn drop(&mut self) {
        drop(self.subscription.take());
        self.shared.close();
    }
}

impl<M> fmt::Debug for Ring<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ring")
            .field("waiting", &self.len())
            .field("dropped", &self.dropped())
            .finish()
    }
}
