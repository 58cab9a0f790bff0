//! Words that must not be in the files of the project.

#[cfg(test)]
mod tests;

use crate::repo::TextFile;

/// Folders of somebody's machine. Files of ours never need one.
const MACHINE_PATHS: &[&str] = &[
    concat!("/", "work/"),
    concat!("/", "root/"),
    concat!("/", "tmp/t-"),
];

/// Package registries that are not the public ones: a lock file made behind one does not work elsewhere.
const REGISTRIES: &[&str] = &[
    concat!("arti", "factory"),
    concat!("jf", "rog"),
    concat!("pypi", "server"),
    concat!("verd", "accio"),
];

/// Papers that the project does not carry: a reader could not look them up. Its own pages are named by their path.
const PAPERS: &[&str] = &[
    concat!("DESIGN", " "),
    concat!("RELIABILITY", " "),
    concat!("STYLE", " §"),
    concat!("UX", " §"),
];

/// Crates in which one named module may use `unsafe`; all others forbid it.
const UNSAFE_MODULES: &[&str] = &[
    "crates/memory/src/lib.rs",
    "crates/router/src/lib.rs",
    "crates/bus/src/lib.rs",
    "crates/bus-c/src/lib.rs",
    "crates/bus-python/src/lib.rs",
];

/// A line for each such word.
pub(super) fn forbidden(file: &TextFile) -> Vec<String> {
    let mut broken = Vec::new();
    for (number, line) in (1..).zip(file.text.lines()) {
        if let Some(path) = MACHINE_PATHS.iter().find(|path| names_path(line, path)) {
            broken.push(format!(
                "{}:{number}: names the folder {path} of one machine",
                file.path
            ));
        }
        if let Some(host) = REGISTRIES.iter().find(|host| line.contains(**host)) {
            broken.push(format!(
                "{}:{number}: names the registry host {host}",
                file.path
            ));
        }
        if let Some(paper) = PAPERS.iter().find(|paper| line.contains(**paper)) {
            broken.push(format!(
                "{}:{number}: names the paper {paper}that is not part of the project",
                file.path
            ));
        }
    }
    broken
}

/// Whether the line has this path from the root of a file system, not as a part of a longer one.
fn names_path(line: &str, path: &str) -> bool {
    line.match_indices(path).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        before.is_none_or(|before| !(before.is_alphanumeric() || "._-~}*".contains(before)))
    })
}

/// A line for a crate that could use `unsafe` without anyone noticing.
pub(super) fn unsafe_not_forbidden(file: &TextFile) -> Option<String> {
    let path = file.path.as_str();
    let of_a_crate = path.starts_with("crates/")
        && (path.ends_with("/src/lib.rs") || path.ends_with("/src/main.rs"));
    let needed = if UNSAFE_MODULES.contains(&path) {
        "(unsafe_code)]"
    } else {
        "#![forbid(unsafe_code)]"
    };
    (of_a_crate && path.matches('/').count() == 3 && !file.text.contains(needed))
        .then(|| format!("{path}: needs {needed}"))
}
