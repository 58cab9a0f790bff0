use proptest::prelude::*;

use super::*;
use crate::UserName;

fn who(client_id: &str, user: &str) -> Identity {
    Identity::new(client_id, UserName::new(user).unwrap())
}

fn pattern(text: &str) -> TopicPattern {
    text.parse().unwrap()
}

#[test]
fn patterns_are_written_as_they_are_read() {
    for text in [
        "#", "a", "a/#", "+/b/#", "%c/%u/+", "/", "//#", "$SYS/#", "50%/x%",
    ] {
        assert_eq!(pattern(text).to_string(), text);
    }
    use PatternError::{
        Character, Empty, HashNotLast, PlaceholderInLevel, Share, TooDeep, TooLong, WildcardInLevel,
    };
    let (long, deep) = ("x".repeat(1025), "/".repeat(200));
    for (text, expected) in [
        ("", Empty),
        (&*long, TooLong),
        (&*deep, TooDeep),
        ("a\0", Character('\0')),
        ("a/b+/c", WildcardInLevel('+')),
        ("a#", WildcardInLevel('#')),
        ("#/a", HashNotLast),
        ("a/#/b", HashNotLast),
        ("dev-%c/x", PlaceholderInLevel("%c")),
        ("%u%u", PlaceholderInLevel("%u")),
        ("$share/g/a", Share),
    ] {
        assert_eq!(text.parse::<TopicPattern>(), Err(expected), "{text:?}");
    }
}

#[test]
fn what_other_brokers_take_for_a_placeholder_is_found() {
    for (text, found) in [
        ("sensors/${clientid}/#", Some("${clientid}")),
        ("${username}", Some("${username}")),
        ("secret/%U/#", Some("%U")),
        ("%c/%C", Some("%C")),
        ("x/%z", Some("%z")),
        ("%c/%u/#", None),
        ("50%/x%/%/%5/%zz", None),
        ("$SYS/{a}/$/${", None),
    ] {
        assert_eq!(pattern(text).foreign_placeholder(), found, "{text:?}");
    }
}

#[test]
fn patterns_match_topics_as_filters_do() {
    let who = who("c1", "anna");
    for (text, topic, expected) in [
        ("#", "a/b", true),
        ("#", "$SYS/x", false),
        ("+/x", "$SYS/x", false),
        ("$SYS/#", "$SYS/x", true),
        ("a/#", "a", true),
        ("a/#", "a/b/c", true),
        ("a/#", "ab", false),
        ("a/+", "a", false),
        ("a/+", "a/", true),
        ("a/+", "a/b/c", false),
        ("%c/%u", "c1/anna", true),
        ("%c/%u", "c1/bert", false),
        ("%c/%u", "%c/%u", false),
        ("+/%c/#", "x/c1/y/z", true),
        ("+/%c/#", "x/c2/y/z", false),
    ] {
        assert_eq!(
            pattern(text).matches(topic, &who),
            expected,
            "{text} {topic}"
        );
    }
}

/// Client ids and user names that mean something in filters or patterns.
#[test]
fn cve_2017_7650_a_client_id_of_wildcards_widens_nothing() {
    for strange in ["#", "+", "+/+", "a/b", "a/#", "\u{1}"] {
        for who in [who(strange, "anna"), who("c1", "anna")] {
            for filter in ["#", "+/secret", "+/+", "a/b/secret", "anna/secret"] {
                assert!(
                    !pattern("%c/secret").covers(filter, &who),
                    "{strange} {filter}"
                );
            }
            assert!(!pattern("%c/#").covers("#", &who) && !pattern("%c/#").covers("+/#", &who));
        }
        let it = who(strange, "anna");
        assert!(!pattern("%c/secret").matches(&format!("{strange}/secret"), &it));
        assert!(
            !pattern("%c").matches(strange, &it),
            "it is compared with no level at all"
        );
    }
}

/// Regular expressions in a client id are text.
#[test]
fn cve_2026_44838_a_client_id_is_compared_and_never_interpreted() {
    let it = who(".*", "anna");
    assert!(pattern("%c/x").matches(".*/x", &it));
    assert!(!pattern("%c/x").matches("device/x", &it) && !pattern("%c/x").covers("+/x", &it));
    let it = who("%u", "anna");
    assert!(
        !pattern("%c/x").matches("anna/x", &it),
        "what stands in it is not replaced again"
    );
}

