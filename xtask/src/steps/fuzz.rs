//! The fuzz targets: their corpus as plain tests, and a short run.
//!
//! `fuzz/` is a workspace of its own, whose targets need nightly and `cargo-fuzz`. `fuzz/tests/`, or a test of the
//! crate that is fuzzed, replays `fuzz/corpus/` on the stable toolchain.

use super::at_root;
use crate::counts::Tests;
use crate::process::{output, run, run_quietly, succeeds};
use crate::repo::{Repo, TextFile};
use crate::report::Outcome;
use anyhow::{Result, bail};

/// Seconds of a short run, for all targets together.
const SHORT_SECONDS: u64 = 120;
/// A target that needs more memory than this has a leak or believes a length that it was told.
const MEGABYTES_MAX: u32 = 2048;

/// Replays the kept inputs, unless tests of the crates already do.
pub(super) fn corpus(repo: &Repo) -> Result<Outcome> {
    if repo.has("fuzz/tests") {
        return super::cargo_test(repo, &["--manifest-path", "fuzz/Cargo.toml", "--tests"]);
    }
    let replays = |file: &TextFile| {
        file.path.starts_with("crates/")
            && file.path.contains("/tests")
            && file.text.contains("fuzz/src/kept.rs")
    };
    match repo.text_files()?.iter().find(|file| replays(file)) {
        Some(file) => Ok(Outcome::Held(format!(
            "replayed in the step unit by {}",
            file.path
        ))),
        None => bail!("no test replays fuzz/corpus"),
    }
}

/// A run of all targets that CI has the time for.
pub(super) fn short_run(repo: &Repo) -> Result<Outcome> {
    run_all(repo, SHORT_SECONDS)
}

/// Runs every target for its share of so many seconds; each counts as one test.
pub(super) fn run_all(repo: &Repo, seconds: u64) -> Result<Outcome> {
    if !succeeds(&mut at_root(repo, "cargo", &["+nightly", "--version"])) {
        return Ok(without("there is no nightly toolchain"));
    }
    if !has_cargo_fuzz(repo) {
        return Ok(without("cargo-fuzz cannot be installed"));
    }
    let list = output(&mut at_root(repo, "cargo", &["+nightly", "fuzz", "list"]))?;
    let targets: Vec<&str> = list
        .lines()
        .map(str::trim)
        .filter(|target| !target.is_empty())
        .collect();
    if targets.is_empty() {
        bail!("fuzz/Cargo.toml names no target");
    }
    let mut tests = Tests::default();
    for target in &targets {
        let result = fuzz(repo, target, (seconds / targets.len() as u64).max(1));
        if let Err(error) = &result {
            println!("{error:#}");
        }
        tests.take(target, result.is_ok());
    }
    Ok(Outcome::Counted(tests))
}

fn without(reason: &str) -> Outcome {
    Outcome::NotRun(format!("{reason}; see the step corpus for the kept inputs"))
}

fn has_cargo_fuzz(repo: &Repo) -> bool {
    succeeds(&mut at_root(repo, "cargo", &["fuzz", "--version"]))
        || run(&mut at_root(
            repo,
            "cargo",
            &["install", "--locked", "--quiet", "cargo-fuzz"],
        ))
        .is_ok()
}

fn fuzz(repo: &Repo, target: &str, seconds: u64) -> Result<()> {
    let seconds = format!("-max_total_time={seconds}");
    let memory = format!("-rss_limit_mb={MEGABYTES_MAX}");
    // New finds stay out of the kept corpus: the first folder is written to, the second only read.
    let fresh = repo.target()?.join("fuzz-corpus").join(target);
    std::fs::create_dir_all(&fresh)?;
    let fresh = fresh.display().to_string();
    let kept = repo.path("fuzz/corpus").join(target);
    std::fs::create_dir_all(&kept)?;
    let kept = kept.display().to_string();
    let arguments = [
        "+nightly",
        "fuzz",
        "run",
        // What is fuzzed forbids unsafe code, or has a step of its own under AddressSanitizer (bus-asan): it would find nothing here, and
        // doubles the time of the builds.
        "--sanitizer=none",
        target,
        &fresh,
        &kept,
        "--",
        &seconds,
        &memory,
        "-timeout=10",
        "-verbosity=0",
    ];
    // What it has learnt about its inputs, hundreds of lines for each target, is of no use to a reader.
    run_quietly(&mut at_root(repo, "cargo", &arguments))
}
