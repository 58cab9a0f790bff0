//! Time of a group of one over a log in memory: `cargo bench -p courser-cluster --bench consensus_time`; under `cargo test` it runs
//! with little input. A message may take at most 0.1 us at 64 an entry, a tick of an idle group 2 us.
//!
//! Batches are short and the fastest of many counts, so that other programs on the machine disturb it little; the middle one
//! is printed beside it.
#![allow(missing_docs, clippy::print_stdout)] // a program

mod support;

use std::time::Instant;

use support::{MESSAGES, leading, ticks_of, turns};

/// Entries or ticks of a batch.
const TIMES: u64 = 100;
/// What a message may take.
const MESSAGE_NS_MAX: f64 = 100.0;
/// What a tick may take.
const TICK_NS_MAX: f64 = 2_000.0;

/// Nanoseconds of one of them: in the fastest batch, and in the middle one.
fn times(batches: usize, mut batch: impl FnMut()) -> (f64, f64) {
    let mut each: Vec<f64> = (0..batches)
        .map(|_| {
            let begun = Instant::now();
            batch();
            begun.elapsed().as_nanos() as f64 / TIMES as f64
        })
        .collect();
    each.sort_by(f64::total_cmp);
    (each[0], each[batches / 2])
}

fn main() {
    let is_bench = std::env::args().any(|arg| arg == "--bench");
    let batches = if is_bench { 5_000 } else { 2 };

    let (mut group, mut shell, entry) = leading();
    let (best, middle) = times(batches, || turns(&mut group, &mut shell, &entry, TIMES));
    let message = best / MESSAGES as f64;
    println!(
        "entry: {best:.0} ns, in the middle {middle:.0}; a message at {MESSAGES} an entry {message:.1} ns, in the middle {:.1}",
        middle / MESSAGES as f64
    );

    let (mut group, mut shell, _) = leading();
    let (tick, middle) = times(batches, || ticks_of(&mut group, &mut shell, TIMES));
    println!("tick of an idle group: {tick:.0} ns, in the middle {middle:.0}");

    // Without optimisation these would say nothing.
    if is_bench {
        assert!(message <= MESSAGE_NS_MAX, "{message} ns a message");
        assert!(tick <= TICK_NS_MAX, "{tick} ns a tick");
    }
}
