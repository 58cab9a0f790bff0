//! `cargo xtask test`: every test there is, step by step.

mod fuzz;

use crate::process::{command, count_tests, run as run_program};
use crate::repo::Repo;
use crate::report::{Outcome, Report};
use crate::{cargo_tool, clauses, instructions, process};
use anyhow::Result;
use clap::ValueEnum;
use std::path::PathBuf;
use std::process::Command;

/// The variable from which proptest takes its seed.
const PROPERTY_SEED: &str = "PROPTEST_RNG_SEED";

/// The version that made the header of the bus's C interface.
const CBINDGEN: &str = "0.29.4";

/// A step of the tests, in the order in which they run: what fails fast comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Step {
    /// Programs that the other steps need.
    Tools,
    /// Tests of all crates.
    Unit,
    /// Tests of the broker with connections that move to another shard.
    Placement,
    /// Examples in the documentation.
    Doc,
    /// Which statements of the standards the tests name.
    Clauses,
    /// Licences, bans and sources of dependencies.
    Deny,
    /// Every kept input of the fuzz targets, as plain tests.
    Corpus,
    /// Our codec against others.
    Differential,
    /// The C interface of the bus, also under AddressSanitizer.
    BusC,
    /// The Python package of the bus.
    BusPython,
    /// The lock-free part of the bus in every interleaving.
    BusLoom,
    /// The trie and the bus under AddressSanitizer.
    BusAsan,
    /// Instruction counts of the data path against the recorded ones.
    Instructions,
    /// A release build with real clients.
    E2e,
    /// The broker killed 25 times under load from real clients, five of them on full disks.
    Crash,
    /// A short run of every fuzz target.
    Fuzz,
}

/// Runs `only` these steps, or all of them when it is empty.
pub(crate) fn run(repo: &Repo, only: &[Step], report: &mut Report) {
    for step in Step::value_variants()
        .iter()
        .filter(|step| only.is_empty() || only.contains(step))
    {
        report.tests(&name(*step), || run_step(repo, *step));
    }
}

fn name(step: Step) -> String {
    step.to_possible_value()
        .map_or_else(String::new, |value| value.get_name().to_owned())
}

fn run_step(repo: &Repo, step: Step) -> Result<Outcome> {
    match step {
        Step::Tools => tools(repo),
        Step::Unit => cargo_test(repo, &["--workspace", "--lib", "--bins", "--tests"]),
        Step::Placement => placement(repo),
        Step::Doc => cargo_test(repo, &["--workspace", "--doc"]),
        Step::Clauses => clauses::run(repo).map(|()| Outcome::Held("the floor is kept".to_owned())),
        Step::Deny => deny(repo),
        Step::Corpus => fuzz::corpus(repo),
        Step::Differential => differential(repo),
        Step::BusC => bus_c(repo),
        Step::BusPython => script(repo, "crates/bus-python/test.sh"),
        Step::BusLoom => script(repo, "crates/bus/loom.sh"),
        Step::BusAsan => script(repo, "crates/bus/asan.sh"),
        Step::Instructions => instructions::step(repo),
        Step::E2e => e2e(repo),
        Step::Crash => crash(repo, &["--cycles", "25"]),
        Step::Fuzz => fuzz::short_run(repo),
    }
}

/// A command that runs at the root of the project.
fn at_root(repo: &Repo, program: &str, arguments: &[&str]) -> Command {
    let mut command = command(program, arguments);
    command.current_dir(&repo.root);
    command
}

fn cargo_test(repo: &Repo, what: &[&str]) -> Result<Outcome> {
    cargo_test_with(repo, what, &[])
}

/// The same with these variables.
fn cargo_test_with(repo: &Repo, what: &[&str], variables: &[(&str, &str)]) -> Result<Outcome> {
    let arguments = [&["test", "--locked", "--no-fail-fast"], what].concat();
    let mut tests = at_root(repo, "cargo", &arguments);
    tests.envs(variables.iter().copied());
    // In CI properties see the same inputs every time, so that a commit is judged by what it changes. By hand they wander.
    if std::env::var_os("CI").is_some() && std::env::var_os(PROPERTY_SEED).is_none() {
        tests.env(PROPERTY_SEED, "20250101");
    }
    count_tests(&mut tests).map(Outcome::Counted)
}

