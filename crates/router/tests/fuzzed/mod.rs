//! Sequences of operations on `Matcher`, `SharedMatcher` and `TopicCache`, against a list that is searched by
//! matching one filter at a time. Texts are made of few levels, so that they meet. Run by the fuzz target `matcher_ops`, and
//! for what it has kept by `corpus.rs`.

use router::{CacheLimits, Matcher, SharedMatcher, TopicCache, filter_matches};

/// Reads choices from the input.
struct Choices<'a>(&'a [u8]);

impl Choices<'_> {
    fn next(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    fn text(&mut self, levels: &[&str]) -> Option<String> {
        let count = self.next()? % 8 + 1;
        let chosen: Option<Vec<&str>> = (0..count)
            .map(|_| Some(levels[self.next()? as usize % levels.len()]))
            .collect();
        Some(chosen?.join("/"))
    }
}

const NAMES: [&str; 7] = [
    "a",
    "b",
    "",
    "$s",
    "é",
    "日本",
    "a level that is longer than 24 bytes",
];
const LEVELS: [&str; 9] = [
    "a",
    "b",
    "",
    "$s",
    "é",
    "+",
    "#",
    "a+",
    "a level that is longer than 24 bytes",
];

/// Runs the operations that the bytes stand for.
///
/// # Panics
/// When a matcher does other than the list says.
pub fn operations(data: &[u8]) {
    let mut choices = Choices(data);
    let mut matcher = Matcher::new();
    let (mut writer, reader) = SharedMatcher::new();
    let mut cache = TopicCache::new(CacheLimits {
        entries: 8,
        bytes: 2_048,
    });
    let mut naive: Vec<(String, u8)> = Vec::new();
    while let Some(op) = choices.next() {
        if op % 3 == 2 {
            let Some(topic) = choices.text(&NAMES) else {
                break;
            };
            let matching = naive
                .iter()
                .filter(|(filter, _)| filter_matches(filter, &topic));
            let mut expected: Vec<u8> = matching.map(|&(_, s)| s).collect();
            expected.sort_unstable();
            let sorted = |mut found: Vec<u8>| {
                found.sort_unstable();
                found
            };
            let mut shared = Vec::new();
            reader.for_each_match(&topic, |&s| shared.push(s));
            assert_eq!(sorted(shared), expected);
            let cached = cache.get_or_insert_with(&topic, &matcher, || {
                let mut found = Vec::new();
                let visited = matcher.for_each_match(&topic, |&s| found.push(s));
                assert!(
                    visited.0 <= matcher.nodes() as u64 + 1,
                    "each node at most once"
                );
                sorted(found)
            });
            assert_eq!(*cached, expected);
            continue;
        }
        let (Some(filter), Some(s)) = (choices.text(&LEVELS), choices.next()) else {
            break;
        };
        let s = s % 4;
        let known = naive
            .iter()
            .position(|(other, t)| *other == filter && *t == s);
        if op % 3 == 0 {
            matcher.insert(&filter, s);
            if op < 128 {
                writer.insert(&filter, s);
            } else {
                let spot = writer.locate(filter.as_str().into(), || unreachable!("nobody looks"));
                let there = naive.iter().filter(|(other, _)| *other == filter).count();
                assert_eq!(writer.subscribers_at(&spot).len(), there);
                writer.insert_at(spot, s);
            }
            if known.is_none() {
                naive.push((filter, s));
            }
        } else {
            assert_eq!(matcher.remove(&filter, &s).is_some(), known.is_some());
            writer.remove(&filter, &s);
            known.map(|at| naive.swap_remove(at));
        }
        writer.publish(|| unreachable!("nobody looks"));
    }
    matcher.check();
    assert_eq!((matcher.len(), writer.len()), (naive.len(), naive.len()));
    for (filter, s) in naive {
        assert_eq!(matcher.remove(&filter, &s), Some(s));
    }
    assert_eq!((matcher.filters(), matcher.nodes()), (0, 0));
}
