//! Nodes whose program panics at an entry, whenever it comes to it (M39, M50): at the third start the partition of that entry is set aside, the others serve, and
//! an operator has it try again, skip the entry or release its filters. Nothing else is lost. By hand, more of them:
//! `cargo run --release -p courser-sim -- --poisoned --seeds 1000 --keep-going`.

use std::time::Duration;

use courser_sim::{Worlds, run_plan};

use crate::support::Enough;

/// Seeds of an ordinary test run.
const SEEDS: u64 = 120;

/// On a slow machine.
const ENOUGH: Enough = Enough {
    longest: Duration::from_secs(60),
    fewest: 20,
};

#[test]
fn m50_a_partition_that_cannot_go_on_is_set_aside_and_the_others_serve() {
    let mut verbs = [0_usize; 3];
    let (ran, sum) = crate::support::run(1..=SEEDS, Worlds::Poisoned, &ENOUGH, |outcome| {
        for (count, verb) in verbs.iter_mut().zip(["Retry", "Skip", "Release"]) {
            *count += outcome.trace.matches(&format!("operator: {verb}")).count();
        }
        None
    });
    // A run in which nothing happens proves nothing.
    assert!(sum.set_aside > ran / 2, "{sum:?}");
    assert!(verbs.iter().all(|count| *count > 1), "{verbs:?}");
    assert!(sum.delivered > 50 * ran, "{sum:?}");
}

#[test]
fn the_same_seed_gives_the_same_poisoned_node() {
    let (first, second) = (
        run_plan(Worlds::Poisoned.plan(6)),
        run_plan(Worlds::Poisoned.plan(6)),
    );
    assert!(first.trace == second.trace, "two traces");
    assert_eq!(first.counts, second.counts);
}
