//! Segments that a start need not read (M44): what it knows of them by their summaries is what it would have read, and what is damaged of
//! them is never delivered.

use std::io::ErrorKind;

use crate::support::{
    NODE, checkpoint_at, config, entry, open, start, state_of, unread::without_summaries,
};
use courser_contract::{LogIndex, PartitionId};
use courser_log::{
    CheckpointStore, Disk as _, LiveEntries, Log, Manifests, ReadError, ReadSoFar, Recovered,
    SegmentNumber,
    inspect::check_segment,
    testing::{Call, MemDisk},
};

const PARTITIONS: [u16; 2] = [1, 2];
/// Behind the frame of an entry.
const IN_ENTRY: u64 = 88 + 16 + 40;

/// A log of seven segments. Of two partitions all that lies in the first four is below a checkpoint, and every third entry of that is
/// still needed.
struct Old {
    disk: MemDisk,
    manifests: Manifests,
    /// The first byte of the second batch of each segment, behind the head.
    second: Vec<(SegmentNumber, u64)>,
}

impl Old {
    fn new() -> Self {
        let (disk, checkpoints) = (MemDisk::new(), MemDisk::new());
        let (store, _) = CheckpointStore::open(checkpoints.clone(), NODE).expect("an empty folder");
        let (mut log, _) = open(&disk, 1, &Manifests::new()).expect("an empty folder");
        let mut second: Vec<(SegmentNumber, u64)> = Vec::new();
        let mut last = 0;
        while log.segments() < 7 {
            last += 1;
            let before = log.segments();
            write_next(&mut log, last, &mut second);
            if before == 4 && log.segments() == 5 {
                for id in PARTITIONS {
                    checkpoint(&store, &mut log, id, last);
                }
            }
        }
        let (_, loaded) = CheckpointStore::open(checkpoints, NODE).expect("opens");
        Self {
            disk: disk.kill(),
            manifests: loaded.manifests,
            second,
        }
    }

    fn open(&self, counter: u32) -> (Log<MemDisk>, Recovered) {
        open(&self.disk.kill(), counter, &self.manifests).expect("opens")
    }

    /// Flips a bit of an entry in a segment, counted from the first.
    fn rot(&self, segment: usize) -> SegmentNumber {
        let (number, offset) = self.second[segment];
        self.disk.rot(&number.file_name(), offset + IN_ENTRY, 1);
        number
    }
}

/// The next entry of each partition, synced; and whatever is to be done behind it.
fn write_next(log: &mut Log<MemDisk>, index: u64, second: &mut Vec<(SegmentNumber, u64)>) {
    let mut batch = log.new_batch();
    let records = PARTITIONS.map(|id| entry(id, index, &[index as u8; 2_000]));
    for record in &records {
        assert_eq!(batch.push(record), courser_log::Push::Taken);
    }
    let place = log.write(&mut batch).expect("written").place;
    if second.last().is_none_or(|(of, _)| *of != place.segment) {
        second.push((place.segment, place.offset));
    }
    log.sync().expect("synced");
    while let Some(job) = log.prepare() {
        log.prepared(job.run()).expect("synced");
    }
}

fn checkpoint(store: &CheckpointStore<MemDisk>, log: &mut Log<MemDisk>, id: u16, index: u64) {
    let live = (1..=index).step_by(3).map(LogIndex).collect();
    checkpoint_with(store, log, (id, index), live);
}

/// One that needs these entries.
fn checkpoint_with(
    store: &CheckpointStore<MemDisk>,
    log: &mut Log<MemDisk>,
    (id, index): (u16, u64),
    live: LiveEntries,
) {
    let (id, at) = (PartitionId(id), checkpoint_at(index, 1));
    let mut writer = store.writer(id, at).expect("created");
    writer.piece(b"state").expect("written");
    writer.finish(live.clone(), log.synced()).expect("finished");
    log.set_checkpoint(id, at, live);
}

