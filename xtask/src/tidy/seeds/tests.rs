use super::*;

fn found(path: &str, text: &str) -> Vec<String> {
    unexplained(&TextFile {
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
