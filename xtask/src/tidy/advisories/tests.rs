use super::untested;
use crate::repo::TextFile;

fn check(rows: &str, code: &str, expected: &[&str]) {
    let file = |path: &str, text: String| TextFile {
        path: path.to_owned(),
        text,
    };
    let head = "# Page\n\n| advisory | input | here |\n|---|---|---|\n";
    let files = [
        file("docs/advisories.md", format!("{head}{rows}\n")),
        file("crates/a/src/tests.rs", code.to_owned()),
        file("xtask/src/other.rs", "fn cve_elsewhere() {}".to_owned()),
    ];
    assert_eq!(untested(&files), expected, "{rows:?} {code:?}");
}

#[test]
fn rows_and_tests_belong_together() {
    let code = "#[test]\nfn cve_1_a() {\n}\n    def test_cve_2_b(raw):\n    async fn slow_c() {}";
    let both = "| A | x | `cve_1_a`, `slow_c` |\n| B | y | `test_cve_2_b` |";
    check(both, code, &[]);
    check(
        "| A | x | `cve_1_a` |",
        code,
        &["docs/advisories.md: has no row for test_cve_2_b"],
    );
    check(
        "| A | `cve_1_a` | `cve_3_gone`; see `docs/limits.md` |",
        "fn cve_1_a() {}",
        &[
            "docs/advisories.md:5: there is no test cve_3_gone",
            "docs/advisories.md: has no row for cve_1_a",
        ],
    );
}

#[test]
fn a_row_without_a_test_says_why() {
    check("| A | x | Cannot: there are no plug-ins |", "", &[]);
    check(
        "| A | x | not looked at |",
        "",
        &["docs/advisories.md:5: names no test, and does not say \"Cannot: …\""],
    );
    assert_eq!(untested(&[]), ["docs/advisories.md: is not there"]);
}

#[test]
fn a_test_for_a_cve_bears_its_number() {
    let code = "fn cve_2020_11_12_2021_5_x() {}\nfn some_other() {}";
    for row in [
        "A CVE-2020-12",
        "A CVE-1999-1, CVE-2021-5",
        "A, 2494 of its list",
    ] {
        check(
            &format!("| {row} | x | `cve_2020_11_12_2021_5_x` |"),
            code,
            &[],
        );
    }
    let none =
        "docs/advisories.md:5: none of its tests has the number of a CVE of the row in its name";
    for row in ["A CVE-2020-1", "A CVE-2021-7", "A CVE-2022-5"] {
        let row = format!("| {row} | x | `some_other`, `cve_2020_11_12_2021_5_x` |");
        check(&row, code, &[none]);
    }
    check(
        "| A CVE-2020-1 | x | `cve_2020_11_12_2021_5_x`. Cannot: it is not here |",
        code,
        &[],
    );
}
