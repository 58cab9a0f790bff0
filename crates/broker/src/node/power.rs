//! A whole broker loses power behind any call by which a checkpoint comes to count (M42), and behind any call of a start, and is started
//! again on what is left: nothing that was acknowledged is gone (I1, I2), nothing is damaged, and what waits is a row without a gap (I3).
//!
//! The order of these calls is the broker's own: what its shards hand to the stations, what these write, and what a start makes of it.

use std::mem;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::shard::support::{Client, broker_on_with, disk_counter, publish};
use crate::stations::medium::memory::{Folder, Folders, NodeInMemory};
use crate::{Broker, NodeState};

const PATIENCE: Duration = Duration::from_secs(60);
const SHARDS: u16 = 2;
/// All of them are saved, and of each call of that there is a picture.
const PARTITIONS: u16 = 8;
/// What a checkpoint does to its folder; the second one of a partition removes the first.
const WAY: [&str; 5] = ["create", "write", "sync", "rename to", "remove"];
const TOPIC: &str = "to/away";
/// Behind all that waits.
const END: &[u8] = b"end";

/// What there was behind a call.
struct Picture {
    call: String,
    folders: Folders,
    /// So many messages were acknowledged.
    acknowledged: u32,
}

/// Takes pictures once something was acknowledged.
#[derive(Clone, Default)]
struct Camera {
    acknowledged: Arc<AtomicU32>,
    pictures: Arc<Mutex<Vec<Picture>>>,
}

impl Camera {
    /// Of the calls that are wanted.
    fn look(
        &self,
        mut is_wanted: impl FnMut(Folder) -> bool + Send + 'static,
    ) -> impl FnMut(Folder, &str, &Folders) + Send + 'static {
        let camera = self.clone();
        move |folder, call, folders| {
            let acknowledged = camera.acknowledged.load(Ordering::SeqCst);
            if acknowledged > 0 && is_wanted(folder) {
                let mut pictures = camera.pictures.lock().expect("nobody panics with it");
                pictures.push(Picture {
                    call: call.to_owned(),
                    folders: folders.fork(),
                    acknowledged,
                });
            }
        }
    }

    /// Which step of the way of checkpoints was not seen yet, or that the log was not seen behind one.
    fn not_seen(&self) -> Option<&'static str> {
        let pictures = self.pictures.lock().expect("nobody panics with it");
        let is_seen = |call: &str, of: &str| {
            let mut calls = pictures.iter().map(|picture| &picture.call);
            calls.any(|it| it.starts_with(call) && it.contains(of))
        };
        let mut way = WAY.into_iter();
        let step = way.find(|call| !is_seen(call, " checkpoints/"));
        step.or_else(|| (!is_seen("", " log/")).then_some("the log"))
    }

    fn take(&self) -> Vec<Picture> {
        mem::take(&mut self.pictures.lock().expect("nobody panics with it"))
    }
}

/// Every call of a checkpoint, and the next one of the log behind it.
fn of_checkpoints() -> impl FnMut(Folder) -> bool + Send + 'static {
    let mut was_checkpoint = false;
    move |folder| match folder {
        Folder::Checkpoints => {
            was_checkpoint = true;
            true
        }
        Folder::Log => mem::take(&mut was_checkpoint),
    }
}

fn start(data: &Path) -> Broker {
    let settings = [
        "sys.interval=0s",
        "log.checkpoint_bytes=1MiB",
        // It reads files.
        "scrub.period=0s",
        r#"class=[{filter = "relaxed/#", class = "relaxed"}]"#,
    ];
    broker_on_with(data, SHARDS, &settings, |config| {
        config.partitions = PARTITIONS;
    })
}

/// The payload of a message: enough of them fill a checkpoint's interval of log soon.
fn numbered(number: u32) -> Vec<u8> {
    let mut payload = number.to_be_bytes().to_vec();
    payload.resize(3_000, b'x');
    payload
}

fn send(publisher: &mut Client, packet_id: u16, payload: &[u8]) {
    publisher.send_raw(&publish(TOPIC, 1, packet_id, payload));
    assert_eq!(publisher.receive().first, 0x40);
}

