//! Every direct dependency has its line in `docs/dependencies.md`, and no line is left over.

#[cfg(test)]
mod tests;

use super::arrows::ours;
use anyhow::{Context, Result};
use serde_json::Value;
use std::collections::BTreeSet;

/// The page with the reasons.
pub(super) const PAGE: &str = "docs/dependencies.md";

/// A line for each dependency without a reason, and for each reason without a dependency.
pub(super) fn unexplained(metadata: &Value, page: &str) -> Result<Vec<String>> {
    let used = used(metadata)?;
    let explained: BTreeSet<&str> = page.lines().filter_map(explained).collect();
    let missing = used
        .difference(&explained)
        .map(|name| format!("{PAGE}: has no line for {name}"));
    let left_over = explained
        .difference(&used)
        .map(|name| format!("{PAGE}: no crate uses {name}"));
    Ok(missing.chain(left_over).collect())
}

/// What crates of the workspace name in their manifests and is not ours.
fn used(metadata: &Value) -> Result<BTreeSet<&str>> {
    let packages = ours(metadata)?;
    let own: BTreeSet<&str> = packages
        .iter()
        .filter_map(|package| package["name"].as_str())
        .collect();
    let mut used = BTreeSet::new();
    for package in packages {
        let dependencies = package["dependencies"]
            .as_array()
            .context("a package lists its dependencies")?;
        used.extend(
            dependencies
                .iter()
                .filter_map(|dependency| dependency["name"].as_str()),
        );
    }
    Ok(used.difference(&own).copied().collect())
}

/// The crate of a row such as ``| `bytes` | …``.
fn explained(line: &str) -> Option<&str> {
    line.strip_prefix("| `")?
        .split_once("` |")
        .map(|(name, _)| name)
}
