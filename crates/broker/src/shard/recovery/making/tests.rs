//! What a start makes of entries that it cannot have.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use courser_engine::Limits;
use courser_log::{CheckpointStore, FileDisk, Log, LogConfig, ReadError, SegmentNumber};

use super::Making;
use crate::node::DataFolder;
use crate::repair::judge::Given;
use crate::shard::support::{Client, broker_on, publish};
use crate::slots::{Places, Relaxed};
use crate::stations::found_in;

const PATIENCE: Duration = Duration::from_secs(60);

/// A folder with a checkpoint that names entries in the log: a session that is away has them all.
fn fill(folder: &Path) {
    let broker = broker_on(folder, 1, &["sys.interval=0s", "log.checkpoint_bytes=1MiB"]);
    let address = broker.addresses()[0];
    let (mut away, _) = Client::session(address, "away", 4, 0, &[]);
    away.subscribe("to/away", 1);
    away.send(0xE0, &[]);
    let mut publisher = Client::connect(address, "publisher");
    let control = broker.control();
    let deadline = Instant::now() + PATIENCE;
    let mut packet_id = 0;
    while control
        .disk_counters()
        .iter()
        .all(|(name, number)| *name != "checkpoints" || *number < 2)
    {
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

/// What is no damage must not become one: with the next checkpoint the entries would be lost for good.
#[test]
fn d7_an_entry_that_the_disk_does_not_give_ends_the_start_and_is_not_lost() {
    let folder = tempfile::tempdir().expect("a folder for a test");
    fill(folder.path());
    let data = DataFolder::open(folder.path(), 1, Relaxed::None).expect("a data folder");
    let disk = |path: PathBuf| FileDisk::open(&path).expect("a folder");
    let (store, loaded) = CheckpointStore::open(disk(data.checkpoints()), data.identity())
        .expect("checkpoints that are whole");
    let config = LogConfig::new(data.identity(), 1 << 20).expect("a size");
    let (mut log, recovered) = Log::open(disk(data.log()), config, data.start(), &loaded.manifests)
        .expect("a log that is whole");
    assert_eq!(recovered.report.damages, []);
    let places = Places::new(data.node().partitions, 1, data.node().relaxed);
    let found = found_in(
        (&mut log, &store),
        (recovered, &loaded.manifests),
        (&Given::default(), data.node().start),
        &places,
    )
    .expect("it is all there");
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
        let mut making = Making::new(found);
        let made = loop {
            match making.go_on(&places, &Limits::default()) {
                Ok(None) => {}
                Ok(Some(made)) => break Ok(made),
                Err(error) => break Err(error),
            }
        };
        match made {
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
