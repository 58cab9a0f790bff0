//! What is known of how large the needed records of segments are.

use std::collections::{BTreeMap, BTreeSet};

use super::survey::Surveyed;
use crate::ids::SegmentNumber;

/// Bytes of a record of which nothing is known.
const MEAN_BYTES: u64 = 256;
/// Bytes that a record takes at least: they begin at multiples of eight.
const LEAST_BYTES: u64 = 8;
/// Means that are kept of segments near which others may be alike: 24 KiB.
const MEANS_MAX: usize = 1_024;

/// See the module. Memory: 32 bytes for each segment that is there and was read without being cleaned, and the means.
#[derive(Debug, Default)]
pub(super) struct Weights {
    read: BTreeMap<SegmentNumber, Weight>,
    /// Mean bytes of a needed record of segments that were read, also of those that were cleaned.
    means: BTreeMap<SegmentNumber, u64>,
}

/// Of a segment when it was read.
#[derive(Clone, Copy, Debug)]
struct Weight {
    live: u64,
    /// Records needed, as they were counted then.
    records: u64,
}

impl Weights {
    /// Bytes that so many needed records of a segment have, as far as that is known, and that they have at least: both are the
    /// same when it was read. What is needed of a closed segment only becomes less, so what it was then is the measure.
    pub(super) fn weigh(&self, segment: &Surveyed, records: u64) -> (u64, u64) {
        if let Some(then) = self.read.get(&segment.number) {
            let live =
                u128::from(then.live) * u128::from(records) / u128::from(then.records.max(1));
            let live = u64::try_from(live).unwrap_or(u64::MAX).min(segment.bytes);
            return (live, live);
        }
        let guess = records.saturating_mul(self.mean_near(segment.number));
        let least = records.saturating_mul(LEAST_BYTES);
        let live = guess.min(segment.bytes);
        (live, least.min(live))
    }

    /// A segment was read to the end: what is needed of it has so many bytes.
    pub(super) fn read(&mut self, segment: SegmentNumber, live: u64, records: u64) {
        self.read.insert(segment, Weight { live, records });
    }

    /// Needed records of a segment had so many bytes in the mean.
    pub(super) fn learn(&mut self, segment: SegmentNumber, mean: u64) {
        self.means.insert(segment, mean);
        if self.means.len() > MEANS_MAX {
            let mut is_kept = false;
            self.means.retain(|_, _| {
                is_kept = !is_kept;
                is_kept
            });
        }
    }

    /// Only these are there still.
    pub(super) fn keep(&mut self, segments: &[Surveyed]) {
        let there: BTreeSet<SegmentNumber> = segments.iter().map(|it| it.number).collect();
        self.read.retain(|segment, _| there.contains(segment));
    }

    /// Of the segment that is nearest: what was written at one time is alike.
    fn mean_near(&self, segment: SegmentNumber) -> u64 {
        let before = self.means.range(..=segment).next_back();
        let behind = self.means.range(segment..).next();
        let nearest = before
            .into_iter()
            .chain(behind)
            .min_by_key(|(it, _)| it.0.abs_diff(segment.0));
        nearest.map_or(MEAN_BYTES, |(_, mean)| *mean)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segment(number: u64) -> Surveyed {
        Surveyed {
            number: SegmentNumber(number),
            bytes: 10_000,
            entries: Vec::new(),
            kept: BTreeMap::new(),
        }
    }

    #[test]
    fn a_guess_is_by_what_is_near_and_no_more_than_a_segment_holds() {
        let mut weights = Weights::default();
        assert_eq!(weights.weigh(&segment(5), 10), (2_560, 80));
        weights.learn(SegmentNumber(1), 4_000);
        weights.learn(SegmentNumber(9), 100);
        assert_eq!(weights.weigh(&segment(4), 10), (10_000, 80));
        assert_eq!(weights.weigh(&segment(6), 10), (1_000, 80));
        assert_eq!(weights.weigh(&segment(60), 10_000), (10_000, 10_000));
        assert_eq!(weights.weigh(&segment(6), 0), (0, 0));
    }

    #[test]
    fn m41_what_was_read_is_known_and_becomes_less() {
        let mut weights = Weights::default();
        weights.read(SegmentNumber(5), 6_000, 20);
        assert_eq!(weights.weigh(&segment(5), 20), (6_000, 6_000));
        assert_eq!(weights.weigh(&segment(5), 10), (3_000, 3_000));
        assert_eq!(weights.weigh(&segment(5), 40), (10_000, 10_000));
        weights.keep(&[segment(5), segment(6)]);
        assert_eq!(weights.weigh(&segment(5), 20), (6_000, 6_000));
        weights.keep(&[segment(6)]);
        assert_eq!(weights.weigh(&segment(5), 20), (5_120, 160));
    }

    #[test]
    fn means_have_a_limit_and_stay_spread() {
        let mut weights = Weights::default();
        for number in 0..100_000 {
            weights.learn(SegmentNumber(number), 1_000 + number);
            assert!(weights.means.len() <= MEANS_MAX);
        }
        assert_eq!(weights.weigh(&segment(99_999), 0), (0, 0));
        assert_eq!(weights.mean_near(SegmentNumber(99_999)), 100_999);
    }
}
