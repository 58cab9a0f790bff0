//! Publishes of QoS > 0 on their way to durable partitions, as the publisher's shard sees them.
//!
//! Appends are numbered per (origin, partition) from 1 without gaps (M14). Each number waits until its partition answers; a
//! publish that went to several partitions is settled when the last has answered, with the worst answer (M10, M11).
//!
//! Invariants (`check`, run after every step of the tests):
//! - `floor <= next` of each partition; the oldest number that is kept is not settled, so the floor is exact
//! - a wait has as many numbers as answers it waits for
//!
//! Numbers of a front that is gone settle like all others; a message that must not overtake them (Detach, M25) waits in
//! [`LastWords`].

mod last_words;
#[cfg(test)]
mod tests;

pub(crate) use last_words::LastWords;

use std::collections::VecDeque;

use courser_contract::{AppendKey, AppendNumber, FrontId, Origin, PartitionId, Settled, Ticket};
use slab::Slab;

use crate::latency::Moment;

/// A publish whose destinations have all answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Done {
    /// Whose publish.
    pub(crate) front: FrontId,
    /// Which.
    pub(crate) ticket: Ticket,
    /// The worst answer.
    pub(crate) result: Settled,
    /// When it was received.
    pub(crate) received: Moment,
}

/// A publish that waits; made by [`Appends::begin`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Waiting(u32);

#[derive(Debug)]
struct Wait {
    front: FrontId,
    ticket: Ticket,
    remaining: u32,
    worst: Settled,
    received: Moment,
}

/// One number of a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Number {
    Open(Waiting),
    Settled,
}

/// Numbers of one partition: `floor` is that of the first in the queue.
#[derive(Debug)]
struct Lane {
    floor: u64,
    numbers: VecDeque<Number>,
}

impl Default for Lane {
    fn default() -> Self {
        Self {
            floor: 1,
            numbers: VecDeque::new(),
        }
    }
}

impl Lane {
    fn next(&self) -> u64 {
        self.floor + self.numbers.len() as u64
    }

    /// Marks a number as settled and gives who waited; `None` for one that was settled already or never given.
    fn settle(&mut self, number: AppendNumber) -> Option<Waiting> {
        let at = usize::try_from(number.0.checked_sub(self.floor)?).ok()?;
        let slot = self.numbers.get_mut(at)?;
        let Number::Open(waiting) = std::mem::replace(slot, Number::Settled) else {
            return None;
        };
        while self.numbers.front() == Some(&Number::Settled) {
            self.numbers.pop_front();
            self.floor += 1;
        }
        Some(waiting)
    }
}

/// The unsettled appends of one origin.
#[derive(Debug)]
pub(crate) struct Appends {
    origin: Origin,
    /// Partitions with a log, by number, and behind them the volatile ones, by shard.
    lanes: Vec<Lane>,
    logged: u16,
    waits: Slab<Wait>,
}

impl Appends {
    /// None yet, of `origin`, to the partitions `0..logged` and the volatile ones of `shards` shards.
    #[must_use]
    pub(crate) fn new(origin: Origin, logged: u16, shards: u16) -> Self {
        Self {
            origin,
            lanes: (0..logged + shards).map(|_| Lane::default()).collect(),
            logged,
            waits: Slab::new(),
        }
    }

    fn place(&self, partition: PartitionId) -> usize {
        usize::from(match partition.volatile_shard() {
            Some(shard) => self.logged + shard.0,
            None => partition.0,
        })
    }

    fn partition(&self, place: usize) -> PartitionId {
        let place = place as u16;
        match place.checked_sub(self.logged) {
            Some(shard) => PartitionId::volatile_of(courser_contract::ShardId(shard)),
            None => PartitionId(place),
        }
    }

    /// Publishes that wait.
    #[cfg(test)]
    pub(crate) fn waiting(&self) -> usize {
        self.waits.len()
    }

