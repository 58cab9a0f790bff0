//! When the entries of a partition came, as exactly as their age asks for.
//!
//! A record does not say when it came, and eight bytes more for each would be as much as a third of its row. Its address names its
//! entry, and entries come in the order of their time: so a short list of moments says it for all of them.
//!
//! Invariants (`check`):
//! - marks ascend, by entry and by time
//! - a mark covers a second, or a 32nd of its age when it was joined to the one before
//! - so there are at most [`MARKS_MAX`] of them, however long the partition lives

use courser_contract::WallMs;

use crate::{
    canonical::{DecodeError, Reader, write_count},
    varint,
};

/// Milliseconds that a new mark covers.
const STEP_MS: u64 = 1_000;
/// A mark covers its age divided by this.
const SHARE: u64 = 32;
/// Two marks in a row cover more than the 32nd part of their age, or they would be one: 64 for each e-fold of time beyond the first
/// half minute. A hundred years have 18 of these.
const MARKS_MAX: usize = 2_048;

/// Entries that came within some time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Mark {
    /// The first of them; the others are below that of the next mark.
    first: u64,
    /// When it came.
    begin: u64,
    /// When the last of them came.
    end: u64,
}

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ages {
    marks: Vec<Mark>,
}

impl Ages {
    /// An entry came, behind all that came before.
    #[inline]
    pub(super) fn note(&mut self, index: u64, wall: WallMs) {
        match self.marks.last_mut() {
            Some(last) if wall.0.saturating_sub(last.begin) < STEP_MS => last.end = wall.0,
            Some(_) | None => self.begin_mark(index, wall.0),
        }
    }

    #[cold]
    fn begin_mark(&mut self, index: u64, wall: u64) {
        self.marks.dedup_by(|next, before| {
            let age = wall.saturating_sub(next.end);
            let joins = next.end - before.begin <= age / SHARE;
            if joins {
                before.end = next.end;
            }
            joins
        });
        self.marks.push(Mark {
            first: index,
            begin: wall,
            end: wall,
        });
    }

    /// When an entry had come at the latest: never too early, and too late by a 32nd part of its age or a second. None: it came before
    /// anything was noted.
    pub(crate) fn came_by(&self, index: u64) -> Option<WallMs> {
        let behind = self.marks.partition_point(|mark| mark.first <= index);
        let mark = self.marks.get(behind.checked_sub(1)?)?;
        Some(WallMs(mark.end))
    }

    /// The first moment that was noted.
    pub(crate) fn begin(&self) -> Option<WallMs> {
        self.marks.first().map(|mark| WallMs(mark.begin))
    }

