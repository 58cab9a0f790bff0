//! Loss, duplicates and order, by stream. Numbers of a stream run 0, 1, 2 …
//!
//! A single subscriber is checked by [`Arrivals`]: cheap while everything comes in order. The members of a shared group are
//! checked together by [`GroupArrivals`]: each message once over all members, each member in rising order.

use std::collections::{BTreeSet, HashMap};

/// What went wrong, or might have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// Sent and not delivered by the end of the run.
    pub lost: u64,
    /// Those of `lost` behind the last one that came of their stream: the broker may have them still, and the run waited too short for it.
    pub outstanding: u64,
    /// Delivered again with DUP.
    pub duplicates_marked: u64,
    /// Delivered again without DUP.
    pub duplicates_unmarked: u64,
    /// Arrived after a later one of the same stream.
    pub out_of_order: u64,
    /// With a stamp of no stream of this run, or none.
    pub foreign: u64,
}

impl Faults {
    /// Sum of both.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self {
            lost: self.lost + other.lost,
            outstanding: self.outstanding + other.outstanding,
            duplicates_marked: self.duplicates_marked + other.duplicates_marked,
            duplicates_unmarked: self.duplicates_unmarked + other.duplicates_unmarked,
            out_of_order: self.out_of_order + other.out_of_order,
            foreign: self.foreign + other.foreign,
        }
    }

    const fn count_duplicate(&mut self, marked: bool) {
        if marked {
            self.duplicates_marked += 1;
        } else {
            self.duplicates_unmarked += 1;
        }
    }
}

/// Whether a message came for the first time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// For the first time.
    First,
    /// Again, or not ours.
    Other,
}

/// Streams as one subscriber saw them.
#[derive(Debug)]
pub(crate) struct Arrivals {
    streams: Vec<Seen>,
    faults: Faults,
}

#[derive(Clone, Debug, Default)]
struct Seen {
    next: u64,
    missing: BTreeSet<u64>,
}

impl Arrivals {
    /// For streams `0..streams`.
    pub(crate) fn new(streams: usize) -> Self {
        Self {
            streams: vec![Seen::default(); streams],
            faults: Faults::default(),
        }
    }

    /// Notes message `number` of `stream`.
    pub(crate) fn note(&mut self, stream: u32, number: u64, marked: bool) -> Arrival {
        let Some(seen) = self.streams.get_mut(stream as usize) else {
            self.faults.foreign += 1;
            return Arrival::Other;
        };
        if number == seen.next {
            seen.next += 1;
            return Arrival::First;
        }
        Self::note_gap(seen, &mut self.faults, number, marked)
    }

    #[cold]
    fn note_gap(seen: &mut Seen, faults: &mut Faults, number: u64, marked: bool) -> Arrival {
        if number > seen.next {
            seen.missing.extend(seen.next..number);
            seen.next = number + 1;
            Arrival::First
        } else if seen.missing.remove(&number) {
            faults.out_of_order += 1;
            Arrival::First
        } else {
            faults.count_duplicate(marked);
            Arrival::Other
        }
    }

    /// Notes a message without a stamp of this run.
    pub(crate) const fn note_foreign(&mut self) {
        self.faults.foreign += 1;
    }

    /// The verdict, given how many were sent on each stream that this subscriber gets.
    pub(crate) fn faults(&self, sent: impl Iterator<Item = (u32, u64)>) -> Faults {
        sent.fold(self.faults, |faults, (stream, sent)| {
            let seen = &self.streams[stream as usize];
            let outstanding = sent.saturating_sub(seen.next);
            faults.plus(Faults {
                lost: outstanding + seen.missing.len() as u64,
                outstanding,
                ..Faults::default()
            })
        })
    }
}

/// Streams as the members of a shared group saw them together.
#[derive(Debug, Default)]
pub(crate) struct GroupArrivals {
    streams: Vec<Bits>,
    last: HashMap<(u32, u32), u64>,
    faults: Faults,
}

#[derive(Clone, Debug, Default)]
struct Bits {
    words: Vec<u64>,
    set: u64,
    /// Behind the highest that is set.
    end: u64,
}

impl Bits {
    fn set(&mut self, number: u64) -> bool {
        let (word, bit) = ((number / 64) as usize, 1 << (number % 64));
        if word >= self.words.len() {
            self.words.resize((word + 1).next_power_of_two(), 0);
        }
        let fresh = self.words[word] & bit == 0;
        self.words[word] |= bit;
        self.set += u64::from(fresh);
        self.end = self.end.max(number + 1);
        fresh
    }
}

impl GroupArrivals {
    /// Numbers beyond this are not of a run of ours: memory follows what was sent.
    const NUMBER_MAX: u64 = 1 << 34;

    /// For streams `0..streams`.
    pub(crate) fn new(streams: usize) -> Self {
        Self {
            streams: vec![Bits::default(); streams],
            ..Self::default()
        }
    }

    /// Notes that `member` got message `number` of `stream`.
    pub(crate) fn note(&mut self, member: u32, stream: u32, number: u64, marked: bool) -> Arrival {
        let Some(bits) = self
            .streams
            .get_mut(stream as usize)
            .filter(|_| number < Self::NUMBER_MAX)
        else {
            self.faults.foreign += 1;
            return Arrival::Other;
        };
        if !bits.set(number) {
            self.faults.count_duplicate(marked);
            return Arrival::Other;
        }
        let last = self.last.entry((member, stream)).or_insert(number);
        if number < *last {
            self.faults.out_of_order += 1;
        }
        *last = number.max(*last);
        Arrival::First
    }

    /// Notes a message without a stamp of this run.
    pub(crate) const fn note_foreign(&mut self) {
        self.faults.foreign += 1;
    }

    /// The verdict, given how many were sent on each stream.
    pub(crate) fn faults(&self, sent: impl Iterator<Item = (u32, u64)>) -> Faults {
        sent.fold(self.faults, |faults, (stream, sent)| {
            let seen = &self.streams[stream as usize];
            let lost = sent.saturating_sub(seen.set);
            faults.plus(Faults {
                lost,
                outstanding: sent.saturating_sub(seen.end).min(lost),
                ..Faults::default()
            })
        })
    }
}

#[cfg(test)]
mod tests;
