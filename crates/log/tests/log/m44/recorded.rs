//! A log of which every batch is known by its place.

use std::collections::BTreeMap;

use courser_contract::{LogIndex, PartitionId, Term};
use courser_log::{
    Batch, BatchPlace, Log, LogConfig, Manifests, PartitionDamage, Push, Record, Recovered,
    WriteError, testing::MemDisk,
};

use crate::support::{NODE, entry, entry_of, open, start};

/// A log with batches of which each holds the next entry of one partition.
pub(crate) struct Recorded {
    pub(crate) disk: MemDisk,
    pub(crate) log: Log<MemDisk>,
    pub(crate) batch: Batch,
    pub(crate) places: Vec<BatchPlace>,
    pub(crate) last: BTreeMap<u16, u64>,
    /// Of the entries that come.
    pub(crate) term: Term,
}

impl Recorded {
    pub(crate) fn new() -> Self {
        Self::on(MemDisk::new(), 1)
    }

    pub(crate) fn on(disk: MemDisk, counter: u32) -> Self {
        let (log, recovered) = open(&disk, counter, &Manifests::new()).expect("opens");
        Self::on_log(disk, log, &recovered)
    }

    /// Goes on with a log in which nothing is damaged.
    pub(crate) fn on_log(disk: MemDisk, mut log: Log<MemDisk>, recovered: &Recovered) -> Self {
        let last = recovered
            .partitions
            .iter()
            .map(|(id, found)| (id.0, found.entries.last().map_or(0, |entry| entry.index.0)))
            .collect();
        let batch = log.new_batch();
        Self {
            disk,
            log,
            batch,
            places: Vec::new(),
            last,
            term: Term(1),
        }
    }

    /// One batch, with the next entry of each of these partitions.
    pub(crate) fn write(&mut self, partitions: &[u16]) -> BatchPlace {
        self.write_of(partitions, 600)
    }

    pub(crate) fn write_of(&mut self, partitions: &[u16], bytes: usize) -> BatchPlace {
        self.batch.clear();
        for id in partitions {
            let last = self.last.entry(*id).or_insert(0);
            *last += 1;
            let data = data(*id, *last, bytes);
            let record = entry_of(self.term, *id, *last, &data);
            assert_eq!(self.batch.push(&record), Push::Taken);
        }
        let place = self.log.write(&mut self.batch).expect("written");
        self.places.push(place);
        place
    }

    pub(crate) fn write_synced(&mut self, partitions: &[u16]) -> BatchPlace {
        let place = self.write(partitions);
        self.log.sync().expect("synced");
        place
    }

    /// Entries of partition 1, each synced, until one is refused: why. It is in the batch, and counts as the last.
    pub(crate) fn fill(&mut self, mut look: impl FnMut(&Log<MemDisk>)) -> WriteError {
        loop {
            if let Some(job) = self.log.prepare() {
                self.log.prepared(job.run()).expect("synced");
            }
            if let Err(error) = self.write_next() {
                return error;
            }
            self.log.sync().expect("synced");
            look(&self.log);
        }
    }

    /// One batch, with the next entry of partition 1, if it is taken.
    pub(crate) fn write_next(&mut self) -> Result<BatchPlace, WriteError> {
        let next = self.last.entry(1).or_insert(0);
        *next += 1;
        let record = entry(1, *next, &data(1, *next, 3_000));
        self.batch.clear();
        assert_eq!(self.batch.push(&record), Push::Taken);
        self.log.write(&mut self.batch)
    }

    /// One batch, with a vote of partition 1 for node 1.
    pub(crate) fn write_vote(&mut self, term: u64) -> BatchPlace {
        self.batch.clear();
        let vote = Record::HardState {
            partition: PartitionId(1),
            term: Term(term),
            vote: 1,
            commit: LogIndex(0),
        };
        assert_eq!(self.batch.push(&vote), Push::Taken);
        let place = self.log.write(&mut self.batch).expect("written");
        self.log.sync().expect("synced");
        place
    }

    /// Flips a bit of a batch, counted from its beginning.
    pub(crate) fn rot(&self, place: BatchPlace, byte: u64) {
        let name = place.place.segment.file_name();
        self.disk.rot(&name, place.place.offset + byte, 0x10);
    }

    pub(crate) fn restart(&self, counter: u32) -> Recovered {
        let (log, recovered) = open(&self.disk.kill(), counter, &Manifests::new()).expect("opens");
        log.check();
        for (id, found) in &recovered.partitions {
            for (at, entry) in found.entries.iter().enumerate() {
                assert_eq!(entry.index, LogIndex(at as u64 + 1));
                let expected = data(id.0, entry.index.0, entry.data.len());
                assert!(entry.data == expected, "entry {:?} of {id:?}", entry.index);
            }
        }
        recovered
    }
}

pub(crate) fn data(partition: u16, index: u64, bytes: usize) -> Vec<u8> {
    let seed = u64::from(partition) << 32 | index;
    (0..bytes as u64)
        .map(|at| (seed.wrapping_mul(31).wrapping_add(at * 7) >> 1) as u8)
        .collect()
}

pub(crate) fn entries(recovered: &Recovered, partition: u16) -> usize {
    let found = recovered.partitions.get(&PartitionId(partition));
    found.map_or(0, |found| found.entries.len())
}

pub(crate) fn damage(recovered: &Recovered, partition: u16) -> Option<PartitionDamage> {
    recovered.damage(PartitionId(partition))
}

pub(crate) const HEADER: u64 = 88;
/// Before a small entry.
pub(crate) const FRAME: u64 = 16;
/// Before a vote.
pub(crate) const VOTE_FRAME: u64 = 32;

/// As [`open`], with segments of another size.
pub(crate) fn open_with(
    disk: &MemDisk,
    counter: u32,
    segment_bytes: u64,
) -> (Log<MemDisk>, Recovered) {
    let mut config = LogConfig::new(NODE, segment_bytes).expect("a good size");
    config.reserve_segments = 1;
    let opened = Log::open(disk.clone(), config, start(counter), &Manifests::new());
    opened.expect("opens")
}
