//! The last batch of a segment, when those behind it are gone with segments that were used again: only later heads tell of it.

use courser_contract::{LogIndex, PartitionId, Term};
use courser_log::{
    BLOCK_BYTES, BatchPlace, DamageKind, LiveEntries, Log, Manifests, Push, ReadEntry, Record,
    Recovered, SegmentNumber, testing::MemDisk,
};

use super::recorded::{FRAME, HEADER, Recorded, data};
use crate::support::{CheckpointFolder, SEGMENT, checkpoint_at, config, entry_of, open, start};

/// Who writes on.
const LATER: u16 = 3;
/// Whose entries are needed all.
const NEEDED: u16 = 4;

/// A log whose first segment ends with entries of partitions 1 and 2 that are needed.
struct Ended {
    recorded: Recorded,
    /// The batch with them, and their index.
    end: BatchPlace,
    index: LogIndex,
}

/// Files are made ready, used again and removed.
fn prepare(log: &mut Log<MemDisk>) {
    while let Some(job) = log.prepare() {
        log.prepared(job.run()).expect("synced");
    }
}

impl Ended {
    /// Its last batch takes so many blocks, and is not synced.
    fn new(bytes: usize, blocks: u64) -> Self {
        let ended = Self::before(bytes, blocks, SEGMENT);
        let end = ended.end;
        assert_eq!(end.place.offset + end.bytes, SEGMENT);
        ended
    }

    /// Another batch lies behind that one: its place.
    fn followed() -> (Self, BatchPlace) {
        let block = BLOCK_BYTES as u64;
        let mut ended = Self::before(600, 1, SEGMENT - block);
        let last = ended.recorded.write_synced(&[LATER]);
        assert_eq!(last.place.segment, ended.end.place.segment);
        assert_eq!(last.place.offset + last.bytes, SEGMENT);
        (ended, last)
    }

    /// The batch ends there, and takes so many blocks.
    fn before(bytes: usize, blocks: u64, behind: u64) -> Self {
        let mut recorded = Recorded::new();
        let begin = behind - blocks * BLOCK_BYTES as u64;
        let before = begin - BLOCK_BYTES as u64;
        while recorded.write_synced(&[1, 2]).place.offset < before {}
        let end = recorded.write_of(&[1, 2], bytes);
        assert_eq!((end.place.offset, end.bytes), (begin, behind - begin));
        Self {
            index: LogIndex(recorded.last[&1]),
            recorded,
            end,
        }
    }

    /// Another partition writes until the segments behind were used again; of it nothing is needed.
    fn write_on(&mut self) {
        let recorded = &mut self.recorded;
        let recycled = recorded.log.counts().recycled;
        while recorded.log.counts().recycled < recycled + 4 {
            recorded.write_synced(&[LATER]);
            let at = checkpoint_at(recorded.last[&LATER], 1);
            let log = &mut recorded.log;
            log.set_checkpoint(PartitionId(LATER), at, LiveEntries::NONE);
            prepare(log);
        }
        let next = SegmentNumber(self.end.place.segment.0 + 1);
        let names = recorded.disk.names();
        assert!(!names.contains(&next.file_name()), "it was used again");
    }

    /// Says of its segment that all that is needed was moved; not synced.
    fn call_cleaned(&mut self) {
        let recorded = &mut self.recorded;
        recorded.batch.clear();
        let segment = self.end.place.segment;
        let record = Record::Cleaned { segment };
        assert_eq!(recorded.batch.push(&record), Push::Taken);
        recorded.log.write(&mut recorded.batch).expect("written");
    }

    /// Those of checkpoints of all.
    fn manifests(&self) -> Manifests {
        let folder = CheckpointFolder::default();
        let take = |id, index: LogIndex, live| {
            let at = checkpoint_at(index.0, 1);
            folder.take(PartitionId(id), at, live, self.recorded.log.synced());
        };
        let live: LiveEntries = [self.index].into_iter().collect();
        for id in [1, 2] {
            take(id, self.index, live.clone());
        }
        let last = self.recorded.last.get(&LATER).copied().unwrap_or(0);
        if last > 0 {
            take(LATER, LogIndex(last), LiveEntries::NONE);
        }
        folder.manifests()
    }

