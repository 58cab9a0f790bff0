//! Where the kept records of a partition are (M41). Made when somebody first wants one, since the log itself knows only their batches.
//!
//! Cost: 20 bytes for each frame of kept records, 24 while it is sorted, and one read of each batch that has some. A frame has one
//! record, or a few that follow each other.

use courser_contract::{LogIndex, PartitionId};

use super::hand::Hand;
use crate::ids::Place;

/// Bytes of an entry that were kept. The index stands in halves so that 20 bytes are enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Kept {
    index: [u32; 2],
    byte: u32,
    /// Which of the batches.
    batch: u32,
    len: u32,
}

const _: () = assert!(size_of::<Kept>() == 20);

impl Kept {
    const fn key(&self) -> ([u32; 2], u32) {
        (self.index, self.byte)
    }
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct KeptIndex {
    /// Ascending.
    batches: Vec<Place>,
    /// Those of them that are still to be read, the next one last.
    missing: Vec<Place>,
    /// Sorted.
    kept: Vec<Kept>,
}

impl KeptIndex {
    /// Takes newer places: forgets what is gone.
    pub(super) fn refresh(&mut self, batches: &[Place]) {
        let mut newer = batches.to_vec();
        newer.sort_unstable();
        newer.dedup();
        let numbers: Vec<Option<u32>> = self
            .batches
            .iter()
            .map(|place| number(newer.binary_search(place).ok()?))
            .collect();
        self.kept.retain_mut(|kept| {
            let now = numbers[kept.batch as usize];
            kept.batch = now.unwrap_or_default();
            now.is_some()
        });
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
            let parts = batch.kept_of(partition).iter();
            self.kept.extend(parts.map(|part| Kept {
                index: halves(part.index),
                byte: part.byte,
                batch: at,
                len: u32::try_from(part.data.len()).unwrap_or(u32::MAX),
            }));
        }
        self.finish();
    }

    fn finish(&mut self) {
        if self.missing.is_empty() {
            self.kept.sort_unstable();
            self.kept.shrink_to_fit();
        }
    }

    /// The batch that has a byte of an entry: of several the newest of those that begin next to it.
    pub(super) fn find(&self, index: LogIndex, byte: u32) -> Option<Place> {
        let key = (halves(index), byte);
        let behind = self.kept.partition_point(|kept| kept.key() <= key);
        let before = self.kept[..behind].iter().rev();
        let mut of_entry = before.take_while(|kept| kept.index == key.0);
        let found = of_entry.find(|kept| byte < kept.byte.saturating_add(kept.len))?;
        Some(self.batches[found.batch as usize])
    }
}

const fn halves(index: LogIndex) -> [u32; 2] {
    [(index.0 >> 32) as u32, index.0 as u32]
}

fn number(at: usize) -> Option<u32> {
    u32::try_from(at).ok()
}
