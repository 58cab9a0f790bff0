//! What the log holds is bounded by what is needed of it, however that is spread over references and sizes (M41, M47).

use courser_log::{Pressure, SpaceState};

use super::{
    SEGMENT,
    full::{SUMMARIES, checkpoints, clean_until_enough},
    world::{Reference, World},
};

/// Sessions that are away and get the same messages.
const SESSIONS: u64 = 1_600;
/// Segments that are written, ready or in reserve, those above the last checkpoints, and those that fill until the cleaner looks again.
const BESIDE: u64 = 12;

/// An entry of busy traffic; what stays needed of it when that is read.
fn busy(world: &mut World, kept: impl Fn(usize) -> bool) -> Vec<Reference> {
    let mut left = Vec::new();
    let (mut at, mut last) = (0, None);
    for reference in world.put(46, 300) {
        if last.is_some_and(|byte| byte != reference.3) {
            at += 1;
        }
        last = Some(reference.3);
        match kept(at) {
            true => left.push(reference),
            false => world.forget(&reference),
        }
    }
    left
}

/// Busy traffic that is drained, and now and then a message for all who are away.
fn fan_out(world: &mut World, turn: u64) {
    if !turn.is_multiple_of(8) {
        busy(world, |_| false);
        return;
    }
    let first = busy(world, |at| at == 0)[0];
    world.share(first, SESSIONS);
}

/// Large messages that stay, then small ones.
fn large_then_small(world: &mut World, turn: u64) {
    if turn < 160 {
        if turn.is_multiple_of(4) {
            world.put(1, 14_000);
        }
        busy(world, |_| false);
        return;
    }
    busy(world, |at| at % 15 == 0);
}

/// Segments that hold twice what is needed, and those beside.
fn segments_max(world: &World) -> u64 {
    2 * world.needed_bytes() / SEGMENT + BESIDE
}

/// So many turns with room for everything: the log never holds more than is needed twice over.
fn stays_small(turns: u64, traffic: fn(&mut World, u64)) {
    for seed in [2, 1] {
        let mut world = World::new(seed, SEGMENT);
        for turn in 0..turns {
            traffic(&mut world, turn);
            if turn % 9 == 0 {
                (0..3).for_each(|partition| world.checkpoint(partition));
            }
            world.earn(Pressure::None);
            assert!(world.clean(u64::MAX));
            let (segments, max) = (world.log.segments() as u64, segments_max(&world));
            assert!(
                segments <= max,
                "seed {seed}, turn {turn}: {segments} segments, {max} would do: {:?}",
                world.cleaner.counts()
            );
        }
        world.lose_power();
    }
}

/// The same on a disk of so many segments: when it is short, the cleaner makes room. In the first `calm` turns it works before that, too.
fn never_stays_full(calm: u64, segments: u64, traffic: fn(&mut World, u64)) {
    const TURNS: u64 = 1_400;
    for seed in [2, 1] {
        let mut world = World::new(seed, SEGMENT);
        world.set_capacity(segments * SEGMENT + SUMMARIES);
        let mut times_short = 0;
        for turn in 0..TURNS {
            traffic(&mut world, turn);
            if turn < calm {
                checkpoints(&mut world);
                world.earn(Pressure::None);
                assert!(world.clean(u64::MAX));
            }
            if world.log.refresh_space().state == SpaceState::Enough {
                continue;
            }
            times_short += 1;
            checkpoints(&mut world);
            clean_until_enough(&mut world);
        }
        assert!(times_short > 2, "seed {seed}: {times_short}");
        assert!(world.cleaned > 0, "seed {seed}");
        world.lose_power();
    }
}

/// A record for many was counted for each of them, so that segments with one looked full, and none was cleaned.
#[test]
fn m41_a_message_for_many_absent_sessions_counts_once() {
    stays_small(400, fan_out);
}

#[test]
fn m47_a_disk_with_messages_for_many_absent_sessions_does_not_stay_full() {
    never_stays_full(0, 24, fan_out);
}

/// Large records made small ones look large in segments that nobody had read, and those were never read.
#[test]
fn m41_after_large_records_small_ones_are_not_taken_for_large() {
    stays_small(1_400, large_then_small);
}

#[test]
fn m47_a_disk_with_small_records_behind_large_ones_does_not_stay_full() {
    never_stays_full(240, 48, large_then_small);
}
