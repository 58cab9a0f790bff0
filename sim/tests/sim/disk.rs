//! Nodes whose logs are on a disk: the log and the consensus of the broker, with kills, losses of power, failing calls, full
//! disks and flipped bits. By hand, more of them: `cargo run --release -p courser-sim -- --seeds 10000 --keep-going --disk`.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use courser_sim::{Counts, Worlds, replay_command, run_plan};

/// Seeds of an ordinary test run, in as many parts as there are tests for them; `COURSER_DISK_SEEDS` by hand.
const SEEDS: u64 = 1_000;
const PARTS: u64 = 4;

/// No part takes longer than this on a slow machine: then it says how many seeds it has run.
const LONGEST: Duration = Duration::from_secs(180);

/// Fewer seeds than this in a part prove too little, however slow the machine.
const FEWEST: u64 = 50;

/// Parts that are done, with what they have come to.
static DONE: Mutex<Vec<(u64, Counts)>> = Mutex::new(Vec::new());

fn seeds() -> u64 {
    let many = std::env::var("COURSER_DISK_SEEDS")
        .ok()
        .and_then(|text| text.parse().ok());
    many.unwrap_or(SEEDS)
}

/// Every fourth seed from this one on.
fn part(first: u64) {
    let begun = Instant::now();
    let mut sum = Counts::default();
    let mut broken = Vec::new();
    let mut ran = 0;
    let all = (first..=seeds()).step_by(PARTS as usize);
    let wanted = all.clone().count() as u64;
    for seed in all {
        if begun.elapsed() > LONGEST && ran >= FEWEST && seeds() == SEEDS {
            break;
        }
        let plan = Worlds::Disk.plan(seed);
        let again = replay_command(&plan);
        let outcome = run_plan(plan);
        sum.add(&outcome.counts);
        ran += 1;
        if let Some(violation) = outcome.violation {
            broken.push(format!("seed {seed}: {violation}\n  {again}"));
        }
    }
    eprintln!("{ran} of {wanted} seeds: {sum:?}");
    assert!(
        broken.is_empty(),
        "{} of {ran} seeds:\n{}",
        broken.len(),
        broken.join("\n")
    );
    assert_busy(ran, &sum);
    assert_all_busy(ran, sum);
}

/// A run in which nothing happens proves nothing.
fn assert_busy(ran: u64, sum: &Counts) {
    if ran < FEWEST {
        return;
    }
    assert!(
        sum.published > 50 * ran && sum.delivered > 100 * ran,
        "{sum:?}"
    );
    assert!(sum.resumed > ran && sum.recoveries > 2 * ran, "{sum:?}");
    assert!(
        sum.probes > 5 * ran && sum.checkpoints > 2 * ran && sum.damaged > ran,
        "{sum:?}"
    );
}

/// What is rare has happened in all parts together: of one a slow machine runs so few seeds that it may not. The last part that is done says so.
fn assert_all_busy(ran: u64, sum: Counts) {
    let (ran, sum) = {
        let mut done = DONE.lock().expect("nothing fails while it is held");
        done.push((ran, sum));
        if (done.len() as u64) < PARTS {
            return;
        }
        let mut all = Counts::default();
        done.iter().for_each(|(_, sum)| all.add(sum));
        (done.iter().map(|(ran, _)| ran).sum::<u64>(), all)
    };
    if ran < FEWEST * PARTS {
        return;
    }
    assert!(sum.failures > ran / 4, "{sum:?}");
    // What relaxed sessions lose: they sync with whatever durable ones write.
    assert!(sum.rolled_back > 0, "{sum:?}");
}

#[test]
fn every_seed_keeps_the_rules_on_a_disk() {
    part(1);
}

#[test]
fn every_seed_keeps_the_rules_on_a_disk_second_part() {
    part(2);
}

#[test]
fn every_seed_keeps_the_rules_on_a_disk_third_part() {
    part(3);
}

#[test]
fn every_seed_keeps_the_rules_on_a_disk_fourth_part() {
    part(4);
}

/// Nothing orders two connections of a client: a CONNECT with clean start that its client had given up came, over a slow link, behind that
/// of its next connection, and took the client id from it (M24).
#[test]
fn a_connect_that_comes_late_is_the_last_one() {
    let outcome = run_plan(Worlds::Disk.plan(453));
    assert_eq!(outcome.violation, None);
    let late = outcome.trace.find("conn 2 closed by its front: Lost");
    let next = outcome.trace.find("conn 4 closed by its front: TakenOver");
    assert!(next.is_some() && late > next, "the older one came later");
}

/// Disks on which calls fail all the time, also while a start reads checkpoints (one of these): the supervisor tries again.
#[test]
fn a_disk_that_fails_again_and_again_loses_nothing() {
    let mut failures = 0;
    for seed in 1..=60 {
        let mut plan = Worlds::Disk.plan(seed);
        plan.disk.as_mut().expect("it is on a disk").failures = 200;
        let outcome = run_plan(plan);
        assert_eq!(outcome.violation, None, "seed {seed}");
        failures += outcome.counts.failures;
    }
    assert!(failures > 60, "{failures}");
}

#[test]
fn the_same_seed_gives_the_same_trace_on_a_disk() {
    for seed in [3, 17, 44] {
        let (first, second) = (
            run_plan(Worlds::Disk.plan(seed)),
            run_plan(Worlds::Disk.plan(seed)),
        );
        assert!(first.trace.len() > 1_000, "seed {seed} has a trace");
        assert!(first.trace == second.trace, "seed {seed}: two traces");
        assert_eq!(first.counts, second.counts);
    }
}
