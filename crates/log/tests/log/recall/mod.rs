//! Records that are read back (M17, M41): each once, each stream in order, byte for byte, whatever cleaners and damages do.

mod figures;
mod world;

use std::io::ErrorKind;

use self::world::World;
use crate::support::seeds;
use courser_contract::{LogIndex, PartitionId};
use courser_log::{Record, testing::Call};

const SEGMENT: u64 = 64 << 10;

/// An entry of some records; some are so large that they go in pieces.
fn some_entry(world: &mut World) -> Record {
    let partition = 1 + world.choices.below(3) as u16;
    let large = world.choices.below(25) == 0;
    let many = if large { 2 } else { 1 + world.choices.below(9) };
    let records: Vec<(u64, usize)> = (0..many)
        .map(|_| {
            let len = if large {
                14_000
            } else {
                4 + world.choices.below(400)
            };
            (world.choices.below(6), len as usize)
        })
        .collect();
    world.entry(partition, &records)
}

fn some_question(world: &mut World, many: u64) {
    let partition = 1 + world.choices.below(3) as u16;
    let mut streams = Vec::new();
    for stream in 0..6 {
        if world.choices.below(2) == 0 {
            streams.push((stream, world.choices.below(many) as usize));
        }
    }
    let room = world.choices.below(6_000);
    world.ask(partition, &streams, room);
}

fn life(seed: u64) -> World {
    let mut world = World::new(seed, SEGMENT);
    world.delay = (seed % 3) * 45;
    for _ in 0..900 {
        match world.choices.below(12) {
            0..=3 => {
                let many = 1 + world.choices.below(5);
                let entries: Vec<Record> = (0..many).map(|_| some_entry(&mut world)).collect();
                world.write(&entries);
            }
            4 => {
                let partition = 1 + world.choices.below(3) as u16;
                world.checkpoint(partition);
            }
            5 => {
                let writes = world.choices.below(5);
                world.clean(writes);
            }
            6..=8 => {
                let many = 1 + world.choices.below(20);
                some_question(&mut world, many);
            }
            _ => {
                for _ in 0..world.choices.below(12) {
                    let (_, next) = world.step();
                    world.now = next.unwrap_or(world.now).max(world.now);
                }
            }
        }
    }
    for partition in 1..=3 {
        let all: Vec<(u64, usize)> = (0..6).map(|stream| (stream, usize::MAX)).collect();
        world.ask(partition, &all, 1 << 30);
    }
    world.run();
    world
}

#[test]
fn m17_each_record_comes_once_in_the_order_of_its_stream() {
    let mut cleaned = 0;
    for seed in seeds(12) {
        eprintln!("SEED={seed} SEEDS=1");
        let world = life(seed);
        assert!(world.is_answered(), "{:?}", world.reader.counts());
        assert_eq!(world.lost, [], "nothing is damaged");
        cleaned += world.log.counts().cleaned;
    }
    assert!(cleaned > 20, "segments were used again: {cleaned}");
}

/// Ten batches, each with an entry of partition 1 and one of partition 2; each with a record for each of three streams.
fn ten_batches() -> World {
    let mut world = World::new(5, SEGMENT);
    for _ in 0..10 {
        let records = [(0, 100), (1, 100), (2, 100)];
        let entries = [world.entry(1, &records), world.entry(2, &records)];
        world.write(&entries);
    }
    world
}

fn all_of(world: &mut World) {
    for partition in [1, 2] {
        world.ask(partition, &[(0, 10), (1, 10), (2, 10)], 1 << 20);
    }
    world.run();
    assert!(world.is_answered(), "{:?}", world.reader.counts());
}

/// The file that has batches, and the byte of it at which the nth one with two records begins: each takes a block.
fn batch_at(world: &World, nth: usize) -> (String, u64) {
    let is_batch = |block: &[u8]| {
        block[..4] == 0x4843_4243_u32.to_le_bytes() && block[36..40] == 2_u32.to_le_bytes()
    };
    for name in world.disk.names() {
        let bytes = world.disk.bytes(&name).expect("it is there");
        let mut blocks = bytes.chunks(4096).enumerate();
        let found = blocks
            .by_ref()
            .filter(|(_, block)| is_batch(block))
            .nth(nth);
        if let Some((at, _)) = found {
            return (name, at as u64 * 4096);
        }
    }
    panic!("there are so many");
}

