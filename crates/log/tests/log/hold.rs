//! What a copy of a log relies on: segments that are held are not used again, a cut says what there is, and damage of a segment is
//! found where it is.

use std::collections::BTreeSet;

use bytes::Bytes;
use courser_contract::{LogIndex, PartitionId, Term};
use courser_log::inspect::{
    EntryFinder, Found, KeptCheck, RecordAt, RecordFinder, RecordKind, SegmentInspector,
    check_segment, may_have, read_kept,
};
use courser_log::testing::MemDisk;
use courser_log::{
    Batch, CheckpointAt, Disk, DiskFile, HeldSegment, LiveEntries, Log, LogConfig, Manifests,
    NodeIdentity, Push, Record, SegmentNumber, StartId,
};

const NODE: NodeIdentity = NodeIdentity(7);
const ID: PartitionId = PartitionId(3);

fn open(disk: &MemDisk) -> Log<MemDisk> {
    open_with(disk, 1, 64 << 10)
}

/// Opens it at this start, with segments of so many bytes.
fn open_with(disk: &MemDisk, counter: u32, segment_bytes: u64) -> Log<MemDisk> {
    let config = LogConfig::new(NODE, segment_bytes).expect("a good size");
    let start = StartId { counter, word: 9 };
    let opened = Log::open(disk.clone(), config, start, &Manifests::new());
    opened.expect("it opens").0
}

/// Entries of 1,000 bytes, each in a batch of its own.
fn write(log: &mut Log<MemDisk>, indexes: std::ops::RangeInclusive<u64>) {
    let mut batch = log.new_batch();
    for index in indexes {
        batch.clear();
        let record = Record::Entry {
            partition: ID,
            term: Term(1),
            index: LogIndex(index),
            data: Bytes::from(vec![index as u8; 1_000]),
        };
        assert_eq!(batch.push(&record), Push::Taken);
        log.write(&mut batch).expect("there is room");
        log.sync().expect("the disk is right");
    }
}

fn checkpoint(log: &mut Log<MemDisk>, index: u64) -> usize {
    let at = CheckpointAt {
        index: LogIndex(index),
        term: Term(1),
    };
    log.set_checkpoint(ID, at, LiveEntries::NONE)
}

#[test]
fn segments_that_are_held_are_not_used_again() {
    let disk = MemDisk::new();
    let mut log = open(&disk);
    write(&mut log, 1..=60);
    let cut = log.cut().expect("the disk is right");
    assert_eq!(cut.partitions, [(ID, LogIndex(60))]);
    assert!(cut.segments.len() >= 4, "{cut:?}");
    assert_eq!(cut.synced.batch(), log.last_batch());
    let numbers: Vec<SegmentNumber> = cut.segments.iter().map(|it| it.segment).collect();
    let last = *numbers.last().expect("the one that is written");
    assert_eq!(cut.end.segment, last);
    log.hold(Some(numbers[1]..=last));
    assert_eq!(checkpoint(&mut log, 60), 1, "only the one that is not held");
    write(&mut log, 61..=100);
    assert_eq!(log.held_segments()[0].segment, numbers[1]);
    let before = log.segments();
    log.hold(None);
    assert_eq!(
        before - log.segments(),
        numbers.len() - 2,
        "all but the one that was written"
    );
    log.check();
}

/// Its blocks may be such that cannot be read. Of those that nothing is written over nobody could say what stands there: the next start was refused.
#[test]
fn d7_a_segment_that_was_found_damaged_is_not_used_again() {
    let disk = MemDisk::new();
    let mut log = open(&disk);
    write(&mut log, 1..=60);
    let damaged = log.held_segments()[0].segment;
    let end = (64 << 10) - 1;
    disk.make_unreadable(&damaged.file_name(), end - 4_095, end);
    log.note_damaged(damaged);
    assert!(checkpoint(&mut log, 60) > 1, "it is not needed any more");
    write(&mut log, 61..=150);
    while let Some(job) = log.prepare() {
        log.prepared(job.run()).expect("the disk is right");
    }
    assert!(log.counts().recycled > 1, "others are");
    for name in disk.names() {
        let file = disk.open(&name).expect("it is there");
        let mut bytes = vec![0; file.len().expect("known") as usize];
        file.read_at(&mut bytes, 0).expect(&name);
    }
    drop(log);
    open_with(&disk.kill(), 2, 64 << 10).check();
}

