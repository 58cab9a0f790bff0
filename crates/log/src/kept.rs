//! Of which entries a segment has kept records (M41).
//!
//! Kept records are sorted by stream, so their entries are scattered: listed one by one they would take as much memory as the
//! records' rows. Above a number of runs neighbouring ones become one: a segment then counts as needed for entries that it does
//! not have, never the other way round. Once a segment is full they are packed.

use courser_contract::LogIndex;

use crate::live::{LiveEntries, Packed};

/// Runs that a segment keeps for a partition: 64 KiB while it is written, behind that some 8 KiB.
const RUNS_MAX: usize = 4_096;

/// Entries of which a segment has kept records, some more perhaps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeptEntries {
    /// Those that came since it was closed: in the order in which they came, or ascending after `settle`.
    runs: Vec<(u64, u64)>,
    /// The others.
    closed: Packed,
}

impl KeptEntries {
    /// Adds entries.
    pub(crate) fn add(&mut self, first: LogIndex, last: LogIndex) {
        if let Some((begin, end)) = self.runs.last_mut()
            && *begin <= first.0
            && first.0 <= *end + 1
        {
            *end = last.0.max(*end);
            return;
        }
        self.runs.push((first.0, last.0));
        if self.runs.len() >= 2 * RUNS_MAX {
            self.settle();
        }
    }

    /// Nothing more will come: takes as little memory as it can.
    pub(crate) fn close(&mut self) {
        self.runs.extend(self.closed.ranges());
        self.settle();
        self.closed = Packed::default();
        for (first, last) in std::mem::take(&mut self.runs) {
            self.closed.push(first, last);
        }
        self.closed.shrink();
    }

    /// The entries, some more perhaps, in any order.
    pub fn runs(&self) -> impl Iterator<Item = (LogIndex, LogIndex)> + '_ {
        let runs = self.closed.ranges().chain(self.runs.iter().copied());
        runs.map(|(first, last)| (LogIndex(first), LogIndex(last)))
    }

    /// Whether one is perhaps among them.
    pub(crate) fn contains(&self, index: LogIndex) -> bool {
        let mut runs = self.runs.iter();
        self.closed.overlaps(index.0, index.0)
            || runs.any(|(first, last)| (*first..=*last).contains(&index.0))
    }

    /// Whether one of them is perhaps in a set.
    pub(crate) fn overlaps(&self, live: &LiveEntries) -> bool {
        self.runs().any(|(first, last)| live.overlaps(first, last))
    }

    /// The same, ascending and apart.
    pub(crate) fn sorted(&self) -> Vec<(u64, u64)> {
        let mut runs: Vec<_> = self
            .closed
            .ranges()
            .chain(self.runs.iter().copied())
            .collect();
        sort(&mut runs, 1);
        runs
    }

    /// Sorts, joins what touches, and then what is closest until few enough are left.
    fn settle(&mut self) {
        sort(&mut self.runs, 1);
        if self.runs.len() <= RUNS_MAX {
            return;
        }
        let mut gaps: Vec<u64> = self
            .runs
            .windows(2)
            .map(|pair| pair[1].0 - pair[0].1)
            .collect();
        // As many gaps as are too many, the narrowest of them.
        let (_, widest, _) = gaps.select_nth_unstable(self.runs.len() - RUNS_MAX - 1);
        let widest = *widest;
        sort(&mut self.runs, widest);
    }
}

/// Sorts runs and joins those between which no more than `gap` lies.
fn sort(runs: &mut Vec<(u64, u64)>, gap: u64) {
    runs.sort_unstable();
    runs.dedup_by(|next, before| {
        let touches = next.0 <= before.1.saturating_add(gap);
        if touches {
            before.1 = next.1.max(before.1);
        }
        touches
    });
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(8))]
        #[test]
        fn m41_no_entry_is_forgotten(
            places in prop::collection::vec(0..50_000u64, 0..12_000),
        ) {
            let mut kept = KeptEntries::default();
            for place in &places {
                kept.add(LogIndex(*place), LogIndex(*place));
            }
            prop_assert!(kept.runs.len() < 2 * RUNS_MAX);
            for place in places.iter().step_by(97) {
                let one: LiveEntries = [LogIndex(*place)].into_iter().collect();
                prop_assert!(kept.overlaps(&one) && kept.contains(LogIndex(*place)));
            }
            let none: LiveEntries = [LogIndex(50_001)].into_iter().collect();
            prop_assert!(!kept.overlaps(&none) && !kept.contains(LogIndex(50_001)));
            // What comes behind the end of a segment after all, as nothing should, is not forgotten either.
            kept.close();
            kept.add(LogIndex(60_000), LogIndex(60_000));
            kept.close();
            prop_assert!(kept.closed.count() <= RUNS_MAX && kept.runs.capacity() == 0);
            for place in places.iter().step_by(97).chain(&[60_000]) {
                prop_assert!(kept.contains(LogIndex(*place)));
            }
            prop_assert!(!kept.contains(LogIndex(60_001)));
        }
    }

    /// Records of 1 KiB in a segment of 64 MiB, sorted by stream, as a cleaner writes them: of one stream every 16th entry of a long time, of a thousand
    /// one of each in turn. As pairs of numbers it was 64 to 128 KiB.
    #[test]
    fn m41_a_full_segment_keeps_some_kib_of_what_it_has() {
        for streams in [1, 1_000] {
            let mut kept = KeptEntries::default();
            for stream in 0..streams {
                for at in 0..60_000 / streams {
                    let index = LogIndex(16 * (at * streams + stream));
                    kept.add(index, index);
                }
            }
            kept.close();
            let bytes = kept.closed.held_bytes();
            assert!(
                bytes <= 3 * RUNS_MAX && kept.runs.capacity() == 0,
                "{streams} streams: {bytes} bytes"
            );
        }
    }

    #[test]
    fn few_runs_say_exactly_what_was_added() {
        let mut kept = KeptEntries::default();
        for at in (0..RUNS_MAX as u64).rev() {
            kept.add(LogIndex(10 * at), LogIndex(10 * at));
        }
        kept.settle();
        for at in 0..10 * RUNS_MAX as u64 {
            let one: LiveEntries = [LogIndex(at)].into_iter().collect();
            assert_eq!(kept.overlaps(&one), at % 10 == 0);
        }
    }
}
