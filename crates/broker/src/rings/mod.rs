//! Rings between shards: one single-producer ring for each ordered pair, one batch a slot.
//!
//! What a turn produces for a peer gathers in one [`Batch`] and goes over in one ring write and at most one wake. The
//! receiver hands the emptied batch back through a second ring; a batch that came back is the credit for the next one, and
//! its memory is used again, so that nothing is allocated after warm-up.
//!
//! # Never waiting
//! - At most `slots` batches of a link are away from the sender (in the ring, at the receiver, or on the way back), so both
//!   rings, which have `slots` places each, always have room for what is pushed.
//! - A full link keeps gathering. **Requests** (appends) add to its weight; above `WEIGHT_MAX` the shard stops reading
//!   the sockets that would add more ([`Sender::has_room`]). **Replies** are always taken: there are no more of them than
//!   requests that were let through.
//! - A shard handles what arrives whether or not its own links are full, so every link drains as long as its receiver turns.
//!
//! # Order
//! Messages of one sender to one receiver arrive in the order in which they were added.

mod batch;
mod doze;
mod link;
mod sign;

/// The atomics of `sign`, which its model replaces.
mod atomics {
    pub(super) use std::sync::atomic::{AtomicBool, Ordering, fence};
}

pub(crate) use batch::{Batch, Control, DeliverSpan, Message};
pub(crate) use doze::Doze;
pub(crate) use link::{Mark, Receiver, Sender, link};

use std::sync::Arc;

use courser_contract::ShardId;

/// The ends of all links at one shard.
pub(crate) struct Ports {
    /// To each peer; the place of the shard itself is empty.
    pub(crate) to: Vec<Option<Sender>>,
    /// From each peer; the place of the shard itself is empty.
    pub(crate) from: Vec<Option<Receiver>>,
    /// Who sleeps, by shard, the shard itself included.
    pub(crate) dozes: Vec<Arc<Doze>>,
}

/// Links every shard with every other one; one [`Ports`] a shard, in order.
#[must_use]
pub(crate) fn mesh(shards: u16, slots: usize) -> Vec<Ports> {
    let dozes: Vec<Arc<Doze>> = (0..shards).map(|_| Arc::new(Doze::default())).collect();
    let count = usize::from(shards);
    let mut ports: Vec<Ports> = (0..count)
        .map(|_| Ports {
            to: (0..count).map(|_| None).collect(),
            from: (0..count).map(|_| None).collect(),
            dozes: dozes.clone(),
        })
        .collect();
    for sender in 0..count {
        for receiver in (0..count).filter(|&receiver| receiver != sender) {
            let (to, from) = link(slots);
            ports[sender].to[receiver] = Some(to);
            ports[receiver].from[sender] = Some(from);
        }
    }
    ports
}

impl Ports {
    /// Whether something waits in a ring for this shard: a batch of a peer, or one that came back and is wanted.
    #[must_use]
    pub(crate) fn has_work(&self) -> bool {
        self.from.iter().flatten().any(Receiver::has_batch)
            || self.to.iter().flatten().any(Sender::has_wanted_return)
    }

    /// Sends what gathered for every peer and wakes those that sleep. See [`Sender::flush`].
    pub(crate) fn flush(&mut self) {
        for (sender, doze) in self.to.iter_mut().zip(&self.dozes) {
            if let Some(sender) = sender
                && sender.flush() == link::Flushed::Sent
            {
                doze.wake();
            }
        }
    }

    /// Gives the memory of batches back that nothing is in. Those that are away are found by a later call.
    pub(crate) fn trim(&mut self) {
        for sender in self.to.iter_mut().flatten() {
            sender.trim();
        }
    }

    /// Gives a handled batch of `peer` back and wakes the peer if it waits for that.
    pub(crate) fn give_back(&mut self, peer: ShardId, batch: Batch) {
        let place = usize::from(peer.0);
        let receiver = self.from[place]
            .as_mut()
            .expect("a batch goes back to the peer that it came from");
        if receiver.give_back(batch) {
            self.dozes[place].wake();
        }
    }
}
