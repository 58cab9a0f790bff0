//! The log on a folder of the operating system.

use bytes::Bytes;
use courser_contract::{LogIndex, PartitionId, Term};
use courser_log::{
    Batch, CheckpointAt, CheckpointStore, Disk, DiskFile, FileDisk, LiveEntries, Log, LogConfig,
    Manifests, NodeIdentity, Push, Record, Recovered, StartId,
};
use tempfile::TempDir;

const NODE: NodeIdentity = NodeIdentity(7);
const SEGMENT: u64 = 256 << 10;

fn open(folder: &TempDir, counter: u32, manifests: &Manifests) -> (Log<FileDisk>, Recovered) {
    let disk = FileDisk::open(folder.path()).expect("the folder is there");
    let config = LogConfig::new(NODE, SEGMENT).expect("a good size");
    let start = StartId {
        counter,
        word: 0x1234_5678_9abc_def0 ^ u64::from(counter),
    };
    Log::open(disk, config, start, manifests).expect("the log opens")
}

fn entry(partition: u16, index: u64, data: &[u8]) -> Record {
    Record::Entry {
        partition: PartitionId(partition),
        term: Term(1),
        index: LogIndex(index),
        data: Bytes::copy_from_slice(data),
    }
}

fn write(log: &mut Log<FileDisk>, batch: &mut Batch, records: &[Record]) {
    for record in records {
        while batch.push(record) == Push::Full {
            log.write(batch).expect("written");
            batch.clear();
        }
    }
    loop {
        log.write(batch).expect("written");
        let more = batch.is_unfinished();
        batch.clear();
        if !more {
            break;
        }
    }
    log.sync().expect("synced");
    log.check();
}

#[test]
fn what_was_synced_is_there_after_every_start() {
    let folder = TempDir::new().expect("a folder");
    let mut expected: Vec<Vec<u8>> = Vec::new();
    for start in 1..=6_u32 {
        let (mut log, recovered) = open(&folder, start, &Manifests::new());
        assert_eq!(recovered.report.damages, [], "{}", recovered.report);
        let found = recovered.partitions.get(&PartitionId(3));
        let found: Vec<Vec<u8>> = found
            .map(|p| p.entries.iter().map(|e| e.data.to_vec()).collect())
            .unwrap_or_default();
        assert_eq!(found, expected);
        let mut batch = log.new_batch();
        for round in 0..20_u64 {
            let len = [1, 100, 5_000, 70_000][(round % 4) as usize];
            let data = vec![round as u8; len];
            let next = expected.len() as u64 + 1;
            expected.push(data.clone());
            write(&mut log, &mut batch, &[entry(3, next, &data)]);
            if let Some(job) = log.prepare() {
                log.prepared(job.run()).expect("synced");
            }
        }
        assert!(log.counts().rolls > 0, "several segments");
        let mut reader = log.reader(PartitionId(3));
        for (at, data) in expected.iter().enumerate() {
            let read = reader.read(LogIndex(at as u64 + 1)).expect("read back");
            assert_eq!(read.data, data);
        }
    }
}

#[test]
fn a_checkpoint_frees_segments_and_they_are_used_again() {
    let folder = TempDir::new().expect("a folder");
    let checkpoints = TempDir::new().expect("a folder");
    let disk = FileDisk::open(checkpoints.path()).expect("the folder is there");
    let (store, loaded) = CheckpointStore::open(disk.clone(), NODE).expect("opens");
    let (mut log, _) = open(&folder, 1, &loaded.manifests);
    let mut batch = log.new_batch();
    for index in 1..=200 {
        write(
            &mut log,
            &mut batch,
            &[entry(1, index, &[index as u8; 3_000])],
        );
        if index % 50 == 0 {
            let at = CheckpointAt {
                index: LogIndex(index - 10),
                term: Term(1),
            };
            let live: LiveEntries = [LogIndex(4)].into_iter().collect();
            let mut writer = store.writer(PartitionId(1), at).expect("created");
            writer.piece(b"the state").expect("written");
            writer.finish(live.clone(), log.synced()).expect("finished");
            let freed = log.set_checkpoint(PartitionId(1), at, live);
            assert_eq!(freed > 0, index >= 150, "{index}: {freed}");
        }
        if let Some(job) = log.prepare() {
            log.prepared(job.run()).expect("synced");
        }
    }
    assert!(log.counts().recycled > 0);
    drop(log);
    let (store, loaded) = CheckpointStore::open(disk, NODE).expect("opens");
    let manifest = &loaded.manifests[&PartitionId(1)];
    let mut reader = store.reader(manifest).expect("it is there");
    assert_eq!(
        reader.next_piece().expect("whole"),
        Some("the state".into())
    );
    assert_eq!(reader.next_piece().expect("whole"), None);
    let (log, recovered) = open(&folder, 2, &loaded.manifests);
    let found = &recovered.partitions[&PartitionId(1)];
    assert_eq!((found.damage, found.missing_live.is_empty()), (None, true));
    let indexes: Vec<u64> = found.entries.iter().map(|e| e.index.0).collect();
    assert_eq!(indexes, (191..=200).collect::<Vec<_>>());
    let live = log.reader(PartitionId(1)).read(LogIndex(4));
    assert_eq!(live.expect("live").data, vec![4; 3_000]);
}

