//! Which sockets of a shard are ready.
//!
//! Every connection has a waker that puts its place into this queue; the shard's one task works the queue off in turns. This
//! takes the part of a task per connection: 32 bytes instead of some 300, and the shard decides itself what comes when.
//!
//! The lock is never contended: the runtime's driver wakes on the shard's own thread, outside of its turns. It is there
//! because a waker may be called from anywhere. A turn for which nothing was woken does not take it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::task::{Wake, Waker};

/// Place of a connection in its shard's table, or of a listener.
pub(crate) type Place = u32;

/// Places that were woken since the last turn.
#[derive(Debug, Default)]
pub(crate) struct ReadyQueue {
    /// Lock: for a push by a waker, and for the turn that moves all of it out.
    places: Mutex<Vec<Place>>,
    /// Whether there are some; changed only under the lock.
    has_some: AtomicBool,
    task: OnceLock<Waker>,
}

impl ReadyQueue {
    /// Names the shard's task. The first call counts: a task has one waker for all its life.
    pub(crate) fn set_task(&self, task: &Waker) {
        self.task.get_or_init(|| task.clone());
    }

    /// Moves what was woken to the end of `into`.
    pub(crate) fn drain(&self, into: &mut std::collections::VecDeque<Place>) {
        if !self.has_some.load(Ordering::Acquire) {
            return;
        }
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        into.extend(places.drain(..));
        self.has_some.store(false, Ordering::Release);
    }

    fn push(&self, place: Place) {
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        places.push(place);
        self.has_some.store(true, Ordering::Release);
        let first = places.len() == 1;
        drop(places);
        // Of the later ones the task hears in the same turn.
        if first && let Some(task) = self.task.get() {
            task.wake_by_ref();
        }
    }
}

/// Wakes one place.
#[derive(Debug)]
pub(crate) struct SocketWaker {
    place: Place,
    queue: Arc<ReadyQueue>,
}

impl SocketWaker {
    /// A waker of `place`.
    #[must_use]
    pub(crate) fn waker(place: Place, queue: &Arc<ReadyQueue>) -> Waker {
        Waker::from(Arc::new(Self {
            place,
            queue: Arc::clone(queue),
        }))
    }
}

impl Wake for SocketWaker {
    fn wake(self: Arc<Self>) {
        self.queue.push(self.place);
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.queue.push(self.place);
    }
}
