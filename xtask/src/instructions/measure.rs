//! Runs the benchmarks under valgrind and reads their counts.

#[cfg(test)]
mod tests;

use super::runner;
use crate::process::{command, output, run};
use crate::repo::Repo;
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::process::Command;

/// The benchmarks that count instructions: package and name.
const BENCHMARKS: [(&str, &str); 8] = [
    ("courser-access", "rights_instructions"),
    ("courser-broker", "latency_instructions"),
    ("courser-cluster", "consensus_instructions"),
    ("courser-log", "log_instructions"),
    ("courser-mqtt", "codec_instructions"),
    ("courser-trie", "matcher_instructions"),
    ("courser-engine", "partition_instructions"),
    ("courser-router", "post_instructions"),
];

/// One thing that is counted.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Case {
    /// The folder of the crate.
    pub(super) crate_name: String,
    pub(super) operation: String,
    pub(super) name: String,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.crate_name, self.operation, self.name)
    }
}

/// Instructions of each case.
pub(super) type Counted = BTreeMap<Case, u64>;

/// Builds and runs all of them.
///
/// # Errors
/// When the runner cannot be installed, or a benchmark does not build or run.
pub(super) fn measure(repo: &Repo) -> Result<Counted> {
    let runner = runner::find(repo)?;
    let home = repo.target()?.join("instructions");
    // What an earlier run left there would be compared with.
    if home.exists() {
        fs::remove_dir_all(&home)?;
    }
    let printed = output(
        benchmarks(repo)
            .env("GUNGRAUN_RUNNER", runner)
            .env("GUNGRAUN_HOME", home)
            .env("GUNGRAUN_OUTPUT_FORMAT", "json")
            // Only instructions are recorded; caches take twice the time.
            .env("GUNGRAUN_CALLGRIND_ARGS", "--cache-sim=no"),
    )?;
    counts(&printed)
}

/// Builds them and their runner.
///
/// # Errors
/// When the runner cannot be installed, or a benchmark does not build.
pub(super) fn build(repo: &Repo) -> Result<()> {
    runner::find(repo)?;
    run(benchmarks(repo).arg("--no-run"))
}

/// All of them, built as they are counted.
fn benchmarks(repo: &Repo) -> Command {
    let mut arguments = vec!["bench", "--locked"];
    for (package, name) in BENCHMARKS {
        arguments.extend(["--package", package, "--bench", name]);
    }
    let mut benchmarks = command("cargo", &arguments);
    benchmarks
        .current_dir(&repo.root)
        // The flags of the project count, not those of whoever calls.
        .env_remove("RUSTFLAGS")
        .env_remove("CARGO_ENCODED_RUSTFLAGS");
    benchmarks
}

/// The counts out of what the benchmarks print: a line of JSON for each case.
fn counts(printed: &str) -> Result<Counted> {
    let mut counts = Counted::new();
    for line in printed.lines().filter(|line| line.starts_with('{')) {
        let json: Value = serde_json::from_str(line).context("a benchmark prints JSON")?;
        let (case, count) = count(&json).with_context(|| format!("no count in {line}"))?;
        if counts.insert(case.clone(), count).is_some() {
            bail!("two benchmarks are called {case}");
        }
    }
    if counts.is_empty() {
        bail!("the benchmarks printed no counts");
    }
    Ok(counts)
}

fn count(json: &Value) -> Option<(Case, u64)> {
    let text = |name: &str| json[name].as_str();
    let case = Case {
        crate_name: text("package_dir")?.rsplit('/').next()?.to_owned(),
        operation: text("function_name")?.to_owned(),
        name: text("id")?.to_owned(),
    };
    let total = &json["profiles"][0]["data"]["total"];
    let count = total["metrics"]["Ir"]["values"]["new"].as_u64()?;
    Some((case, count))
}
