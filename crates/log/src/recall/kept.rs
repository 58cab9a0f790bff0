//! Where the kept records of a partition are (M41). Made when somebody first wants one, since the log itself knows only their batches,
//! and let go of when nobody has wanted any for a while.
//!
//! Batches with kept records are read in the order of the log, and in it records are sorted by stream. So many of their frames are
//! sorted by address and become a **run**, and runs of like size become one: there are few of them, however many frames there are.
//!
//! Cost: 3 to 4 bytes for each frame, twice that while two runs become one; 24 for each of the last 8,192; and one read of each batch that has
//! some. A frame has one record, or a few that follow each other. So the limit of all indexes is a part of what names these records in memory,
//! 8 to 10 bytes each (ADR 17).

mod packed;

use courser_contract::{LogIndex, PartitionId};

use self::packed::Packed;
use super::hand::Hand;
use crate::ids::Place;

/// Frames that come before they are packed.
const COMING_MAX: usize = 8_192;

/// Bytes of an entry that were kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Kept {
    index: u64,
    byte: u32,
    /// Which of the batches.
    batch: u32,
    len: u32,
}

const _: () = assert!(size_of::<Kept>() == 24);

/// See the module.
#[derive(Debug, Default)]
pub(super) struct KeptIndex {
    /// Ascending.
    batches: Vec<Place>,
    /// Those of them that are still to be read, the next one last.
    missing: Vec<Place>,
    /// Each has at least twice as many frames as the next one.
    runs: Vec<Packed>,
    /// In no order.
    coming: Vec<Kept>,
}

impl KeptIndex {
    /// Takes newer places: forgets what is gone.
    pub(super) fn refresh(&mut self, batches: &[Place]) {
        let mut newer = batches.to_vec();
        newer.sort_unstable();
        newer.dedup();
        if !newer.starts_with(&self.batches) {
            self.number_anew(&newer);
        }
        let known = |place: &Place| {
            let is_missing = self.missing.binary_search_by(|it| place.cmp(it)).is_ok();
            self.batches.binary_search(place).is_ok() && !is_missing
        };
        let missing: Vec<Place> = newer
            .iter()
            .rev()
            .filter(|it| !known(it))
            .copied()
            .collect();
        self.missing = missing;
        self.batches = newer;
        // Those that were missing may be gone.
        self.finish();
    }

    /// Batches are numbered by their order, which changes when one goes.
    fn number_anew(&mut self, newer: &[Place]) {
        let numbers: Vec<Option<u32>> = self
            .batches
            .iter()
            .map(|place| number(newer.binary_search(place).ok()?))
            .collect();
        let numbered = |kept: Kept| {
            let batch = numbers[kept.batch as usize]?;
            Some(Kept { batch, ..kept })
        };
        for run in &mut self.runs {
            *run = run.iter().filter_map(numbered).collect();
        }
        self.runs.retain(|run| run.len() > 0);
        let coming = std::mem::take(&mut self.coming);
        self.coming.extend(coming.into_iter().filter_map(numbered));
        self.join();
    }

    /// The next batch to be read.
    pub(super) fn next_missing(&self) -> Option<Place> {
        self.missing.last().copied()
    }

    /// Whether all is known.
    pub(super) const fn is_whole(&self) -> bool {
        self.missing.is_empty()
    }

    /// Takes the next batch; none: it cannot be read.
    pub(super) fn add(&mut self, place: Place, batch: Option<(&Hand, PartitionId)>) {
        if self.missing.last() != Some(&place) {
            return;
        }
        self.missing.pop();
        let at = self.batches.binary_search(&place).ok().and_then(number);
        if let (Some(at), Some((batch, partition))) = (at, batch) {
            for part in batch.kept_of(partition) {
                self.take(Kept {
                    index: part.index.0,
                    byte: part.byte,
                    batch: at,
                    len: u32::try_from(part.data.len()).unwrap_or(u32::MAX),
                });
            }
        }
        self.finish();
    }

    fn take(&mut self, kept: Kept) {
        self.coming.push(kept);
        if self.coming.len() == COMING_MAX {
            self.pack();
        }
    }

    fn finish(&mut self) {
        if self.missing.is_empty() {
            self.pack();
            self.coming = Vec::new();
        }
    }

    /// What has come becomes a run.
    fn pack(&mut self) {
        if self.coming.is_empty() {
            return;
        }
        self.coming.sort_unstable();
        self.runs.push(self.coming.drain(..).collect());
        self.join();
    }

    /// Makes one run of two until each has at least twice as many frames as the next one.
    fn join(&mut self) {
        let mut at = 1;
        while at < self.runs.len() {
            if self.runs[at - 1].len() / 2 >= self.runs[at].len() {
                at += 1;
                continue;
            }
            let second = self.runs.remove(at);
            let first = &mut self.runs[at - 1];
            *first = Merged::of(first.iter(), second.iter()).collect();
            at = (at - 1).max(1);
        }
    }

    /// The batch that has a byte of an entry: of several the newest of those that begin next to it.
    pub(super) fn find(&self, index: LogIndex, byte: u32) -> Option<Place> {
        let found = self.runs.iter().filter_map(|run| run.find(index.0, byte));
        let nearest = found.max_by_key(|kept| (kept.byte, kept.batch))?;
        Some(self.batches[nearest.batch as usize])
    }

    /// Bytes that it takes.
    pub(super) fn held_bytes(&self) -> usize {
        let places = self.batches.capacity() + self.missing.capacity();
        let coming = self.coming.capacity() * size_of::<Kept>();
        let runs: usize = self.runs.iter().map(Packed::held_bytes).sum();
        places * size_of::<Place>() + coming + runs
    }
}

/// Two sorted runs as one.
struct Merged<I> {
    runs: [I; 2],
    heads: [Option<Kept>; 2],
}

impl<I: Iterator<Item = Kept>> Merged<I> {
    fn of(mut one: I, mut two: I) -> Self {
        let heads = [one.next(), two.next()];
        Self {
            runs: [one, two],
            heads,
        }
    }
}

impl<I: Iterator<Item = Kept>> Iterator for Merged<I> {
    type Item = Kept;

    fn next(&mut self) -> Option<Kept> {
        let from = match self.heads {
            [Some(one), Some(two)] => usize::from(two < one),
            [None, Some(_)] => 1,
            [_, None] => 0,
        };
        std::mem::replace(&mut self.heads[from], self.runs[from].next())
    }
}

fn number(at: usize) -> Option<u32> {
    u32::try_from(at).ok()
}

#[cfg(test)]
mod tests;
