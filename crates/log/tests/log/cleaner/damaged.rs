//! What is left of a segment in which something is damaged stays where it is, and what was moved is not given up for it.

use std::ops::RangeInclusive;

use bytes::Bytes;
use courser_contract::{LogIndex, PartitionId, Term};
use courser_log::{
    BLOCK_BYTES, BatchPlace, CheckpointStore, Cleaner, Disk as _, LiveEntries, Log, Manifests,
    PartitionDamage, Place, Pressure, Push, Question, Record, SegmentNumber, Step,
    testing::MemDisk,
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

fn write_alone(log: &mut Log<MemDisk>, records: &[Record]) -> BatchPlace {
    let mut batch = log.new_batch();
    for record in records {
        assert_eq!(batch.push(record), Push::Taken);
    }
    let place = log.write(&mut batch).expect("written");
    log.sync().expect("synced");
    place
}

/// Files are made ready and used again behind it.
fn write(log: &mut Log<MemDisk>, records: &[Record]) -> BatchPlace {
    let place = write_alone(log, records);
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

/// Entries that are needed.
fn needed_entries(indexes: RangeInclusive<u64>) -> Vec<Record> {
    let all = indexes.map(|index| {
        let data = [&[7; BYTE as usize][..], &record(index)].concat();
        entry(NEEDED, index, &data)
    });
    all.collect()
}

/// The first two of them.
fn first_entries() -> Vec<Record> {
    needed_entries(1..=2)
}

/// What a cleaner writes of some of them.
fn kept_of(indexes: RangeInclusive<u64>) -> Vec<Record> {
    let all = indexes.map(|index| Record::Kept {
        partition: PartitionId(NEEDED),
        term: Term(1),
        index: LogIndex(index),
        byte: BYTE,
        data: Bytes::from(record(index)),
    });
    all.collect()
}

/// And of the first two.
fn kept() -> Vec<Record> {
    kept_of(1..=2)
}

/// A log of which two entries are needed. A cleaner has moved both into the last batch of a segment, which is given.
fn moved_to_the_end(
    disk: &MemDisk,
    store: &CheckpointStore<MemDisk>,
) -> (Log<MemDisk>, BatchPlace) {
    let (mut log, _) = open(disk, 1, &Manifests::new()).expect("an empty folder");
    let old = write(&mut log, &first_entries()).place.segment;
    let mut last = 0;
    let before_end = SEGMENT - 2 * BLOCK_BYTES as u64;
    loop {
        let place = fill(&mut log, &mut last);
        if place.segment > old && place.offset == before_end {
            break;
        }
    }
    let moved = write(&mut log, &kept());
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
fn clean(
    log: &mut Log<MemDisk>,
    mut cleaner: Cleaner<MemDisk, Rows>,
    pressure: Pressure,
) -> Vec<SegmentNumber> {
    let mut given_up = Vec::new();
    cleaner.earn(1 << 30, 0, pressure);
    loop {
        match cleaner.step() {
            Step::Rest => return given_up,
            Step::Again => {}
            Step::Ask(Question::Survey) => cleaner.surveyed(log.survey()),
            Step::Ask(Question::Source(segment)) => cleaner.sourced(log.source(segment)),
            Step::Ask(Question::Damaged(segment)) => {
                log.note_damaged(segment);
                cleaner.sourced(log.source(segment));
            }
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
    assert_eq!(clean(&mut log, cleaner, Pressure::Short), [segment]);
    let mut reader = log.reader(PartitionId(NEEDED));
    let batches = std::iter::from_fn(|| reader.next_kept());
    let kept: Vec<_> = batches.flatten().flatten().collect();
    let left: Vec<_> = kept.iter().map(|it| (it.index, &it.data[..])).collect();
    assert_eq!(left, [(LogIndex(2), &record(2)[..])]);
    log.check();
}

/// A log that has just called a segment cleaned, whose file is as it was.
struct Cleaned {
    disk: MemDisk,
    checkpoints: MemDisk,
    /// The segment.
    old: SegmentNumber,
    /// A batch in which nothing is needed, of a segment between.
    dead: Place,
    /// What was moved.
    moved: Place,
    /// The last entry in which nothing is needed.
    last: u64,
    /// The last segment.
    end: SegmentNumber,
}

/// Where the log ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    InSegment,
    /// The next batch finds no room in the last one.
    AtSegmentsEnd,
}

/// Whose entries are all needed.
const OTHER: u16 = 3;

impl Cleaned {
    fn new(end: End) -> Self {
        Self::behind(end, 0)
    }

    /// So many segments lie behind the one that was cleaned of which all is needed.
    fn behind(end: End, segments: usize) -> Self {
        let (disk, checkpoints) = (MemDisk::new(), MemDisk::new());
        let (store, _) = CheckpointStore::open(checkpoints.clone(), NODE).expect("an empty folder");
        let (mut log, _) = open(&disk, 1, &Manifests::new()).expect("an empty folder");
        let old = write(&mut log, &first_entries()).place.segment;
        let (mut last, mut from) = (0, old);
        let before = log.segments();
        for index in 1.. {
            if log.segments() >= before + segments {
                break;
            }
            from = write(&mut log, &[entry(OTHER, index, &[5; 15_000])])
                .place
                .segment;
        }
        let mut leave = |log: &mut _| loop {
            let place = fill(log, &mut last);
            if place.segment > from {
                from = place.segment;
                return place;
            }
        };
        let dead = leave(&mut log);
        leave(&mut log);
        let moved = write(&mut log, &kept()).place;
        leave(&mut log);
        // Nothing of either partition is in doubt for what is lost before.
        write(&mut log, &[entry(NEEDED, 3, &[7; 100])]);
        let mut place = fill(&mut log, &mut last);
        let block = BLOCK_BYTES as u64;
        while end == End::AtSegmentsEnd && place.offset < SEGMENT - 2 * block {
            place = fill(&mut log, &mut last);
        }
        checkpoint(&mut log, &store, NEEDED, &[1, 2], 2);
        checkpoint(&mut log, &store, DEAD, &[], last - 1);
        let end = write_alone(&mut log, &[Record::Cleaned { segment: old }]);
        let names = disk.names();
        assert!(names.contains(&old.file_name()), "it is not used again yet");
        Self {
            disk,
            checkpoints,
            old,
            dead,
            moved,
            last,
            end: end.place.segment,
        }
    }

    /// All is read. How much is damaged, and what can be read of the entries that are needed; then files are used again and removed.
    fn start(&self, counter: u32) -> (Log<MemDisk>, usize, Vec<LogIndex>) {
        self.start_with(counter, true)
    }

    fn start_with(&self, counter: u32, reads_all: bool) -> (Log<MemDisk>, usize, Vec<LogIndex>) {
        let checkpoints = self.checkpoints.kill();
        let (_, loaded) = CheckpointStore::open(checkpoints, NODE).expect("opens");
        let mut config = config();
        config.reads_all = reads_all;
        let opened = Log::open(self.disk.kill(), config, start(counter), &loaded.manifests);
        let (mut log, found) = opened.expect("opens");
        log.check();
        let mut reader = log.reader(PartitionId(NEEDED));
        let there = [1, 2].map(LogIndex).into_iter();
        let there = there.filter(|index| match reader.read(*index) {
            Ok(read) => read.data[BYTE as usize..] == record(index.0),
            Err(_) => false,
        });
        let there = there.collect();
        while let Some(job) = log.prepare() {
            log.prepared(job.run()).expect("synced");
        }
        (log, found.report.damages.len(), there)
    }

    fn rot(&self, place: Place) {
        let name = place.segment.file_name();
        // Its header: nothing of it is left.
        self.disk.rot(&name, place.offset + 20, 1);
    }

    /// No more room, and no file that is there for later.
    fn fill_disk(&self) {
        let active = self.end.file_name();
        let disk = self.disk.kill();
        for name in disk.names().into_iter().filter(|it| *it > active) {
            disk.remove(&name).expect("it is there");
        }
        disk.sync_dir().expect("synced");
        const MUCH: u64 = 1 << 40;
        disk.set_capacity(Some(MUCH));
        let used = MUCH - disk.free_bytes().expect("known");
        disk.set_capacity(Some(used));
    }

    fn is_there(&self, segment: SegmentNumber) -> bool {
        self.disk.names().contains(&segment.file_name())
    }
}

const BOTH: [LogIndex; 2] = [LogIndex(1), LogIndex(2)];

/// What was moved was damaged, so the segment that it came from was kept. The damaged one went, since nothing of what was left in it was needed; then
/// nothing was damaged any more, and the next start took the other one for cleaned as well.
#[test]
fn i1_a_segment_that_was_kept_for_what_is_damaged_is_kept_when_that_is_gone() {
    for end in [End::InSegment, End::AtSegmentsEnd] {
        let mut log = Cleaned::new(end);
        log.rot(log.moved);
        let (_, damages, there) = log.start(2);
        assert_eq!((damages, &there[..]), (1, &BOTH[..]), "{end:?}");
        assert!(!log.is_there(log.moved.segment), "nothing of it is needed");
        for counter in 3..5 {
            let (mut after, damages, there) = log.start(counter);
            assert_eq!((damages, &there[..]), (0, &BOTH[..]), "{end:?}");
            // Heads of further segments say the same.
            for _ in 0..40 {
                fill(&mut after, &mut log.last);
            }
        }
    }
}

/// Another segment was damaged. What a segment holds whole is not moved out of another one: so what was moved first went, and then the segment itself.
#[test]
fn i1_a_segment_that_was_kept_for_another_one_is_not_called_cleaned_again() {
    for end in [End::InSegment, End::AtSegmentsEnd] {
        let log = Cleaned::new(end);
        log.rot(log.dead);
        let (mut second, damages, there) = log.start(2);
        assert_eq!((damages, &there[..]), (1, &BOTH[..]), "{end:?}");
        assert!(!log.is_there(log.dead.segment), "nothing of it is needed");
        // As the cleaner ends with it, without a record moved.
        let segment = log.moved.segment;
        assert!(second.source(segment).is_some(), "it may be cleaned");
        write(&mut second, &[Record::Cleaned { segment }]);
        drop(second);
        let (mut third, damages, there) = log.start(3);
        assert_eq!((damages, &there[..]), (0, &BOTH[..]), "{end:?}");
        // Cleaned once more it is free.
        let cleaned = third.counts().cleaned;
        write(&mut third, &kept());
        write(&mut third, &[Record::Cleaned { segment: log.old }]);
        assert_eq!(third.counts().cleaned, cleaned + 1, "{end:?}");
    }
}

/// A segment was kept for another one, with what was moved out of it elsewhere. Then it rotted: the cleaner left it as it was, and gave up what was moved, since the
/// log had been told of nothing and took the segment for whole.
#[test]
fn i1_what_was_moved_is_kept_when_the_cleaner_finds_what_it_came_from_damaged() {
    let log = Cleaned::new(End::InSegment);
    log.rot(log.dead);
    let (_, damages, there) = log.start(2);
    assert_eq!((damages, &there[..]), (1, &BOTH[..]));
    let (store, loaded) = CheckpointStore::open(log.checkpoints.kill(), NODE).expect("opens");
    let disk = log.disk.kill();
    let opened = Log::open(disk.clone(), config(), start(3), &loaded.manifests);
    let (mut third, found) = opened.expect("opens");
    assert_eq!(found.report.damages, [], "{}", found.report);
    let name = log.old.file_name();
    let bytes = log.disk.bytes(&name).expect("it is there");
    let of_first = bytes.windows(302).position(|it| it == record(1));
    let at = of_first.expect("it is there") as u64;
    log.disk.rot(&name, at + 100, 1);

    let cleaner = Cleaner::new(disk, store, loaded.manifests, Rows, SEGMENT);
    // Where there is room it comes to the oldest segment first.
    assert_eq!(clean(&mut third, cleaner, Pressure::None), [log.old]);
    let mut last = log.last;
    while log.is_there(log.moved.segment) {
        fill(&mut third, &mut last);
    }
    drop(third);
    let (fourth, damages, there) = log.start(4);
    assert_eq!((damages, &there[..]), (1, &BOTH[1..]), "in their entries");
    let mut reader = fourth.reader(PartitionId(NEEDED));
    let batches = std::iter::from_fn(|| reader.next_kept());
    let kept: Vec<_> = batches.flatten().flatten().collect();
    let first = kept.iter().find(|it| it.index == LogIndex(1));
    assert_eq!(first.map(|it| &it.data[..]), Some(&record(1)[..]));
}

/// There was no room for the head that says so, and the start failed. What is free of use makes some, but for what is damaged: with that gone, the
/// next start would call the other one cleaned.
#[test]
fn d8_a_start_says_on_a_full_disk_which_segments_count_again() {
    let log = Cleaned::new(End::AtSegmentsEnd);
    log.rot(log.moved);
    log.fill_disk();
    for (counter, expected) in [(2, 1), (3, 0), (4, 0)] {
        let (_, damages, there) = log.start(counter);
        assert_eq!((damages, &there[..]), (expected, &BOTH[..]), "{counter}");
    }
    assert!(!log.is_there(log.moved.segment), "nothing of it is needed");
}

/// Heads name the newest segments, as many as fit one batch; of older ones those that count again.
#[test]
fn i1_a_segment_counts_again_however_many_others_are_newer() {
    let mut log = Cleaned::behind(End::AtSegmentsEnd, 410);
    log.rot(log.moved);
    for (counter, expected) in [(2, 1), (3, 0), (4, 0)] {
        let (mut after, damages, there) = log.start(counter);
        assert_eq!((damages, &there[..]), (expected, &BOTH[..]), "{counter}");
        for _ in 0..20 {
            fill(&mut after, &mut log.last);
        }
    }
    assert!(!log.is_there(log.moved.segment), "nothing of it is needed");
}

/// A start passed over the segments that called it cleaned; the heads that named it again lay in them, too, but for the last one, which was torn.
#[test]
fn i1_a_segment_counts_again_also_where_a_torn_head_is_all_that_is_read() {
    let mut log = Cleaned::new(End::InSegment);
    log.rot(log.moved);
    let (mut second, damages, there) = log.start(2);
    assert_eq!((damages, &there[..]), (1, &BOTH[..]));
    let from = log.last + 1;
    // What called it cleaned stays, and all that is written from now on.
    let needed = write(&mut second, &[entry(NEEDED, 4, &[7; 100])]).place;
    assert_eq!(needed.segment, log.end);
    let (block, mut full) = (BLOCK_BYTES as u64, 0);
    while full < 3 {
        let place = fill(&mut second, &mut log.last);
        full += usize::from(place.offset + block == SEGMENT);
    }
    let (store, _) = CheckpointStore::open(log.checkpoints.kill(), NODE).expect("opens");
    checkpoint(&mut second, &store, NEEDED, &[1, 2, 4], 4);
    let rest: Vec<u64> = (from..=log.last).collect();
    checkpoint(&mut second, &store, DEAD, &rest, log.last);
    let torn = fill(&mut second, &mut log.last).segment.file_name();
    let mut bytes = log.disk.bytes(&torn).expect("it is there");
    // What the header of its first batch says is whole.
    bytes[BLOCK_BYTES + 100..].fill(0);
    log.disk.replace(&torn, bytes);
    for counter in 3..5 {
        let (_, damages, there) = log.start_with(counter, false);
        assert_eq!((damages, &there[..]), (0, &BOTH[..]), "{counter}");
    }
}

/// The manifest of the last checkpoint is lost, and an older one needs what did not have to be moved for that.
#[test]
fn i1_a_segment_is_kept_when_a_manifest_is_older_than_the_log_says() {
    let (disk, checkpoints) = (MemDisk::new(), MemDisk::new());
    let (store, _) = CheckpointStore::open(checkpoints.clone(), NODE).expect("an empty folder");
    let (mut log, _) = open(&disk, 1, &Manifests::new()).expect("an empty folder");
    let old = write(&mut log, &first_entries()).place.segment;
    let mut last = 0;
    while fill(&mut log, &mut last).segment == old {}
    checkpoint(&mut log, &store, NEEDED, &[1, 2], 2);
    let older = checkpoints.fork();
    write(&mut log, &[entry(NEEDED, 3, &[7; 100])]);
    checkpoint(&mut log, &store, NEEDED, &[1], 3);
    // A head says so.
    for _ in 0..20 {
        fill(&mut log, &mut last);
    }
    write(&mut log, &kept()[..1]);
    write_alone(&mut log, &[Record::Cleaned { segment: old }]);
    drop(log);
    for counter in 2..4 {
        let (_, loaded) = CheckpointStore::open(older.kill(), NODE).expect("opens");
        let opened = Log::open(disk.kill(), config(), start(counter), &loaded.manifests);
        let (mut log, found) = opened.expect("opens");
        let damage = found.partitions[&PartitionId(NEEDED)].damage;
        let checkpoint = LogIndex(3);
        let expected = PartitionDamage::ManifestLost { checkpoint };
        assert_eq!(damage, Some(expected), "{counter}");
        let read = log.reader(PartitionId(NEEDED)).read(LogIndex(2));
        let read = read.map(|it| it.data[BYTE as usize..].to_vec());
        assert_eq!(read.ok(), Some(record(2)), "{counter}");
        while let Some(job) = log.prepare() {
            log.prepared(job.run()).expect("synced");
        }
    }
}

/// The manifest of the last checkpoint is lost, of which no head tells, and a segment that an older one needs is used again. Nothing is damaged; but the
/// older one needs something more of a segment out of which only what the last one needed was moved.
#[test]
fn i1_a_segment_is_kept_when_a_checkpoint_needs_an_entry_that_is_nowhere() {
    let (disk, checkpoints) = (MemDisk::new(), MemDisk::new());
    let (store, _) = CheckpointStore::open(checkpoints.clone(), NODE).expect("an empty folder");
    let (mut log, _) = open(&disk, 1, &Manifests::new()).expect("an empty folder");
    let (mut last, all) = (0, needed_entries(1..=3));
    let [gone, old] = [&all[..1], &all[1..]].map(|entries| {
        let segment = write(&mut log, entries).place.segment;
        loop {
            last += 1;
            let dead = [entry(DEAD, last, &[9; 100])];
            if write_alone(&mut log, &dead).place.segment > segment {
                return segment;
            }
        }
    });
    checkpoint(&mut log, &store, DEAD, &[], last);
    checkpoint(&mut log, &store, NEEDED, &[1, 2, 3], 3);
    let older = checkpoints.fork();
    write_alone(&mut log, &[entry(NEEDED, 4, &[7; 100])]);
    checkpoint(&mut log, &store, NEEDED, &[3], 4);
    // The next file was not made ready since the last segment began.
    while let Some(job) = log.prepare() {
        log.prepared(job.run()).expect("synced");
    }
    assert!(
        !disk.names().contains(&gone.file_name()),
        "it is used again"
    );
    write_alone(&mut log, &kept_of(3..=3));
    write_alone(&mut log, &[Record::Cleaned { segment: old }]);
    drop(log);
    for counter in 2..4 {
        let (_, loaded) = CheckpointStore::open(older.kill(), NODE).expect("opens");
        let opened = Log::open(disk.kill(), config(), start(counter), &loaded.manifests);
        let (mut log, found) = opened.expect("opens");
        assert_eq!(found.report.damages.len(), 0, "{}", found.report);
        let mut damages = found.partitions.values().map(|it| it.damage);
        assert!(damages.all(|damage| damage.is_none()), "{counter}");
        let needed = &found.partitions[&PartitionId(NEEDED)];
        let missing: Vec<_> = needed.missing_live.ranges().collect();
        assert_eq!(missing, [(LogIndex(1), LogIndex(1))], "{counter}");
        let read = log.reader(PartitionId(NEEDED)).read(LogIndex(2));
        let read = read.map(|it| it.data[BYTE as usize..].to_vec());
        assert_eq!(read.ok(), Some(record(2)), "{counter}");
        // What is free is used again.
        for _ in 0..40 {
            fill(&mut log, &mut last);
        }
    }
}
