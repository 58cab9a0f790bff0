//! The station on a disk in memory with damage: what was durable is gone, so nothing is served.

use std::sync::Arc;
use std::sync::mpsc;

use bytes::Bytes;
use courser_contract::{LogIndex, PartitionId, Term};
use courser_log::testing::MemDisk;
use courser_log::{
    BatchPlace, CheckpointAt, CheckpointStore, LiveEntries, Log, LogConfig, NodeIdentity, Push,
    Record, StartId, Synced,
};

use super::{LogStation, RecoveredShard, ShardDoor};
use crate::rings::Doze;
use crate::slots::{Places, Relaxed};

use crate::stations::disk::{DiskFailure, DiskState};
use crate::stations::writer::WriterParts;

const NODE: NodeIdentity = NodeIdentity(7);
const PARTITIONS: u16 = 4;
/// A byte of a batch's header: without it nobody knows what the batch held.
const IN_HEADER: u64 = 20;

fn config() -> LogConfig {
    LogConfig::new(NODE, 1 << 20).expect("a size that logs have")
}

fn start(counter: u32) -> StartId {
    StartId { counter, word: 9 }
}

/// A folder in memory while it is being filled.
struct Folder {
    disk: MemDisk,
    checkpoints: MemDisk,
    log: Log<MemDisk>,
}

/// What a start on the folder came to.
struct Outcome {
    found: Option<RecoveredShard<MemDisk>>,
    failure: Option<String>,
}

impl Folder {
    fn new() -> Self {
        let disk = MemDisk::new();
        let (log, _) = Log::open(disk.clone(), config(), start(1), &Default::default())
            .expect("an empty disk is right");
        Self {
            disk,
            checkpoints: MemDisk::new(),
            log,
        }
    }

    /// A batch of its own, synced, with an entry.
    fn write(&mut self, partition: u16, index: u64) -> (BatchPlace, Synced) {
        let mut batch = self.log.new_batch();
        let record = Record::Entry {
            partition: PartitionId(partition),
            term: Term(1),
            index: LogIndex(index),
            data: Bytes::from(vec![1; 600]),
        };
        assert_eq!(batch.push(&record), Push::Taken);
        let place = self.log.write(&mut batch).expect("there is room");
        (place, self.log.sync().expect("the disk is right"))
    }

    fn checkpoint(&mut self, partition: u16, index: u64, live: &[u64], synced: Synced) {
        let (store, _) =
            CheckpointStore::open(self.checkpoints.clone(), NODE).expect("the disk is right");
        let at = CheckpointAt {
            index: LogIndex(index),
            term: Term(1),
        };
        let mut writer = store
            .writer(PartitionId(partition), at)
            .expect("there is room");
        writer.piece(b"all of it").expect("there is room");
        let mut entries = LiveEntries::NONE;
        for &index in live {
            entries.push(LogIndex(index));
        }
        writer
            .finish(entries.clone(), synced)
            .expect("there is room");
        self.log.set_checkpoint(PartitionId(partition), at, entries);
    }

    /// Flips a bit of a batch that was synced.
    fn rot(&self, place: &BatchPlace, at: u64) {
        let name = format!("{:010}.seg", place.place.segment.0);
        self.disk.rot(&name, place.place.offset + at, 1);
    }

    /// The station's whole life with one shard, whose orders have ended.
    fn start(&self) -> Outcome {
        let state = Arc::new(DiskState::new(1));
        let (recovered, found) = mpsc::channel();
        let (jobs, _jobs) = mpsc::channel();
        let (_prepared, prepared) = mpsc::channel();
        let station = LogStation {
            log: self.disk.kill(),
            checkpoints: self.checkpoints.kill(),
            config: config(),
            start: start(2),
            places: Places::new(PARTITIONS, 1, Relaxed::None),
            doors: vec![ShardDoor {
                recovered,
                doze: Arc::new(Doze::default()),
            }],
            parts: WriterParts {
                shards: Vec::new(),
                doze: Arc::new(Doze::default()),
                state: Arc::clone(&state),
                jobs,
                prepared,
            },
        };
        station.run();
        let failure = state.failure().map(|failure| match failure {
            DiskFailure::Refused(text) => text.clone(),
            DiskFailure::Io(text) => panic!("the disk itself is right: {text}"),
        });
        Outcome {
            found: found.try_recv().ok(),
            failure,
        }
    }

    /// Starts on what must be refused, and gives the reason.
    fn refused(&self) -> String {
        let outcome = self.start();
        assert!(outcome.found.is_none(), "no shard is given anything");
        outcome.failure.expect("damage is told")
    }
}

#[test]
fn what_is_whole_is_handed_out() {
    let mut folder = Folder::new();
    folder.write(1, 1);
    let (_, synced) = folder.write(1, 2);
    folder.checkpoint(1, 1, &[1], synced);
    let outcome = folder.start();
    assert_eq!(outcome.failure, None);
    let found = outcome.found.expect("the shard is given its partitions");
    assert_eq!(
        found.len(),
        1 + usize::from(PARTITIONS),
        "partition 0 and those with names"
    );
    assert!(found[0].pieces.is_none() && found[0].found.entries.is_empty());
    assert!(found[1].pieces.is_some() && found[1].found.live.contains(LogIndex(1)));
    assert_eq!(found[1].found.entries.len(), 1);
}

#[test]
fn i5_a_partition_of_which_nothing_is_left_is_damage_too() {
    let mut folder = Folder::new();
    let (only, _) = folder.write(3, 1);
    folder.write(1, 1);
    folder.rot(&only, IN_HEADER);
    let text = folder.refused();
    assert!(text.contains("; partition 3: "), "{text}");
    assert!(!text.contains("; partition 1: "), "{text}");
}

#[test]
fn i5_a_needed_entry_below_a_checkpoint_that_is_gone_is_damage() {
    let mut folder = Folder::new();
    let (needed, _) = folder.write(1, 1);
    let (_, synced) = folder.write(1, 2);
    folder.checkpoint(1, 2, &[1], synced);
    folder.write(1, 3);
    folder.rot(&needed, IN_HEADER);
    let text = folder.refused();
    let expected = "; partition 1: entries 1 to 1 below its checkpoint are lost and still needed";
    assert!(text.contains(expected), "{text}");
}