#[test]
fn m44_a_damaged_entry_is_lost_and_the_others_come() {
    let mut world = ten_batches();
    let (name, at) = batch_at(&world, 3);
    // Behind the header and the frame, in the first entry.
    world.disk.rot(&name, at + 88 + 16 + 50, 1);
    all_of(&mut world);
    let lost: Vec<(u16, u64, u32)> = world
        .lost
        .iter()
        .map(|(partition, need)| (*partition, need.index.0, need.byte))
        .collect();
    assert_eq!(lost, [(1, 4, 32), (1, 4, 136), (1, 4, 240)]);
    assert_eq!(world.got.values().sum::<u64>(), 57);
    let error = world.reader.take_error().expect("it says why");
    assert!(error.to_string().contains("damaged"), "{error}");
}

/// What is lost, as partition and index.
fn lost_entries(world: &World) -> Vec<(u16, u64)> {
    let lost = world.lost.iter();
    let mut lost: Vec<(u16, u64)> = lost.map(|(of, need)| (*of, need.index.0)).collect();
    lost.sort_unstable();
    lost.dedup();
    lost
}

#[test]
fn m44_behind_a_header_that_is_gone_the_next_batches_are_read() {
    for damage in [
        |world: &World, name: &str, at| world.disk.rot(name, at + 9, 1),
        |world: &World, name: &str, at| world.disk.make_unreadable(name, at, at),
    ] {
        let mut world = ten_batches();
        let (name, at) = batch_at(&world, 3);
        damage(&world, &name, at);
        all_of(&mut world);
        assert_eq!(lost_entries(&world), [(1, 4), (2, 4)]);
        assert_eq!((world.lost.len(), world.got.values().sum()), (6, 54));
        let error = world.reader.take_error().expect("it says why");
        assert!(error.to_string().contains(&format!("byte {at}")), "{error}");
    }
}

#[test]
fn m44_a_reader_of_entries_goes_on_behind_a_header_that_is_gone() {
    let world = ten_batches();
    let (name, at) = batch_at(&world, 3);
    world.disk.rot(&name, at + 9, 1);
    let mut reader = world.log.reader(PartitionId(2));
    for index in (1..=10).rev().chain(1..=10) {
        let read = reader.read(LogIndex(index));
        let error = read.err().map(|error| error.to_string());
        let is_named = error
            .as_ref()
            .map(|error| error.contains(&format!("byte {at}")));
        assert_eq!(is_named, (index == 4).then_some(true), "{index}: {error:?}");
    }
}

/// As a start reads what it needs, for all partitions at once: it took what lies behind for lost.
#[test]
fn m44_readers_that_go_together_go_on_behind_a_header_that_is_gone() {
    let world = ten_batches();
    let (name, at) = batch_at(&world, 3);
    world.disk.rot(&name, at + 9, 1);
    let mut reader = world.log.reader(PartitionId(2));
    let mut shared = reader.shared();
    for index in 1..=10 {
        let mut looks = std::iter::repeat_with(|| reader.look(LogIndex(index), &mut shared));
        let read = looks
            .find_map(Result::transpose)
            .expect("it comes to an end");
        let error = read.err().map(|error| error.to_string());
        let is_named = error
            .as_ref()
            .map(|error| error.contains(&format!("byte {at}")));
        assert_eq!(is_named, (index == 4).then_some(true), "{index}: {error:?}");
    }
}

