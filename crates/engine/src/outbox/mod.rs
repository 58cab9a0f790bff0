//! What a partition forwards to others (M19): replicated outboxes, the leader's sending from them, and the other side's memory
//! of what it has taken.
//!
//! One outbox for each destination. A forward is pushed by the entry that causes it, sent by the leader until the destination
//! has answered, and settled by an entry. Positions begin at `start << 40` at every start (with peers: term), so a position
//! never names two forwards, whatever a lost leader had sent; the destination takes each position once ([`Inbox`]).
//!
//! ```text
//!   settled │ waiting, some of it settled │ not pushed yet
//!   ────────┼─────────────────────────────┼──────────────▶ positions
//!         floor                          next
//! ```
//!
//! Invariants (`check`): all that waits is in `floor..next`; `waiting` counts it over all outboxes.
//! Session end and clean start leave outboxes alone: nothing here knows of them.

mod inbox;
mod sender;

use std::collections::BTreeMap;

use courser_contract::{PartitionId, Seq, SessionUid};

pub(crate) use self::inbox::{Inbox, KnownForward};
pub(crate) use self::sender::Sender;
use crate::canonical::{Canonical, write_count};
use crate::seq_table::SeqTable;

/// Bits of a position below the start.
const START_SHIFT: u32 = 40;

/// The largest number of a start: positions have no room for more.
pub const START_MAX: u32 = (1 << (u64::BITS - START_SHIFT)) - 1;

/// Whether the destination may refuse a forward (M28: a queue, a topic, the retained store).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusable {
    /// It takes everything: later forwards follow without waiting for the answer.
    No,
    /// It may refuse, and the forward then waits: later ones of its session leave after its answer.
    Yes,
}

impl Refusable {
    /// As entries and checkpoints say it.
    pub(crate) const fn said(may_be_refused: bool) -> Self {
        match may_be_refused {
            true => Self::Yes,
            false => Self::No,
        }
    }
}

/// One forward.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Forward<T> {
    /// What is forwarded.
    pub(crate) item: T,
    /// Whose it is: forwards of one session to one destination keep their order. None: of no one's, in no order.
    pub(crate) session: Option<SessionUid>,
    /// Whether the destination may refuse it.
    pub(crate) refusable: Refusable,
}

/// Forwards to one destination, replicated.
#[derive(Clone, Debug)]
pub(crate) struct Outbox<T> {
    next: Seq,
    waiting: SeqTable<Forward<T>>,
}

impl<T> Outbox<T> {
    /// Everything below is settled; goes with every append of this outbox.
    pub(crate) fn floor(&self) -> Seq {
        self.waiting.first().map_or(self.next, |(seq, _)| seq)
    }

    /// The position of the next push.
    pub(crate) const fn next(&self) -> Seq {
        self.next
    }

    /// The forward at `seq`, if it still waits.
    pub(crate) fn get(&self, seq: Seq) -> Option<&Forward<T>> {
        self.waiting.get(seq)
    }

    /// The first forward from `seq` on that still waits.
    pub(crate) fn next_from(&self, seq: Seq) -> Option<(Seq, &Forward<T>)> {
        self.waiting.next_from(seq)
    }

    /// What waits, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Seq, &Forward<T>)> {
        self.waiting.iter()
    }

    /// Number of forwards that wait.
    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }
}

/// All outboxes of a partition, replicated.
#[derive(Clone, Debug)]
pub(crate) struct Outboxes<T> {
    base: Seq,
    waiting: usize,
    by_destination: BTreeMap<PartitionId, Outbox<T>>,
}

impl<T> Default for Outboxes<T> {
    fn default() -> Self {
        Self {
            base: Seq(0),
            waiting: 0,
            by_destination: BTreeMap::new(),
        }
    }
}

impl<T> Outboxes<T> {
    /// None, with the position at which new ones begin.
    pub(crate) fn with_base(base: Seq) -> Self {
        Self {
            base,
            ..Self::default()
        }
    }

    /// Puts back an outbox without its forwards; false: it is there.
    pub(crate) fn restore(&mut self, destination: PartitionId, next: Seq) -> bool {
        let waiting = SeqTable::default();
        let outbox = Outbox { next, waiting };
        self.by_destination.insert(destination, outbox).is_none()
    }

