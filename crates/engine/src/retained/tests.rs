use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

/// The standard's matching, level by level, v5 section 4.7.
fn matches(filter: &str, topic: &str) -> bool {
    fn levels(filter: &[&str], topic: &[&str]) -> bool {
        match (filter, topic) {
            (["#"], _) => true,
            (["+", filter @ ..], [_, topic @ ..]) => levels(filter, topic),
            ([level, filter @ ..], [name, topic @ ..]) => level == name && levels(filter, topic),
            ([], []) => true,
            ([_, ..], []) | ([], [_, ..]) => false,
        }
    }
    let filter: Vec<_> = filter.split('/').collect();
    let topic: Vec<_> = topic.split('/').collect();
    let hidden = topic[0].starts_with('$') && matches!(filter[0], "+" | "#");
    !hidden && levels(&filter, &topic)
}

/// The order that the module states.
fn order(topic: &str) -> Vec<&[u8]> {
    topic.split('/').map(str::as_bytes).collect()
}

fn store(topics: &[&str]) -> Retained<u32> {
    let mut retained = Retained::default();
    for (n, topic) in topics.iter().enumerate() {
        assert_eq!(retained.set(topic, n as u32, 10), None);
    }
    retained.check();
    retained
}

/// All finds of a filter in calls of `limit` and `visits`.
fn scan_all(retained: &Retained<u32>, filter: &str, limit: usize, visits: usize) -> Vec<u32> {
    let mut all = Vec::new();
    let mut after: Option<Box<str>> = None;
    loop {
        let mut found = Vec::new();
        let end = retained.scan(
            &Scan {
                filter,
                after: after.as_deref(),
                limit,
                visits,
            },
            &mut found,
        );
        assert!(found.len() <= limit, "{filter}: the limit holds");
        assert!(
            end.visits <= visits.max(SEEK_VISITS + 1) + SEEK_VISITS,
            "{filter}: the budget holds"
        );
        all.extend(found);
        if let (Some(after), Some(next)) = (&after, &end.next) {
            assert!(order(after) < order(next), "{filter}: every call gets on");
        }
        after = end.next;
        if after.is_none() {
            return all;
        }
    }
}

fn found<'a>(topics: &[&'a str], filter: &str) -> Vec<&'a str> {
    scan_all(&store(topics), filter, 3, 12)
        .into_iter()
        .map(|n| topics[n as usize])
        .collect()
}

#[test]
fn m34_topic_order_keeps_what_is_below_a_level_together() {
    let topics = [
        "a", "a/b", "a b", "a/b/c", "a!/x", "a/", "/a", "", "b", "a-",
    ];
    assert_eq!(
        found(&topics[..7], "#"),
        ["/a", "a", "a/", "a/b", "a/b/c", "a b", "a!/x"]
    );
    assert_eq!(found(&topics, "a/#"), ["a", "a/", "a/b", "a/b/c"]);
}

#[test]
fn wildcards_as_in_the_standards_examples() {
    // v3 and v5 sections 4.7.1.2 and 4.7.1.3.
    let topics = [
        "sport",
        "sport/",
        "sport/tennis/player1",
        "sport/tennis/player1/ranking",
        "sport/tennis/player1/score/wimbledon",
        "sport/tennis/player2",
        "/finance",
    ];
    for (filter, expected) in [
        ("sport/tennis/player1/#", &topics[2..5]),
        ("sport/tennis/player1", &topics[2..3]),
        (
            "sport/tennis/+",
            &["sport/tennis/player1", "sport/tennis/player2"][..],
        ),
        ("sport/+", &["sport/"]),
        ("+", &["sport"]),
        ("+/+", &["/finance", "sport/"]),
        ("/+", &["/finance"]),
        ("+/tennis/#", &topics[2..6]),
        ("sport/+/player1", &["sport/tennis/player1"]),
        ("sport/#", &topics[..6]),
        ("nothing", &[]),
        ("nothing/#", &[]),
        ("zzz/+/a", &[]),
    ] {
        assert_eq!(found(&topics, filter), expected, "{filter}");
    }
}

