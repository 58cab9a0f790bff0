//! Damage that a running broker finds by itself.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use crate::shard::support::{Client, broker_on, publish};
use courser_engine::LostStream;

use crate::{Broker, NodeState};

const PATIENCE: Duration = Duration::from_secs(60);

fn counted(broker: &Broker, name: &str) -> u64 {
    let counters = broker.control().disk_counters();
    let found = counters.into_iter().find(|(counter, _)| *counter == name);
    found.expect("it is counted").1
}

fn wait(what: &str, is_so: impl Fn() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < deadline, "{what}");
        thread::sleep(Duration::from_millis(10));
    }
}

/// A session that is not there, and a message for it of so many bytes that a few fill a segment.
fn store(broker: &Broker, client_id: &str, messages: u16) {
    let address = broker.addresses()[0];
    let (mut client, _) = Client::session(address, client_id, 4, 0, &[]);
    client.subscribe(&format!("to/{client_id}"), 1);
    client.send(0xE0, &[]);
    let mut publisher = Client::connect(address, "publisher");
    for number in 1..=messages {
        let payload = format!("message {number} for {client_id} {}", "x".repeat(30_000));
        publisher.send_raw(&publish(
            &format!("to/{client_id}"),
            1,
            number,
            payload.as_bytes(),
        ));
        assert_eq!(publisher.receive().first, 0x40);
    }
}

/// Changes a bit where these bytes stand.
fn rot(folder: &Path, mark: &str) -> u64 {
    for file in fs::read_dir(folder.join("log")).expect("there is a log") {
        let path = file.expect("it can be listed").path();
        let mut bytes = fs::read(&path).expect("it can be read");
        let found = bytes
            .windows(mark.len())
            .position(|it| it == mark.as_bytes());
        if let Some(at) = found {
            use std::os::unix::fs::FileExt;
            bytes[at] ^= 1;
            let file = fs::OpenOptions::new().write(true).open(&path);
            let file = file.expect("it is ours");
            file.write_all_at(&bytes[at..=at], at as u64)
                .expect("there is room");
            file.sync_all().expect("there is room");
            let name = path.file_stem().expect("a name").to_string_lossy();
            return name.parse().expect("a number");
        }
    }
    panic!("the log holds {mark:?}");
}

#[test]
fn damage_of_a_sealed_segment_is_found_and_says_whom_it_concerns() {
    let folder = tempfile::tempdir().expect("a folder for a test");
    let folder = folder.path();
    let settings = [
        "scrub.period=500ms",
        "sys.interval=0s",
        "log.checkpoint_bytes=1MiB",
    ];
    let broker = broker_on(folder, 2, &settings);
    store(&broker, "first", 3);
    store(&broker, "filler", 60);
    let passes = counted(&broker, "scrub_passes");
    wait("it reads everything", || {
        counted(&broker, "scrub_passes") >= passes + 2
    });
    assert!(counted(&broker, "scrub_segments") > 0);
    assert_eq!(broker.state(), NodeState::default());
    let segment = rot(folder, "message 2 for first");
    wait("it is found", || !broker.state().rotten.is_empty());
    let state = broker.state();
    let [place] = &state.rotten[..] else {
        panic!("one place is damaged: {state:?}");
    };
    assert_eq!((place.segment, place.messages), (segment, 1));
    assert_eq!(place.streams[0].1, LostStream::Session("first".into()));
    assert!(place.what.contains("is damaged"), "{}", place.what);
    // Once, however often it is read.
    let passes = counted(&broker, "scrub_passes");
    wait("it goes on", || {
        counted(&broker, "scrub_passes") >= passes + 2
    });
    assert_eq!(counted(&broker, "scrub_damages"), 1);
    // What is in memory is right and is delivered; then nobody needs it any more.
    let (mut client, present) = Client::session(broker.addresses()[0], "first", 4, 0, &[]);
    assert!(present);
    for number in 1..=3 {
        let (_, payload) = client.receive_publish();
        assert!(payload.starts_with(format!("message {number} for first").as_bytes()));
    }
    wait("nobody needs it", || {
        let state = broker.state();
        state.rotten.iter().all(|place| place.messages == 0)
    });
    broker.stop().expect("nothing failed");
}

#[test]
fn a_scrub_that_is_turned_off_reads_nothing() {
    let folder = tempfile::tempdir().expect("a folder for a test");
    let settings = ["scrub.period=0s", "sys.interval=0s"];
    let broker = broker_on(folder.path(), 1, &settings);
    store(&broker, "first", 60);
    thread::sleep(Duration::from_millis(700));
    assert_eq!(counted(&broker, "scrub_segments"), 0);
    broker.stop().expect("nothing failed");
}
