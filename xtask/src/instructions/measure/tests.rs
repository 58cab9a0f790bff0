use super::counts;

fn line(package: &str, function: &str, id: &str, count: &str) -> String {
    format!(
        r#"{{"function_name":"{function}","id":"{id}","package_dir":"{package}","profiles":[{{"data":{{"parts":[],"total":{{"metrics":{{"Dr":{{"values":{{"new":54}}}},"Ir":{{"values":{{"new":{count}}}}}}},"regressions":[]}}}},"tool":"Callgrind"}}]}}"#
    )
}

#[test]
fn a_line_for_each_case() {
    let printed = format!(
        "\n{}\nsomething else\n{}\n",
        line("crates/mqtt", "parse_publish", "v3_qos0", "324"),
        line("crates/router", "topic_match", "exact", "1000"),
    );
    let counts = counts(&printed).expect("two counts");
    let counts: Vec<(String, u64)> = counts
        .into_iter()
        .map(|(case, count)| (case.to_string(), count))
        .collect();
    assert_eq!(
        counts,
        [
            ("mqtt parse_publish v3_qos0".to_owned(), 324),
            ("router topic_match exact".to_owned(), 1_000),
        ]
    );
}

#[test]
fn nothing_is_taken_for_a_count_that_is_none() {
    let check = |printed: &str, expected: &str| {
        let error = counts(printed).expect_err("it has no counts");
        assert!(format!("{error:#}").contains(expected), "{error:#}");
    };
    let good = line("crates/mqtt", "parse_publish", "v3_qos0", "324");
    check("", "printed no counts");
    check("running 0 tests\n", "printed no counts");
    check("{\"function_name\":\n", "prints JSON");
    check(
        &line("crates/mqtt", "parse_publish", "v3_qos0", "null"),
        "no count in",
    );
    check(&good.replace("Ir", "Ge"), "no count in");
    check(&format!("{good}\n{good}\n"), "two benchmarks are called");
}
