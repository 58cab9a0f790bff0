//! The station on a disk in memory with damage: what was durable is gone, so its partition is set aside.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::mpsc;

use bytes::Bytes;
use courser_contract::{LogIndex, PartitionId, Term};
use courser_engine::AsideFilters;
use courser_log::testing::{Call, MemDisk};
use courser_log::{
    BatchPlace, CheckpointAt, CheckpointStore, Disk, LiveEntries, Log, LogConfig, NodeIdentity,
    PartitionDamage, Push, Record, StartId, Synced,
};

use super::{Handed, LogStation, RecoveredShard, ShardDoor};
use crate::repair::judge::{Fate, Given, Serves};
use crate::repair::{Behind, Fault, LostEntries, Order};
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
    given: Given,
    /// What entries say.
    data: Bytes,
    /// Whose leader writes them.
    term: Term,
    /// So many were there, the one that filled it included.
    starts: u32,
}

/// What a start on the folder came to.
struct Outcome {
    /// Checkpoints that the shard may read before anything is found.
    saved: Vec<(PartitionId, CheckpointAt)>,
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
            given: Given::default(),
            data: Bytes::from(vec![0; 600]),
            term: Term(1),
            starts: 1,
        }
    }

    /// A batch of its own, synced, with an entry.
    fn write(&mut self, partition: u16, index: u64) -> (BatchPlace, Synced) {
        let mut batch = self.log.new_batch();
        let record = Record::Entry {
            partition: PartitionId(partition),
            term: self.term,
            index: LogIndex(index),
            data: self.data.clone(),
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

    /// The station's whole life with one shard, whose orders have ended: how its disk is, and what was handed out.
    fn run(
        &mut self,
        log: MemDisk,
        checkpoints: MemDisk,
    ) -> (Arc<DiskState>, Vec<Handed<MemDisk>>) {
        self.starts += 1;
        let state = Arc::new(DiskState::new(1));
        let (handed, taken) = mpsc::channel();
        let (jobs, _jobs) = mpsc::channel();
        let (_prepared, prepared) = mpsc::channel();
        let station = LogStation {
            log,
            checkpoints,
            config: config(),
            start: start(self.starts),
            places: Places::new(PARTITIONS, 1, Relaxed::None),
            given: self.given.clone(),
            doors: vec![ShardDoor {
                handed,
                doze: Arc::new(Doze::default()),
            }],
            parts: WriterParts {
                shards: Vec::new(),
                doze: Arc::new(Doze::default()),
                state: Arc::clone(&state),
                jobs,
                prepared,
                cleaner: None,
                requests: mpsc::channel().1,
            },
        };
        station.run();
        (state, taken.try_iter().collect())
    }

    /// The same on a disk that does what it is told.
    fn start(&mut self) -> Outcome {
        let (state, taken) = self.run(self.disk.kill(), self.checkpoints.kill());
        let failure = state.failure().map(|failure| match failure {
            DiskFailure::Refused(text) => text.clone(),
            DiskFailure::Io(text) => panic!("the disk itself is right: {text}"),
        });
        let mut outcome = Outcome {
            saved: Vec::new(),
            found: None,
            failure,
        };
        for handed in taken {
            match handed {
                Handed::Saved(saved) => {
                    assert!(outcome.found.is_none(), "they come first");
                    let places = saved
                        .iter()
                        .map(|it| (it.manifest.partition, it.manifest.at));
                    outcome.saved.extend(places);
                }
                Handed::Found(mut found) => {
                    // Those with names.
                    found.retain(|found| found.id != Places::METADATA);
                    outcome.found = Some(found);
                }
            }
        }
        outcome
    }

    /// Another start writes to it.
    fn go_on(&mut self) {
        self.starts += 1;
        self.disk = self.disk.kill();
        let opened = Log::open(
            self.disk.clone(),
            config(),
            start(self.starts),
            &Default::default(),
        );
        self.log = opened.expect("the disk is right").0;
        self.term = Term(u64::from(self.starts));
    }

    /// What sets a partition with a name aside.
    fn fault(&mut self, partition: usize) -> Fault {
        let fate = self.fates().swap_remove(partition - 1);
        let Fate::Aside { fault, .. } = fate else {
            panic!("it is set aside: {fate:?}");
        };
        fault
    }

    /// The fates of the partitions, in order.
    fn fates(&mut self) -> Vec<Fate> {
        let outcome = self.start();
        assert_eq!(outcome.failure, None, "the others are served");
        let found = outcome.found.expect("the shard is given its partitions");
        found.into_iter().map(|found| found.fate).collect()
    }
}

fn serves() -> Fate {
    Fate::Serves(Serves::default())
}

#[test]
fn what_is_whole_is_handed_out() {
    let mut folder = Folder::new();
    folder.write(1, 1);
    let (_, synced) = folder.write(1, 2);
    folder.checkpoint(1, 1, &[1], synced);
    let outcome = folder.start();
    assert_eq!(outcome.failure, None);
    let at = CheckpointAt {
        index: LogIndex(1),
        term: Term(1),
    };
    assert_eq!(outcome.saved, [(PartitionId(1), at)]);
    let found = outcome.found.expect("the shard is given its partitions");
    assert_eq!(found.len(), usize::from(PARTITIONS), "those with names");
    assert!(found[0].pieces.is_some() && found[0].found.live.contains(LogIndex(1)));
    assert_eq!(found[0].found.entries.len(), 1);
}

#[test]
fn m44_a_partition_of_which_nothing_is_left_is_set_aside() {
    let mut folder = Folder::new();
    let (only, _) = folder.write(3, 1);
    folder.write(1, 1);
    folder.rot(&only, IN_HEADER);
    let after = LogIndex(0);
    let damage = PartitionDamage::InDoubt { after };
    let at = Some(only.place);
    let behind = Behind::default();
    let fault = Fault::Entries(LostEntries { damage, at, behind });
    let filters = AsideFilters::Unknown;
    let aside = Fate::Aside { fault, filters };
    // The next batch knows of which partitions it was.
    let fates = [serves(), serves(), aside, serves()];
    assert_eq!(folder.fates(), fates);
}

#[test]
fn m44_an_accepted_loss_begins_with_what_is_left() {
    let mut folder = Folder::new();
    folder.write(1, 1);
    let (lost, _) = folder.write(1, 2);
    folder.write(1, 3);
    folder.rot(&lost, IN_HEADER);
    let first = LogIndex(2);
    let damage = PartitionDamage::Missing { first, last: first };
    let at = Some(lost.place);
    // What the test writes is no message.
    let behind = Behind {
        entries: 1,
        messages: 0,
    };
    let fault = Fault::Entries(LostEntries { damage, at, behind });
    let filters = AsideFilters::Known;
    let fates = folder.fates();
    assert_eq!(fates[0], Fate::Aside { fault, filters });
    folder.given.orders.0 = BTreeSet::from([Order::Missing(PartitionId(1), first, at)]);
    let outcome = folder.start();
    let found = &outcome.found.expect("the shard is given its partitions")[0];
    assert!(matches!(&found.fate, Fate::Serves(serves) if serves.accepted.is_some()));
    assert_eq!(found.found.entries.len(), 1, "nothing behind the gap");
    assert_eq!(found.found.hard_state.term, Term(3), "of this start");
}

/// Who goes on without entries writes others at their indexes.
#[test]
fn m44_an_order_that_was_obeyed_accepts_no_later_damage_of_the_same_entries() {
    // Whether entries of the partition are whole behind the lost one, before the order and after it.
    for (before, after) in [(true, true), (true, false), (false, true), (false, false)] {
        let mut folder = Folder::new();
        folder.write(1, 1);
        let (lost, _) = folder.write(1, 2);
        match before {
            true => folder.write(1, 3),
            false => folder.write(2, 1),
        };
        folder.rot(&lost, IN_HEADER);
        let id = PartitionId(1);
        let order = folder.fault(1).ends_by(id);
        folder.given.orders.0 = BTreeSet::from([order]);
        // As often as nothing is written that takes the place of what is lost.
        for _ in 0..2 {
            let fate = folder.fates().swap_remove(0);
            assert!(matches!(&fate, Fate::Serves(serves) if serves.accepted.is_some()));
        }
        folder.go_on();
        let (lost, _) = folder.write(1, 2);
        match after {
            true => folder.write(1, 3),
            false => folder.write(2, 2),
        };
        assert_eq!(folder.fates()[0], serves(), "all of it is whole");
        folder.rot(&lost, IN_HEADER);
        let fault = folder.fault(1);
        assert_ne!(fault.ends_by(id), order, "{before} {after}: {fault}");
        folder.given.orders.0.insert(fault.ends_by(id));
        let fate = folder.fates().swap_remove(0);
        assert!(matches!(&fate, Fate::Serves(serves) if serves.accepted.is_some()));
    }
}

#[test]
fn m44_a_checkpoint_that_is_gone_sets_its_partition_aside() {
    let mut folder = Folder::new();
    let (_, synced) = folder.write(1, 1);
    folder.checkpoint(1, 1, &[], synced);
    folder.write(1, 2);
    folder
        .checkpoints
        .remove("1-1.ckp")
        .expect("the disk is right");
    let fates = folder.fates();
    let Fate::Aside {
        fault: Fault::Checkpoint { at, .. },
        filters: AsideFilters::Unknown,
    } = &fates[0]
    else {
        panic!("it is set aside: {fates:?}");
    };
    // Accepted, it begins with nothing behind all that there was; and once only, whatever is stored on top of that.
    folder.given.orders.0 = BTreeSet::from([Order::State(PartitionId(1), *at)]);
    for _ in 0..2 {
        let outcome = folder.start();
        let found = &outcome.found.expect("the shard is given its partitions")[0];
        assert_eq!(found.fate, serves());
        assert_eq!(found.found.checkpoint.map(|at| at.index), Some(LogIndex(3)));
        assert!(found.pieces.is_some() && found.found.entries.is_empty());
    }
}

/// The same where the manifest is gone, and the segments with all that it stood for are used again: then only the heads of later ones
/// say up to where the partition was.
#[test]
fn m44_a_manifest_that_is_gone_is_accepted_once() {
    let mut folder = Folder::new();
    let (first, _) = folder.write(1, 1);
    folder.write(1, 2);
    let (_, synced) = folder.write(1, 3);
    folder.checkpoint(1, 3, &[], synced);
    let first = first.place.segment.file_name();
    let mut last = 0;
    while folder.disk.names().contains(&first) {
        last += 1;
        let (_, synced) = folder.write(2, last);
        folder.checkpoint(2, last, &[], synced);
        while let Some(job) = folder.log.prepare() {
            folder.log.prepared(job.run()).expect("the disk is right");
        }
    }
    let id = PartitionId(1);
    folder
        .checkpoints
        .remove("1.manifest")
        .expect("the disk is right");
    let order = folder.fault(1).ends_by(id);
    assert_eq!(order, Order::State(id, LogIndex(3)));
    folder.given.orders.0 = BTreeSet::from([order]);
    for _ in 0..2 {
        let outcome = folder.start();
        let found = &outcome.found.expect("the shard is given its partitions")[0];
        assert_eq!(found.fate, serves());
        assert_eq!(found.found.checkpoint.map(|at| at.index), Some(LogIndex(4)));
    }
}

#[test]
fn i5_a_needed_entry_below_a_checkpoint_that_is_gone_sets_nothing_aside() {
    let mut folder = Folder::new();
    let (needed, _) = folder.write(1, 1);
    let (_, synced) = folder.write(1, 2);
    folder.checkpoint(1, 2, &[1], synced);
    folder.write(1, 3);
    folder.rot(&needed, IN_HEADER);
    let outcome = folder.start();
    let found = &mut outcome.found.expect("the shard is given its partitions")[0];
    assert_eq!(found.fate, serves());
    assert!(found.found.missing_live.contains(LogIndex(1)));
    assert!(found.entries.read(LogIndex(1)).is_err(), "and that is said");
}

/// Nobody is let in without users and rights.
#[test]
fn m44_damage_of_partition_0_stops_the_start_until_it_is_accepted() {
    let mut folder = Folder::new();
    let (lost, _) = folder.write(0, 1);
    folder.write(0, 2);
    folder.rot(&lost, IN_HEADER);
    let text = folder.start().failure.expect("the start is refused");
    assert!(text.contains("users, roles and limits"), "{text}");
    let at = Some(lost.place);
    folder.given.orders.0 = BTreeSet::from([Order::Missing(PartitionId(0), LogIndex(1), at)]);
    assert_eq!(folder.start().failure, None);
}

#[test]
fn an_entry_of_a_later_version_stops_the_start_and_says_so() {
    for (data, version) in [
        ([9, 0, 1, 0], "layout 9 and engine version 1"),
        ([1, 0, 0, 1], "layout 1 and engine version 256"),
    ] {
        let mut folder = Folder::new();
        folder.write(2, 1);
        folder.data = Bytes::copy_from_slice(&data);
        folder.write(2, 2);
        let text = folder.start().failure.expect("the start is refused");
        assert!(text.contains("entry 2 of partition 2"), "{text}");
        assert!(
            text.contains(version) && text.contains("the program that wrote it"),
            "{text}"
        );
    }
}

/// A sync that failed below another error, and a checkpoint that could not be read, were taken for a folder that is not for this program: code 1
/// instead of 74.
#[test]
fn i1_a_call_that_fails_ends_a_start_as_a_failure_of_the_disk() {
    let calls = [Call::Sync, Call::SyncDir, Call::Read, Call::Open];
    let cases = calls.iter().flat_map(|&call| [(call, false), (call, true)]);
    for (call, is_of_checkpoints) in cases {
        let mut ended = 0;
        for after in 0.. {
            let mut folder = Folder::new();
            let (_, synced) = folder.write(2, 1);
            folder.checkpoint(2, 1, &[1], synced);
            folder.write(1, 1);
            let (log, checkpoints) = (folder.disk.kill(), folder.checkpoints.kill());
            let failing = match is_of_checkpoints {
                true => checkpoints.clone(),
                false => log.clone(),
            };
            failing.fail(call, after, 1, ErrorKind::Other);
            let (state, _) = folder.run(log, checkpoints);
            if failing.failed() == 0 {
                break;
            }
            match state.failure() {
                Some(DiskFailure::Io(_)) => ended += 1,
                // It goes on without, or tries again.
                None => {}
                Some(DiskFailure::Refused(text)) => {
                    panic!("{call:?} {after} of checkpoints {is_of_checkpoints}: {text}")
                }
            }
        }
        // Nothing is synced in the folder of checkpoints at a start but the folder itself.
        let none = call == Call::Sync && is_of_checkpoints;
        assert_eq!(ended == 0, none, "{call:?} {is_of_checkpoints}");
    }
}