#[test]
fn leading_wildcards_find_nothing_that_begins_with_dollar() {
    // v3 [MQTT-4.7.2-1], v5 [MQTT-4.7.2-1]
    let topics = [
        "#x",
        "$SYS",
        "$SYS/monitor/Clients",
        "$a/b",
        "%",
        "a",
        "a/$b",
    ];
    for (filter, expected) in [
        ("#", &["#x", "%", "a", "a/$b"][..]),
        ("+", &["#x", "%", "a"]),
        ("+/monitor/Clients", &[]),
        ("+/#", &["#x", "%", "a", "a/$b"]),
        ("$SYS/#", &["$SYS", "$SYS/monitor/Clients"]),
        ("$SYS/monitor/+", &["$SYS/monitor/Clients"]),
        ("a/+", &["a/$b"]),
    ] {
        assert_eq!(found(&topics, filter), expected, "{filter}");
    }
}

#[test]
fn topics_are_kept_as_given() {
    // v3 [MQTT-4.7.3-4], v5 [MQTT-4.7.3-4]: neither case, spaces nor empty levels are changed.
    let topics = ["Accounts", "accounts", "a//b", "a/b", " a", "ä/ö"];
    let retained = store(&topics);
    for (n, topic) in topics.iter().enumerate() {
        assert_eq!(retained.get(topic), Some(n as u32));
    }
    assert_eq!(retained.get("a///b"), None);
}

#[test]
fn a_topic_has_one_message_and_its_bytes_are_counted() {
    // v3 [MQTT-3.3.1-5], v5 [MQTT-3.3.1-5]: the newer one replaces the older.
    let mut retained = store(&["a", "b"]);
    assert_eq!(retained.set("a", 7, 3), Some(0));
    let usage = |topics, bytes| Usage { topics, bytes };
    assert_eq!(retained.usage(), usage(2, 13));
    assert_eq!(retained.clear("a"), Some(7));
    assert_eq!(retained.clear("a"), None);
    assert_eq!(retained.usage(), usage(1, 10));
    assert_eq!(retained.clear("b"), Some(1));
    assert_eq!(retained.usage(), usage(0, 0));
    retained.check();
}

/// M4 counts what clients retain: the broker's own values neither take their room nor are refused for want of it.
#[test]
fn m4_the_brokers_own_values_are_neither_counted_nor_refused() {
    let mut retained = store(&[
        "$SYS/broker/version",
        "$SYS/broker/uptime",
        "$SYS",
        "$SYSTEM",
        "a",
    ]);
    let usage = |topics, bytes| Usage { topics, bytes };
    assert_eq!(retained.usage(), usage(2, 20));
    let limits = RetainedLimits {
        topics: 2,
        bytes: 20,
    };
    let mut projection = Projection::default();
    let own = "$SYS/broker/load";
    assert!(!projection.admit(&retained, limits, "b", Some(1)));
    assert!(projection.admit(&retained, limits, own, Some(1)));
    let before = retained.usage();
    retained.set(own, 9, 1);
    retained.set("$SYS/broker/uptime", 8, 100);
    assert_eq!(retained.usage(), before);
    projection.applied(own, Some(1), before, retained.usage());
    retained.clear("$SYS/broker/version");
    assert_eq!(put_back(&retained), retained);
    retained.check();
    projection.check();
    assert_eq!(retained.clear("a"), Some(4));
    assert_eq!(retained.usage(), usage(1, 10));
}

#[test]
fn a_scan_with_few_matches_jumps() {
    let mut retained = Retained::default();
    for site in 0..100 {
        for room in 0..1_000 {
            retained.set(&format!("{site:02}/room/{room}"), 0_u32, 1);
        }
        retained.set(&format!("{site:02}/cellar"), 1, 1);
    }
    let mut found = Vec::new();
    let end = retained.scan(
        &Scan {
            filter: "+/cellar",
            after: None,
            limit: 1_000,
            visits: 100_000,
        },
        &mut found,
    );
    assert_eq!(found, [1; 100]);
    assert_eq!(end.next, None);
    assert!(end.visits >= 100 * SEEK_VISITS, "jumps are work");
    assert!(
        end.visits < 100 * 2 * (SEEK_VISITS + STEPS_MAX + 1),
        "{}",
        end.visits
    );
}