#[test]
fn what_is_read_past_the_page_cache_is_what_is_there() {
    let folder = TempDir::new().expect("a folder");
    // Not whole blocks.
    let bytes: Vec<u8> = (0..700_001_u32)
        .map(|at| (at * 7 + at / 4096) as u8)
        .collect();
    std::fs::write(folder.path().join("a"), &bytes).expect("there is room");
    let disk = FileDisk::open(folder.path()).expect("the folder is there");
    let file = disk.reading_around().open("a").expect("it is there");
    for (from, len) in [
        (0, 700_001),
        (0, 40_000),
        (1, 262_144),
        (4_095, 300_000),
        (8_192, 524_288),
        (400_001, 300_000),
        (699_000, 1_001),
    ] {
        let mut read = vec![0; len];
        file.read_at(&mut read, from as u64).expect("it is there");
        assert!(read == bytes[from..from + len], "{len} bytes from {from}");
    }
    let mut more = vec![0; 300_000];
    let error = file
        .read_at(&mut more, 500_000)
        .expect_err("it ends before");
    assert_eq!(error.kind(), std::io::ErrorKind::UnexpectedEof);
}

#[test]
fn who_reads_together_reads_each_batch_once() {
    const PARTITIONS: u16 = 8;
    let folder = tempfile::tempdir().expect("a folder for a test");
    let disk = FileDisk::open(folder.path()).expect("a folder");
    let config = LogConfig::new(NodeIdentity(7), 8 << 20).expect("a good size");
    let start = StartId {
        counter: 1,
        word: 9,
    };
    let (mut log, _) = Log::open(disk, config, start, &Manifests::new()).expect("it opens");
    let mut batch = log.new_batch();
    let mut written = 0;
    for index in 1..=300 {
        // Each batch has entries of all partitions.
        for partition in 1..=PARTITIONS {
            let data = vec![partition as u8; 2_000];
            let entry = Record::Entry {
                partition: PartitionId(partition),
                term: Term(1),
                index: LogIndex(index),
                data: data.into(),
            };
            assert_eq!(batch.push(&entry), Push::Taken);
        }
        written += log.write(&mut batch).expect("there is room").bytes;
        batch.clear();
    }
    log.sync().expect("synced");
    let mut readers: Vec<_> = (1..=PARTITIONS)
        .map(|id| (log.reader(PartitionId(id)), 1))
        .collect();
    let mut shared = readers[0].0.shared();
    let mut read = 0;
    while let Some((reader, index)) = readers
        .iter_mut()
        .filter(|(_, index)| *index <= 300)
        .min_by_key(|(reader, index)| reader.next_place(LogIndex(*index)))
    {
        let entry = reader.look(LogIndex(*index), &mut shared);
        if entry.expect("it can be read").is_some() {
            (*index, read) = (*index + 1, read + 1);
        }
    }
    assert_eq!(read, 300 * u32::from(PARTITIONS));
    let bytes = shared.read_bytes();
    assert!(bytes <= written + (2 << 20), "{bytes} bytes for {written}");
}

/// Where the file system can say ahead; those that tests run on can.
#[test]
fn m47_room_that_is_taken_is_taken_at_once_and_no_more() {
    use std::os::unix::fs::MetadataExt as _;
    let folder = TempDir::new().expect("a folder");
    let disk = FileDisk::open(folder.path()).expect("the folder is there");
    let file = disk.create("a").expect("a file");
    file.reserve(SEGMENT, SEGMENT).expect("there is room");
    assert_eq!(file.len().expect("known"), SEGMENT);
    let found = std::fs::metadata(folder.path().join("a")).expect("it is there");
    let bytes = found.blocks() * 512;
    assert!((SEGMENT..2 * SEGMENT).contains(&bytes), "{bytes} bytes");
}
