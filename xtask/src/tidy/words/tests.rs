use super::{forbidden, unsafe_not_forbidden};
use crate::repo::TextFile;

fn file(path: &str, text: &str) -> TextFile {
    TextFile {
        path: path.to_owned(),
        text: text.to_owned(),
    }
}

#[test]
fn folders_of_a_machine_are_found() {
    let check = |before: &str, folder: &str, expected: bool| {
        let text = format!("ok\n{before}/{folder}/x");
        let found = forbidden(&file("a.sh", &text));
        assert_eq!(!found.is_empty(), expected, "{text}");
    };
    check("cd ", "work", true);
    check("", "root", true);
    check("path = \"", "root", true);
    check("src", "work", false);
    check("$HOME/a-b", "work", false);
    check("cd ", "worker", false);
}

#[test]
fn papers_that_nobody_can_look_up_are_found() {
    let named = format!("//! As {} says.", concat!("DESIGN", " §5"));
    assert_eq!(forbidden(&file("crates/a/src/lib.rs", &named)).len(), 1);
    let ours = "//! As `docs/model.md` says.";
    assert!(forbidden(&file("crates/a/src/lib.rs", ours)).is_empty());
}

#[test]
fn registry_hosts_are_found() {
    let text = format!(
        "\"resolved\": \"https://npm.example/{}/api\"",
        concat!("arti", "factory")
    );
    assert_eq!(forbidden(&file("package-lock.json", &text)).len(), 1);
    assert!(
        forbidden(&file(
            "package-lock.json",
            "https://registry.npmjs.org/mqtt"
        ))
        .is_empty()
    );
}

#[test]
fn every_crate_forbids_unsafe_code() {
    let check = |path: &str, text: &str, expected: bool| {
        assert_eq!(
            unsafe_not_forbidden(&file(path, text)).is_some(),
            expected,
            "{path}: {text:?}"
        );
    };
    check("crates/mqtt/src/lib.rs", "//! Codec.\n", true);
    check("crates/mqtt/src/lib.rs", "#![forbid(unsafe_code)]\n", false);
    check("crates/mqtt/src/lib.rs", "#![deny(unsafe_code)]\n", true);
    check("crates/memory/src/lib.rs", "#![deny(unsafe_code)]\n", false);
    check("crates/mqtt/src/codec/mod.rs", "", false);
    check("crates/courser/src/main.rs", "", true);
}
