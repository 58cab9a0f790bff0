//! Costs of the log: building batches, group commit on a real folder, recovery.
//!
//! `cargo bench -p courser-log --bench log`; under `cargo test` it runs with little input. `BENCH_DIR` names a folder on the disk
//! that is to be measured. CPU times are those of this thread, so a busy machine does not change them much; syncs are the disk's.
#![allow(clippy::print_stdout)] // its output is its purpose

mod support;

use std::{alloc::System, time::Instant};

use courser_log::{FileDisk, Log, Manifests};
use courser_memory::{Counting, thread_snapshot};
use support::{NoDisk, Source, config, start};

#[global_allocator]
static ALLOCATOR: Counting<System> = Counting::new(System);

/// Nanoseconds that this thread has run.
fn on_cpu() -> f64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux tells it");
    let first = stat.split(' ').next().expect("three numbers");
    first.parse().expect("nanoseconds")
}

/// The log's own work for a record: frame, copy, checksums, places.
fn building(rounds: usize) {
    for records in [1, 64, 1_024, 16_384] {
        let (mut log, _) =
            Log::open(NoDisk, config(), start(1), &Manifests::new()).expect("it takes everything");
        let mut batch = log.new_batch();
        let mut source = Source::new();
        let rounds = (rounds * 16_384 / records).min(200_000);
        for _ in 0..20 {
            source.fill(&mut batch, records);
            log.write(&mut batch).expect("written");
            log.sync().expect("synced");
        }
        let (before, counted) = (on_cpu(), thread_snapshot());
        for _ in 0..rounds {
            source.fill(&mut batch, records);
            log.write(&mut batch).expect("written");
            log.sync().expect("synced");
        }
        let all = (rounds * records) as f64;
        let allocated = thread_snapshot().since(&counted).allocated().allocations;
        println!(
            "building: {records:6} records of 128 B a batch: {:6.1} ns a record, {:.4} allocations a batch",
            (on_cpu() - before) / all,
            allocated as f64 / rounds as f64
        );
    }
}

fn folder() -> tempfile::TempDir {
    match std::env::var_os("BENCH_DIR") {
        Some(folder) => tempfile::tempdir_in(folder),
        None => tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")),
    }
    .expect("a folder to write to")
}

fn percentile(sorted: &[f64], of: f64) -> f64 {
    sorted[((sorted.len() - 1) as f64 * of) as usize]
}

/// One thread that writes and syncs batches of one size.
fn committing(rounds: usize) {
    for records in [1, 64, 1_024, 16_384] {
        let folder = folder();
        let disk = FileDisk::open(folder.path()).expect("the folder is there");
        let (mut log, _) = Log::open(disk, config(), start(1), &Manifests::new()).expect("opens");
        let mut batch = log.new_batch();
        let mut source = Source::new();
        let mut times = Vec::with_capacity(rounds);
        let (mut cpu, begin) = (0.0, Instant::now());
        let mut preparing = 0.0;
        for _ in 0..rounds {
            // What another thread does in a broker; its time is left out.
            let paused = Instant::now();
            if let Some(job) = log.prepare() {
                log.prepared(job.run()).expect("synced");
            }
            preparing += paused.elapsed().as_secs_f64();
            let (before, at) = (on_cpu(), Instant::now());
            source.fill(&mut batch, records);
            log.write(&mut batch).expect("written");
            log.sync().expect("synced");
            times.push(at.elapsed().as_secs_f64() * 1e6);
            cpu += on_cpu() - before;
        }
        let wall = begin.elapsed().as_secs_f64() - preparing;
        times.sort_by(f64::total_cmp);
        println!(
            "committing: {records:6} records a batch: {:9.0} records/s, write and sync p50 {:6.0} p99 {:6.0} us, {:6.1} us CPU a batch, {} rolls unprepared",
            (rounds * records) as f64 / wall,
            percentile(&times, 0.5),
            percentile(&times, 0.99),
            cpu / 1e3 / rounds as f64,
            log.counts().rolls_unprepared
        );
    }
}

/// Opening a log with many small records.
fn recovering(records: usize) {
    let folder = folder();
    let disk = FileDisk::open(folder.path()).expect("the folder is there");
    let (mut log, _) =
        Log::open(disk.clone(), config(), start(1), &Manifests::new()).expect("opens");
    let mut batch = log.new_batch();
    let mut source = Source::new();
    for _ in 0..records / 1_024 {
        source.fill(&mut batch, 1_024);
        log.write(&mut batch).expect("written");
    }
    log.sync().expect("synced");
    log.witness().expect("written");
    drop(log);
    for counter in 2..4 {
        let (before, begin) = (on_cpu(), Instant::now());
        let (_, recovered) =
            Log::open(disk.clone(), config(), start(counter), &Manifests::new()).expect("opens");
        let (cpu, wall) = (on_cpu() - before, begin.elapsed().as_secs_f64());
        let report = &recovered.report;
        assert_eq!(report.entries, (records / 1_024 * 1_024) as u64);
        println!(
            "recovering: {} entries, {} MiB: {:9.0} entries/s by CPU, {:9.0} by the clock",
            report.entries,
            report.bytes >> 20,
            report.entries as f64 / (cpu / 1e9),
            report.entries as f64 / wall
        );
    }
}

fn main() {
    let is_bench = std::env::args().any(|arg| arg == "--bench");
    let (rounds, batches, records) = if is_bench {
        (100, 400, 2_000_000)
    } else {
        (1, 2, 4_096)
    };
    building(rounds);
    committing(batches);
    recovering(records);
}
