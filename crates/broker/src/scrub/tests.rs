//! Damage that a running broker finds by itself.

use std::cell::RefCell;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use super::progress::Progress;
use super::{BYTES_PER_SECOND_MIN, Scrubber, pace_of};
use crate::backup::pace::{Pace, Stopped};
use crate::config::Config;
use crate::live::Live;
use crate::repair::RottenPlace;
use crate::shard::support::{Client, broker_on, disk_counter, publish, wait};
use crate::stations::{CopyDoor, DiskState, RequestDoor};
use courser_engine::LostStream;
use courser_log::SegmentNumber;
use courser_settings::Sources;

use crate::{Accepted, Broker, Finding, NodeState, Verb, examine, repair};

const PATIENCE: Duration = Duration::from_secs(60);

const SECOND: Duration = Duration::from_secs(1);
/// What `scrub.period` is unless somebody sets it.
const WEEK: Duration = Duration::from_secs(7 * 24 * 3_600);

#[test]
fn the_pace_of_a_pass_follows_from_its_bytes_and_the_period() {
    for (total, period, expected) in [
        (0, SECOND, BYTES_PER_SECOND_MIN),
        (0, WEEK, BYTES_PER_SECOND_MIN),
        (1, Duration::MAX, BYTES_PER_SECOND_MIN),
        // The least pace does 79 GB within half a week.
        (79_000_000_000, WEEK, BYTES_PER_SECOND_MIN),
        (80_000_000_000, WEEK, 264_550),
        (1 << 40, WEEK, 3_635_951),
        (1 << 30, SECOND, 2 << 30),
        (u64::MAX, WEEK, 61_001_137_809_886),
        (u64::MAX, SECOND, u64::MAX),
        (u64::MAX, Duration::from_nanos(1), u64::MAX),
    ] {
        assert_eq!(pace_of(total, period), expected, "{total} B in {period:?}");
    }
}

