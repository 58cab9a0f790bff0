//! Random runs with random crashes: what is found is a state that was written, and none before the last sync (I1, D1, D2).

mod support;

use courser_log::testing::{Call, Choices};
use std::io::ErrorKind;
use support::World;

fn run(seed: u64, crash: impl Fn(&mut World, &mut Choices)) -> World {
    let mut world = World::new(seed);
    let mut choices = Choices::new(seed ^ 0x5555);
    for _ in 0..6 {
        for _ in 0..choices.below(120) {
            world.step();
        }
        crash(&mut world, &mut choices);
    }
    world
}

fn with_seeds(count: u64, run: impl Fn(u64)) {
    let number = |name: &str| Some(std::env::var(name).ok()?.parse().expect("a number"));
    let from: u64 = number("SEED").unwrap_or(0);
    let count = number("SEEDS").unwrap_or(count);
    for seed in from..from + count {
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| run(seed)));
        if let Err(panic) = result {
            eprintln!(
                "to see it again: SEED={seed} SEEDS=1 cargo test -p courser-log --test crashes"
            );
            std::panic::resume_unwind(panic);
        }
    }
}

#[test]
fn d1_power_loss_leaves_a_state_that_was_written_and_none_before_the_last_sync() {
    let mut cut = 0;
    with_seeds(20, |seed| {
        run(seed, |world, choices| {
            let disk = world.disk.power_loss(choices.next_u64());
            let checkpoints = world.checkpoints.power_loss(choices.next_u64());
            world.restart(disk, checkpoints);
        });
    });
    for seed in 0..8 {
        let world = run(seed, |world, choices| {
            world.write().expect("written");
            let disk = world.disk.power_loss(choices.next_u64());
            let checkpoints = world.checkpoints.power_loss(choices.next_u64());
            world.restart(disk, checkpoints);
        });
        cut += world.seen_cut;
    }
    assert!(cut > 5, "torn ends occur: {cut}");
}

#[test]
fn p1_a_killed_process_loses_nothing_that_it_wrote_and_power_loss_after_the_next_start_neither() {
    with_seeds(15, |seed| {
        run(seed, |world, choices| {
            let (disk, checkpoints) = (world.disk.kill(), world.checkpoints.kill());
            world.restart(disk, checkpoints);
            // All that was recovered is durable now.
            let disk = world.disk.power_loss(choices.next_u64());
            let checkpoints = world.checkpoints.power_loss(choices.next_u64());
            world.restart(disk, checkpoints);
        });
    });
}

/// A failed call, then the end of the process; sometimes of the power too.
fn fail_and_restart(world: &mut World, choices: &mut Choices, call: Call) {
    world.disk.fail(call, choices.below(4), 1, ErrorKind::Other);
    let mut failed = false;
    for _ in 0..60 {
        let result = match choices.below(3) {
            0 => world.sync(),
            1 => world.log.witness().map(|_| ()),
            _ => world.write(),
        };
        if let Err(error) = result {
            assert!(error.is_final());
            failed = true;
            break;
        }
        world.background();
    }
    if failed {
        assert!(world.log.sync().is_err(), "a failure is final");
        assert!(world.write().is_err(), "a failure is final");
    }
    let (disk, checkpoints) = (world.disk.kill(), world.checkpoints.kill());
    if choices.below(2) == 0 {
        let disk = disk.power_loss(choices.next_u64());
        let checkpoints = checkpoints.power_loss(choices.next_u64());
        world.restart(disk, checkpoints);
    } else {
        world.restart(disk, checkpoints);
        let disk = world.disk.power_loss(choices.next_u64());
        let checkpoints = world.checkpoints.power_loss(choices.next_u64());
        world.restart(disk, checkpoints);
    }
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
