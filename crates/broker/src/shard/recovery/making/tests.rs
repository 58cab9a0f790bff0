//! What a start makes of entries that it cannot have, and of checkpoints that it has read ahead.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use courser_contract::PartitionId;
use courser_log::{CheckpointStore, Log, LogConfig, ReadError, SegmentNumber};

use super::ahead::Ahead;
use super::{Made, MadeFor, Making};
use crate::node::DataFolder;
use crate::partition_limits::PartitionLimits;
use crate::repair::Fault;
use crate::repair::judge::Given;
use crate::shard::support::{Client, broker_on, disk_counter, publish};
use crate::slots::{Places, Relaxed};
use crate::stations::{Found, Medium, Saved, found_in};

const PATIENCE: Duration = Duration::from_secs(60);

/// A folder with a checkpoint that names entries in the log: a session that is away has so many messages of 3,000 bytes, some more where
/// partitions are saved slowly.
fn fill(folder: &Path, messages: u16) {
    let broker = broker_on(folder, 1, &["sys.interval=0s", "log.checkpoint_bytes=1MiB"]);
    let address = broker.addresses()[0];
    let (mut away, _) = Client::session(address, "away", 4, 0, &[]);
    away.subscribe("to/away", 1);
    away.send(0xE0, &[]);
    let mut publisher = Client::connect(address, "publisher");
    let deadline = Instant::now() + PATIENCE;
    let mut packet_id = 0;
    while packet_id < messages || disk_counter(&broker, "checkpoints") < 2 {
        assert!(Instant::now() < deadline, "partitions are saved");
        packet_id += 1;
        publisher.send_raw(&publish("to/away", 1, packet_id, &[b'x'; 3_000]));
        assert_eq!(publisher.receive().first, 0x40);
        if packet_id.is_multiple_of(400) {
            thread::sleep(Duration::from_millis(20));
        }
    }
    broker.stop().expect("nothing failed");
}

/// What a start finds in such a folder.
struct Start {
    data: DataFolder,
    places: Places,
    saved: Vec<Saved<Medium>>,
    found: Vec<Found<Medium>>,
}

impl Start {
    fn of(folder: &Path) -> Self {
        let data = DataFolder::open(folder, 1, Relaxed::None).expect("a data folder");
        let disk = |path: PathBuf| Medium::open(&path).expect("a folder");
        let (store, loaded) = CheckpointStore::open(disk(data.checkpoints()), data.identity())
            .expect("checkpoints that are whole");
        let config = LogConfig::new(data.identity(), 1 << 20).expect("a size");
        let (mut log, recovered) =
            Log::open(disk(data.log()), config, data.start(), &loaded.manifests)
                .expect("a log that is whole");
        assert_eq!(recovered.report.damages, []);
        let places = Places::new(data.node().partitions, 1, data.node().relaxed);
        let manifests = loaded.manifests.values();
        let saved = manifests.filter(|it| it.partition != Places::METADATA);
        let saved = saved.map(|manifest| Saved {
            store: store.clone(),
            manifest: manifest.clone(),
        });
        let saved = saved.collect();
        let mut found = found_in(
            (&mut log, &store),
            (recovered, &loaded),
            (&Given::default(), data.node().start),
            &places,
        )
        .expect("it is all there");
        // As for shards, where all of the log is whole.
        found.iter_mut().for_each(|found| found.may_stay = true);
        Self {
            data,
            places,
            saved,
            found,
        }
    }

    /// Checkpoints of its partitions, read as far as they can be without the log.
    fn read_ahead(&mut self) -> Vec<Ahead> {
        let saved = std::mem::take(&mut self.saved).into_iter();
        let read = saved.map(|saved| {
            let mut ahead = Ahead::new(saved);
            while ahead.go_on(&self.places, &PartitionLimits::ordinary(&self.places)) {}
            ahead
        });
        read.collect()
    }
}

fn make(mut making: Making, places: &Places) -> Result<Made, ReadError> {
    loop {
        if let Some(made) = making.go_on(places, &PartitionLimits::ordinary(places))? {
            return Ok(made);
        }
    }
}

/// States of what was made, each with the number of its partition.
fn states(made: impl IntoIterator<Item = Made>) -> BTreeMap<PartitionId, Vec<u8>> {
    let partitions = made.into_iter().filter_map(|made| {
        let (partition, _) = made.partition?;
        Some((made.id, partition.encode_state()))
    });
    partitions.collect()
}

