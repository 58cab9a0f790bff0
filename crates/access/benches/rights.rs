//! Time of a check: `cargo bench -p courser-access --bench rights`. A topic that was asked for before must take at most 30 ns.
//!
//! Batches are short and the fastest of many counts, so that other programs on the machine disturb it little.
#![allow(missing_docs, clippy::print_stdout)] // a program

mod device;

use std::hint::black_box;
use std::time::Instant;

use courser_access::Rights;
use device::{many_rules, rights, rights_of};

const CHECKS: u32 = 1_000;
const BATCHES: u32 = 5_000;
/// A batch may be the last one after so many seconds.
const SECONDS: u64 = 5;
/// What a check of a topic that was asked for before may take.
const NS_MAX: f64 = 30.0;

/// Nanoseconds of one check, with the topics in turn.
fn time(rights: &mut Rights, topics: &[String]) -> f64 {
    let (mut best, all) = (f64::MAX, Instant::now());
    for _ in 0..BATCHES {
        if all.elapsed().as_secs() >= SECONDS {
            break;
        }
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
    println!("a topic in a thousand, four rules: {ns:.1} ns");
    for (roles, each) in [(1, 1), (1, 100), (1, 1_000), (16, 1_000)] {
        let mut rights = rights_of(&many_rules(roles, each));
        let ns = time(&mut rights, &topics(1_000));
        println!("a topic in a thousand, {roles} roles of {each} rules: {ns:.1} ns");
    }
}
