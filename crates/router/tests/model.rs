//! The matchers against a naive one: random filters, topics and sequences of operations.

mod common;

use common::{Naive, filter, naive_matches, topic};
use proptest::prelude::*;
use router::{Epoch, Epochs, Inserted, Matcher, SharedMatcher, filter_matches};

#[derive(Debug, Clone)]
enum Op {
    Insert(String, u8),
    Remove(String, u8),
    /// Removes what is there, so that pruning is met often.
    RemoveAt(prop::sample::Index),
    Match(String),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => (filter(6), 0..4u8).prop_map(|(f, s)| Op::Insert(f, s)),
        1 => (filter(6), 0..4u8).prop_map(|(f, s)| Op::Remove(f, s)),
        3 => any::<prop::sample::Index>().prop_map(Op::RemoveAt),
        4 => topic(7).prop_map(Op::Match),
    ]
}

fn matches(matcher: &Matcher<u8>, topic: &str) -> Vec<u8> {
    let mut found = Vec::new();
    matcher.for_each_match(topic, |&s| found.push(s));
    found.sort_unstable();
    found
}

fn stored(naive: &Naive<u8>) -> Vec<(String, u8)> {
    let mut all = naive.0.clone();
    all.sort();
    all
}

fn run(ops: &[Op]) {
    let mut matcher = Matcher::new();
    let mut naive = Naive::default();
    for op in ops {
        match op {
            Op::Insert(filter, s) => {
                let expected = naive
                    .insert(filter, *s)
                    .map_or(Inserted::New, Inserted::Replaced);
                assert_eq!(matcher.insert(filter, *s), expected);
            }
            Op::Remove(filter, s) => assert_eq!(matcher.remove(filter, s), naive.remove(filter, s)),
            Op::RemoveAt(_) if naive.0.is_empty() => {}
            Op::RemoveAt(at) => {
                let (filter, s) = naive.0[at.index(naive.0.len())].clone();
                assert_eq!(matcher.remove(&filter, &s), naive.remove(&filter, &s));
            }
            Op::Match(topic) => assert_eq!(
                matches(&matcher, topic),
                naive.matches(topic),
                "topic {topic:?}"
            ),
        }
        matcher.check();
        assert_eq!(matcher.len(), naive.0.len());
    }
    let mut all = Vec::new();
    matcher
        .for_each_filter(|filter, list| all.extend(list.iter().map(|&s| (filter.to_owned(), s))));
    all.sort();
    assert_eq!(all, stored(&naive));
    for (filter, s) in &all {
        assert!(matcher.subscribers(filter).contains(s));
        matcher.remove(filter, s);
    }
    matcher.check();
    assert_eq!(
        (matcher.len(), matcher.filters(), matcher.nodes()),
        (0, 0, 0)
    );
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 800, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn one_filter_matches_as_the_rules_say(filter in filter(6), topic in topic(7)) {
        prop_assert_eq!(filter_matches(&filter, &topic), naive_matches(&filter, &topic));
        let mut matcher = Matcher::new();
        matcher.insert(&filter, 0u8);
        prop_assert_eq!(!matches(&matcher, &topic).is_empty(), naive_matches(&filter, &topic));
    }

    #[test]
    fn any_sequence_of_operations_agrees_with_the_naive_matcher(ops in prop::collection::vec(op(), 0..60)) {
        run(&ops);
    }

    /// Epochs: whenever the answer for a topic changes, so does its epoch.
    #[test]
    fn an_equal_epoch_means_an_equal_answer(
        ops in prop::collection::vec(op(), 0..40),
        topics in prop::collection::vec(topic(5), 1..6),
    ) {
        let mut matcher = Matcher::new();
        let (mut writer, reader) = SharedMatcher::new();
        let look = |matcher: &Matcher<u8>| -> Vec<(Epoch, Vec<u8>)> {
            topics.iter().map(|t| (matcher.epoch(t), matches(matcher, t))).collect()
        };
        let look_shared = || -> Vec<(Epoch, Vec<u8>)> {
            topics.iter().map(|t| {
                let epoch = reader.epoch(t);
                let mut found = Vec::new();
                reader.for_each_match(t, |&s| found.push(s));
                found.sort_unstable();
                (epoch, found)
            }).collect()
        };
        let (mut before, mut before_shared) = (look(&matcher), look_shared());
        for op in &ops {
            match op {
                Op::Insert(f, s) => { matcher.insert(f, *s); writer.insert(f, *s); }
                Op::Remove(f, s) => { matcher.remove(f, s); writer.remove(f, s); }
                Op::RemoveAt(_) | Op::Match(_) => continue,
            }
            writer.publish(|| unreachable!("nobody looks"));
            let (now, now_shared) = (look(&matcher), look_shared());
            for (a, b) in before.iter().zip(&now).chain(before_shared.iter().zip(&now_shared)) {
                prop_assert!(a.0 != b.0 || a.1 == b.1, "the answer changed under epoch {:?}", a.0);
            }
            for (own, shared) in now.iter().zip(&now_shared) {
                prop_assert_eq!(&own.1, &shared.1, "both matchers give the same answer");
            }
            (before, before_shared) = (now, now_shared);
        }
    }

    /// A writer that searches and inserts in one agrees with one that does either, whatever comes in between, and so do
    /// its two copies, which take turns.
    #[test]
    fn a_located_insertion_is_an_insertion(ops in prop::collection::vec((op(), 0..3u8), 0..60)) {
        let (mut writer, reader) = SharedMatcher::new();
        let mut naive = Naive::default();
        let nobody = || unreachable!("nobody looks");
        for (op, way) in &ops {
            match (op, way) {
                (Op::Insert(filter, s), 0) => {
                    writer.insert(filter, *s);
                    naive.insert(filter, *s);
                }
                (Op::Insert(filter, s), _) => {
                    let spot = writer.locate(filter.as_str().into(), nobody);
                    let mut found = writer.subscribers_at(&spot).to_vec();
                    found.sort_unstable();
                    let mut expected: Vec<u8> = naive.0.iter().filter(|(f, _)| f == filter).map(|&(_, s)| s).collect();
                    expected.sort_unstable();
                    prop_assert_eq!(found, expected);
                    if *way == 1 {
                        writer.insert_at(spot, *s);
                        naive.insert(filter, *s);
                    }
                }
                (Op::Remove(filter, s), _) => {
                    writer.remove(filter, s);
                    naive.remove(filter, s);
                }
                (Op::RemoveAt(at), _) => {
                    if !naive.0.is_empty() {
                        let (filter, s) = naive.0[at.index(naive.0.len())].clone();
                        writer.remove(&filter, &s);
                        naive.remove(&filter, &s);
                    }
                }
                (Op::Match(topic), _) => {
                    writer.publish(nobody);
                    let mut found = Vec::new();
                    reader.for_each_match(topic, |&s| found.push(s));
                    found.sort_unstable();
                    prop_assert_eq!(found, naive.matches(topic), "topic {:?}", topic);
                }
            }
        }
        writer.publish(nobody);
        for _ in 0..2 {
            let mut all = Vec::new();
            writer.for_each_filter(|filter, list| all.extend(list.iter().map(|&s| (filter.to_owned(), s))));
            all.sort();
            prop_assert_eq!(&all, &stored(&naive), "the copy in use");
            writer.try_settle().expect("nobody looks"); // to the other one
        }
    }

    /// Deep ones: filters and topics of up to 128 levels.
    #[test]
    fn deep_filters_agree_with_the_naive_matcher(
        filters in prop::collection::vec(filter(128), 1..20),
        topics in prop::collection::vec(topic(128), 1..5),
    ) {
        let mut matcher = Matcher::new();
        let mut naive = Naive::default();
        for (at, filter) in filters.iter().enumerate() {
            matcher.insert(filter, at as u8);
            naive.insert(filter, at as u8);
        }
        matcher.check();
        // Random deep filters seldom match anything: ask for the filters' own shapes as well.
        let own = filters.iter().map(|f| f.replace('+', "x").replace('#', "y/z"));
        for topic in topics.iter().cloned().chain(own) {
            prop_assert_eq!(matches(&matcher, &topic), naive.matches(&topic));
        }
    }
}
