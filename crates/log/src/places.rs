//! Where entries are: for each partition, runs of indexes that follow each other within a stretch of a segment.
//!
//! A look-up gives the place of a batch at or before the entry; from there batches are read on. So the table has one item for
//! a stretch and not one for an entry: about 24 bytes for each partition and 256 KiB of log.
//!
//! Items of one segment stand together and are shared by all copies of the table: there are as many items as a large log has stretches, and
//! the writer, for which nobody commits meanwhile, neither copies them for a reader nor goes through them when segments become free.
//!
//! Invariant: runs of a partition ascend and do not overlap; what was replaced is no longer in them.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use courser_contract::{LogIndex, PartitionId};

use crate::{
    batch::Run,
    format::BLOCK_BYTES,
    ids::{Place, SegmentNumber},
    summary::OfPartition,
};

#[cfg(test)]
mod tests;

/// A look-up may have to read this far, and one batch more.
pub(crate) const STRETCH_BYTES: u64 = 256 << 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Item {
    first: LogIndex,
    last: LogIndex,
    /// Block of the first batch.
    block: u32,
}

impl Item {
    fn place(&self, segment: SegmentNumber) -> Place {
        Place {
            segment,
            offset: u64::from(self.block) * BLOCK_BYTES as u64,
        }
    }
}

/// Items whose batches begin in one segment: at least one.
#[derive(Clone, Debug)]
struct Chunk {
    segment: SegmentNumber,
    /// Copied when it grows and somebody else has it: of the segment that is written alone.
    items: Arc<Vec<Item>>,
}

impl Chunk {
    fn ends(&self) -> (&Item, &Item) {
        let ends = self.items.first().zip(self.items.last());
        ends.expect("a chunk has an item")
    }
}

/// Places of one partition's entries.
#[derive(Clone, Debug, Default)]
pub(crate) struct PartitionPlaces {
    chunks: Vec<Chunk>,
    /// What comes next begins a stretch of its own.
    fresh: bool,
    /// Entries that lie in pieces, by index: the places of their batches.
    pieces: BTreeMap<LogIndex, Vec<Place>>,
    /// Batches with kept records, in the order in which they were written.
    kept: Vec<Place>,
}

impl PartitionPlaces {
    /// Takes entries that a batch holds. Whether they replace others.
    pub(crate) fn add(&mut self, first: LogIndex, last: LogIndex, place: Place) -> bool {
        // What replaces is never found by reading on from a batch that has what was replaced.
        let replaces = self.last().is_some_and(|known| first <= known);
        if replaces {
            self.cut(first);
        }
        let block = block_of(place);
        let goes_on = !replaces && !self.fresh;
        if let Some(chunk) = self.chunks.last_mut()
            && goes_on
            && chunk.segment == place.segment
            && let (_, item) = chunk.ends()
            && item.last.0 + 1 == first.0
            && u64::from(block - item.block) * (BLOCK_BYTES as u64) < STRETCH_BYTES
            && !self.pieces.contains_key(&item.last)
            && let Some(item) = Arc::make_mut(&mut chunk.items).last_mut()
        {
            item.last = last;
            return false;
        }
        self.fresh = false;
        self.push(first, last, place);
        replaces
    }

    fn push(&mut self, first: LogIndex, last: LogIndex, place: Place) {
        let item = Item {
            first,
            last,
            block: block_of(place),
        };
        match self.chunks.last_mut() {
            Some(chunk) if chunk.segment == place.segment => {
                Arc::make_mut(&mut chunk.items).push(item);
            }
            Some(_) | None => self.chunks.push(Chunk {
                segment: place.segment,
                items: Arc::new(vec![item]),
            }),
        }
    }

    /// Takes an entry whose pieces are at these places. Whether it replaces others.
    pub(crate) fn add_pieces(&mut self, index: LogIndex, places: Vec<Place>) -> bool {
        let Some(first) = places.first().copied() else {
            return false;
        };
        let replaces = self.last().is_some_and(|known| index <= known);
        if replaces {
            self.cut(index);
        }
        self.push(index, index, first);
        self.pieces.insert(index, places);
        replaces
    }

    /// Forgets `from` and all above it.
    fn cut(&mut self, from: LogIndex) {
        while let Some(chunk) = self.chunks.last_mut() {
            if chunk.ends().0.first >= from {
                self.chunks.pop();
                continue;
            }
            let items = Arc::make_mut(&mut chunk.items);
            items.truncate(items.partition_point(|item| item.first < from));
            if let Some(item) = items.last_mut() {
                item.last = item.last.min(LogIndex(from.0 - 1));
            }
            break;
        }
        self.pieces.split_off(&from);
    }

    /// Forgets what is in these segments. Cost: a look at each segment with something of the partition, however much it is.
    pub(crate) fn forget(&mut self, segments: &BTreeSet<SegmentNumber>) {
        let stays = |place: &Place| !segments.contains(&place.segment);
        self.chunks
            .retain(|chunk| !segments.contains(&chunk.segment));
        self.pieces.retain(|_, places| places.iter().all(stays));
        self.kept.retain(stays);
    }

