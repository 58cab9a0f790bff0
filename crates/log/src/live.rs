//! Which entries at or below a checkpoint are still needed.
//!
//! The log and the cleaner keep such a set of each partition for as long as they run, and where each entry has one message and most of them are done,
//! every message that waits is a range of its own. So ranges are [packed], and copies of a set share them.

mod packed;

use std::sync::Arc;

use courser_contract::LogIndex;

pub(crate) use self::packed::Packed;

/// Ranges of entry indexes, both ends included, ascending, with gaps between them. Memory: 1 to 3 bytes a range where they are near to each other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LiveEntries {
    /// Shared by copies. None: there are no entries.
    packed: Option<Arc<Packed>>,
}

impl LiveEntries {
    /// No entries.
    pub const NONE: Self = Self { packed: None };

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
    /// When the range is empty or begins below the last one's beginning, or an index is larger than any that is given.
    pub fn push_range(&mut self, first: LogIndex, last: LogIndex) {
        let packed = self.packed.get_or_insert_default();
        Arc::make_mut(packed).push(first.0, last.0);
    }

    /// Nothing more will be added: memory that was set aside for that is given back.
    pub fn shrink(&mut self) {
        if let Some(packed) = &mut self.packed {
            Arc::make_mut(packed).shrink();
        }
    }

    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.packed.is_none()
    }

    /// Number of ranges.
    #[must_use]
    pub fn count(&self) -> usize {
        self.packed.as_ref().map_or(0, |packed| packed.count())
    }

    /// The ranges, ascending.
    pub fn ranges(&self) -> impl Iterator<Item = (LogIndex, LogIndex)> + '_ {
        let packed = self.packed.as_deref();
        let ranges = packed.into_iter().flat_map(Packed::ranges);
        ranges.map(|(first, last)| (LogIndex(first), LogIndex(last)))
    }

    /// Every index, ascending.
    pub fn iter(&self) -> impl Iterator<Item = LogIndex> + '_ {
        self.ranges()
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
        let packed = self.packed.as_ref();
        packed.is_some_and(|packed| packed.overlaps(first.0, last.0))
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
        assert_eq!(live.ranges().collect::<Vec<_>>(), ranges);
        assert_eq!(live.count(), 3);
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

    #[test]
    fn a_copy_stays_as_it_was() {
        let mut live: LiveEntries = [1, 5].map(LogIndex).into_iter().collect();
        let copy = live.clone();
        live.push(LogIndex(7));
        live.shrink();
        assert_eq!((copy.count(), live.count()), (2, 3));
        assert!(copy != live && LiveEntries::NONE.is_empty() && !copy.is_empty());
    }
}
