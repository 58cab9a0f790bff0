//! How one write is best made durable on a disk: through the page cache or past it (`docs/adr/0007-*.md`).
//!
//! `cargo bench -p courser-log --bench disk`; `BENCH_DIR` names a folder on the disk to be measured. Under `cargo test` it runs with
//! few writes. Everything goes into blocks that were written with zeros before; the ways take turns, so that a noisy moment
//! meets all of them.
#![allow(clippy::print_stdout)] // its output is its purpose

use std::{io::IoSlice, os::fd::OwnedFd, path::Path, time::Instant};

use rustix::{
    fs::{Mode, OFlags},
    io::ReadWriteFlags,
};

const FILE_BYTES: usize = 64 << 20;
const ALIGN: usize = 4096;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// `pwritev`, then `fdatasync`.
    Cached,
    /// `pwritev2` with `RWF_DSYNC`.
    CachedDsync,
    /// `O_DIRECT`, then `fdatasync`.
    Direct,
    /// `O_DIRECT` with `RWF_DSYNC`.
    DirectDsync,
    /// `O_DIRECT` and `O_DSYNC`.
    DirectODsync,
}

impl Way {
    const ALL: [Self; 5] = [
        Self::Cached,
        Self::CachedDsync,
        Self::Direct,
        Self::DirectDsync,
        Self::DirectODsync,
    ];

    fn open(self, path: &Path) -> Option<OwnedFd> {
        let flags = OFlags::RDWR
            | match self {
                Self::Cached | Self::CachedDsync => OFlags::empty(),
                Self::Direct | Self::DirectDsync => OFlags::DIRECT,
                Self::DirectODsync => OFlags::DIRECT | OFlags::DSYNC,
            };
        // Not every file system has it.
        rustix::fs::open(path, flags, Mode::empty()).ok()
    }

    fn write(self, file: &OwnedFd, bytes: &[u8], at: u64) {
        let parts = [IoSlice::new(bytes)];
        let written = match self {
            Self::Cached | Self::Direct => {
                let written = rustix::io::pwritev(file, &parts, at);
                rustix::fs::fdatasync(file).expect("synced");
                written
            }
            Self::CachedDsync | Self::DirectDsync => {
                rustix::io::pwritev2(file, &parts, at, ReadWriteFlags::DSYNC)
            }
            Self::DirectODsync => rustix::io::pwritev(file, &parts, at),
        };
        assert_eq!(written.expect("written"), bytes.len());
    }
}

#[derive(Debug, Default)]
struct Times {
    clock: Vec<f64>,
    cpu: f64,
}

/// Nanoseconds that this thread has run.
fn on_cpu() -> f64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux tells it");
    let first = stat.split(' ').next().expect("three numbers");
    first.parse().expect("nanoseconds")
}

fn measure(folder: &Path, bytes: usize, rounds: usize) {
    let files: Vec<(Way, OwnedFd)> = Way::ALL
        .into_iter()
        .filter_map(|way| {
            let path = folder.join(format!("{way:?}-{bytes}"));
            std::fs::write(&path, vec![0; FILE_BYTES]).expect("filled");
            let file = way.open(&path)?;
            rustix::fs::fsync(&file).expect("synced");
            Some((way, file))
        })
        .collect();
    // The memory that O_DIRECT writes from must be aligned.
    let memory = vec![7_u8; bytes + ALIGN];
    let skip = memory.as_ptr().align_offset(ALIGN);
    let data = &memory[skip..skip + bytes];
    let mut times: Vec<Times> = files.iter().map(|_| Times::default()).collect();
    for round in 0..rounds {
        let at = (round * bytes % FILE_BYTES) as u64;
        for ((way, file), times) in files.iter().zip(&mut times) {
            let (before, begin) = (on_cpu(), Instant::now());
            way.write(file, data, at);
            times.clock.push(begin.elapsed().as_secs_f64() * 1e6);
            times.cpu += on_cpu() - before;
        }
    }
    for ((way, _), times) in files.iter().zip(&mut times) {
        times.clock.sort_by(f64::total_cmp);
        let of = |part: f64| times.clock[((rounds - 1) as f64 * part) as usize];
        println!(
            "{:8} B {:14} p50 {:6.0} p99 {:6.0} us, {:6.1} us CPU",
            bytes,
            format!("{way:?}"),
            of(0.5),
            of(0.99),
            times.cpu / 1e3 / rounds as f64
        );
    }
}

fn main() {
    let is_bench = std::env::args().any(|arg| arg == "--bench");
    let folder = match std::env::var_os("BENCH_DIR") {
        Some(folder) => tempfile::tempdir_in(folder),
        None => tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")),
    }
    .expect("a folder to write to");
    for (bytes, rounds) in [(4 << 10, 2_000), (64 << 10, 1_000), (1 << 20, 300)] {
        measure(folder.path(), bytes, if is_bench { rounds } else { 2 });
    }
}
