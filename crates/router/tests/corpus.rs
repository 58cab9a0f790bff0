//! The kept inputs of the fuzz target `matcher_ops` (`fuzz/corpus/matcher_ops`).

#[allow(
    unreachable_pub,
    reason = "the fuzz target, in another crate, uses it too"
)]
mod fuzzed;

use std::fs;
use std::path::Path;

#[test]
fn kept_sequences_of_operations() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/matcher_ops");
    let mut count = 0;
    for file in fs::read_dir(folder).expect("the corpus is there") {
        fuzzed::operations(&fs::read(file.expect("listed").path()).expect("a file"));
        count += 1;
    }
    assert!(count > 0, "matcher_ops has kept inputs");
}
