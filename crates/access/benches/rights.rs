//! Time of a check: `cargo bench -p courser-access --bench rights`. A topic that was asked for before must take at most 30 ns.
//!
//! Batches are short and the fastest of many counts, so that other programs on the machine disturb it little.
#![allow(missing_docs, clippy::print_stdout)] // a program

mod device;

use std::hint::black_box;
use std::time::Instant;

use courser_access::Rights;
use device::rights;

const CHECKS: u32 = 1_000;
const BATCHES: u32 = 5_000;
/// What a check of a topic that was asked for before may take.
const NS_MAX: f64 = 30.0;

/// Nanoseconds of one check, with the topics in turn.
fn time(rights: &mut Rights, topics: &[String]) -> f64 {
    let mut best = f64::MAX;
    for _ in 0..BATCHES {
        let begun = Instant::now();
        for topic in topics.iter().cycle().take(CHECKS as usize) {
            black_box(rights.may_publish(black_box(topic)));
        }
        let ns = begun.elapsed().as_nanos() as f64 / f64::from(CHECKS);
        best = best.min(ns);
    }
    best
}

fn main() {
    let topics = |count: u32| -> Vec<String> {
        let numbers = 0..count;
        numbers
            .map(|number| format!("org/r3/s7/device-12/temperature-{number}"))
            .collect()
    };
    for count in [1, 8, 60] {
        let ns = time(&mut rights(), &topics(count));
        println!("a topic that was asked for before, {count} in turn: {ns:.1} ns");
        assert!(ns <= NS_MAX, "{ns} ns are more than {NS_MAX}");
    }
    // More topics than are kept.
    let ns = time(&mut rights(), &topics(1_000));
    println!("four rules looked at, nearly every time: {ns:.1} ns");
}
