//! How many records of each segment the checkpoints need, about.

use std::{collections::BTreeSet, sync::Arc};

use courser_contract::{LogIndex, Need, PartitionId};

use super::{sketch::Sketch, survey::Survey};
use crate::kept::KeptEntries;

/// Bits of a segment's sketch: 256 bytes and an error of some 6.5 %. They are there while checkpoints are read: 256 KiB for 64 GiB of log.
const SKETCH_BITS: u32 = 8;

/// Counts, one partition after the other.
#[derive(Debug)]
pub(super) struct Weigher {
    pub(super) survey: Survey,
    /// Records needed, by place in the survey.
    counts: Vec<Sketch>,
    left: BTreeSet<PartitionId>,
}

/// Finds the segments of one partition's entries.
#[derive(Debug)]
pub(super) struct Locator {
    partition: PartitionId,
    /// First, last, place in the survey; ascending.
    entries: Vec<(LogIndex, LogIndex, usize)>,
    /// Segments with kept records of the partition: place in the survey, and which.
    kept: Vec<(usize, Arc<KeptEntries>)>,
    /// The one of these that was found last: checkpoints and kept records are both sorted by stream.
    near: Option<usize>,
}

impl Weigher {
    pub(super) fn new(survey: Survey) -> Self {
        Self {
            counts: vec![Sketch::new(SKETCH_BITS); survey.segments.len()],
            left: survey.partitions.clone(),
            survey,
        }
    }

    /// The next partition whose checkpoint is to be read.
    pub(super) fn next(&mut self) -> Option<PartitionId> {
        self.left.pop_first()
    }

    pub(super) fn locator(&self, partition: PartitionId) -> Locator {
        let (mut entries, mut kept) = (Vec::new(), Vec::new());
        for (at, segment) in self.survey.segments.iter().enumerate() {
            let runs = segment.entries.iter().filter(|(of, ..)| *of == partition);
            entries.extend(runs.map(|(_, first, last)| (*first, *last, at)));
            if let Some(entries) = segment.kept.get(&partition) {
                kept.push((at, Arc::clone(entries)));
            }
        }
        entries.sort_unstable();
        Locator {
            partition,
            entries,
            kept,
            near: None,
        }
    }

    /// A record is needed, for one stream of perhaps many. Counted where its entry lies, if that is to be chosen from.
    pub(super) fn count(&mut self, locator: &mut Locator, need: Need) {
        if let Some(at) = locator.place(need.index) {
            self.counts[at].tell((locator.partition, need.index, need.byte));
        }
    }

    /// Records needed, by place in the survey: each once, about.
    pub(super) fn counts(&self) -> impl Iterator<Item = u64> {
        self.counts.iter().map(Sketch::count)
    }

    /// Nobody knows what a partition needs: whatever has something of it stays.
    pub(super) fn exclude(&mut self, partition: PartitionId) {
        let mut counts = Vec::new();
        let mut kept = Vec::new();
        let old = std::mem::take(&mut self.survey.segments);
        for (segment, count) in old.into_iter().zip(std::mem::take(&mut self.counts)) {
            let mut runs = segment.entries.iter();
            let is_concerned =
                segment.kept.contains_key(&partition) || runs.any(|(of, ..)| *of == partition);
            if !is_concerned {
                kept.push(segment);
                counts.push(count);
            }
        }
        (self.survey.segments, self.counts) = (kept, counts);
    }
}

impl Locator {
    /// Where something of an entry lies.
    fn place(&mut self, index: LogIndex) -> Option<usize> {
        let after = self.entries.partition_point(|(first, ..)| *first <= index);
        let run = after.checked_sub(1).and_then(|at| self.entries.get(at));
        if let Some((_, last, at)) = run
            && index <= *last
        {
            return Some(*at);
        }
        let has_kept = |at: &usize| self.kept[*at].1.contains(index);
        let near = self.near.filter(has_kept);
        let found = near.or_else(|| (0..self.kept.len()).find(has_kept));
        self.near = found.or(self.near);
        Some(self.kept[found?].0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{clean::survey::Surveyed, ids::SegmentNumber};

    fn surveyed(number: u64, entries: (u64, u64), kept: &[u64]) -> Surveyed {
        let partition = PartitionId(1);
        Surveyed {
            number: SegmentNumber(number),
            bytes: 1_000,
            entries: vec![(partition, LogIndex(entries.0), LogIndex(entries.1))],
            kept: [(partition, Arc::new(entries_of(kept)))].into(),
        }
    }

    fn entries_of(kept: &[u64]) -> KeptEntries {
        let mut entries = KeptEntries::default();
        for index in kept {
            entries.add(LogIndex(*index), LogIndex(*index));
        }
        entries.close();
        entries
    }

    fn weigher() -> Weigher {
        Weigher::new(Survey {
            segments: vec![
                surveyed(7, (100, 199), &[3, 9]),
                surveyed(8, (200, 299), &[5, 9]),
            ],
            partitions: [PartitionId(1)].into(),
            active: 9,
            room: u64::MAX,
            in_pieces: 0,
        })
    }

    fn need(index: u64, byte: u32) -> Need {
        let index = LogIndex(index);
        Need { index, byte }
    }

    fn counts(weigher: &Weigher) -> Vec<u64> {
        weigher.counts().collect()
    }

    #[test]
    fn a_record_counts_where_it_lies() {
        let mut weigher = weigher();
        assert_eq!(weigher.next(), Some(PartitionId(1)));
        let mut locator = weigher.locator(PartitionId(1));
        for index in [100, 199, 200, 3, 5, 6, 4, 300, 99] {
            weigher.count(&mut locator, need(index, 32));
        }
        assert_eq!(counts(&weigher), [3, 2]);
        // Kept twice: near the one before it.
        weigher.count(&mut locator, need(5, 64));
        weigher.count(&mut locator, need(9, 32));
        assert_eq!(counts(&weigher), [3, 4]);
        assert_eq!(weigher.next(), None);
    }

    #[test]
    fn m41_a_record_for_many_streams_counts_once() {
        let mut weigher = weigher();
        let mut locator = weigher.locator(PartitionId(1));
        for _ in 0..100_000 {
            weigher.count(&mut locator, need(100, 32));
            weigher.count(&mut locator, need(100, 64));
            weigher.count(&mut locator, need(200, 32));
        }
        assert_eq!(counts(&weigher), [2, 1]);
    }

    #[test]
    fn segments_of_a_partition_that_cannot_be_read_are_no_choice() {
        let mut weigher = weigher();
        weigher.exclude(PartitionId(2));
        assert_eq!(counts(&weigher).len(), 2);
        weigher.exclude(PartitionId(1));
        assert_eq!(
            (counts(&weigher).len(), weigher.survey.segments.len()),
            (0, 0)
        );
    }
}