/// What connections are promised around logins, doors, restarts and pacing holds wherever they are served.
fn placement(repo: &Repo) -> Result<Outcome> {
    // Of the whole workspace, so that nothing is built anew for it; the modules of one program of tests.
    let mut what = vec!["--workspace", "--test", "broker", "--"];
    what.extend([
        "access::",
        "access_paths::",
        "doors::",
        "pacing::",
        "restart::",
        "tokens::",
    ]);
    cargo_test_with(repo, &what, &[("COURSER_TEST_PLACEMENT", "home")])
}

fn tools(repo: &Repo) -> Result<Outcome> {
    run_program(&mut at_root(repo, "bash", &[".ci/install"]))?;
    Ok(Outcome::Held("ready".to_owned()))
}

/// The script says what it has checked and what it could not.
fn deny(repo: &Repo) -> Result<Outcome> {
    let mut script = at_root(repo, "bash", &[".ci/deny"]);
    let said = process::output(script.env("CARGO_TARGET_DIR", repo.target()?))?;
    Outcome::said_by(&said)
}

/// A workspace of its own: others' codecs are built for nothing else.
const DIFFERENTIAL: [&str; 3] = [
    "--release",
    "--manifest-path",
    "tests/differential/Cargo.toml",
];

fn differential(repo: &Repo) -> Result<Outcome> {
    cargo_test(repo, &DIFFERENTIAL)
}

/// What that step needs.
pub(crate) fn build_differential(repo: &Repo) -> Result<()> {
    let build = ["test", "--locked", "--no-run"];
    run_program(&mut at_root(
        repo,
        "cargo",
        &[&build[..], &DIFFERENTIAL].concat(),
    ))
}

fn cbindgen(repo: &Repo) -> Result<PathBuf> {
    cargo_tool::find(repo, "cbindgen", CBINDGEN)
}

/// The script says that it left the header unchecked where cbindgen cannot be had.
fn bus_c(repo: &Repo) -> Result<Outcome> {
    let mut script = at_root(repo, "bash", &["crates/bus-c/test.sh"]);
    match cbindgen(repo) {
        Ok(cbindgen) => drop(script.env("CBINDGEN", cbindgen)),
        Err(error) => println!("{error:#}"),
    }
    count_tests(&mut script).map(Outcome::Counted)
}

fn script(repo: &Repo, path: &str) -> Result<Outcome> {
    count_tests(&mut at_root(repo, "bash", &[path])).map(Outcome::Counted)
}

fn e2e(repo: &Repo) -> Result<Outcome> {
    let mut tests = at_root(repo, "bash", &["tests/e2e/run.sh"]);
    count_tests(tests.env("COURSER_BIN", binary(repo)?)).map(Outcome::Counted)
}

/// Kills the broker under load and checks what it promised; each kill counts as one test.
pub(crate) fn crash(repo: &Repo, arguments: &[&str]) -> Result<Outcome> {
    let all = [&["tests/e2e/run.sh", "crash"], arguments].concat();
    let mut cycles = at_root(repo, "bash", &all);
    count_tests(cycles.env("COURSER_BIN", binary(repo)?)).map(Outcome::Counted)
}

/// Every fuzz target for its share of so many seconds; each counts as one test.
pub(crate) fn fuzz(repo: &Repo, seconds: u64) -> Result<Outcome> {
    fuzz::run_all(repo, seconds)
}

/// What the step of the bus's C interface needs.
pub(crate) fn install_cbindgen(repo: &Repo) -> Result<()> {
    cbindgen(repo).map(drop)
}

/// What the steps with real clients need.
pub(crate) fn build_broker(repo: &Repo) -> Result<()> {
    binary(repo).map(drop)
}

/// What the fuzz targets need.
pub(crate) fn build_fuzz_targets(repo: &Repo) -> Result<()> {
    fuzz::build(repo)
}

/// A release build of the broker.
fn binary(repo: &Repo) -> Result<PathBuf> {
    process::run(&mut at_root(
        repo,
        "cargo",
        &["build", "--locked", "--release", "--package", "courser"],
    ))?;
    Ok(repo.target()?.join("release").join("courser"))
}
