use super::{ARROWS, broken, stale_of};
use serde_json::{Value, json};

/// A workspace of packages with their dependencies: name and kind (`null` for a normal one).
fn workspace(packages: &[(&str, &[(&str, Value)])]) -> Value {
    let ids: Vec<&str> = packages.iter().map(|(name, _)| *name).collect();
    let package = |(name, dependencies): &(&str, &[(&str, Value)])| {
        let dependencies: Vec<Value> = dependencies
            .iter()
            .map(|(on, kind)| json!({ "name": on, "kind": kind }))
            .collect();
        json!({ "id": name, "name": name, "dependencies": dependencies })
    };
    json!({ "workspace_members": ids, "packages": packages.iter().map(package).collect::<Vec<_>>() })
}

fn check(from: &str, on: &str, kind: Value, allowed: bool) {
    let metadata = workspace(&[(from, &[(on, kind.clone())]), (on, &[])]);
    let found = broken(&metadata).expect("metadata is whole");
    assert_eq!(
        found.is_empty(),
        allowed,
        "{from} on {on} ({kind}): {found:?}"
    );
}

#[test]
fn arrows_point_one_way() {
    check("courser-engine", "courser-contract", Value::Null, true);
    check("courser-contract", "courser-engine", Value::Null, false);
    check("courser-broker", "courser-engine", Value::Null, true);
    check("courser-engine", "courser-broker", Value::Null, false);
    check("courser-engine", "courser-broker", json!("build"), false);
    check("courser-settings", "courser-memory", json!("dev"), true);
}

#[test]
fn a_protocol_and_the_engine_are_strangers_also_in_tests() {
    check("courser-mqtt", "courser-engine", Value::Null, false);
    check("courser-mqtt", "courser-engine", json!("dev"), false);
    check("courser-engine", "courser-mqtt", json!("dev"), false);
}

#[test]
fn a_new_crate_must_be_put_into_the_table() {
    let found = broken(&workspace(&[("courser-new", &[])])).expect("metadata is whole");
    assert_eq!(found.len(), 1);
}

#[test]
fn an_arrow_that_no_crate_has_is_stale() {
    let table: &[(&str, &[&str])] = &[
        ("low", &[]),
        ("tested", &[]),
        ("high", &["low", "tested", "gone"]),
        ("gone", &[]),
    ];
    let built: &[(&str, Value)] = &[("low", json!("build")), ("tested", json!("dev"))];
    let metadata = workspace(&[("low", &[]), ("tested", &[]), ("high", built)]);
    let found = stale_of(table, &metadata).expect("metadata is whole");
    let [tested, gone, none] = &found[..] else {
        panic!("{found:?}");
    };
    assert!(tested.starts_with("high does not depend on tested"));
    assert!(gone.starts_with("high does not depend on gone"));
    assert!(none.starts_with("gone: "));
}

/// The table itself has no way round: every crate names only crates that stand above it in the table.
#[test]
fn the_table_has_no_cycle() {
    for (at, (name, allowed)) in ARROWS.iter().enumerate() {
        for on in *allowed {
            let place = ARROWS.iter().position(|(known, _)| known == on);
            assert!(place.is_some_and(|place| place < at), "{name} names {on}");
        }
    }
}