/// Other partitions begin in the second and the third: they are places of their own, one with the first piece of an entry.
#[test]
fn m44_batches_without_headers_in_a_row_are_passed() {
    let mut world = World::new(5, SEGMENT);
    let records = [(0, 100), (1, 100), (2, 100)];
    for nth in 0..10 {
        let mut entries = vec![world.entry(1, &records), world.entry(2, &records)];
        if nth == 4 {
            entries.push(world.entry(3, &[(0, 100)]));
        }
        world.write(&entries);
        if nth == 3 {
            let large = world.entry(4, &[(0, 14_000), (0, 14_000)]);
            world.write(&[large]);
        }
    }
    let (name, first) = batch_at(&world, 3);
    let (_, end) = batch_at(&world, 4);
    for at in (first..end).step_by(4096) {
        world.disk.rot(&name, at + 9, 1);
    }
    world.ask(3, &[(0, 1)], 1 << 20);
    world.ask(4, &[(0, 2)], 1 << 20);
    all_of(&mut world);
    let lost = lost_entries(&world);
    assert_eq!(lost[..4], [(1, 4), (1, 5), (2, 4), (2, 5)], "{lost:?}");
    assert_eq!(lost[4..], [(3, 1), (4, 1)], "{lost:?}");
    assert_eq!(world.got.values().sum::<u64>(), 48);
}

#[test]
fn m44_what_was_in_the_last_batch_of_a_segment_is_lost_with_its_header() {
    let mut world = ten_batches();
    let (name, at) = batch_at(&world, 9);
    world.disk.rot(&name, at + 9, 1);
    all_of(&mut world);
    assert_eq!(lost_entries(&world), [(1, 10), (2, 10)]);
    assert_eq!(world.got.values().sum::<u64>(), 54);
}

/// A start has cut it, and written less than was there.
#[test]
fn m44_a_batch_that_was_cut_is_not_taken_for_the_next_one() {
    let mut world = ten_batches();
    let (name, at) = batch_at(&world, 9);
    let mut before = World::new(5, SEGMENT);
    for nth in 0..10 {
        let records = [(0, 100), (1, 100), (2, 100)];
        if nth == 9 {
            let others = [before.entry(3, &records), before.entry(4, &records)];
            before.write(&others);
        }
        let entries = [before.entry(1, &records), before.entry(2, &records)];
        before.write(&entries);
    }
    let (_, cut) = batch_at(&before, 10);
    assert_eq!(cut, at + 4096, "it lies right behind");
    let bytes = before.disk.bytes(&name).expect("it is there");
    let mut now = world.disk.bytes(&name).expect("it is there");
    let cut = cut as usize..cut as usize + 4096;
    now[cut.clone()].copy_from_slice(&bytes[cut]);
    world.disk.replace(&name, now);
    world.disk.rot(&name, at + 9, 1);
    all_of(&mut world);
    assert_eq!(lost_entries(&world), [(1, 10), (2, 10)]);
    assert_eq!(world.got.values().sum::<u64>(), 54);
}

#[test]
fn what_the_disk_does_not_give_once_is_read_again() {
    let mut world = ten_batches();
    world.disk.fail(Call::Read, 2, 2, ErrorKind::Other);
    all_of(&mut world);
    assert_eq!((world.lost.len(), world.got.values().sum()), (0, 60));
}

#[test]
fn what_is_not_to_be_had_for_the_moment_is_waited_for() {
    for call in [Call::Open, Call::Read] {
        for kind in [ErrorKind::WouldBlock, ErrorKind::OutOfMemory] {
            for mut world in [ten_batches(), kept_batches()] {
                let all: usize = world.streams.values().map(|of| of.ahead.len()).sum();
                world.disk.fail(call, 0, 20, kind);
                all_of(&mut world);
                let got = world.got.values().sum::<u64>();
                assert_eq!((world.lost.len(), got), (0, all as u64));
                let held_up = world.reader.counts().held_up;
                assert!(held_up > 2 && world.reader.take_hold_up().is_some());
                let rested = 200 * u128::from(held_up);
                assert!(world.now.as_millis() >= rested, "{held_up} times");
            }
        }
    }
}

