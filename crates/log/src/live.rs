//! Which entries at or below a checkpoint are still needed.

use courser_contract::LogIndex;

/// Ranges of entry indexes, both ends included, ascending, with gaps between them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LiveEntries {
    ranges: Vec<(LogIndex, LogIndex)>,
}

impl LiveEntries {
    /// No entries.
    pub const NONE: Self = Self { ranges: Vec::new() };

    /// Adds an index; in ascending order. One that is there already changes nothing.
    ///
    /// # Panics
    /// When `index` is below one that was added before.
    pub fn push(&mut self, index: LogIndex) {
        self.push_range(index, index);
    }

    /// Adds all from `first` to `last`; in ascending order.
    ///
    /// # Panics
    /// When the range is empty or begins below the last one's beginning.
    pub fn push_range(&mut self, first: LogIndex, last: LogIndex) {
        assert!(first <= last, "a range of live entries is not empty");
        if let Some((begin, end)) = self.ranges.last_mut() {
            assert!(*begin <= first, "live entries come in ascending order");
            if first.0 <= end.0.saturating_add(1) {
                *end = last.max(*end);
                return;
            }
        }
        self.ranges.push((first, last));
    }

    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// The ranges, ascending.
    #[must_use]
    pub fn ranges(&self) -> &[(LogIndex, LogIndex)] {
        &self.ranges
    }

    /// Every index, ascending.
    pub fn iter(&self) -> impl Iterator<Item = LogIndex> + '_ {
        self.ranges
            .iter()
            .flat_map(|(first, last)| (first.0..=last.0).map(LogIndex))
    }

    /// Whether an index is one of them.
    #[must_use]
    pub fn contains(&self, index: LogIndex) -> bool {
        self.overlaps(index, index)
    }

    /// Whether any from `first` to `last` is one of them.
    #[must_use]
    pub fn overlaps(&self, first: LogIndex, last: LogIndex) -> bool {
        let after = self.ranges.partition_point(|(_, end)| *end < first);
        self.ranges
            .get(after)
            .is_some_and(|(begin, _)| *begin <= last)
    }
}

impl FromIterator<LogIndex> for LiveEntries {
    /// From indexes in ascending order.
    fn from_iter<I: IntoIterator<Item = LogIndex>>(indexes: I) -> Self {
        let mut live = Self::NONE;
        for index in indexes {
            live.push(index);
        }
        live
    }
}

#[cfg(test)]
mod tests {
    use super::{LiveEntries, LogIndex};

    #[test]
    fn neighbours_are_one_range() {
        let live: LiveEntries = [1, 2, 3, 5, 5, 9].map(LogIndex).into_iter().collect();
        let ranges = [(1, 3), (5, 5), (9, 9)].map(|(a, b)| (LogIndex(a), LogIndex(b)));
        assert_eq!(live.ranges(), ranges);
        let all: Vec<u64> = live.iter().map(|index| index.0).collect();
        assert_eq!(all, [1, 2, 3, 5, 9]);
        for index in 0..12 {
            assert_eq!(live.contains(LogIndex(index)), all.contains(&index));
            for last in index..12 {
                let any = all.iter().any(|at| (index..=last).contains(at));
                assert_eq!(live.overlaps(LogIndex(index), LogIndex(last)), any);
            }
        }
    }
}
