//! What the writer does while its disk has no room (M47).

use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use courser_contract::{LogIndex, PartitionId, Term};
use courser_log::{CheckpointAt, LiveEntries};

use super::{PATIENCE, World, entry, open};
use crate::stations::orders::{Checkpointed, Mark, Order};
use crate::stations::requests::Request;

const LARGE: usize = 300 << 10;

impl World {
    fn order_large(&mut self, mark: Mark, index: u64) {
        let mut order = Order::of(mark);
        order.push(entry(0, index, LARGE));
        self.senders[0].send(&mut order);
    }

    /// Fills the log with all that fits without another segment, synced, but the last order. The number of orders that were answered.
    fn fill_up(&mut self) -> u64 {
        for index in 1..=8 {
            self.order_large(Mark::Synced, index);
            self.done(0);
        }
        self.disk.set_capacity(Some(self.disk.used()));
        let mut index = 8;
        loop {
            index += 1;
            self.order_large(Mark::Written, index);
            let deadline = Instant::now() + Duration::from_millis(300);
            while self.senders[0].next_done().is_none() {
                if Instant::now() > deadline {
                    return index - 1;
                }
                thread::yield_now();
            }
        }
    }
}

#[test]
fn m1_what_counts_once_written_is_synced_while_something_waits_for_room() {
    let mut world = World::new(1);
    world.begin();
    let answered = world.fill_up();
    assert!(answered > 8, "some are only written");
    let deadline = Instant::now() + PATIENCE;
    while world.survivors(0, 3).last() != Some(&answered) {
        assert!(Instant::now() < deadline, "it is synced");
        thread::sleep(Duration::from_millis(10));
    }
    world.end();
}

#[test]
fn a_writer_without_room_ends_with_its_shards() {
    let mut world = World::new(1);
    world.begin();
    let answered = world.fill_up();
    let (disk, senders) = (world.disk.clone(), std::mem::take(&mut world.senders));
    drop(senders);
    world.end();
    let (_, recovered) = open(&disk.power_loss(3), 2);
    let last = recovered.partitions[&PartitionId(1)].entries.last();
    assert_eq!(
        last.map(|it| it.index.0),
        Some(answered),
        "all that was answered, and no more"
    );
}

/// The log's reader waits for that answer, and it finishes the checkpoints that give room.
#[test]
fn m47_who_wants_to_copy_a_log_without_room_is_refused_at_once() {
    let mut world = World::new(1);
    world.begin();
    world.fill_up();
    let (answer, answered) = mpsc::sync_channel(1);
    let cut = Request::Cut {
        answer,
        lost: Arc::default(),
    };
    world.requests.send(cut).expect("the writer is there");
    let refused = answered.recv_timeout(PATIENCE);
    assert_eq!(refused.err(), Some(mpsc::RecvTimeoutError::Disconnected));
    world.end();
}

/// The order that tells of a checkpoint waits behind the one that needs the room.
#[test]
fn m47_a_checkpoint_that_waits_gives_the_room_that_is_waited_for() {
    let mut world = World::new(2);
    world.begin();
    for index in 1..=8 {
        world.order_large(Mark::Synced, index);
        world.done(0);
    }
    world.disk.set_capacity(Some(world.disk.used()));
    (9..=12).for_each(|index| world.order_large(Mark::Synced, index));
    let answered = |world: &mut World| {
        thread::sleep(Duration::from_millis(50));
        std::iter::from_fn(|| world.senders[0].next_done()).count()
    };
    let mut done = answered(&mut world);
    assert!(done < 4, "the last ones have no room");
    let mut order = Order::of(Mark::Synced);
    order.checkpoints.push(Checkpointed {
        partition: PartitionId(1),
        at: CheckpointAt {
            index: LogIndex(8),
            term: Term(1),
        },
        live: LiveEntries::default(),
    });
    world.senders[1].send(&mut order);
    let deadline = Instant::now() + PATIENCE;
    while done < 4 {
        assert!(Instant::now() < deadline, "the writer finds room");
        done += answered(&mut world);
    }
    world.done(1);
    world.end();
}

/// What frees segments on a full disk is a checkpoint, and one waits for the proof that all it is made of is synced. Where that is only
/// written, the log is asked for it: by an order that stood behind the one that had no room, for ever.
#[test]
fn m47_a_proof_of_a_sync_is_given_while_something_waits_for_room() {
    let mut world = World::new(2);
    world.begin();
    let answered = world.fill_up();
    assert!(answered > 8, "some are only written");
    for shard in [0, 1] {
        let mut question = Order::of(Mark::Synced);
        question.sync = true;
        world.senders[shard].send(&mut question);
        let (written, synced) = world.done(shard).log.expect("where the log stands");
        assert!(synced.batch() >= written, "shard {shard}");
        assert_eq!(world.survivors(0, 3).last(), Some(&answered));
    }
    world.end();
}