#[test]
fn a_rule_covers_a_filter_only_as_a_whole() {
    let who = who("c1", "anna");
    for (text, filter, expected) in [
        ("#", "#", true),
        ("#", "+/a", true),
        ("+/#", "#", true),
        ("#", "$SYS/#", false),
        ("a/#", "a", true),
        ("a/#", "a/#", true),
        ("a/#", "a/+/b", true),
        ("a/#", "#", false),
        ("a/+", "a/#", false),
        ("a/+/#", "a/#", false),
        ("+/+", "+/b", true),
        ("a/+", "a/+", true),
        ("a/b", "a/+", false),
        ("/#", "/#", true),
        ("/+/#", "/#", true),
        ("+/+/#", "/#", true),
        ("/+", "/#", false),
        ("+/+/+/#", "/#", false),
        ("%c/+", "c1/+", true),
        ("%c/+", "+/+", false),
    ] {
        assert_eq!(
            pattern(text).covers(filter, &who),
            expected,
            "{text} {filter}"
        );
    }
}

// The reference: topics of three levels at most over an alphabet with letters that occur in no pattern. What holds for these holds for
// all, since a level is only ever compared with one text.

const LETTERS: [&str; 4] = ["a", "c1", "$x", "other"];

fn topics() -> Vec<String> {
    let mut all: Vec<String> = LETTERS.map(String::from).into();
    let mut last = all.clone();
    for _ in 0..3 {
        last = last
            .iter()
            .flat_map(|front| LETTERS.map(|letter| format!("{front}/{letter}")))
            .collect();
        all.extend(last.iter().cloned());
    }
    all
}

/// v5 section 4.7, as it is written there.
fn matches(filter: &[&str], topic: &[&str]) -> bool {
    match (filter, topic) {
        (["#"], _) => true,
        ([], []) => true,
        (["+", filter @ ..], [_, topic @ ..]) => matches(filter, topic),
        ([level, filter @ ..], [text, topic @ ..]) => level == text && matches(filter, topic),
        ([..], [..]) => false,
    }
}

fn filter_matches(filter: &str, topic: &str) -> bool {
    if filter.starts_with(['+', '#']) && topic.starts_with('$') {
        return false;
    }
    let filter: Vec<&str> = filter.split('/').collect();
    let topic: Vec<&str> = topic.split('/').collect();
    matches(&filter, &topic)
}

fn filters(levels: &'static [&'static str]) -> impl Strategy<Value = String> {
    let levels = proptest::collection::vec(proptest::sample::select(levels), 1..=3);
    (levels, any::<bool>()).prop_map(|(mut levels, hash)| {
        if hash {
            levels.push("#");
        }
        levels.join("/")
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn i11_patterns_agree_with_the_reference(
        text in prop_oneof![Just("#".to_owned()), filters(&["a", "+", "%c", "$x"])],
        filter in prop_oneof![Just("#".to_owned()), filters(&["a", "+", "c1", "$x"])],
    ) {
        let who = who("c1", "anna");
        let (pattern, plain) = (pattern(&text), text.replace("%c", "c1"));
        let (mut covers, mut overlaps) = (true, false);
        for topic in topics() {
            let expected = filter_matches(&plain, &topic);
            prop_assert_eq!(pattern.matches(&topic, &who), expected, "{} {}", text, topic);
            if filter_matches(&filter, &topic) {
                covers &= expected;
                overlaps |= expected;
            }
        }
        prop_assert_eq!(pattern.covers(&filter, &who), covers, "{} covers {}", text, filter);
        prop_assert_eq!(pattern.overlaps(&filter, &who), overlaps, "{} overlaps {}", text, filter);
    }
}

/// `/#` is also for its parent level, which is empty: that is no topic.
#[test]
fn i11_what_meets_in_the_empty_text_alone_does_not_meet() {
    let who = who("c1", "anna");
    for (text, filter, overlaps) in [
        ("/#", "+", false),
        ("+", "/#", false),
        ("/#", "/#", true),
        ("/#", "+/+", true),
        ("+/#", "/#", true),
        ("/#", "#", true),
    ] {
        let found = pattern(text).overlaps(filter, &who);
        assert_eq!(found, overlaps, "{text} overlaps {filter}");
    }
}
