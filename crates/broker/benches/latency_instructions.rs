//! Instruction counts of what the two latency histograms do in a turn: `cargo xtask instructions`, which also says what share of the path
//! that is (`xtask/src/instructions/share.rs`).
//!
//! A turn is that of the partition's benchmark: [`TURN`] publishes of QoS 1 to one session. They came in one batch of another shard, so
//! that each is looked at for when it was received; those of the shard's own sockets are only acknowledged.
#![allow(missing_docs)] // the macros make undocumented items

#[allow(
    dead_code,
    unused_imports,
    unreachable_pub,
    reason = "the shard uses the rest of it, and its tests are run there"
)]
#[path = "../src/latency.rs"]
mod latency;

use std::hint::black_box;

use gungraun::prelude::*;
use latency::{Latency, Moment};

/// Publishes of a turn, as in `crates/engine/benches/support/mod.rs`.
const TURN: u64 = 100;

/// What a turn of a shard asks of it.
fn turn(latency: &mut Latency, number: u64) {
    let now = Moment(number as u32 * 200);
    let received = Moment(now.0 - 150);
    let before = number * TURN;
    latency.begin_turn(black_box(now), before);
    let own = latency.handling();
    for done in 0..TURN {
        latency.handle(Some(black_box(received)), before + done);
        latency.acknowledge(black_box(received));
    }
    latency.handle(own, before + TURN);
    latency.end_turn(before + TURN, || black_box(Moment(now.0 + 90)));
}

fn warm() -> Latency {
    let mut latency = Latency::default();
    for number in 1..10 {
        turn(&mut latency, number);
    }
    latency
}

#[library_benchmark]
#[bench::of_100_publishes(warm())]
fn latency_turn(mut latency: Latency) -> Latency {
    turn(&mut latency, 10);
    // Handed back, so that freeing it is not counted.
    latency
}

library_benchmark_group!(name = histograms, benchmarks = [latency_turn]);
main!(library_benchmark_groups = histograms);
