//! Which crate may depend on which: the picture in ARCHITECTURE.md as a table.

#[cfg(test)]
mod tests;

use anyhow::{Context, Result};
use serde_json::Value;

/// Each of our crates, and the ones of ours that it may name. Arrows point down: a crate is below all that name it.
pub(super) const ARROWS: &[(&str, &[&str])] = &[
    ("courser-access", &[]),
    ("courser-contract", &[]),
    ("courser-log", &["courser-contract"]),
    ("courser-memory", &[]),
    ("courser-settings", &[]),
    ("courser-token", &["courser-access"]),
    ("courser-transport", &[]),
    ("courser-trie", &[]),
    (
        "courser-engine",
        &["courser-contract", "courser-memory", "courser-trie"],
    ),
    ("courser-mqtt", &["courser-contract", "courser-memory"]),
    ("courser-shard", &["courser-contract", "courser-engine"]),
    ("courser-cluster", &["courser-contract", "courser-log"]),
    ("courser-router", &["courser-trie"]),
    ("courser-router-c", &["courser-router"]),
    (
        "courser-client",
        &["courser-mqtt", "courser-transport", "courser-trie"],
    ),
    (
        "courser-broker",
        &[
            "courser-access",
            "courser-cluster",
            "courser-contract",
            "courser-engine",
            "courser-log",
            "courser-memory",
            "courser-mqtt",
            "courser-settings",
            "courser-shard",
            "courser-token",
            "courser-transport",
            "courser-trie",
        ],
    ),
    (
        "courser-admin",
        &[
            "courser-access",
            "courser-broker",
            "courser-contract",
            "courser-memory",
            "courser-trie",
        ],
    ),
    (
        "courser",
        &[
            "courser-access",
            "courser-admin",
            "courser-broker",
            "courser-client",
            "courser-contract",
            "courser-engine",
            "courser-log",
            "courser-memory",
            "courser-settings",
        ],
    ),
    (
        "courser-sim",
        &[
            "courser-cluster",
            "courser-contract",
            "courser-engine",
            "courser-log",
            "courser-mqtt",
            "courser-shard",
            "courser-trie",
        ],
    ),
    ("xtask", &[]),
];

/// Crates that must not see each other even in their tests.
const STRANGERS: &[(&str, &str)] = &[
    ("courser-mqtt", "courser-engine"),
    ("courser-engine", "courser-mqtt"),
];

/// A line for each arrow that the table does not have.
pub(super) fn broken(metadata: &Value) -> Result<Vec<String>> {
    let packages = ours(metadata)?;
    let names: Vec<&str> = packages
        .iter()
        .filter_map(|package| package["name"].as_str())
        .collect();
    let mut broken = Vec::new();
    for package in &packages {
        let name = package["name"].as_str().context("a package has a name")?;
        let Some((_, allowed)) = ARROWS.iter().find(|(known, _)| *known == name) else {
            broken.push(format!(
                "{name}: this crate is not in the table of arrows (xtask/src/tidy/arrows.rs)"
            ));
            continue;
        };
        for dependency in package["dependencies"]
            .as_array()
            .context("a package lists its dependencies")?
        {
            let on = dependency["name"]
                .as_str()
                .context("a dependency has a name")?;
            let only_tests = dependency["kind"] == "dev";
            let wrong = names.contains(&on) && !only_tests && !allowed.contains(&on);
            if wrong || STRANGERS.contains(&(name, on)) {
                broken.push(format!("{name} must not depend on {on}: the arrows of ARCHITECTURE.md do not turn round"));
            }
        }
    }
    Ok(broken)
}

/// A line for each arrow of the table that no crate has: it would let one come back unseen.
pub(super) fn stale(metadata: &Value) -> Result<Vec<String>> {
    stale_of(ARROWS, metadata)
}

fn stale_of(arrows: &[(&str, &[&str])], metadata: &Value) -> Result<Vec<String>> {
    let packages = ours(metadata)?;
    let mut stale = Vec::new();
    for (name, allowed) in arrows {
        let Some(package) = packages.iter().find(|package| package["name"] == *name) else {
            stale.push(format!(
                "{name}: the table of arrows has it (xtask/src/tidy/arrows.rs), and the workspace has no such crate"
            ));
            continue;
        };
        let dependencies = package["dependencies"]
            .as_array()
            .context("a package lists its dependencies")?;
        let has = |on: &str| {
            let mut own = dependencies.iter();
            own.any(|dependency| dependency["name"] == on && dependency["kind"] != "dev")
        };
        let unused = allowed.iter().filter(|on| !has(on));
        stale.extend(unused.map(|on| {
            format!("{name} does not depend on {on}: take the arrow out of the table (xtask/src/tidy/arrows.rs)")
        }));
    }
    Ok(stale)
}

/// The packages of the workspace.
pub(super) fn ours(metadata: &Value) -> Result<Vec<&Value>> {
    let members = metadata["workspace_members"]
        .as_array()
        .context("metadata lists the members")?;
    let packages = metadata["packages"]
        .as_array()
        .context("metadata lists the packages")?;
    Ok(packages
        .iter()
        .filter(|package| members.contains(&package["id"]))
        .collect())
}
