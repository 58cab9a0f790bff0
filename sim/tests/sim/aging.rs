//! Messages go when they have waited for a second or two, in worlds with a disk that fails, loses power and is restarted: each one that does
//! not arrive was counted (I1) and had waited for its time (M20), and what is too old makes no difference to replays, checkpoints and what
//! the cleaner moves. By hand, more of them: `cargo run --release -p courser-sim -- --aging --seeds 1000 --keep-going`.

use courser_sim::{Counts, Worlds, run_plan};

/// Half of them with shared groups.
const SEEDS: u64 = 80;

#[test]
fn i1_what_does_not_arrive_was_too_old_and_is_counted() {
    let mut sum = Counts::default();
    for seed in 1..=SEEDS {
        let outcome = run_plan(Worlds::Aging.plan(seed));
        assert_eq!(outcome.violation, None, "seed {seed}");
        sum.add(&outcome.counts);
    }
    assert!(sum.too_old > SEEDS && sum.recoveries > SEEDS, "{sum:?}");
    assert!(sum.delivered > 2 * sum.too_old, "most arrive: {sum:?}");
}
