//! Speed of the router: `cargo bench -p courser-router --bench router -- [--twin DIR] [--rounds N] [PART ...]`
//!
//! Parts are the three workloads `fixed`, `random`, `churn`, and `million`; all if none is named, which takes about
//! eight minutes on a quiet machine and prints what `BENCHMARKS.md` shows. With `--twin` (a folder with the compiled
//! classes of the router on the JVM) `fixed` runs it too, in turn with ours, and prints the ratios. With `--test`
//! everything runs once and small, so that it cannot rot.
#![allow(clippy::print_stdout)] // it is what a benchmark is for

mod churn;
mod fixed;
mod machine;
mod measure;
mod million;
mod random;
mod table;
mod twin;
mod wall;
mod workload;

use std::path::PathBuf;
use std::time::Duration;
use workload::Shape;

pub(crate) struct Options {
    twin: Option<PathBuf>,
    rounds: usize,
    /// Once and small.
    test: bool,
}

impl Options {
    /// Every row of a workload: place in the table of sizes, subscribers, shape.
    fn rows(&self) -> impl Iterator<Item = (usize, u64, Shape)> + use<> {
        let sizes = if self.test { &SIZES[..3] } else { &SIZES };
        let shapes = [Shape::Mono, Shape::Mega];
        sizes
            .iter()
            .enumerate()
            .flat_map(move |(at, &n)| shapes.map(move |shape| (at, n, shape)))
    }

    /// CPU time over which one round takes its mean, about: as long as the twin's.
    fn round_ns(&self) -> f64 {
        if self.test { 1e5 } else { twin::SECONDS * 1e9 }
    }

    /// Wall time of one round on one or two threads.
    fn round_wall(&self) -> Duration {
        Duration::from_millis(if self.test { 2 } else { 100 })
    }
}

const SIZES: [u64; 5] = [10, 100, 1_000, 10_000, 100_000];

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
    type Part = (&'static str, fn(&Options));
    let all: [Part; 4] = [
        ("fixed", fixed::run),
        ("random", random::run),
        ("churn", churn::run),
        ("million", million::run),
    ];
    if let Some(unknown) = parts
        .iter()
        .find(|part| all.iter().all(|(name, _)| name != part))
    {
        panic!("there is no part {unknown:?}");
    }
    let wanted = |part: &str| parts.is_empty() || parts.iter().any(|p| p == part);
    machine::describe();
    all.iter()
        .filter(|(name, _)| wanted(name))
        .for_each(|(_, part)| part(&options));
    machine::load("at the end");
}
