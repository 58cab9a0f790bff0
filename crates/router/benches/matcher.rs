//! Cost of the matcher's operations: `cargo bench -p courser-trie --bench matcher`.
//!
//! With `--test` (as the test run calls it) a small input, once, so that it cannot rot. Each figure is the least
//! of seven rounds: what disturbs a round only adds to it.
#![allow(clippy::print_stdout)] // it is what a benchmark is for

use router::{CacheLimits, Matcher, SharedMatcher, TopicCache};
use std::hint::black_box;
use std::time::Instant;

struct Size {
    filters: u32,
    rounds: u32,
}

fn filter(i: u32) -> String {
    format!(
        "org/r{}/s{}/l{}/d{}",
        i % 10,
        i / 10 % 20,
        i / 200 % 50,
        i / 10_000
    )
}

/// Numbers in an order that no cache or predictor can follow.
fn mixed(i: u32, below: u32) -> u32 {
    ((u64::from(i.wrapping_mul(0x9E37_79B1)) * u64::from(below)) >> 32) as u32
}

fn measure(name: &str, size: &Size, per_round: u32, mut round: impl FnMut()) {
    let best = (0..size.rounds).map(|_| {
        let start = Instant::now();
        round();
        start.elapsed().as_nanos() as f64 / f64::from(per_round)
    });
    println!("{name:<52} {:>9.1} ns", best.fold(f64::MAX, f64::min));
}

fn main() {
    let test = std::env::args().any(|arg| arg == "--test");
    let size = if test {
        Size {
            filters: 1_000,
            rounds: 1,
        }
    } else {
        Size {
            filters: 1_000_000,
            rounds: 7,
        }
    };
    let topics: Vec<String> = (0..size.filters.min(100_000))
        .map(|i| filter(mixed(i, size.filters)))
        .collect();
    let filters: Vec<String> = (0..size.filters).map(filter).collect();

    let mut matcher = Matcher::new();
    measure(
        "insert, and remove, of many",
        &size,
        2 * size.filters,
        || {
            matcher = Matcher::new();
            filters.iter().enumerate().for_each(|(i, f)| {
                matcher.insert(f, i as u32);
            });
            filters.iter().enumerate().for_each(|(i, f)| {
                matcher.remove(f, &(i as u32));
            });
        },
    );
    filters.iter().enumerate().for_each(|(i, f)| {
        matcher.insert(f, i as u32);
    });
    measure(
        "match, random topic, one hit",
        &size,
        topics.len() as u32,
        || {
            for topic in &topics {
                matcher.for_each_match(black_box(topic), |s| {
                    black_box(s);
                });
            }
        },
    );
    measure("match, one topic, one hit", &size, 100_000, || {
        for _ in 0..100_000 {
            matcher.for_each_match(black_box(&topics[0]), |s| {
                black_box(s);
            });
        }
    });

    let mut cache = TopicCache::new(CacheLimits::default());
    let find = |topic: &str| {
        let mut found = Vec::new();
        matcher.for_each_match(topic, |&s| found.push(s));
        found
    };
    measure("cache, one topic, hit", &size, 100_000, || {
        for _ in 0..100_000 {
            black_box(
                cache.get_or_insert_with(black_box(&topics[0]), &matcher, || find(&topics[0])),
            );
        }
    });
    measure("cache, 1,000 topics, hit", &size, 100_000, || {
        for i in 0..100_000 {
            let topic = &topics[i % 1_000.min(topics.len())];
            black_box(cache.get_or_insert_with(black_box(topic), &matcher, || find(topic)));
        }
    });
    measure(
        "cache, 100,000 topics (65,536 fit)",
        &size,
        topics.len() as u32,
        || {
            for topic in &topics {
                black_box(cache.get_or_insert_with(black_box(topic), &matcher, || find(topic)));
            }
        },
    );
    drop(cache);
    drop(matcher);
    shared(&size, &filters, &topics);
}

fn shared(size: &Size, filters: &[String], topics: &[String]) {
    let (mut writer, reader) = SharedMatcher::new();
    filters
        .iter()
        .enumerate()
        .for_each(|(i, f)| writer.insert(f, i as u32));
    writer.publish(|| {});
    writer.try_settle().expect("nobody looks");
    measure("shared: one change and its publish", size, 20_000, || {
        for i in 0..10_000u32 {
            let filter = &filters[mixed(i, size.filters) as usize];
            writer.insert(filter, u32::MAX);
            writer.publish(|| {});
            writer.remove(filter, &u32::MAX);
            writer.publish(|| {});
        }
    });
    measure(
        "shared: match, random topic, one hit",
        size,
        topics.len() as u32,
        || {
            for topic in topics {
                reader.for_each_match(black_box(topic), |s| {
                    black_box(*s);
                });
            }
        },
    );
}
