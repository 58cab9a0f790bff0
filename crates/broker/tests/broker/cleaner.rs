//! A broker whose log is full of what nobody needs any more, with some that somebody does in every segment (M41).

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::support::sessions::{KEEP, leave};
use crate::support::{Client, Packet, asked, broker_on, counter, disk_counter, publish};
use courser_broker::Broker;

const PATIENCE: Duration = Duration::from_secs(60);
/// Of so many messages one is for the session that is away.
const EVERY: u32 = 16;
const BURST: u32 = 64;
const MESSAGES: u32 = 12_800;

fn start(folder: &Path) -> (Broker, SocketAddr) {
    let settings = ["sys.interval=1s", "log.checkpoint_bytes=1MiB"];
    let broker = broker_on(folder, 2, &settings);
    let address = broker.addresses()[0];
    (broker, address)
}

fn session(address: SocketAddr, client_id: &str) -> Client {
    Client::session(address, client_id, 4, KEEP, &[]).0
}

fn payload(number: u32) -> Vec<u8> {
    let mut payload = number.to_be_bytes().to_vec();
    payload.extend((0..800_u32).map(|at| (at * 31 + number) as u8));
    payload
}

/// Waits until so many segments are cleaned.
fn wait_for_cleaned(address: SocketAddr, segments: u64) {
    let mut watcher = Client::connect(address, "watcher");
    watcher.subscribe("$SYS/broker/disk/log_cleaned_segments", 0);
    let deadline = Instant::now() + PATIENCE;
    loop {
        let (_, text) = watcher.receive_publish();
        let text = String::from_utf8(text).expect("a number is text");
        if text.parse::<u64>().expect("a number") >= segments {
            return leave(watcher);
        }
        assert!(Instant::now() < deadline, "segments are cleaned");
    }
}

/// Most messages are read at once, some wait for a session that is away.
fn fill(address: SocketAddr, from: u32, to: u32) {
    let mut reader = session(address, "reader");
    reader.subscribe("read", 1);
    let mut publisher = Client::connect(address, "publisher");
    for burst in (from..to).step_by(BURST as usize) {
        for number in burst..burst + BURST {
            let topic = match number % EVERY {
                0 => "away",
                _ => "read",
            };
            let id = (number - burst + 1) as u16;
            publisher.send_raw(&publish(topic, 1, id, &payload(number)));
        }
        for _ in 0..BURST {
            assert_eq!(publisher.receive().first, 0x40);
        }
        for _ in 0..BURST - BURST / EVERY {
            let Packet { first, body } = reader.receive();
            assert_eq!(first & 0xF6, 0x32);
            reader.send(0x40, &body[6..8]);
        }
    }
    leave(publisher);
    leave(reader);
}

#[test]
fn m41_the_log_of_a_busy_broker_stays_small_and_what_waits_in_it_survives() {
    let folder = tempfile::tempdir().expect("a folder for a test");
    let (mut broker, mut address) = start(folder.path());
    let mut away = session(address, "away");
    away.subscribe("away", 1);
    leave(away);
    // In two lives: the second one cleans what the first has kept.
    fill(address, 0, MESSAGES / 2);
    broker.stop().expect("nothing failed");
    (broker, address) = start(folder.path());
    fill(address, MESSAGES / 2, MESSAGES);
    wait_for_cleaned(address, 2);
    let summary = broker.stop().expect("nothing failed");
    let (all, kept) = (
        counter(&summary, "log_bytes"),
        counter(&summary, "log_kept_bytes"),
    );
    assert!(kept > 0 && all < 2 * (all - kept), "{kept} of {all}");
    assert_eq!(counter(&summary, "cleaner_given_up"), 0);
    (broker, address) = start(folder.path());
    let mut away = session(address, "away");
    for number in (0..MESSAGES).step_by(EVERY as usize) {
        let (topic, got) = away.receive_publish();
        assert_eq!((topic.as_str(), got), ("away", payload(number)));
    }
    broker.stop().expect("nothing failed");
}

/// What publishers send at once is more than a batch holds. An entry of all that would lie in pieces, and one message of it that waits would keep
/// all its segments: of 327 MiB with 2 MB of such messages 313 could not be cleaned.
#[test]
fn m41_a_turn_of_many_large_messages_keeps_no_segment_from_the_cleaner() {
    const AWAY: u32 = 48;
    const PUBLISHERS: u32 = 16;
    const LARGE: u16 = 8;
    let folder = tempfile::tempdir().expect("a folder for a test");
    let settings = ["sys.interval=0s", "log.checkpoint_bytes=1MiB"];
    let broker = broker_on(folder.path(), 1, &settings);
    let address = broker.addresses()[0];
    for number in 0..AWAY {
        let mut away = session(address, &format!("away {number}"));
        away.subscribe(&format!("away/{number}"), 1);
        leave(away);
    }
    let mut reader = session(address, "reader");
    reader.subscribe("read", 1);
    let named = (0..PUBLISHERS).map(|it| Client::connect(address, &format!("publisher {it}")));
    let mut publishers: Vec<Client> = named.collect();
    let mut burst = |from: u32| {
        for (publisher, number) in publishers.iter_mut().zip(from..) {
            let mut burst = Vec::new();
            (1..=LARGE).for_each(|id| burst.extend(publish("read", 1, id, &[7; 16 << 10])));
            let topic = format!("away/{}", number % AWAY);
            burst.extend(publish(&topic, 1, LARGE + 1, &number.to_be_bytes()));
            publisher.send_raw(&burst);
        }
        for publisher in &mut publishers {
            (0..=LARGE).for_each(|_| assert_eq!(publisher.receive().first, 0x40));
        }
        for _ in 0..PUBLISHERS * u32::from(LARGE) {
            let Packet { first, body } = reader.receive();
            assert_eq!(first & 0xF6, 0x32);
            reader.send(0x40, &body[6..8]);
        }
    };
    // Each of these has messages that wait: nothing but the cleaner frees it.
    let mut sent = 0;
    while sent < 4 * PUBLISHERS {
        burst(sent);
        sent += PUBLISHERS;
    }
    let before = files(folder.path());
    let deadline = Instant::now() + PATIENCE;
    loop {
        burst(sent);
        sent += PUBLISHERS;
        let left = &files(folder.path()) & &before;
        if left.is_empty() {
            break;
        }
        assert!(Instant::now() < deadline, "{left:?} are still there");
    }
    let mut away = session(address, "away 1");
    for number in (1..sent).step_by(AWAY as usize) {
        let (_, got) = away.receive_publish();
        assert_eq!(got, number.to_be_bytes());
    }
    let summary = broker.stop().expect("nothing failed");
    assert_eq!(counter(&summary, "cleaner_segments_in_pieces"), 0);
}