#[test]
fn an_entry_in_pieces_that_is_not_to_be_had_for_the_moment_is_waited_for() {
    let mut world = World::new(5, SEGMENT);
    let entry = world.entry(1, &[(0, 14_000), (0, 14_000)]);
    world.write(&[entry]);
    world.disk.fail(Call::Read, 0, 20, ErrorKind::TimedOut);
    all_of(&mut world);
    assert_eq!((world.lost.len(), world.got.values().sum()), (0, 2));
    assert!(world.reader.counts().held_up > 2);
}

#[test]
fn what_the_disk_never_gives_is_lost() {
    let mut world = ten_batches();
    let (name, at) = batch_at(&world, 9);
    world.disk.make_unreadable(&name, at, at);
    all_of(&mut world);
    assert_eq!((world.lost.len(), world.got.values().sum()), (6, 54));
}

#[test]
fn an_entry_that_the_log_never_had_is_lost() {
    let mut world = ten_batches();
    // It is made, and not written.
    let _ = world.entry(1, &[(4, 100)]);
    world.ask(1, &[(4, 1)], 1 << 20);
    all_of(&mut world);
    assert_eq!((world.lost.len(), world.got.values().sum()), (1, 60));
}

/// Three batches of kept records, two frames of two records in each.
fn kept_batches() -> World {
    let mut world = World::new(5, SEGMENT);
    world.hold(1, 100);
    for _ in 0..3 {
        let kept = [world.kept(1, 0, &[100, 100]), world.kept(1, 1, &[100, 100])];
        world.write(&kept);
    }
    world
}

#[test]
fn m41_the_index_of_kept_records_goes_when_nobody_needs_it_and_comes_back() {
    let mut world = kept_batches();
    for (partition, stream) in [(1, 0), (1, 1)] {
        world.ask(partition, &[(stream, 2)], 1 << 20);
        world.run();
    }
    assert!(world.reader.counts().index_bytes > 0);
    // Somebody who takes his time.
    let mut sweeps = 0;
    for stream in [0, 1] {
        world.now = world.reader.sweep().expect("there is an index");
        world.run();
        assert!(world.reader.counts().index_bytes > 0, "it was needed");
        world.ask(1, &[(stream, 1)], 1 << 20);
        world.run();
    }
    while let Some(due) = world.reader.sweep() {
        (world.now, sweeps) = (due, sweeps + 1);
        world.run();
    }
    assert_eq!((sweeps, world.reader.counts().index_bytes), (2, 0));
    all_of(&mut world);
    assert_eq!((world.lost.len(), world.got.values().sum()), (0, 12));
    assert!(world.reader.counts().index_bytes > 0, "it was made again");
}

#[test]
fn m44_of_kept_records_those_of_a_damaged_frame_are_lost() {
    let mut world = kept_batches();
    let (name, at) = batch_at(&world, 1);
    world.disk.rot(&name, at + 88 + 32 + 8 + 150, 1);
    all_of(&mut world);
    let lost: Vec<u64> = world.lost.iter().map(|(_, need)| need.index.0).collect();
    assert_eq!(lost, [3, 3]);
    assert_eq!(world.got.values().sum::<u64>(), 10);
}

#[test]
fn m44_kept_records_of_a_batch_that_cannot_be_read_are_lost() {
    let mut world = kept_batches();
    let (name, at) = batch_at(&world, 1);
    world.disk.make_unreadable(&name, at, at);
    all_of(&mut world);
    let lost: Vec<u64> = world.lost.iter().map(|(_, need)| need.index.0).collect();
    assert_eq!((lost.len(), world.got.values().sum()), (4, 8), "{lost:?}");
}

#[test]
fn a_record_that_two_streams_want_comes_for_each() {
    let mut world = ten_batches();
    for partition in [1, 2] {
        let wants = world.streams[&(partition, 0)].ahead.clone();
        world.streams.entry((partition, 7)).or_default().ahead = wants;
        world.ask(partition, &[(7, 10)], 50);
    }
    all_of(&mut world);
    assert_eq!((world.lost.len(), world.got.values().sum()), (0, 80));
}
