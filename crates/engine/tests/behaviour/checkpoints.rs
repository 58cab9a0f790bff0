//! Rules of checkpoints: one place of the log whatever is applied meanwhile, and bad bytes are errors.

use std::collections::{BTreeMap, BTreeSet};

use courser_contract::{DetachCause, Publish, QoS, ToHome, WallMs, Will};
use courser_engine::{Limits, NeededRecords, Partition, PartitionConfig, Restore, RestoreError};
use proptest::prelude::*;

use crate::people::leave_group;
use crate::world::{Acks, Commits, DURABLE, OTHER, Options, Whole, World, message, to};

/// A partition with something of each kind: sessions with and without messages, shared ones, wills, holds, scans, retained
/// messages, forwards that wait, target sets.
fn furnished() -> World {
    let mut world = World::new();
    for n in 0..4 {
        let at = world.client(&format!("client-{n}"));
        let will = (n == 1).then(|| Will {
            topic: "other/will".into(),
            properties: Box::default(),
            payload: Box::from(*b"gone"),
            qos: QoS::AtLeastOnce,
            retain: false,
            delay_seconds: 1_000,
            expiry_seconds: None,
        });
        let options = Options {
            will,
            owner: (n % 2 == 0).then(|| format!("user-{n}").into()),
            ..Options::durable()
        };
        world.attach(at, options);
        world.subscribe(at, to("a/+", QoS::ExactlyOnce));
        world.subscribe(at, to(&format!("own/{n}"), QoS::AtLeastOnce));
        let mut shared = to("a/#", QoS::AtLeastOnce);
        shared.share = Some("g".into());
        world.subscribe(at, shared);
        world.clients[at].acks = Acks::Held;
    }
    for n in 0..40 {
        world.send("a/b", &format!("{n}"), QoS::ExactlyOnce);
        world.retain(&format!("kept/{}", n % 7), "r", QoS::AtLeastOnce);
    }
    let home = world.home(0);
    let publish = message("other/queue", "held", QoS::ExactlyOnce);
    let hold = ToHome::PublishQos2 {
        session: home.session,
        epoch: world.clients[0].epoch,
        publish: Box::new(courser_contract::PublishedQos2 {
            pubrec: courser_contract::PubrecCan::Refuse,
            packet_id: 7,
            hash: 1,
            record: courser_contract::Record::copy_of(&(&publish).into()),
            destinations: [OTHER].into_iter().collect(),
            cuts: courser_contract::Cuts::new(),
        }),
    };
    world.send_home(home.partition, hold);
    world.ack(0, 3);
    world.detach(1, DetachCause::Lost);
    world
}

/// The last checkpoint, once all that has happened is in one.
pub(crate) fn whole(world: &mut World) -> Whole {
    let before = world.checkpoints;
    for _ in 0..10_000 {
        world.turn();
        let node = &world.nodes[&DURABLE];
        let whole = node.checkpoints.whole();
        let has_all = |whole: &&Whole| whole.end.index == node.partition.applied();
        if world.checkpoints > before + 4
            && let Some(whole) = whole.filter(has_all)
        {
            return whole.clone();
        }
    }
    panic!("checkpoints end");
}

fn config() -> PartitionConfig {
    PartitionConfig {
        limits: Limits::default(),
        ..PartitionConfig::new(DURABLE, courser_contract::Class::Durable)
    }
}

fn log(world: &World) -> BTreeMap<courser_contract::LogIndex, bytes::Bytes> {
    world.nodes[&DURABLE].log.iter().cloned().collect()
}

#[test]
fn a_checkpoint_says_what_it_holds() {
    let mut world = furnished();
    let whole = whole(&mut world);
    let mut restore = Restore::new(config());
    for piece in &whole.pieces {
        restore.piece(piece).expect("a piece as it was written");
    }
    let summary = restore.summary();
    let counts = world.nodes[&DURABLE].partition.counts();
    assert_eq!(summary.index, whole.end.index.0);
    assert_eq!(
        (summary.sessions, summary.subscriptions, summary.retained),
        (
            counts.sessions,
            counts.subscriptions,
            counts.retained_messages
        )
    );
    assert_eq!(
        (summary.queued, summary.groups),
        (counts.queued_messages, 1)
    );
    assert!(summary.queued > 100 && summary.retained == 7);
}

