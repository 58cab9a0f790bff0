//! Delivery as an asynchronous stream, for any runtime.

use crate::ring::{Delivered, Ring};
use futures_core::Stream;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};

/// A ring as a stream of (key, message). It never ends by itself; dropping it ends the subscription.
///
/// For one task at a time: the waker of the last poll is the one that is called. With
/// [`Overflow::Block`](crate::Overflow::Block) a post waits for the task: never post from the thread that runs it.
#[derive(Debug)]
pub struct MessageStream<M>(Ring<M>);

impl<M> MessageStream<M> {
    pub(crate) fn new(ring: Ring<M>) -> Self {
        MessageStream(ring)
    }

    /// The next message; cancel safe: a message is taken only when it is returned.
    pub async fn recv(&mut self) -> Delivered<M> {
        poll_fn(|context| self.poll(context)).await
    }

    fn poll(&self, context: &Context<'_>) -> Poll<Delivered<M>> {
        match self.0.shared().take_or_register(context.waker()) {
            Some(delivered) => Poll::Ready(delivered),
            None => Poll::Pending,
        }
    }

    /// The ring behind it, for what does not wait.
    #[must_use]
    pub fn ring(&self) -> &Ring<M> {
        &self.0
    }
}

impl<M> Stream for MessageStream<M> {
    type Item = Delivered<M>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Delivered<M>>> {
        self.poll(context).map(Some)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.0.len(), None)
    }
}