    /// A publish that will wait for each number that [`number`](Self::number) gives it; at least one must follow.
    pub(crate) fn begin(&mut self, front: FrontId, ticket: Ticket, received: Moment) -> Waiting {
        let wait = Wait {
            front,
            ticket,
            remaining: 0,
            worst: Settled::Ok,
            received,
        };
        Waiting(
            u32::try_from(self.waits.insert(wait)).expect("tickets are bounded by Receive Maximum"),
        )
    }

    /// The key of the next append to `partition`.
    pub(crate) fn number(&mut self, waiting: Waiting, partition: PartitionId) -> AppendKey {
        let place = self.place(partition);
        let lane = &mut self.lanes[place];
        let number = AppendNumber(lane.next());
        lane.numbers.push_back(Number::Open(waiting));
        self.waits[waiting.0 as usize].remaining += 1;
        AppendKey::Numbered {
            origin: self.origin,
            number,
            floor: AppendNumber(lane.floor),
        }
    }

    /// A partition has answered a number. `Some` when the publish has no other to wait for. An answer that was given
    /// before, or to a number of another origin, changes nothing.
    pub(crate) fn settled(
        &mut self,
        partition: PartitionId,
        origin: Origin,
        number: AppendNumber,
        result: Settled,
    ) -> Option<Done> {
        if origin != self.origin {
            return None;
        }
        let place = self.place(partition);
        let waiting = self.lanes.get_mut(place)?.settle(number)?;
        let wait = &mut self.waits[waiting.0 as usize];
        wait.worst = worse(wait.worst, result);
        wait.remaining -= 1;
        if wait.remaining > 0 {
            return None;
        }
        let Wait {
            front,
            ticket,
            worst,
            received,
            ..
        } = self.waits.remove(waiting.0 as usize);
        Some(Done {
            front,
            ticket,
            result: worst,
            received,
        })
    }

    /// For a fence: partitions with unsettled numbers, and the first number that was not given yet.
    pub(crate) fn watermarks(&self) -> impl Iterator<Item = (PartitionId, AppendNumber)> {
        self.lanes()
            .filter(|(_, lane)| !lane.numbers.is_empty())
            .map(|(partition, lane)| (partition, AppendNumber(lane.next())))
    }

    /// Whether everything below `number` is settled.
    #[must_use]
    pub(crate) fn is_settled_below(&self, partition: PartitionId, number: AppendNumber) -> bool {
        self.lanes
            .get(self.place(partition))
            .is_none_or(|lane| lane.floor >= number.0)
    }

    /// Partitions with unsettled appends of `front` (M25). Linear in what is unsettled: for a front that ends with some.
    #[must_use]
    pub(crate) fn open(&self, front: FrontId) -> Vec<PartitionId> {
        let has = |number: &Number| match number {
            Number::Open(waiting) => self.waits[waiting.0 as usize].front == front,
            Number::Settled => false,
        };
        self.lanes()
            .filter(|(_, lane)| lane.numbers.iter().any(has))
            .map(|(partition, _)| partition)
            .collect()
    }

    fn lanes(&self) -> impl Iterator<Item = (PartitionId, &Lane)> {
        self.lanes
            .iter()
            .enumerate()
            .map(|(place, lane)| (self.partition(place), lane))
    }

    /// Asserts the invariants; linear in what is unsettled.
    #[cfg(test)]
    fn check(&self) {
        let mut counts = std::collections::HashMap::new();
        for (_, lane) in self.lanes() {
            assert_ne!(
                lane.numbers.front(),
                Some(&Number::Settled),
                "the floor is exact"
            );
            for number in &lane.numbers {
                if let Number::Open(waiting) = number {
                    *counts.entry(waiting.0).or_insert(0) += 1;
                }
            }
        }
        for (place, wait) in &self.waits {
            let counted = counts.get(&(place as u32)).copied().unwrap_or(0);
            assert_eq!(
                wait.remaining, counted,
                "a wait has a number for each answer"
            );
        }
    }
}

/// A refusal is worse than none; of two the first counts.
const fn worse(one: Settled, other: Settled) -> Settled {
    match one {
        Settled::Ok => other,
        Settled::Refused(_) => one,
    }
}
