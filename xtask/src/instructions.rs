//! `cargo xtask instructions`: what a step of the data path costs in instructions, against what is recorded.
//!
//! Wall time on a shared machine says little; the count of instructions is the same on every run with the same
//! compiler, C library and valgrind. With others it is not comparable, and nothing is judged.

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
use std::process::ExitCode;

/// What was counted when somebody last looked at it.
const RECORD: &str = "bench/instructions.toml";

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
    let record = match (purpose, recorded(repo)) {
        (_, Ok(record)) => record,
        (Purpose::Bless, Err(_)) => Record::default(),
        (Purpose::Compare, Err(error)) => return Err(error),
    };
    let comparison = Comparison::new(&record.counts, &counts);
    println!("{comparison}");
    println!("{}", share::Share::of(&counts)?);
    let differences = record.environment.differences(&environment);
    match purpose {
        Purpose::Bless => {
            let record = Record {
                environment,
                counts,
            };
            fs::write(repo.path(RECORD), record.text())?;
            println!("{RECORD} is written");
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
    let record = recorded(repo)?;
    if let Err(error) = runner::install_valgrind() {
        return Ok(Outcome::NotRun(format!("{error:#}")));
    }
    let differences = record.environment.differences(&Environment::here(repo)?);
    if !differences.is_empty() {
        return Ok(Outcome::NotRun(differences.join("; ")));
    }
    let comparison = compared(repo, &record)?;
    println!("{comparison}");
    Ok(Outcome::Counted(comparison.tests()))
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

fn recorded(repo: &Repo) -> Result<Record> {
    match fs::read_to_string(repo.path(RECORD)) {
        Ok(text) => Record::parse(&text),
        Err(error) => bail!("{RECORD}: {error}; `cargo xtask instructions --bless` writes it"),
    }
}
