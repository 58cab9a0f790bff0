//! `cargo xtask instructions`: what a step of the data path costs in instructions, against what is recorded.
//!
//! Wall time on a shared machine says little; the count of instructions is the same on every run with the same
//! compiler, C library, valgrind and processor. So each kind of processor has a record of its own; with other tools than its nothing
//! is judged.

mod compare;
mod environment;
mod measure;
mod record;
mod runner;
mod share;

use crate::repo::Repo;
use crate::report::Outcome;
use anyhow::{Result, bail};
use compare::Comparison;
use environment::Environment;
use record::Record;
use std::fs;
use std::io::ErrorKind;
use std::process::ExitCode;

/// Folder of what was counted when somebody last looked at it, a file for each kind of processor.
const RECORDS: &str = "bench/instructions";

/// What to do with the counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Compare them with the record.
    Compare,
    /// Make them the record.
    Bless,
}

/// Counts, prints the table, and compares or records.
///
/// # Errors
/// When something cannot be installed, built or run, or the record cannot be read or written.
pub(crate) fn run(repo: &Repo, purpose: Purpose) -> Result<ExitCode> {
    runner::install_valgrind()?;
    let environment = Environment::here(repo)?;
    let counts = measure::measure(repo)?;
    // A file that is to be replaced may be missing or broken.
    let record = match (purpose, recorded(repo, &environment)) {
        (_, Ok(record)) => record,
        (Purpose::Bless, Err(_)) => None,
        (Purpose::Compare, Err(error)) => return Err(error),
    };
    let differences = differences(record.as_ref(), &environment);
    let comparison = Comparison::new(&record.unwrap_or_default().counts, &counts);
    println!("{comparison}");
    println!("{}", share::Share::of(&counts)?);
    match purpose {
        Purpose::Bless => {
            let path = path_for(&environment);
            let record = Record {
                environment,
                counts,
            };
            fs::write(repo.path(&path), record.text())?;
            println!("{path} is written");
            Ok(ExitCode::SUCCESS)
        }
        Purpose::Compare if !differences.is_empty() => {
            println!("not judged: {}", differences.join("; "));
            Ok(ExitCode::SUCCESS)
        }
        Purpose::Compare if comparison.failed() > 0 => Ok(ExitCode::FAILURE),
        Purpose::Compare => Ok(ExitCode::SUCCESS),
    }
}

/// The same as a step of the tests: each count is one. Not run where its result would mean nothing.
///
/// # Errors
/// When the benchmarks cannot be built or run, or the record cannot be read.
pub(crate) fn step(repo: &Repo) -> Result<Outcome> {
    if let Err(error) = runner::install_valgrind() {
        return Ok(Outcome::NotRun(format!("{error:#}")));
    }
    let environment = Environment::here(repo)?;
    let record = recorded(repo, &environment)?;
    let differences = differences(record.as_ref(), &environment);
    if !differences.is_empty() {
        return Ok(Outcome::NotRun(differences.join("; ")));
    }
    let comparison = compared(repo, &record.unwrap_or_default())?;
    println!("{comparison}");
    Ok(Outcome::Counted(comparison.tests()))
}

/// Builds what is counted, and what counts.
///
/// # Errors
/// When the benchmarks cannot be built, or their runner cannot be installed.
pub(crate) fn build(repo: &Repo) -> Result<()> {
    measure::build(repo)
}

/// Counts, and once more if something grew.
fn compared(repo: &Repo, record: &Record) -> Result<Comparison> {
    let first = measure::measure(repo)?;
    let comparison = Comparison::new(&record.counts, &first);
    if comparison.failed() == 0 {
        return Ok(comparison);
    }
    println!("{comparison}\n\ncounted again:");
    let second = measure::measure(repo)?;
    Ok(Comparison::or_least(&record.counts, &first, &second))
}

/// What was recorded on this kind of processor, if anything was.
fn recorded(repo: &Repo, environment: &Environment) -> Result<Option<Record>> {
    let path = path_for(environment);
    match fs::read_to_string(repo.path(&path)) {
        Ok(text) => Record::parse(&text).map(Some),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => bail!("{path}: {error}"),
    }
}

/// Why counts of this machine cannot be compared with the record.
fn differences(record: Option<&Record>, environment: &Environment) -> Vec<String> {
    match record {
        Some(record) => record.environment.differences(environment),
        None => vec![format!("there is no {}", path_for(environment))],
    }
}

fn path_for(environment: &Environment) -> String {
    format!("{RECORDS}/{}.toml", environment.slug())
}
