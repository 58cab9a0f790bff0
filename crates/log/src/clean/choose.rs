//! Which segments are worth cleaning.

use crate::ids::SegmentNumber;

/// How urgent it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pressure {
    /// There is room: once more than half of what may be cleaned is dead, segments that are at most half live.
    None,
    /// The disk is short of room: whatever gives some.
    Short,
}

/// A segment and how much of it is needed, as far as that is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Weighed {
    pub(super) segment: SegmentNumber,
    pub(super) bytes: u64,
    pub(super) live: u64,
}

/// A plan has room for so many, however little live traffic writes until the next one.
const PLAN_MIN: usize = 8;

/// Segments of a plan, where live traffic fills so many until the next one is made: twice as many, for those that are half live give back
/// half of themselves, and a log that holds too much shrinks. No more: what a plan was made of changes.
pub(super) fn plan_max(filled_until_next: u64) -> usize {
    let twice = usize::try_from(filled_until_next.saturating_mul(2));
    twice.unwrap_or(usize::MAX).max(PLAN_MIN)
}

impl Pressure {
    /// Of so many bytes at most so many may be live for a segment to be worth it.
    pub(super) const fn live_max(self, bytes: u64) -> u64 {
        match self {
            Self::None => bytes / 2,
            Self::Short => bytes / 10 * 9,
        }
    }
}

/// Segments to be cleaned, best first, at most `plan_max` of them.
///
/// What a segment gives is its dead bytes, for as long as they will stay free: the older it is, the less will die in it by
/// itself, so its age counts. What it costs is reading it and writing what lives. Where the disk is short, only dead bytes
/// count.
pub(super) fn choose(
    segments: &[Weighed],
    active: u64,
    pressure: Pressure,
    plan_max: usize,
) -> Vec<SegmentNumber> {
    let bytes: u64 = segments.iter().map(|it| it.bytes).sum();
    let live: u64 = segments.iter().map(|it| it.live.min(it.bytes)).sum();
    let is_due = match pressure {
        Pressure::None => live < bytes / 2 && segments.len() >= 2,
        Pressure::Short => true,
    };
    if !is_due {
        return Vec::new();
    }
    let mut worth: Vec<(u128, SegmentNumber)> = segments
        .iter()
        .filter(|it| it.live <= pressure.live_max(it.bytes))
        .map(|it| (value(it, active, pressure), it.segment))
        .collect();
    worth.sort_unstable_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(&b.1)));
    worth.truncate(plan_max);
    worth.into_iter().map(|(_, segment)| segment).collect()
}

fn value(it: &Weighed, active: u64, pressure: Pressure) -> u128 {
    let dead = u128::from(it.bytes - it.live);
    let cost = u128::from(it.bytes + it.live);
    let age = match pressure {
        Pressure::None => u128::from(active.saturating_sub(it.segment.0).max(1)),
        Pressure::Short => 1,
    };
    // In thousandths, so that close ones are told apart.
    dead * age * 1_000_000 / cost.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn weighed(segment: u64, live: u64) -> Weighed {
        Weighed {
            segment: SegmentNumber(segment),
            bytes: 1_000,
            live,
        }
    }

    fn chosen(segments: &[Weighed], pressure: Pressure) -> Vec<u64> {
        let chosen = choose(segments, 100, pressure, PLAN_MIN);
        chosen.into_iter().map(|it| it.0).collect()
    }

    #[test]
    fn nothing_is_moved_while_most_is_live() {
        let half = [weighed(1, 900), weighed(2, 100), weighed(3, 600)];
        assert_eq!(chosen(&half, Pressure::None), [0; 0]);
        assert_eq!(chosen(&half, Pressure::Short), [2, 3, 1]);
    }

    #[test]
    fn a_segment_that_is_mostly_live_costs_more_than_it_gives() {
        let segments = [weighed(1, 501), weighed(2, 100), weighed(3, 100)];
        assert_eq!(chosen(&segments, Pressure::None), [2, 3]);
        assert_eq!(
            chosen(&[weighed(7, 901), weighed(8, 900)], Pressure::Short),
            [8]
        );
    }

    #[test]
    fn a_plan_frees_more_than_is_written_until_the_next_one() {
        let segments: Vec<Weighed> = (1..=400).map(|it| weighed(it, 10)).collect();
        for filled in [0, 2, 4, 5, 50] {
            let chosen = choose(&segments, 500, Pressure::None, plan_max(filled));
            assert_eq!(chosen.len() as u64, (2 * filled).max(8));
        }
    }

    #[test]
    fn among_equals_the_older_one_and_age_weighs_against_live_bytes() {
        assert_eq!(
            chosen(&[weighed(90, 200), weighed(10, 200)], Pressure::None),
            [10, 90]
        );
        // Young: what lives in it now will die by itself soon.
        assert_eq!(
            chosen(&[weighed(99, 100), weighed(10, 300)], Pressure::None),
            [10, 99]
        );
    }
}
