//! The kept inputs of the fuzz targets, for the plain tests of the crates under `crates/` that include this file.

use std::{fs, path::Path};

/// Gives `run` all kept inputs of a target.
///
/// # Panics
/// When there are none.
pub fn each(target: &str, mut run: impl FnMut(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../fuzz/corpus")
        .join(target);
    let mut count = 0;
    for file in fs::read_dir(folder).expect("the corpus is there") {
        run(&fs::read(file.expect("listed").path()).expect("a file"));
        count += 1;
    }
    assert!(count > 0, "{target} has kept inputs");
}
