//! The pure crates: no sockets, files, clock, threads or async runtime, in what they use and in what they say.

#[cfg(test)]
mod tests;

use crate::repo::TextFile;
use anyhow::{Context, Result};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Name and folder.
const PURE: &[(&str, &str)] = &[
    ("courser-access", "crates/access/"),
    ("courser-contract", "crates/contract/"),
    ("courser-engine", "crates/engine/"),
    ("courser-memory", "crates/memory/"),
    ("courser-mqtt", "crates/mqtt/"),
    ("courser-shard", "crates/shard/"),
    ("courser-token", "crates/token/"),
    ("courser-trie", "crates/router/"),
];

/// Crates that do I/O, run threads or tell the time.
const BANNED: &[&str] = &[
    "async-io",
    "async-std",
    "crossbeam-channel",
    "futures-executor",
    "mio",
    "nix",
    "polling",
    "rayon",
    "rustix",
    "smol",
    "socket2",
    "tokio",
];

/// What the source of a pure crate must not say outside of its tests and benchmarks.
const IMPURE: &[&str] = &[
    "std::fs",
    "std::net",
    "std::process",
    "std::thread",
    "std::time::Instant",
    "Instant::now",
    "SystemTime",
    "std::env::",
    "std::io::std",
];

/// The same things behind `use std::{…}`.
const IMPURE_MODULES: &[&str] = &["fs", "net", "process", "thread", "env"];

/// A line for each crate of [`BANNED`] that a pure crate reaches, not counting what only its tests use.
pub(super) fn banned_dependencies(metadata: &Value) -> Result<Vec<String>> {
    let names = names_by_id(metadata)?;
    let edges = edges_by_id(metadata)?;
    let mut broken = Vec::new();
    for (id, name) in &names {
        if !PURE.iter().any(|(pure, _)| pure == name) {
            continue;
        }
        for reached in reach(id, &edges) {
            if let Some(banned) = names
                .get(reached)
                .filter(|reached| BANNED.contains(reached))
            {
                broken.push(format!("{name} is pure, and reaches {banned}"));
            }
        }
    }
    broken.sort();
    Ok(broken)
}

fn names_by_id(metadata: &Value) -> Result<BTreeMap<&str, &str>> {
    let packages = metadata["packages"]
        .as_array()
        .context("metadata lists the packages")?;
    Ok(packages
        .iter()
        .filter_map(|package| Some((package["id"].as_str()?, package["name"].as_str()?)))
        .collect())
}

/// What each package needs when it is not tested.
fn edges_by_id(metadata: &Value) -> Result<BTreeMap<&str, Vec<&str>>> {
    let nodes = metadata["resolve"]["nodes"]
        .as_array()
        .context("metadata resolves the dependencies")?;
    Ok(nodes.iter().filter_map(edges_of).collect())
}

fn edges_of(node: &Value) -> Option<(&str, Vec<&str>)> {
    let not_dev = |edge: &&Value| match edge["dep_kinds"].as_array() {
        Some(kinds) => kinds.iter().any(|kind| kind["kind"] != "dev"),
        None => true,
    };
    let edges = node["deps"].as_array()?.iter().filter(not_dev);
    Some((
        node["id"].as_str()?,
        edges.filter_map(|edge| edge["pkg"].as_str()).collect(),
    ))
}

fn reach<'a>(from: &'a str, edges: &BTreeMap<&'a str, Vec<&'a str>>) -> BTreeSet<&'a str> {
    let mut reached = BTreeSet::new();
    let mut next = vec![from];
    while let Some(id) = next.pop() {
        if reached.insert(id) {
            next.extend(edges.get(id).into_iter().flatten());
        }
    }
    reached
}

/// A line for each impure word in the source of a pure crate.
pub(super) fn impure_lines(file: &TextFile) -> Vec<String> {
    let path = file.path.as_str();
    let source = PURE.iter().any(|(_, folder)| {
        path.strip_prefix(folder)
            .is_some_and(|rest| rest.starts_with("src/"))
    });
    let test =
        path.contains("/tests/") || path.ends_with("/tests.rs") || path.ends_with("/bench.rs");
    if !source || test || !path.ends_with(".rs") {
        return Vec::new();
    }
    let code = file
        .text
        .split("#[cfg(test)]\nmod tests {")
        .next()
        .unwrap_or_default();
    let mut broken = Vec::new();
    for (number, line) in (1..).zip(code.lines()) {
        let line = line.split("//").next().unwrap_or_default();
        let word = IMPURE
            .iter()
            .copied()
            .find(|word| line.contains(word))
            .or_else(|| grouped(line));
        if let Some(word) = word {
            broken.push(format!("{path}:{number}: a pure crate says {word}"));
        }
    }
    broken
}

fn grouped(line: &str) -> Option<&'static str> {
    let (_, group) = line.split_once("use std::{")?;
    let mut words = group
        .split([',', '{', '}', ';'])
        .map(str::trim)
        .map(|word| word.split("::").next().unwrap_or(word));
    words.find_map(|word| {
        IMPURE_MODULES
            .iter()
            .copied()
            .find(|module| *module == word)
    })
}
