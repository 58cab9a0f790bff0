//! Messages that wait for long are only in the log (M17): they come back in order, also after a restart, and how many may be in memory can
//! be changed while the broker runs.

mod support;

use std::net::SocketAddr;
use std::path::Path;

use courser_broker::Broker;
use courser_settings::{Settings, Sources};
use support::{Client, broker_on, counter, publish};

const MESSAGES: u16 = 300;
const LITTLE: &str = "session.hot_bytes=16KiB";

fn payload(number: u16) -> Vec<u8> {
    format!("{number:0>500}").into_bytes()
}

/// Messages that wait for the session of a client that is away.
fn store(address: SocketAddr) {
    let (mut client, _) = Client::session(address, "absent", 4, 0, &[]);
    client.subscribe("w", 1);
    client.send(0xE0, &[]);
    assert!(client.is_closed());
    let mut publisher = Client::connect(address, "publisher");
    for number in 0..MESSAGES {
        send(&mut publisher, number);
    }
}

fn send(publisher: &mut Client, number: u16) {
    publisher.send_raw(&publish("w", 1, number + 1, &payload(number)));
    assert_eq!(publisher.receive().first, 0x40);
}

/// The client comes back, takes so many messages in order, and stops the broker. How many of them were read back.
fn take(broker: Broker, messages: u16) -> u64 {
    let (mut client, present) = Client::session(broker.addresses()[0], "absent", 4, 0, &[]);
    assert!(present, "the session is kept");
    for number in 0..messages {
        assert_eq!(client.receive_publish(), ("w".to_owned(), payload(number)));
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
    store(broker.addresses()[0]);
    let recalled = take(broker, MESSAGES);
    assert!(recalled > u64::from(MESSAGES) / 2, "{recalled}");
}

#[test]
fn m17_a_start_leaves_in_the_log_what_there_is_no_room_for() {
    let folder = folder();
    let first = broker_on(folder.path(), 2, &[]);
    store(first.addresses()[0]);
    first.stop().expect("nothing failed");
    let second = broker_on(folder.path(), 2, &[LITTLE]);
    let recalled = take(second, MESSAGES);
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
fn how_much_may_be_in_memory_counts_from_the_next_message_on() {
    let folder = folder();
    let broker = broker_on(folder.path(), 2, &[]);
    let address = broker.addresses()[0];
    store(address);
    broker.reconfigure(settings(folder.path(), LITTLE));
    let mut publisher = Client::connect(address, "publisher");
    send(&mut publisher, MESSAGES);
    let recalled = take(broker, MESSAGES + 1);
    assert!(recalled > u64::from(MESSAGES) / 2, "{recalled}");
}
