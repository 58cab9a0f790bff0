use std::cell::Cell;

use super::*;

fn index(rules: impl Iterator<Item = String>) -> (RuleIndex, Vec<Rule>) {
    let rules: Vec<Rule> = rules.map(|rule| rule.parse().expect("a rule")).collect();
    let index = RuleIndex::new(&rules, Effect::Allow);
    index.check(&rules, Effect::Allow);
    (index, rules)
}

/// The first rule that matches a topic, and how many were held against it.
fn asked((index, rules): &(RuleIndex, Vec<Rule>), topic: &str) -> (Option<usize>, usize) {
    let who = Identity::new("c1", crate::UserName::new("anna").expect("a name"));
    let looked = Cell::new(0);
    let first = index.first(Way::Matching, topic, |place| {
        looked.set(looked.get() + 1);
        rules[place].topic.matches(topic, &who)
    });
    (first, looked.get())
}

#[test]
fn i10_of_a_thousand_rules_those_are_looked_at_that_can_speak_of_the_topic() {
    let ways: [fn(usize) -> String; 5] = [
        |number| format!("allow all a/{number}/#"),
        |number| format!("allow all {number}"),
        |number| format!("allow all a/0/+/{number}/x"),
        |number| format!("allow publish %c/+/{number}"),
        |number| format!("allow all +/%u/long/and/the/same/{number}/#"),
    ];
    for way in ways {
        let role = index((0..1_000).map(way));
        for number in [0, 1, 500, 999] {
            let pattern = role.1[number].topic.to_string();
            let topic = pattern
                .replace("%c", "c1")
                .replace("%u", "anna")
                .replace('+', "any")
                .replace('#', "z");
            let (first, looked) = asked(&role, &topic);
            assert_eq!(first, Some(number), "{topic}");
            assert!(looked <= TOGETHER, "{looked} rules for {topic}");
        }
        let (none, looked) = asked(&role, "none/of/them");
        assert_eq!(none, None);
        assert!(looked <= TOGETHER, "{looked}");
    }
}

#[test]
fn the_first_of_rules_that_say_the_same_is_found() {
    let role = index((0..100).map(|number| match number % 4 {
        0 => "allow all x".to_owned(),
        1 => "allow all a/+".to_owned(),
        2 => "allow all a/%c".to_owned(),
        _ => "allow all a/c1/#".to_owned(),
    }));
    assert_eq!(asked(&role, "a/c1").0, Some(1));
    assert_eq!(asked(&role, "a/c1/b").0, Some(3));
    assert_eq!(asked(&role, "x").0, Some(0));
}

#[test]
fn no_rules_have_an_index_without_memory() {
    let (index, _) = index(std::iter::empty());
    assert!(index.nodes.is_empty() && index.rules.is_empty());
    assert_eq!(index.first(Way::Matching, "a", |_| true), None);
}

#[test]
fn i9_an_index_takes_no_more_than_is_said() {
    let deep = "/a".repeat(100);
    let ways: [&dyn Fn(usize) -> String; 4] = [
        &|number| format!("allow all a/0/+/{number}/x"),
        &|number| format!("allow all {number}"),
        &|number| format!("allow all {deep}/{number}"),
        &|number| format!("allow all {number}{}", "/a".repeat(number % 50)),
    ];
    for way in ways {
        for count in [1, 5, 100, 1_000] {
            let (index, rules) = index((0..count).map(way));
            let bytes = size_of_val(&*index.nodes) + size_of_val(&*index.rules);
            let depths = rules.iter().map(|rule| rule.topic.depth());
            let said: usize = depths.map(RuleIndex::bytes_of).sum();
            assert!(bytes <= said, "{bytes} of {said}");
        }
    }
}
