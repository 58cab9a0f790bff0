//! The kept inputs of the fuzz target `acl_pattern`, and inputs that are made of parts of good ones.

#[allow(
    unreachable_pub,
    reason = "the fuzz target, in another crate, uses it too"
)]
mod fuzzed;

use std::{fs, path::Path};

use proptest::prelude::*;

#[test]
fn kept_inputs() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/acl_pattern");
    let mut count = 0;
    for file in fs::read_dir(folder).expect("the corpus is there") {
        fuzzed::acl_pattern(&fs::read(file.expect("listed").path()).expect("a file"));
        count += 1;
    }
    assert!(count > 0, "there are kept inputs");
}

const PARTS: &[&str] = &[
    "a",
    "b",
    "%c",
    "%u",
    "+",
    "#",
    "/",
    "/",
    "/",
    "\n",
    "\n",
    "\n",
    "$",
    "$share/",
    "%",
    "é",
    "\0",
    "allow publish ",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20_000))]

    #[test]
    fn parts_in_any_order(parts in prop::collection::vec(prop::sample::select(PARTS), 0..16)) {
        fuzzed::acl_pattern(parts.concat().as_bytes());
    }
}
