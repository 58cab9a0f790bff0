//! Publishes of QoS > 0 on their way to partitions that answer, as the publisher's shard sees them.
//!
//! Appends are numbered per (origin, partition) from 1 without gaps (M14). Each number waits until its partition answers; a
//! publish that went to several partitions is settled when the last has answered, with the worst answer (M10, M11).
//!
//! Invariants (`check`, run after every step of the tests):
//! - `floor <= next` of each partition; the oldest number that is kept is not settled, so the floor is exact
//! - a wait has as many numbers as answers it waits for
//!
//! Numbers of a front that is gone settle like all others; a message that must not overtake them (Detach, M25) waits in
//! [`LastWords`](crate::LastWords).

use std::collections::VecDeque;

use courser_contract::{AppendKey, AppendNumber, FrontId, Origin, PartitionId, Settled, Ticket};
use slab::Slab;

/// A publish whose destinations have all answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Done<N> {
    /// Whose publish.
    pub front: FrontId,
    /// Which.
    pub ticket: Ticket,
    /// The worst answer.
    pub result: Settled,
    /// What its shell noted of it.
    pub noted: N,
}

/// A publish that waits; made by [`Appends::begin`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiting(u32);

#[derive(Debug)]
struct Wait<N> {
    front: FrontId,
    ticket: Ticket,
    remaining: u32,
    worst: Settled,
    noted: N,
}

/// One number of a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Number<K> {
    Open(Waiting, K),
    Settled,
}

/// Numbers of one partition: `floor` is that of the first in the queue.
#[derive(Debug)]
struct Lane<K> {
    floor: u64,
    numbers: VecDeque<Number<K>>,
}

impl<K> Default for Lane<K> {
    fn default() -> Self {
        Self {
            floor: 1,
            numbers: VecDeque::new(),
        }
    }
}

impl<K> Lane<K> {
    fn next(&self) -> u64 {
        self.floor + self.numbers.len() as u64
    }

    /// Marks a number as settled and gives who waited; `None` for one that was settled already or never given.
    fn settle(&mut self, number: AppendNumber) -> Option<Waiting> {
        let at = usize::try_from(number.0.checked_sub(self.floor)?).ok()?;
        let slot = self.numbers.get_mut(at)?;
        let Number::Open(waiting, _) = std::mem::replace(slot, Number::Settled) else {
            return None;
        };
        while matches!(self.numbers.front(), Some(Number::Settled)) {
            self.numbers.pop_front();
            self.floor += 1;
        }
        Some(waiting)
    }
}

/// The unsettled appends of one origin. `N` is what the shell notes of a publish, `K` what it keeps of each append to send it again:
/// nothing where partitions do not change their leader.
#[derive(Debug)]
pub struct Appends<N, K> {
    origin: Origin,
    /// Partitions with a log, by number, and behind them the volatile ones, by shard.
    lanes: Vec<Lane<K>>,
    logged: u16,
    waits: Slab<Wait<N>>,
}

impl<N, K> Appends<N, K> {
    /// None yet, of `origin`, to the partitions `0..logged` and the volatile ones of `shards` shards.
    #[must_use]
    pub fn new(origin: Origin, logged: u16, shards: u16) -> Self {
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
    pub fn waiting(&self) -> usize {
        self.waits.len()
    }

    /// A publish that will wait for each number that [`number`](Self::number) gives it; at least one must follow.
    ///
    /// # Panics
    /// With 2^32 of them: tickets are bounded by Receive Maximum.
    pub fn begin(&mut self, front: FrontId, ticket: Ticket, noted: N) -> Waiting {
        let wait = Wait {
            front,
            ticket,
            remaining: 0,
            worst: Settled::Ok,
            noted,
        };
        Waiting(
            u32::try_from(self.waits.insert(wait)).expect("tickets are bounded by Receive Maximum"),
        )
    }

    /// The key of the next append to `partition`.
    pub fn number(&mut self, waiting: Waiting, partition: PartitionId, kept: K) -> AppendKey {
        let place = self.place(partition);
        let lane = &mut self.lanes[place];
        let number = AppendNumber(lane.next());
        lane.numbers.push_back(Number::Open(waiting, kept));
        self.waits[waiting.0 as usize].remaining += 1;
        AppendKey::Numbered {
            origin: self.origin,
            number,
            floor: AppendNumber(lane.floor),
        }
    }

    /// A partition has answered a number. `Some` when the publish has no other to wait for. An answer that was given
    /// before, or to a number of another origin, changes nothing.
    pub fn settled(
        &mut self,
        partition: PartitionId,
        origin: Origin,
        number: AppendNumber,
        result: Settled,
    ) -> Option<Done<N>> {
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
            noted,
            ..
        } = self.waits.remove(waiting.0 as usize);
        Some(Done {
            front,
            ticket,
            result: worst,
            noted,
        })
    }

    /// For a fence: partitions with unsettled numbers, and the first number that was not given yet.
    pub fn watermarks(&self) -> impl Iterator<Item = (PartitionId, AppendNumber)> {
        self.lanes()
            .filter(|(_, lane)| !lane.numbers.is_empty())
            .map(|(partition, lane)| (partition, AppendNumber(lane.next())))
    }

    /// What a partition has not answered, in the order of its numbers, with what was kept of it: a new leader gets it again (M14).
    pub fn unsettled(&self, partition: PartitionId) -> impl Iterator<Item = (AppendKey, &K)> {
        let lane = self.lanes.get(self.place(partition));
        let floor = lane.map_or(1, |lane| lane.floor);
        let numbers = lane.into_iter().flat_map(|lane| &lane.numbers);
        numbers.zip(floor..).filter_map(move |(number, at)| {
            let Number::Open(_, kept) = number else {
                return None;
            };
            let key = AppendKey::Numbered {
                origin: self.origin,
                number: AppendNumber(at),
                floor: AppendNumber(floor),
            };
            Some((key, kept))
        })
    }

    /// Whether everything below `number` is settled.
    #[must_use]
    pub fn is_settled_below(&self, partition: PartitionId, number: AppendNumber) -> bool {
        self.lanes
            .get(self.place(partition))
            .is_none_or(|lane| lane.floor >= number.0)
    }

    /// Partitions with unsettled appends of `front` (M25). Linear in what is unsettled: for a front that ends with some.
    #[must_use]
    pub fn open(&self, front: FrontId) -> Vec<PartitionId> {
        let has = |number: &Number<K>| match number {
            Number::Open(waiting, _) => self.waits[waiting.0 as usize].front == front,
            Number::Settled => false,
        };
        self.lanes()
            .filter(|(_, lane)| lane.numbers.iter().any(has))
            .map(|(partition, _)| partition)
            .collect()
    }

    fn lanes(&self) -> impl Iterator<Item = (PartitionId, &Lane<K>)> {
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
            assert!(
                !matches!(lane.numbers.front(), Some(Number::Settled)),
                "the floor is exact"
            );
            for number in &lane.numbers {
                if let Number::Open(waiting, _) = number {
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

#[cfg(test)]
mod tests;
