//! Which files have become long: a question to their readers, not an error.

use crate::repo::TextFile;

/// Lines from which a source file is named. Tests and tables may be longer.
const LONG_LINES: usize = 500;

/// Prints the source files over [`LONG_LINES`], the longest first.
pub(super) fn long_files(files: &[TextFile]) {
    let source = |file: &&TextFile| {
        file.path.ends_with(".rs")
            && !file.path.contains("/tests/")
            && !file.path.ends_with("/tests.rs")
    };
    let mut long: Vec<(usize, &str)> = files
        .iter()
        .filter(source)
        .map(|file| (file.text.lines().count(), file.path.as_str()))
        .filter(|(lines, _)| *lines > LONG_LINES)
        .collect();
    long.sort_unstable_by(|one, other| other.cmp(one));
    for (lines, path) in long {
        println!("long file: {path}: {lines} lines; which second thing lives in it?");
    }
}
