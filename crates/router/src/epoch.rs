//! Epochs: one number for each topic that changes when what the topic matches may have changed.
//!
//! Counters are kept for filters that begin with a wildcard (one), by first level, and by first two levels:
//! subscribing to `fleet/car-7/cmd` then spoils only what is cached for topics that begin with `fleet/car-7`,
//! while `fleet/+/cmd` spoils all of `fleet`. Levels are hashed to a fixed number of counters, so the memory
//! is bounded and nothing must be forgotten; a collision costs a needless miss, never a stale hit. Every counter
//! only grows, so the sum of a topic's counters is equal if and only if none of them changed.

use foldhash::fast::RandomState;
use std::hash::BuildHasher;

/// Counters by first level, and as many by first two levels.
pub(crate) const STRIPES: usize = 512;
/// All of them, and the one for filters that begin with a wildcard, last.
pub(crate) const COUNTERS: usize = 2 * STRIPES + 1;
const WILD: usize = 2 * STRIPES;

/// A state of what a topic matches. Two are equal if nothing that concerns the topic was changed in between.
/// The default is the epoch of every topic before any change.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash)]
pub struct Epoch(pub(crate) u64);

/// Which counters concern a topic: kept beside a cached result, so that checking it needs no hash.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct Stripes {
    first: u16,
    second: u16,
}

/// What can tell the epoch of a topic: [`Matcher`](crate::Matcher) and [`Reader`](crate::Reader).
pub trait Epochs {
    /// The counters that concern `topic`; the same for the life of the source. One or two short hashes.
    fn stripes(&self, topic: &str) -> Stripes;

    /// Their sum now: three loads.
    fn at(&self, stripes: Stripes) -> Epoch;

    /// The epoch of `topic` now.
    fn epoch(&self, topic: &str) -> Epoch {
        self.at(self.stripes(topic))
    }
}

#[derive(Clone, Default)]
pub(crate) struct Striping {
    hasher: RandomState,
}

impl Striping {
    pub(crate) fn of_topic(&self, topic: &str) -> Stripes {
        let (first, rest) = split(topic);
        let second = match rest {
            None => WILD as u16, // no second level: the sum counts it twice, which grows all the same
            Some(rest) => self.second(first, split(rest).0),
        };
        Stripes {
            first: self.first(first),
            second,
        }
    }

    /// The counter that a change to `filter` moves.
    pub(crate) fn of_filter(&self, filter: &str) -> usize {
        let (first, rest) = split(filter);
        if first == "+" || (first == "#" && rest.is_none()) {
            return WILD;
        }
        let by_first = usize::from(self.first(first));
        match rest.map(split) {
            None | Some(("+", _) | ("#", None)) => by_first,
            Some((second, _)) => usize::from(self.second(first, second)),
        }
    }

    fn first(&self, level: &str) -> u16 {
        (self.hasher.hash_one(level) % STRIPES as u64) as u16
    }

    fn second(&self, first: &str, second: &str) -> u16 {
        (STRIPES as u64 + self.hasher.hash_one((first, second)) % STRIPES as u64) as u16
    }
}

/// Sum of the counters of `stripes`, each read by `load`.
#[inline]
pub(crate) fn sum(stripes: Stripes, load: impl Fn(usize) -> u64) -> Epoch {
    let by_levels =
        load(usize::from(stripes.first)).wrapping_add(load(usize::from(stripes.second)));
    Epoch(by_levels.wrapping_add(load(WILD)))
}

fn split(text: &str) -> (&str, Option<&str>) {
    match text.split_once('/') {
        Some((level, rest)) => (level, Some(rest)),
        None => (text, None),
    }
}
