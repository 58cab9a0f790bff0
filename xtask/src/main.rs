//! `cargo xtask`: the commands of the project. `cargo xtask ci` is what CI runs. Nothing here edits a file,
//! except `cargo xtask instructions --bless`, which records counts.
//!
//! One module for each command; `repo`, `process` and `counts` are what they share.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout)] // a command talks to its user

mod ahead;
mod cargo_tool;
mod ci;
mod clauses;
mod counts;
mod instructions;
mod process;
mod repo;
mod report;
mod skips;
mod steps;
mod tidy;

use anyhow::Result;
use clap::{Parser, Subcommand};
use instructions::Purpose;
use repo::Repo;
use report::Report;
use std::process::ExitCode;
use steps::Step;

#[derive(Parser)]
#[command(
    name = "cargo xtask",
    about = "Build, test and check commands of the project."
)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Formatting, lints, documentation, house checks, then `test`.
    Ci,
    /// Every test there is; the last line is `N passed, N failed`.
    Test {
        /// Only this step; may be given more than once.
        #[arg(long, value_name = "STEP")]
        only: Vec<Step>,
    },
    /// Kills the broker again and again under load from real clients and checks what it promised.
    Crash {
        /// How often; with `--resume` kills of earlier runs count.
        #[arg(long, default_value_t = 25)]
        cycles: u32,
        /// Go on counting where the last run ended.
        #[arg(long)]
        resume: bool,
        /// Of the moments of the kills, as a failed run has printed it.
        #[arg(long)]
        seed: Option<u32>,
    },
    /// Every fuzz target for its share of a longer run than CI has time for; what is found stays in target/fuzz-corpus.
    Fuzz {
        /// For all of them, side by side.
        #[arg(long, default_value_t = 60)]
        minutes: u64,
    },
    /// Builds what later steps of `test` need, which it does by itself while tests leave cores idle.
    #[command(hide = true)]
    Ahead,
    /// House checks: arrows between crates, pure crates, words that must not be in files; report of long files.
    Tidy,
    /// Report of the numbered statements of the MQTT standards that no test names.
    Clauses,
    /// Instruction counts of the data path against the recorded ones; fails when one grew by more than 3 %.
    Instructions {
        /// Record the new counts in bench/instructions, for this kind of processor.
        #[arg(long)]
        bless: bool,
    },
}

fn main() -> ExitCode {
    run(&Arguments::parse().command).unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::FAILURE
    })
}

fn crash(repo: &Repo, cycles: u32, resume: bool, seed: Option<u32>) -> Result<report::Outcome> {
    let (cycles, seed) = (cycles.to_string(), seed.map(|seed| seed.to_string()));
    let mut arguments = vec!["--cycles", &cycles];
    if resume {
        arguments.push("--resume");
    }
    if let Some(seed) = &seed {
        arguments.extend(["--seed", seed]);
    }
    steps::crash(repo, &arguments)
}

fn run(command: &Command) -> Result<ExitCode> {
    let repo = Repo::find()?;
    let mut report = Report::default();
    match command {
        Command::Ci => {
            ahead::beside(&repo, &mut report, |report| ci::run(&repo, report));
            if std::env::var_os("CI").is_some() {
                report.judge_skipped();
            }
        }
        Command::Test { only } if only.is_empty() => {
            ahead::beside(&repo, &mut report, |report| {
                steps::run(&repo, only, report);
            });
        }
        Command::Test { only } => steps::run(&repo, only, &mut report),
        Command::Crash {
            cycles,
            resume,
            seed,
        } => report.tests("crash", || crash(&repo, *cycles, *resume, *seed)),
        Command::Fuzz { minutes } => report.tests("fuzz", || steps::fuzz(&repo, minutes * 60)),
        Command::Ahead => return Ok(ahead::run(&repo)),
        Command::Tidy => return tidy::run(&repo).map(|()| ExitCode::SUCCESS),
        Command::Clauses => return clauses::run(&repo).map(|()| ExitCode::SUCCESS),
        Command::Instructions { bless: false } => {
            return instructions::run(&repo, Purpose::Compare);
        }
        Command::Instructions { bless: true } => return instructions::run(&repo, Purpose::Bless),
    }
    Ok(report.finish())
}
