//! Ranges of numbers in few bytes.
//!
//! Of a range is written how far it begins behind the first place where it could, and how long it is if it is longer than one, in groups of
//! seven bits. Every 64th has a mark, from which a look-up reads on: 64 ranges at most, and one more.
//!
//! Invariant: between two ranges there is a number of neither.

use crate::format::NUMBER_MAX;

/// Ranges from one mark to the next: of 16 bytes for a mark that is a quarter of a byte for each.
const MARK_EVERY: usize = 64;

/// Where a range begins in the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Mark {
    /// It is not before this number, and all others before it end below.
    base: u64,
    at: usize,
}

/// Ranges, both ends included, ascending. See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Packed {
    /// All but the last one, which may grow.
    bytes: Vec<u8>,
    marks: Vec<Mark>,
    written: usize,
    /// Where the next one begins at the earliest.
    base: u64,
    last: Option<(u64, u64)>,
}

impl Packed {
    /// Adds a range, which may overlap or touch the last one.
    ///
    /// # Panics
    /// When it is empty or begins below the last one's beginning, or a number is larger than those that are given to anything.
    pub(crate) fn push(&mut self, first: u64, last: u64) {
        assert!(first <= last, "a range of entries is not empty");
        assert!(last <= NUMBER_MAX, "no entry has such an index");
        if let Some((begin, end)) = &mut self.last {
            assert!(*begin <= first, "entries come in ascending order");
            if first <= *end + 1 {
                *end = last.max(*end);
                return;
            }
            let before = (*begin, *end);
            self.write(before);
        }
        self.last = Some((first, last));
    }

    fn write(&mut self, (first, last): (u64, u64)) {
        if self.written.is_multiple_of(MARK_EVERY) {
            self.marks.push(Mark {
                base: self.base,
                at: self.bytes.len(),
            });
        }
        self.written += 1;
        let more = last - first;
        put(
            &mut self.bytes,
            (first - self.base) << 1 | u64::from(more > 0),
        );
        if more > 0 {
            put(&mut self.bytes, more - 1);
        }
        self.base = last + 2;
    }

    /// Gives back memory that was set aside for more.
    pub(crate) fn shrink(&mut self) {
        self.bytes.shrink_to_fit();
        self.marks.shrink_to_fit();
    }

    /// Number of ranges.
    pub(crate) fn count(&self) -> usize {
        self.written + usize::from(self.last.is_some())
    }

    /// Bytes of memory beside the value itself.
    #[cfg(test)]
    pub(crate) fn held_bytes(&self) -> usize {
        self.bytes.capacity() + self.marks.capacity() * size_of::<Mark>()
    }

    /// The ranges, ascending.
    pub(crate) fn ranges(&self) -> Ranges<'_> {
        Ranges {
            bytes: &self.bytes,
            base: 0,
            last: self.last,
        }
    }

    /// The same without some that end before `first`.
    fn ranges_near(&self, first: u64) -> Ranges<'_> {
        // What is before a mark ends two below its base.
        let after = self
            .marks
            .partition_point(|mark| mark.base <= first.saturating_add(1));
        let mark = after.checked_sub(1).map(|at| self.marks[at]);
        Ranges {
            bytes: mark.map_or(&[], |mark| &self.bytes[mark.at..]),
            base: mark.map_or(0, |mark| mark.base),
            last: self.last,
        }
    }

    /// Whether any from `first` to `last` is in one of them.
    pub(crate) fn overlaps(&self, first: u64, last: u64) -> bool {
        let mut ranges = self.ranges_near(first);
        let next = ranges.find(|(_, end)| first <= *end);
        next.is_some_and(|(begin, _)| begin <= last)
    }
}

/// See [`Packed::ranges`].
#[derive(Clone, Debug)]
pub(crate) struct Ranges<'a> {
    bytes: &'a [u8],
    base: u64,
    last: Option<(u64, u64)>,
}