    /// All is read.
    fn start(&mut self, counter: u32) -> Recovered {
        let disk = self.recorded.disk.kill();
        let mut config = config();
        config.reads_all = true;
        let opened = Log::open(disk.clone(), config, start(counter), &self.manifests());
        let (mut log, recovered) = opened.expect("opens");
        log.check();
        self.recorded.batch = log.new_batch();
        (self.recorded.log, self.recorded.disk) = (log, disk);
        recovered
    }

    /// What is there of an entry of the last batch.
    fn read(&self, partition: u16) -> Option<ReadEntry> {
        let mut reader = self.recorded.log.reader(PartitionId(partition));
        reader.read(self.index).ok()
    }

    /// Every later start says that of this batch one record is left, and gives it.
    fn one_is_left(&mut self, counter: u32) {
        let found = self.start(counter);
        let damages = &found.report.damages;
        assert_eq!(damages.len(), 1, "{}", found.report);
        let kind = DamageKind::Rot {
            salvaged: 1,
            lost: Some(1),
        };
        assert_eq!(damages[0].kind, kind, "{}", found.report);
        assert_eq!(damages[0].place, self.end.place);
        let number = self.end.number;
        assert_eq!((damages[0].first, damages[0].last), (number, number));
        assert_eq!(self.read(1), None);
        let left = self.read(2).map(|it| it.data.to_vec());
        assert_eq!(left, Some(data(2, self.index.0, 600)), "{}", found.report);
    }
}

/// Once a newer start had written on and the batches between were gone, the header of the damaged one was taken for one that an earlier start had left: what was
/// whole beside the damaged record was lost as well.
#[test]
fn i1_what_is_left_of_the_last_batch_of_a_segment_stays_when_those_behind_it_are_gone() {
    for first in [2, 3] {
        let mut log = Ended::new(600, 1);
        log.recorded.log.sync().expect("synced");
        log.write_on();
        if first == 3 {
            // It was whole then.
            assert_eq!(log.start(2).report.damages, []);
        }
        log.recorded.rot(log.end, HEADER + FRAME + 10);
        for counter in first..first + 3 {
            log.one_is_left(counter);
            log.write_on();
        }
    }
}

/// Of the batch behind it nothing is left. Heads of the start that found this named that one without saying which batch is the last of which something
/// is left; and those of a newer start that had found both whole name another one.
#[test]
fn i1_what_is_left_of_the_last_but_one_stays_when_those_behind_it_are_gone() {
    for first in [2, 3] {
        let (mut log, last) = Ended::followed();
        log.write_on();
        if first == 3 {
            assert_eq!(log.start(2).report.damages, []);
            log.write_on();
        }
        log.recorded.rot(log.end, HEADER + FRAME + 10);
        log.recorded.rot(last, 20);
        for counter in first..first + 3 {
            let found = log.start(counter);
            let damages = found.report.damages.iter();
            let damages: Vec<_> = damages.map(|it| (it.place, it.first, it.last)).collect();
            let lost = (log.end.place, log.end.number, last.number);
            assert_eq!(damages, [lost], "{first}: {}", found.report);
            let left = log.read(2).map(|it| it.data.to_vec());
            let whole = data(2, log.index.0, 600);
            assert_eq!(left, Some(whole), "{first}: {}", found.report);
            log.write_on();
        }
    }
}