/// All segments of a log of 60 entries, with the file of each.
fn filled() -> (MemDisk, Vec<HeldSegment>) {
    let disk = MemDisk::new();
    let mut log = open(&disk);
    write(&mut log, 1..=60);
    let segments = log.held_segments();
    (disk, segments)
}

#[test]
fn a_whole_segment_is_whole() {
    let (disk, segments) = filled();
    for segment in &segments {
        let file = disk
            .open(&segment.segment.file_name())
            .expect("it is there");
        let check = check_segment(file, segment).expect("it can be read");
        assert_eq!(
            (check.damages.len(), check.missing.len()),
            (0, 0),
            "{check:?}"
        );
    }
}

#[test]
fn i5_damage_anywhere_in_a_segment_is_found_with_the_entries_that_it_takes() {
    let (disk, segments) = filled();
    for segment in &segments {
        let name = segment.segment.file_name();
        let open = || disk.open(&name).expect("it is there");
        let inspector = SegmentInspector::new(open()).expect("a segment");
        // The header of the segment, then of each batch its header, and its record.
        let mut places = vec![(20, None)];
        let mut index = None;
        let mut batches = Vec::new();
        for found in inspector {
            match found {
                Found::Batch(batch) => batches.push((batch.offset, None)),
                Found::Record(record) if record.data_bytes == 1_000 => {
                    index = Some(record.index);
                    batches.last_mut().expect("a batch is first").1 = index;
                }
                Found::Record(_) | Found::End { .. } => {}
                Found::Damage { .. } => panic!("it is whole"),
            }
        }
        assert!(index.is_some(), "it has entries");
        for (offset, index) in batches {
            places.push((offset + 20, Some(index)));
            if index.is_some() {
                places.push((offset + 88 + 40, Some(index)));
            }
        }
        for (at, index) in places {
            disk.rot(&name, at, 1);
            let check = check_segment(open(), segment).expect("it can be read");
            assert!(!check.damages.is_empty(), "byte {at} of {name}");
            if let Some(index) = index {
                let wanted: Vec<_> = index.iter().map(|index| (ID, *index, *index)).collect();
                assert_eq!(check.missing, wanted, "byte {at} of {name}");
            }
            disk.rot(&name, at, 1);
        }
    }
}

#[test]
fn an_entry_is_found_where_it_stands() {
    let (disk, segments) = filled();
    for index in [1, 30, 60, 61] {
        let mut finder = EntryFinder::new(ID, LogIndex(index));
        for segment in &segments {
            let file = disk
                .open(&segment.segment.file_name())
                .expect("it is there");
            finder.segment(segment.segment, file).expect("a segment");
        }
        let found = finder.finish();
        assert_eq!(found.is_some(), index <= 60);
        if let Some(found) = found {
            assert_eq!((found.term, found.data[0]), (Term(1), index as u8));
        }
    }
    let mut finder = EntryFinder::new(PartitionId(4), LogIndex(1));
    let file = disk
        .open(&segments[0].segment.file_name())
        .expect("it is there");
    // A file that has another number than its name is about to be used again.
    finder.segment(SegmentNumber(99), file).expect("a segment");
    assert_eq!(finder.finish(), None);
}

#[test]
fn an_entry_in_pieces_is_found_whole() {
    let disk = MemDisk::new();
    let mut log = open(&disk);
    let data = Bytes::from((0..100_000_u32).map(|at| at as u8).collect::<Vec<u8>>());
    let record = Record::Entry {
        partition: ID,
        term: Term(1),
        index: LogIndex(1),
        data: data.clone(),
    };
    let mut batch = log.new_batch();
    assert_eq!(batch.push(&record), Push::Taken);
    loop {
        log.write(&mut batch).expect("there is room");
        batch.clear();
        if batch.is_empty() {
            break;
        }
    }
    log.sync().expect("the disk is right");
    let mut finder = EntryFinder::new(ID, LogIndex(1));
    for segment in log.held_segments() {
        let file = disk
            .open(&segment.segment.file_name())
            .expect("it is there");
        finder.segment(segment.segment, file).expect("a segment");
    }
    assert_eq!(finder.finish().expect("it is there").data, data);
}

