//! Logins that wait for their turn, in a lane for each address. Addresses have their turns one after the other, so that a fleet behind one of
//! them holds up itself and not the others; those whose last login was right have turns and room of their own, so that strangers, however many
//! they are, do not hold up these. Pure: who waits is whatever the caller wakes.
//!
//! Invariants (`check`, run after every step in tests):
//! - a lane has somebody in it, and no more than one address may have
//! - a lane has one place in the round of its rank, or none: then its address has as much under way as it may have, and [`Lanes::ready`] follows
//! - count and bytes are those of all of a rank who wait

use std::collections::{BTreeMap, HashMap};

use super::throttle::Origin;

/// Regular addresses have so many turns while others wait for one.
const TURNS_IN_A_ROW: usize = 3;

/// Who has its turn first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rank {
    /// Of this address the last login was right.
    Regular,
    Other,
}

impl Rank {
    pub(super) const ALL: [Self; 2] = [Self::Regular, Self::Other];
}

/// How many may wait, and with how many bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// Of all of one rank.
    pub(super) of_all: Amount,
    pub(super) of_one: Amount,
}

/// Logins, and the bytes of what they came with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Amount {
    pub(super) count: usize,
    pub(super) bytes: u64,
}

impl Amount {
    const fn fits(self, bytes: u64, bound: Self) -> bool {
        self.count < bound.count && self.bytes.saturating_add(bytes) <= bound.bytes
    }

    const fn add(&mut self, bytes: u64) {
        self.count += 1;
        self.bytes += bytes;
    }

    const fn remove(&mut self, bytes: u64) {
        self.count -= 1;
        self.bytes -= bytes;
    }
}

/// By which one who waits gives up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ticket {
    pub(super) origin: Origin,
    number: u64,
}

#[derive(Debug)]
struct Waiter<W> {
    who: W,
    bytes: u64,
}

#[derive(Debug)]
struct Lane<W> {
    /// By the number of their tickets, which is the order in which they came.
    waiters: BTreeMap<u64, Waiter<W>>,
    held: Amount,
    /// That of the address when the first of them came.
    rank: Rank,
    /// In the round of that rank.
    place: Option<u64>,
}

/// Whether an address may have its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn<T> {
    /// What the first of its lane is told.
    Over(T),
    /// As much of it as may be is under way: when that changes, [`Lanes::ready`] is called.
    NotYet,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Lanes<W> {
    bounds: Bounds,
    lanes: HashMap<Origin, Lane<W>>,
    /// Whose turn it is next, by rank and place.
    rounds: [BTreeMap<u64, Origin>; Rank::ALL.len()],
    /// By rank.
    held: [Amount; Rank::ALL.len()],
    /// Turns that regular ones had since another one had its turn.
    in_a_row: usize,
    /// Of tickets and places.
    next: u64,
}

impl<W> Lanes<W> {
    pub(super) fn new(bounds: Bounds) -> Self {
        Self {
            bounds,
            lanes: HashMap::new(),
            rounds: Rank::ALL.map(|_| BTreeMap::new()),
            held: Rank::ALL.map(|_| Amount::default()),
            in_a_row: 0,
            next: 0,
        }
    }

    /// Whether somebody of this address waits.
    pub(super) fn has(&self, origin: Origin) -> bool {
        self.lanes.contains_key(&origin)
    }

    /// Whether nobody waits.
    pub(super) fn is_empty(&self) -> bool {
        self.held.iter().all(|held| held.count == 0)
    }

    /// How many of those who wait have their turn before one of this rank who would come now.
    pub(super) fn ahead_of(&self, origin: Origin, rank: Rank) -> usize {
        let own = self.lanes.get(&origin);
        let rank = own.map_or(rank, |lane| lane.rank);
        let own = own.map_or(0, |lane| lane.held.count);
        let of_rank = self.lanes.values().filter(|lane| lane.rank == rank);
        let of_rank: usize = of_rank.map(|lane| lane.held.count.min(own + 1)).sum();
        let [regular, others] = self.held.map(|held| held.count);
        of_rank
            + match rank {
                Rank::Regular => others.min(of_rank / TURNS_IN_A_ROW + 1),
                Rank::Other => regular.min((of_rank + 1) * TURNS_IN_A_ROW),
            }
    }

