//! Allocations per message after warm-up, as the shards' threads count them: at most 0.01 (the goal of the data path).

mod support;

use courser_memory::Counting;
use support::{Client, broker, publish};

#[global_allocator]
static ALLOCATOR: Counting<std::alloc::System> = Counting::new(std::alloc::System);

/// What the shards allocate in a life in which a publisher sends `messages` to a subscriber on the same broker.
fn allocations(qos: u8, messages: usize) -> u64 {
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
    let counted = summary
        .counters()
        .into_iter()
        .find(|(name, _)| name == "allocations");
    counted.expect("this binary counts").1
}

/// The difference of a long and a short life, so that start, warm-up and end count for nothing.
fn each(qos: u8) -> f64 {
    let (short, long) = (allocations(qos, 5_000), allocations(qos, 25_000));
    (long as f64 - short as f64) / 20_000.0
}

#[test]
fn a_message_of_qos_0_costs_no_allocation() {
    let each = each(0);
    assert!(each <= 0.01, "{each} allocations a message");
}

/// What is stored costs allocations by the turn, not by the message: an entry is a block of its own. Here a turn has few
/// messages, because each is acknowledged before the next window.
#[test]
fn a_message_of_qos_1_costs_less_than_an_allocation() {
    let each = each(1);
    assert!(each <= 0.5, "{each} allocations a message");
}