#[test]
fn m44_of_what_lies_below_all_checkpoints_a_start_reads_nothing_and_finds_the_same() {
    let old = Old::new();
    let whole = without_summaries(&old.disk);
    let (all, found_all) = open(&whole, 2, &old.manifests).expect("opens");
    let (log, found) = old.open(2);
    assert_eq!(found_all.report.passed_segments, 0);
    assert_eq!(found.report.passed_segments, 4, "{}", found.report);
    assert_eq!(
        (&found.report.damages[..], found.report.cut),
        (&[][..], None)
    );
    assert!(found.report.bytes + found.report.passed_bytes == found_all.report.bytes);
    assert!(state_of(&log, &found) == state_of(&all, &found_all));
    assert_eq!(log.held_segments(), all.held_segments());
}

#[test]
fn a_start_says_how_many_segments_it_has_come_through() {
    let old = Old::new();
    // Those that are passed over count like those that are read. Two more are ready for what comes.
    let of = old.second.len() as u64 + 2;
    let counted = |disk: MemDisk| {
        let mut counted = Vec::new();
        let mut watch = |read: ReadSoFar| {
            assert_eq!(read.of, of);
            counted.push(read.segments);
        };
        let opened = Log::open_watched(disk, config(), start(2), &old.manifests, &mut watch);
        opened.expect("opens");
        counted
    };
    let once: Vec<u64> = (0..old.second.len() as u64).collect();
    assert_eq!(counted(old.disk.kill()), once);
    // What is damaged has all of it read from the beginning.
    old.rot(5);
    let twice = counted(old.disk.kill());
    assert_eq!(twice.iter().filter(|segments| **segments == 0).count(), 2);
}

/// An entry may begin with one piece at the very end of a segment: the one behind it is read for its end, and no other one for its sake.
#[test]
fn m44_an_entry_in_pieces_across_a_boundary_makes_no_start_read_more_than_it_lies_in() {
    let (disk, checkpoints) = (MemDisk::new(), MemDisk::new());
    let (store, _) = CheckpointStore::open(checkpoints.clone(), NODE).expect("an empty folder");
    let (mut log, _) = open(&disk, 1, &Manifests::new()).expect("an empty folder");
    let lens = [24_000; 24].iter().chain(&[36_000; 6]).chain(&[24_000; 10]);
    let mut last = 0;
    for (index, len) in (1..).zip(lens) {
        let mut batch = log.new_batch();
        let pushed = batch.push(&entry(1, index, &vec![index as u8; *len]));
        assert_eq!(pushed, courser_log::Push::Taken);
        while !batch.is_empty() {
            log.write(&mut batch).expect("written");
            batch.clear();
        }
        log.sync().expect("synced");
        while let Some(job) = log.prepare() {
            log.prepared(job.run()).expect("synced");
        }
        last = index;
    }
    let (id, at) = (PartitionId(1), checkpoint_at(last, 1));
    let mut live = LiveEntries::NONE;
    live.push_range(LogIndex(1), LogIndex(last));
    let mut writer = store.writer(id, at).expect("created");
    writer.piece(b"state").expect("written");
    writer.finish(live.clone(), log.synced()).expect("finished");
    log.set_checkpoint(id, at, live);
    let segments = log.segments() as u64;
    let (_, loaded) = CheckpointStore::open(checkpoints, NODE).expect("opens");
    let disk = disk.kill();
    let (all, found_all) = open(&without_summaries(&disk), 2, &loaded.manifests).expect("it opens");
    let (log, found) = open(&disk, 2, &loaded.manifests).expect("it opens");
    assert_eq!(found.report.damages, []);
    assert!(state_of(&log, &found) == state_of(&all, &found_all));
    let names = disk.names();
    let lacks = |segment: &u64| !names.contains(&SegmentNumber(*segment).summary_name());
    // Those without a summary go on in the next one, but for the last.
    let without: Vec<u64> = (1..segments).filter(lacks).collect();
    assert!(without.len() >= 2, "{without:?} of {segments}");
    let behind = without.iter().map(|it| it + 1).filter(|it| !lacks(it));
    let read = without.len() + behind.count() + usize::from(lacks(&segments));
    assert_eq!(found.report.passed_segments, segments - read as u64);
}

