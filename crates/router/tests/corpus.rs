//! The kept inputs of the fuzz target `matcher_ops` (`fuzz/corpus/matcher_ops`).

#[allow(
    unreachable_pub,
    reason = "the fuzz target, in another crate, uses it too"
)]
mod fuzzed;
#[allow(unreachable_pub, reason = "the same file serves other crates")]
#[path = "../../../fuzz/src/kept.rs"]
mod kept;

#[test]
fn kept_sequences_of_operations() {
    kept::each("matcher_ops", fuzzed::operations);
}
