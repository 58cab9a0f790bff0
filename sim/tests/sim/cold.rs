//! Nodes that keep next to nothing of what waits in memory (M17): records leave it, are read back while cleaners, checkpoints, leaders,
//! kills and losses of power come between, and nobody can tell. By hand, more of them:
//! `cargo run --release -p courser-sim -- --cold --seeds 1000 --keep-going`.

use std::time::Duration;

use courser_sim::{Plan, Worlds, run_plan};

use crate::support::Enough;

/// Seeds of an ordinary test run.
const SEEDS: u64 = 60;

/// Seeds of those in which something rots.
const ROTTEN: usize = 60;

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

/// Whether something rots in the world of a seed.
fn rots(seed: u64) -> bool {
    let Plan { disk, .. } = Worlds::Cold.plan(seed);
    disk.is_some_and(|disk| disk.rots > 0)
}

/// It is never delivered, its streams alone stop, the scrub says so, and nothing else is lost once an operator has accepted it.
#[test]
fn m44_what_rots_while_the_node_runs_is_lost_alone_and_counted() {
    let seeds = (SEEDS + 1..).filter(|seed| rots(*seed)).take(ROTTEN);
    let (ran, sum) = crate::support::run(seeds, Worlds::Cold, &ENOUGH, |_| None);
    // A run in which nothing happens proves nothing.
    assert!(
        sum.rotted > ran / 2 && sum.found > ran / 8 && sum.unreadable > 0,
        "{sum:?}"
    );
    assert!(sum.repaired > 0 && sum.accepted > 0, "{sum:?}");
}

/// Of what a stream had asked for records had rotted, and others had expired meanwhile with their segment used again: the oracle took all of them for lost.
#[test]
fn i1_what_has_expired_since_it_was_asked_for_is_not_taken_for_lost() {
    let mut plan = Worlds::Cold.plan(40_050);
    let disk = plan.disk.as_mut().expect("cold worlds have a disk");
    disk.rots = 8;
    let outcome = run_plan(plan);
    assert_eq!(outcome.violation, None);
    let told = "1 records of partition 4 cannot be read back, and 1 that have ended";
    assert!(outcome.trace.contains(told), "it happens in this world");
}

/// What lies behind a damaged batch was told as lost until the next start; and who stopped at a record stood there for ever when another connection tried it
/// again and left (22049).
#[test]
fn m44_beside_much_rot_nothing_whole_is_lost_and_nobody_stands_still() {
    for seed in [20_380, 20_619, 20_698, 22_049] {
        let mut plan = Worlds::Cold.plan(seed);
        let disk = plan.disk.as_mut().expect("cold worlds have a disk");
        disk.rots = 8;
        let outcome = run_plan(plan);
        assert_eq!(outcome.violation, None, "seed {seed}");
        assert!(
            outcome.counts.rotted > 0,
            "it happens in the world of {seed}"
        );
    }
}

/// A segment had rotted out of which records had been moved, and which counted again since a start had found damage. The cleaner left it as damaged, and gave up what was moved
/// out of it: to the log the segment was whole.
#[test]
fn m41_what_was_moved_out_of_a_segment_that_is_left_as_damaged_is_kept() {
    let mut plan = Worlds::Cold.plan(24_257);
    let disk = plan.disk.as_mut().expect("cold worlds have a disk");
    disk.rots = 8;
    let outcome = run_plan(plan);
    assert_eq!(outcome.violation, None);
    let told = "the cleaner gives up Some(SegmentNumber(4))";
    assert!(outcome.trace.contains(told), "one is left in this world");
}

/// Where sessions refuse what they have no room for, the oracle took a message that had become too old, and was counted, for a lost one.
#[test]
fn m20_where_sessions_refuse_what_becomes_too_old_is_no_loss() {
    let mut plan = Worlds::Cold.plan(40_248).refusing();
    let disk = plan.disk.as_mut().expect("cold worlds have a disk");
    disk.rots = 8;
    let outcome = run_plan(plan);
    assert_eq!(outcome.violation, None);
    assert!(outcome.counts.too_old > 0, "it happens in this world");
}

#[test]
fn the_same_seed_gives_the_same_cold_world() {
    let rotten = (1..).find(|seed| rots(*seed)).expect("there are some");
    for seed in [6, rotten] {
        let (first, second) = (
            run_plan(Worlds::Cold.plan(seed)),
            run_plan(Worlds::Cold.plan(seed)),
        );
        assert!(first.trace == second.trace, "two traces");
        assert_eq!(first.counts, second.counts);
    }
}