/// Names of the files of the log.
fn files(folder: &Path) -> BTreeSet<OsString> {
    let files = std::fs::read_dir(folder.join("log")).expect("there is a log");
    files
        .map(|file| file.expect("it can be listed").file_name())
        .collect()
}

/// Partition 0 has nothing but the entry with which consensus opens its term: that kept a segment of each start.
#[test]
fn no_segment_of_an_earlier_start_is_kept_for_ever() {
    let folder = tempfile::tempdir().expect("a folder for a test");
    let (broker, address) = start(folder.path());
    fill(address, 0, 20 * BURST);
    broker.stop().expect("nothing failed");
    let (broker, address) = start(folder.path());
    let before = files(folder.path());
    let deadline = Instant::now() + PATIENCE;
    for round in 1.. {
        fill(address, round * 20 * BURST, (round + 1) * 20 * BURST);
        let left = &files(folder.path()) & &before;
        if left.is_empty() {
            break;
        }
        assert!(Instant::now() < deadline, "{left:?} are still there");
    }
    broker.stop().expect("nothing failed");
    // What partition 0 has saved is a state like any other.
    let (broker, address) = start(folder.path());
    fill(address, 0, BURST);
    broker.stop().expect("nothing failed");
}

/// A session whose partition is on this one of two shards, and the number of that partition.
fn session_on(broker: &Broker, shard: u16, name: &str) -> (Client, u16) {
    for number in 0..64 {
        let client_id = format!("{name} {number}");
        let client = session(broker.addresses()[0], &client_id);
        let row = asked(broker.control().session(&client_id)).expect("the shards answer");
        let partition = row.expect("it is there").at.partition.0;
        if partition % 2 == shard {
            return (client, partition);
        }
        leave(client);
    }
    panic!("names are spread over the shards")
}

/// A shard that slept knew nothing of what others wrote: its partitions were not saved, so that what had come to them last was needed for ever, where it
/// was, and a start had to read on from there.
#[test]
fn m42_a_shard_to_which_nothing_comes_keeps_no_segment() {
    const MIB: u64 = 1 << 20;
    let folder = tempfile::tempdir().expect("a folder for a test");
    // All connections are on the first shard: nothing wakes the other one.
    let settings = [
        "server.placement=gather",
        "sys.interval=0s",
        "log.checkpoint_bytes=1MiB",
    ];
    let broker = broker_on(folder.path(), 2, &settings);
    let (mut reader, _) = session_on(&broker, 0, "reader");
    reader.subscribe("read", 1);
    let (mut away, partition) = session_on(&broker, 1, "away");
    away.subscribe("away", 1);
    leave(away);
    let mut publisher = Client::connect(broker.addresses()[0], "publisher");
    let before = files(folder.path());
    let mut write = |bytes: u64| {
        let until = disk_counter(&broker, "log_bytes") + bytes;
        while disk_counter(&broker, "log_bytes") < until {
            for id in 1..=BURST as u16 {
                publisher.send_raw(&publish("read", 1, id, &payload(id.into())));
            }
            for _ in 0..BURST {
                assert_eq!(publisher.receive().first, 0x40);
                let Packet { first, body } = reader.receive();
                assert_eq!(first & 0xF6, 0x32);
                reader.send(0x40, &body[6..8]);
            }
        }
    };
    for written in (0..).step_by(MIB as usize) {
        let left = &files(folder.path()) & &before;
        if left.is_empty() {
            break;
        }
        assert!(written < 64 * MIB, "{left:?} are still there");
        write(MIB);
    }
    // What is saved stays as it is: nothing has come since.
    let manifest = folder
        .path()
        .join(format!("checkpoints/{partition}.manifest"));
    let saved_at = || std::fs::metadata(&manifest).and_then(|it| it.modified());
    let saved = saved_at().expect("it is saved");
    write(8 * MIB);
    assert_eq!(saved_at().expect("it is still there"), saved);
    publisher.send_raw(&publish("away", 1, 1, b"came"));
    assert_eq!(publisher.receive().first, 0x40);
    let (mut away, again) = session_on(&broker, 1, "away");
    assert_eq!(again, partition);
    assert_eq!(
        away.receive_publish(),
        ("away".to_owned(), b"came".to_vec())
    );
    broker.stop().expect("nothing failed");
}
