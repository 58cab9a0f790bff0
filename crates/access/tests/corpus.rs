//! The kept inputs of the fuzz target `acl_pattern`, and inputs that are made of parts of good ones.

#[allow(
    unreachable_pub,
    reason = "the fuzz target, in another crate, uses it too"
)]
mod fuzzed;
#[allow(unreachable_pub, reason = "the same file serves other crates")]
#[path = "../../../fuzz/src/kept.rs"]
mod kept;

use proptest::prelude::*;

#[test]
fn kept_inputs() {
    kept::each("acl_pattern", fuzzed::acl_pattern);
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