#[test]
fn m42_what_was_read_ahead_makes_the_same_partitions() {
    // With few records they are read, and with many they stay in the log.
    for (messages, stay) in [(1_000, false), (3_000, true)] {
        let folder = tempfile::tempdir().expect("a folder for a test");
        fill(folder.path(), messages);
        let Start { places, found, .. } = Start::of(folder.path());
        let made = found.into_iter().map(Making::new);
        let made = made.map(|it| make(it, &places).expect("the disk gives all of it"));
        let expected = states(made);
        assert!(!expected.is_empty());
        let mut start = Start::of(folder.path());
        let mut ahead = start.read_ahead();
        let are_made = ahead.iter().any(Ahead::is_made_with_records);
        assert_eq!(are_made, stay, "those whose records stay want no entry");
        let mut used = 0;
        let made = start.found.into_iter().map(|found| {
            let its = ahead.iter().position(|it| it.is_of(&found));
            let its = its.map(|at| ahead.swap_remove(at));
            used += usize::from(its.is_some());
            let making = Making::with(found, its);
            make(making, &start.places).expect("the disk gives all of it")
        });
        assert!(states(made) == expected, "states are byte-equal");
        assert!(used > 0, "some partition has a checkpoint");
    }
}

/// All records of a log with damage are read, so that it can be said which are lost: what was read ahead has left them where they are.
#[test]
fn m44_nothing_that_was_read_ahead_counts_where_it_does_not_fit() {
    let folder = tempfile::tempdir().expect("a folder for a test");
    fill(folder.path(), 1_000);
    let mut start = Start::of(folder.path());
    let ahead = start.read_ahead();
    for mut found in start.found {
        let Some(ahead) = ahead.iter().find(|it| it.is_of(&found)) else {
            continue;
        };
        let at = found.found.checkpoint.as_mut().expect("it has one");
        at.index = at.index.next();
        assert!(!ahead.is_of(&found), "another checkpoint counts");
        let at = found.found.checkpoint.as_mut().expect("it has one");
        at.index.0 -= 1;
        assert!(ahead.is_of(&found));
        found.may_stay = false;
        assert!(!ahead.is_of(&found), "there is damage");
        found.may_stay = true;
        found.pieces = None;
        assert!(!ahead.is_of(&found), "its file cannot be read");
    }
}

/// A checkpoint that is not what was written is told by who makes the partition, and not before.
#[test]
fn m39_a_checkpoint_that_cannot_be_read_ahead_is_read_again() {
    let folder = tempfile::tempdir().expect("a folder for a test");
    fill(folder.path(), 1_000);
    rot_checkpoints(folder.path());
    let mut start = Start::of(folder.path());
    let ahead = start.read_ahead();
    let places = start.places;
    let mut aside = 0;
    for found in start.found {
        assert!(!ahead.iter().any(|it| it.is_of(&found)));
        if found.pieces.is_none() || found.id == Places::METADATA {
            continue;
        }
        let made = make(Making::with(found, None), &places).expect("the disk gives all of it");
        let MadeFor::Aside(Fault::Checkpoint { .. }, _) = made.fate else {
            panic!("partition {} is made of a bad checkpoint", made.id.0);
        };
        aside += 1;
    }
    assert!(aside > 0, "some partition has a checkpoint");
}

/// Flips a bit of each checkpoint, behind what says whose it is.
fn rot_checkpoints(folder: &Path) {
    let data = DataFolder::open(folder, 1, Relaxed::None).expect("a data folder");
    for file in fs::read_dir(data.checkpoints()).expect("a folder") {
        let path = file.expect("a file").path();
        if path.extension().is_some_and(|it| it == "ckp") {
            let mut bytes = fs::read(&path).expect("it is there");
            let middle = bytes.len() / 2;
            bytes[middle] ^= 1;
            fs::write(&path, bytes).expect("there is room");
        }
    }
}

/// What is no damage must not become one: with the next checkpoint the entries would be lost for good.
#[test]
fn d7_an_entry_that_the_disk_does_not_give_ends_the_start_and_is_not_lost() {
    let folder = tempfile::tempdir().expect("a folder for a test");
    fill(folder.path(), 1_000);
    let Start {
        data,
        places,
        found,
        ..
    } = Start::of(folder.path());
    // A call that fails: there is a folder where a file was when the log was read.
    for file in fs::read_dir(data.log()).expect("a folder") {
        let path = file.expect("a file").path();
        let name = path.file_name().expect("it has one").to_string_lossy();
        if let Some(segment) = SegmentNumber::of_file_name(&name) {
            fs::remove_file(&path).expect("it is there");
            fs::create_dir(&path).expect("there is nothing any more");
            let summary = data.log().join(segment.summary_name());
            fs::write(summary, []).expect("there is room");
        }
    }
    let mut failed = 0;
    for found in found {
        match make(Making::new(found), &places) {
            Ok(made) => {
                let partition = made.partition.map(|(partition, _)| partition);
                assert!(partition.is_none_or(|it| !it.has_lost()));
            }
            Err(error) => {
                let ReadError::Disk { place, .. } = error else {
                    panic!("{error}");
                };
                let summary = data.log().join(place.segment.summary_name());
                assert!(!summary.exists(), "the next start reads the segment");
                failed += 1;
            }
        }
    }
    assert!(failed > 0, "some partition's checkpoint names entries");
}