/// As many reads as the newer segments need, and some for each summary.
#[test]
fn m44_the_disk_is_not_asked_for_what_is_passed_over() {
    let old = Old::new();
    for number in 0..4 {
        let (segment, offset) = old.second[number];
        // Behind the head, before the last batch.
        let (from, to) = (offset, offset + 20_000);
        old.disk.make_unreadable(&segment.file_name(), from, to);
    }
    let (_, found) = old.open(2);
    assert_eq!(found.report.passed_segments, 4);
    assert_eq!(found.report.damages, []);
}

/// The next entry of the same batch was taken for lost, too, where nothing of its partition lay behind that.
#[test]
fn i1_an_entry_beside_one_that_is_damaged_is_read() {
    let (disk, checkpoints) = (MemDisk::new(), MemDisk::new());
    let (store, _) = CheckpointStore::open(checkpoints.clone(), NODE).expect("an empty folder");
    let (mut log, _) = open(&disk, 1, &Manifests::new()).expect("an empty folder");
    let mut batch = log.new_batch();
    for index in 1..=3 {
        let pushed = batch.push(&entry(1, index, &[index as u8; 500]));
        assert_eq!(pushed, courser_log::Push::Taken);
    }
    let place = log.write(&mut batch).expect("written").place;
    let mut last = 0;
    while log.segments() < 3 {
        last += 1;
        let mut batch = log.new_batch();
        let pushed = batch.push(&entry(2, last, &[7; 2_000]));
        assert_eq!(pushed, courser_log::Push::Taken);
        log.write(&mut batch).expect("written");
        log.sync().expect("synced");
        while let Some(job) = log.prepare() {
            log.prepared(job.run()).expect("synced");
        }
    }
    for (id, index) in [(1, 3), (2, last)] {
        let live = (1..=index).map(LogIndex).collect();
        checkpoint_with(&store, &mut log, (id, index), live);
    }
    let (_, loaded) = CheckpointStore::open(checkpoints, NODE).expect("opens");
    let name = place.segment.file_name();
    disk.rot(&name, place.offset + IN_ENTRY, 1);
    let (log, found) = open(&disk.kill(), 2, &loaded.manifests).expect("opens");
    assert!(found.report.passed_segments > 0 && found.report.damages.is_empty());
    let mut reader = log.reader(PartitionId(1));
    let damaged = |read: Result<_, _>| matches!(read, Err(ReadError::Damaged { .. }));
    assert!(damaged(reader.read(LogIndex(1))));
    for index in 2..=3 {
        let read = reader.read(LogIndex(index)).expect("it is whole");
        assert_eq!(read.data[..], [index as u8; 500]);
    }
    let mut reader = log.reader(PartitionId(1));
    let mut shared = reader.shared();
    let mut look = |index| {
        loop {
            if let Some(found) = reader.look(LogIndex(index), &mut shared).transpose() {
                return found;
            }
        }
    };
    assert!(damaged(look(1)));
    for index in 2..=3 {
        assert_eq!(
            look(index).expect("it is whole").data[..],
            [index as u8; 500]
        );
    }
}

#[test]
fn i5_damage_of_a_segment_that_was_passed_over_is_not_delivered_and_is_found_by_who_looks() {
    let old = Old::new();
    let segment = old.rot(0);
    let (log, found) = old.open(2);
    assert_eq!(found.report.damages, []);
    let mut damaged = 0;
    for id in PARTITIONS.map(PartitionId) {
        let mut reader = log.reader(id);
        for index in found.partitions[&id].live.iter() {
            match reader.read(index) {
                Ok(read) => assert!(read.data.iter().all(|byte| *byte == index.0 as u8)),
                Err(ReadError::Damaged { place, .. }) => {
                    assert_eq!(place.segment, segment);
                    damaged += 1;
                }
                Err(other) => panic!("{other}"),
            }
        }
    }
    assert_eq!(damaged, 1);
    // What a scrub does.
    let held = log.held_segments();
    let held = held.iter().find(|it| it.segment == segment);
    let file = old.disk.kill().open(&segment.file_name()).expect("opens");
    let check = check_segment(file, held.expect("it is needed")).expect("it is a segment");
    assert_eq!(check.damages.len(), 1);
    old.disk
        .kill()
        .remove(&segment.summary_name())
        .expect("removed");
    let (_, found) = old.open(3);
    assert_eq!(found.report.damages.len(), 1, "{}", found.report);
}

