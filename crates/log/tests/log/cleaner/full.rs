//! The cleaner on a full disk (M47): it gets more back than it takes, and never takes the last segment from others.

use courser_log::{Pressure, Space, SpaceState};

use super::{SEGMENT, world::World};

/// Room for those of some segments.
pub(super) const SUMMARIES: u64 = 16 << 10;

const fn segments(space: Space) -> u64 {
    (space.ready_bytes + space.free_bytes) / SEGMENT
}

/// A world whose disk is full but for `reserve` segments, or as many as are there where that is less; all that was put is needed.
fn full(seed: u64, reserve: u32, left: u64) -> World {
    let mut world = World::with_reserve(seed, SEGMENT, reserve);
    world.set_capacity(16 * SEGMENT + SUMMARIES);
    while world.log.space().state == SpaceState::Enough {
        world.put(12, 400);
    }
    // What goes on in the reserve takes the rest of it, but for some.
    while segments(world.log.space()) > left {
        world.put(12, 400);
    }
    world
}

pub(super) fn checkpoints(world: &mut World) {
    (0..3).for_each(|partition| world.checkpoint(partition));
    world.log.refresh_space();
}

/// As others go on, since each second there are checkpoints: until publishes are taken again. Rounds that it took.
pub(super) fn clean_until_enough(world: &mut World) -> u64 {
    for round in 0..60 {
        if world.log.refresh_space().state == SpaceState::Enough {
            return round;
        }
        world.earn(Pressure::Short);
        assert!(world.clean(u64::MAX));
        // What it cleans is free when the next checkpoints are there, and each of them follows from an entry.
        world.put(1, 400);
        checkpoints(world);
    }
    panic!("the cleaner rests: {:?}", world.log.space());
}

/// Of a full disk one segment of the reserve is left: it stays for acknowledgements, and the cleaner works in what is left of the one that is
/// written, whatever it would have to move.
#[test]
fn m47_on_a_full_disk_the_cleaner_works_and_leaves_a_segment_to_others() {
    for share in [15, 30, 50, 70] {
        for seed in 1..=12 {
            let mut world = full(seed, 2, 1);
            world.forget_some(share);
            checkpoints(&mut world);
            let room = world.log.space();
            assert_eq!((room.state, segments(room)), (SpaceState::Low, 1));
            world.earn(Pressure::Short);
            assert!(world.clean(u64::MAX));
            assert_eq!(world.last_ones, 0, "{share}, seed {seed}");
            assert!(segments(world.log.space()) > 0, "{share}, seed {seed}");
            if share < 70 {
                continue;
            }
            clean_until_enough(&mut world);
            assert!(world.cleaned > 0, "seed {seed}");
            assert_eq!(world.last_ones, 0, "seed {seed}");
            while world.log.space().state == SpaceState::Enough {
                world.put(12, 400);
            }
            world.lose_power();
        }
    }
}

/// Each kill in the middle of a move left a copy of what is needed in one more segment, until there was none: after that the cleaner rested at each
/// start, and a disk of which a quarter is not needed took nothing any more.
#[test]
fn m47_a_cleaner_that_is_killed_again_and_again_finds_room_in_the_end() {
    // A broker keeps three at least.
    for (reserve, share) in [(3, 45), (3, 25), (4, 25)] {
        for seed in [2, 5, 8] {
            let mut world = full(seed, reserve, u64::from(reserve));
            world.forget_some(share);
            checkpoints(&mut world);
            let mut kills = 0;
            for _ in 0..12 {
                let before = segments(world.log.space());
                world.earn(Pressure::Short);
                let is_killed = !world.clean(0);
                let left = segments(world.log.refresh_space());
                assert!(before == 0 || left > 0, "{reserve}, {seed}, {kills}");
                if is_killed {
                    // All of a segment is moved, durably, but for the word that it is.
                    world.log.sync().expect("synced");
                    world.lose_power();
                    kills += 1;
                } else {
                    // What is left of the active segment is too little: acknowledgements take it.
                    world.put(1, 400);
                }
                checkpoints(&mut world);
            }
            assert!(kills > 3, "{reserve}, {seed}: {kills}");
            clean_until_enough(&mut world);
            world.lose_power();
        }
    }
}
