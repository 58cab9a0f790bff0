//! What the benchmarks of the log share.

#![allow(dead_code, reason = "each benchmark uses its part")]

use std::{
    hint::black_box,
    io::{self, IoSlice},
};

use bytes::Bytes;
use courser_contract::{LogIndex, PartitionId, Term};
use courser_log::{Batch, Disk, DiskFile, LogConfig, NodeIdentity, Push, Record, StartId};

/// Aligned, since a checksum takes more instructions where its bytes begin in the midst of a word, and where the linker puts bytes that
/// want no alignment differs from build to build.
#[repr(align(64))]
struct Payload([u8; 128]);

static PAYLOAD: Payload = Payload([7; 128]);

/// A disk that takes everything and keeps nothing: what is left is the log's own work.
#[derive(Clone, Debug)]
pub(crate) struct NoDisk;

impl Disk for NoDisk {
    type File = Self;

    fn list(&self) -> io::Result<Vec<String>> {
        Ok(Vec::new())
    }

    fn create(&self, _: &str) -> io::Result<Self> {
        Ok(Self)
    }

    fn open(&self, _: &str) -> io::Result<Self> {
        Ok(Self)
    }

    fn rename(&self, _: &str, _: &str) -> io::Result<()> {
        Ok(())
    }

    fn remove(&self, _: &str) -> io::Result<()> {
        Ok(())
    }

    fn sync_dir(&self) -> io::Result<()> {
        Ok(())
    }

    fn free_bytes(&self) -> io::Result<u64> {
        Ok(u64::MAX / 2)
    }
}

impl DiskFile for NoDisk {
    fn len(&self) -> io::Result<u64> {
        Ok(0)
    }

    fn read_at(&self, _: &mut [u8], _: u64) -> io::Result<()> {
        Err(io::ErrorKind::UnexpectedEof.into())
    }

    fn write_at(&self, parts: &[IoSlice<'_>], _: u64) -> io::Result<()> {
        black_box(parts);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn set_len(&self, _: u64) -> io::Result<()> {
        Ok(())
    }
}

pub(crate) fn config() -> LogConfig {
    LogConfig::new(NodeIdentity(1), 64 << 20).expect("a good size")
}

pub(crate) fn start(counter: u32) -> StartId {
    StartId { counter, word: 3 }
}

/// Gives records of 17 partitions in turn, as many in a row as an order of a shard would have.
pub(crate) struct Source {
    last: [u64; 17],
    at: usize,
    data: Bytes,
}

impl Source {
    pub(crate) fn new() -> Self {
        Self {
            last: [0; 17],
            at: 0,
            data: Bytes::from_static(&PAYLOAD.0),
        }
    }

    fn next(&mut self) -> Record {
        self.at += 1;
        let partition = self.at / 16 % 17;
        self.last[partition] += 1;
        Record::Entry {
            partition: PartitionId(partition as u16),
            term: Term(1),
            index: LogIndex(self.last[partition]),
            data: self.data.clone(),
        }
    }

    pub(crate) fn fill(&mut self, batch: &mut Batch, records: usize) {
        batch.clear();
        for _ in 0..records {
            assert_eq!(batch.push(&self.next()), Push::Taken);
        }
    }
}
