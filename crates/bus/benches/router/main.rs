//! Speed of the router: `cargo bench -p courser-router --bench router -- [--twin DIR] [--rounds N] [PART ...]`
//!
//! Parts: `fixed`, `random`, `churn`, `threads`, `latency`, `million`; all if none is named. With `--twin` (a folder
//! with the compiled classes of the router on the JVM) `fixed` runs it too, in turn with ours, and prints the
//! ratios. Figures are CPU nanoseconds of one thread, medians over the rounds, unless they say otherwise. With
//! `--test` everything runs once and small, so that it cannot rot.
#![allow(clippy::print_stdout)] // it is what a benchmark is for

mod measure;
mod parts;
mod twin;
mod workload;

use std::path::PathBuf;

pub(crate) struct Options {
    twin: Option<PathBuf>,
    rounds: usize,
    /// Once and small.
    test: bool,
}

fn main() {
    let mut options = Options {
        twin: None,
        rounds: 5,
        test: false,
    };
    let mut parts = Vec::new();
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--twin" => options.twin = args.next().map(PathBuf::from),
            "--rounds" => {
                options.rounds = args
                    .next()
                    .and_then(|n| n.parse().ok())
                    .expect("--rounds N")
            }
            "--test" => (options.test, options.rounds) = (true, 1),
            "--bench" => {}
            part => parts.push(part.to_owned()),
        }
    }
    let wanted = |part: &str| parts.is_empty() || parts.iter().any(|p| p == part);
    type Part = (&'static str, fn(&Options));
    let all: [Part; 6] = [
        ("fixed", parts::fixed),
        ("random", parts::random),
        ("churn", parts::churn),
        ("threads", parts::threads),
        ("latency", parts::latency),
        ("million", parts::million),
    ];
    all.iter()
        .filter(|(name, _)| wanted(name))
        .for_each(|(_, part)| part(&options));
}