#[test]
fn a_scan_that_finds_nothing_stops_at_its_budget() {
    let mut retained = Retained::default();
    for n in 0..10_000 {
        retained.set(&format!("{n:05}/a"), 0_u32, 1);
    }
    let mut found = Vec::new();
    let scan = Scan {
        filter: "+/b",
        after: None,
        limit: 64,
        visits: 200,
    };
    let end = retained.scan(&scan, &mut found);
    assert!(found.is_empty());
    assert!(end.next.is_some());
    assert!(end.visits <= 200 + SEEK_VISITS);
    assert!(scan_all(&retained, "+/b", 64, 200).is_empty());
}

#[test]
fn a_cursor_need_not_exist_any_more() {
    let mut retained = store(&["a/1", "a/2", "a/3"]);
    let mut found = Vec::new();
    let mut scan = Scan {
        filter: "a/+",
        after: None,
        limit: 2,
        visits: 100,
    };
    let next = retained.scan(&scan, &mut found).next.expect("one is left");
    assert_eq!((&*next, &*found), ("a/2", &[0, 1][..]));
    retained.clear("a/2");
    scan.after = Some(&next);
    assert_eq!(retained.scan(&scan, &mut found).next, None);
    assert_eq!(found, [0, 1, 2]);
}

#[test]
fn a_cursor_at_or_behind_an_exact_filter_ends_it() {
    let retained = store(&["a", "b", "c"]);
    for (after, expected) in [(None, 1), (Some("a"), 1), (Some("b"), 0), (Some("c"), 0)] {
        let mut found = Vec::new();
        let scan = Scan {
            filter: "b",
            after,
            limit: 1,
            visits: 1,
        };
        assert_eq!(retained.scan(&scan, &mut found).next, None);
        assert_eq!(found.len(), expected, "{after:?}");
    }
}

/// The same, made as a checkpoint is read: the topics first, their records and the lengths of those at the end.
fn put_back(retained: &Retained<u32>) -> Retained<u32> {
    let mut back = Retained::default();
    let mut placed = Vec::new();
    for (topic, record) in retained.after(None) {
        let bytes = retained.kept(&topic).expect("it was just listed").bytes;
        assert!(back.restore(&topic, placed.len() as u32));
        placed.push((record, bytes));
    }
    back.place(|number| placed[number as usize]);
    back
}

#[test]
fn a_topic_is_put_back_once() {
    let retained = store(&["a", "b"]);
    let mut back = put_back(&retained);
    assert_eq!(back, retained);
    assert!(!back.restore("b", 2));
}

fn topic() -> impl Strategy<Value = String> {
    let level = prop::sample::select(vec![
        "", "a", "b", "ab", "a b", "a-", "$", "$a", "\u{1}", "é",
    ]);
    prop::collection::vec(level, 1..5)
        .prop_map(|levels| levels.join("/"))
        .prop_filter("a topic is not empty", |topic| !topic.is_empty())
}

