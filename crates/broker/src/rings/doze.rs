//! Whether a shard sleeps, so that only a sleeper is woken.
//!
//! A wake is a system call; a shard that is in a turn, or about to begin one, needs none because it looks at its rings before
//! it sleeps. The two sides agree by a store and a load on each side, each with a full fence in between (Dekker):
//!
//! - sleeper: `asleep = true`, fence, look at the rings
//! - producer: write into the ring, fence, look at `asleep`
//!
//! so at least one of them sees what the other did. Checked by a model of all interleavings in the tests.

use std::sync::OnceLock;
use std::task::Waker;

#[cfg(loom)]
use loom::sync::atomic::{AtomicBool, Ordering, fence};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicBool, Ordering, fence};

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

/// A sign that one side raises before it looks for work, and that the other side takes down after it made some.
#[derive(Debug)]
pub(crate) struct Sign(AtomicBool);

// loom's atomics have no `const fn new` and no derived default.
#[allow(clippy::derivable_impls)]
impl Default for Sign {
    fn default() -> Self {
        Self(AtomicBool::new(false))
    }
}

impl Sign {
    /// Raises the sign; work that is looked for after this call is found, or its maker sees the sign.
    pub(crate) fn raise(&self) {
        self.0.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// Takes the sign down without asking.
    pub(crate) fn lower(&self) {
        self.0.store(false, Ordering::Relaxed);
    }

    /// Whether the sign was up after the write before this call; takes it down, so that one maker of work wakes.
    pub(crate) fn take_after_write(&self) -> bool {
        fence(Ordering::SeqCst);
        self.0.load(Ordering::Relaxed) && self.0.swap(false, Ordering::Relaxed)
    }
}

#[cfg(all(test, loom))]
mod model {
    use super::Sign;
    use loom::sync::Arc;
    use loom::sync::atomic::{AtomicBool, Ordering};

    /// Whatever the interleaving: the sleeper sees the work, or the producer wakes it.
    #[test]
    fn no_wake_is_lost() {
        loom::model(|| {
            let sign = Arc::new(Sign::default());
            let work = Arc::new(AtomicBool::new(false));
            let producer = {
                let (sign, work) = (Arc::clone(&sign), Arc::clone(&work));
                loom::thread::spawn(move || {
                    work.store(true, Ordering::Release);
                    sign.take_after_write()
                })
            };
            sign.raise();
            let seen = work.load(Ordering::Acquire);
            let woken = producer.join().expect("the producer ends");
            assert!(
                seen || woken,
                "work that nobody sees and nobody is woken for"
            );
        });
    }

    /// Of two producers one wakes.
    #[test]
    fn one_of_two_producers_wakes() {
        loom::model(|| {
            let sign = Arc::new(Sign::default());
            sign.raise();
            let other = {
                let sign = Arc::clone(&sign);
                loom::thread::spawn(move || sign.take_after_write())
            };
            let mine = sign.take_after_write();
            let theirs = other.join().expect("the producer ends");
            assert!(mine ^ theirs, "exactly one takes the sign down");
        });
    }
}
