//! Entries and checkpoints of partition 0 that are not for this program.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use bytes::Bytes;
use courser_contract::{LogIndex, Term};
use courser_log::{
    CheckpointAt, CheckpointStore, FileDisk, LiveEntries, Log, LogConfig, Push, Record,
};

use crate::node::DataFolder;
use crate::shard::support::{broker, broker_on};
use crate::slots::{Places, Relaxed};
use crate::{Status, StopError};

/// What of partition 0 a later program may have written.
#[derive(Clone, Copy, Debug)]
enum Written {
    Entry,
    Checkpoint,
}

/// What it says: that it is of version 2. Entries and checkpoints both begin with that.
const OF_VERSION_2: &[u8] = &[8, 2];

/// Goes on with the log of a folder that nobody serves, as a later program would have.
fn write(folder: &Path, what: Written) {
    let data = DataFolder::open(folder, 1, Relaxed::None).expect("a data folder");
    let disk = |path: PathBuf| FileDisk::open(&path).expect("a folder");
    let (store, loaded) = CheckpointStore::open(disk(data.checkpoints()), data.identity())
        .expect("checkpoints that are whole");
    let config = LogConfig::new(data.identity(), 1 << 20).expect("a size");
    let (mut log, recovered) = Log::open(disk(data.log()), config, data.start(), &loaded.manifests)
        .expect("a log that is whole");
    let metadata = recovered.partitions.get(&Places::METADATA);
    let last = metadata.and_then(|found| found.entries.last());
    let last = last.map_or((LogIndex(0), Term(1)), |last| (last.index, last.term));
    let at = CheckpointAt {
        index: last.0.next(),
        term: last.1,
    };
    let entry = Record::Entry {
        partition: Places::METADATA,
        term: at.term,
        index: at.index,
        data: Bytes::from_static(OF_VERSION_2),
    };
    let mut batch = log.new_batch();
    assert_eq!(batch.push(&entry), Push::Taken);
    log.write(&mut batch).expect("there is room");
    let synced = log.sync().expect("the disk is right");
    if let Written::Checkpoint = what {
        let mut writer = store.writer(Places::METADATA, at).expect("there is room");
        writer.piece(OF_VERSION_2).expect("there is room");
        writer
            .finish(LiveEntries::NONE, synced)
            .expect("there is room");
    }
}

/// What a start says that is refused.
fn refused(folder: &Path) -> String {
    let path = format!("data.path={}", folder.display());
    let settings = ["data.store=disk", "log.segment_bytes=1MiB", path.as_str()];
    let broker = broker(1, &settings, |_| {});
    let began = Instant::now();
    while !matches!(broker.status(), Status::Failed(_)) {
        assert!(
            !matches!(broker.status(), Status::Serving),
            "what it denies is not known"
        );
        assert!(began.elapsed() < Duration::from_secs(20), "it goes on");
        std::thread::sleep(Duration::from_millis(1));
    }
    match broker.stop() {
        Err(StopError::Disk(failure)) => failure.to_string(),
        other => panic!("it has failed: {other:?}"),
    }
}

/// Who may do what is not known then, so nothing is served (I12); and nothing is changed for the program that knows.
#[test]
fn i12_metadata_of_a_later_version_refuse_the_start_and_are_named() {
    for (what, name) in [
        (Written::Entry, "an entry of partition 0"),
        (Written::Checkpoint, "the checkpoint of partition 0"),
    ] {
        let folder = tempfile::tempdir().expect("a folder for a test");
        let folder = folder.path();
        let broker = broker_on(folder, 1, &[]);
        broker.stop().expect("nothing failed");
        write(folder, what);
        for _ in 0..2 {
            let said = refused(folder);
            assert!(said.contains(name), "{said}");
            assert!(said.contains("of version 2, and this is 1"), "{said}");
            assert!(said.contains("start a newer courser"), "{said}");
        }
    }
}
