//! How long commits to the disk take: a histogram that one thread writes and anybody reads.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Buckets for each doubling: a value is known to an eighth.
const STEPS: u64 = 8;
/// Below this many microseconds each has its own bucket.
const EXACT: u64 = STEPS;
/// Doublings above: the last bucket begins at more than an hour.
const DOUBLINGS: u64 = 30;
const BUCKETS: usize = (EXACT + DOUBLINGS * STEPS) as usize;

/// Times in microseconds since the start of the process.
#[derive(Debug)]
pub(crate) struct Times {
    buckets: [AtomicU64; BUCKETS],
    longest: AtomicU64,
}

impl Times {
    pub(crate) fn new() -> Self {
        Self {
            buckets: std::array::from_fn(|_| AtomicU64::new(0)),
            longest: AtomicU64::new(0),
        }
    }

    /// Notes one; only the thread that owns the disk does.
    pub(crate) fn note(&self, took: Duration) {
        let us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.buckets[bucket_of(us)].fetch_add(1, Ordering::Relaxed);
        self.longest.fetch_max(us, Ordering::Relaxed);
    }

    /// The longest, in microseconds.
    pub(crate) fn longest(&self) -> u64 {
        self.longest.load(Ordering::Relaxed)
    }

    /// Microseconds that `share` of a thousand took at most: the upper end of their bucket, so at most an eighth too much. 0
    /// while there is none.
    pub(crate) fn at(&self, share: u64) -> u64 {
        let counts: [u64; BUCKETS] =
            std::array::from_fn(|at| self.buckets[at].load(Ordering::Relaxed));
        let all: u64 = counts.iter().sum();
        let wanted = (all * share).div_ceil(1_000);
        let mut seen = 0;
        for (bucket, count) in counts.into_iter().enumerate() {
            seen += count;
            if count > 0 && seen >= wanted {
                return end_of(bucket).min(self.longest());
            }
        }
        0
    }
}

fn bucket_of(us: u64) -> usize {
    if us < EXACT {
        return us as usize;
    }
    let doubling = u64::from(us.ilog2()) - u64::from(EXACT.ilog2());
    let step = (us >> doubling) - STEPS;
    let bucket = EXACT + doubling * STEPS + step;
    usize::try_from(bucket).map_or(BUCKETS - 1, |bucket| bucket.min(BUCKETS - 1))
}

/// The highest value of a bucket.
fn end_of(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    if bucket < EXACT {
        return bucket;
    }
    let (doubling, step) = ((bucket - EXACT) / STEPS, (bucket - EXACT) % STEPS);
    ((STEPS + step + 1) << doubling) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_is_in_a_bucket_that_ends_at_most_an_eighth_above_it() {
        for us in (0..100_000).chain((17..41).map(|bits| (1_u64 << bits) - 1)) {
            let end = end_of(bucket_of(us));
            if bucket_of(us) + 1 < BUCKETS {
                assert!(
                    us <= end && end <= us + us / 8,
                    "{us} is in the bucket to {end}"
                );
            }
        }
        assert_eq!(bucket_of(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn shares_are_found_in_what_was_noted() {
        let times = Times::new();
        assert_eq!((times.at(500), times.longest()), (0, 0));
        for us in 1..=1_000 {
            times.note(Duration::from_micros(us));
        }
        assert!((500..=562).contains(&times.at(500)), "{}", times.at(500));
        assert_eq!(times.at(1_000), 1_000, "no more than the longest");
        assert_eq!(times.longest(), 1_000);
    }
}