fn filter() -> impl Strategy<Value = String> {
    let level = prop::sample::select(vec!["", "a", "b", "ab", "a b", "$", "$a", "+", "+", "+"]);
    (prop::collection::vec(level, 0..5), any::<bool>())
        .prop_map(|(mut levels, many)| {
            if many {
                levels.push("#");
            }
            levels.join("/")
        })
        .prop_filter("a filter is not empty", |filter| !filter.is_empty())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn scans_find_what_a_naive_matcher_finds(
        topics in prop::collection::btree_set(topic(), 0..60),
        filters in prop::collection::vec(filter(), 1..12),
        limit in 1_usize..6,
        visits in 1_usize..40,
    ) {
        let mut topics: Vec<String> = topics.into_iter().collect();
        topics.sort_by(|a, b| order(a).cmp(&order(b)));
        let mut retained = Retained::default();
        for (n, topic) in topics.iter().enumerate() {
            retained.set(topic, n as u32, 1);
        }
        for filter in filters {
            let expected: Vec<u32> = (0..topics.len() as u32)
                .filter(|&n| matches(&filter, &topics[n as usize]))
                .collect();
            prop_assert_eq!(scan_all(&retained, &filter, limit, visits), expected, "{}", filter);
        }
    }

}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn changes_behave_like_a_map(
        steps in prop::collection::vec((0_u8..3, topic(), 0_u32..9, 0_u32..100), 1..120)
    ) {
        let mut retained = Retained::default();
        let mut model: BTreeMap<String, (u32, u32)> = BTreeMap::new();
        for (kind, topic, record, bytes) in steps {
            let before = model.get(&topic).copied();
            match kind {
                0 | 1 => {
                    model.insert(topic.clone(), (record, bytes));
                    prop_assert_eq!(retained.set(&topic, record, bytes), before.map(|kept| kept.0));
                }
                _ => {
                    model.remove(&topic);
                    prop_assert_eq!(retained.clear(&topic), before.map(|kept| kept.0));
                }
            }
            retained.check();
            prop_assert_eq!(retained.usage(), Usage {
                topics: model.len() as u64,
                bytes: model.values().map(|kept| u64::from(kept.1)).sum(),
            });
            prop_assert_eq!(retained.get(&topic), model.get(&topic).map(|kept| kept.0));
            prop_assert_eq!(&put_back(&retained), &retained);
        }
    }

    /// M4: whatever is admitted, applied later and in order, with expiries in between, never exceeds the limits, and is not
    /// refused while there is room.
    #[test]
    fn m4_admitted_changes_stay_within_the_limits(
        steps in prop::collection::vec((0_u8..8, 0_u8..6, 0_u32..50), 1..200)
    ) {
        let limits = RetainedLimits { topics: 4, bytes: 100 };
        let mut retained: Retained<u32> = Retained::default();
        let mut projection = Projection::default();
        let mut proposed: Vec<(String, Option<u32>)> = Vec::new();
        for (kind, topic, bytes) in steps {
            let topic = format!("t{topic}");
            match kind {
                0..=3 => {
                    let bytes = (kind > 0).then_some(bytes);
                    let admitted = projection.admit(&retained, limits, &topic, bytes);
                    let counted = projection.roomy_topics();
                    let mut future = retained.clone();
                    for (topic, bytes) in &proposed {
                        apply(&mut future, topic, *bytes);
                    }
                    let before = future.usage();
                    apply(&mut future, &topic, bytes);
                    let usage = future.usage();
                    let fits = (usage.topics <= limits.topics || usage.topics <= before.topics)
                        && (usage.bytes <= limits.bytes || usage.bytes <= before.bytes);
                    // What was only counted may take more room than it will.
                    if counted == 0 {
                        prop_assert_eq!(admitted, fits);
                    }
                    prop_assert!(!admitted || fits);
                    if admitted {
                        proposed.push((topic, bytes));
                    }
                }
                4..=6 if !proposed.is_empty() => {
                    let (topic, bytes) = proposed.remove(0);
                    let before = retained.usage();
                    apply(&mut retained, &topic, bytes);
                    projection.applied(&topic, bytes, before, retained.usage());
                }
                _ => {
                    let before = retained.usage();
                    retained.clear(&topic);
                    projection.changed_otherwise(&topic, before, retained.usage());
                }
            }
            prop_assert!(retained.usage().topics <= limits.topics);
            prop_assert!(retained.usage().bytes <= limits.bytes);
            projection.check();
        }
    }
}

fn apply(retained: &mut Retained<u32>, topic: &str, bytes: Option<u32>) {
    match bytes {
        Some(bytes) => retained.set(topic, 0, bytes),
        None => retained.clear(topic),
    };
}
