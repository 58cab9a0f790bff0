//! Messages go when they have waited for a second or two, in worlds with a disk that fails, loses power and is restarted: each one that does
//! not arrive was counted (I1), and what is too old makes no difference to replays, checkpoints and what the cleaner moves.

use courser_sim::{Counts, Plan, run_plan};

const SEEDS: u64 = 60;

#[test]
fn i1_what_does_not_arrive_was_too_old_and_is_counted() {
    let mut sum = Counts::default();
    for seed in 1..=SEEDS {
        let mut plan = Plan::on_disk(seed);
        // In a group somebody else may have got it.
        plan.groups = false;
        plan.limits.queue_seconds_max = 1 + (seed % 2) as u32;
        let outcome = run_plan(plan);
        assert_eq!(outcome.violation, None, "seed {seed}");
        sum.add(&outcome.counts);
    }
    assert!(sum.too_old > SEEDS && sum.recoveries > SEEDS, "{sum:?}");
    assert!(sum.delivered > 2 * sum.too_old, "most arrive: {sum:?}");
}
