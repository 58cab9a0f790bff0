//! Cost of the retained store. The normal test run does it small; in full:
//! `cargo test --release -p courser-engine retained::bench -- --ignored --nocapture`.

use std::{hint::black_box, time::Instant};

use super::{Retained, Scan};

/// Nanoseconds a call, the best of some rounds.
fn best_of<T>(rounds: usize, calls: usize, mut run: impl FnMut() -> T) -> f64 {
    (0..rounds)
        .map(|_| {
            let start = Instant::now();
            let made = run();
            let nanos = start.elapsed().as_nanos() as f64;
            drop(made);
            nanos / calls as f64
        })
        .fold(f64::INFINITY, f64::min)
}

fn topics(count: usize) -> Vec<String> {
    (0..count)
        .map(|n| {
            format!(
                "site/{}/room/{}/temperature",
                n * 7919 % (count / 10 + 1),
                n % 10
            )
        })
        .collect()
}

/// All matches of `filter` in steps of a turn; returns their number, the visits and the most visits of one call.
fn whole(retained: &Retained<u32>, filter: &str) -> (usize, usize, usize) {
    let mut found = Vec::with_capacity(64);
    let (mut matches, mut visits, mut longest) = (0, 0, 0);
    let mut after: Option<Box<str>> = None;
    loop {
        found.clear();
        let end = retained.scan(
            &Scan {
                filter,
                after: after.as_deref(),
                limit: 64,
                visits: 1_024,
            },
            &mut found,
        );
        matches += found.len();
        visits += end.visits;
        longest = longest.max(end.visits);
        after = end.next;
        if after.is_none() {
            return (matches, visits, longest);
        }
    }
}

fn run(stored: usize, scanned: usize, rounds: usize, mut report: impl FnMut(String)) {
    let names = topics(stored);
    let insert = best_of(rounds, stored, || {
        let mut retained = Retained::default();
        for (n, topic) in names.iter().enumerate() {
            retained.set(topic, n as u32, 100);
        }
        retained
    });
    let mut retained = Retained::default();
    for (n, topic) in names.iter().enumerate() {
        retained.set(topic, n as u32, 100);
    }
    let replace = best_of(rounds, stored, || {
        for topic in &names {
            black_box(retained.set(topic, 1, 100));
        }
    });
    report(format!(
        "{stored} topics: insert {insert:.0} ns, replace {replace:.0} ns"
    ));

    let mut retained = Retained::default();
    for (n, topic) in topics(scanned).iter().enumerate() {
        retained.set(topic, n as u32, 100);
    }
    for filter in [
        "#",
        "site/+/room/3/temperature",
        "site/+/room/+/temperature",
        "site/42/#",
        "site/42/room/3/temperature",
        "+/+/+/+/nothing",
        "site/+/cellar/#",
        "nothing/#",
    ] {
        let (matches, visits, longest) = whole(&retained, filter);
        assert!(
            longest <= 1_024 + super::SEEK_VISITS,
            "work of a call is bounded"
        );
        let nanos = best_of(rounds, visits, || {
            black_box(whole(&retained, filter));
        });
        report(format!(
            "{scanned} topics, {filter}: {matches} found, {visits} visits, {nanos:.1} ns a visit, {:.1} ms in all",
            nanos * visits as f64 / 1e6
        ));
    }
}

#[test]
fn bench_small() {
    run(100, 1_000, 1, |_| {});
}

#[test]
#[ignore = "takes seconds; by hand"]
fn bench_full() {
    run(10_000, 1_000_000, 5, |line| eprintln!("{line}"));
}
