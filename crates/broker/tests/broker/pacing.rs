//! Publishers that are faster than those who get their messages.

use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

use crate::support::{Client, asked, broker, counter, encode, publish};
use courser_broker::Broker;

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

/// Messages of QoS 2, more than the queue takes.
const EXCHANGES: u32 = 4_000;
const SHORT_QUEUE: &str = "session.queue_messages_max=2000";
/// While it is paced, a publisher with this window sends 500 messages a second: each exchange takes two reads.
const EXCHANGE_WINDOW: u32 = 20;
/// Messages that the subscriber takes one by one once the publisher is paced: at 500 a second they leave room in the queue, and a
/// publisher that is not paced sends everything meanwhile.
const SLOW: u32 = 10;

/// Publishes QoS 2 out of a session that outlives its connection, as fast as the exchanges go.
fn exchange_all(address: SocketAddr) {
    let mut publisher = Client::connect_with(address, "publisher", 4, 0, &[]);
    for window in 0..EXCHANGES / EXCHANGE_WINDOW {
        let mut bytes = Vec::new();
        for place in 0..EXCHANGE_WINDOW {
            let message = window * EXCHANGE_WINDOW + place;
            bytes.extend(publish("t", 2, place as u16 + 1, &message.to_be_bytes()));
        }
        publisher.send_raw(&bytes);
        for (answer, next) in [(0x50, Some(0x62)), (0x70, None)] {
            let packets: Vec<_> = (0..EXCHANGE_WINDOW).map(|_| publisher.receive()).collect();
            assert!(packets.iter().all(|packet| packet.first == answer));
            if let Some(next) = next {
                let releases = packets.iter().map(|packet| encode(next, &packet.body));
                publisher.send_raw(&releases.collect::<Vec<_>>().concat());
            }
        }
    }
}

/// Whether a publisher has been paced.
fn has_slowed(broker: &Broker) -> bool {
    let control = broker.control();
    control.shards().any(|shard| {
        let report = asked(control.report(shard)).expect("the shards answer");
        report.counters.publishers_slowed > 0
    })
}

/// The session of the subscriber is kept (the publisher's outbox leads there), or not (messages go there straight).
#[test]
fn m12_a_slow_subscriber_loses_nothing_of_qos2() {
    for (shards, flags) in [(1, 0), (2, 0), (2, 0x02)] {
        let broker = broker(shards, &[SHORT_QUEUE], |_| {});
        let address = broker.addresses()[0];
        let mut subscriber = Client::connect_with(address, "subscriber", 4, flags, &[]);
        subscriber.subscribe("t", 2);
        let publisher = thread::spawn(move || exchange_all(address));
        let (mut came, mut ended, mut slow) = (0, 0, SLOW);
        while ended < EXCHANGES {
            let packet = subscriber.receive();
            if packet.first == 0x62 {
                subscriber.send(0x70, &packet.body);
                ended += 1;
                continue;
            }
            assert_eq!(packet.first, 0x34, "no repeat");
            assert_eq!(packet.body[5..], u32::to_be_bytes(came), "in order");
            came += 1;
            if slow > 0 {
                thread::sleep(Duration::from_millis(20));
                slow -= u32::from(has_slowed(&broker));
            }
            subscriber.send(0x50, &packet.body[3..5]);
        }
        publisher.join().expect("the publisher ends");
        let summary = broker.stop().expect("no shard failed");
        assert_eq!(slow, 0, "the publisher was paced");
        assert_eq!(counter(&summary, "dropped_queue_full"), 0);
    }
}
