//! The handle of a subscription.
#![allow(unsafe_code)]

use crate::handler::SubscriptionId;
use crate::inner::Inner;
use crate::local;
use crate::slot::SlotHead;
use std::fmt;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Duration;

/// A subscription. Ends when it is dropped, unless it is [detached](Subscription::detach).
///
/// Its handler is dropped when nobody runs it any more: at once if no post is under way, else with one of the next
/// unsubscriptions, at [`Router::collect`](crate::Router::collect), or with
/// [`unsubscribe_wait`](Subscription::unsubscribe_wait).
#[must_use = "a subscription ends when it is dropped"]
pub struct Subscription {
    inner: Arc<Inner>,
    slot: NonNull<SlotHead>,
    id: u64,
}

// SAFETY: the slot is an atomic in memory that lives as long as the router, which `inner` holds.
unsafe impl Send for Subscription {}
// SAFETY: as above.
unsafe impl Sync for Subscription {}

/// `unsubscribe_wait` was called from within a handler of the same router, and would wait for itself. The
/// subscription has ended all the same: no new call starts, but running ones were not waited for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WithinHandler;

impl fmt::Display for WithinHandler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("cannot wait for running handlers from within a handler of the same router")
    }
}

impl std::error::Error for WithinHandler {}

impl Subscription {
    pub(crate) fn new(inner: Arc<Inner>, slot: NonNull<SlotHead>, id: u64) -> Self {
        Subscription { inner, slot, id }
    }

    /// Its number, as handlers see it.
    #[must_use]
    pub fn id(&self) -> SubscriptionId {
        SubscriptionId(self.id)
    }

    /// Whether it has not ended, which a handler may have done.
    #[must_use]
    pub fn is_live(&self) -> bool {
        // SAFETY: memory of slots lives as long as the router.
        unsafe { self.slot.as_ref() }.live() == Some(self.id)
    }

    /// Ends it: once this returns no new call starts; running ones may end later. Takes the router's lock, and some
    /// microseconds if the handler owns something that is to be dropped. Never waits for a post.
    pub fn unsubscribe(self) {
        drop(self);
    }

    /// Ends it and waits until no call of its handler runs any more. Waits for all posts that are under way in this
    /// router, since those are what is counted. The handler is dropped then, or soon after: where handlers that ended
    /// before it still wait, or another thread is dropping some, with one of the next unsubscriptions or at
    /// [`Router::collect`](crate::Router::collect). As long as a handler does not return, this does not either.
    ///
    /// # Errors
    /// [`WithinHandler`] at once instead of a deadlock, when called from a handler of this router. Two handlers
    /// of different routers that wait for each other are not detected.
    pub fn unsubscribe_wait(self) -> Result<(), WithinHandler> {
        let inner = Arc::clone(&self.inner);
        drop(self);
        if local::is_inside(inner.id) {
            return Err(WithinHandler);
        }
        let mut grace = inner.grace();
        let mut tries = 0u32;
        while !grace.passed() {
            tries += 1;
            match tries {
                0..64 => std::hint::spin_loop(),
                64..256 => std::thread::yield_now(),
                _ => std::thread::sleep(Duration::from_micros(50)),
            }
        }
        inner.collect();
        Ok(())
    }

    /// Lets the subscription live as long as the router. It can still be ended from within its handler, or by
    /// [`Router::unsubscribe`](crate::Router::unsubscribe).
    pub fn detach(self) -> SubscriptionId {
        let this = ManuallyDrop::new(self);
        // SAFETY: `this` is not dropped, so its reference is given back once, here.
        drop(unsafe { std::ptr::read(&this.inner) });
        SubscriptionId(this.id)
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.inner.unsubscribe(self.slot, self.id);
    }
}

impl fmt::Debug for Subscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Subscription").field(&self.id).finish()
    }
}