/// Also where it was found before the segment got one, and while one is being written.
#[test]
fn m44_a_segment_that_was_found_damaged_has_no_summary_any_more() {
    let (disk, mut second) = (MemDisk::new(), Vec::new());
    let (mut log, _) = open(&disk, 1, &Manifests::new()).expect("an empty folder");
    let mut last = 0;
    while log.segments() < 3 {
        last += 1;
        write_next(&mut log, last, &mut second);
    }
    let [first, other, newest] = [0, 1, 2].map(|at| second[at].0);
    let has = |segment: SegmentNumber| disk.names().contains(&segment.summary_name());
    assert!(has(first) && has(other));
    log.note_damaged(first);
    let job = log.prepare().expect("it is to go");
    log.prepared(job.run()).expect("synced");
    assert!(!has(first) && has(other));
    let lost = disk.power_loss_with(|_| 0, |_| courser_log::testing::Survival::Gone);
    assert!(!lost.names().contains(&first.summary_name()), "for good");
    let mut log = Log::open(lost.clone(), config(), start(2), &Manifests::new())
        .map(|(log, _)| log)
        .expect("it opens");
    while log.segments() < 4 {
        last += 1;
        let mut batch = log.new_batch();
        for id in PARTITIONS {
            let pushed = batch.push(&entry(id, last, &[0; 2_000]));
            assert_eq!(pushed, courser_log::Push::Taken);
        }
        log.write(&mut batch).expect("written");
        log.sync().expect("synced");
    }
    let has = |segment: SegmentNumber| lost.names().contains(&segment.summary_name());
    assert!(
        !has(newest),
        "it is full, and its summary was not written yet"
    );
    log.note_damaged(newest);
    log.note_damaged(first);
    while let Some(job) = log.prepare() {
        log.prepared(job.run()).expect("synced");
    }
    assert!(!has(newest) && !has(first) && has(other));
}

/// What is said of damage does not depend on summaries.
#[test]
fn m44_a_start_that_finds_damage_reads_everything_and_so_does_the_next_one() {
    let old = Old::new();
    let damaged = [old.rot(1), old.rot(5)];
    for counter in 2..4 {
        let (log, found) = old.open(counter);
        assert_eq!(found.report.passed_segments, 0);
        let places = found.report.damages.iter();
        let places: Vec<SegmentNumber> = places.map(|damage| damage.place.segment).collect();
        assert_eq!(places, damaged, "{}", found.report);
        drop(log);
        let names = old.disk.names();
        for segment in damaged {
            assert!(!names.contains(&segment.summary_name()), "{names:?}");
        }
    }
}

#[test]
fn m44_who_wants_everything_read_gets_it() {
    let old = Old::new();
    let segment = old.rot(2);
    let mut all = config();
    all.reads_all = true;
    let (_, found) = Log::open(old.disk.kill(), all, start(2), &old.manifests).expect("it opens");
    assert_eq!(found.report.passed_segments, 0);
    assert_eq!(found.report.damages[0].place.segment, segment);
}

#[test]
fn d9_a_summary_that_is_not_what_was_written_is_not_believed() {
    let old = Old::new();
    let expected = {
        let whole = without_summaries(&old.disk);
        let (log, found) = open(&whole, 2, &old.manifests).expect("opens");
        state_of(&log, &found)
    };
    let name = old.second[1].0.summary_name();
    let bytes = old.disk.bytes(&name).expect("it is there").len() as u64;
    for at in 0..bytes {
        let disk = old.disk.fork().kill();
        disk.rot(&name, at, 1 << (at % 8));
        let (log, found) = open(&disk, 2, &old.manifests).expect("opens");
        assert_eq!(found.report.passed_segments, 3, "byte {at}");
        assert_eq!(found.report.damages, []);
        assert!(state_of(&log, &found) == expected, "byte {at}");
    }
    for len in [0, 8, bytes - 1] {
        let disk = old.disk.fork().kill();
        disk.truncate(&name, len);
        let (_, found) = open(&disk, 2, &old.manifests).expect("opens");
        assert_eq!(found.report.passed_segments, 3, "{len} bytes");
    }
}

