//! A million subscriptions of five tokens.

use crate::Options;
use crate::measure::{cpu_ns, median};
use crate::table::{Table, verdict};
use crate::workload::{Message, Random};
use courser_router::{Key, Router, Subscription};
use router::Matcher;
use std::hint::black_box;

const SUBSCRIBE_NS: f64 = 2_000.0;
const MATCH_NS: f64 = 1_000.0;
const ROUNDS: usize = 3;

struct Round {
    subscribe: f64,
    matching: f64,
    first: f64,
    next: f64,
    unsubscribe: f64,
}

/// A tree of 10 x 20 x 50 x 100.
fn text(i: u32) -> String {
    let (region, site, line, device) = (i % 10, i / 10 % 20, i / 200 % 50, i / 10_000);
    format!("org/r{region}/s{site}/l{line}/d{device}")
}

pub(crate) fn run(options: &Options) {
    let n: u32 = if options.test { 1_000 } else { 1_000_000 };
    // Every second one matches everything below.
    let filters: Vec<String> = (0..n)
        .map(|i| text(i) + if i % 2 == 0 { "" } else { "/#" })
        .collect();
    let mut random = Random::new();
    let topics: Vec<String> = (0..n.min(100_000))
        .map(|_| text(random.below(u64::from(n)) as u32))
        .collect();
    let rounds: Vec<Round> = (0..ROUNDS.min(options.rounds))
        .map(|_| round(&filters, &topics))
        .collect();
    let of = |figure: fn(&Round) -> f64| median(rounds.iter().map(figure).collect());
    let title = format!(
        "{n} subscriptions of 5 tokens, keys that hit one: CPU ns each, median of {}",
        rounds.len()
    );
    let mut table = Table::new(title, &["", "ns", "at most", ""]);
    let mut row = |name: &str, ns: f64, at_most: Option<f64>| {
        table.row(vec![
            name.to_owned(),
            format!("{ns:.0}"),
            at_most.map_or_else(String::new, |limit| format!("{limit:.0}")),
            at_most.map_or_else(String::new, |limit| verdict(ns <= limit)),
        ]);
    };
    row("subscribe", of(|r| r.subscribe), Some(SUBSCRIBE_NS));
    row(
        "match alone, random topic",
        of(|r| r.matching),
        Some(MATCH_NS),
    );
    row("first post to a key", of(|r| r.first), None);
    row("next post to it", of(|r| r.next), None);
    row("unsubscribe", of(|r| r.unsubscribe), None);
    table.print();
}

fn round(filters: &[String], topics: &[String]) -> Round {
    let matching = match_ns(filters, topics);
    let router: Router<Message> = Router::new();
    let start = cpu_ns();
    let all: Vec<Subscription> = filters
        .iter()
        .map(|filter| {
            let subscribed = router.subscribe(filter, |_, _, message: &Message| message.acc.set(1));
            subscribed.expect("a valid filter")
        })
        .collect();
    let each = |start: f64, count: usize| (cpu_ns() - start) / count as f64;
    let subscribe = each(start, filters.len());
    let keys: Vec<Key> = topics
        .iter()
        .map(|topic| Key::new(topic).expect("a key"))
        .collect();
    let message = Message::default();
    let post_all = || {
        let start = cpu_ns();
        keys.iter().for_each(|key| router.post(key, &message));
        each(start, keys.len())
    };
    let (first, next) = (post_all(), post_all());
    assert_eq!(
        router.stats().hits,
        2 * keys.len() as u64,
        "each post hits one"
    );
    let start = cpu_ns();
    let count = all.len();
    drop(all);
    Round {
        subscribe,
        matching,
        first,
        next,
        unsubscribe: each(start, count),
    }
}

/// The trie alone, with as many filters.
fn match_ns(filters: &[String], topics: &[String]) -> f64 {
    let mut matcher = Matcher::new();
    for (i, filter) in (0u32..).zip(filters) {
        matcher.insert(filter, i);
    }
    let mut hits = 0;
    let start = cpu_ns();
    for topic in topics {
        matcher.for_each_match(topic, |&found| {
            black_box(found);
            hits += 1;
        });
    }
    let each = (cpu_ns() - start) / topics.len() as f64;
    assert_eq!(hits, topics.len(), "each topic hits one");
    each
}