/// Which of the records that are wanted these segments give.
fn found_in(
    disk: &MemDisk,
    segments: &[HeldSegment],
    wanted: &BTreeSet<RecordAt>,
) -> BTreeSet<RecordAt> {
    let mut finder = RecordFinder::new(wanted);
    for segment in segments {
        let file = disk.open(&segment.segment.file_name());
        let file = file.expect("it is there");
        finder.segment(file, segment).expect("it can be read");
    }
    finder.finish().into_iter().collect()
}

/// Records of two entries that a cleaner has moved: of the first one two.
const MOVED: [(u64, u32); 3] = [(5, 0), (5, 480), (9, 64)];

/// A segment with them, each in a batch of its own, and the bytes of the file at which those begin.
fn with_moved() -> (MemDisk, HeldSegment, Vec<u64>) {
    let disk = MemDisk::new();
    let mut log = open(&disk);
    let mut batch = log.new_batch();
    for (index, byte) in MOVED {
        batch.clear();
        let record = Record::Kept {
            partition: ID,
            term: Term(1),
            index: LogIndex(index),
            byte,
            data: Bytes::from(vec![7; 400]),
        };
        assert_eq!(batch.push(&record), Push::Taken);
        log.write(&mut batch).expect("there is room");
        log.sync().expect("the disk is right");
    }
    let segment = log.held_segments().pop().expect("it is written");
    let file = disk.open(&segment.segment.file_name());
    let inspector = SegmentInspector::new(file.expect("it is there")).expect("a segment");
    let (mut batch, mut places) = (0, Vec::new());
    for found in inspector {
        match found {
            Found::Batch(it) => batch = it.offset,
            Found::Record(it) if it.kind == RecordKind::Kept => places.push(batch),
            Found::Record(_) | Found::Damage { .. } | Found::End { .. } => {}
        }
    }
    (disk, segment, places)
}

#[test]
fn m41_a_damaged_segment_says_which_of_the_moved_records_it_lacks() {
    let (disk, segment, places) = with_moved();
    let name = segment.segment.file_name();
    let open = || disk.open(&name).expect("it is there");
    let all: BTreeSet<_> = MOVED
        .map(|(index, byte)| (ID, LogIndex(index), byte))
        .into();
    for (damaged, place) in places.iter().enumerate() {
        disk.rot(&name, place + 200, 1);
        let mut checks = KeptCheck::of(&segment);
        read_kept(open(), &segment, &mut checks).expect("it can be read");
        let check = &checks[&ID];
        for (at, (index, byte)) in MOVED.into_iter().enumerate() {
            assert_eq!(check.lacks(LogIndex(index), byte), at == damaged);
            // One that came with it, for it follows it in the entry.
            assert_eq!(check.lacks(LogIndex(index), byte + 392), at == damaged);
        }
        assert!(!check.lacks(LogIndex(7), 0), "it never had that");
        let found = found_in(&disk, std::slice::from_ref(&segment), &all);
        let mut left = all.clone();
        let (index, byte) = MOVED[damaged];
        left.remove(&(ID, LogIndex(index), byte));
        assert_eq!(found, left);
        disk.rot(&name, place + 200, 1);
    }
    assert_eq!(places.len(), MOVED.len());
    // A file that is another segment by now gives nothing.
    let other = HeldSegment {
        segment: SegmentNumber(segment.segment.0 + 1),
        ..segment.clone()
    };
    let mut finder = RecordFinder::new(&all);
    finder.segment(open(), &other).expect("it can be read");
    assert_eq!(finder.finish(), []);
    let seven = [(ID, LogIndex(7), 0)].into();
    assert!(may_have(&segment, &all) && !may_have(&segment, &seven));
}

#[test]
fn an_entry_that_was_not_moved_is_found_with_all_its_records() {
    let (disk, segments) = filled();
    let segment = &segments[0];
    let (_, first, last) = segment.entries[0];
    let wanted: BTreeSet<_> = [
        (ID, first, 0),
        (ID, first, 800),
        (ID, LogIndex(last.0 + 1), 0),
    ]
    .into();
    assert!(may_have(segment, &wanted));
    let found = found_in(&disk, std::slice::from_ref(segment), &wanted);
    assert_eq!(found, [(ID, first, 0), (ID, first, 800)].into());
}

