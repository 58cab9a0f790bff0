use super::*;

fn found(path: &str, text: &str) -> Vec<String> {
    missing(&TextFile {
        path: path.to_owned(),
        text: text.to_owned(),
    })
}

#[test]
fn a_fixed_seed_without_a_reason_is_found() {
    let source = "crates/a/src/lib.rs";
    let plain = "type Hasher = foldhash::fast::FixedState;";
    let [line] = &found(source, &format!("\n{plain}"))[..] else {
        panic!("one line breaks the rule");
    };
    assert!(line.starts_with("crates/a/src/lib.rs:2: "), "{line}");
    let reason = "/// Fixed seed: the keys are numbers of ours,\n/// which nobody chooses.";
    assert!(found(source, &format!("{reason}\n{plain}")).is_empty());
    // It is a reason for what is right below it.
    assert_eq!(
        found(source, &format!("{reason}\n{plain}\n{plain}")).len(),
        1
    );
    assert_eq!(found(source, &format!("/// Of a map.\n{plain}")).len(), 1);
    assert!(found(source, "// no FixedState here").is_empty());
    assert!(found("docs/adr/0001.md", plain).is_empty());
}

#[test]
fn a_lock_where_messages_pass_is_found() {
    let field = "    places: Mutex<Vec<Place>>,";
    for (path, is_found) in [
        ("crates/engine/src/state.rs", true),
        ("crates/broker/src/shard/ready.rs", true),
        ("crates/broker/src/scrub.rs", false),
        ("docs/adr/0023.md", false),
    ] {
        assert_eq!(found(path, field).len(), usize::from(is_found), "{path}");
        let reason = "    /// Lock: a push, and nothing under it.";
        assert!(found(path, &format!("{reason}\n{field}")).is_empty());
    }
    for line in ["static TABLE: RwLock<u8> = x;", "    done: Condvar,"] {
        assert_eq!(found("crates/mqtt/src/lib.rs", line).len(), 1, "{line}");
    }
    let guard = "fn table() -> MutexGuard<'static, Table> {";
    assert!(found("crates/memory/src/held.rs", guard).is_empty());
}
