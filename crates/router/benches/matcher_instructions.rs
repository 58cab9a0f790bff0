//! Instruction counts of matching: `cargo xtask instructions`.
//!
//! A case matches [`TOPICS`] topics: hashes are seeded anew in each process, and what one topic costs more for two
//! hashes that look alike is lost among so many.
#![allow(missing_docs)] // the macros make undocumented items

use std::hint::black_box;

use gungraun::prelude::*;
use router::{CacheLimits, Matcher, Reader, SharedMatcher, TopicCache, Writer};

const TOPICS: u32 = 1_000;
const FILTERS: u32 = 10_000;

fn topic(i: u32) -> String {
    format!("org/r{}/s{}/l{}/d{}", i % 10, i / 10 % 20, i / 200 % 10, i)
}

/// Topics from all over the table.
fn topics() -> Vec<String> {
    (0..TOPICS).map(|i| topic(i * 7_919 % FILTERS)).collect()
}

/// A filter for each topic.
fn exact() -> Vec<String> {
    (0..FILTERS).map(topic).collect()
}

/// In addition what dashboards and recorders have: five more matches for each topic.
fn wildcards() -> Vec<String> {
    let regions = (0..10).flat_map(|r| {
        [
            format!("org/r{r}/#"),
            format!("org/r{r}/+/+/+"),
            format!("+/r{r}/+/#"),
        ]
    });
    let everything = ["#".to_owned(), "org/+/+/+/+".to_owned()];
    exact().into_iter().chain(regions).chain(everything).collect()
}

/// Calls `matching` for each topic; how many subscribers it found.
fn count(topics: &[String], mut matching: impl FnMut(&str) -> u64) -> u64 {
    black_box(topics).iter().map(|topic| matching(topic)).sum()
}

fn count_of(matcher: &Matcher<u32>, topics: &[String]) -> u64 {
    count(topics, |topic| {
        let mut found = 0;
        matcher.for_each_match(topic, |&subscriber| {
            black_box(subscriber);
            found += 1;
        });
        found
    })
}

/// A table that has been looked at before: the first call binds symbols.
fn owned(filters: &[String], each: u64) -> (Matcher<u32>, Vec<String>) {
    let mut matcher = Matcher::new();
    for (subscriber, filter) in (0..).zip(filters) {
        matcher.insert(filter, subscriber);
    }
    let topics = topics();
    assert_eq!(count_of(&matcher, &topics), each * u64::from(TOPICS));
    (matcher, topics)
}

#[library_benchmark]
#[bench::exact(owned(&exact(), 1))]
#[bench::wildcards(owned(&wildcards(), 6))]
fn topic_match((matcher, topics): (Matcher<u32>, Vec<String>)) -> (u64, Matcher<u32>, Vec<String>) {
    let found = count_of(&matcher, &topics);
    // Handed back, so that freeing is not counted.
    (found, matcher, topics)
}

type Shared = (Writer<u32>, Reader<u32>, Vec<String>);

fn count_shared(reader: &Reader<u32>, topics: &[String]) -> u64 {
    count(topics, |topic| {
        let mut found = 0;
        reader.for_each_match(topic, |&subscriber| {
            black_box(subscriber);
            found += 1;
        });
        found
    })
}

fn shared(filters: &[String], each: u64) -> Shared {
    let (mut writer, reader) = SharedMatcher::new();
    for (subscriber, filter) in (0..).zip(filters) {
        writer.insert(filter, subscriber);
    }
    writer.publish(|| {});
    let topics = topics();
    assert_eq!(count_shared(&reader, &topics), each * u64::from(TOPICS));
    (writer, reader, topics)
}

#[library_benchmark]
#[bench::exact(shared(&exact(), 1))]
#[bench::wildcards(shared(&wildcards(), 6))]
fn shared_topic_match((writer, reader, topics): Shared) -> (u64, Shared) {
    let found = count_shared(&reader, &topics);
    (found, (writer, reader, topics))
}

type Cached = (Matcher<u32>, TopicCache<Vec<u32>>, Vec<String>);

fn count_cached(
    matcher: &Matcher<u32>,
    cache: &mut TopicCache<Vec<u32>>,
    topics: &[String],
) -> u64 {
    count(topics, |topic| {
        let found = cache.get_or_insert_with(topic, matcher, || {
            let mut list = Vec::new();
            matcher.for_each_match(topic, |&subscriber| list.push(subscriber));
            list
        });
        black_box(found).len() as u64
    })
}

/// All topics are in the cache.
fn cached() -> Cached {
    let (matcher, topics) = owned(&wildcards(), 6);
    let mut cache = TopicCache::new(CacheLimits::default());
    for _ in 0..2 {
        count_cached(&matcher, &mut cache, &topics);
    }
    (matcher, cache, topics)
}

#[library_benchmark]
#[bench::wildcards(cached())]
fn cached_topic_match((matcher, mut cache, topics): Cached) -> (u64, Cached) {
    let found = count_cached(&matcher, &mut cache, &topics);
    (found, (matcher, cache, topics))
}

library_benchmark_group!(
    name = matcher,
    benchmarks = [topic_match, shared_topic_match, cached_topic_match]
);
main!(library_benchmark_groups = matcher);
