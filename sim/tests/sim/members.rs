//! I2, I6, I13 and M5 of a group of three members, with links that lose and cut, disks that are slow, and power that goes. By hand, more of
//! them: `cargo run --release -p courser-sim -- --members --seeds 100000`.

use courser_sim::{Counts, Worlds, run_plan};

const SEEDS: u64 = 600;

#[test]
fn i6_members_agree_on_what_a_majority_has_synced() {
    let mut sum = Counts::default();
    for seed in 1..=SEEDS {
        let outcome = run_plan(Worlds::Members.plan(seed));
        assert_eq!(outcome.violation, None, "seed {seed}");
        sum.add(&outcome.counts);
    }
    assert!(sum.published > 200 * SEEDS, "{sum:?}");
    assert!(sum.entries > sum.published, "{sum:?}");
    assert!(sum.recoveries > 10 * SEEDS, "{sum:?}");
}

#[test]
fn one_seed_is_one_life_of_the_members() {
    for seed in [2, 19] {
        let (one, same) = (
            run_plan(Worlds::Members.plan(seed)),
            run_plan(Worlds::Members.plan(seed)),
        );
        assert!(one.trace.contains("loses power"), "seed {seed} has a trace");
        assert!(one.trace == same.trace, "seed {seed}: two traces");
        assert_eq!(one.counts, same.counts);
    }
}
