//! What is left of a segment in which something is damaged stays where it is.

use bytes::Bytes;
use courser_contract::{LogIndex, PartitionId, Term};
use courser_log::{
    BLOCK_BYTES, BatchPlace, CheckpointStore, Cleaner, LiveEntries, Log, Manifests, Place,
    Pressure, Push, Question, Record, SegmentNumber, Step, testing::MemDisk,
};

use super::world::Rows;
use crate::support::{NODE, SEGMENT, checkpoint_at, config, entry, open, start};

/// Byte of an entry at which its record begins.
const BYTE: u32 = 32;
/// Whose entries are needed, and whose are not.
const NEEDED: u16 = 1;
const DEAD: u16 = 2;

/// A record of an entry of that index.
fn record(index: u64) -> Vec<u8> {
    let mut record = 300_u16.to_le_bytes().to_vec();
    record.extend([0xA0 + index as u8; 300]);
    record
}

fn write(log: &mut Log<MemDisk>, records: &[Record]) -> BatchPlace {
    let mut batch = log.new_batch();
    for record in records {
        assert_eq!(batch.push(record), Push::Taken);
    }
    let place = log.write(&mut batch).expect("written");
    log.sync().expect("synced");
    while let Some(job) = log.prepare() {
        log.prepared(job.run()).expect("synced");
    }
    place
}

fn checkpoint(
    log: &mut Log<MemDisk>,
    store: &CheckpointStore<MemDisk>,
    id: u16,
    needed: &[u64],
    last: u64,
) {
    let (id, at) = (PartitionId(id), checkpoint_at(last, 1));
    let live: LiveEntries = needed.iter().copied().map(LogIndex).collect();
    let mut writer = store.writer(id, at).expect("created");
    for index in needed {
        let row = [&index.to_le_bytes()[..], &BYTE.to_le_bytes()].concat();
        writer.piece(&row).expect("written");
    }
    writer.finish(live.clone(), log.synced()).expect("finished");
    log.set_checkpoint(id, at, live);
}

fn fill(log: &mut Log<MemDisk>, last: &mut u64) -> Place {
    *last += 1;
    write(log, &[entry(DEAD, *last, &[9; 100])]).place
}

/// A log of which two entries are needed. A cleaner has moved both into the last batch of a segment, which is given.
fn moved_to_the_end(
    disk: &MemDisk,
    store: &CheckpointStore<MemDisk>,
) -> (Log<MemDisk>, BatchPlace) {
    let (mut log, _) = open(disk, 1, &Manifests::new()).expect("an empty folder");
    let first: Vec<Record> = (1..=2)
        .map(|index| {
            let data = [&[7; BYTE as usize][..], &record(index)].concat();
            entry(NEEDED, index, &data)
        })
        .collect();
    let old = write(&mut log, &first).place.segment;
    let mut last = 0;
    let before_end = SEGMENT - 2 * BLOCK_BYTES as u64;
    loop {
        let place = fill(&mut log, &mut last);
        if place.segment > old && place.offset == before_end {
            break;
        }
    }
    let kept = (1..=2).map(|index| Record::Kept {
        partition: PartitionId(NEEDED),
        term: Term(1),
        index: LogIndex(index),
        byte: BYTE,
        data: Bytes::from(record(index)),
    });
    let moved = write(&mut log, &kept.collect::<Vec<_>>());
    assert_eq!(moved.place.offset, before_end + BLOCK_BYTES as u64);
    checkpoint(&mut log, store, NEEDED, &[1, 2], 2);
    checkpoint(&mut log, store, DEAD, &[], last);
    write(&mut log, &[Record::Cleaned { segment: old }]);
    // Nothing of either partition is in doubt for what is lost before it.
    write(&mut log, &[entry(NEEDED, 3, &[7; 100])]);
    for _ in 0..40 {
        fill(&mut log, &mut last);
    }
    checkpoint(&mut log, store, NEEDED, &[1, 2], 3);
    checkpoint(&mut log, store, DEAD, &[], last);
    (log, moved)
}

/// Lets a cleaner work until it rests. Which segments it gives up.
fn clean(log: &mut Log<MemDisk>, mut cleaner: Cleaner<MemDisk, Rows>) -> Vec<SegmentNumber> {
    let mut given_up = Vec::new();
    cleaner.earn(1 << 30, 0, Pressure::Short);
    loop {
        match cleaner.step() {
            Step::Rest => return given_up,
            Step::Again => {}
            Step::Ask(Question::Survey) => cleaner.surveyed(log.survey()),
            Step::Ask(Question::Source(segment)) => cleaner.sourced(log.source(segment)),
            Step::Write(records) => {
                write(log, &records);
                cleaner.written();
            }
            Step::HeldUp { why } => panic!("{why}"),
            Step::GaveUp { segment, .. } => given_up.extend(segment),
        }
    }
}

/// The cleaner went through the batches that are whole. So it called a segment cleaned whose last one is damaged, and what was left of that was gone.
#[test]
fn i1_what_is_left_of_a_damaged_batch_at_the_end_of_a_segment_is_not_taken_for_moved() {
    let (disk, checkpoints) = (MemDisk::new(), MemDisk::new());
    let (store, _) = CheckpointStore::open(checkpoints.clone(), NODE).expect("an empty folder");
    let (log, moved) = moved_to_the_end(&disk, &store);
    drop(log);
    let segment = moved.place.segment;
    let name = segment.file_name();
    let bytes = disk.bytes(&name).expect("it is there");
    let of_first = bytes.windows(302).rposition(|it| it == record(1));
    let at = of_first.expect("it was moved there") as u64;
    assert!(at > moved.place.offset);
    disk.rot(&name, at + 100, 1);

    let disk = disk.kill();
    let (store, loaded) = CheckpointStore::open(checkpoints.kill(), NODE).expect("opens");
    let manifests = loaded.manifests;
    let mut config = config();
    config.reads_all = true;
    let (mut log, found) = Log::open(disk.clone(), config, start(2), &manifests).expect("opens");
    assert_eq!(found.report.damages.len(), 1, "{}", found.report);
    assert_eq!(found.partitions[&PartitionId(NEEDED)].damage, None);
    let cleaner = Cleaner::new(disk, store, manifests, Rows, SEGMENT);
    assert_eq!(clean(&mut log, cleaner), [segment]);
    let mut reader = log.reader(PartitionId(NEEDED));
    let batches = std::iter::from_fn(|| reader.next_kept());
    let kept: Vec<_> = batches.flatten().flatten().collect();
    let left: Vec<_> = kept.iter().map(|it| (it.index, &it.data[..])).collect();
    assert_eq!(left, [(LogIndex(2), &record(2)[..])]);
    log.check();
}
