//! Instruction counts of the log: `cargo xtask instructions`.
//!
//! A case of `write_batch` is one batch of records of 128 bytes, built, sealed and given to a disk that keeps nothing; a case of
//! `recover` is the opening of a log on a disk in memory.
#![allow(missing_docs)] // the macros make undocumented items

mod support;

use courser_log::{Batch, Log, LogConfig, Manifests, NodeIdentity, testing::MemDisk};
use gungraun::prelude::*;
use support::{NoDisk, Source, config, start};

type Warm = (Log<NoDisk>, Batch, Source, usize);

/// A log that has written some batches: its tables have their size.
fn warm(records: usize) -> Warm {
    let (mut log, _) =
        Log::open(NoDisk, config(), start(1), &Manifests::new()).expect("it takes everything");
    let mut batch = log.new_batch();
    let mut source = Source::new();
    for _ in 0..10 {
        source.fill(&mut batch, records);
        log.write(&mut batch).expect("written");
        log.sync().expect("synced");
    }
    (log, batch, source, records)
}

#[library_benchmark]
#[bench::records_1(warm(1))]
#[bench::records_64(warm(64))]
#[bench::records_1024(warm(1_024))]
fn write_batch((mut log, mut batch, mut source, records): Warm) -> Warm {
    source.fill(&mut batch, records);
    log.write(&mut batch).expect("written");
    log.sync().expect("synced");
    // Handed back, so that freeing it is not counted.
    (log, batch, source, records)
}

/// Segments of 1 MiB: the disk in memory fills them under valgrind.
fn small() -> LogConfig {
    LogConfig::new(NodeIdentity(1), 1 << 20).expect("a good size")
}

/// A disk with a log of that many records, 64 a batch.
fn recorded(records: usize) -> MemDisk {
    let disk = MemDisk::new();
    let (mut log, _) =
        Log::open(disk.clone(), small(), start(1), &Manifests::new()).expect("an empty folder");
    let mut batch = log.new_batch();
    let mut source = Source::new();
    for _ in 0..records / 64 {
        source.fill(&mut batch, 64);
        log.write(&mut batch).expect("written");
        log.sync().expect("synced");
    }
    disk.kill()
}

#[library_benchmark]
#[bench::records_8192(recorded(8_192))]
fn recover(disk: MemDisk) -> usize {
    let (log, recovered) =
        Log::open(disk, small(), start(2), &Manifests::new()).expect("the log opens");
    let entries = recovered.report.entries as usize;
    std::mem::forget((log, recovered));
    entries
}

library_benchmark_group!(name = log, benchmarks = [write_batch, recover]);
main!(library_benchmark_groups = log);
