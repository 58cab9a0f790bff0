//! Which entries of the log somebody still needs.

use std::collections::BTreeMap;

use courser_contract::LogIndex;

/// Entries that one word tells of.
const WORD: u64 = 64;

/// A set of places in the log. Adding costs O(1) while places stay close to each other, as those of a stream do, and one
/// descent of a tree otherwise; memory is about 24 bytes for each 64 places in a row of which one is in the set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EntrySet {
    words: BTreeMap<u64, u64>,
    /// The word that was touched last, and what it gained since it was fetched.
    at: u64,
    gained: u64,
}

impl EntrySet {
    /// Adds a place.
    pub(crate) fn insert(&mut self, index: u64) {
        let word = index / WORD;
        if word != self.at {
            self.settle();
            self.at = word;
        }
        self.gained |= 1 << (index % WORD);
    }

    /// Lets every place be found.
    pub(crate) fn settle(&mut self) {
        if self.gained != 0 {
            *self.words.entry(self.at).or_default() |= std::mem::take(&mut self.gained);
        }
    }

    /// Whether a place is in the set.
    #[must_use]
    pub fn contains(&self, index: LogIndex) -> bool {
        let word = index.0 / WORD;
        let settled = self.words.get(&word).copied().unwrap_or(0);
        let gained = if word == self.at { self.gained } else { 0 };
        (settled | gained) & 1 << (index.0 % WORD) != 0
    }

    /// Whether nothing is in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.words.is_empty() && self.gained == 0
    }

    /// The set as ranges with both ends in it, ascending, none touching the next.
    pub fn ranges(&self) -> impl Iterator<Item = (LogIndex, LogIndex)> + '_ {
        debug_assert_eq!(self.gained, 0, "a set that is read is settled");
        let mut words = self.words.iter();
        let mut current: Option<(u64, u64)> = None;
        let mut open: Option<(u64, u64)> = None;
        std::iter::from_fn(move || {
            loop {
                let next = match current.take() {
                    Some((_, 0)) | None => words.next().map(|(&word, &bits)| (word * WORD, bits)),
                    some => some,
                };
                let Some((base, bits)) = next else {
                    return open.take().map(as_range);
                };
                let (first, last, rest) = first_run(base, bits);
                current = Some((base, rest));
                match &mut open {
                    Some((_, end)) if *end + 1 == first => *end = last,
                    Some(_) => return open.replace((first, last)).map(as_range),
                    None => open = Some((first, last)),
                }
            }
        })
    }
}

const fn as_range((first, last): (u64, u64)) -> (LogIndex, LogIndex) {
    (LogIndex(first), LogIndex(last))
}

/// The first run of a word that is not empty, and the word without it.
const fn first_run(base: u64, bits: u64) -> (u64, u64, u64) {
    let start = bits.trailing_zeros();
    let len = (bits >> start).trailing_ones();
    let run = if len == 64 {
        u64::MAX
    } else {
        ((1 << len) - 1) << start
    };
    let first = base + start as u64;
    (first, first + len as u64 - 1, bits & !run)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn ranges_say_what_was_inserted(places in prop::collection::vec(prop_oneof![1..300u64, 0..10_000u64], 0..300)) {
            let mut set = EntrySet::default();
            let mut model = BTreeSet::new();
            for place in places {
                set.insert(place);
                model.insert(place);
                prop_assert!(set.contains(LogIndex(place)));
            }
            set.settle();
            let ranges: Vec<_> = set.ranges().collect();
            let listed: BTreeSet<u64> = ranges.iter().flat_map(|(first, last)| first.0..=last.0).collect();
            prop_assert_eq!(&listed, &model);
            prop_assert!(ranges.windows(2).all(|pair| pair[0].1.0 + 1 < pair[1].0.0), "ranges do not touch");
            prop_assert_eq!(set.is_empty(), model.is_empty());
        }
    }

    #[test]
    fn a_full_word_is_one_range() {
        let mut set = EntrySet::default();
        (64..192).for_each(|place| set.insert(place));
        set.settle();
        let ranges: Vec<_> = set.ranges().collect();
        assert_eq!(ranges, [(LogIndex(64), LogIndex(191))]);
    }
}
