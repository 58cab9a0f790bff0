//! Nodes that are backed up while they run and that lose their disk: each backup, in full or what is new, is restored and has what the source had; a
//! node that comes out of one goes on with another number of shards, and keeps all rules. By hand, more of them:
//! `cargo run --release -p courser-sim -- --backups --seeds 1000 --keep-going`.

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
fn every_backup_has_what_the_source_had_and_a_node_goes_on_from_it() {
    let (ran, sum) = crate::support::run(1..=SEEDS, Worlds::BackedUp, &ENOUGH, |_| None);
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
    let (first, second) = (
        run_plan(Worlds::BackedUp.plan(6)),
        run_plan(Worlds::BackedUp.plan(6)),
    );
    assert!(first.trace == second.trace, "two traces");
    assert_eq!(first.counts, second.counts);
}