#[test]
fn one_checkpoint_at_a_time_and_a_cancelled_one_leaves_nothing_behind() {
    let mut world = furnished();
    let node = world.nodes.get_mut(&DURABLE).expect("it is there");
    node.partition.cancel_checkpoint();
    assert!(node.partition.begin_checkpoint());
    assert!(!node.partition.begin_checkpoint());
    node.partition.take_checkpoint_piece(100);
    assert!(node.partition.checkpoint_bytes() > 0);
    assert!(node.partition.checkpoint_end().is_none());
    node.partition.cancel_checkpoint();
    assert_eq!(node.partition.checkpoint_bytes(), 0);
    // The next one has all, although parts were written for the one that was given up.
    world.send("a/b", "more", QoS::AtLeastOnce);
    whole(&mut world);
}

/// Found by the simulator: a session began to leave a group before the walk had come to it, and the checkpoint held a part of that session which
/// it got by that.
#[test]
fn m42_who_leaves_a_group_behind_the_checkpoint_has_not_left_in_it() {
    for turns in 0..40 {
        let mut world = World::new();
        for n in 0..3 {
            let at = world.client(&format!("client-{n}"));
            world.attach(at, Options::durable());
            let mut shared = to("t/#", QoS::AtLeastOnce);
            shared.share = Some("g".into());
            world.subscribe(at, shared);
        }
        world.settle();
        for _ in 0..turns {
            world.turn();
        }
        leave_group(&mut world, 2);
        for _ in 0..60 {
            world.turn();
            let saved = world.saved(DURABLE).expect("some have ended");
            let log = log(&world).into_iter();
            let upto = log.take_while(|(at, _)| *at <= saved.applied());
            let replayed = Partition::replay(saved.config().clone(), upto);
            let is_same = saved.encode_state() == replayed.encode_state();
            assert!(
                is_same,
                "left after {turns} turns, saved at {:?}",
                saved.applied()
            );
        }
    }
}

/// A retained message expires, and before that is committed another one has taken its place, and a checkpoint has begun: it has that one once.
#[test]
fn m42_an_expiry_that_finds_another_message_saves_it_once() {
    let mut world = World::new();
    let expires_at = Some(WallMs(world.now.wall.0 + 2_000));
    world.publish(&Publish {
        retain: true,
        expires_at,
        ..message("kept", "old", QoS::AtLeastOnce)
    });
    world.settle();
    world.commits = Commits::Held;
    world.retain("kept", "new", QoS::AtLeastOnce);
    world.pass_time(2_000);
    world.turn();
    assert!(world.commit_one(DURABLE), "the new one");
    let node = world.nodes.get_mut(&DURABLE).expect("it is there");
    node.partition.cancel_checkpoint();
    assert!(node.partition.begin_checkpoint());
    assert!(world.commit_one(DURABLE), "the end of the old one");
    let node = world.nodes.get_mut(&DURABLE).expect("it is there");
    let mut restore = Restore::new(config());
    while node.partition.checkpoint_end().is_none() {
        if let Some(piece) = node.partition.take_checkpoint_piece(1_000) {
            let read = restore.piece(&piece.bytes);
            read.expect("a piece as it was written");
        }
    }
    assert_eq!(restore.summary().retained, 1);
}

#[test]
fn a_missing_or_wrong_entry_is_told() {
    let mut world = furnished();
    let whole = whole(&mut world);
    let log = log(&world);
    let read = || {
        let mut restore = Restore::new(config());
        whole
            .pieces
            .iter()
            .for_each(|piece| restore.piece(piece).expect("a piece"));
        restore
    };
    let wanted = read().wanted().expect("whole");
    let (first, _) = wanted.ranges().next().expect("something lives");
    let mut restore = read();
    for (at, entry) in log.iter().filter(|(at, _)| **at != first) {
        restore.live_entry(*at, entry).expect("entries of the log");
    }
    let missing = restore.finish().expect_err("one entry has not come");
    assert_eq!(missing, RestoreError::EntryMissing { index: first.0 });
    let mut restore = read();
    let wrong = restore.live_entry(first, &bytes::Bytes::from_static(b"no entry"));
    assert!(matches!(wrong, Err(RestoreError::NoRecord { index, .. }) if index == first.0));
    assert_eq!(
        Restore::new(PartitionConfig::new(
            OTHER,
            courser_contract::Class::Durable
        ))
        .piece(&whole.pieces[0])
        .expect_err("of another partition"),
        RestoreError::OtherPartition { found: DURABLE.0 }
    );
}

