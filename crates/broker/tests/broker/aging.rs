//! Messages that have waited, or were retained, for longer than the settings say: they go while nobody is there, counted, and what they
//! take on the disk with them.

use std::net::SocketAddr;

use crate::support::{Client, broker, broker_on, counter, publish};
use courser_settings::{Settings, Sources};

const RETAIN: u8 = 0x01;
const LIMITS: [&str; 2] = ["session.queue_age_max=1s", "retained.age_max=1s"];

/// A message that waits for the session of a client that is away, and a retained one.
fn store(address: SocketAddr) {
    let (mut client, _) = Client::session(address, "absent", 4, 0, &[]);
    client.subscribe("w", 1);
    client.send(0xE0, &[]);
    assert!(client.is_closed());
    let mut publisher = Client::connect(address, "publisher");
    for (topic, flags) in [("w", 0), ("kept", RETAIN)] {
        let mut packet = publish(topic, 1, 1, b"old");
        packet[0] |= flags;
        publisher.send_raw(&packet);
        assert_eq!(publisher.receive().first, 0x40);
    }
}

/// Returns when so many messages were dropped.
fn wait_for_dropped(address: SocketAddr, dropped: &str) {
    let mut watcher = Client::connect(address, "watcher");
    watcher.subscribe("$SYS/broker/publish/messages/dropped", 0);
    while watcher.receive_publish().1 != dropped.as_bytes() {}
}

/// The message that waited is not given to anybody any more: the session goes on with what comes now.
fn goes_on(address: SocketAddr) {
    let (mut client, present) = Client::session(address, "absent", 4, 0, &[]);
    assert!(present, "the session is kept");
    let mut publisher = Client::connect(address, "publisher");
    publisher.send_raw(&publish("w", 1, 1, b"new"));
    assert_eq!(publisher.receive().first, 0x40);
    assert_eq!(client.receive_publish(), ("w".to_owned(), b"new".to_vec()));
}

#[test]
fn what_is_too_old_goes_also_after_a_restart() {
    let folder = tempfile::tempdir().expect("a folder for a test");
    let folder = folder.path();
    let first = broker_on(folder, 2, &["sys.interval=100ms"]);
    store(first.addresses()[0]);
    let summary = first.stop().expect("nothing failed");
    assert_eq!(counter(&summary, "dropped_too_old"), 0);
    let second = broker_on(folder, 2, &[&LIMITS[..], &["sys.interval=100ms"]].concat());
    wait_for_dropped(second.addresses()[0], "2");
    goes_on(second.addresses()[0]);
    let summary = second.stop().expect("nothing failed");
    assert_eq!(counter(&summary, "dropped_too_old"), 2);
}

fn settings(limits: &[&str]) -> Settings {
    let start = [
        "mqtt.listen=127.0.0.1:0",
        "data.store=memory",
        "sys.interval=100ms",
    ];
    let all = start.iter().chain(limits);
    let sources = all.fold(Sources::new(), |sources, change| sources.set(change));
    sources.check().expect("the settings of a test are right")
}

#[test]
fn a_limit_counts_at_once_when_it_is_set() {
    let broker = broker(2, &["sys.interval=100ms"], |_| {});
    let address = broker.addresses()[0];
    store(address);
    broker.reconfigure(settings(&LIMITS));
    wait_for_dropped(address, "2");
    goes_on(address);
    let summary = broker.stop().expect("nothing failed");
    assert_eq!(counter(&summary, "dropped_too_old"), 2);
}
