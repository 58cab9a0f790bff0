//! The kept inputs of the fuzz target `jwt`, and damaged forms of them.

#[allow(
    unreachable_pub,
    reason = "the fuzz target, in another crate, uses it too"
)]
mod fuzzed;

use std::{fs, path::Path};

#[test]
fn kept_inputs_whole_and_damaged() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/jwt");
    let mut count = 0;
    for file in fs::read_dir(folder).expect("the corpus is there") {
        let input = fs::read(file.expect("listed").path()).expect("a file");
        fuzzed::jwt(&input);
        for (at, sign) in input.iter().enumerate() {
            let mut damaged = input.clone();
            damaged[at] = sign.rotate_left(1) ^ 1;
            fuzzed::jwt(&damaged);
            fuzzed::jwt(&input[..at]);
        }
        count += 1;
    }
    assert!(count > 0, "there are kept inputs");
}
