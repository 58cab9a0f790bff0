use super::{banned_dependencies, impure_lines};
use crate::repo::TextFile;
use serde_json::{Value, json};

fn node(id: &str, on: &[(&str, Value)]) -> Value {
    let deps: Vec<Value> = on
        .iter()
        .map(|(pkg, kind)| json!({ "pkg": pkg, "dep_kinds": [{ "kind": kind }] }))
        .collect();
    json!({ "id": id, "deps": deps })
}

fn reached(kind: Value) -> Vec<String> {
    let names =
        ["courser-engine", "helper", "tokio"].map(|name| json!({ "id": name, "name": name }));
    let nodes = [
        node("courser-engine", &[("helper", kind)]),
        node("helper", &[("tokio", Value::Null)]),
        node("tokio", &[]),
    ];
    banned_dependencies(&json!({ "packages": names, "resolve": { "nodes": nodes } }))
        .expect("metadata is whole")
}

#[test]
fn a_runtime_is_found_behind_another_crate() {
    assert_eq!(
        reached(Value::Null),
        ["courser-engine is pure, and reaches tokio"]
    );
    assert_eq!(reached(json!("dev")), [] as [&str; 0], "tests may use more");
}

#[test]
fn impure_words_are_found_in_source_and_not_in_tests() {
    let check = |path: &str, text: &str, expected: usize| {
        let file = TextFile {
            path: path.to_owned(),
            text: text.to_owned(),
        };
        assert_eq!(impure_lines(&file).len(), expected, "{path}: {text:?}");
    };
    check(
        "crates/engine/src/lib.rs",
        "use std::thread;\nlet t = Instant::now();\n",
        2,
    );
    check(
        "crates/engine/src/lib.rs",
        "use std::{collections::BTreeMap, thread};\n",
        1,
    );
    check(
        "crates/engine/src/lib.rs",
        "use std::{collections::BTreeMap, net::TcpStream};\n",
        1,
    );
    check(
        "crates/engine/src/lib.rs",
        "use std::{collections::BTreeMap, fmt};\n",
        0,
    );
    check("crates/engine/src/lib.rs", "// never std::thread\n", 0);
    check(
        "crates/engine/src/lib.rs",
        "#[cfg(test)]\nmod tests {\n use std::thread;\n}\n",
        0,
    );
    check("crates/engine/src/tests.rs", "use std::thread;\n", 0);
    check(
        "crates/engine/src/log/tests/pair.rs",
        "use std::thread;\n",
        0,
    );
    check("crates/engine/benches/log.rs", "Instant::now()", 0);
    check("crates/broker/src/lib.rs", "use std::thread;\n", 0);
}
