//! Nodes that keep next to nothing of what waits in memory (M17): records leave it, are read back while cleaners, checkpoints, leaders,
//! kills and losses of power come between, and nobody can tell. By hand, more of them:
//! `cargo run --release -p courser-sim -- --cold --seeds 1000 --keep-going`.

use std::time::{Duration, Instant};

use courser_sim::{Counts, Plan, replay_command, run_plan};

/// Seeds of an ordinary test run.
const SEEDS: u64 = 60;

/// It takes no longer than this on a slow machine: then it says how many seeds it has run.
const LONGEST: Duration = Duration::from_secs(60);

/// Fewer seeds than this prove too little, however slow the machine.
const FEWEST: u64 = 9;

#[test]
fn m17_what_leaves_memory_comes_back_whatever_happens_meanwhile() {
    let begun = Instant::now();
    let mut sum = Counts::default();
    let mut broken = Vec::new();
    let mut ran = 0;
    for seed in 1..=SEEDS {
        if begun.elapsed() > LONGEST && ran >= FEWEST {
            break;
        }
        let plan = Plan::cold(seed);
        let again = replay_command(&plan);
        let outcome = run_plan(plan);
        ran += 1;
        sum.add(&outcome.counts);
        if let Some(violation) = outcome.violation {
            broken.push(format!("seed {seed}: {violation}\n  {again}"));
        }
    }
    eprintln!("{ran} seeds: {sum:?}");
    assert!(
        broken.is_empty(),
        "{} of {ran} seeds:\n{}",
        broken.len(),
        broken.join("\n")
    );
    // A run in which nothing happens proves nothing.
    assert!(
        sum.recalled > 20 * ran && sum.cleaned > ran && sum.recoveries > ran,
        "{sum:?}"
    );
}

#[test]
fn the_same_seed_gives_the_same_cold_world() {
    let (first, second) = (run_plan(Plan::cold(6)), run_plan(Plan::cold(6)));
    assert!(first.trace == second.trace, "two traces");
    assert_eq!(first.counts, second.counts);
}

#[test]
fn a_replay_command_names_the_cold_world() {
    for seed in [7, 9] {
        let command = replay_command(&Plan::cold(seed));
        assert!(
            command.ends_with(&format!("--from {seed} --trace --cold")),
            "{command}"
        );
    }
}
