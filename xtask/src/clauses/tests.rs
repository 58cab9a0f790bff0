use super::{known, parse, tags, test_code};
use crate::repo::TextFile;

const TABLE: &str = "version\tid\tbinds\trule
# a note
3.1.1\tMQTT-1.5.3-1\tboth\tStrings hold UTF-8.
3.1.1\tMQTT-3.1.0-1\tclient\tSend CONNECT first.
5.0\tMQTT-1.5.3-1\tserver\tSomething else.
";

#[test]
fn only_statements_that_bind_a_server_count() {
    let tags: Vec<String> = parse(TABLE)
        .expect("the table is right")
        .into_iter()
        .map(|clause| clause.tag)
        .collect();
    assert_eq!(tags, ["v3 [MQTT-1.5.3-1]", "v5 [MQTT-1.5.3-1]"]);
    assert!(known(TABLE, "v3 [MQTT-3.1.0-1]"));
    assert!(
        !known(TABLE, "v5 [MQTT-3.1.0-1]"),
        "the numbers of the two standards are not the same"
    );
}

#[test]
fn a_table_that_cannot_be_read_is_an_error() {
    for table in [
        "",
        "version\tid\n",
        "h\n5.0\tMQTT-1\tserver\n",
        "h\n4\tMQTT-1\tboth\tx\n",
        "h\n5.0\tMQTT-1\tall\tx\n",
    ] {
        assert!(parse(table).is_err(), "{table:?}");
    }
}

#[test]
fn tags_are_found_literally() {
    let found = tags(&[
        "// v3 [MQTT-1.5.3-1], v5 [MQTT-1.5.4-2]: strict",
        "MQTT-3.3.1-1 [MQTT-3.3.1-2] v5 [MQTT-open",
    ]);
    assert_eq!(
        found.into_iter().collect::<Vec<_>>(),
        ["v3 [MQTT-1.5.3-1]", "v5 [MQTT-1.5.4-2]"]
    );
}

#[test]
fn only_test_code_names_a_statement() {
    let check = |path: &str, text: &str, expected: Option<&str>| {
        let file = TextFile {
            path: path.to_owned(),
            text: text.to_owned(),
        };
        assert_eq!(test_code(&file), expected, "{path}");
    };
    check("crates/mqtt/src/codec/tests.rs", "x", Some("x"));
    check("crates/mqtt/src/tests/pair.rs", "x", Some("x"));
    check("crates/mqtt/tests/strict.rs", "x", Some("x"));
    check("tests/e2e/test_qos.py", "x", Some("x"));
    check("crates/mqtt/src/codec.rs", "x", None);
    check(
        "crates/mqtt/src/codec.rs",
        "a\n#[cfg(test)]\nmod tests {\n}\n",
        Some("#[cfg(test)]\nmod tests {\n}\n"),
    );
    check(
        "crates/mqtt/src/codec.rs",
        "#[cfg(test)]\nmod tests;\n// v5",
        None,
    );
    check("fuzz/tests/corpus.rs", "x", None);
    check("xtask/src/clauses/tests.rs", "x", None);
    check("tests/e2e/README.md", "x", None);
}
