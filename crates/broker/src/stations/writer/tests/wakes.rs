//! When the writer wakes shards that have ordered nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Wake, Waker};
use std::thread;
use std::time::{Duration, Instant};

use courser_engine::DiskRoom;

use super::{PATIENCE, World, entry};
use crate::stations::orders::{Mark, Order};

const SEGMENT_BYTES: u64 = 1 << 20;
/// What an order writes, about.
const BYTES: usize = 60 << 10;

/// Counts wakes.
#[derive(Default)]
struct Wakes(AtomicU32);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

impl Wakes {
    fn count(&self) -> u32 {
        self.0.load(Ordering::SeqCst)
    }
}

impl World {
    /// A shard goes to sleep for the first time.
    fn sleeps(&self, shard: usize) -> Arc<Wakes> {
        let wakes = Arc::new(Wakes::default());
        self.dozes[shard].set_waker(&Waker::from(Arc::clone(&wakes)));
        self.dozes[shard].lie_down();
        wakes
    }

    fn order_some(&mut self, index: u64) {
        let mut order = Order::of(Mark::Synced);
        order.push(entry(0, index, BYTES));
        self.senders[0].send(&mut order);
    }
}

/// What it has may keep the segment that was left, and it hears of that from nobody else.
#[test]
fn m42_a_shard_that_sleeps_is_woken_when_the_log_begins_a_segment_and_not_before() {
    let mut world = World::new(2);
    world.begin();
    let wakes = world.sleeps(1);
    let (mut stood, mut index) = (0, 0);
    loop {
        index += 1;
        assert!(index < 32, "it is woken");
        world.order_some(index);
        world.done(0);
        if wakes.count() > 0 {
            break;
        }
        let stands = world.state.log_stands();
        assert!(
            stands >= stood + BYTES as u64,
            "all shards see where the log stands"
        );
        stood = stands;
    }
    assert!(
        stood + 2 * BYTES as u64 > SEGMENT_BYTES,
        "the segment was full"
    );
    world.dozes[1].lie_down();
    world.order_some(index + 1);
    world.done(0);
    assert_eq!(wakes.count(), 1, "once a segment");
    world.end();
}

/// While room is short each partition is saved each second: one of a shard that sleeps may be what keeps the segments.
#[test]
fn m47_a_shard_that_sleeps_is_woken_when_room_becomes_short() {
    let mut world = World::new(2);
    world.begin();
    world.order_some(1);
    world.done(0);
    world.disk.set_capacity(Some(world.disk.used()));
    let wakes = world.sleeps(1);
    let deadline = Instant::now() + PATIENCE;
    let (mut index, mut is_away) = (1, false);
    while wakes.count() == 0 {
        if !is_away {
            index += 1;
            world.order_some(index);
        }
        // The last one waits for the next segment, for which there is no room.
        thread::sleep(Duration::from_millis(1));
        is_away = world.senders[0].next_done().is_none();
        assert!(Instant::now() < deadline, "it is woken");
    }
    assert_eq!(world.state.room(), DiskRoom::Short);
    world.disk.set_capacity(None);
    if is_away {
        world.done(0);
    }
    world.end();
}
