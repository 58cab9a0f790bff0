use bytes::Bytes;
use courser_contract::{LogIndex, PartitionId, Term};
use proptest::prelude::*;

use super::{Batch, Change, Push, Run, Seal, Tags};
use crate::{
    format::{BATCH_HEADER_BYTES, BLOCK_BYTES, BatchHeader, Header, Kind, Seen},
    ids::{BatchNumber, SegmentNumber, StartId},
    record::Record,
    scan::{Check, Frames},
};

const START: StartId = StartId {
    counter: 1,
    word: 77,
};

fn batch(limit: usize) -> Batch {
    Batch::new(limit, Tags::new(START, 1))
}

fn entry(index: u64, len: usize) -> Record {
    Record::Entry {
        partition: PartitionId(5),
        term: Term(2),
        index: LogIndex(index),
        data: (0..len).map(|at| (at as u64 ^ index) as u8).collect(),
    }
}

fn data_of(record: &Record) -> &Bytes {
    match record {
        Record::Entry { data, .. } => data,
        Record::HardState { .. } | Record::Kept { .. } | Record::Cleaned { .. } => {
            panic!("an entry")
        }
    }
}

/// The bytes that go into the file.
fn bytes(batch: &mut Batch) -> (BatchHeader, Bytes) {
    let header = batch.seal(Seal {
        flags: 0,
        number: BatchNumber(3),
        segment: SegmentNumber(1),
        synced: BatchNumber(2),
        start: START,
        previous_partitions: 0,
        previous_crc: 0,
    });
    let blocks = batch.blocks();
    assert!(blocks.as_ptr().addr().is_multiple_of(BLOCK_BYTES));
    let bytes = Bytes::copy_from_slice(blocks);
    assert_eq!(bytes.len(), batch.bytes());
    assert!(bytes.len().is_multiple_of(BLOCK_BYTES));
    (header, bytes)
}

fn body(header: &BatchHeader, bytes: &Bytes) -> Bytes {
    let end = BATCH_HEADER_BYTES + header.body_bytes.get() as usize;
    assert!(bytes[end..].iter().all(|byte| *byte == 0));
    bytes.slice(BATCH_HEADER_BYTES..end)
}

proptest! {
    #[test]
    fn what_is_pushed_is_read_back(lens in prop::collection::vec(0_usize..9_000, 0..20)) {
        let mut batch = batch(1 << 20);
        let records: Vec<Record> = lens
            .iter()
            .enumerate()
            .map(|(at, len)| entry(at as u64 + 1, *len))
            .collect();
        for record in &records {
            prop_assert_eq!(batch.push(record), Push::Taken);
        }
        let (header, bytes) = bytes(&mut batch);
        prop_assert!(matches!(BatchHeader::see(&bytes), Seen::Header(_)));
        let body = body(&header, &bytes);
        prop_assert_eq!(header.body_crc.get(), crc32c::crc32c(&body));
        let frames: Vec<_> = Frames::new(&body, header.tag.get(), Check::Checksums)
            .flatten()
            .collect();
        prop_assert_eq!(frames.len(), records.len());
        for (frame, record) in frames.iter().zip(&records) {
            prop_assert_eq!(&frame.data, data_of(record));
        }
        // Under another tag none of them is right: they are bound to their batch.
        let other = Frames::new(&body, header.tag.get() ^ 1, Check::Checksums);
        prop_assert_eq!(other.flatten().count(), 0);
    }

    #[test]
    fn a_large_entry_is_whole_with_its_last_piece(len in 1_usize..200_000, before in 0_usize..5) {
        let mut batch = batch(16 << 10);
        for index in 0..before {
            prop_assert_eq!(batch.push(&entry(index as u64 + 1, 100)), Push::Taken);
        }
        let large = entry(before as u64 + 1, len);
        while batch.push(&large) == Push::Full {
            prop_assert!(!batch.is_unfinished() && !batch.is_empty());
            batch.clear();
        }
        let mut joined = Vec::new();
        let mut batches = 0;
        loop {
            prop_assert!(batch.bytes() <= 16 << 10);
            batches += 1;
            let (header, bytes) = bytes(&mut batch);
            let body = body(&header, &bytes);
            for frame in Frames::new(&body, header.tag.get(), Check::Checksums).flatten() {
                match frame.known() {
                    Some(Kind::Piece) => joined.extend_from_slice(&frame.data[16..]),
                    Some(Kind::Entry) if frame.index.0 == before as u64 + 1 => {
                        joined.extend_from_slice(&frame.data);
                    }
                    _ => {}
                }
            }
            if !batch.is_unfinished() {
                break;
            }
            prop_assert_eq!(batch.push(&entry(99, 1)), Push::Full, "nothing overtakes it");
            batch.clear();
        }
        prop_assert_eq!(&joined[..], &data_of(&large)[..]);
        prop_assert!(batches <= len / (15 << 10) + 2);
    }
}

#[test]
fn entries_in_a_row_are_one_change() {
    let mut batch = batch(1 << 20);
    for index in [1, 2, 3, 7, 8, 2] {
        assert_eq!(batch.push(&entry(index, 10)), Push::Taken);
    }
    let runs: Vec<(u64, u64)> = batch
        .changes()
        .iter()
        .map(|change| match change {
            Change::Entries(Run { first, last, .. }) => (first.0, last.0),
            Change::Piece(_) | Change::HardState(..) | Change::Kept(_) | Change::Cleaned(_) => {
                panic!("entries alone")
            }
        })
        .collect();
    assert_eq!(runs, [(1, 3), (7, 8), (2, 2)]);
}

#[test]
fn a_full_batch_takes_nothing_and_stays_as_it_was() {
    let mut batch = batch(2 * BLOCK_BYTES);
    assert_eq!(batch.push(&entry(1, 8_000)), Push::Taken);
    let records = batch.records();
    assert_eq!(batch.push(&entry(2, 200)), Push::Full);
    assert_eq!((batch.records(), batch.bytes()), (records, 2 * BLOCK_BYTES));
    assert!(!batch.is_unfinished());
    batch.clear();
    assert!(batch.is_empty());
    assert_eq!(batch.push(&entry(2, 200)), Push::Taken);
}

#[test]
fn tags_are_not_used_twice() {
    let mut seen = std::collections::BTreeSet::new();
    for nth in 0..4 {
        let mut batch = Batch::new(2 * BLOCK_BYTES, Tags::new(START, nth));
        for _ in 0..1_000 {
            assert!(seen.insert(bytes(&mut batch).0.tag.get()));
            batch.clear();
        }
    }
}
