//! Runs of the simulator that every change must survive.

use courser_sim::{Counts, replay_command, run_seed};

/// Seeds of an ordinary test run.
const SEEDS: u64 = 300;

#[test]
fn every_seed_keeps_the_rules() {
    let mut sum = Counts::default();
    let mut broken = Vec::new();
    for seed in 1..=SEEDS {
        let outcome = run_seed(seed, None);
        sum.add(&outcome.counts);
        if let Some(violation) = outcome.violation {
            broken.push(format!(
                "seed {seed}: {violation}\n  {}",
                replay_command(seed, None)
            ));
        }
    }
    assert!(
        broken.is_empty(),
        "{} seeds of {SEEDS}:\n{}",
        broken.len(),
        broken.join("\n")
    );
    // A run in which nothing happens proves nothing.
    assert!(sum.published > 50 * SEEDS, "{sum:?}");
    assert!(sum.delivered > 100 * SEEDS, "{sum:?}");
    assert!(sum.resumed > SEEDS, "{sum:?}");
    assert!(sum.repeats > SEEDS / 2, "{sum:?}");
    assert!(sum.replays > 5 * SEEDS, "{sum:?}");
}

#[test]
fn the_same_seed_gives_the_same_trace() {
    for seed in [3, 17, 44, 91] {
        let (first, second) = (run_seed(seed, None), run_seed(seed, None));
        assert!(first.trace.len() > 1_000, "seed {seed} has a trace");
        assert!(first.trace == second.trace, "seed {seed}: two traces");
        assert_eq!(first.counts, second.counts);
    }
}

#[test]
fn different_seeds_give_different_runs() {
    assert_ne!(run_seed(1, None).trace, run_seed(2, None).trace);
}
