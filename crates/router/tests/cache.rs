//! The cache of results: right as long as epochs stand, bounded, and of use under a sweep of topics.

use router::{CacheLimits, Epochs, ListPool, Matcher, TopicCache};
use std::sync::Arc;

fn list(matcher: &Matcher<u32>, topic: &str) -> Vec<u32> {
    let mut found = Vec::new();
    matcher.for_each_match(topic, |&s| found.push(s));
    found.sort_unstable();
    found
}

#[test]
fn a_change_spoils_what_it_concerns_and_little_else() {
    let mut matcher = Matcher::new();
    matcher.insert("fleet/car-1/state", 1u32);
    let topics = [
        "fleet/car-1/state",
        "fleet/car-2/state",
        "fleet",
        "depot/car-1/state",
        "$SYS/x",
    ];
    // Filter, and which of the topics it may concern.
    for (filter, concerned) in [
        ("fleet/car-2/#", [false, true, false, false, false]),
        ("fleet/+/state", [true, true, true, false, false]),
        ("fleet/#", [true, true, true, false, false]),
        ("fleet", [true, true, true, false, false]),
        ("depot/car-1/state", [false, false, false, true, false]),
        ("+/car-1/#", [true; 5]),
        ("#", [true; 5]),
    ] {
        let before = topics.map(|t| matcher.epoch(t));
        matcher.insert(filter, 2);
        let moved: [bool; 5] = std::array::from_fn(|at| matcher.epoch(topics[at]) != before[at]);
        for at in 0..topics.len() {
            assert!(
                moved[at] || !concerned[at],
                "{filter} concerns {}",
                topics[at]
            );
        }
        // Two levels may share a counter by chance, so only the count of needless moves is bounded here.
        let needless = moved
            .iter()
            .zip(concerned)
            .filter(|&(&moved, concerned)| moved && !concerned)
            .count();
        assert!(needless <= 2, "{filter} moved {moved:?}");

        let before = topics.map(|t| matcher.epoch(t));
        assert_eq!(matcher.remove(filter, &9), None);
        assert_eq!(
            topics.map(|t| matcher.epoch(t)),
            before,
            "nothing was changed"
        );
        matcher.remove(filter, &2);
        for at in 0..topics.len() {
            assert!(
                matcher.epoch(topics[at]) != before[at] || !concerned[at],
                "{filter} concerned {}",
                topics[at]
            );
        }
    }
}

#[test]
fn answers_are_those_of_the_matcher_through_changes() {
    let mut matcher = Matcher::new();
    let mut cache = TopicCache::new(CacheLimits {
        entries: 64,
        bytes: 16 << 10,
    });
    let mut random = 1u64;
    for step in 0..20_000u32 {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let topic = format!("t{}/u{}", random >> 33 & 7, random >> 40 & 31);
        let found = cache.get_or_insert_with(&topic, &matcher, || list(&matcher, &topic));
        assert_eq!(*found, list(&matcher, &topic), "{topic} at step {step}");
        let stats = cache.stats();
        assert!(stats.entries <= 64 && stats.bytes <= 16 << 10, "{stats:?}");
        let filter = format!(
            "t{}/{}",
            random >> 44 & 7,
            ["+", "#", "u1", "u2"][(random >> 50 & 3) as usize]
        );
        match random >> 60 {
            0 => drop(matcher.insert(&filter, step % 8)),
            1 => drop(matcher.remove(&filter, &(step % 8))),
            _ => {}
        }
    }
    let stats = cache.stats();
    assert!(
        stats.hits > 1_000 && stats.stale > 100 && stats.evicted > 100,
        "all ways were taken: {stats:?}"
    );
}

#[test]
fn bytes_are_bounded_whatever_the_values() {
    let matcher: Matcher<u32> = Matcher::new();
    let mut cache = TopicCache::new(CacheLimits {
        entries: 1_000,
        bytes: 4_096,
    });
    for i in 0..1_000usize {
        let topic = format!("topic/{}", i % 100);
        let found = cache.get_or_insert_with(&topic, &matcher, || vec![0u32; i]);
        assert!(!found.is_empty() || i % 100 == 0);
        assert!(cache.stats().bytes <= 4_096, "{:?}", cache.stats());
    }
    assert!(cache.stats().entries > 0);
    cache.clear();
    assert_eq!((cache.stats().entries, cache.stats().bytes), (0, 0));
}

/// 100 busy topics among a sweep over 100,000 others: the busy ones stay.
#[test]
fn a_sweep_does_not_throw_out_the_busy_topics() {
    let matcher: Matcher<u32> = Matcher::new();
    let mut cache = TopicCache::new(CacheLimits {
        entries: 1_000,
        bytes: 1 << 20,
    });
    let (mut asked, mut missed) = (0, 0);
    for i in 0..100_000u32 {
        cache.get_or_insert_with(&format!("sweep/{i}"), &matcher, Vec::<u32>::new);
        let busy = format!("busy/{}", i % 100);
        asked += 1;
        cache.get_or_insert_with(&busy, &matcher, || {
            missed += 1;
            Vec::new()
        });
    }
    assert!(
        missed * 100 <= asked,
        "{missed} misses of {asked} look-ups of busy topics"
    );
    assert!((100..=1_000).contains(&cache.stats().entries));
    assert!(
        cache.stats().entries as u64 + cache.stats().evicted < 10_000,
        "most of the sweep never gets in: {:?}",
        cache.stats()
    );
}

#[test]
fn a_topic_gets_in_when_it_is_asked_for_again() {
    let matcher: Matcher<u32> = Matcher::new();
    let mut cache = TopicCache::new(CacheLimits::default());
    let mut made = 0;
    for (entries, makes) in [(0, 1), (1, 2), (1, 2), (1, 2)] {
        cache.get_or_insert_with("once/more", &matcher, || {
            made += 1;
            Vec::<u32>::new()
        });
        assert_eq!((cache.stats().entries, made), (entries, makes));
    }
}

#[test]
fn equal_lists_are_held_once() {
    let mut pool = ListPool::new();
    let a = pool.share(&[1u32, 2, 3]);
    let b = pool.share(&[1, 2, 3]);
    let c = pool.share(&[3, 2, 1]);
    assert!(Arc::ptr_eq(&a, &b) && !Arc::ptr_eq(&a, &c));
    assert_eq!(pool.len(), 2);
    drop((a, b));
    pool.sweep();
    assert_eq!(pool.len(), 1);
    for i in 0..100_000u32 {
        pool.share(&[i]);
        assert!(
            pool.len() <= 64,
            "lists that nobody holds do not gather: {}",
            pool.len()
        );
    }
    assert_eq!(&c[..], &[3, 2, 1]);
}