    /// Waits behind the others of its address, with whose rank it goes; none: there is no room, and it has not been kept.
    pub(super) fn push(
        &mut self,
        (origin, rank): (Origin, Rank),
        bytes: u64,
        who: impl FnOnce() -> W,
    ) -> Option<Ticket> {
        let lane = self.lanes.get(&origin);
        let of_one = lane.map_or_else(Amount::default, |lane| lane.held);
        let rank = lane.map_or(rank, |lane| lane.rank);
        let held = &mut self.held[rank as usize];
        if !held.fits(bytes, self.bounds.of_all) || !of_one.fits(bytes, self.bounds.of_one) {
            return None;
        }
        let is_first = lane.is_none();
        held.add(bytes);
        let number = self.number();
        let lane = self.lanes.entry(origin).or_insert_with(|| Lane {
            waiters: BTreeMap::new(),
            held: Amount::default(),
            rank,
            place: None,
        });
        lane.held.add(bytes);
        let who = who();
        lane.waiters.insert(number, Waiter { who, bytes });
        if is_first {
            self.ready(origin);
        }
        Some(Ticket { origin, number })
    }

    /// Gives up; false: it does not wait any more.
    pub(super) fn remove(&mut self, ticket: Ticket) -> bool {
        let Some(lane) = self.lanes.get_mut(&ticket.origin) else {
            return false;
        };
        let Some(gone) = lane.waiters.remove(&ticket.number) else {
            return false;
        };
        lane.held.remove(gone.bytes);
        self.held[lane.rank as usize].remove(gone.bytes);
        self.drop_if_empty(ticket.origin);
        true
    }

    /// Less of this address is under way: it has a place in the round again, behind the others.
    pub(super) fn ready(&mut self, origin: Origin) {
        let place = self.number();
        if let Some(lane) = self.lanes.get_mut(&origin)
            && lane.place.is_none()
        {
            lane.place = Some(place);
            self.rounds[lane.rank as usize].insert(place, origin);
        }
    }

    /// Who has its turn next, and what it is told.
    pub(super) fn take<T>(
        &mut self,
        mut may: impl FnMut(Origin) -> Turn<T>,
    ) -> Option<(Origin, W, T)> {
        loop {
            let rank = self.next_rank();
            let (_, origin) = self.rounds[rank as usize].pop_first()?;
            let lane = self.lanes.get_mut(&origin)?;
            lane.place = None;
            let Turn::Over(told) = may(origin) else {
                continue;
            };
            let (_, Waiter { who, bytes }) = lane.waiters.pop_first()?;
            lane.held.remove(bytes);
            self.held[rank as usize].remove(bytes);
            self.in_a_row = match rank {
                Rank::Regular => self.in_a_row + 1,
                Rank::Other => 0,
            };
            self.ready(origin);
            self.drop_if_empty(origin);
            return Some((origin, who, told));
        }
    }

    /// Of whom one has its turn next, if anybody has.
    fn next_rank(&self) -> Rank {
        let [regular, others] = &self.rounds;
        let others_turn = self.in_a_row >= TURNS_IN_A_ROW && !others.is_empty();
        match regular.is_empty() || others_turn {
            true => Rank::Other,
            false => Rank::Regular,
        }
    }

    fn drop_if_empty(&mut self, origin: Origin) {
        let Some(lane) = self.lanes.get(&origin) else {
            return;
        };
        if lane.waiters.is_empty() {
            if let Some(place) = lane.place {
                self.rounds[lane.rank as usize].remove(&place);
            }
            self.lanes.remove(&origin);
        }
    }

    const fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }
}

#[cfg(test)]
mod tests;
