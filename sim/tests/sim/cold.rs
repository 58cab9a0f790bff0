//! Nodes that keep next to nothing of what waits in memory (M17): records leave it, are read back while cleaners, checkpoints, leaders,
//! kills and losses of power come between, and nobody can tell. By hand, more of them:
//! `cargo run --release -p courser-sim -- --cold --seeds 1000 --keep-going`.

use std::time::Duration;

use courser_sim::{Worlds, run_plan};

use crate::support::Enough;

/// Seeds of an ordinary test run.
const SEEDS: u64 = 60;

/// On a slow machine.
const ENOUGH: Enough = Enough {
    longest: Duration::from_secs(60),
    fewest: 9,
};

#[test]
fn m17_what_leaves_memory_comes_back_whatever_happens_meanwhile() {
    let (ran, sum) = crate::support::run(1..=SEEDS, Worlds::Cold, &ENOUGH, |_| None);
    // A run in which nothing happens proves nothing.
    assert!(
        sum.recalled > 20 * ran && sum.cleaned > ran && sum.recoveries > ran && sum.expired > ran,
        "{sum:?}"
    );
}

#[test]
fn the_same_seed_gives_the_same_cold_world() {
    let (first, second) = (
        run_plan(Worlds::Cold.plan(6)),
        run_plan(Worlds::Cold.plan(6)),
    );
    assert!(first.trace == second.trace, "two traces");
    assert_eq!(first.counts, second.counts);
}
