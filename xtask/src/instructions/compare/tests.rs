use super::super::measure::{Case, Counted};
use super::{Comparison, grew};
use crate::counts::Counts;

fn counts(counts: &[(&str, u64)]) -> Counted {
    let case = |name: &str| Case {
        crate_name: "mqtt".to_owned(),
        operation: "parse_publish".to_owned(),
        name: name.to_owned(),
    };
    counts
        .iter()
        .map(|&(name, count)| (case(name), count))
        .collect()
}

#[test]
fn three_percent_are_allowed_and_no_more() {
    let check =
        |old: u64, new: u64, expected: bool| assert_eq!(grew(old, new), expected, "{old} {new}");
    check(100, 103, false);
    check(100, 104, true);
    check(1_000, 1_030, false);
    check(1_000, 1_031, true);
    check(72, 74, false);
    check(72, 75, true);
    check(100, 10, false);
    check(0, 0, false);
    check(0, 1, true);
    check(u64::MAX, u64::MAX, false);
}

#[test]
fn what_grew_is_new_or_gone_fails() {
    let check = |old: &[(&str, u64)], new: &[(&str, u64)], passed: u64, failed: u64| {
        let comparison = Comparison::new(&counts(old), &counts(new));
        assert_eq!(
            comparison.tests().counts,
            Counts {
                passed,
                failed,
                ..Counts::default()
            },
            "{comparison}"
        );
        assert_eq!(comparison.failed(), failed, "{comparison}");
    };
    check(&[("a", 100), ("b", 50)], &[("a", 103), ("b", 1)], 2, 0);
    check(&[("a", 100), ("b", 50)], &[("a", 104), ("b", 50)], 1, 1);
    check(&[("a", 100)], &[("a", 100), ("b", 50)], 1, 1);
    check(&[("a", 100), ("b", 50)], &[("b", 50)], 1, 1);
    check(&[], &[], 0, 0);
}

#[test]
fn the_table_shows_both_counts_and_the_change() {
    let old = counts(&[("a", 1_000), ("b", 200), ("c", 7)]);
    let new = counts(&[("a", 1_040), ("b", 150), ("d", 8)]);
    let table = Comparison::new(&old, &new).to_string();
    let lines: Vec<String> = table
        .lines()
        .skip(1)
        .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect();
    assert_eq!(
        lines[..4],
        [
            "mqtt parse_publish a 1000 1040 +4.0 % GREW",
            "mqtt parse_publish b 200 150 -25.0 %",
            "mqtt parse_publish c 7 - GONE",
            "mqtt parse_publish d - 8 NOT RECORDED",
        ]
    );
    assert!(lines[4].starts_with("3 grew"), "{table}");
}

#[test]
fn of_two_counts_the_least_is_judged() {
    let old = counts(&[("a", 100), ("b", 100)]);
    let first = counts(&[("a", 110), ("b", 110)]);
    let second = counts(&[("a", 101), ("b", 120)]);
    let tests = Comparison::or_least(&old, &first, &second).tests();
    assert_eq!(tests.counts.failed, 1, "{tests:?}");
    assert!(tests.failed[0].contains("b"), "{tests:?}");
}
