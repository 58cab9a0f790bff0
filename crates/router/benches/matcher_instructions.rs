//! Instruction counts of matching: `cargo xtask instructions`.
//!
//! A case matches [`TOPICS`] topics in each of [`TABLES`] tables. Every table seeds its hashes anew: in one of them
//! two levels that all topics visit may have hashes that look alike, which costs up to 3 %, but not in all.
#![allow(missing_docs)] // the macros make undocumented items

use std::hint::black_box;

use gungraun::prelude::*;
use router::{CacheLimits, Matcher, Reader, SharedMatcher, TopicCache, Writer};

const TABLES: usize = 32;
const TOPICS: u32 = 50;
const FILTERS: u32 = 1_000;
/// Rounds after which all topics must be in a cache.
const ROUNDS_MAX: u32 = 200;

fn topic(i: u32) -> String {
    format!("org/r{}/s{}/l{}/d{}", i % 10, i / 10 % 20, i / 200 % 10, i)
}

/// Topics from all over a table.
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
    exact()
        .into_iter()
        .chain(regions)
        .chain(everything)
        .collect()
}

/// Tables of one kind, and the topics that are looked up in each.
struct Tables<T> {
    tables: Vec<T>,
    topics: Vec<String>,
}

impl<T> Tables<T> {
    fn new(make: impl FnMut() -> T) -> Self {
        Self {
            tables: std::iter::repeat_with(make).take(TABLES).collect(),
            topics: topics(),
        }
    }

    /// Calls `matching` for each table and topic; how many subscribers it found.
    fn count(&mut self, mut matching: impl FnMut(&mut T, &str) -> u64) -> u64 {
        let mut found = 0;
        for table in &mut self.tables {
            for topic in black_box(&self.topics) {
                found += matching(table, topic);
            }
        }
        found
    }

    /// The same with all looked at before: the first call binds symbols and fills caches.
    fn warm(mut self, matching: impl FnMut(&mut T, &str) -> u64, each: u64) -> Self {
        let lookups = TABLES as u64 * u64::from(TOPICS);
        assert_eq!(self.count(matching), each * lookups, "matches");
        self
    }
}

fn fill(filters: &[String]) -> Matcher<u32> {
    let mut matcher = Matcher::new();
    for (subscriber, filter) in (0..).zip(filters) {
        matcher.insert(filter, subscriber);
    }
    matcher
}

fn in_own(matcher: &mut Matcher<u32>, topic: &str) -> u64 {
    let mut found = 0;
    matcher.for_each_match(topic, |&subscriber| {
        black_box(subscriber);
        found += 1;
    });
    found
}

fn own(filters: &[String], each: u64) -> Tables<Matcher<u32>> {
    Tables::new(|| fill(filters)).warm(in_own, each)
}

#[library_benchmark]
#[bench::exact(own(&exact(), 1))]
#[bench::wildcards(own(&wildcards(), 6))]
fn topic_match(mut tables: Tables<Matcher<u32>>) -> (u64, Tables<Matcher<u32>>) {
    let found = tables.count(in_own);
    // Handed back, so that freeing is not counted.
    (found, tables)
}

type Shared = (Writer<u32>, Reader<u32>);

fn fill_shared(filters: &[String]) -> Shared {
    let (mut writer, reader) = SharedMatcher::new();
    for (subscriber, filter) in (0..).zip(filters) {
        writer.insert(filter, subscriber);
    }
    writer.publish(|| {});
    (writer, reader)
}

fn in_shared((_, reader): &mut Shared, topic: &str) -> u64 {
    let mut found = 0;
    reader.for_each_match(topic, |&subscriber| {
        black_box(subscriber);
        found += 1;
    });
    found
}

fn shared(filters: &[String], each: u64) -> Tables<Shared> {
    Tables::new(|| fill_shared(filters)).warm(in_shared, each)
}

#[library_benchmark]
#[bench::exact(shared(&exact(), 1))]
#[bench::wildcards(shared(&wildcards(), 6))]
fn shared_topic_match(mut tables: Tables<Shared>) -> (u64, Tables<Shared>) {
    let found = tables.count(in_shared);
    (found, tables)
}

type Cached = (Matcher<u32>, TopicCache<Vec<u32>>);

fn in_cache((matcher, cache): &mut Cached, topic: &str) -> u64 {
    let found = cache.get_or_insert_with(topic, matcher, || {
        let mut list = Vec::new();
        matcher.for_each_match(topic, |&subscriber| list.push(subscriber));
        list
    });
    black_box(found).len() as u64
}

/// All topics are in the cache. They get in when they miss twice within a while; two that take each other's place among those
/// that missed once stay out for some rounds more, how many depends on the seeds of the hashes. A single one that is not in
/// costs more than twenty that are, so that nothing is counted before a round without a miss.
fn cached() -> Tables<Cached> {
    let filters = wildcards();
    let mut tables = Tables::new(|| (fill(&filters), TopicCache::new(CacheLimits::default())));
    let mut misses = None;
    for _ in 0..ROUNDS_MAX {
        tables = tables.warm(in_cache, 6);
        let now: u64 = tables
            .tables
            .iter()
            .map(|(_, cache)| cache.stats().misses)
            .sum();
        if misses == Some(now) {
            return tables;
        }
        misses = Some(now);
    }
    panic!("{misses:?} misses after {ROUNDS_MAX} rounds");
}

#[library_benchmark]
#[bench::wildcards(cached())]
fn cached_topic_match(mut tables: Tables<Cached>) -> (u64, Tables<Cached>) {
    let found = tables.count(in_cache);
    (found, tables)
}

library_benchmark_group!(
    name = matcher,
    benchmarks = [topic_match, shared_topic_match, cached_topic_match]
);
main!(library_benchmark_groups = matcher);
