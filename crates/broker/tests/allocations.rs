//! Allocations per message after warm-up, as the shards' threads count them: at most 0.01 (the goal of the data path).

mod support;

use courser_memory::Counting;
use support::{Client, broker, publish};

#[global_allocator]
static ALLOCATOR: Counting<std::alloc::System> = Counting::new(std::alloc::System);

/// What the shards did in a life in which a publisher sends `messages` to a subscriber on the same broker.
struct Life {
    allocations: u64,
    turns: u64,
}

fn live(qos: u8, messages: usize) -> Life {
    let broker = broker(2, &["sys.interval=0s"], |_| {});
    let address = broker.addresses()[0];
    let mut subscriber = Client::connect(address, "sub");
    subscriber.subscribe("t", qos);
    let mut publisher = Client::connect(address, "pub");
    for window in 0..messages / 50 {
        let mut bytes = Vec::new();
        for message in 0..50 {
            let packet_id = (window * 50 + message) % 60_000 + 1;
            bytes.extend(publish("t", qos, packet_id as u16, b"sixteen bytes..."));
        }
        publisher.send_raw(&bytes);
        for _ in 0..50 {
            subscriber.receive_publish();
            if qos > 0 {
                publisher.receive();
            }
        }
    }
    let summary = broker.stop().expect("no shard failed");
    let counters = summary.counters();
    let counter = |wanted: &str| {
        let found = counters.iter().find(|(name, _)| name == wanted);
        found.expect("this binary counts").1
    };
    Life {
        allocations: counter("allocations"),
        turns: counter("turns"),
    }
}

const MORE: usize = 20_000;

/// What `MORE` messages cost: a long life less a short one, so that start, warm-up and end count for nothing.
fn more(qos: u8) -> Life {
    let (short, long) = (live(qos, 5_000), live(qos, 5_000 + MORE));
    Life {
        allocations: long.allocations.saturating_sub(short.allocations),
        turns: long.turns.saturating_sub(short.turns),
    }
}

#[test]
fn a_message_of_qos_0_costs_no_allocation() {
    let life = more(0);
    let each = life.allocations as f64 / MORE as f64;
    assert!(each <= 0.01, "{each} allocations a message");
}

/// What is stored costs allocations by the turn, not by the message: an entry is a block of its own. How many messages a turn has
/// is the load's choice, so the bound is one for turns.
#[test]
fn a_turn_of_qos_1_costs_few_allocations_and_a_message_none() {
    let life = more(1);
    let bound = 4 * life.turns + MORE as u64 / 100;
    assert!(
        life.allocations <= bound,
        "{} allocations in {} turns",
        life.allocations,
        life.turns
    );
}