/// Whichever program has written it: nothing depends on it, so nobody is refused, and there is one of this version afterwards.
#[test]
fn a_summary_of_a_version_that_is_not_known_is_not_believed_and_made_anew() {
    let old = Old::new();
    let disk = old.disk.kill();
    let name = old.second[1].0.summary_name();
    let mut bytes = old.disk.bytes(&name).expect("it is there");
    let end = bytes.len() - 4;
    bytes[8] = 99;
    let sum = crc32c::crc32c(&bytes[..end]);
    bytes[end..].copy_from_slice(&sum.to_le_bytes());
    disk.replace(&name, bytes);
    let (mut log, found) = open(&disk, 2, &old.manifests).expect("opens");
    assert_eq!(found.report.passed_segments, 3);
    assert_eq!(found.report.damages, []);
    while let Some(job) = log.prepare() {
        log.prepared(job.run()).expect("synced");
    }
    drop(log);
    let (_, found) = open(&disk.kill(), 3, &old.manifests).expect("opens");
    assert_eq!(found.report.passed_segments, 4);
}

/// Such as one that a crash has left of a segment whose end was cut and written again.
#[test]
fn d10_a_summary_of_another_state_of_its_segment_is_not_believed_and_made_anew() {
    let old = Old::new();
    let [first, second] = [0, 1].map(|at| old.second[at].0);
    let stale = old.disk.kill();
    stale.remove(&second.summary_name()).expect("removed");
    // One that is whole, of another segment.
    stale
        .rename(&first.summary_name(), &second.summary_name())
        .expect("renamed");
    let (mut log, found) = open(&stale, 2, &old.manifests).expect("opens");
    assert_eq!(found.report.passed_segments, 2);
    assert_eq!(found.report.damages, []);
    while let Some(job) = log.prepare() {
        log.prepared(job.run()).expect("synced");
    }
    drop(log);
    let (_, found) = open(&stale.kill(), 3, &old.manifests).expect("opens");
    assert_eq!(found.report.passed_segments, 4);
}

/// It is no more than what the segment says.
#[test]
fn d6_a_summary_that_cannot_be_written_is_no_failure() {
    let (disk, mut second) = (MemDisk::new(), Vec::new());
    let (mut log, _) = open(&disk, 1, &Manifests::new()).expect("an empty folder");
    for index in 1.. {
        write_next(&mut log, index, &mut second);
        if log.segments() == 2 {
            break;
        }
    }
    let summary = second[0].0.summary_name();
    assert!(disk.names().contains(&summary));
    let mut index = second.len() as u64 + 100;
    let last = log.last_batch();
    while log.segments() == 2 {
        index += 1;
        let mut batch = log.new_batch();
        assert_eq!(
            batch.push(&entry(3, index, &[0; 2_000])),
            courser_log::Push::Taken
        );
        log.write(&mut batch).expect("written");
        log.sync().expect("synced");
    }
    assert!(log.last_batch() > last);
    // The job makes a segment and writes a summary: whichever write of it fails.
    let job = log.prepare().expect("a segment was begun");
    disk.fail(Call::Create, 1, 1, ErrorKind::StorageFull);
    log.prepared(job.run()).expect("synced");
    disk.forget_faults();
    log.sync().expect("nothing has failed");
}

#[test]
fn i9_a_summary_goes_with_its_segment() {
    let old = Old::new();
    let (mut log, found) = old.open(2);
    let last = found.partitions[&PartitionId(1)].entries.last();
    let mut last = last.expect("it has some").index.0;
    for id in PARTITIONS {
        log.set_checkpoint(PartitionId(id), checkpoint_at(last, 1), LiveEntries::NONE);
    }
    for _ in 0..200 {
        last += 1;
        write_next(&mut log, last, &mut Vec::new());
        for id in PARTITIONS {
            log.set_checkpoint(PartitionId(id), checkpoint_at(last, 1), LiveEntries::NONE);
        }
    }
    assert!(log.counts().recycled > 2);
    let names = old.disk.names();
    for name in names.iter().filter(|name| name.ends_with(".sum")) {
        let segment = name.replace(".sum", ".seg");
        assert!(names.contains(&segment), "{name} of nothing in {names:?}");
    }
}
