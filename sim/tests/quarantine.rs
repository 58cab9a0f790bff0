//! Nodes whose program panics at an entry, whenever it comes to it (M39, M50): at the third start the partition of that entry is set aside, the others serve, and
//! an operator has it try again, skip the entry or release its filters. Nothing else is lost. By hand, more of them:
//! `cargo run --release -p courser-sim -- --poisoned --seeds 1000 --keep-going`.

use std::time::{Duration, Instant};

use courser_sim::{Counts, Plan, replay_command, run_plan};

/// Seeds of an ordinary test run.
const SEEDS: u64 = 120;

/// It takes no longer than this on a slow machine: then it says how many seeds it has run.
const LONGEST: Duration = Duration::from_secs(60);

/// Fewer seeds than this prove too little, however slow the machine.
const FEWEST: u64 = 20;

#[test]
fn m50_a_partition_that_cannot_go_on_is_set_aside_and_the_others_serve() {
    let begun = Instant::now();
    let mut sum = Counts::default();
    let mut broken = Vec::new();
    let mut verbs = [0_usize; 3];
    let mut ran = 0;
    for seed in 1..=SEEDS {
        if begun.elapsed() > LONGEST && ran >= FEWEST {
            break;
        }
        let plan = Plan::poisoned(seed);
        let again = replay_command(&plan);
        let outcome = run_plan(plan);
        ran += 1;
        sum.add(&outcome.counts);
        for (count, verb) in verbs.iter_mut().zip(["Retry", "Skip", "Release"]) {
            *count += outcome.trace.matches(&format!("operator: {verb}")).count();
        }
        if let Some(violation) = outcome.violation {
            broken.push(format!("seed {seed}: {violation}\n  {again}"));
        }
    }
    eprintln!("{ran} seeds: {verbs:?}, {sum:?}");
    assert!(
        broken.is_empty(),
        "{} of {ran} seeds:\n{}",
        broken.len(),
        broken.join("\n")
    );
    // A run in which nothing happens proves nothing.
    assert!(sum.set_aside > ran / 2, "{sum:?}");
    assert!(verbs.iter().all(|count| *count > 1), "{verbs:?}");
    assert!(sum.delivered > 50 * ran, "{sum:?}");
}

#[test]
fn the_same_seed_gives_the_same_poisoned_node() {
    let (first, second) = (run_plan(Plan::poisoned(6)), run_plan(Plan::poisoned(6)));
    assert!(first.trace == second.trace, "two traces");
    assert_eq!(first.counts, second.counts);
}

#[test]
fn a_replay_command_names_the_poison() {
    let command = replay_command(&Plan::poisoned(7));
    assert!(
        command.ends_with("--from 7 --trace --poisoned"),
        "{command}"
    );
}