    /// Appends the canonical bytes.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        write_count(self.marks.len(), out);
        let (mut index, mut wall) = (0, 0);
        for mark in &self.marks {
            varint::write(mark.first - index, out);
            varint::write(mark.begin - wall, out);
            varint::write(mark.end - mark.begin, out);
            (index, wall) = (mark.first, mark.end);
        }
    }

    /// Reads what [`Ages::encode`] wrote of a partition whose last entry was this one.
    pub(crate) fn read(
        reader: &mut Reader<'_>,
        last: u64,
        wall: WallMs,
    ) -> Result<Self, DecodeError> {
        const INVALID: DecodeError = DecodeError::Invalid("time of entries");
        let count = reader.count(3)?;
        if count > MARKS_MAX {
            return Err(INVALID);
        }
        let mut marks = Vec::with_capacity(count);
        let (mut index, mut came) = (0_u64, 0_u64);
        for _ in 0..count {
            let mut add = |to: u64| to.checked_add(varint::read(reader)?).ok_or(INVALID);
            let first = add(index)?;
            let begin = add(came)?;
            let end = add(begin)?;
            if first == index {
                return Err(INVALID);
            }
            marks.push(Mark { first, begin, end });
            (index, came) = (first, end);
        }
        if index > last || came > wall.0 {
            return Err(INVALID);
        }
        Ok(Self { marks })
    }

    /// Asserts the invariants of the module.
    pub(crate) fn check(&self, index: u64, wall: WallMs) {
        assert!(self.marks.len() <= MARKS_MAX, "marks are bounded");
        for mark in &self.marks {
            let age = wall.0.saturating_sub(mark.end);
            assert!(mark.begin <= mark.end, "a mark covers time forwards");
            assert!(
                mark.end - mark.begin <= (age / SHARE).max(STEP_MS),
                "a mark covers little of its age"
            );
        }
        let pairs = self.marks.windows(2);
        let ascend = |pair: &[Mark]| pair[0].first < pair[1].first && pair[0].end <= pair[1].begin;
        assert!(pairs.into_iter().all(ascend), "marks ascend");
        let last = self.marks.last();
        assert!(
            last.is_none_or(|mark| mark.first <= index && mark.end <= wall.0),
            "nothing is noted ahead"
        );
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Steps of time: bursts, days without anything, and years.
    fn steps() -> impl Strategy<Value = Vec<u64>> {
        let step = prop_oneof![
            6 => 0..50_u64,
            4 => 0..3_000_u64,
            2 => 0..4_000_000_u64,
            1 => 0..20_000_000_000_u64,
        ];
        prop::collection::vec(step, 1..4_000)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn every_entry_is_as_old_as_it_is_said_or_a_little_older(steps in steps()) {
            let mut ages = Ages::default();
            let mut came = Vec::new();
            let mut wall = 1_700_000_000_000;
            for (at, step) in steps.iter().enumerate() {
                wall += step;
                let index = 1 + 3 * at as u64;
                ages.note(index, WallMs(wall));
                ages.check(index, WallMs(wall));
                came.push((index, wall));
            }
            for (index, at) in came {
                let said = ages.came_by(index).expect("it was noted").0;
                prop_assert!(said >= at, "never too early: {said} {at}");
                prop_assert!(said - at <= ((wall - said) / SHARE).max(STEP_MS), "{said} {at} {wall}");
            }
            prop_assert_eq!(ages.came_by(0), None);
            let mut bytes = Vec::new();
            ages.encode(&mut bytes);
            let mut reader = Reader::new(&bytes);
            let last = 1 + 3 * (steps.len() as u64 - 1);
            prop_assert_eq!(Ages::read(&mut reader, last, WallMs(wall)), Ok(ages));
            prop_assert!(reader.finish().is_ok());
        }
    }

    #[test]
    fn a_partition_that_is_always_busy_has_few_marks() {
        let mut ages = Ages::default();
        let mut most = 0;
        // An entry a second for twelve days, then one an hour for a hundred years.
        for at in 0..1_000_000_u64 {
            ages.note(at + 1, WallMs(at * STEP_MS));
            most = most.max(ages.marks.len());
        }
        for at in 0..876_000_u64 {
            ages.note(1_000_001 + at, WallMs(1_000_000_000 + at * 3_600_000));
            most = most.max(ages.marks.len());
        }
        assert!((100..MARKS_MAX).contains(&most), "{most}");
    }

    #[test]
    fn bytes_that_no_partition_wrote_are_refused() {
        let count = |count: u32| count.to_le_bytes().to_vec();
        let read = |bytes: &[u8]| Ages::read(&mut Reader::new(bytes), 9, WallMs(99)).is_ok();
        assert!(read(&[count(1), vec![1, 5, 0]].concat()));
        assert!(
            !read(&[count(1), vec![10, 5, 0]].concat()),
            "an entry to come"
        );
        assert!(
            !read(&[count(1), vec![1, 99, 1]].concat()),
            "a time to come"
        );
        assert!(!read(&[count(1), vec![0, 5, 0]].concat()), "entry 0");
        assert!(!read(&count(4_000_000)), "more than there are bytes");
        let many = vec![1; 3 * (MARKS_MAX + 1)];
        assert!(!read(&[count(MARKS_MAX as u32 + 1), many].concat()));
        let huge = [vec![1; 1], vec![0xFF; 9], vec![1; 1]].concat();
        assert!(!read(&[count(2), vec![1], huge.clone(), huge].concat()));
    }
}
