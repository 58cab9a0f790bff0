//! Instruction counts of the matcher: `cargo bench -p courser-trie --bench instructions` (needs valgrind and
//! gungraun-runner).
#![allow(missing_docs)] // the macros make undocumented items

use gungraun::prelude::*;
use router::{CacheLimits, Matcher, TopicCache};
use std::hint::black_box;

const TOPIC: &str = "org/r3/s7/l11/d2";

/// 100,000 filters, of which one matches the topic to the letter, and one with a wildcard.
fn matcher() -> Matcher<u32> {
    let mut matcher = Matcher::new();
    for i in 0..100_000u32 {
        let filter = format!(
            "org/r{}/s{}/l{}/d{}",
            i % 10,
            i / 10 % 20,
            i / 200 % 50,
            i / 10_000
        );
        matcher.insert(&filter, i);
    }
    matcher.insert("org/+/s7/l11/#", 100_000);
    matcher.for_each_match(TOPIC, |s| {
        black_box(s);
    });
    matcher
}

#[library_benchmark]
#[bench::five_levels(matcher())]
fn find(matcher: Matcher<u32>) -> (u32, Matcher<u32>) {
    let mut sum = 0;
    matcher.for_each_match(black_box(TOPIC), |&s| sum += s);
    // Handed back, so that freeing it is not counted.
    (sum, matcher)
}

#[library_benchmark]
#[bench::five_levels(matcher())]
fn insert_and_remove(mut matcher: Matcher<u32>) -> Matcher<u32> {
    matcher.insert(black_box("org/r3/s7/l11/new"), 7);
    matcher.remove(black_box("org/r3/s7/l11/new"), &7);
    matcher
}

fn cached() -> (Matcher<u32>, TopicCache<Vec<u32>>) {
    let matcher = matcher();
    let mut cache = TopicCache::new(CacheLimits::default());
    cache.get_or_insert_with(TOPIC, &matcher, || vec![1, 2]);
    (matcher, cache)
}

#[library_benchmark]
#[bench::hit(cached())]
fn cache(mut both: (Matcher<u32>, TopicCache<Vec<u32>>)) -> (Matcher<u32>, TopicCache<Vec<u32>>) {
    let (matcher, cache) = &mut both;
    black_box(cache.get_or_insert_with(black_box(TOPIC), matcher, Vec::new));
    both
}

library_benchmark_group!(
    name = matching,
    benchmarks = [find, insert_and_remove, cache]
);
main!(library_benchmark_groups = matching);