fn push_entry(batch: &mut Batch, index: u64, data: &Bytes) {
    let record = Record::Entry {
        partition: ID,
        term: Term(1),
        index: LogIndex(index),
        data: data.clone(),
    };
    assert_eq!(batch.push(&record), Push::Taken);
}

/// Writes a batch, and what it has left for further ones.
fn write_all(log: &mut Log<MemDisk>, batch: &mut Batch) {
    while !batch.is_empty() {
        log.write(batch).expect("there is room");
        batch.clear();
    }
}

#[test]
fn m44_what_a_start_has_cut_is_not_found() {
    let disk = MemDisk::new();
    let mut log = open(&disk);
    write(&mut log, 1..=3);
    let before = log.held_segments().pop().expect("it is written");
    let mut batch = log.new_batch();
    for index in 4..=5 {
        push_entry(&mut batch, index, &Bytes::from(vec![index as u8; 1_000]));
        write_all(&mut log, &mut batch);
    }
    drop(log);
    // The fourth one is torn, and nobody says that it was synced: with it the fifth goes, which is whole.
    let name = before.segment.file_name();
    let file = disk.open(&name).expect("it is there");
    let found = SegmentInspector::new(file).expect("a segment");
    let batches: Vec<u64> = found
        .filter_map(|found| match found {
            Found::Batch(batch) => Some(batch.offset),
            Found::Record(_) | Found::Damage { .. } | Found::End { .. } => None,
        })
        .collect();
    disk.rot(&name, batches[batches.len() - 2] + 300, 1);
    let log = open_with(&disk, 2, 64 << 10);
    let segments = log.held_segments();
    let cut = segments.iter().find(|it| it.segment == before.segment);
    let cut = cut.expect("it has what is before the cut");
    assert_eq!(
        cut.last, before.last,
        "the fourth entry and the fifth are cut"
    );
    let wanted: BTreeSet<RecordAt> = (1..=5).map(|index| (ID, LogIndex(index), 0)).collect();
    let whole = wanted.iter().take(3).copied().collect();
    assert_eq!(found_in(&disk, &segments, &wanted), whole);
}

/// A cleaner has put records of very many entries into one segment, so that it is not known any more which they were (M41). Another
/// segment there is damaged; an entry in pieces, which nobody has moved, is not lost for that.
#[test]
fn m41_an_entry_in_pieces_is_not_missed_where_it_never_was() {
    const IN_PIECES: u64 = 1_001;
    let disk = MemDisk::new();
    let mut log = open_with(&disk, 1, 2 << 20);
    let mut batch = log.new_batch();
    push_entry(&mut batch, IN_PIECES, &Bytes::from(vec![3; 3 << 20]));
    write_all(&mut log, &mut batch);
    log.sync().expect("the disk is right");
    let pieces = log.held_segments();
    assert!(pieces.len() >= 2, "it lies in several segments");
    for index in (0..10_000).map(|at| 2 * at) {
        let record = Record::Kept {
            partition: ID,
            term: Term(1),
            index: LogIndex(index),
            byte: 0,
            data: Bytes::from_static(b"moved"),
        };
        if batch.push(&record) == Push::Full {
            write_all(&mut log, &mut batch);
            assert_eq!(batch.push(&record), Push::Taken);
        }
    }
    write_all(&mut log, &mut batch);
    log.sync().expect("the disk is right");
    let segments = log.held_segments();
    let at = (ID, LogIndex(IN_PIECES), 64);
    let wanted: BTreeSet<RecordAt> = [at].into();
    let mut misses = 0;
    for segment in &segments {
        let mut checks = KeptCheck::of(segment);
        let file = disk.open(&segment.segment.file_name());
        let file = file.expect("it is there");
        read_kept(file, segment, &mut checks).expect("it can be read");
        misses += checks.values().filter(|it| it.lacks(at.1, at.2)).count();
    }
    assert!(misses > 0, "one segment may have had it");
    assert_eq!(found_in(&disk, &segments, &wanted), wanted);
    // Without one of its pieces it is lost.
    for without in &pieces[..2] {
        let left: Vec<HeldSegment> = segments
            .iter()
            .filter(|it| it.segment != without.segment)
            .cloned()
            .collect();
        assert_eq!(found_in(&disk, &left, &wanted), BTreeSet::new());
    }
}
