//! Random runs with random crashes: what is found is a state that was written, and none before the last sync (I1, D1, D2).

use std::cell::Cell;

use crate::support::{fail_a_checkpoint, fail_and_restart, lose_power, run, seeds};
use courser_log::testing::Call;

fn with_seeds(count: u64, run: impl Fn(u64)) {
    for seed in seeds(count) {
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| run(seed)));
        if let Err(panic) = result {
            eprintln!(
                "to see it again: SEED={seed} SEEDS=1 cargo test -p courser-log --test log crashes"
            );
            std::panic::resume_unwind(panic);
        }
    }
}

#[test]
fn d1_power_loss_leaves_a_state_that_was_written_and_none_before_the_last_sync() {
    let (mut cut, passed) = (0, Cell::new(0));
    with_seeds(20, |seed| {
        let world = run(seed, |world, choices| {
            lose_power(world, choices);
        });
        passed.set(passed.get() + world.passed);
    });
    for seed in 0..8 {
        let world = run(seed, |world, choices| {
            world.write().expect("written");
            lose_power(world, choices);
        });
        cut += world.seen_cut;
    }
    assert!(cut > 5, "torn ends occur: {cut}");
    let passed = passed.get();
    assert!(passed > 5, "segments that need not be read occur: {passed}");
}

#[test]
fn p1_a_killed_process_loses_nothing_that_it_wrote_and_power_loss_after_the_next_start_neither() {
    with_seeds(15, |seed| {
        run(seed, |world, choices| {
            let (disk, checkpoints) = (world.disk.kill(), world.checkpoints.kill());
            world.restart(disk, checkpoints);
            // All that was recovered is durable now.
            lose_power(world, choices);
        });
    });
}

#[test]
fn d5_a_failed_sync_is_final_and_what_the_next_start_finds_is_durable() {
    with_seeds(20, |seed| {
        run(seed, |world, choices| {
            fail_and_restart(world, choices, Call::Sync);
        });
    });
}

#[test]
fn d6_a_failed_write_is_final_and_what_the_next_start_finds_is_durable() {
    with_seeds(20, |seed| {
        run(seed, |world, choices| {
            fail_and_restart(world, choices, Call::Write);
        });
    });
}

#[test]
fn d4_d5_failed_renames_and_folder_syncs_do_no_harm() {
    with_seeds(15, |seed| {
        run(seed, |world, choices| {
            let call = [Call::Rename, Call::SyncDir, Call::Create][choices.below(3) as usize];
            fail_and_restart(world, choices, call);
        });
    });
}

/// Also for want of room, after which it is tried again: wherever that comes too late, what counts is not touched.
#[test]
fn d5_d8_failed_calls_of_checkpoints_do_no_harm() {
    let went_on = Cell::new(0);
    with_seeds(30, |seed| {
        run(seed, |world, choices| {
            let again = fail_a_checkpoint(world, choices);
            went_on.set(went_on.get() + u32::from(again));
        });
    });
    assert!(went_on.get() > 10, "some are tried again");
}
