//! M45 at the real bound: a batch takes at most 4 MiB of a large segment, and what is larger goes ahead in pieces.

use bytes::Bytes;
use courser_contract::{LogIndex, PartitionId, Term};
use courser_log::testing::MemDisk;
use courser_log::{
    Batch, Log, LogConfig, Manifests, NodeIdentity, Push, Record, Recovered, StartId,
};

const BATCH_BYTES_MAX: u64 = 4 << 20;
/// Four of the largest batches: below, a quarter of the segment is what counts.
const SEGMENT: u64 = 4 * BATCH_BYTES_MAX;
/// The header of a batch, and the frame that an entry of this size has at most.
const HEADS: usize = 88 + 32;
const PARTITION: PartitionId = PartitionId(3);

fn open(disk: &MemDisk, counter: u32) -> (Log<MemDisk>, Recovered) {
    let config = LogConfig::new(NodeIdentity(7), SEGMENT).expect("a good size");
    let start = StartId { counter, word: 9 };
    Log::open(disk.clone(), config, start, &Manifests::new()).expect("the log opens")
}

fn entry(index: u64, len: usize) -> Record {
    Record::Entry {
        partition: PARTITION,
        term: Term(1),
        index: LogIndex(index),
        data: (0..len)
            .map(|at| (at as u64 * 7 + index) as u8)
            .collect::<Bytes>(),
    }
}

/// Writes and syncs what is in the batch, and what is left of a large entry; the number of batches.
fn write(log: &mut Log<MemDisk>, batch: &mut Batch) -> usize {
    let mut batches = 0;
    loop {
        let place = log.write(batch).expect("there is room");
        assert!(place.bytes <= BATCH_BYTES_MAX, "{} bytes", place.bytes);
        batches += 1;
        let more = batch.is_unfinished();
        batch.clear();
        if !more {
            log.sync().expect("synced");
            log.check();
            return batches;
        }
    }
}

#[test]
fn m45_a_batch_ends_at_four_mebibytes() {
    let whole = BATCH_BYTES_MAX as usize - HEADS;
    // Bytes of an entry, and the batches that it takes alone.
    let cases = [
        (whole - 8, 1),
        (whole, 1),
        (whole + 8, 2),
        (BATCH_BYTES_MAX as usize, 2),
        (9 << 20, 3),
    ];
    let disk = MemDisk::new();
    let (mut log, _) = open(&disk, 1);
    let mut batch = log.new_batch();
    for (at, (len, batches)) in cases.into_iter().enumerate() {
        assert_eq!(batch.push(&entry(at as u64 + 1, len)), Push::Taken);
        assert_eq!(
            write(&mut log, &mut batch),
            batches,
            "an entry of {len} bytes"
        );
    }
    // Small entries fill a batch up to the bound, and the next one goes into the next batch.
    let small = 10_000;
    let first = cases.len() as u64 + 1;
    let mut index = first;
    while batch.push(&entry(index, small)) == Push::Taken {
        index += 1;
    }
    assert!(
        batch.bytes() as u64 > BATCH_BYTES_MAX - 3 * 4096,
        "it is full"
    );
    assert_eq!(write(&mut log, &mut batch), 1);
    assert_eq!(batch.push(&entry(index, small)), Push::Taken);
    assert_eq!(write(&mut log, &mut batch), 1);
    drop(log);

    let (_, recovered) = open(&disk.fork().power_loss(5), 2);
    assert_eq!(recovered.report.damages, [], "{}", recovered.report);
    let found = &recovered.partitions[&PARTITION].entries;
    assert_eq!(found.len() as u64, index);
    for (at, found) in found.iter().enumerate() {
        let len = cases.get(at).map_or(small, |(len, _)| *len);
        let Record::Entry { index, data, .. } = entry(at as u64 + 1, len) else {
            unreachable!("an entry was made");
        };
        assert!(
            found.index == index && found.data == data,
            "entry {}",
            at + 1
        );
    }
}
