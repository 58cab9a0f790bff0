//! The cleaner (M41): whatever comes and goes, is cleaned and crashes, what is needed stays as it was; and what it costs.

mod bounds;
mod damaged;
mod full;
mod world;

use std::collections::VecDeque;

use self::world::{Fault, World};
use crate::support::seeds;
use courser_log::{Pressure, SegmentNumber, testing::Call};

const SEGMENT: u64 = 64 << 10;

fn some_steps(world: &mut World, steps: u64) {
    for _ in 0..steps {
        match world.choices.below(12) {
            0..=5 => {
                let records = 1 + world.choices.below(12);
                world.put(records, 400);
            }
            6 => {
                let bytes = world.choices.below(14_000) + 1;
                world.put(1, bytes);
            }
            7 | 8 => {
                let share = world.choices.below(70);
                world.forget_some(share);
            }
            9 | 10 => {
                let partition = world.choices.below(3) as u16;
                world.checkpoint(partition);
            }
            _ => {
                let pressure = match world.choices.below(2) {
                    0 => Pressure::None,
                    _ => Pressure::Short,
                };
                world.gift += 1 << 20;
                world.earn(pressure);
                let writes = world.choices.below(6);
                if !world.clean(writes) {
                    world.lose_power();
                }
            }
        }
        if world.choices.below(100) == 0 {
            world.lose_power();
        }
    }
}

#[test]
fn m41_whatever_is_cleaned_and_crashes_what_is_needed_is_there_byte_for_byte() {
    let mut cleaned = 0;
    for seed in seeds(12) {
        eprintln!("SEED={seed} SEEDS=1");
        let mut world = World::new(seed, SEGMENT);
        some_steps(&mut world, 700);
        world.lose_power();
        cleaned += world.cleaned;
    }
    assert!(cleaned > 20, "segments were cleaned: {cleaned}");
}

#[test]
fn m41_a_record_that_is_not_moved_is_missed() {
    let lost = std::panic::catch_unwind(|| {
        for seed in 0..12 {
            let mut world = World::new(seed, SEGMENT);
            world.fault = Fault::LoseOne;
            some_steps(&mut world, 700);
            world.lose_power();
        }
    });
    assert!(lost.is_err(), "the test above finds what is lost");
}

/// Live traffic that earns the cleaner what it needs, for long enough.
fn clean_all(world: &mut World) {
    for _ in 0..100 {
        world.gift += 1 << 20;
        world.earn(Pressure::None);
        assert!(world.clean(u64::MAX));
    }
}

/// Records that follow each other are kept as one. Where segments were larger, so were batches: what was one entry in one of them
/// is more than a batch holds now.
#[test]
fn m45_what_large_segments_hold_is_moved_in_the_batches_of_small_ones() {
    for seed in [2, 5, 8] {
        let mut world = World::new(seed, 16 * SEGMENT);
        world.streams = 1;
        while world.log.segments() < 4 {
            world.put(150, 400);
        }
        world.needed.retain(|(_, _, index, _)| index % 5 == 0);
        (0..3).for_each(|partition| world.checkpoint(partition));
        world.restart_with(SEGMENT);
        clean_all(&mut world);
        let counts = world.cleaner.counts();
        assert!(counts.segments >= 2, "seed {seed}: {counts:?}");
        world.lose_power();
    }
}

/// One that is larger than a batch holds its segment as if it lay in pieces, for as long as it is needed, and no other segment.
#[test]
fn m45_a_record_of_a_larger_batch_stays_where_it_is() {
    let mut world = World::new(5, 16 * SEGMENT);
    while world.log.segments() < 2 {
        world.put(12, 400);
    }
    let large = std::iter::repeat_with(|| world.put(1, 60_000)[0]);
    let large = large.take(20).collect::<Vec<_>>();
    let large = large.into_iter().max_by_key(|it| world.bytes_of(*it));
    let large = large.expect("there are some");
    assert!(world.bytes_of(large) > SEGMENT as usize / 4);
    while world.log.segments() < 4 {
        world.put(12, 400);
    }
    world.forget_some(70);
    world.forget_longer_than(1_000);
    world.needed.insert(large);
    (0..3).for_each(|partition| world.checkpoint(partition));
    world.restart_with(SEGMENT);
    clean_all(&mut world);
    let counts = world.cleaner.counts();
    assert_eq!((counts.too_large, counts.segments), (1, 2), "{counts:?}");
    let second = SegmentNumber(2);
    assert!(world.log.source(second).is_some(), "it is in use");
    world.forget(&large);
    (0..3).for_each(|partition| world.checkpoint(partition));
    clean_all(&mut world);
    let counts = world.cleaner.counts();
    assert_eq!(counts.too_large, 1, "{counts:?}");
    assert!(world.log.source(second).is_none(), "it was cleaned");
    world.lose_power();
}

