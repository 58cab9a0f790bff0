//! One direction between two shards.

use std::sync::Arc;

use rtrb::{Consumer, Producer, RingBuffer};

use super::Batch;
use super::sign::Sign;

/// Bytes of requests that may be under way on a link before the sender stops reading sockets: 1 MiB. With 64 KiB a read
/// the outbox outgrows it by one read of each socket that was being read when the bound was met.
pub(crate) const WEIGHT_MAX: usize = 1 << 20;

/// Makes a link with `slots` places in its ring, at least one.
#[must_use]
pub(crate) fn link(slots: usize) -> (Sender, Receiver) {
    let slots = slots.max(1);
    let (batches, arrivals) = RingBuffer::new(slots);
    let (emptied, returns) = RingBuffer::new(slots);
    let wanted = Arc::new(Sign::default());
    let sender = Sender {
        batches,
        returns,
        wanted: Arc::clone(&wanted),
        wants: false,
        spare: Vec::with_capacity(slots),
        gathering: Batch::default(),
        slots,
        away_weight: 0,
        sent: 0,
        returned: 0,
    };
    (
        sender,
        Receiver {
            arrivals,
            emptied,
            wanted,
        },
    )
}

/// What [`Sender::flush`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flushed {
    /// Nothing had gathered.
    Nothing,
    /// A batch is in the ring: the peer must be woken if it sleeps.
    Sent,
    /// All credit is used: it keeps gathering.
    NoCredit,
}

/// A position in what was sent: everything added before it was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Mark(u64);

/// The sending end.
///
/// Invariant: `sent - returned <= slots`: batches away from here fit both rings.
pub(crate) struct Sender {
    batches: Producer<Batch>,
    returns: Consumer<Batch>,
    /// Raised while this end wants to be woken when a batch comes back.
    wanted: Arc<Sign>,
    /// Whether this end has raised it since it last took something back.
    wants: bool,
    spare: Vec<Batch>,
    gathering: Batch,
    slots: usize,
    /// Weight of the batches that are away. A batch keeps its weight until it is back.
    away_weight: usize,
    sent: u64,
    returned: u64,
}

impl Sender {
    /// What gathers for the next flush.
    pub(crate) const fn batch(&mut self) -> &mut Batch {
        &mut self.gathering
    }

    /// Whether requests may be added: see the module.
    #[must_use]
    pub(crate) const fn has_room(&self) -> bool {
        self.away_weight + self.gathering.weight() < WEIGHT_MAX
    }

    /// Sends what gathered, if there is some and a credit for it. What came back must have been [collected](Self::collect), by one
    /// who looks at what waits for it: a batch that is taken back here would be seen by nobody.
    pub(crate) fn flush(&mut self) -> Flushed {
        if self.gathering.is_empty() {
            return Flushed::Nothing;
        }
        if self.sent - self.returned >= self.slots as u64 {
            return Flushed::NoCredit;
        }
        let next = self.spare.pop().unwrap_or_default();
        let batch = std::mem::replace(&mut self.gathering, next);
        self.away_weight += batch.weight();
        self.sent += 1;
        self.batches
            .push(batch)
            .expect("a link has no more batches under way than its ring has places");
        Flushed::Sent
    }

    /// Takes back what the receiver has handled.
    pub(crate) fn collect(&mut self) {
        if std::mem::take(&mut self.wants) {
            self.wanted.lower();
        }
        while let Ok(mut batch) = self.returns.pop() {
            self.returned += 1;
            self.away_weight -= batch.take_weight();
            self.spare.push(batch);
        }
    }

    /// Gives the memory of batches back that nothing is in: of those that are here.
    pub(crate) fn trim(&mut self) {
        self.spare.clear();
        self.gathering.trim();
    }

    /// The position behind all that was added so far.
    #[must_use]
    pub(crate) fn mark(&self) -> Mark {
        Mark(self.sent + u64::from(!self.gathering.is_empty()))
    }

    /// Whether the receiver has handled everything before `mark`. Batches come back in the order in which they were sent.
    #[must_use]
    pub(crate) const fn has_passed(&self, mark: Mark) -> bool {
        self.returned >= mark.0
    }

    /// Asks to be woken when the next batch comes back. To be called before the shard looks at its rings and sleeps.
    pub(crate) fn want_return(&mut self) {
        self.wants = true;
        self.wanted.raise();
    }

    /// Whether this end waits for something that only a returning batch brings: credit for what gathered.
    #[must_use]
    pub(crate) fn waits_for_credit(&self) -> bool {
        !self.gathering.is_empty() || !self.has_room()
    }

    /// Whether a batch has come back that somebody waits for.
    #[must_use]
    pub(crate) fn has_wanted_return(&self) -> bool {
        self.wants && !self.returns.is_empty()
    }

    #[cfg(test)]
    pub(super) fn check(&self) {
        let away = self.sent - self.returned;
        assert!(
            away <= self.slots as u64,
            "no more batches away than credit"
        );
        assert!(
            away > 0 || self.away_weight == 0,
            "nothing away weighs nothing"
        );
        assert!(
            self.spare.len() <= self.slots + 1,
            "batches are not multiplied"
        );
    }
}

/// The receiving end.
pub(crate) struct Receiver {
    arrivals: Consumer<Batch>,
    emptied: Producer<Batch>,
    wanted: Arc<Sign>,
}

impl Receiver {
    /// Whether a batch is there.
    #[must_use]
    pub(crate) fn has_batch(&self) -> bool {
        !self.arrivals.is_empty()
    }

    /// The next batch. It must come back by [`give_back`](Self::give_back) when all its messages are handled.
    pub(crate) fn take(&mut self) -> Option<Batch> {
        self.arrivals.pop().ok()
    }

    /// Gives a handled batch back: credit for the sender. True when the sender wants to be woken for it.
    pub(crate) fn give_back(&mut self, mut batch: Batch) -> bool {
        batch.empty();
        self.emptied
            .push(batch)
            .expect("a batch comes back into a ring with room for all that are away");
        self.wanted.take_after_write()
    }
}

#[cfg(test)]
mod tests;
