//! A queue into a shard from threads that are none, for what is rare: whoever fills it wakes the shard.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// See the module.
#[derive(Debug)]
pub(crate) struct Mailbox<T> {
    max: usize,
    queue: Mutex<VecDeque<T>>,
    /// Whether something is in it, so that a turn looks without the lock.
    filled: AtomicBool,
}

impl<T> Mailbox<T> {
    /// Empty, for so many.
    pub(crate) fn new(max: usize) -> Self {
        Self {
            max,
            queue: Mutex::default(),
            filled: AtomicBool::new(false),
        }
    }

    /// Empty, for what is bounded where it comes from and must not be lost: nothing ever comes back.
    pub(crate) fn unbounded() -> Self {
        Self::new(usize::MAX)
    }

    fn queue(&self) -> MutexGuard<'_, VecDeque<T>> {
        // Nothing is half done in it when somebody panics.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts something in; what does not fit comes back. The receiver is to be woken after it.
    pub(crate) fn put(&self, item: T) -> Result<(), T> {
        let mut queue = self.queue();
        if queue.len() >= self.max {
            return Err(item);
        }
        queue.push_back(item);
        self.filled.store(true, Ordering::SeqCst);
        Ok(())
    }

    /// Whether something is in it. Cheap.
    pub(crate) fn is_filled(&self) -> bool {
        self.filled.load(Ordering::SeqCst)
    }

    /// Takes all that is in it.
    pub(crate) fn take(&self) -> VecDeque<T> {
        let mut queue = self.queue();
        self.filled.store(false, Ordering::SeqCst);
        std::mem::take(&mut *queue)
    }
}