/// The next head was written while the segment was called cleaned, and does not name it. Since a start that found damage it counts again, and newer heads
/// do.
#[test]
fn m44_what_ended_a_segment_that_counts_again_is_asked_of_a_head_that_names_it() {
    for (is_left, has_head) in [(true, true), (true, false), (false, true)] {
        let mut log = Ended::new(600, 1);
        log.recorded.log.sync().expect("synced");
        log.write_on();
        assert_eq!(log.start(2).report.damages, []);
        log.write_on();
        let damaged = log.recorded.write_synced(&[LATER]);
        log.recorded.write_synced(&[LATER]);
        log.call_cleaned();
        // The next head does not name it, and something of that segment is needed.
        while log.recorded.write(&[LATER]).place.segment == damaged.place.segment {}
        log.recorded.write(&[NEEDED]);
        log.recorded.rot(damaged, 20);
        let found = log.start(3);
        assert_eq!(found.report.damages.len(), 1, "{}", found.report);
        // Until there is such a head the start itself has said it.
        if has_head {
            log.write_on();
            log.write_on();
        } else {
            prepare(&mut log.recorded.log);
        }
        let byte = if is_left { HEADER + FRAME + 10 } else { 20 };
        log.recorded.rot(log.end, byte);
        if is_left {
            for counter in 4..7 {
                log.one_is_left(counter);
                log.write_on();
            }
            continue;
        }
        let found = log.start(4);
        let damages = found.report.damages.iter();
        let damages: Vec<_> = damages.map(|it| (it.place, it.first, it.last)).collect();
        let (place, number) = (log.end.place, log.end.number);
        assert_eq!(damages, [(place, number, number)], "{}", found.report);
    }
}

/// The same batch with nothing left of it: no batch behind it is called lost, since they lay elsewhere.
#[test]
fn m44_batches_of_segments_that_were_used_again_are_not_lost_with_the_last_one_before() {
    let mut log = Ended::new(600, 1);
    log.recorded.log.sync().expect("synced");
    log.write_on();
    log.recorded.rot(log.end, 20);
    for counter in 2..5 {
        let found = log.start(counter);
        let damages = found.report.damages.iter();
        let damages: Vec<_> = damages.map(|it| (it.place, it.first, it.last)).collect();
        let (place, number) = (log.end.place, log.end.number);
        assert_eq!(damages, [(place, number, number)], "{}", found.report);
        log.write_on();
    }
}

/// A torn batch was cut and another one got its number and its place. Of that write nothing is left: what the torn one says was never acknowledged.
#[test]
fn i5_what_is_left_of_a_torn_batch_at_the_end_of_a_segment_stays_void() {
    let mut log = Ended::new(7_000, 4);
    let name = log.end.place.segment.file_name();
    let mut torn = log.recorded.disk.bytes(&name).expect("it is there");
    // The record of partition 1 is whole.
    torn[log.end.place.offset as usize + 8_192..].fill(0);
    log.recorded.disk.replace(&name, torn.clone());
    let disk = log.recorded.disk.kill();
    let (mut second, found) = open(&disk, 2, &Manifests::new()).expect("opens");
    assert!(found.report.cut.is_some(), "{}", found.report);
    let mut batch = second.new_batch();
    for id in [1, 2] {
        let record = entry_of(Term(2), id, log.index.0, &[0x55; 7_000]);
        assert_eq!(batch.push(&record), Push::Taken);
    }
    let again = second.write(&mut batch).expect("written");
    assert_eq!((again.number, again.place), (log.end.number, log.end.place));
    second.sync().expect("synced");
    log.recorded.batch = second.new_batch();
    (log.recorded.log, log.recorded.disk) = (second, disk);
    log.write_on();
    let whole = log.start(3);
    assert_eq!(whole.report.damages, [], "{}", whole.report);
    assert_eq!(log.read(1).map(|it| it.term), Some(Term(2)));

    log.recorded.disk.replace(&name, torn);
    let found = log.start(4);
    assert_eq!(found.report.damages.len(), 1, "{}", found.report);
    assert_eq!([1, 2].map(|id| log.read(id)), [None, None]);
}