#[test]
fn a_pass_takes_half_of_its_period_and_no_less() {
    /// What a read of a segment asks for.
    const READ: u64 = 1 << 20;
    for (total, period) in [
        (100 << 20, SECOND),
        (3 << 30, Duration::from_secs(3_600)),
        (100 << 30, WEEK),
    ] {
        let mut pace = Pace::new(pace_of(total, period), Arc::default());
        let begun = Instant::now();
        let mut now = begun;
        let mut read = 0;
        while read < total {
            read += READ;
            now = pace.due_after(now, READ);
        }
        // What each read and the pace itself were rounded down by.
        let took = now.duration_since(begun);
        let (least, most) = (period * 49 / 100, period * 51 / 100);
        assert!(least <= took && took <= most, "{total} B took {took:?}");
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

/// Numbers of the files of the log in which these bytes stand, also as remains of what a file was before. Each time that they do, a bit
/// changes if `rots`.
fn files_with(folder: &Path, mark: &str, rots: bool) -> Vec<u64> {
    use std::os::unix::fs::FileExt;
    let files = fs::read_dir(folder.join("log")).expect("there is a log");
    let mut numbers = Vec::new();
    for file in files {
        let path = file.expect("it can be listed").path();
        // It may get another name at any time.
        let bytes = fs::read(&path).unwrap_or_default();
        let windows = bytes.windows(mark.len()).enumerate();
        let found: Vec<usize> = windows
            .filter(|(_, it)| *it == mark.as_bytes())
            .map(|(at, _)| at)
            .collect();
        for &at in found.iter().filter(|_| rots) {
            let file = fs::OpenOptions::new().write(true).open(&path);
            let file = file.expect("it is ours");
            file.write_all_at(&[bytes[at] ^ 1], at as u64)
                .expect("there is room");
            file.sync_all().expect("there is room");
        }
        let name = path.file_stem().expect("a name").to_string_lossy();
        numbers.extend(name.parse::<u64>().ok().filter(|_| !found.is_empty()));
    }
    numbers
}

/// Sends what is read at once, some megabytes of it.
fn pass(broker: &Broker) {
    let address = broker.addresses()[0];
    let (mut reader, _) = Client::session(address, "reader", 4, 0, &[]);
    reader.subscribe("read", 1);
    let mut publisher = Client::connect(address, "publisher");
    for _ in 0..100 {
        publisher.send_raw(&publish("read", 1, 1, &[7; 30_000]));
        assert_eq!(publisher.receive().first, 0x40);
        let delivery = reader.receive();
        reader.send(0x40, &delivery.body[6..8]);
    }
    reader.send(0xE0, &[]);
}

/// Changes a bit wherever these bytes stand, until the scrub has found one of them; numbers of the files that were changed.
///
/// The cleaner may move them at any time, also to the segment that is written, which is not read: then they are there whole again, and
/// once more has to go on before that segment is sealed.
fn rot(broker: &Broker, folder: &Path, mark: &str) -> Vec<u64> {
    let deadline = Instant::now() + PATIENCE;
    let mut rotten = Vec::new();
    loop {
        rotten.extend(files_with(folder, mark, true));
        pass(broker);
        let passes = disk_counter(broker, "scrub_passes");
        let is_found = || !broker.state().rotten.is_empty();
        wait("it reads everything", || {
            is_found() || disk_counter(broker, "scrub_passes") >= passes + 2
        });
        if is_found() {
            return rotten;
        }
        assert!(Instant::now() < deadline, "it is found: {rotten:?}");
    }
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
    let passes = disk_counter(&broker, "scrub_passes");
    wait("it reads everything", || {
        disk_counter(&broker, "scrub_passes") >= passes + 2
    });
    assert!(disk_counter(&broker, "scrub_segments") > 0);
    assert_eq!(broker.state(), NodeState::default());
    let rotten = rot(&broker, folder, "message 2 for first");
    let state = broker.state();
    let [place] = &state.rotten[..] else {
        panic!("one place is damaged: {state:?}");
    };
    assert!(rotten.contains(&place.segment), "{rotten:?}");
    assert_eq!(place.messages, 1);
    assert_eq!(place.streams[0].1, LostStream::Session("first".into()));
    assert!(place.what.contains("is damaged"), "{}", place.what);
    // Once, however often it is read.
    let passes = disk_counter(&broker, "scrub_passes");
    wait("it goes on", || {
        disk_counter(&broker, "scrub_passes") >= passes + 2
    });
    assert_eq!(disk_counter(&broker, "scrub_damages"), 1);
    let summary = SegmentNumber(place.segment).summary_name();
    let summary = folder.join("log").join(summary);
    wait("the next start is to read the segment", || {
        !summary.exists()
    });
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
fn m41_damage_of_what_a_cleaner_has_moved_says_whom_it_concerns() {
    let folder = tempfile::tempdir().expect("a folder for a test");
    let folder = folder.path();
    let settings = [
        "scrub.period=500ms",
        "sys.interval=0s",
        "log.checkpoint_bytes=1MiB",
    ];
    let broker = broker_on(folder, 2, &settings);
    store(&broker, "first", 3);
    let mark = "message 2 for first";
    let [first] = files_with(folder, mark, false)[..] else {
        panic!("it is in one segment");
    };
    let deadline = Instant::now() + PATIENCE;
    let is_moved = || {
        let numbers = files_with(folder, mark, false);
        numbers.iter().any(|it| *it > first)
    };
    for round in 0_u16.. {
        // A single segment with something in it is not worth a move.
        store(&broker, &format!("another {round}"), 1);
        pass(&broker);
        if is_moved() {
            break;
        }
        assert!(Instant::now() < deadline, "it is moved");
    }
    // It is not in the segment that is written: that is not read.
    pass(&broker);
    let passes = disk_counter(&broker, "scrub_passes");
    wait("it reads everything", || {
        disk_counter(&broker, "scrub_passes") >= passes + 2
    });
    assert_eq!(broker.state(), NodeState::default());
    let rotten = rot(&broker, folder, mark);
    let state = broker.state();
    let [place] = &state.rotten[..] else {
        panic!("one place is damaged: {state:?}");
    };
    let segment = place.segment;
    assert!(segment > first && rotten.contains(&segment), "{rotten:?}");
    let streams: Vec<_> = place.streams.iter().map(|(_, of)| of).collect();
    assert_eq!(streams, [&LostStream::Session("first".into())]);
    assert_eq!(place.messages, 1);
    broker.stop().expect("nothing failed");
}

/// What is damaged is only in the log: the stream that needs it stops there, others go on, and it is told and ends as any damage.
#[test]
fn m44_damage_that_a_stream_comes_to_is_told_and_ends_as_any_other() {
    let folder = tempfile::tempdir().expect("a folder for a test");
    let folder = folder.path();
    let settings = [
        "scrub.period=0s",
        "sys.interval=0s",
        "log.checkpoint_bytes=1MiB",
        "session.hot_bytes=16KiB",
    ];
    let first = LostStream::Session("first".into());
    let broker = broker_on(folder, 2, &settings);
    store(&broker, "first", 3);
    store(&broker, "second", 3);
    // Below the checkpoints, and in no segment that is written.
    pass(&broker);
    pass(&broker);
    let rotten = files_with(folder, "message 2 for first", true);
    let address = broker.addresses()[0];
    let (mut client, present) = Client::session(address, "first", 4, 0, &[]);
    assert!(present);
    let (_, payload) = client.receive_publish();
    assert!(payload.starts_with(b"message 1 for first"));
    wait("it is told", || {
        let state = broker.state();
        !state.stopped.is_empty() && !state.rotten.is_empty()
    });
    client.send(0xC0, &[]);
    assert_eq!(client.receive().first, 0xD0, "and nothing behind it");
    let state = broker.state();
    let [stopped] = &state.stopped[..] else {
        panic!("one stream has stopped: {state:?}");
    };
    assert_eq!((&stopped.stream, stopped.records), (&first, 1));
    assert_eq!(state.stopped_places, 1);
    let [place] = &state.rotten[..] else {
        panic!("one place is damaged: {state:?}");
    };
    assert!(rotten.contains(&place.segment), "{rotten:?}");
    assert_eq!(place.streams, [(stopped.partition, first.clone())]);
    assert_eq!(disk_counter(&broker, "recalled_lost"), 1);
    let (mut other, _) = Client::session(address, "second", 4, 0, &[]);
    for number in 1..=3 {
        let (_, payload) = other.receive_publish();
        assert!(payload.starts_with(format!("message {number} for second").as_bytes()));
    }
    broker.stop().expect("nothing failed");
    let examined = examine(folder).expect("it can be examined");
    let [Finding::Stopped { streams, .. }] = &examined.findings[..] else {
        panic!("one stream stops: {examined:?}");
    };
    assert_eq!(streams[..], state.stopped[..]);
    repair(folder, Verb::AcceptLoss(None)).expect("it is damaged");
    let broker = broker_on(folder, 2, &settings);
    let (mut client, _) = Client::session(broker.addresses()[0], "first", 4, 0, &[]);
    let (_, payload) = client.receive_publish();
    assert!(payload.starts_with(b"message 3 for first"));
    let state = broker.state();
    let accepted = Accepted::Records(stopped.partition, first, 1);
    assert_eq!(
        (state.stopped, state.accepted),
        (Vec::new(), vec![accepted])
    );
    broker.stop().expect("nothing failed");
}

/// With the period that nobody has set: a process that lives for a day reads a part of the log, and the next one goes on.
#[test]
fn m44_a_pass_begins_with_the_process_and_goes_on_in_the_next_one() {
    let folder = tempfile::tempdir().expect("a folder for a test");
    let folder = folder.path();
    let noted = || Progress::read(&folder.join("scrub"));
    let broker = broker_on(folder, 1, &["sys.interval=0s", "scrub.period=0s"]);
    store(&broker, "first", 200);
    broker.stop().expect("nothing failed");
    assert_eq!(noted(), Progress::default());
    let life = || {
        let broker = broker_on(folder, 1, &["sys.interval=0s"]);
        wait("a segment is read", || {
            disk_counter(&broker, "scrub_segments") > 0
        });
        broker.stop().expect("nothing failed");
        noted()
    };
    let (first, second) = (life(), life());
    // Of one pass, with another segment each time.
    assert!(first.next > Some(SegmentNumber(0)) && first.next < second.next);
    assert_eq!(first.begun, second.begun);
}

#[test]
fn a_scrub_that_is_turned_off_reads_nothing() {
    let folder = tempfile::tempdir().expect("a folder for a test");
    let settings = ["scrub.period=0s", "sys.interval=0s"];
    let broker = broker_on(folder.path(), 1, &settings);
    store(&broker, "first", 60);
    thread::sleep(Duration::from_millis(700));
    assert_eq!(disk_counter(&broker, "scrub_segments"), 0);
    broker.stop().expect("nothing failed");
}

/// A writer that waits for room does not say which segments there are. Nothing follows from that: what is damaged stays known, and so
/// does what is still to be looked at.
#[test]
fn d8_damage_is_not_forgotten_while_the_writer_does_not_answer() {
    let folder = tempfile::tempdir().expect("a folder for a test");
    let broker = broker_on(folder.path(), 1, &["scrub.period=0s", "sys.interval=0s"]);
    let settings = Sources::new().check().expect("there are none");
    let (requests, asked) = RequestDoor::new(&Arc::default());
    let (state, stop) = (
        Arc::new(DiskState::new(1)),
        Arc::new(AtomicBool::new(false)),
    );
    let mut scrubber = Scrubber {
        data: folder.path().to_owned(),
        folder: folder.path().join("log"),
        files_read: Instant::now(),
        checkpoints_seen: 0,
        progress: Progress::default(),
        noted_in: folder.path().join("scrub"),
        door: CopyDoor {
            jobs: mpsc::channel().0,
            requests,
            state: Arc::clone(&state),
        },
        control: broker.control().clone(),
        live: Arc::new(Live::new(Arc::new(Config::new(settings)))),
        pace: RefCell::new(Pace::new(1, Arc::clone(&stop))),
        stop: Arc::clone(&stop),
    };
    let place = RottenPlace {
        segment: 7,
        offset: 4_096,
        what: "it is damaged".to_owned(),
        messages: 1,
        streams: Vec::new(),
    };
    state.damage().scrubbed(7, vec![place.clone()]);
    state.damage().suspect(9);
    let writer = thread::spawn(move || {
        while let Ok(request) = asked.recv() {
            drop(request);
            stop.store(true, Ordering::Release);
        }
    });
    assert_eq!(scrubber.look_at_suspects(), Err(Stopped));
    assert_eq!(scrubber.pass(), Err(Stopped));
    assert!(state.damage().is_suspicious(), "it is looked at later");
    assert_eq!(state.damage().get().rotten, [place]);
    drop(scrubber);
    writer.join().expect("it does not panic");
    broker.stop().expect("nothing failed");
}
