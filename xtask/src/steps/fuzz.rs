//! The fuzz targets: their corpus as plain tests, and a short run.
//!
//! `fuzz/` is a workspace of its own, whose targets need nightly and `cargo-fuzz`. `fuzz/tests/`, or a test of the
//! crate that is fuzzed, replays `fuzz/corpus/` on the stable toolchain.

use super::at_root;
use crate::counts::Tests;
use crate::process::{output, run, run_quietly, run_quietly_or, succeeds};
use crate::repo::{Repo, TextFile};
use crate::report::Outcome;
use anyhow::{Result, bail};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

/// Seconds of a short run of all targets.
const SHORT_SECONDS: u64 = 60;
/// A target that needs more memory than this has a leak or believes a length that it was told.
const MEGABYTES_MAX: u32 = 2048;
/// Seconds for one input.
const TIMEOUT: &str = "-timeout=10";

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

/// Runs every target for its share of so many seconds, side by side on all cores; each counts as one test.
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
    build(repo)?;
    let lanes = thread::available_parallelism()?.get();
    let share = (seconds * lanes as u64 / targets.len() as u64).max(1);
    Ok(Outcome::Counted(side_by_side(lanes, &targets, |target| {
        fuzz(repo, target, share)
    })))
}

/// All at once: one after the other each is built and linked on one core.
pub(super) fn build(repo: &Repo) -> Result<()> {
    run_quietly(&mut cargo_fuzz(repo, "build", &[]))
}

/// As many targets at once as there are lanes; one that fails says why.
fn side_by_side(lanes: usize, targets: &[&str], fuzz: impl Fn(&str) -> Result<()> + Sync) -> Tests {
    let next = AtomicUsize::new(0);
    let tests = Mutex::new(Tests::default());
    let lane = || {
        while let Some(target) = targets.get(next.fetch_add(1, Ordering::Relaxed)) {
            let (name, passed) = match fuzz(target) {
                Ok(()) => (target.to_string(), true),
                Err(error) => (format!("{target}: {error:#}"), false),
            };
            tests
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .take(&name, passed);
        }
    };
    thread::scope(|scope| {
        for _ in 0..lanes {
            scope.spawn(lane);
        }
    });
    tests.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// What is run is what was built: both have these flags.
fn cargo_fuzz(repo: &Repo, what: &str, arguments: &[&str]) -> Command {
    let flags = [
        "+nightly",
        "fuzz",
        what,
        // What is fuzzed forbids unsafe code, or has a step of its own under AddressSanitizer (bus-asan): it would find nothing here, and
        // doubles the time of the builds.
        "--sanitizer=none",
        // One unit for each crate, which is usual here, takes a core for as long again.
        "--codegen-units=16",
    ];
    at_root(repo, "cargo", &[&flags, arguments].concat())
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
        target,
        &fresh,
        &kept,
        "--",
        &seconds,
        &memory,
        TIMEOUT,
        "-verbosity=0",
    ];
    // What it has learnt about its inputs, hundreds of lines for each target, is of no use to a reader.
    let mut slow = None;
    let result = run_quietly_or(&mut cargo_fuzz(repo, "run", &arguments), |said| {
        slow = slow_input(said);
        what_was_found(said)
    });
    match (result, slow) {
        // Time is the machine's, which may have stood still: an input that is slow is slow again.
        (Err(_), Some(input)) => run_quietly_or(
            &mut cargo_fuzz(repo, "run", &[target, &input, "--", TIMEOUT]),
            what_was_found,
        ),
        (result, _) => result,
    }
}

/// Where the input is kept that took longer than it may.
fn slow_input(said: &str) -> Option<String> {
    let took_long = said.contains("ERROR: libFuzzer: timeout");
    let kept = said
        .lines()
        .find_map(|line| line.split_once("Test unit written to "));
    kept.filter(|_| took_long)
        .map(|(_, path)| path.trim().to_owned())
}

/// What one needs in order to see it again, from what libFuzzer prints: the panic with its message, its own name for it, and the input.
fn what_was_found(said: &str) -> Option<String> {
    let lines: Vec<&str> = said.lines().map(str::trim).collect();
    let mut found = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        if line.contains("panicked at") {
            found.extend(lines[at..].iter().take(2).copied());
        } else if line.contains("ERROR: libFuzzer") || line.starts_with("Base64: ") {
            found.push(line);
        }
    }
    (!found.is_empty()).then(|| found.join(" | "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_target_found_is_told_with_its_input() {
        let said = "INFO: Seed: 1\nthread '<unnamed>' panicked at src/a.rs:3:5:\nit does not hold\nstack backtrace:\n\
            ==12== ERROR: libFuzzer: deadly signal\n    #0 0x5\nartifact_prefix='a/'; Test unit written to a/crash-1\nBase64: YQ==\n";
        let found = "thread '<unnamed>' panicked at src/a.rs:3:5: | it does not hold | ==12== ERROR: libFuzzer: deadly signal | Base64: YQ==";
        assert_eq!(what_was_found(said).as_deref(), Some(found));
        assert_eq!(what_was_found("error: could not compile"), None);
    }

    #[test]
    fn only_an_input_that_took_long_is_tried_again() {
        let said = |what: &str| {
            format!(
                "ERROR: libFuzzer: {what} after 11 seconds\nartifact_prefix='a/'; Test unit written to a/b-1\nBase64: YQ==\n"
            )
        };
        assert_eq!(slow_input(&said("timeout")).as_deref(), Some("a/b-1"));
        assert_eq!(slow_input(&said("deadly signal")), None);
    }
}
