use super::{Counts, Tests};

fn check(line: &str, passed: u64, failed: u64, skipped: u64) {
    let mut tests = Tests::default();
    tests.take_line(line);
    let expected = Counts {
        passed,
        failed,
        skipped,
    };
    assert_eq!(tests.counts, expected, "{line:?}");
}

#[test]
fn result_lines_of_cargo() {
    check(
        "test result: ok. 26 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.25s\n",
        26,
        0,
        0,
    );
    check(
        "test result: FAILED. 8 passed; 1 failed; 2 ignored; 0 measured; 0 filtered out; finished in 0.07s",
        8,
        1,
        2,
    );
    check("test counts::tests::result_lines_of_cargo ... ok", 0, 0, 0);
    check("the test result: ok. 26 passed; 0 failed", 0, 0, 0);
}

#[test]
fn last_lines_of_pytest() {
    check("============ 12 passed in 3.21s ============", 12, 0, 0);
    check(
        "=== 2 failed, 12 passed, 1 skipped, 3 xfailed, 1 error in 75.21s (0:01:15) ===",
        12,
        3,
        1,
    );
    check("3 passed, 1 warning in 0.10s", 3, 0, 0);
    check("2 errors in 0.55s", 0, 2, 0);
    check("no tests ran in 0.01s", 0, 0, 0);
    check(
        "test_qos.py::test_order 12 passed in the middle in 3s",
        0,
        0,
        0,
    );
    check("12 passed in total", 0, 0, 0);
}

#[test]
fn a_run_that_fails_without_a_failed_test_counts_as_one() {
    let mut counts = Counts {
        passed: 5,
        ..Counts::default()
    };
    counts.ensure_failed();
    assert_eq!(counts.to_string(), "5 passed, 1 failed");
    let mut counts = Counts {
        passed: 5,
        failed: 3,
        ..Counts::default()
    };
    counts.ensure_failed();
    assert_eq!(counts.failed, 3);
}

#[test]
fn tests_that_failed_are_named() {
    let check = |line: &str, expected: Option<&str>| {
        let mut tests = Tests::default();
        tests.take_line(line);
        assert_eq!(
            tests.failed.first().map(String::as_str),
            expected,
            "{line:?}"
        );
        assert_eq!(tests.counts, Counts::default(), "{line:?}");
    };
    check("test m31_order ... FAILED\n", Some("m31_order"));
    check("test m31_order ... ok", None);
    check(
        "FAILED test_qos.py::test_order[v5] - AssertionError",
        Some("test_qos.py::test_order[v5] - AssertionError"),
    );
    check(
        "ERROR test_qos.py - ImportError",
        Some("test_qos.py - ImportError"),
    );
    check("ERROR: the disk is full", None);
    check("test of the disk that FAILED", None);
}

#[test]
fn tests_that_did_not_run_are_named_with_the_reason() {
    let check = |line: &str, expected: Option<&str>| {
        let mut tests = Tests::default();
        tests.take_line(line);
        let named = tests.skipped.first().map(String::as_str);
        assert_eq!(named, expected, "{line:?}");
        assert_eq!(tests.counts, Counts::default(), "counted by the last line");
    };
    check(
        "SKIPPED [1] test_disk.py:28: strace is not installed\n",
        Some("[1] test_disk.py:28: strace is not installed"),
    );
    check(
        "test retained::bench::walk ... ignored, takes seconds; by hand",
        Some("retained::bench::walk: takes seconds; by hand"),
    );
    check(
        "test retained::bench::walk ... ignored",
        Some("retained::bench::walk"),
    );
    check("test m31_order ... ok", None);
    check("SKIPPED nothing", None);
}
