//! M38: clients that ask about a filter again before they have an answer, and whose sessions have so many filters that they are looked up by
//! their hash, with and without a disk. What was asked last about a filter is what is so. By hand, more of them:
//! `cargo run --release -p courser-sim -- --hasty --seeds 1000`.

use courser_sim::{Counts, Worlds, run_plan};

const SEEDS: u64 = 80;

#[test]
fn m38_what_was_asked_last_about_a_filter_is_so() {
    let mut sum = Counts::default();
    for seed in 1..=SEEDS {
        let outcome = run_plan(Worlds::Hasty.plan(seed));
        assert_eq!(outcome.violation, None, "seed {seed}");
        sum.add(&outcome.counts);
    }
    assert!(sum.delivered > 100 * SEEDS, "the rest arrives: {sum:?}");
    assert!(sum.asked_again > 50 * SEEDS, "they are hasty: {sum:?}");
    assert!(sum.many_filters > SEEDS / 4, "they have many: {sum:?}");
}
