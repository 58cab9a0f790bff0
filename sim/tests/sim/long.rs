//! Nodes that live long (M41): the log is used again many times while the cleaner, checkpoints, copies, kills and losses of power come
//! between each other. By hand, more of them: `cargo run --release -p courser-sim -- --long-life --seeds 1000 --keep-going`.

use std::time::Duration;

use courser_sim::{Plan, Worlds, run_plan};

use crate::support::Enough;

/// Seeds of an ordinary test run, in as many parts as there are tests for them.
const SEEDS: u64 = 40;
const PARTS: u64 = 2;

/// On a slow machine. For each part.
const ENOUGH: Enough = Enough {
    longest: Duration::from_secs(60),
    fewest: 6,
};

/// Segments that a seed begins, at least: as many generations of the log.
const GENERATIONS: u64 = 50;

fn part(first: u64) {
    let seeds = (first..=SEEDS).step_by(PARTS as usize);
    let (ran, sum) = crate::support::run(seeds, Worlds::LongLife, &ENOUGH, |outcome| {
        let segments = outcome.counts.segments;
        (segments < GENERATIONS).then(|| format!("it lives for {segments} segments only"))
    });
    // A run in which nothing happens proves nothing.
    assert!(
        sum.cleaned > 50 * ran && sum.kept > 500 * ran && sum.checkpoints > 50 * ran,
        "{sum:?}"
    );
    assert!(sum.passed > ran, "starts pass over segments: {sum:?}");
    assert!(
        sum.too_old > ran
            && sum.copies > ran / 2
            && sum.probes > 20 * ran
            && sum.recoveries > 2 * ran,
        "{sum:?}"
    );
}

#[test]
fn m41_every_seed_lives_through_many_segments_and_keeps_the_rules() {
    part(1);
}

#[test]
fn m41_every_seed_lives_through_many_segments_and_keeps_the_rules_second_part() {
    part(2);
}

/// M44, M47: a loss is accepted on a full disk; what comes behind it waits until there is room.
#[test]
fn m44_a_loss_is_accepted_when_there_is_room() {
    let plan = Plan {
        faulty_ms: 6_000,
        ..Worlds::LongLife.plan(875)
    };
    let outcome = run_plan(plan);
    assert_eq!(outcome.violation, None);
    assert!(outcome.trace.contains("the disk is full: true"), "it was");
}

#[test]
fn the_same_seed_gives_the_same_long_life() {
    let (first, second) = (
        run_plan(Worlds::LongLife.plan(6)),
        run_plan(Worlds::LongLife.plan(6)),
    );
    assert!(first.trace == second.trace, "two traces");
    assert_eq!(first.counts, second.counts);
}