    /// Puts back a forward; false: there is no such position, or it is taken.
    pub(crate) fn restore_forward(
        &mut self,
        destination: PartitionId,
        seq: Seq,
        forward: Forward<T>,
    ) -> bool {
        let outbox = self.by_destination.get_mut(&destination);
        let Some(outbox) = outbox.filter(|outbox| seq < outbox.next) else {
            return false;
        };
        self.waiting += 1;
        outbox.waiting.insert(seq, forward).is_none()
    }

    /// Changes what is forwarded, all of it.
    pub(crate) fn for_each_item(&mut self, mut change: impl FnMut(&mut T)) {
        for outbox in self.by_destination.values_mut() {
            outbox.waiting.for_each(|forward| change(&mut forward.item));
        }
    }

    /// A new start (with peers: term): positions go on at `start << 40`. What waits keeps its position.
    ///
    /// # Panics
    /// With a start above [`START_MAX`]: whoever counts starts refuses it.
    pub(crate) fn begin(&mut self, start: u32) {
        assert!(start <= START_MAX, "starts fit 24 bits");
        self.base = self.base.max(Seq(u64::from(start) << START_SHIFT));
        // One with nothing in it says no more than its absence does now.
        self.by_destination.retain(|_, outbox| outbox.len() > 0);
        for outbox in self.by_destination.values_mut() {
            outbox.next = outbox.next.max(self.base);
        }
    }

    /// Puts a forward into the outbox that leads to `destination`; returns its position there. O(1).
    pub(crate) fn push(&mut self, destination: PartitionId, forward: Forward<T>) -> Seq {
        let base = self.base;
        let outbox = self
            .by_destination
            .entry(destination)
            .or_insert_with(|| Outbox {
                next: base,
                waiting: SeqTable::default(),
            });
        let seq = outbox.next;
        outbox.next = Seq(seq.0 + 1);
        outbox.waiting.insert(seq, forward);
        self.waiting += 1;
        seq
    }

    /// Ends a forward: taken, or given up. None when it already was.
    pub(crate) fn settle(&mut self, destination: PartitionId, seq: Seq) -> Option<Forward<T>> {
        let outbox = self.by_destination.get_mut(&destination)?;
        let settled = outbox.waiting.remove(seq)?;
        self.waiting -= 1;
        Some(settled)
    }

    /// The outbox that leads to `destination`.
    pub(crate) fn get(&self, destination: PartitionId) -> Option<&Outbox<T>> {
        self.by_destination.get(&destination)
    }

    /// All outboxes, by destination.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (PartitionId, &Outbox<T>)> {
        self.by_destination
            .iter()
            .map(|(&destination, outbox)| (destination, outbox))
    }

    /// The first outbox that leads to `destination` or behind it.
    pub(crate) fn next_from(&self, destination: PartitionId) -> Option<(PartitionId, &Outbox<T>)> {
        let mut outboxes = self.by_destination.range(destination..);
        outboxes.next().map(|(&to, outbox)| (to, outbox))
    }

    /// Where outboxes begin that are made from now on.
    pub(crate) const fn base(&self) -> Seq {
        self.base
    }

    /// Number of forwards that wait in all outboxes, against the limit of M47.
    pub(crate) const fn len(&self) -> usize {
        self.waiting
    }

    /// Appends the canonical bytes; `write` appends an item.
    pub(crate) fn encode(&self, out: &mut Vec<u8>, mut write: impl FnMut(&T, &mut Vec<u8>)) {
        self.base.write(out);
        write_count(self.by_destination.len(), out);
        for (destination, outbox) in &self.by_destination {
            destination.write(out);
            outbox.next.write(out);
            write_count(outbox.len(), out);
            for (seq, forward) in outbox.iter() {
                seq.write(out);
                forward.session.write(out);
                (forward.refusable == Refusable::Yes).write(out);
                write(&forward.item, out);
            }
        }
    }

    /// Asserts the invariants of the module.
    pub(crate) fn check(&self) {
        let mut waiting = 0;
        for outbox in self.by_destination.values() {
            outbox.waiting.check();
            waiting += outbox.len();
            assert!(outbox.next >= self.base, "positions are of this start");
            assert!(
                outbox.iter().all(|(seq, _)| seq < outbox.next),
                "what waits was pushed"
            );
        }
        assert_eq!(waiting, self.waiting, "what waits is counted");
    }
}

#[cfg(test)]
mod tests;
