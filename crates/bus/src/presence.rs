//! Who is in the middle of a post, and when everyone who was is no longer.
//!
//! Each thread has a counter that is odd while the thread posts. Before memory that a post may look at is reused,
//! the other side makes it unreachable and then waits until every counter that was odd has moved: a *grace
//! period*. The poster must not pay for a fence each time, so the two sides are ordered asymmetrically: the
//! poster's store is followed by a compiler fence only, and the other side runs `membarrier`, which makes every
//! running thread of the process execute a full fence. Then one of two holds for a poster:
//! - its odd counter is seen, and it is waited for; or
//! - its store came after the barrier, hence also everything that it loads, which then shows memory as the other
//!   side left it.
//!
//! Where `membarrier` is missing, both sides use a sequentially consistent fence.

use crate::sync::{AtomicU64, Ordering, compiler_fence, fence};
use std::borrow::Borrow;
use std::sync::Arc;

/// How the two sides are ordered; one for the process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Barrier {
    /// The waiting side interrupts the others.
    #[cfg_attr(loom, allow(dead_code))] // which has none
    Membarrier,
    /// Everyone pays.
    Fence,
}

impl Barrier {
    /// Registers the process for `membarrier`, if the kernel has it.
    #[cfg(all(target_os = "linux", not(loom)))]
    pub(crate) fn detect() -> Barrier {
        use rustix::thread::{MembarrierCommand, membarrier};
        static DETECTED: std::sync::OnceLock<Barrier> = std::sync::OnceLock::new();
        *DETECTED.get_or_init(
            || match membarrier(MembarrierCommand::RegisterPrivateExpedited) {
                Ok(()) => Barrier::Membarrier,
                Err(_) => Barrier::Fence,
            },
        )
    }

    #[cfg(not(all(target_os = "linux", not(loom))))]
    pub(crate) fn detect() -> Barrier {
        Barrier::Fence
    }

    fn heavy(self) {
        fence(Ordering::SeqCst);
        match self {
            Barrier::Membarrier => expedited(),
            Barrier::Fence => {}
        }
    }
}

#[cfg(all(target_os = "linux", not(loom)))]
fn expedited() {
    use rustix::thread::{MembarrierCommand, membarrier};
    membarrier(MembarrierCommand::PrivateExpedited)
        .expect("the process is registered for membarrier");
}

#[cfg(not(all(target_os = "linux", not(loom))))]
fn expedited() {
    unreachable!("membarrier is only chosen where it is detected");
}

/// Set in the counter for good if the poster has to fence: what a post looks at anyway tells which way it goes.
const FENCES: u64 = 1 << 63;

/// Counter of one thread, written by that thread only; to be kept apart from what other threads write.
#[repr(transparent)]
pub(crate) struct Presence {
    count: AtomicU64,
}

impl Presence {
    pub(crate) fn new(barrier: Barrier) -> Self {
        let count = match barrier {
            Barrier::Membarrier => 0,
            Barrier::Fence => FENCES,
        };
        Presence {
            count: AtomicU64::new(count),
        }
    }

    /// Makes the counter odd; `None` if it was, because this is called from within a post.
    #[inline]
    pub(crate) fn enter(&self) -> Option<Visit> {
        let count = self.count.load(Ordering::Relaxed);
        if count & 1 == 1 {
            return None;
        }
        // Release: who waits may miss the even number in between, and must then see from this one that the post
        // before has ended.
        self.count.store(count + 1, Ordering::Release);
        if count & FENCES == 0 {
            compiler_fence(Ordering::SeqCst);
        } else {
            std::hint::cold_path(); // the other one goes straight on
            fence(Ordering::SeqCst);
        }
        Some(Visit(count + 2))
    }

    /// A visit within the one that the calling thread, which must be the owner, has begun: its end changes nothing.
    #[inline]
    pub(crate) fn again(&self) -> Visit {
        debug_assert!(self.inside(), "there is a visit to be within");
        Visit(self.count.load(Ordering::Relaxed))
    }

    /// Ends what `enter` or `again` began. The counter is not read for it: that would make the next post wait for one
    /// store more.
    #[inline]
    pub(crate) fn leave(&self, visit: Visit) {
        self.count.store(visit.0, Ordering::Release);
    }

    /// Whether the calling thread, which must be the owner, is within a post.
    #[inline]
    pub(crate) fn inside(&self) -> bool {
        self.count.load(Ordering::Relaxed) & 1 == 1
    }

    /// Posts that were begun, those within posts not counted.
    pub(crate) fn entered(&self) -> u64 {
        (self.count.load(Ordering::Relaxed) & !FENCES).div_ceil(2)
    }
}

/// Being inside, with what the counter is set to at the end. Copied along the groups of a plan, the last of which
/// ends it.
#[must_use = "who enters must leave"]
#[derive(Clone, Copy)]
pub(crate) struct Visit(u64);

impl Visit {
    /// Whether its end is that of being inside.
    pub(crate) fn is_outermost(self) -> bool {
        self.0 & 1 == 0
    }
}

/// A grace period under way.
pub(crate) struct Grace<R> {
    inside: Vec<(Arc<R>, u64)>,
}

impl<R: Borrow<Presence>> Grace<R> {
    /// Begins one for what was made unreachable before this call.
    pub(crate) fn begin<'a>(barrier: Barrier, all: impl Iterator<Item = &'a Arc<R>>) -> Self
    where
        R: 'a,
    {
        barrier.heavy();
        let count = |one: &Arc<R>| {
            Borrow::<Presence>::borrow(&**one)
                .count
                .load(Ordering::Acquire)
        };
        let inside = all
            .map(|one| (Arc::clone(one), count(one)))
            .filter(|(_, count)| count & 1 == 1);
        Grace {
            inside: inside.collect(),
        }
    }

    /// Whether everyone who was inside has left. Never waits.
    pub(crate) fn passed(&mut self) -> bool {
        self.inside.retain(|(one, then)| {
            let presence: &Presence = Borrow::borrow(&**one);
            presence.count.load(Ordering::Acquire) == *then
        });
        self.inside.is_empty()
    }
}
