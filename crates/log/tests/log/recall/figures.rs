//! What it costs: bytes of files for each byte of records.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use courser_log::RecallCounts;

use super::world::{Who, World};

const STREAMS: u64 = 200;
const PARTITIONS: u16 = 4;
const RECORD: usize = 256;

/// How long it takes until somebody has taken what he got.
#[derive(Clone, Copy, Debug)]
struct Takes {
    /// So many milliseconds, or less.
    millis: u64,
    /// In partition 1 always so many.
    slow: Option<u64>,
}

impl Takes {
    const fn within(millis: u64) -> Self {
        Self { millis, slow: None }
    }
}

/// Streams take what they get after some time, and ask for more when half of what they have asked for has come.
fn drain(world: &mut World, ahead: usize, room: u64, takes: Takes) -> RecallCounts {
    let mut later: VecDeque<(Duration, Vec<Who>)> = VecDeque::new();
    for partition in 1..=PARTITIONS {
        let of = world.streams.range((partition, 0)..(partition + 1, 0));
        let all: Vec<(u64, usize)> = of.map(|((_, stream), _)| (*stream, ahead)).collect();
        world.ask(partition, &all, room / u64::from(PARTITIONS));
    }
    loop {
        let due = later.front().map(|(due, _)| *due);
        if due.is_some_and(|due| due <= world.now) {
            let (_, whose) = later.pop_front().expect("it is there");
            let mut by_partition: BTreeMap<u16, (u64, BTreeMap<u64, usize>)> = BTreeMap::new();
            for (partition, stream) in whose {
                let of = by_partition.entry(partition).or_default();
                of.0 += RECORD as u64;
                let asked = world.streams[&(partition, stream)].asked.len();
                if asked <= ahead / 2 {
                    of.1.insert(stream, ahead - asked);
                }
            }
            for (partition, (room, asks)) in by_partition {
                let asks: Vec<(u64, usize)> = asks.into_iter().collect();
                world.ask(partition, &asks, room);
            }
            continue;
        }
        let (whose, next) = world.step();
        if !whose.is_empty() {
            let time = world.choices.below(takes.millis + 1);
            let slow = takes.slow.filter(|_| whose[0].0 == 1);
            let time = slow.unwrap_or(time);
            let due = world.now + Duration::from_millis(time);
            let at = later.partition_point(|(of, _)| *of <= due);
            later.insert(at, (due, whose));
        }
        match next.into_iter().chain(due).min() {
            Some(next) => world.now = world.now.max(next),
            None if later.is_empty() => break,
            None => {}
        }
    }
    assert!(world.is_answered() && world.lost.is_empty());
    assert!(world.streams.values().all(|of| of.ahead.is_empty()));
    world.reader.counts()
}

/// Bytes read for each that was delivered.
fn share(counts: &RecallCounts) -> f64 {
    eprintln!("{counts:?}");
    counts.read_bytes as f64 / counts.bytes as f64
}

/// Each entry has records of some streams, in turn; a batch has some entries.
fn interleaved() -> World {
    let mut world = World::new(1, 1 << 20);
    let mut turn = 0;
    for _ in 0..160 {
        let entries: Vec<_> = (0..16_u16)
            .map(|nth| {
                let records: Vec<(u64, usize)> = (0..12)
                    .map(|nth| ((turn * 12 + nth) * 7 % STREAMS, RECORD))
                    .collect();
                turn += 1;
                world.entry(1 + nth % PARTITIONS, &records)
            })
            .collect();
        world.write(&entries);
    }
    world
}

#[test]
fn m41_interleaved_streams_are_drained_with_little_read_twice() {
    let mut world = interleaved();
    let all = 160 * 16 * 12 * RECORD as u64;
    let counts = drain(&mut world, 16, all / 20, Takes::within(1));
    let share = share(&counts);
    eprintln!("{share:.2} bytes read for each delivered, interleaved");
    assert!(share <= 2.5, "{share}");
}

#[test]
fn m41_streams_that_take_some_time_are_drained_with_little_read_twice() {
    // The last one has a partition that takes six times as long as one is waited for: it comes in a second round.
    for (ahead, rooms, takes) in [
        (4, 20, Takes::within(10)),
        (16, 100, Takes::within(10)),
        (
            16,
            20,
            Takes {
                millis: 5,
                slow: Some(120),
            },
        ),
    ] {
        let mut world = interleaved();
        let all = 160 * 16 * 12 * RECORD as u64;
        let counts = drain(&mut world, ahead, all / rooms, takes);
        let share = share(&counts);
        eprintln!("{share:.2} read for each, {ahead} ahead, a room of 1/{rooms}, {takes:?}");
        assert!(share <= 2.5, "{share}");
    }
}

#[test]
fn m41_streams_behind_a_cleaner_are_drained_with_little_read_twice() {
    let mut world = World::new(1, 1 << 20);
    for partition in 1..=PARTITIONS {
        world.hold(partition, 30_000);
    }
    let per = 64 * 1024 / RECORD / 4;
    for _ in 0..2 {
        for stream in 0..STREAMS {
            let partition = 1 + (stream % u64::from(PARTITIONS)) as u16;
            let kept: Vec<_> = (0..per)
                .map(|_| world.kept(partition, stream, &[RECORD; 4]))
                .collect();
            world.write(&kept);
        }
    }
    let all = 2 * STREAMS * 64 * 1024;
    let counts = drain(&mut world, 256, all / 20, Takes::within(1));
    let share = share(&counts);
    eprintln!("{share:.2} bytes read for each delivered, sorted, with the index");
    assert!(share <= 2.5, "{share}");
}

#[test]
fn m41_a_stream_alone_reads_its_stretches() {
    let mut world = World::new(1, 1 << 20);
    for round in 0..2_000_u64 {
        let stream = if round % 250 == 100 { 1 } else { 0 };
        let entry = world.entry(1, &[(stream, 4_000)]);
        world.write(&[entry]);
    }
    let wanted = world.streams[&(1, 1)].ahead.len() as u64;
    world.ask(1, &[(1, usize::MAX)], 1 << 20);
    world.run();
    assert!(world.is_answered());
    let counts = world.reader.counts();
    eprintln!("{counts:?}");
    assert_eq!(counts.records, wanted);
    assert!(counts.read_bytes <= wanted * (768 << 10), "{counts:?}");
}

#[test]
fn m17_who_comes_late_is_served_after_a_round() {
    let mut world = interleaved();
    for stream in 1..STREAMS {
        world.ask(1, &[(stream, 8)], 8 * RECORD as u64);
    }
    let mut late = None;
    for turn in 0..100_000 {
        let (whose, next) = world.step();
        world.now = world.now.max(next.unwrap_or(world.now));
        for (partition, stream) in whose {
            if late.is_some() && stream == 0 {
                let rounds = world.reader.counts().rounds - late.unwrap_or_default();
                assert!(rounds <= 1, "{rounds}");
                return;
            }
            world.ask(partition, &[(stream, 1)], RECORD as u64);
        }
        if turn == 400 {
            late = Some(world.reader.counts().rounds);
            world.ask(1, &[(0, 4)], 4 * RECORD as u64);
        }
    }
    panic!("it starves");
}