/// Entries of which a cleaner would keep something.
fn needed(bytes: &[u8]) -> Result<BTreeSet<u64>, RestoreError> {
    let mut needed = BTreeSet::new();
    let mut scan = NeededRecords::new(DURABLE);
    for piece in bytes.chunks(777) {
        scan.piece(piece, |index, _| {
            needed.insert(index.0);
        })?;
    }
    scan.finish().map(|()| needed)
}

/// Reads pieces that may be anything.
fn read(
    bytes: &[u8],
    log: &BTreeMap<courser_contract::LogIndex, bytes::Bytes>,
) -> Result<Partition, RestoreError> {
    let needed = needed(bytes);
    let mut restore = Restore::new(config());
    for piece in bytes.chunks(1_000) {
        restore.piece(piece)?;
    }
    let wanted = restore.wanted()?;
    let needed = needed.expect("what a start reads, a cleaner reads");
    let all = wanted.ranges().flat_map(|(first, last)| first.0..=last.0);
    assert!(all.eq(needed), "both need the same");
    for (first, last) in wanted.ranges() {
        for (at, entry) in log.range(first..=last) {
            restore.live_entry(*at, entry)?;
        }
    }
    restore.finish()
}

#[test]
fn a_checkpoint_cut_anywhere_is_an_error() {
    let mut world = furnished();
    let whole = whole(&mut world);
    let log = log(&world);
    let bytes: Vec<u8> = whole.pieces.iter().flatten().copied().collect();
    assert!(read(&bytes, &log).is_ok());
    for cut in 0..bytes.len() {
        assert!(read(&bytes[..cut], &log).is_err(), "cut at {cut}");
    }
}

/// Numbers of volatile partitions begin with this byte; an outbox that led to one was taken.
#[test]
fn m19_a_byte_of_a_volatile_partition_anywhere_is_an_error_or_another_state() {
    let mut world = furnished();
    let whole = whole(&mut world);
    let log = log(&world);
    let mut bytes: Vec<u8> = whole.pieces.iter().flatten().copied().collect();
    for at in 0..bytes.len() {
        let before = std::mem::replace(&mut bytes[at], 0xC0);
        if let Ok(partition) = read(&bytes, &log) {
            partition.check();
        }
        bytes[at] = before;
    }
}

#[test]
fn changed_bytes_are_an_error_or_another_state_and_never_a_panic() {
    let mut world = furnished();
    let whole = whole(&mut world);
    let log = log(&world);
    let bytes: Vec<u8> = whole.pieces.iter().flatten().copied().collect();
    let changes = prop::collection::vec((0..bytes.len(), any::<u8>()), 1..4);
    let config = ProptestConfig {
        cases: 2_000,
        ..ProptestConfig::default()
    };
    let counts = [std::cell::Cell::new(0), std::cell::Cell::new(0)];
    proptest!(config, |(changes in changes)| {
        let mut changed = bytes.clone();
        for (at, byte) in changes {
            changed[at] = byte;
        }
        let read = read(&changed, &log);
        if let Ok(partition) = &read {
            partition.check();
        }
        let count = &counts[usize::from(read.is_ok())];
        count.set(count.get() + 1);
    });
    let [refused, taken] = counts.map(|count| count.get());
    assert!(
        refused > 100 && taken > 10,
        "{refused} refused, {taken} taken"
    );
}

/// The bug of which M42 warns: a part that changes before it is written is written as it is afterwards.
#[cfg(feature = "planted")]
#[test]
fn pieces_that_are_valid_at_different_places_are_found_m42() {
    let mut world = furnished();
    world.plant_late_pieces = true;
    let found = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        for n in 0..50 {
            world.send("a/b", &n.to_string(), QoS::AtLeastOnce);
        }
    }));
    assert!(found.is_err(), "the planted bug is found");
}

