//! M47: a node that lives long on a disk which fills up and gets no larger. What clients take makes the room for what they send: publishes are
//! refused and taken again many times, acknowledgements get through all the while, and when everything is taken there is more than the reserve.
//! By hand, more of them: `cargo run --release -p courser-sim -- --draining --seeds 1000`.

use courser_sim::{Worlds, run_plan};

const SEEDS: u64 = 16;

#[test]
fn m47_a_disk_that_was_drained_has_room_again() {
    let (mut short, mut enough, mut delivered) = (0, 0, 0);
    for seed in 1..=SEEDS {
        let outcome = run_plan(Worlds::Draining.plan(seed));
        assert_eq!(outcome.violation, None, "seed {seed}");
        short += outcome.trace.matches("has room: Short").count();
        enough += outcome.trace.matches("has room: Enough").count();
        delivered += outcome.counts.delivered;
    }
    assert!(short > 100, "disks fill up: {short}");
    assert!(enough > 80, "they are drained: {enough}");
    assert!(delivered > 1_000 * SEEDS, "clients take much: {delivered}");
}

/// A reserve of 64 batches, a sixteenth of the least that a broker has, is used up: nothing is committed for half a second, and a DISCONNECT that
/// had come meanwhile ends with the process. To the log its connection was lost then (M9).
#[test]
fn m47_a_good_bye_waits_for_room_like_everything_else() {
    let mut stands = 0;
    for seed in 6..=13 {
        let mut plan = Worlds::Draining.plan(seed);
        plan.disk
            .as_mut()
            .expect("it is on a disk")
            .reserve_segments = 4;
        let outcome = run_plan(plan);
        assert_eq!(outcome.violation, None, "seed {seed}");
        stands += u32::from(outcome.trace.contains("the log stands: true"));
    }
    assert!(stands > 0, "a reserve is used up");
}
