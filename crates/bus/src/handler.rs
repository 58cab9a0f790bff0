//! What is called for a message.

use crate::bus::Router;
use crate::key::Key;
use crate::slot::SlotHead;

/// Receives messages. Called on the poster's thread, from several at once if several post.
///
/// Handlers are kept by value, those of one type side by side, and a post calls all of one type in one loop:
/// many small handlers of few types are fastest. The order in which a message reaches different handlers is not
/// promised; each handler gets the messages of one poster in the order in which they were posted.
///
/// A panic is caught and counted ([`Stats::panics`](crate::Stats::panics)), and the others are still called.
pub trait Handler<M>: Send + Sync + 'static {
    /// Handles one message. `route` is the key that was posted to. Subscribing, unsubscribing and posting are
    /// allowed in here.
    fn handle(&self, subscription: SubscriptionRef<'_, M>, route: &Key, message: &M);
}

/// A closure as a handler.
pub(crate) struct Closure<F>(pub(crate) F);

impl<M: 'static, F> Handler<M> for Closure<F>
where
    F: Fn(SubscriptionRef<'_, M>, &Key, &M) + Send + Sync + 'static,
{
    #[inline(always)]
    fn handle(&self, subscription: SubscriptionRef<'_, M>, route: &Key, message: &M) {
        (self.0)(subscription, route, message);
    }
}

impl<M: 'static> Handler<M> for Box<dyn Handler<M>> {
    #[inline]
    fn handle(&self, subscription: SubscriptionRef<'_, M>, route: &Key, message: &M) {
        (**self).handle(subscription, route, message);
    }
}

/// Number of a subscription. Another of the same router gets it at the earliest after 2^31 subscriptions more.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct SubscriptionId(pub(crate) u64);

impl SubscriptionId {
    /// From a plain number that [`get`](Self::get) gave, for callers that keep numbers; `None` for 0.
    #[must_use]
    pub fn new(number: u64) -> Option<SubscriptionId> {
        (number != 0).then_some(SubscriptionId(number))
    }

    /// As a plain number, never 0.
    #[must_use]
    pub fn get(self) -> u64 {
        self.0
    }
}

/// The subscription on whose behalf a handler is called.
#[derive(Clone, Copy)]
pub struct SubscriptionRef<'a, M: 'static> {
    router: &'a Router<M>,
    slot: &'a SlotHead,
    id: u64,
}

impl<'a, M: 'static> SubscriptionRef<'a, M> {
    #[inline(always)]
    pub(crate) fn new(router: &'a Router<M>, slot: &'a SlotHead, id: u64) -> Self {
        SubscriptionRef { router, slot, id }
    }

    /// Its number, that of the [`Subscription`](crate::Subscription).
    #[must_use]
    pub fn id(&self) -> SubscriptionId {
        SubscriptionId(self.id)
    }

    /// The router that calls.
    #[must_use]
    pub fn router(&self) -> &'a Router<M> {
        self.router
    }

    /// Ends the subscription: no new call starts after this one. `false` if it has ended before.
    pub fn unsubscribe(&self) -> bool {
        self.router.inner().unsubscribe(self.slot.into(), self.id)
    }
}
