//! Large messages: one comes in as many pieces as its sender likes (M15).

use std::net::SocketAddr;
use std::time::Duration;

use crate::support::{Client, broker, publish};

/// More than a socket and a turn take at once.
const BYTES: usize = 600_000;
/// Long enough for what was sent to have been read.
const A_WHILE: Duration = Duration::from_millis(200);

/// A client that has subscribed to `large/#`.
fn watcher(address: SocketAddr) -> Client {
    let mut watcher = Client::connect(address, "watcher");
    watcher.subscribe("large/#", 1);
    watcher
}

/// Sends one message and waits for its acknowledgement.
fn deliver(client: &mut Client, topic: &str, payload: &[u8]) {
    client.send_raw(&publish(topic, 1, 1, payload));
    client.settle(1, 1, 1);
}

/// Whose message it is, and its payload's length.
fn next(watcher: &mut Client) -> (String, usize) {
    let (topic, payload) = watcher.receive_publish();
    (topic, payload.len())
}

fn of(topic: &str, bytes: usize) -> (String, usize) {
    (topic.to_owned(), bytes)
}

#[test]
fn m15_others_pass_a_large_message_and_later_ones_of_its_sender_wait_behind_it() {
    for shards in [1, 2] {
        let broker = broker(shards, &[], |_| {});
        let address = broker.addresses()[0];
        let mut watcher = watcher(address);
        let mut sender = Client::connect(address, "sender");
        let mut other = Client::connect(address, "other");
        let mut bytes = publish("large/1", 1, 1, &[7; BYTES]);
        bytes.extend(publish("large/2", 1, 2, b"behind"));
        for piece in bytes.chunks(BYTES / 4) {
            deliver(&mut other, "large/other", b"passes");
            assert_eq!(next(&mut watcher), of("large/other", 6), "{shards}");
            sender.send_raw(piece);
        }
        assert_eq!(next(&mut watcher), of("large/1", BYTES), "{shards}");
        assert_eq!(next(&mut watcher), of("large/2", 6), "{shards}");
        sender.settle(1, 1, 2);
        broker.stop().expect("no shard failed");
    }
}

#[test]
fn m15_a_large_message_is_matched_at_its_last_piece() {
    let broker = broker(2, &[], |_| {});
    let address = broker.addresses()[0];
    let mut sender = Client::connect(address, "sender");
    let mut bytes = publish("large/kept", 1, 1, &[7; BYTES]);
    bytes[0] |= 1;
    let (first, last) = bytes.split_at(BYTES / 2);
    sender.send_raw(first);
    std::thread::sleep(A_WHILE);
    // It has subscribed before the message is there, and gets it as one that comes: without RETAIN, and once.
    let mut watcher = watcher(address);
    sender.send_raw(last);
    sender.settle(1, 1, 1);
    let packet = watcher.receive();
    assert_eq!(packet.first, 0x32, "QoS 1, no RETAIN");
    deliver(&mut sender, "large/end", b"end");
    assert_eq!(next(&mut watcher), of("large/end", 3));
    // And what is kept is the whole.
    let mut late = Client::connect(address, "late");
    late.subscribe("large/kept", 1);
    assert_eq!(next(&mut late), of("large/kept", BYTES));
    broker.stop().expect("no shard failed");
}

#[test]
fn m15_a_large_message_whose_sender_goes_ends_with_it() {
    let broker = broker(2, &[], |_| {});
    let address = broker.addresses()[0];
    let mut watcher = watcher(address);
    let mut sender = Client::connect(address, "sender");
    let mut bytes = publish("large/kept", 1, 1, &[7; BYTES]);
    bytes[0] |= 1;
    sender.send_raw(&bytes[..BYTES - 1]);
    std::thread::sleep(A_WHILE);
    drop(sender);
    let mut other = Client::connect(address, "other");
    deliver(&mut other, "large/end", b"end");
    assert_eq!(next(&mut watcher), of("large/end", 3));
    let mut late = Client::connect(address, "late");
    late.subscribe("large/kept", 1);
    deliver(&mut other, "large/kept", b"now");
    assert_eq!(next(&mut late), of("large/kept", 3), "nothing was kept");
    broker.stop().expect("no shard failed");
}
