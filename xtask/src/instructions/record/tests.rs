use super::super::measure::Case;
use super::{Environment, Record};

fn record() -> Record {
    let case = |crate_name: &str, operation: &str, name: &str| Case {
        crate_name: crate_name.to_owned(),
        operation: operation.to_owned(),
        name: name.to_owned(),
    };
    Record {
        environment: Environment {
            rustc: "rustc 1.95.0 (59807616e 2026-04-14) x86_64-unknown-linux-gnu".to_owned(),
            valgrind: "valgrind-3.19.0".to_owned(),
            libc: "glibc 2.36".to_owned(),
            cpu: "x86_64 with avx2".to_owned(),
        },
        counts: [
            (case("mqtt", "encode_publish", "v5_qos1"), 517),
            (case("mqtt", "parse_publish", "v3_qos0"), 324),
            (case("mqtt", "parse_publish", "v5_qos0"), 338),
            (case("router", "topic_match", "exact"), 100_000),
        ]
        .into(),
    }
}

#[test]
fn what_is_written_is_read() {
    let text = record().text();
    assert!(
        text.ends_with(
            "\n[mqtt.parse_publish]\nv3_qos0 = 324\nv5_qos0 = 338\n\n[router.topic_match]\nexact = 100000\n"
        ),
        "{text}"
    );
    assert_eq!(Record::parse(&text).expect("it is a record"), record());
}

#[test]
fn other_files_are_refused() {
    let check = |from: &str, to: &str, expected: &str| {
        let text = record().text();
        assert!(text.contains(from), "{from}");
        let error = Record::parse(&text.replace(from, to)).expect_err("it is broken");
        assert!(format!("{error:#}").contains(expected), "{error:#}");
    };
    check("valgrind = ", "tool = ", "says its valgrind");
    check(
        "= 324",
        "= \"324\"",
        "mqtt parse_publish v3_qos0 has a count",
    );
    check("= 324", "= -1", "mqtt parse_publish v3_qos0 has a count");
    check("= 324", "= = 324", "the record is TOML");
    check("[environment]", "[made]", "what it was made with");
}
