//! Seeds one after the other, for tests that run as many as a machine has the time for.

use std::time::{Duration, Instant};

use courser_sim::{Counts, Outcome, Worlds, replay_command, run_plan};

/// How many seeds are enough.
pub(crate) struct Enough {
    /// After this time no other seed begins: then it says how many it has run.
    pub(crate) longest: Duration,
    /// Fewer seeds than this prove too little, however slow the machine.
    pub(crate) fewest: u64,
}

/// Runs seeds: how many, and the sums. `look` tells what is wrong with a run that keeps all rules.
///
/// # Panics
/// When a rule is broken or `look` has found something, with all of it.
pub(crate) fn run(
    seeds: impl Iterator<Item = u64>,
    worlds: Worlds,
    enough: &Enough,
    mut look: impl FnMut(&Outcome) -> Option<String>,
) -> (u64, Counts) {
    let begun = Instant::now();
    let mut sum = Counts::default();
    let mut broken = Vec::new();
    let mut ran = 0;
    for seed in seeds {
        if begun.elapsed() > enough.longest && ran >= enough.fewest {
            break;
        }
        let plan = worlds.plan(seed);
        let again = replay_command(&plan);
        let outcome = run_plan(plan);
        ran += 1;
        sum.add(&outcome.counts);
        let found = look(&outcome);
        let wrong = outcome.violation.map(|it| it.to_string()).or(found);
        broken.extend(wrong.map(|wrong| format!("seed {seed}: {wrong}\n  {again}")));
    }
    eprintln!("{ran} seeds: {sum:?}");
    assert!(
        broken.is_empty(),
        "{} of {ran} seeds:\n{}",
        broken.len(),
        broken.join("\n")
    );
    (ran, sum)
}
