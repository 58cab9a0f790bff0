//! The bound on a match: `sum over l of min(2^l, N_l)` nodes, and never more than the stored levels whose
//! path agrees with the topic.

use router::{Matcher, Visited};

/// Filters of `levels` levels, one for each number below `count`: `+` where the bit is set, else `a`.
fn combinations(levels: u32, count: u64, last: &str) -> impl Iterator<Item = String> {
    let last = last.to_owned();
    (0..count).map(move |bits| {
        let mut filter = String::new();
        for level in 0..levels {
            filter.push_str(if bits >> level & 1 == 1 { "+/" } else { "a/" });
        }
        filter + &last
    })
}

fn topic(levels: u32, last: &str) -> String {
    "a/".repeat(levels as usize) + last
}

/// All 2^12 combinations match: as many nodes as the tree has, which is the sum of 2^l, and no more.
#[test]
fn full_explosion_visits_each_node_once() {
    let levels = 12;
    let mut matcher = Matcher::new();
    for (at, filter) in combinations(levels, 1 << levels, "x").enumerate() {
        matcher.insert(&filter, at as u32);
    }
    let mut hits = vec![0u8; 1 << levels];
    let Visited(visited) = matcher.for_each_match(&topic(levels, "x"), |&s| hits[s as usize] += 1);
    assert!(
        hits.iter().all(|&h| h == 1),
        "each filter is found exactly once"
    );
    assert!(
        visited <= matcher.nodes() as u64 + 1,
        "{visited} visits, {} nodes",
        matcher.nodes()
    );
    assert!(visited <= (0..=levels + 1).map(|l| 1u64 << l).sum());
}

/// 20 levels, filters that agree with the topic up to the last level and then do not match: what an attacker
/// would send. The cost is that of the stored filters, far from the 2^20 combinations, and doubling the filters
/// does no more than double it.
#[test]
fn hostile_filters_cost_no_more_than_they_store() {
    let levels = 20;
    let cost = |count: u64| {
        let mut matcher = Matcher::new();
        for (at, filter) in combinations(levels, count, "x").enumerate() {
            matcher.insert(&filter, at as u32);
        }
        let stored = matcher.nodes() as u64 + 1;
        let Visited(visited) =
            matcher.for_each_match(&topic(levels, "y"), |_| panic!("nothing matches"));
        assert!(visited <= stored, "{visited} visits, {stored} nodes");
        assert!(
            visited <= count * u64::from(levels + 1) + 1,
            "at most the levels that are stored"
        );
        let by_depth: u64 = (0..=levels).map(|l| (1u64 << l).min(count)).sum();
        assert!(visited <= by_depth, "{visited} visits, bound {by_depth}");
        visited
    };
    let (half, whole) = (cost(1_000), cost(2_000));
    assert!(whole <= 2 * half + u64::from(levels), "{half} then {whole}");
}

/// A hundred thousand filters elsewhere do not matter: only nodes that agree with the topic are entered.
#[test]
fn filters_elsewhere_cost_nothing() {
    let mut matcher = Matcher::new();
    matcher.insert("a/+/c/#", 0u32);
    let Visited(alone) = matcher.for_each_match("a/b/c/d", |_| {});
    for at in 0..100_000u32 {
        matcher.insert(&format!("z{}/+/{}/#", at % 100, at), at);
        matcher.insert(&format!("a/+/z{at}"), at);
    }
    let Visited(crowded) = matcher.for_each_match("a/b/c/d", |_| {});
    assert!(
        crowded <= alone + 3,
        "{alone} visits alone, {crowded} among others"
    ); // its tail has become nodes
}

/// The deepest topic that a packet can carry, over filters that follow it all the way: no recursion.
#[test]
fn the_deepest_topic_does_not_overflow_the_stack() {
    let deep = "/".repeat(65_535);
    let mut matcher = Matcher::new();
    matcher.insert(&deep, 0u32);
    matcher.insert(&("+/".repeat(30_000) + "#"), 1);
    matcher.insert(&("/".repeat(60_000) + "x"), 2); // splits the first one 60,000 times
    matcher.check();
    let mut found = Vec::new();
    matcher.for_each_match(&deep, |&s| found.push(s));
    found.sort_unstable();
    assert_eq!(found, [0, 1]);
    for (filter, s) in [
        (deep.clone(), 0),
        ("+/".repeat(30_000) + "#", 1),
        ("/".repeat(60_000) + "x", 2),
    ] {
        assert_eq!(matcher.remove(&filter, &s), Some(s));
    }
    assert_eq!(matcher.nodes(), 0);
}
