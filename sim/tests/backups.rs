//! Nodes that are backed up while they run and that lose their disk: each backup, in full or what is new, is restored and has what the source had; a
//! node that comes out of one goes on with another number of shards, and keeps all rules. By hand, more of them:
//! `cargo run --release -p courser-sim -- --backups --seeds 1000 --keep-going`.

use std::time::{Duration, Instant};

use courser_sim::{Counts, Plan, replay_command, run_plan};

/// Seeds of an ordinary test run.
const SEEDS: u64 = 120;

/// It takes no longer than this on a slow machine: then it says how many seeds it has run.
const LONGEST: Duration = Duration::from_secs(60);

/// Fewer seeds than this prove too little, however slow the machine.
const FEWEST: u64 = 20;

#[test]
fn every_backup_has_what_the_source_had_and_a_node_goes_on_from_it() {
    let begun = Instant::now();
    let mut sum = Counts::default();
    let mut broken = Vec::new();
    let mut ran = 0;
    for seed in 1..=SEEDS {
        if begun.elapsed() > LONGEST && ran >= FEWEST {
            break;
        }
        let plan = Plan::backed_up(seed);
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
        sum.backups > 2 * ran && sum.reused > 2 * ran && sum.restored > ran,
        "{sum:?}"
    );
    assert!(
        sum.cleaned > 10 * ran && sum.recoveries > 2 * ran,
        "{sum:?}"
    );
}

#[test]
fn the_same_seed_gives_the_same_node_out_of_a_backup() {
    let (first, second) = (run_plan(Plan::backed_up(6)), run_plan(Plan::backed_up(6)));
    assert!(first.trace == second.trace, "two traces");
    assert_eq!(first.counts, second.counts);
}

#[test]
fn a_replay_command_names_the_backups() {
    let command = replay_command(&Plan::backed_up(7));
    assert!(command.ends_with("--from 7 --trace --backups"), "{command}");
}