/// A broker that takes messages for this session, which is away, until all of [`WAY`] was done; what was seen of it.
fn saved(data: &Path, away: &str) -> Vec<Picture> {
    let camera = Camera::default();
    let node = NodeInMemory::new(data, Folders::default(), camera.look(of_checkpoints()));
    let broker = start(data);
    let address = broker.addresses()[0];
    let (mut session, _) = Client::session(address, away, 4, 0, &[]);
    session.subscribe(TOPIC, 1);
    session.send(0xE0, &[]);
    assert!(session.is_closed());
    // A relaxed one is synced a while later. What is counted may be one behind.
    let syncs = disk_counter(&broker, "log_syncs");
    let mut publisher = Client::connect(address, "publisher");
    let mut number = 0;
    let deadline = Instant::now() + PATIENCE;
    while let Some(step) = camera.not_seen() {
        assert!(Instant::now() < deadline, "not seen: {step}");
        send(&mut publisher, 1, &numbered(number));
        number += 1;
        if disk_counter(&broker, "log_syncs") > syncs + 1 {
            camera.acknowledged.store(number, Ordering::SeqCst);
        }
    }
    broker.stop().expect("nothing failed");
    drop(node);
    camera.take()
}

/// How much of it a start on what is left finds: a row from the first message on.
fn waiting(data: &Path, away: &str, left: Folders, camera: &Camera) -> u32 {
    let _node = NodeInMemory::new(data, left, camera.look(|_| true));
    let broker = start(data);
    camera.acknowledged.store(0, Ordering::SeqCst);
    assert_eq!(broker.state(), NodeState::default(), "nothing is damaged");
    assert_eq!(disk_counter(&broker, "log_rotten_places"), 0);
    let address = broker.addresses()[0];
    send(&mut Client::connect(address, "publisher"), 1, END);
    let (mut session, is_present) = Client::session(address, away, 4, 0, &[]);
    assert!(is_present, "the session is there");
    let mut came = 0;
    loop {
        let (_, payload) = session.receive_publish();
        if payload == END {
            break;
        }
        assert_eq!(payload, numbered(came), "behind {came} messages");
        came += 1;
    }
    broker.stop().expect("nothing failed");
    came
}

/// Each picture with the worst loss of power and another one.
fn losses(pictures: &[Picture]) -> impl Iterator<Item = (&Picture, Folders)> {
    (0..).zip(pictures).flat_map(|(seed, picture)| {
        let left = [
            picture.folders.worst_loss(),
            picture.folders.some_loss(seed),
        ];
        left.into_iter().map(move |left| (picture, left))
    })
}

#[test]
fn m42_power_that_is_lost_on_the_way_of_a_checkpoint_takes_nothing_that_was_acknowledged() {
    let folder = tempfile::tempdir().expect("a folder for a test");
    let data = folder.path();
    let pictures = saved(data, "away");
    for (picture, left) in losses(&pictures) {
        let came = waiting(data, "away", left, &Camera::default());
        let Picture {
            call, acknowledged, ..
        } = picture;
        assert!(came >= *acknowledged, "behind {call}: {came} messages");
    }
}

/// What a relaxed session was told may be gone with the power, but a checkpoint counts only once the log has all that it speaks of.
#[test]
fn m42_a_checkpoint_of_what_is_not_synced_does_not_count() {
    let folder = tempfile::tempdir().expect("a folder for a test");
    let data = folder.path();
    let pictures = saved(data, "relaxed/away");
    for (_, left) in losses(&pictures) {
        waiting(data, "relaxed/away", left, &Camera::default());
    }
}

/// A start that loses power behind any of its calls, and the next one.
#[test]
fn m42_power_that_is_lost_while_a_start_goes_on_takes_nothing_that_was_acknowledged() {
    let folder = tempfile::tempdir().expect("a folder for a test");
    let data = folder.path();
    let pictures = saved(data, "away");
    let counts = |it: &&Picture| it.call.starts_with("rename to checkpoints/");
    let last = pictures.iter().rfind(counts).expect("a checkpoint counted");
    for (seed, left) in [last.folders.worst_loss(), last.folders.some_loss(7)]
        .into_iter()
        .enumerate()
    {
        let camera = Camera::default();
        let acknowledged = last.acknowledged;
        camera.acknowledged.store(acknowledged, Ordering::SeqCst);
        let came = waiting(data, "away", left, &camera);
        assert!(came >= acknowledged, "start {seed}: {came} messages");
        let starts = camera.take();
        assert!(!starts.is_empty(), "a start changes something");
        for (picture, left) in losses(&starts) {
            let came = waiting(data, "away", left, &Camera::default());
            assert!(
                came >= acknowledged,
                "start behind {}: {came}",
                picture.call
            );
        }
    }
}
