use bytes::Bytes;
use courser_contract::{LogIndex, PartitionId, Term};
use proptest::prelude::*;

use super::{Batch, Change, Push, Run, Seal, Tags};
use crate::{
    format::{
        BATCH_HEADER_BYTES, BLOCK_BYTES, BatchHeader, FRAME_BYTES, Header, Kind, NUMBER_MAX,
        SHORT_FRAME_BYTES, Seen,
    },
    ids::{BatchNumber, SegmentNumber, StartId},
    record::Record,
    scan::{Check, Frames, RawFrame},
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

/// All frames of a batch, their checksums looked at, and the bytes of its body.
fn frames(batch: &mut Batch) -> (Vec<RawFrame>, usize) {
    let (header, bytes) = bytes(batch);
    let body = body(&header, &bytes);
    let frames = Frames::new(&body, header.tag.get(), Check::Checksums);
    let frames = frames.map(|frame| frame.expect("it is whole")).collect();
    (frames, body.len())
}

#[test]
fn the_frame_of_an_entry_is_short_where_its_numbers_are_small() {
    const LEN_END: usize = 8 << 12;
    for (term, index, data_bytes, frame_bytes) in [
        (1, 1, 0, SHORT_FRAME_BYTES),
        (0xFFFF, (1 << 36) - 1, LEN_END - 8, SHORT_FRAME_BYTES),
        (0xFFFF, (1 << 36) - 1, LEN_END, FRAME_BYTES),
        (0xFFFF, 1 << 36, 200, FRAME_BYTES),
        (1 << 16, 1, 200, FRAME_BYTES),
        (1, 1, 201, FRAME_BYTES + 7),
        (NUMBER_MAX, NUMBER_MAX, 200, FRAME_BYTES),
    ] {
        let mut batch = batch(1 << 20);
        let record = Record::Entry {
            partition: PartitionId(0x1234),
            term: Term(term),
            index: LogIndex(index),
            data: Bytes::from(vec![7; data_bytes]),
        };
        assert_eq!(batch.push(&record), Push::Taken);
        assert_eq!(batch.partitions(), 1 << (0x1234 % 64));
        let (frames, len) = frames(&mut batch);
        assert_eq!(
            len,
            frame_bytes + data_bytes,
            "{term}, {index}, {data_bytes}"
        );
        let [frame] = &frames[..] else {
            panic!("one frame");
        };
        assert_eq!(frame.known(), Some(Kind::Entry));
        assert_eq!(frame.partition, PartitionId(0x1234));
        assert_eq!((frame.term.0, frame.index.0), (term, index));
        assert_eq!(&frame.data, data_of(&record));
    }
}

#[test]
fn small_entries_with_the_long_frame_are_still_read() {
    let mut batch = batch(1 << 20);
    let data = Bytes::from_static(b"as before there was a short frame");
    let at = (Term(3), LogIndex(9));
    let long = batch.frame(Kind::Entry, PartitionId(5), at, data.len());
    batch.put(long, &[], &data);
    let next = entry(10, 80);
    assert_eq!(batch.push(&next), Push::Taken);
    let (frames, _) = frames(&mut batch);
    let [first, second] = &frames[..] else {
        panic!("two frames");
    };
    assert_eq!(
        (first.known(), first.term, first.index),
        (Some(Kind::Entry), at.0, at.1)
    );
    assert_eq!((&first.data, &second.data), (&data, data_of(&next)));
}

proptest! {
    /// Whatever a disk hands over in a body of the right length: no panic, and nothing that was not written.
    #[test]
    fn changed_frames_are_not_taken(at in 0_usize..400, with in 1_u8..) {
        let mut batch = batch(1 << 20);
        let written = [entry(1, 104), entry(2, 0), entry(3, 99)];
        for record in &written {
            prop_assert_eq!(batch.push(record), Push::Taken);
        }
        let (header, bytes) = bytes(&mut batch);
        let mut body = body(&header, &bytes).to_vec();
        let at = at % body.len();
        body[at] ^= with;
        let body = Bytes::from(body);
        let _ = Frames::new(&body, header.tag.get(), Check::Lengths).count();
        for frame in Frames::new(&body, header.tag.get(), Check::Checksums).flatten() {
            let same = |record: &Record| matches!(record, Record::Entry { index, data, .. } if *index == frame.index && *data == frame.data);
            prop_assert!(written.iter().any(same), "what is taken was written");
        }
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
