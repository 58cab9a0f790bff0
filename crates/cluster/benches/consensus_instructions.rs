//! Instruction counts of a group of one: `cargo xtask instructions`.
//!
//! What a group costs does not depend on how many messages an entry carries, so a case is entries, ticks or starts;
//! `docs/performance.md` divides by messages.
#![allow(missing_docs)] // the macros make undocumented items

mod support;

use bytes::Bytes;
use courser_cluster::Group;
use gungraun::prelude::*;
use support::{Shell, leading, ticks_of, turns};

/// Entries or ticks of one case.
const TIMES: u64 = 100;

#[library_benchmark]
#[bench::alone(leading())]
fn entries((mut group, mut shell, entry): (Group, Shell, Bytes)) -> (Group, Shell, Bytes) {
    turns(&mut group, &mut shell, &entry, TIMES);
    // Handed back, so that freeing it is not counted.
    (group, shell, entry)
}

#[library_benchmark]
#[bench::alone(leading())]
fn ticks((mut group, mut shell, entry): (Group, Shell, Bytes)) -> (Group, Shell, Bytes) {
    ticks_of(&mut group, &mut shell, TIMES);
    (group, shell, entry)
}

library_benchmark_group!(name = consensus, benchmarks = [entries, ticks]);
main!(library_benchmark_groups = consensus);
