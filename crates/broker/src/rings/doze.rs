//! Whether a shard sleeps, so that only a sleeper is woken.
//!
//! A wake is a system call; a shard that is in a turn, or about to begin one, needs none because it looks at its rings before
//! it sleeps.

use std::sync::OnceLock;
use std::task::Waker;

use super::sign::Sign;

/// One shard's sign "asleep", and what wakes it.
#[derive(Debug, Default)]
pub(crate) struct Doze {
    asleep: Sign,
    waker: OnceLock<Waker>,
}

impl Doze {
    /// Names what wakes this shard. The first call counts: a shard's main task has one waker for all its life.
    pub(crate) fn set_waker(&self, waker: &Waker) {
        self.waker.get_or_init(|| waker.clone());
    }

    /// Says that this shard is about to sleep; it must look at its rings after this call and before it sleeps.
    pub(crate) fn lie_down(&self) {
        self.asleep.raise();
    }

    /// Says that this shard is in a turn.
    pub(crate) fn get_up(&self) {
        self.asleep.lower();
    }

    /// Wakes the shard if it may be asleep. To be called after the write that it shall see.
    pub(crate) fn wake(&self) {
        if self.asleep.take_after_write()
            && let Some(waker) = self.waker.get()
        {
            waker.wake_by_ref();
        }
    }
}