    /// Takes a batch with kept records.
    pub(crate) fn add_kept(&mut self, place: Place) {
        if self.kept.last() != Some(&place) {
            self.kept.push(place);
        }
    }

    /// Batches with kept records.
    pub(crate) fn kept(&self) -> &[Place] {
        &self.kept
    }

    /// Runs of entries whose batches begin in a segment, each with the byte of the first: what was replaced is in none.
    pub(crate) fn runs_in(
        &self,
        segment: SegmentNumber,
    ) -> impl Iterator<Item = (LogIndex, LogIndex, u64)> + '_ {
        let chunks = self.chunks.iter();
        let chunks = chunks.filter(move |chunk| chunk.segment == segment);
        let items = chunks.flat_map(|chunk| chunk.items.iter());
        items.map(move |item| (item.first, item.last, item.place(segment).offset))
    }

    /// Entries from `first` to `last` that a batch holds whole, run by run with the segment of the batch, ascending.
    pub(crate) fn whole_between(
        &self,
        first: LogIndex,
        last: LogIndex,
    ) -> impl Iterator<Item = (LogIndex, LogIndex, SegmentNumber)> + '_ {
        let from = self
            .chunks
            .partition_point(|chunk| chunk.ends().1.last < first);
        let chunks = self.chunks[from..].iter();
        let chunks = chunks.take_while(move |chunk| chunk.ends().0.first <= last);
        let runs = chunks.flat_map(|chunk| chunk.items.iter().map(|item| (item, chunk.segment)));
        runs.filter(move |(item, _)| {
            let overlaps = item.first <= last && first <= item.last;
            overlaps && !self.pieces.contains_key(&item.first)
        })
        .map(move |(item, segment)| (item.first.max(first), item.last.min(last), segment))
    }

    /// The same for a summary: of entries in pieces the places besides.
    pub(crate) fn all_in(&self, segment: SegmentNumber) -> (Vec<RunFound>, Vec<Vec<Place>>) {
        let (mut runs, mut pieces) = (Vec::new(), Vec::new());
        for (first, last, offset) in self.runs_in(segment) {
            let in_pieces = self.pieces.get(&first);
            pieces.extend(in_pieces.cloned());
            runs.push(RunFound {
                first,
                last,
                place: Place { segment, offset },
                in_pieces: in_pieces.is_some(),
            });
        }
        (runs, pieces)
    }

    /// Takes a run out of a summary, as it is: what may be read on from where is settled. Whether it replaces others.
    pub(crate) fn take_run(&mut self, run: RunFound) -> bool {
        let replaces = self.last().is_some_and(|known| run.first <= known);
        if replaces {
            self.cut(run.first);
        }
        self.push(run.first, run.last, run.place);
        replaces
    }

    /// Whether an entry in pieces goes on behind a segment.
    pub(crate) fn goes_on_behind(&self, segment: SegmentNumber) -> bool {
        let mut pieces = self.pieces.values();
        pieces.any(|places| {
            let mut in_it = places.iter().map(|place| place.segment);
            in_it.any(|it| it == segment) && places.last().is_some_and(|it| it.segment > segment)
        })
    }

    /// Whether a segment has a piece of an entry of which `is_live`.
    pub(crate) fn has_piece(
        &self,
        segment: SegmentNumber,
        is_live: impl Fn(LogIndex) -> bool,
    ) -> bool {
        self.pieces.iter().any(|(index, places)| {
            places.iter().any(|place| place.segment == segment) && is_live(*index)
        })
    }

    /// The last entry.
    pub(crate) fn last(&self) -> Option<LogIndex> {
        self.chunks.last().map(|chunk| chunk.ends().1.last)
    }

    /// Where to look for an entry.
    pub(crate) fn find(&self, index: LogIndex) -> Option<Found<'_>> {
        let begins = |chunk: &Chunk| chunk.ends().0.first <= index;
        let after = self.chunks.partition_point(begins);
        let chunk = self.chunks.get(after.checked_sub(1)?)?;
        let after = chunk.items.partition_point(|item| item.first <= index);
        let item = chunk.items.get(after.checked_sub(1)?)?;
        if index > item.last {
            return None;
        }
        Some(match self.pieces.get(&index) {
            Some(places) => Found::Pieces(places),
            None => Found::From(item.place(chunk.segment)),
        })
    }

    /// Runs of entries whose batches begin at a place or behind it, ascending.
    pub(crate) fn runs_from(&self, place: Place) -> impl Iterator<Item = RunFound> + '_ {
        let from = self
            .chunks
            .partition_point(|chunk| chunk.ends().1.place(chunk.segment) < place);
        let items = self.chunks[from..].iter().flat_map(move |chunk| {
            let segment = chunk.segment;
            let from = chunk
                .items
                .partition_point(|item| item.place(segment) < place);
            chunk.items[from..].iter().map(move |item| (item, segment))
        });
        items.map(|(item, segment)| RunFound {
            first: item.first,
            last: item.last,
            place: item.place(segment),
            in_pieces: self.pieces.contains_key(&item.first),
        })
    }

    /// The first of `first..=last` that is nowhere.
    pub(crate) fn first_missing(&self, first: LogIndex, last: LogIndex) -> Option<LogIndex> {
        let mut wanted = first;
        let ends = |chunk: &Chunk| chunk.ends().1.last < first;
        let chunks = &self.chunks[self.chunks.partition_point(ends)..];
        let items = chunks.iter().flat_map(|chunk| {
            let after = chunk.items.partition_point(|item| item.last < first);
            &chunk.items[after..]
        });
        for item in items {
            if item.first > wanted {
                break;
            }
            if item.last >= last {
                return None;
            }
            wanted = LogIndex(item.last.0 + 1);
        }
        Some(wanted)
    }
}