impl Iterator for Ranges<'_> {
    type Item = (u64, u64);

    fn next(&mut self) -> Option<(u64, u64)> {
        if self.bytes.is_empty() {
            return self.last.take();
        }
        let word = take(&mut self.bytes);
        let first = self.base + (word >> 1);
        let more = match word & 1 {
            0 => 0,
            _ => take(&mut self.bytes) + 1,
        };
        self.base = first + more + 2;
        Some((first, first + more))
    }
}

/// Seven bits a byte, the lowest first; the highest bit says that more follow.
fn put(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

/// What [`put`] has put first.
fn take(bytes: &mut &[u8]) -> u64 {
    let (mut number, mut shift) = (0, 0);
    while let Some((byte, rest)) = bytes.split_first() {
        *bytes = rest;
        number |= u64::from(byte & 0x7F) << shift;
        if byte & 0x80 == 0 {
            break;
        }
        shift += 7;
    }
    number
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Ranges with the sizes of gaps and lengths that take one byte, two, and more.
    fn steps() -> impl Strategy<Value = Vec<(u64, u64)>> {
        let size = || prop_oneof![1..4_u64, 50..150_u64, 1_u64..1 << 40];
        prop::collection::vec((size(), size()), 0..300)
    }

    proptest! {
        #[test]
        fn what_was_pushed_is_found_and_nothing_else(steps in steps(), skip in 0..64_usize) {
            let (mut packed, mut ranges, mut at) = (Packed::default(), Vec::new(), 0);
            for (gap, len) in steps.into_iter().skip(skip) {
                let first = at + gap;
                at = first + len;
                packed.push(first, at - 1);
                ranges.push((first, at - 1));
            }
            packed.shrink();
            prop_assert_eq!(packed.ranges().collect::<Vec<_>>(), ranges.clone());
            prop_assert_eq!(packed.count(), ranges.len());
            for (first, last) in ranges {
                for (from, to, is_there) in [
                    (first, first, true),
                    (last, last, true),
                    (first - 1, first - 1, false),
                    (last + 1, last + 1, false),
                    (first - 1, first, true),
                    (last, last + 1, true),
                ] {
                    // A gap of one lies between two ranges.
                    let is_near = packed.ranges().any(|(begin, end)| begin <= to && from <= end);
                    prop_assert_eq!(packed.overlaps(from, to), is_near);
                    prop_assert!(is_near || !is_there);
                }
            }
        }
    }

    #[test]
    fn what_touches_is_one_range() {
        let mut packed = Packed::default();
        for (first, last) in [(3, 5), (4, 4), (6, 9), (11, 11), (11, 12), (14, NUMBER_MAX)] {
            packed.push(first, last);
        }
        let ranges = [(3, 9), (11, 12), (14, NUMBER_MAX)];
        assert_eq!(packed.ranges().collect::<Vec<_>>(), ranges);
        assert!(!packed.overlaps(0, 2) && !packed.overlaps(10, 10) && !packed.overlaps(13, 13));
    }

    /// A million messages that wait, each in an entry of its own, far enough from each other for none to be a neighbour: 16 bytes each as pairs of
    /// numbers. Of one stream every so many, of a thousand at random.
    #[test]
    fn m42_a_needed_entry_takes_little_more_than_two_bytes() {
        const MESSAGES: usize = 1_000_000;
        let held = |mean_gap: u64, random: bool| {
            let (mut packed, mut at, mut word) = (Packed::default(), 1, 1_u64);
            for _ in 0..MESSAGES {
                packed.push(at, at);
                word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let gap = match random {
                    true => (word >> 33) % (2 * mean_gap - 3),
                    false => mean_gap - 2,
                };
                at += 2 + gap;
            }
            packed.shrink();
            packed.held_bytes().div_ceil(MESSAGES / 100)
        };
        for (mean_gap, most) in [(16, 125), (1_000, 225)] {
            for random in [false, true] {
                let found = held(mean_gap, random);
                assert!(found <= most, "{found} hundredths of a byte");
            }
        }
    }
}
