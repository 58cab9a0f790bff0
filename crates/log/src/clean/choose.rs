//! Which segments are worth cleaning, and which ones worth reading to know that.
//!
//! How many records of a segment are needed is known, about; how large they are only once it was read. Before that there is a guess by
//! what was read near it, and the least that so many records take. A guess puts segments in order; it never keeps one from being
//! read: whatever the guesses say, some that would be worth it if their records were small are read with each plan, and if that is wrong
//! their true weight is known from then on.

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
    /// Records needed, about.
    pub(super) records: u64,
    /// Bytes of them: as they were when the segment was read, for those of them that still are; else a guess. At most `bytes`.
    pub(super) live: u64,
    /// Bytes that they have at least: `live` when the segment was read.
    pub(super) least: u64,
}

/// Of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Chosen {
    pub(super) segment: SegmentNumber,
    /// Its needed records, as they were counted.
    pub(super) records: u64,
    /// It was never read and does not look as if it were worth it.
    pub(super) is_sample: bool,
    /// It is read for the second time, since it had to be read to its end to know that it is worth it: bytes that are needed of it.
    pub(super) live: Option<u64>,
}

/// How many are chosen at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Limits {
    /// In all.
    pub(super) plan: usize,
    /// Of them as samples; all of them where the disk is short.
    pub(super) samples: usize,
}

/// A plan has room for so many, however little live traffic writes until the next one.
pub(super) const PLAN_MIN: usize = 8;

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
///
/// Behind them samples, where there is room in the plan: of those that were never read, from the best to the worst, as if they had
/// the least in them that is possible.
pub(super) fn choose(
    segments: &[Weighed],
    active: u64,
    pressure: Pressure,
    limits: Limits,
) -> Vec<Chosen> {
    let mut plan = worth(segments, active, pressure, |it| it.live);
    plan.truncate(limits.plan);
    let samples_max = match pressure {
        Pressure::None => limits.samples,
        Pressure::Short => limits.plan,
    };
    let samples_max = samples_max.min(limits.plan - plan.len());
    let mut chosen: Vec<Chosen> = plan.iter().map(|it| it.chosen(false)).collect();
    let mut samples = worth(segments, active, pressure, |it| it.least);
    samples.retain(|it| it.least < it.live && !plan.contains(it));
    // Evenly from all of them: what is alike lies together.
    let count = samples_max.min(samples.len());
    let spread = (0..count).map(|at| &samples[at * samples.len() / count]);
    chosen.extend(spread.map(|it| it.chosen(true)));
    chosen
}

/// Those that are worth it if so many bytes of each are needed, best first.
fn worth(
    segments: &[Weighed],
    active: u64,
    pressure: Pressure,
    live: fn(&Weighed) -> u64,
) -> Vec<Weighed> {
    let bytes: u64 = segments.iter().map(|it| it.bytes).sum();
    let all_live: u64 = segments.iter().map(live).sum();
    let is_due = match pressure {
        Pressure::None => all_live < bytes / 2 && segments.len() >= 2,
        Pressure::Short => true,
    };
    if !is_due {
        return Vec::new();
    }
    let mut worth: Vec<(u128, Weighed)> = segments
        .iter()
        .filter(|it| live(it) <= pressure.live_max(it.bytes))
        .map(|it| (value(it, live(it), active, pressure), *it))
        .collect();
    worth.sort_unstable_by(|a, b| b.0.cmp(&a.0).then(a.1.segment.cmp(&b.1.segment)));
    worth.into_iter().map(|(_, it)| it).collect()
}

impl Weighed {
    const fn chosen(&self, is_sample: bool) -> Chosen {
        Chosen {
            segment: self.segment,
            records: self.records,
            is_sample,
            live: None,
        }
    }
}

fn value(it: &Weighed, live: u64, active: u64, pressure: Pressure) -> u128 {
    let dead = u128::from(it.bytes - live);
    let cost = u128::from(it.bytes + live);
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
            records: 1,
            live,
            least: live,
        }
    }

    /// Of one that was not read.
    fn guessed(segment: u64, live: u64, least: u64) -> Weighed {
        Weighed {
            least,
            ..weighed(segment, live)
        }
    }

    const LIMITS: Limits = Limits {
        plan: PLAN_MIN,
        samples: 3,
    };

    fn chosen(segments: &[Weighed], pressure: Pressure) -> Vec<u64> {
        let chosen = choose(segments, 100, pressure, LIMITS);
        chosen.into_iter().map(|it| it.segment.0).collect()
    }

    #[test]
    fn m41_what_was_never_read_is_read_whatever_is_thought_of_it() {
        let guesses: Vec<Weighed> = (1..=9).map(|it| guessed(it, 1_000, 10)).collect();
        assert_eq!(chosen(&guesses, Pressure::None), [1, 4, 7]);
        assert_eq!(chosen(&guesses, Pressure::Short).len(), PLAN_MIN);
        // Behind those of which more is known; what takes too much even if it is little is none.
        let mixed = [
            weighed(1, 100),
            guessed(2, 1_000, 10),
            weighed(3, 950),
            guessed(4, 1_000, 501),
        ];
        assert_eq!(chosen(&mixed, Pressure::None), [2]);
        assert_eq!(chosen(&mixed, Pressure::Short), [1, 2, 4]);
        // Nothing is known better of those that were read.
        let read: Vec<Weighed> = (1..=9).map(|it| weighed(it, 1_000)).collect();
        assert_eq!(chosen(&read, Pressure::Short), [0; 0]);
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
            let chosen = choose(
                &segments,
                500,
                Pressure::None,
                Limits {
                    plan: plan_max(filled),
                    samples: 0,
                },
            );
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