fn block_of(place: Place) -> u32 {
    u32::try_from(place.offset / BLOCK_BYTES as u64).expect("a segment has fewer than 2^32 blocks")
}

/// Where an entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found<'a> {
    /// In a batch at this place, or in one of those behind it.
    From(Place),
    /// In pieces, one in each of these batches, in order.
    Pieces(&'a [Place]),
}

/// Entries that follow each other, from a batch on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RunFound {
    pub(crate) first: LogIndex,
    pub(crate) last: LogIndex,
    pub(crate) place: Place,
    /// One entry, which begins there.
    pub(crate) in_pieces: bool,
}

/// Where all that the log has was at some moment; for a [`crate::RecordReader`]. About 24 bytes for each partition and 256 KiB, shared with the
/// log and with others of its kind.
#[derive(Clone, Debug, Default)]
pub struct LogPlaces {
    pub(crate) places: Places,
    /// Entries of a partition up to this one are never replaced any more.
    pub(crate) settled: BTreeMap<PartitionId, LogIndex>,
    /// Byte at which the last batch of each segment begins: nothing behind it counts.
    pub(crate) ends: BTreeMap<SegmentNumber, u64>,
}

impl LogPlaces {
    /// Where a batch is known to begin, the last one before a place of its segment; the segment's first, if none is.
    pub(crate) fn before(&self, place: Place) -> Place {
        let known = self.places.partitions.values();
        let known = known.flat_map(|of| of.runs_in(place.segment));
        let before = known.map(|(_, _, offset)| offset);
        let before = before.filter(|offset| *offset < place.offset).max();
        Place {
            offset: before.unwrap_or(BLOCK_BYTES as u64),
            ..place
        }
    }
}

/// Places of all partitions.
#[derive(Clone, Debug, Default)]
pub(crate) struct Places {
    partitions: BTreeMap<PartitionId, PartitionPlaces>,
}

impl Places {
    /// Takes entries that a batch holds. Whether they replace others.
    pub(crate) fn add(&mut self, run: Run, place: Place) -> bool {
        let partition = self.partitions.entry(run.partition).or_default();
        partition.add(run.first, run.last, place)
    }

    /// Takes an entry whose pieces are at these places. Whether it replaces others.
    pub(crate) fn add_pieces(
        &mut self,
        partition: PartitionId,
        index: LogIndex,
        places: Vec<Place>,
    ) -> bool {
        let partition = self.partitions.entry(partition).or_default();
        partition.add_pieces(index, places)
    }

    /// Takes what a summary says of a partition. From where on that replaces others, if it does.
    pub(crate) fn take(&mut self, partition: PartitionId, said: &OfPartition) -> Option<LogIndex> {
        let places = self.partitions.entry(partition).or_default();
        let mut pieces = said.pieces.iter();
        let mut replaced = None;
        for run in &said.runs {
            let replaces = match run.in_pieces.then(|| pieces.next()).flatten() {
                Some(pieces) => places.add_pieces(run.first, pieces.clone()),
                None => places.take_run(*run),
            };
            if replaces {
                replaced = Some(replaced.map_or(run.first, |from| run.first.min(from)));
            }
        }
        for place in &said.kept_at {
            places.add_kept(*place);
        }
        replaced
    }

    pub(crate) fn add_kept(&mut self, partition: PartitionId, place: Place) {
        self.partitions
            .entry(partition)
            .or_default()
            .add_kept(place);
    }

    pub(crate) fn forget(&mut self, segments: &BTreeSet<SegmentNumber>) {
        for partition in self.partitions.values_mut() {
            partition.forget(segments);
        }
    }

    /// Nobody can read on from here to what comes: a batch between is lost.
    pub(crate) fn break_stretches(&mut self) {
        for partition in self.partitions.values_mut() {
            partition.fresh = true;
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (PartitionId, &PartitionPlaces)> + '_ {
        self.partitions.iter().map(|(id, places)| (*id, places))
    }

    pub(crate) fn of(&self, partition: PartitionId) -> Option<&PartitionPlaces> {
        self.partitions.get(&partition)
    }
}
