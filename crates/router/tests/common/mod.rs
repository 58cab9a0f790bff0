//! The naive matcher that the real one is compared with, and generators of filters and topics.
#![allow(dead_code)] // each test binary uses its own part

use proptest::prelude::*;

/// The rules of MQTT written down as directly as possible: recursion over lists of levels.
pub(crate) fn naive_matches(filter: &str, topic: &str) -> bool {
    fn levels(filter: &[&str], topic: &[&str]) -> bool {
        match (filter, topic) {
            (["#"], _) => true,
            ([], []) => true,
            (["+", filter @ ..], [_, topic @ ..]) => levels(filter, topic),
            ([a, filter @ ..], [b, topic @ ..]) => a == b && levels(filter, topic),
            _ => false,
        }
    }
    let filter: Vec<&str> = filter.split('/').collect();
    let name: Vec<&str> = topic.split('/').collect();
    if name[0].starts_with('$') && (filter[0] == "+" || filter == ["#"]) {
        return false;
    }
    levels(&filter, &name)
}

/// A filter and its subscriber, as often as there are.
#[derive(Default, Clone)]
pub(crate) struct Naive<S>(pub(crate) Vec<(String, S)>);

impl<S: Copy + Eq + Ord> Naive<S> {
    pub(crate) fn insert(&mut self, filter: &str, s: S) -> Option<S> {
        let old = self.remove(filter, &s);
        self.0.push((filter.to_owned(), s));
        old
    }

    pub(crate) fn remove(&mut self, filter: &str, s: &S) -> Option<S> {
        let at = self
            .0
            .iter()
            .position(|(f, other)| f == filter && other == s)?;
        Some(self.0.swap_remove(at).1)
    }

    pub(crate) fn matches(&self, topic: &str) -> Vec<S> {
        let mut found: Vec<S> = self
            .0
            .iter()
            .filter(|(filter, _)| naive_matches(filter, topic))
            .map(|&(_, s)| s)
            .collect();
        found.sort_unstable();
        found
    }
}

/// Levels from so small a set that filters and topics meet often: empty, `$`, several scripts, long ones.
pub(crate) fn level() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => prop::sample::select(vec!["a", "b", "c"]),
        1 => prop::sample::select(vec!["", "$SYS", "$", "é", "e\u{301}", "日本", "🚗", "A", " ", "a level of more than 24 bytes"]),
    ]
    .prop_map(str::to_owned)
}

pub(crate) fn topic(levels: usize) -> impl Strategy<Value = String> {
    prop::collection::vec(level(), 1..=levels).prop_map(|levels| levels.join("/"))
}

pub(crate) fn filter(levels: usize) -> impl Strategy<Value = String> {
    let level = prop_oneof![3 => level(), 2 => Just("+".to_owned())];
    (
        prop::collection::vec(level, 0..levels),
        prop::bool::weighted(0.3),
    )
        .prop_map(|(mut levels, rest)| {
            if rest || levels.is_empty() {
                levels.push("#".to_owned());
            }
            levels.join("/")
        })
}
