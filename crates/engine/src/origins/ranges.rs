//! A set of numbers as few ranges: what is taken above a floor.

use std::collections::VecDeque;

use crate::canonical::{Canonical, DecodeError, Reader, write_count};

/// Numbers in ascending ranges that neither touch nor overlap, each with both ends in it. Numbers mostly arrive in order and
/// without gaps, so the set is mostly one range: adding the next number costs O(1), a look-up O(log ranges).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ranges {
    ranges: VecDeque<(u64, u64)>,
}

impl Ranges {
    /// Whether `number` is in the set.
    pub(crate) fn contains(&self, number: u64) -> bool {
        let at = self.ranges.partition_point(|&(_, last)| last < number);
        self.ranges
            .get(at)
            .is_some_and(|&(first, _)| first <= number)
    }

    /// Adds a number; false when it was in the set.
    #[inline]
    pub(crate) fn insert(&mut self, number: u64) -> bool {
        if let Some((_, last)) = self.ranges.back_mut()
            && last.checked_add(1) == Some(number)
        {
            *last = number;
            return true;
        }
        self.insert_within(number)
    }

    fn insert_within(&mut self, number: u64) -> bool {
        let at = self.ranges.partition_point(|&(_, last)| last < number);
        let next = self.ranges.get(at).copied();
        if next.is_some_and(|(first, _)| first <= number) {
            return false;
        }
        let joins_next = next.is_some_and(|(first, _)| first - 1 == number);
        let joins_previous = at > 0 && self.ranges[at - 1].1 + 1 == number;
        match (joins_previous, joins_next) {
            (true, true) => {
                self.ranges[at - 1].1 = self.ranges[at].1;
                self.ranges.remove(at);
            }
            (true, false) => self.ranges[at - 1].1 = number,
            (false, true) => self.ranges[at].0 = number,
            (false, false) => self.ranges.insert(at, (number, number)),
        }
        true
    }

    /// Forgets all numbers below `floor`.
    #[inline]
    pub(crate) fn remove_below(&mut self, floor: u64) {
        while let Some((first, last)) = self.ranges.front_mut() {
            if *last >= floor {
                *first = (*first).max(floor);
                return;
            }
            self.ranges.pop_front();
        }
    }

    /// The lowest number of the set.
    pub(crate) fn first(&self) -> Option<u64> {
        self.ranges.front().map(|&(first, _)| first)
    }

    /// The highest number of the set.
    pub(crate) fn last(&self) -> Option<u64> {
        self.ranges.back().map(|&(_, last)| last)
    }

    /// Number of ranges, what memory goes by.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.ranges.len()
    }

    /// Asserts that ranges ascend and do not touch.
    pub(crate) fn check(&self) {
        let mut before: Option<u64> = None;
        for &(first, last) in &self.ranges {
            assert!(first <= last, "a range has its ends in order");
            assert!(
                before.is_none_or(|before| before < first && first - before > 1),
                "ranges ascend and do not touch"
            );
            before = Some(last);
        }
    }
}

impl Canonical for Ranges {
    const MIN_BYTES: usize = 4;

    fn write(&self, out: &mut Vec<u8>) {
        write_count(self.ranges.len(), out);
        for range in &self.ranges {
            range.write(out);
        }
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let count = reader.count(<(u64, u64)>::MIN_BYTES)?;
        let mut ranges = VecDeque::with_capacity(count);
        let mut free = Some(0);
        for _ in 0..count {
            let (first, last): (u64, u64) = reader.read()?;
            if first > last || free.is_none_or(|free| first < free) {
                return Err(DecodeError::Invalid("ranges"));
            }
            free = last.checked_add(2);
            ranges.push_back((first, last));
        }
        Ok(Self { ranges })
    }
}