/// A shard whose turns all order something has soon as many orders under way as may be.
#[test]
fn m47_a_question_finds_a_place_while_all_orders_wait_for_room() {
    let mut world = World::new(1);
    world.begin();
    let answered = world.fill_up();
    for index in answered + 2..answered + 80 {
        world.order_large(Mark::Written, index);
    }
    let mut order = Order::of(Mark::Synced);
    order.push(entry(0, answered + 80, 100));
    world.senders[0].send(&mut order);
    assert_eq!(order.records.len(), 1, "it stays, since too many are away");
    let mut question = Order::of(Mark::Synced);
    question.sync = true;
    world.senders[0].send(&mut question);
    assert!(world.done(0).log.is_some());
    world.end();
}

/// All that gathered was one batch, which had to have room as a whole.
#[test]
fn m47_what_has_room_in_the_segment_that_is_written_does_not_wait_for_another_one() {
    let mut world = World::new(1);
    let mut writer = world.writer.take().expect("it has not begun");
    world.disk.set_capacity(Some(world.disk.used()));
    let order = |world: &mut World, index: u64, bytes: usize| {
        let mut order = Order::of(Mark::Synced);
        order.push(entry(0, index, bytes));
        world.senders[0].send(&mut order);
    };
    for index in 1..=4 {
        order(&mut world, index, 200 << 10);
        writer.gather();
        writer.work().expect("there is room");
        world.done(0);
    }
    let left = writer.log.left_in_segment();
    assert!((180 << 10..210 << 10).contains(&left), "{left} bytes");
    // Together a batch that is larger.
    (5..=27).for_each(|index| order(&mut world, index, 10 << 10));
    world.writer = Some(writer);
    world.begin();
    let fit = left / (10_400);
    for _ in 0..fit {
        world.done(0);
    }
    let survivors: Vec<u64> = (1..=4 + fit).collect();
    assert_eq!(world.survivors(0, 3), survivors);
    thread::sleep(Duration::from_millis(250));
    assert!(world.senders[0].next_done().is_none(), "the others wait");
    world.disk.set_capacity(None);
    for _ in fit..23 {
        world.done(0);
    }
    assert_eq!(world.survivors(0, 3), (1..=27).collect::<Vec<u64>>());
    world.end();
}

/// `/readyz` and the metrics say it: nobody could connect, and all numbers looked right.
#[test]
fn m47_a_writer_that_waits_for_room_says_for_how_long() {
    let mut world = World::new(1);
    world.begin();
    assert_eq!(world.state.waiting(), None);
    let answered = world.fill_up();
    let waits = world.state.waiting().expect("one order has no room");
    assert!(waits >= Duration::from_millis(100), "{waits:?}");
    world.disk.set_capacity(None);
    world.done(0);
    assert_eq!(world.state.waiting(), None, "behind {answered} orders");
    world.end();
}

/// Each shard knew only whether there was room, so all of them together ordered more than there was (M4).
#[test]
fn m4_what_shards_may_order_is_what_the_disk_has_without_what_is_under_way() {
    const GATHERS: usize = 1 << 30;
    let mut world = World::new(2);
    let before = world.senders[1].left(0);
    assert_eq!(world.senders[0].left(0), before, "each has its part");
    world.senders[0].tell_ordered(GATHERS);
    world.begin();
    world.order(1, Mark::Synced, 1..2);
    world.done(1);
    // What was written may be told once more.
    world.order(1, Mark::Synced, 2..3);
    world.done(1);
    let after = world.senders[1].left(0);
    assert!(
        before - after >= (GATHERS / 2) as u64,
        "{before} B were left, and then {after} B"
    );
    assert!(
        world.senders[0].left(GATHERS) >= after,
        "of what is left each has its part"
    );
    // No room: nothing new may be ordered by anyone.
    world.disk.set_capacity(Some(world.disk.used()));
    let deadline = Instant::now() + PATIENCE;
    for index in 3.. {
        world.order_large(Mark::Written, index);
        if world.senders[0].left(GATHERS) == 0 && world.senders[1].left(0) == 0 {
            break;
        }
        assert!(Instant::now() < deadline, "it is told");
        thread::sleep(Duration::from_millis(5));
    }
    world.disk.set_capacity(None);
    world.end();
}
