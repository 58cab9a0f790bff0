//! Publishers that are faster than those who get their messages.

mod support;

use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

use courser_broker::Summary;
use support::{Client, broker, publish};

/// More than the queue, what may be on its way between two shards, and the kernel's buffers together.
const MESSAGES: u32 = 40_000;
const QUEUE: &str = "session.queue_messages_max=10000";
const WINDOW: u32 = 50;

/// Publishes as fast as acknowledgements come.
fn publish_all(address: SocketAddr) {
    let mut publisher = Client::connect(address, "publisher");
    for window in 0..MESSAGES / WINDOW {
        let mut bytes = Vec::new();
        for message in window * WINDOW..(window + 1) * WINDOW {
            let mut payload = vec![b'x'; 200];
            payload[..4].copy_from_slice(&message.to_be_bytes());
            bytes.extend(publish("t", 1, (message % WINDOW) as u16 + 1, &payload));
        }
        publisher.send_raw(&bytes);
        for _ in 0..WINDOW {
            assert_eq!(publisher.receive().first, 0x40);
        }
    }
}

fn counter(summary: &Summary, name: &str) -> u64 {
    let counters = summary.counters();
    let found = counters.iter().find(|(wanted, _)| wanted == name);
    found.map_or(0, |(_, count)| *count)
}

/// The subscriber rests again and again: it takes a third of what the publisher would send.
#[test]
fn m12_a_slow_subscriber_loses_nothing_to_a_fast_publisher() {
    for shards in [1, 2] {
        let broker = broker(shards, &[QUEUE], |_| {});
        let address = broker.addresses()[0];
        let mut subscriber = Client::connect(address, "subscriber");
        subscriber.subscribe("t", 1);
        let publisher = thread::spawn(move || publish_all(address));
        for expected in 0..MESSAGES {
            if expected % 16 == 0 {
                thread::sleep(Duration::from_millis(1));
            }
            let (_, payload) = subscriber.receive_publish();
            assert_eq!(payload[..4], expected.to_be_bytes(), "{shards} shards");
        }
        publisher.join().expect("the publisher ends");
        let summary = broker.stop().expect("no shard failed");
        assert!(counter(&summary, "publishers_slowed") > 0, "{summary:?}");
        assert_eq!(counter(&summary, "dropped_queue_full"), 0);
    }
}

/// A subscriber that has stopped costs its publishers a second at most, and then has its policy.
#[test]
fn m12_a_subscriber_that_stops_slows_nobody_for_long() {
    let broker = broker(2, &[QUEUE], |_| {});
    let address = broker.addresses()[0];
    let mut subscriber = Client::connect(address, "subscriber");
    subscriber.subscribe("t", 1);
    publish_all(address);
    let summary = broker.stop().expect("no shard failed");
    let slowed = counter(&summary, "publishers_slowed");
    assert!(slowed < 60, "{slowed} pauses of 20 ms");
    assert!(counter(&summary, "dropped_queue_full") > 0);
}