/// What lives in one large segment takes many small ones: in the middle of it the log would have no room, nothing would be free yet, and
/// acknowledgements would wait behind what is moved.
#[test]
fn m47_what_finds_no_room_is_not_begun() {
    // In one pass, and in many.
    for seed in [2, 1] {
        let mut world = World::new(seed, 16 * SEGMENT);
        while world.log.segments() < 4 {
            world.put(12, 400);
        }
        world.restart_with(SEGMENT);
        let large = world.log.segments();
        while world.log.segments() == large {
            world.put(12, 400);
        }
        world.forget_some(30);
        (0..3).for_each(|partition| world.checkpoint(partition));
        world.leave_room(5 * SEGMENT);
        world.earn(Pressure::Short);
        assert!(world.clean(u64::MAX));
        // The one in which the restart was has little in it.
        assert!(world.cleaner.counts().bytes < SEGMENT, "it would not end");
        world.put(1, 400);
        world.leave_room(25 * SEGMENT);
        (0..3).for_each(|partition| world.checkpoint(partition));
        world.earn(Pressure::Short);
        assert!(world.clean(u64::MAX));
        let counts = world.cleaner.counts();
        assert!(counts.segments >= 3, "there is room: {counts:?}");
        world.lose_power();
    }
}

/// What a disk does not give for the moment is not damaged: nothing is left alone for it.
#[test]
fn d7_the_cleaner_comes_back_to_what_could_not_be_read_for_the_moment() {
    for call in [Call::Open, Call::Read] {
        let (mut held_up, mut cleaned) = (0, 0);
        for after in [0, 1, 2, 5, 20] {
            let mut world = World::new(2, SEGMENT);
            while world.log.segments() < 8 {
                world.put(12, 400);
            }
            world.forget_some(70);
            (0..3).for_each(|partition| world.checkpoint(partition));
            world.fail(call, after);
            clean_all(&mut world);
            let counts = world.cleaner.counts();
            assert_eq!(counts.given_up, 0, "{call:?} {after}: {counts:?}");
            assert!(counts.segments >= 7, "{call:?} {after}: {counts:?}");
            held_up += world.held_up;
            cleaned += world.cleaned;
            world.lose_power();
        }
        assert!(held_up > 0 && cleaned > 0, "{call:?} fails");
    }
}

/// However many segments a backlog has left of which little is needed, more of them are given back than live traffic fills.
#[test]
fn m41_a_large_log_of_which_little_is_needed_shrinks() {
    let mut world = World::new(2, SEGMENT);
    while world.log.segments() < 130 {
        world.put(46, 300);
    }
    world.forget_some(98);
    (0..3).for_each(|partition| world.checkpoint(partition));
    let large = world.log.segments() as u64;
    let until = world.log.counts().live_bytes() + large * SEGMENT / 2;
    for turn in 0.. {
        if world.log.counts().live_bytes() >= until {
            break;
        }
        // Of each segment a few are needed: none becomes free by itself.
        for reference in world.put(46, 300).iter().skip(1) {
            world.forget(reference);
        }
        if turn % 9 == 0 {
            (0..3).for_each(|partition| world.checkpoint(partition));
        }
        world.earn(Pressure::None);
        assert!(world.clean(u64::MAX));
    }
    let left = world.log.segments() as u64;
    assert!(left <= large * 2 / 3, "{left} segments of {large} are left");
    world.lose_power();
}

/// Half of the messages are read in order, half go to sessions that read now and then; as much is read as is written, and as
/// much waits as the log may hold dead besides.
#[test]
fn at_half_live_the_log_writes_at_most_twice_what_it_is_given() {
    const LIVE: usize = 12_000;
    let mut world = World::new(1, 4 * SEGMENT);
    let mut queue = VecDeque::new();
    let mut scattered = Vec::new();
    let mut begun = None;
    for turn in 0..2_800_u32 {
        for reference in world.put(46, 300) {
            match world.choices.below(2) {
                0 => queue.push_back(reference),
                _ => scattered.push(reference),
            }
        }
        while queue.len() + scattered.len() > LIVE {
            let reference = match queue.len() > LIVE / 2 {
                true => queue.pop_front().expect("it is not empty"),
                false => {
                    let at = world.choices.below(scattered.len() as u64);
                    scattered.swap_remove(at as usize)
                }
            };
            world.forget(&reference);
        }
        if turn % 48 == 0 {
            (0..3).for_each(|partition| world.checkpoint(partition));
        }
        world.earn(Pressure::None);
        assert!(world.clean(u64::MAX));
        // Once there is as much as there will be.
        if turn == 700 {
            begun = Some((world.log.counts(), world.checkpoint_bytes));
        }
    }
    let ((from, checkpoints_from), to) = (begun.expect("it ran"), world.log.counts());
    let given = (to.live_bytes() - from.live_bytes()) as f64;
    let amplification = (to.bytes - from.bytes) as f64 / given;
    // Twelve bytes for each reference, five times while as much is written as is needed: more than a partition saves.
    let checkpoints = (world.checkpoint_bytes - checkpoints_from) as f64 / given;
    let held = world.log.segments() as f64 * 4.0 * SEGMENT as f64;
    let live: f64 = (queue.len() + scattered.len()) as f64 * 160.0;
    eprintln!(
        "write amplification {amplification:.2} and {checkpoints:.2} of checkpoints, {} segments cleaned, {:.2} bytes held for each that is needed",
        to.cleaned - from.cleaned,
        held / live
    );
    assert!(to.cleaned > from.cleaned + 20, "it was cleaned: {to:?}");
    let with_checkpoints = amplification + checkpoints;
    assert!(with_checkpoints <= 2.0, "it writes {with_checkpoints}");
    assert!(held <= 3.0 * live, "space is got back: {held} for {live}");
    world.lose_power();
}
