//! The rules of matching, one table a rule, named by the clauses of the standards.

use router::{
    FilterError, Inserted, Matcher, SharedMatcher, TopicError, check_filter, check_topic,
    filter_matches,
};

/// All ways to ask: one filter alone, as a whole path of nodes, as a tail, and shared.
fn check(filter: &str, topic: &str, expected: bool) {
    assert_eq!(
        filter_matches(filter, topic),
        expected,
        "{filter:?} alone on {topic:?}"
    );

    let mut matcher = Matcher::new();
    matcher.insert(filter, 1u32);
    let hit = |matcher: &Matcher<u32>| {
        let mut hits = 0;
        matcher.for_each_match(topic, |&s| hits += usize::from(s == 1));
        assert!(hits <= 1, "a filter is reported once");
        hits == 1
    };
    assert_eq!(hit(&matcher), expected, "{filter:?} as a tail on {topic:?}");

    // Neighbours at every level split the tail into nodes.
    let levels: Vec<&str> = filter.split('/').collect();
    for depth in 1..=levels.len() {
        matcher.insert(&format!("{}/elsewhere", levels[..depth].join("/")), 2);
    }
    assert_eq!(hit(&matcher), expected, "{filter:?} as nodes on {topic:?}");

    let (mut writer, reader) = SharedMatcher::new();
    writer.insert(filter, 1u32);
    writer.publish(|| unreachable!("nobody looks"));
    let mut hits = 0;
    reader.for_each_match(topic, |_| hits += 1);
    assert_eq!(hits == 1, expected, "{filter:?} shared on {topic:?}");
}

#[test]
fn single_level_wildcard() {
    for (filter, topic, expected) in [
        ("sport/+", "sport/tennis", true),
        ("sport/+", "sport", false),
        ("sport/+", "sport/", true),
        ("sport/+", "sport/a/b", false),
        ("+", "finance", true),
        ("+", "/finance", false),
        ("+/+", "/finance", true),
        ("/+", "/finance", true),
        ("+/tennis/#", "sport/tennis", true),
        ("sport/+/player1", "sport/tennis/player1", true),
        ("+/+/+", "a/b/c", true),
        ("+/+/+", "a/b", false),
        ("+/+/+", "a/b/c/d", false),
    ] {
        check(filter, topic, expected);
    }
}

#[test]
fn multi_level_wildcard_matches_the_parent_too() {
    for (filter, topic, expected) in [
        ("sport/tennis/player1/#", "sport/tennis/player1", true),
        (
            "sport/tennis/player1/#",
            "sport/tennis/player1/ranking",
            true,
        ),
        (
            "sport/tennis/player1/#",
            "sport/tennis/player1/score/wimbledon",
            true,
        ),
        ("sport/tennis/player1/#", "sport/tennis/player2", false),
        ("sport/#", "sport", true),
        ("sport/#", "sports", false),
        ("sport/#", "sport/", true),
        ("#", "a", true),
        ("#", "/", true),
        ("+/#", "a", true),
        ("a/+/#", "a", false),
        ("a/+/#", "a/b", true),
    ] {
        check(filter, topic, expected);
    }
}

/// v3 [MQTT-4.7.2-1], v5 [MQTT-4.7.2-1]
#[test]
fn leading_wildcards_do_not_match_topics_of_the_server() {
    for (filter, topic, expected) in [
        ("#", "$SYS/uptime", false),
        ("#", "$SYS", false),
        ("+", "$SYS", false),
        ("+/uptime", "$SYS/uptime", false),
        ("+/#", "$SYS/uptime", false),
        ("$SYS/#", "$SYS/uptime", true),
        ("$SYS/#", "$SYS", true),
        ("$SYS/+", "$SYS/uptime", true),
        ("$SYS/uptime", "$SYS/uptime", true),
        ("a/+", "a/$SYS", true),
        ("a/#", "a/$SYS/b", true),
        ("+/$SYS", "a/$SYS", true),
        ("#", "a$", true),
        ("+", "$", false),
    ] {
        check(filter, topic, expected);
    }
}

/// v3 [MQTT-4.7.3-4], v5 [MQTT-4.7.3-4]: compared as given, nothing is normalised.
#[test]
fn levels_are_compared_literally() {
    for (filter, topic, expected) in [
        ("ACCOUNTS", "Accounts", false),
        ("/finance", "finance", false),
        ("a//b", "a/b", false),
        ("a//b", "a//b", true),
        ("a/+/b", "a//b", true),
        ("/", "/", true),
        ("+/+", "/", true),
        ("a/", "a", false),
        ("a", "a/", false),
        ("\u{e9}", "e\u{301}", false),
        ("\u{feff}a", "a", false),
        ("\u{feff}a", "\u{feff}a", true),
        ("日本/+", "日本/東京", true),
        (" ", " ", true),
        ("a b", "a b", true),
    ] {
        check(filter, topic, expected);
    }
}

