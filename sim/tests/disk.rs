//! Nodes whose logs are on a disk: the log and the consensus of the broker, with kills, losses of power, failing calls, full
//! disks and flipped bits. By hand, more of them: `cargo run --release -p courser-sim -- --seeds 10000 --keep-going --disk`.

use courser_sim::{Counts, Plan, replay_command, run_plan};

/// Seeds of an ordinary test run; `COURSER_DISK_SEEDS` by hand.
const SEEDS: u64 = 60;

fn seeds() -> u64 {
    let many = std::env::var("COURSER_DISK_SEEDS")
        .ok()
        .and_then(|text| text.parse().ok());
    many.unwrap_or(SEEDS)
}

#[test]
fn every_seed_keeps_the_rules_on_a_disk() {
    let mut sum = Counts::default();
    let mut broken = Vec::new();
    for seed in 1..=seeds() {
        let mut plan = Plan::on_disk(seed);
        plan.groups = false;
        let again = replay_command(&plan);
        let outcome = run_plan(plan);
        sum.add(&outcome.counts);
        if let Some(violation) = outcome.violation {
            broken.push(format!("seed {seed}: {violation}\n  {again}"));
        }
    }
    assert!(
        broken.is_empty(),
        "{} of {} seeds:\n{}",
        broken.len(),
        seeds(),
        broken.join("\n")
    );
    // A run in which nothing happens proves nothing.
    assert!(
        sum.published > 50 * SEEDS && sum.delivered > 100 * SEEDS,
        "{sum:?}"
    );
    assert!(sum.resumed > SEEDS && sum.recoveries > 2 * SEEDS, "{sum:?}");
    assert!(
        sum.probes > 5 * SEEDS && sum.checkpoints > 2 * SEEDS && sum.failures > SEEDS / 4,
        "{sum:?}"
    );
}

#[test]
fn the_same_seed_gives_the_same_trace_on_a_disk() {
    for seed in [3, 17, 44] {
        let (first, second) = (run_plan(Plan::on_disk(seed)), run_plan(Plan::on_disk(seed)));
        assert!(first.trace.len() > 1_000, "seed {seed} has a trace");
        assert!(first.trace == second.trace, "seed {seed}: two traces");
        assert_eq!(first.counts, second.counts);
    }
}

#[test]
fn a_replay_command_names_the_disk() {
    let plan = Plan::on_disk(7);
    assert!(
        replay_command(&plan).ends_with("--from 7 --trace --disk"),
        "{}",
        replay_command(&plan)
    );
}
