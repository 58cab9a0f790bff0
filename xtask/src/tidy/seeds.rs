//! Hashers with a seed that everybody knows: who may choose the keys of such a map makes them collide.

#[cfg(test)]
mod tests;

use crate::repo::TextFile;

/// The hasher.
const FIXED: &str = "FixedState";
/// How the comment right above it begins.
const REASON: &str = "Fixed seed: ";

/// A line for each use of it without a comment above that says why no seed is needed.
pub(super) fn unexplained(file: &TextFile) -> Vec<String> {
    let path = file.path.as_str();
    if !(path.starts_with("crates/") && path.ends_with(".rs")) {
        return Vec::new();
    }
    let mut broken = Vec::new();
    let mut explained = false;
    for (number, line) in (1..).zip(file.text.lines()) {
        let line = line.trim_start();
        if let Some(comment) = line.strip_prefix("//") {
            explained |= comment.contains(REASON);
            continue;
        }
        if line.contains(FIXED) && !explained {
            broken.push(format!(
                "{path}:{number}: {FIXED} without a comment above it: \"{REASON}…\""
            ));
        }
        explained = false;
    }
    broken
}