/// v3 [MQTT-4.7.1-2], v5 [MQTT-4.7.1-1]; v3 [MQTT-4.7.1-3], v5 [MQTT-4.7.1-2];
/// v3 [MQTT-4.7.3-1], v5 [MQTT-4.7.3-1]; v3 [MQTT-4.7.3-2], v5 [MQTT-4.7.3-2];
/// v3 [MQTT-4.7.3-3], v5 [MQTT-4.7.3-3]
#[test]
fn the_form_of_a_filter() {
    let longest = "a".repeat(65_535);
    let too_long = "a".repeat(65_536);
    for (filter, expected) in [
        ("#", Ok(())),
        ("+", Ok(())),
        ("/", Ok(())),
        ("a/+/b/#", Ok(())),
        ("+/+/+", Ok(())),
        (&longest, Ok(())),
        ("", Err(FilterError::Empty)),
        ("a\0", Err(FilterError::Nul)),
        ("sport/tennis#", Err(FilterError::Rest)),
        ("sport/tennis/#/ranking", Err(FilterError::Rest)),
        ("##", Err(FilterError::Rest)),
        ("sport+", Err(FilterError::Any)),
        ("a/+b/c", Err(FilterError::Any)),
        ("++", Err(FilterError::Any)),
        (&too_long, Err(FilterError::TooLong)),
    ] {
        assert_eq!(check_filter(filter), expected, "{filter:.20}");
    }
}

/// v3 [MQTT-4.7.1-1], v5 [MQTT-4.7.0-1]; v3 [MQTT-4.7.3-1], v5 [MQTT-4.7.3-1];
/// v3 [MQTT-4.7.3-2], v5 [MQTT-4.7.3-2]; v3 [MQTT-4.7.3-3], v5 [MQTT-4.7.3-3]
#[test]
fn the_form_of_a_topic_name() {
    let too_long = "a".repeat(65_536);
    for (topic, expected) in [
        ("a/b", Ok(())),
        ("/", Ok(())),
        ("$SYS/a b", Ok(())),
        ("", Err(TopicError::Empty)),
        ("a/\0", Err(TopicError::Nul)),
        ("a/+", Err(TopicError::Wildcard)),
        ("a#", Err(TopicError::Wildcard)),
        (&too_long, Err(TopicError::TooLong)),
    ] {
        assert_eq!(check_topic(topic), expected, "{topic:.20}");
    }
}

/// Filters that are not valid are stored and matched literally, and come back out as they went in.
#[test]
fn invalid_filters_are_literals() {
    let mut matcher = Matcher::new();
    let odd = ["a#", "#/b", "a/#/c", "+a", "a+/b", "", "##"];
    for (at, filter) in odd.into_iter().enumerate() {
        assert_eq!(matcher.insert(filter, at), Inserted::New);
    }
    matcher.check();
    for topic in ["ax", "x/b", "a/x/c", "xa"] {
        matcher.for_each_match(topic, |&s| panic!("{topic:?} matched {:?}", odd[s]));
    }
    let mut seen = Vec::new();
    matcher.for_each_filter(|filter, _| seen.push(filter.to_owned()));
    seen.sort();
    let mut expected = odd.to_vec();
    expected.sort_unstable();
    assert_eq!(seen, expected);
    for (at, filter) in odd.into_iter().enumerate() {
        assert_eq!(matcher.remove(filter, &at), Some(at));
    }
    matcher.check();
    assert_eq!(matcher.nodes(), 0);
}

/// A subscriber whose `Eq` looks at the key only: the options are replaced, by key.
#[test]
fn options_are_replaced_by_key() {
    #[derive(Clone, Copy, Debug)]
    struct WithQos(u32, u8);
    impl PartialEq for WithQos {
        fn eq(&self, other: &Self) -> bool {
            self.0 == other.0
        }
    }
    impl Eq for WithQos {}
    impl std::hash::Hash for WithQos {
        fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
            self.0.hash(state);
        }
    }
    let mut matcher = Matcher::new();
    // Past the length at which lists get an index, and back.
    for key in 0..200 {
        assert_eq!(matcher.insert("a/b", WithQos(key, 0)), Inserted::New);
    }
    for key in 0..200 {
        let old = matcher.insert("a/b", WithQos(key, 2));
        assert!(matches!(old, Inserted::Replaced(WithQos(_, 0))), "{old:?}");
    }
    assert_eq!(matcher.len(), 200);
    matcher.for_each_match("a/b", |s| assert_eq!(s.1, 2));
    for key in (0..200).step_by(2).chain((1..200).step_by(2)) {
        assert_eq!(
            matcher.remove("a/b", &WithQos(key, 9)).map(|s| s.1),
            Some(2)
        );
        assert_eq!(matcher.remove("a/b", &WithQos(key, 9)).map(|s| s.1), None);
        matcher.check();
    }
    assert!(matcher.is_empty());
}