/// The last chunk of a stream may be wholly done before it is full, while an earlier message is under way: that checkpoint could not be read,
/// and its partition was set aside at the next start.
#[test]
fn m42_a_last_chunk_of_which_all_is_done_is_read_back() {
    let mut world = World::new();
    let at = world.client("a");
    let options = Options {
        receive_maximum: 400,
        ..Options::durable()
    };
    world.attach(at, options);
    world.subscribe(at, to("a/#", QoS::AtLeastOnce));
    world.clients[at].acks = Acks::Held;
    for n in 0..260 {
        world.send("a/x", &n.to_string(), QoS::AtLeastOnce);
    }
    world.settle();
    let first = world.clients[at].waiting.pop_front();
    assert!(first.is_some(), "it stays under way");
    world.ack(at, 259);
    let before = world.checkpoints;
    while world.checkpoints < before + 2 {
        world.pass_time(1);
    }
    world.restart(DURABLE);
    world.settle();
    // It goes on in that chunk.
    world.send("a/x", "260", QoS::AtLeastOnce);
    world.settle();
    world.clients[at].acks = Acks::Auto;
    world.attach(
        at,
        Options {
            receive_maximum: 400,
            ..Options::durable()
        },
    );
    let got = world.got(at);
    assert_eq!(got[got.len() - 2..], ["0", "260"]);
}

/// A session that is away, with so many messages that wait for it.
fn backlog(messages: usize) -> (World, usize) {
    let mut world = World::new();
    let at = world.client("a");
    world.attach(at, Options::durable());
    world.subscribe(at, to("a/#", QoS::AtLeastOnce));
    world.clients[at].acks = Acks::Held;
    for n in 0..messages {
        world.send("a/x", &n.to_string(), QoS::AtLeastOnce);
    }
    world.settle();
    (world, at)
}

/// Looks at records that are in no cache are what takes the time of a slice, so a turn takes as few of them as can be.
#[test]
fn m42_a_slice_as_a_turn_takes_it_names_less_than_a_chunk_of_references() {
    /// What a turn of the broker writes at most (`SLICE_BYTES` there).
    const SLICE: usize = 1 << 10;
    /// A reference takes three bytes at least.
    const CHUNK: usize = 3 * 256;
    const CHUNKS: usize = 4;
    let (mut world, at) = backlog(CHUNKS * 256);
    world.detach(at, DetachCause::Lost);
    let node = world.nodes.get_mut(&DURABLE).expect("it is there");
    node.partition.cancel_checkpoint();
    assert!(node.partition.begin_checkpoint());
    let mut written = Vec::new();
    while node.partition.checkpoint_end().is_none() {
        let before = node.partition.checkpoint_bytes();
        let piece = node.partition.take_checkpoint_piece(SLICE);
        let bytes = piece.map_or(0, |piece| piece.bytes.len());
        written.push(node.partition.checkpoint_bytes() + bytes - before);
    }
    assert!(written.iter().all(|bytes| *bytes < CHUNK), "{written:?}");
    let all: usize = written.iter().sum();
    assert!(all > CHUNKS * CHUNK, "{written:?}");
}

#[test]
fn m42_a_chunk_that_changes_while_it_is_named_is_written_as_it_was() {
    let (mut world, at) = backlog(600);
    let before = world.checkpoints;
    for step in 0..90 {
        // What is done lies in the first chunk that is left, what comes in the last one.
        match step % 3 {
            0 => world.ack(at, 1),
            1 => {
                world.send("a/x", "more", QoS::AtLeastOnce);
            }
            _ => {}
        }
        world.turn();
        let saved = world.saved(DURABLE).expect("some have ended");
        let log = log(&world).into_iter();
        let upto = log.take_while(|(at, _)| *at <= saved.applied());
        let replayed = Partition::replay(saved.config().clone(), upto);
        assert!(
            saved.encode_state() == replayed.encode_state(),
            "saved at {:?}",
            saved.applied()
        );
    }
    assert!(world.checkpoints > before + 6, "they go on meanwhile");
}
