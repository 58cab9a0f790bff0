//! Messages that wait for long are only in the log (M17): they come back in order, also after a restart, and how many may be in memory can
//! be changed while the broker runs.

use std::net::SocketAddr;
use std::path::Path;

use crate::support::{Client, broker_on, counter, publish};
use courser_broker::Broker;
use courser_settings::{Settings, Sources};

const MESSAGES: u16 = 300;
const LITTLE: &str = "session.hot_bytes=16KiB";

/// Bytes of each.
const SHORT: usize = 500;
/// All of them are more than a partition lets go in one step.
const LONG: usize = 16_000;

fn payload(number: u16, bytes: usize) -> Vec<u8> {
    format!("{number:0>bytes$}").into_bytes()
}

/// Messages that wait for the session of a client that is away.
fn store(address: SocketAddr, bytes: usize) {
    let (mut client, _) = Client::session(address, "absent", 4, 0, &[]);
    client.subscribe("w", 1);
    client.send(0xE0, &[]);
    assert!(client.is_closed());
    let mut publisher = Client::connect(address, "publisher");
    for number in 0..MESSAGES {
        publisher.send_raw(&publish("w", 1, number + 1, &payload(number, bytes)));
        assert_eq!(publisher.receive().first, 0x40);
    }
}

/// The client comes back, takes its messages in order, and stops the broker. How many of them were read back.
fn take(broker: Broker, bytes: usize) -> u64 {
    let (mut client, present) = Client::session(broker.addresses()[0], "absent", 4, 0, &[]);
    assert!(present, "the session is kept");
    for number in 0..MESSAGES {
        let expected = ("w".to_owned(), payload(number, bytes));
        assert!(client.receive_publish() == expected, "message {number}");
    }
    let summary = broker.stop().expect("nothing failed");
    assert_eq!(counter(&summary, "recalled_lost"), 0);
    counter(&summary, "recalled_records")
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder for a test")
}

#[test]
fn m17_what_left_memory_is_read_back_in_order() {
    let folder = folder();
    let broker = broker_on(folder.path(), 2, &[LITTLE]);
    store(broker.addresses()[0], SHORT);
    let recalled = take(broker, SHORT);
    assert!(recalled > u64::from(MESSAGES) / 2, "{recalled}");
}

#[test]
fn m17_a_start_leaves_in_the_log_what_there_is_no_room_for() {
    let folder = folder();
    let first = broker_on(folder.path(), 2, &[]);
    store(first.addresses()[0], SHORT);
    first.stop().expect("nothing failed");
    let second = broker_on(folder.path(), 2, &[LITTLE]);
    let recalled = take(second, SHORT);
    assert!(recalled > u64::from(MESSAGES) / 2, "{recalled}");
}

fn settings(folder: &Path, more: &str) -> Settings {
    let path = format!("data.path={}", folder.display());
    let all = ["mqtt.listen=127.0.0.1:0", &path, more];
    let sources = all
        .iter()
        .fold(Sources::new(), |sources, change| sources.set(change));
    sources.check().expect("the settings of a test are right")
}

#[test]
fn how_much_may_be_in_memory_counts_at_once_where_nothing_else_happens() {
    let folder = folder();
    let broker = broker_on(folder.path(), 2, &[]);
    store(broker.addresses()[0], LONG);
    broker.reconfigure(settings(folder.path(), LITTLE));
    let recalled = take(broker, LONG);
    assert!(recalled > u64::from(MESSAGES) / 2, "{recalled}");
}
