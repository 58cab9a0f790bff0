//! Torn or rotten (M44): one test for each row of the table in `docs/log-format.md`.

mod support;

use std::{collections::BTreeMap, io::ErrorKind};

use courser_contract::{LogIndex, PartitionId, Term};
use courser_log::{
    Batch, BatchPlace, DamageKind, Log, LogConfig, Manifests, OpenError, PartitionDamage, Push,
    Record, Recovered, WriteError,
    testing::{Call, MemDisk, Survival},
};
use support::{NODE, SEGMENT, entry, entry_of, open, start};

/// A log with batches of which each holds the next entry of one partition.
struct Recorded {
    disk: MemDisk,
    log: Log<MemDisk>,
    batch: Batch,
    places: Vec<BatchPlace>,
    last: BTreeMap<u16, u64>,
    /// Of the entries that come.
    term: Term,
}

impl Recorded {
    fn new() -> Self {
        Self::on(MemDisk::new(), 1)
    }

    fn on(disk: MemDisk, counter: u32) -> Self {
        let (mut log, recovered) = open(&disk, counter, &Manifests::new()).expect("opens");
        let last = recovered
            .partitions
            .iter()
            .map(|(id, found)| (id.0, found.entries.last().map_or(0, |entry| entry.index.0)))
            .collect();
        let batch = log.new_batch();
        Self {
            disk,
            log,
            batch,
            places: Vec::new(),
            last,
            term: Term(1),
        }
    }

    /// One batch, with the next entry of each of these partitions.
    fn write(&mut self, partitions: &[u16]) -> BatchPlace {
        self.write_of(partitions, 600)
    }

    fn write_of(&mut self, partitions: &[u16], bytes: usize) -> BatchPlace {
        self.batch.clear();
        for id in partitions {
            let last = self.last.entry(*id).or_insert(0);
            *last += 1;
            let data = data(*id, *last, bytes);
            let record = entry_of(self.term, *id, *last, &data);
            assert_eq!(self.batch.push(&record), Push::Taken);
        }
        let place = self.log.write(&mut self.batch).expect("written");
        self.places.push(place);
        place
    }

    fn write_synced(&mut self, partitions: &[u16]) -> BatchPlace {
        let place = self.write(partitions);
        self.log.sync().expect("synced");
        place
    }

    /// Entries of partition 1, each synced, until one is refused: why. It is in the batch, and counts as the last.
    fn fill(&mut self, mut look: impl FnMut(&Log<MemDisk>)) -> WriteError {
        loop {
            if let Some(job) = self.log.prepare() {
                self.log.prepared(job.run()).expect("synced");
            }
            if let Err(error) = self.write_next() {
                return error;
            }
            self.log.sync().expect("synced");
            look(&self.log);
        }
    }

    /// One batch, with the next entry of partition 1, if it is taken.
    fn write_next(&mut self) -> Result<BatchPlace, WriteError> {
        let next = self.last.entry(1).or_insert(0);
        *next += 1;
        let record = entry(1, *next, &data(1, *next, 3_000));
        self.batch.clear();
        assert_eq!(self.batch.push(&record), Push::Taken);
        self.log.write(&mut self.batch)
    }

    /// One batch, with a vote of partition 1 for node 1.
    fn write_vote(&mut self, term: u64) -> BatchPlace {
        self.batch.clear();
        let vote = Record::HardState {
            partition: PartitionId(1),
            term: Term(term),
            vote: 1,
            commit: LogIndex(0),
        };
        assert_eq!(self.batch.push(&vote), Push::Taken);
        let place = self.log.write(&mut self.batch).expect("written");
        self.log.sync().expect("synced");
        place
    }

    /// Flips a bit of a batch, counted from its beginning.
    fn rot(&self, place: BatchPlace, byte: u64) {
        let name = place.place.segment.file_name();
        self.disk.rot(&name, place.place.offset + byte, 0x10);
    }

    fn restart(&self, counter: u32) -> Recovered {
        let (log, recovered) = open(&self.disk.kill(), counter, &Manifests::new()).expect("opens");
        log.check();
        for (id, found) in &recovered.partitions {
            for (at, entry) in found.entries.iter().enumerate() {
                assert_eq!(entry.index, LogIndex(at as u64 + 1));
                let expected = data(id.0, entry.index.0, entry.data.len());
                assert!(entry.data == expected, "entry {:?} of {id:?}", entry.index);
            }
        }
        recovered
    }
}

fn data(partition: u16, index: u64, bytes: usize) -> Vec<u8> {
    let seed = u64::from(partition) << 32 | index;
    (0..bytes as u64)
        .map(|at| (seed.wrapping_mul(31).wrapping_add(at * 7) >> 1) as u8)
        .collect()
}

fn entries(recovered: &Recovered, partition: u16) -> usize {
    let found = recovered.partitions.get(&PartitionId(partition));
    found.map_or(0, |found| found.entries.len())
}

fn damage(recovered: &Recovered, partition: u16) -> Option<PartitionDamage> {
    recovered.damage(PartitionId(partition))
}

const HEADER: u64 = 88;
/// Before a small entry.
const FRAME: u64 = 16;
/// Before a vote.
const VOTE_FRAME: u64 = 32;

#[test]
fn m44_a_torn_last_batch_is_cut_and_counted() {
    let mut recorded = Recorded::new();
    recorded.write_synced(&[1]);
    let torn = recorded.write_of(&[1, 2], 3_000);
    // The first sector is there, with the header, and nothing else.
    recorded.disk = recorded.disk.power_loss_with(|all| all, |_| Survival::Gone);
    let mut header = vec![0; 512];
    header[..].copy_from_slice(&{
        let mut again = Recorded::new();
        again.write_synced(&[1]);
        let place = again.write_of(&[1, 2], 3_000);
        let bytes = again
            .disk
            .bytes(&place.place.segment.file_name())
            .expect("it is there");
        bytes[place.place.offset as usize..][..512].to_vec()
    });
    let name = torn.place.segment.file_name();
    let mut bytes = recorded.disk.bytes(&name).expect("it is there");
    bytes[torn.place.offset as usize..][..512].copy_from_slice(&header);
    recorded.disk.replace(&name, bytes);

    let recovered = recorded.restart(2);
    let cut = recovered.report.cut.expect("it is cut");
    assert_eq!(
        (cut.place, cut.batches, cut.bytes),
        (torn.place, 1, torn.bytes)
    );
    assert_eq!(recovered.report.damages, []);
    assert_eq!((entries(&recovered, 1), entries(&recovered, 2)), (1, 0));
}

#[test]
fn m44_nothing_at_the_end_is_no_cut() {
    let mut recorded = Recorded::new();
    recorded.write_synced(&[1]);
    let recovered = recorded.restart(2);
    assert_eq!(recovered.report.cut, None);
    assert_eq!(entries(&recovered, 1), 1);
}

#[test]
fn m44_a_bad_batch_that_a_later_one_calls_synced_is_rot_and_only_the_bad_record_is_lost() {
    let mut recorded = Recorded::new();
    recorded.write_synced(&[1, 2]);
    let bad = recorded.write_synced(&[1, 2, 3]);
    recorded.write_synced(&[1, 3]);
    // In the data of the second record.
    let record = (FRAME + 600).next_multiple_of(8);
    recorded.rot(bad, HEADER + record + FRAME + 100);
    let recovered = recorded.restart(2);
    let damages = &recovered.report.damages;
    assert_eq!(damages.len(), 1);
    assert_eq!(
        (damages[0].place, damages[0].first),
        (bad.place, bad.number)
    );
    let kind = DamageKind::Rot {
        salvaged: 2,
        lost: Some(1),
    };
    assert_eq!(damages[0].kind, kind);
    assert_eq!(recovered.report.cut, None);
    let found = [1, 2, 3].map(|id| (entries(&recovered, id), damage(&recovered, id)));
    let lost = PartitionDamage::InDoubt { after: LogIndex(1) };
    assert_eq!(found, [(3, None), (1, Some(lost)), (2, None)]);
}

/// Found by a flipped bit of a simulated disk: the entry that followed showed that none was missing, and a term that was led was
/// forgotten all the same (I6).
#[test]
fn i6_a_term_is_known_by_its_entries_when_its_vote_was_in_a_lost_batch() {
    for rots in [false, true] {
        let mut recorded = Recorded::new();
        recorded.write_vote(2);
        recorded.write_synced(&[1]);
        let vote = recorded.write_vote(3);
        recorded.term = Term(3);
        recorded.write_synced(&[1]);
        recorded.log.witness().expect("written");
        if rots {
            recorded.rot(vote, HEADER + VOTE_FRAME);
        }
        let recovered = recorded.restart(2);
        assert_eq!(
            (entries(&recovered, 1), damage(&recovered, 1)),
            (2, None),
            "no entry is missing"
        );
        let found = recovered.partitions[&PartitionId(1)].hard_state;
        // Nobody knows for whom it voted in term 3: nothing may be voted in it again.
        let expected = if rots { (Term(4), 0) } else { (Term(3), 1) };
        assert_eq!((found.term, found.vote), expected);
    }
}

#[test]
fn m44_a_lost_header_concerns_the_partitions_that_the_next_batch_names() {
    let mut recorded = Recorded::new();
    recorded.write_synced(&[1, 2, 3]);
    let bad = recorded.write_synced(&[2]);
    recorded.write_synced(&[1]);
    recorded.write_synced(&[3]);
    recorded.rot(bad, 20);
    let recovered = recorded.restart(2);
    let found = [1, 2, 3].map(|id| (entries(&recovered, id), damage(&recovered, id)));
    let lost = PartitionDamage::InDoubt { after: LogIndex(1) };
    assert_eq!(found, [(2, None), (1, Some(lost)), (2, None)]);
    let kind = DamageKind::Rot {
        salvaged: 0,
        lost: None,
    };
    assert_eq!(recovered.report.damages[0].kind, kind);
}

#[test]
fn m44_a_gap_before_a_later_entry_is_said_exactly_and_nothing_behind_it_is_delivered() {
    let mut recorded = Recorded::new();
    recorded.write_synced(&[1]);
    let first = recorded.write_synced(&[1]);
    let second = recorded.write_synced(&[1]);
    recorded.write_synced(&[1]);
    recorded.write_synced(&[1]);
    recorded.rot(first, 8);
    recorded.rot(second, 8);
    let recovered = recorded.restart(2);
    let lost = PartitionDamage::Missing {
        first: LogIndex(2),
        last: LogIndex(3),
    };
    assert_eq!(
        (entries(&recovered, 1), damage(&recovered, 1)),
        (1, Some(lost))
    );
    let damage = recovered.report.damages[0];
    assert_eq!((damage.first, damage.last), (first.number, second.number));
}

#[test]
fn m44_the_last_batch_is_rot_once_a_witness_calls_it_synced() {
    for witness in [false, true] {
        let mut recorded = Recorded::new();
        recorded.write_synced(&[1]);
        let last = recorded.write_synced(&[1]);
        if witness {
            assert!(recorded.log.witness().expect("written"));
            assert!(!recorded.log.witness().expect("one is enough"));
        }
        recorded.rot(last, HEADER + FRAME + 1);
        let recovered = recorded.restart(2);
        assert_eq!(entries(&recovered, 1), 1);
        assert_eq!(recovered.report.cut.is_some(), !witness);
        assert_eq!(recovered.report.damages.len(), usize::from(witness));
        assert_eq!(damage(&recovered, 1).is_some(), witness);
    }
}

/// A disk that lies: the last write was synced, and is not there. Where nothing was written behind it nothing knows of it, and the same when the
/// witness is lost with it (`docs/durability.md` says so).
#[test]
fn m44_a_lost_last_write_is_damage_once_a_witness_calls_it_synced() {
    for (witness, lost_with_it) in [(false, false), (true, true), (true, false)] {
        let mut recorded = Recorded::new();
        recorded.write_synced(&[1]);
        let last = recorded.write_synced(&[1]);
        let name = last.place.segment.file_name();
        if witness {
            assert!(recorded.log.witness().expect("written"));
        }
        recorded.disk.lose_write(&name, last.place.offset);
        if lost_with_it {
            let behind = last.place.offset + last.bytes;
            recorded.disk.lose_write(&name, behind);
        }
        let known = witness && !lost_with_it;
        let recovered = recorded.restart(2);
        assert_eq!(entries(&recovered, 1), 1);
        assert_eq!(recovered.report.cut, None);
        assert_eq!(recovered.report.damages.len(), usize::from(known));
        assert_eq!(damage(&recovered, 1).is_some(), known);
    }
}

#[test]
fn m44_a_batch_that_a_checkpoint_calls_synced_is_rot() {
    let mut recorded = Recorded::new();
    recorded.write_synced(&[1]);
    let last = recorded.write_synced(&[1]);
    let manifests = support::manifest(2, 1, recorded.log.synced());
    recorded.rot(last, HEADER + FRAME + 1);
    let (_, recovered) = open(&recorded.disk.kill(), 2, &manifests).expect("opens");
    assert_eq!(recovered.report.cut, None);
    assert_eq!(recovered.report.damages.len(), 1);
    let lost = PartitionDamage::InDoubt { after: LogIndex(2) };
    assert_eq!(damage(&recovered, 1), Some(lost));
}

#[test]
fn m44_evidence_is_found_in_the_next_segment() {
    let mut recorded = Recorded::new();
    let mut before = recorded.write_synced(&[1]);
    loop {
        let place = recorded.write_synced(&[1]);
        if place.place.segment > before.place.segment {
            break;
        }
        before = place;
    }
    // The last batch of the first segment, and its header with it.
    recorded.rot(before, 8);
    let recovered = recorded.restart(2);
    assert_eq!(recovered.report.cut, None);
    assert_eq!(recovered.report.damages[0].place, before.place);
    assert!(matches!(
        damage(&recovered, 1),
        Some(PartitionDamage::Missing { .. })
    ));
}

/// However many segments there are: at the end of each one the others are not looked through.
#[test]
fn a_start_reads_a_log_once() {
    const SEGMENTS: u64 = 12;
    let disk = MemDisk::new();
    let open = |disk: &MemDisk, counter| {
        // Two reads long.
        let config = LogConfig::new(NODE, 2 << 20).expect("a good size");
        Log::open(disk.clone(), config, start(counter), &Manifests::new())
    };
    let (mut log, _) = open(&disk, 1).expect("it opens");
    let mut batch = log.new_batch();
    let mut last = 0;
    while log.segments() < SEGMENTS as usize {
        last += 1;
        let record = entry_of(Term(1), 1, last, &data(1, last, 200_000));
        assert_eq!(batch.push(&record), Push::Taken);
        log.write(&mut batch).expect("written");
        log.sync().expect("synced");
        batch.clear();
        while let Some(job) = log.prepare() {
            log.prepared(job.run()).expect("synced");
        }
    }
    let disk = disk.kill();
    // More than the two for what lies across two reads, and for headers.
    disk.fail(Call::Read, 8 * SEGMENTS, u64::MAX, ErrorKind::Other);
    let (_, recovered) = open(&disk, 2).expect("it needs no more reads");
    assert_eq!(recovered.report.damages, []);
    assert_eq!(entries(&recovered, 1) as u64, last);
}

#[test]
fn m44_what_was_cut_stays_void_after_later_starts() {
    let mut recorded = Recorded::new();
    recorded.write_synced(&[1]);
    // Three writes without a sync: the first is lost, the others are intact.
    let lost = recorded.write(&[1]);
    recorded.write(&[1]);
    recorded.write(&[1]);
    let mut first = true;
    recorded.disk = recorded.disk.power_loss_with(
        |all| all,
        |_| {
            if std::mem::take(&mut first) {
                Survival::Gone
            } else {
                Survival::Whole
            }
        },
    );
    let cut = recorded.restart(2).report.cut.expect("it is cut");
    assert_eq!((cut.place, cut.batches), (lost.place, 2));
    // Nothing was written in between: the same once more.
    assert_eq!(recorded.restart(3).report.cut, Some(cut));
    let mut again = Recorded::on(recorded.disk.kill(), 4);
    assert_eq!(again.write(&[2]).place, lost.place);
    again.log.sync().expect("synced");
    // Behind it stand intact batches of the first start, with the very next number.
    let recovered = again.restart(5);
    assert_eq!(
        (recovered.report.cut, &recovered.report.damages[..]),
        (None, &[][..])
    );
    assert_eq!((entries(&recovered, 1), entries(&recovered, 2)), (1, 1));
}

#[test]
fn d10_blocks_of_a_recycled_segment_are_never_read_as_new() {
    let mut recorded = Recorded::new();
    for _ in 0..40 {
        recorded.write_synced(&[1]);
    }
    let stale = recorded.places[0].place.segment;
    let at = support::checkpoint_at(40, 1);
    recorded
        .log
        .set_checkpoint(PartitionId(1), at, Default::default());
    while let Some(job) = recorded.log.prepare() {
        recorded.log.prepared(job.run()).expect("synced");
    }
    assert!(recorded.log.counts().recycled > 0);
    let manifests = support::manifest(40, 1, recorded.log.synced());
    let mut before = recorded.places[0];
    for _ in 0..60 {
        let place = recorded.write_synced(&[1]);
        assert_ne!(place.place.segment, stale, "numbers are not used again");
        // A crash at every fill of the recycled segment.
        let (_, recovered) = open(&recorded.disk.fork().kill(), 2, &manifests).expect("opens");
        assert_eq!(recovered.report.damages, []);
        assert_eq!(recovered.report.cut, None);
        let found = &recovered.partitions[&PartitionId(1)].entries;
        assert_eq!(found.len() as u64, recorded.last[&1] - 40);
        assert_eq!(
            found.last().map(|entry| entry.index.0),
            Some(recorded.last[&1])
        );
        before = place;
    }
    assert!(before.place.segment > stale);
}

#[test]
fn d10_a_lost_write_under_which_an_older_batch_lies_is_told_by_the_next_one() {
    let mut recorded = Recorded::new();
    recorded.write_synced(&[1]);
    let old = recorded.write(&[1]);
    // The batch is there, but the process that finds it says it is cut: here the bytes are put back by hand.
    let name = old.place.segment.file_name();
    let older = recorded.disk.bytes(&name).expect("it is there");
    recorded.disk = recorded.disk.power_loss_with(|all| all, |_| Survival::Gone);
    let mut again = Recorded::on(recorded.disk.clone(), 2);
    let new = again.write_synced(&[2]);
    again.write_synced(&[3]);
    assert_eq!((new.place, new.number), (old.place, old.number));
    let mut bytes = again.disk.bytes(&name).expect("it is there");
    let range = old.place.offset as usize..(old.place.offset + old.bytes) as usize;
    bytes[range.clone()].copy_from_slice(&older[range]);
    again.disk.replace(&name, bytes);
    let recovered = again.restart(3);
    assert_eq!(recovered.report.damages[0].kind, DamageKind::Replaced);
    assert_eq!(
        entries(&recovered, 1),
        1,
        "what was never acknowledged stays away"
    );
    assert!(damage(&recovered, 2).is_some());
    assert_eq!(damage(&recovered, 3), None);
}

#[test]
fn d7_what_cannot_be_read_is_rot_when_it_was_synced_and_refused_when_nobody_knows() {
    let mut recorded = Recorded::new();
    recorded.write_synced(&[2]);
    let middle = recorded.write_synced(&[1]);
    let last = recorded.write_synced(&[2]);
    let name = last.place.segment.file_name();
    let fork = recorded.disk.fork();
    let (from, to) = (middle.place.offset, middle.place.offset + 4_095);
    fork.make_unreadable(&name, from, to);
    let (_, recovered) = open(&fork.kill(), 2, &Manifests::new()).expect("opens");
    assert_eq!(recovered.report.damages.len(), 1);
    assert!(damage(&recovered, 1).is_some());
    assert_eq!((entries(&recovered, 2), damage(&recovered, 2)), (2, None));

    let (from, to) = (last.place.offset, last.place.offset + 4_095);
    recorded.disk.make_unreadable(&name, from, to);
    let refused = open(&recorded.disk.kill(), 2, &Manifests::new());
    assert!(matches!(refused, Err(OpenError::Read { place, .. }) if place == last.place));
}

/// A start on a disk that does not give these bytes of a file: it is refused, and changes nothing.
fn refuses(recorded: &Recorded, name: &str, (first, last): (u64, u64)) {
    let disk = recorded.disk.fork().kill();
    disk.make_unreadable(name, first, last);
    match open(&disk, 2, &Manifests::new()) {
        Err(OpenError::Read { place, .. }) => assert_eq!(place.segment.file_name(), name),
        other => panic!(
            "{name}, {first} to {last}: {:?}",
            other.map(|it| it.1.report)
        ),
    }
    assert_eq!(disk.names(), recorded.disk.names());
    for name in disk.names() {
        assert!(disk.bytes(&name) == recorded.disk.bytes(&name), "{name}");
    }
}

/// A log whose newest segment holds one synced batch behind its head.
fn rolled() -> (Recorded, BatchPlace) {
    let mut recorded = Recorded::new();
    let mut last = recorded.write_synced(&[1]);
    while recorded.log.segments() < 3 {
        last = recorded.write_synced(&[1]);
    }
    (recorded, last)
}

#[test]
fn i1_a_newest_segment_that_cannot_be_read_is_neither_cut_nor_used_again() {
    let (recorded, last) = rolled();
    let name = last.place.segment.file_name();
    refuses(&recorded, &name, (0, SEGMENT - 1));
    refuses(&recorded, &name, (4_096, SEGMENT - 1));
    // All but its header is read: that is damage, and nothing is missing.
    recorded.disk.make_unreadable(&name, 0, 4_095);
    let recovered = recorded.restart(2);
    assert_eq!(recovered.report.damages[0].kind, DamageKind::SegmentHeader);
    assert_eq!(entries(&recovered, 1) as u64, recorded.last[&1]);
}

#[test]
fn i1_an_oldest_segment_that_cannot_be_read_is_not_used_again() {
    let (recorded, _) = rolled();
    let name = recorded.places[0].place.segment.file_name();
    refuses(&recorded, &name, (0, SEGMENT - 1));
    refuses(&recorded, &name, (4_096, SEGMENT - 1));
}

#[test]
fn i1_a_head_that_cannot_be_read_hides_no_batch_behind_it() {
    let (recorded, last) = rolled();
    let name = last.place.segment.file_name();
    refuses(&recorded, &name, (4_096, 8_191));
}

#[test]
fn i1_a_rotten_batch_is_not_cut_when_its_witness_cannot_be_read() {
    for byte in [8, HEADER + FRAME + 1] {
        let mut recorded = Recorded::new();
        recorded.write_synced(&[1]);
        let rotten = recorded.write_synced(&[1]);
        let witness = rotten.place.offset + rotten.bytes;
        assert!(recorded.log.witness().expect("written"));
        recorded.rot(rotten, byte);
        let name = rotten.place.segment.file_name();
        refuses(&recorded, &name, (witness, witness + 4_095));
    }
}

#[test]
fn i1_a_last_batch_whose_body_cannot_be_read_is_not_cut() {
    let mut recorded = Recorded::new();
    recorded.write_synced(&[1]);
    let last = recorded.write_of(&[1], 9_000);
    recorded.log.sync().expect("synced");
    let name = last.place.segment.file_name();
    let body = last.place.offset + 4_096;
    refuses(&recorded, &name, (body, body + 4_095));
}

/// A checkpoint says that the batch was synced, and a later one may stand where nothing can be read.
#[test]
fn i1_a_log_does_not_end_with_rot_before_what_cannot_be_read() {
    let mut recorded = Recorded::new();
    recorded.write_synced(&[1]);
    let rotten = recorded.write_synced(&[1]);
    let manifests = support::manifest(2, 1, recorded.log.synced());
    let later = recorded.write_synced(&[1]);
    recorded.rot(rotten, HEADER + FRAME + 1);
    let name = later.place.segment.file_name();
    let (from, to) = (later.place.offset, later.place.offset + 4_095);
    recorded.disk.make_unreadable(&name, from, to);
    let refused = open(&recorded.disk.kill(), 2, &manifests);
    assert!(matches!(refused, Err(OpenError::Read { place, .. }) if place == later.place));
}

#[test]
fn i1_what_is_not_to_be_had_for_the_moment_refuses_the_start_and_is_no_damage() {
    let mut recorded = Recorded::new();
    recorded.write_synced(&[1]);
    let rotten = recorded.write_synced(&[1]);
    recorded.write_synced(&[1]);
    recorded.rot(rotten, 8);
    // Whichever read it is that fails, also when it is tried again.
    let mut refused = 0;
    for nth in 0.. {
        let disk = recorded.disk.fork().kill();
        disk.fail(Call::Read, nth, 2, ErrorKind::OutOfMemory);
        let opened = open(&disk, 2, &Manifests::new());
        if disk.failed() == 0 {
            break;
        }
        match opened {
            Ok((_, recovered)) => {
                assert_eq!(recovered.report.damages.len(), 1, "{}", recovered.report);
                assert_eq!((entries(&recovered, 1), recovered.report.cut), (1, None));
            }
            Err(_) => refused += 1,
        }
    }
    assert!(refused > 0);
}

#[test]
fn d7_a_read_that_fails_once_is_no_damage() {
    let disk = MemDisk::new();
    let open = |disk: &MemDisk, counter| {
        let config = LogConfig::new(NODE, 8 << 20).expect("a good size");
        Log::open(disk.clone(), config, start(counter), &Manifests::new())
    };
    let (mut log, _) = open(&disk, 1).expect("it opens");
    let mut batch = log.new_batch();
    // Longer than what is read ahead.
    for index in 1..=2 {
        batch.clear();
        let record = entry_of(Term(1), 1, index, &data(1, index, 1_500_000));
        assert_eq!(batch.push(&record), Push::Taken);
        log.write(&mut batch).expect("written");
        log.witness().expect("written");
    }
    let mut opened_with_one = 0;
    for nth in 0.. {
        let disk = disk.fork().kill();
        disk.fail(Call::Read, nth, 1, ErrorKind::Other);
        let opened = open(&disk, 2);
        if disk.failed() == 0 {
            break;
        }
        // Neither the folder nor what is written once more is read twice.
        if let Ok((_, recovered)) = opened {
            assert_eq!(recovered.report.damages, []);
            assert_eq!(entries(&recovered, 1), 2);
            opened_with_one += 1;
        }
    }
    assert!(opened_with_one > 0);
}

#[test]
fn m44_the_end_of_a_segment_whose_successors_are_gone_is_known_from_later_heads() {
    let mut recorded = Recorded::new();
    // Partition 2 has its last entry at the end of the first segment, partition 1 fills some more.
    let mut before = recorded.write_synced(&[1]);
    while recorded.log.segments() == 1 {
        before = recorded.write_synced(&[2]);
    }
    let end = recorded.places[recorded.places.len() - 2];
    assert_eq!(end.place.segment.0 + 1, before.place.segment.0);
    while recorded.log.segments() < 4 {
        recorded.write_synced(&[1]);
    }
    // The second segment is recycled; the first has something live of partition 2.
    let at = support::checkpoint_at(recorded.last[&1], 1);
    recorded
        .log
        .set_checkpoint(PartitionId(1), at, Default::default());
    let manifests = support::manifest(recorded.last[&1], 1, recorded.log.synced());
    recorded.rot(end, 8);
    let (_, recovered) = open(&recorded.disk.kill(), 2, &manifests).expect("opens");
    let found = damage(&recovered, 2);
    assert!(found.is_some(), "{}", recovered.report);
}

#[test]
fn a_file_that_was_cut_short_is_damage_and_not_a_torn_end() {
    let mut recorded = Recorded::new();
    recorded.write_synced(&[1]);
    let last = recorded.write_synced(&[1]);
    let name = last.place.segment.file_name();
    recorded.disk.truncate(&name, last.place.offset + 100);
    let recovered = recorded.restart(2);
    assert_eq!(recovered.report.damages[0].kind, DamageKind::ShortFile);
    assert_eq!(entries(&recovered, 1), 1);
    assert!(damage(&recovered, 1).is_some());
}

#[test]
fn a_missing_segment_is_damage_when_it_is_needed() {
    let mut recorded = Recorded::new();
    while recorded.log.segments() < 4 {
        recorded.write_synced(&[1]);
    }
    let second = courser_log::SegmentNumber(recorded.places[0].place.segment.0 + 1);
    use courser_log::Disk as _;
    recorded.disk.remove(&second.file_name()).expect("removed");
    let recovered = recorded.restart(2);
    assert!(matches!(
        damage(&recovered, 1),
        Some(PartitionDamage::Missing { .. })
    ));
}

#[test]
fn a_damaged_segment_header_is_said_and_its_batches_are_read() {
    let mut recorded = Recorded::new();
    recorded.write_synced(&[1]);
    let place = recorded.write_synced(&[1]);
    recorded.disk.rot(&place.place.segment.file_name(), 9, 1);
    let recovered = recorded.restart(2);
    assert_eq!(recovered.report.damages[0].kind, DamageKind::SegmentHeader);
    assert_eq!((entries(&recovered, 1), damage(&recovered, 1)), (2, None));
    // Nothing more is written into it.
    let mut again = Recorded::on(recorded.disk.kill(), 3);
    assert!(again.write_synced(&[1]).place.segment > place.place.segment);
    assert_eq!(entries(&again.restart(4), 1), 3);
}

/// As [`open`], with segments of another size.
fn open_with(disk: &MemDisk, counter: u32, segment_bytes: u64) -> (Log<MemDisk>, Recovered) {
    let mut config = LogConfig::new(NODE, segment_bytes).expect("a good size");
    config.reserve_segments = 1;
    let opened = Log::open(disk.clone(), config, start(counter), &Manifests::new());
    opened.expect("opens")
}

#[test]
fn a_lost_header_of_a_segment_from_before_the_setting_was_changed_loses_nothing() {
    let mut recorded = Recorded::new();
    recorded.write_synced(&[1]);
    let place = recorded.write_synced(&[1]);
    while let Some(job) = recorded.log.prepare() {
        recorded.log.prepared(job.run()).expect("synced");
    }
    let name = place.place.segment.file_name();
    recorded.disk.rot(&name, 9, 1);
    let cut = recorded.disk.fork();
    let (_, recovered) = open_with(&recorded.disk.kill(), 2, 2 * SEGMENT);
    let kinds = recovered.report.damages.iter().map(|damage| damage.kind);
    assert_eq!(kinds.collect::<Vec<_>>(), [DamageKind::SegmentHeader]);
    assert_eq!((entries(&recovered, 1), damage(&recovered, 1)), (2, None));
    // Cut as well, nobody says that this was all.
    cut.truncate(&name, SEGMENT - 4_096);
    let (_, recovered) = open_with(&cut.kill(), 2, 2 * SEGMENT);
    assert_eq!(recovered.report.damages[0].kind, DamageKind::ShortFile);
}

#[test]
fn a_file_without_a_header_that_is_alone_is_short_when_no_segment_is_so_small() {
    let mut recorded = Recorded::new();
    let place = recorded.write_synced(&[1]);
    let name = place.place.segment.file_name();
    assert_eq!(recorded.disk.names(), [name.as_str()]);
    recorded.disk.truncate(&name, 0);
    let recovered = recorded.restart(2);
    assert_eq!(recovered.report.damages[0].kind, DamageKind::ShortFile);
}

#[test]
fn a_segment_of_another_size_is_left_once_one_is_ready() {
    let mut recorded = Recorded::new();
    let place = recorded.write_synced(&[1]).place;
    let (mut log, _) = open_with(&recorded.disk.kill(), 2, 2 * SEGMENT);
    recorded.batch = log.new_batch();
    recorded.log = log;
    assert_eq!(recorded.write_synced(&[1]).place.segment, place.segment);
    let job = recorded.log.prepare().expect("none is ready");
    recorded.log.prepared(job.run()).expect("synced");
    let left = recorded.write_synced(&[1]).place.segment;
    assert!(left > place.segment, "{left} after {}", place.segment);
    // Its end is known from the next head, so its size is not asked for.
    recorded.disk.rot(&place.segment.file_name(), 9, 1);
    let (_, recovered) = open_with(&recorded.disk.kill(), 3, 2 * SEGMENT);
    assert_eq!((entries(&recovered, 1), damage(&recovered, 1)), (3, None));
}

#[test]
fn a_log_of_a_later_start_another_node_or_another_version_is_refused() {
    let mut recorded = Recorded::new();
    let place = recorded.write_synced(&[1]);
    let disk = recorded.disk.kill();
    let same = open(&disk, 1, &Manifests::new());
    assert!(matches!(
        same,
        Err(OpenError::Start {
            found: 1,
            given: 1,
            ..
        })
    ));
    let mut config = support::config();
    config.node = courser_log::NodeIdentity(1);
    let other = Log::open(disk.clone(), config, start(2), &Manifests::new());
    assert!(matches!(other, Err(OpenError::Foreign { .. })));
    let name = place.place.segment.file_name();
    let mut bytes = disk.bytes(&name).expect("it is there");
    bytes[8] = 9;
    let crc = crc32c::crc32c(&bytes[..60]);
    bytes[60..64].copy_from_slice(&crc.to_le_bytes());
    disk.replace(&name, bytes);
    let error = open(&disk, 2, &Manifests::new()).expect_err("another version");
    assert!(matches!(error, OpenError::Version { version: 9, .. }));
    let text = error.to_string();
    assert!(
        text.contains("format version 9") && text.contains("reads versions 1 to 2"),
        "{text}"
    );
}

#[test]
fn d8_a_full_disk_refuses_to_roll_and_recovers_by_itself() {
    use courser_log::SpaceState;
    let mut recorded = Recorded::new();
    let segment = support::SEGMENT;
    // Room for the reserve of one segment, one ahead, and half of another.
    recorded.disk.set_capacity(Some(segment * 7 / 2));
    let mut low = false;
    let error = recorded.fill(|log| {
        low |= log.space().state == SpaceState::Low;
        log.check();
    });
    assert!(low, "it is said before it is too late");
    assert!(matches!(error, WriteError::NoSpace));
    assert_eq!(recorded.log.refresh_space().state, SpaceState::Low);
    recorded.disk.set_capacity(Some(segment * 8));
    assert_eq!(recorded.log.refresh_space().state, SpaceState::Enough);
    recorded
        .log
        .write(&mut recorded.batch)
        .expect("the same batch");
    recorded.log.sync().expect("synced");
    let recovered = recorded.restart(2);
    assert_eq!(entries(&recovered, 1) as u64, recorded.last[&1]);
}

#[test]
fn d8_segments_that_a_checkpoint_frees_end_the_shortage() {
    use courser_log::SpaceState;
    let mut recorded = Recorded::new();
    recorded.disk.set_capacity(Some(support::SEGMENT * 4));
    while recorded.log.refresh_space().state == SpaceState::Enough {
        recorded.write_synced(&[1]);
        if let Some(job) = recorded.log.prepare() {
            recorded.log.prepared(job.run()).expect("synced");
        }
    }
    let at = support::checkpoint_at(recorded.last[&1], 1);
    let freed = recorded
        .log
        .set_checkpoint(PartitionId(1), at, Default::default());
    assert!(freed > 0);
    assert_eq!(recorded.log.refresh_space().state, SpaceState::Enough);
}

/// A log that took the last block could not be saved, and nothing would ever be freed.
#[test]
fn d8_the_log_leaves_room_for_the_checkpoint_that_frees_it() {
    use courser_log::Disk as _;
    const LEFT: u64 = 100 << 10;
    let mut recorded = Recorded::new();
    recorded.disk.set_capacity(Some(support::SEGMENT * 6));
    recorded.log.leave_free(LEFT);
    let error = recorded.fill(|_| {});
    assert!(matches!(error, WriteError::NoSpace));
    let free = recorded.disk.free_bytes().expect("known");
    assert!(
        (LEFT..LEFT + support::SEGMENT).contains(&free),
        "{free} bytes"
    );
    // What was written without the last entry is saved.
    let at = support::checkpoint_at(recorded.last[&1] - 1, 1);
    let live = Default::default();
    assert!(recorded.log.set_checkpoint(PartitionId(1), at, live) > 0);
    let again = recorded.log.write(&mut recorded.batch);
    again.expect("the same batch has room in what was freed");
}

/// Files of segments.
fn segments(disk: &MemDisk) -> usize {
    let names = disk.names();
    names.iter().filter(|name| name.ends_with(".seg")).count()
}

/// Files that hold nothing and are not ready: all but the segments that are counted.
fn spare(log: &Log<MemDisk>, disk: &MemDisk) -> usize {
    let ready = support::config().ahead_segments + support::config().reserve_segments;
    segments(disk) - log.segments() - ready as usize
}

fn prepare_all(log: &mut Log<MemDisk>) {
    while let Some(job) = log.prepare() {
        log.prepared(job.run()).expect("synced");
    }
}

/// `docs/operations/disk.md`: at most `spare_segments`, also where nobody writes any more.
#[test]
fn i9_segments_that_a_checkpoint_frees_are_removed_without_another_segment_begun() {
    let mut recorded = Recorded::new();
    while recorded.log.segments() < 40 {
        recorded.write_synced(&[1]);
    }
    prepare_all(&mut recorded.log);
    assert_eq!(spare(&recorded.log, &recorded.disk), 0);
    let at = support::checkpoint_at(recorded.last[&1], 1);
    let freed = recorded
        .log
        .set_checkpoint(PartitionId(1), at, Default::default());
    assert_eq!(spare(&recorded.log, &recorded.disk), freed);
    let rolls = recorded.log.counts().rolls;
    prepare_all(&mut recorded.log);
    let counts = recorded.log.counts();
    assert_eq!(spare(&recorded.log, &recorded.disk), 1);
    assert_eq!((counts.rolls, counts.removed), (rolls, freed as u64 - 1));
    recorded.log.check();
}

/// The next segment waits behind what is removed.
#[test]
fn i9_no_job_removes_many_segments() {
    let mut recorded = Recorded::new();
    while recorded.log.segments() < 60 {
        recorded.write_synced(&[1]);
    }
    prepare_all(&mut recorded.log);
    let at = support::checkpoint_at(recorded.last[&1], 1);
    let live = Default::default();
    recorded.log.set_checkpoint(PartitionId(1), at, live);
    let mut jobs = 0;
    while let Some(job) = recorded.log.prepare() {
        let before = segments(&recorded.disk);
        recorded.log.prepared(job.run()).expect("synced");
        assert!(before - segments(&recorded.disk) <= 16);
        jobs += 1;
    }
    assert!(jobs > 3);
}

#[test]
fn d8_files_of_another_size_give_their_room_on_a_full_disk() {
    let mut recorded = Recorded::new();
    while recorded.log.segments() < 6 {
        recorded.write_synced(&[1]);
    }
    recorded.disk = recorded.disk.kill();
    let (mut log, _) = open_with(&recorded.disk, 2, 2 * SEGMENT);
    prepare_all(&mut log);
    let at = support::checkpoint_at(recorded.last[&1], 1);
    recorded.batch = log.new_batch();
    recorded.log = log;
    recorded.write_synced(&[2]);
    let used = recorded.disk.used();
    recorded.disk.set_capacity(Some(used));
    let live = Default::default();
    let freed = recorded.log.set_checkpoint(PartitionId(1), at, live);
    prepare_all(&mut recorded.log);
    let counts = recorded.log.counts();
    assert_eq!((counts.removed, counts.created), (freed as u64, 3));
}

/// A log with one segment in which nothing is live, and none that is ready.
fn with_one_free() -> Recorded {
    let mut recorded = Recorded::new();
    while recorded.log.segments() < 2 {
        recorded.write_synced(&[1]);
    }
    let at = support::checkpoint_at(recorded.last[&1], 1);
    let live = Default::default();
    assert_eq!(recorded.log.set_checkpoint(PartitionId(1), at, live), 1);
    // Nothing else is to be had.
    let used = recorded.disk.used();
    recorded.disk.set_capacity(Some(used));
    recorded
}

/// The reserve went away piece by piece under shortage, for the log tries again five times a second.
#[test]
fn m47_a_segment_whose_preparation_fails_is_used_when_it_is_tried_again() {
    let calls = [
        (Call::Rename, ErrorKind::OutOfMemory),
        (Call::Open, ErrorKind::OutOfMemory),
        (Call::Write, ErrorKind::StorageFull),
        (Call::Sync, ErrorKind::StorageFull),
    ];
    for (call, kind) in calls {
        let mut recorded = with_one_free();
        recorded.disk.fail(call, 0, 3, kind);
        let bytes = recorded.log.segments_bytes();
        for _ in 0..3 {
            recorded.log.refresh_space();
            let job = recorded.log.prepare().expect("one is free");
            recorded.log.prepared(job.run()).expect("no failed sync");
            recorded.log.check();
            assert_eq!(recorded.log.segments_bytes(), bytes, "{call:?}");
        }
        assert_eq!(recorded.log.counts().prepare_failures, 3, "{call:?}");
        recorded.log.refresh_space();
        let job = recorded.log.prepare().expect("it is still there");
        recorded.log.prepared(job.run()).expect("synced");
        assert_eq!(recorded.log.counts().recycled, 1, "{call:?}");
        while recorded.log.segments() < 2 {
            recorded.write_synced(&[2]);
        }
        let manifests = support::manifest(recorded.last[&1], 1, recorded.log.synced());
        let opened = open(&recorded.disk.kill(), 2, &manifests);
        let (_, recovered) = opened.expect("opens");
        assert_eq!(recovered.report.damages, [], "{call:?}");
        assert_eq!(entries(&recovered, 2) as u64, recorded.last[&2]);
    }
}

#[test]
fn m47_a_segment_that_the_writer_could_not_have_is_had_later() {
    let mut recorded = with_one_free();
    // The name that it gets when it is used again.
    recorded
        .disk
        .fail(Call::Rename, 0, 1, ErrorKind::StorageFull);
    let error = loop {
        match recorded.write_next() {
            Ok(_) => recorded.log.sync().expect("synced"),
            Err(error) => break error,
        };
    };
    assert!(matches!(error, WriteError::NoSpace), "{error}");
    let again = recorded.log.write(&mut recorded.batch);
    again.expect("the segment is still there");
    assert_eq!(recorded.log.counts().recycled, 1);
}

/// A file that the disk does not let be used any more makes room for another one, and does not stand in its way for good.
#[test]
fn d6_a_segment_that_cannot_be_written_is_removed() {
    let mut recorded = with_one_free();
    recorded.disk.fail(Call::Write, 0, 1, ErrorKind::Other);
    let job = recorded.log.prepare().expect("one is free");
    recorded.log.prepared(job.run()).expect("no failed sync");
    recorded.log.refresh_space();
    let files = recorded.disk.names().len();
    let created = recorded.log.counts().created;
    prepare_all(&mut recorded.log);
    let counts = recorded.log.counts();
    assert_eq!((counts.removed, counts.created), (1, created + 1));
    assert_eq!(recorded.disk.names().len(), files);
}

#[test]
fn m47_files_that_could_not_be_removed_are_removed_later() {
    let mut recorded = Recorded::new();
    while recorded.log.segments() < 10 {
        recorded.write_synced(&[1]);
    }
    prepare_all(&mut recorded.log);
    let at = support::checkpoint_at(recorded.last[&1], 1);
    let live = Default::default();
    let freed = recorded.log.set_checkpoint(PartitionId(1), at, live);
    // Each with its summary.
    recorded.disk.fail(Call::Remove, 4, 4, ErrorKind::Other);
    for removed in [2, 2, freed as u64 - 1] {
        recorded.log.refresh_space();
        prepare_all(&mut recorded.log);
        assert_eq!(recorded.log.counts().removed, removed);
    }
    assert_eq!(spare(&recorded.log, &recorded.disk), 1);
}

#[test]
fn d6_a_file_that_cannot_be_removed_keeps_no_segment_from_being_made() {
    let mut recorded = Recorded::new();
    while recorded.log.segments() < 10 {
        recorded.write_synced(&[1]);
    }
    prepare_all(&mut recorded.log);
    let at = support::checkpoint_at(recorded.last[&1], 1);
    let live = Default::default();
    recorded.log.set_checkpoint(PartitionId(1), at, live);
    let denied = ErrorKind::PermissionDenied;
    recorded.disk.fail(Call::Remove, 0, 1_000, denied);
    prepare_all(&mut recorded.log);
    let before = recorded.log.counts();
    assert_eq!(before.removed, 0);
    while recorded.log.counts().rolls < before.rolls + 5 {
        recorded.write_synced(&[1]);
        prepare_all(&mut recorded.log);
    }
    let counts = recorded.log.counts();
    assert_eq!(counts.rolls_unprepared, before.rolls_unprepared);
}

#[test]
fn d6_a_new_segment_that_cannot_get_its_name_leaves_no_file() {
    let mut recorded = Recorded::new();
    recorded.write_synced(&[1]);
    let names = recorded.disk.names();
    recorded.disk.fail(Call::Rename, 0, 1, ErrorKind::Other);
    let job = recorded.log.prepare().expect("none is ready");
    recorded.log.prepared(job.run()).expect("no failed sync");
    assert_eq!(recorded.disk.names(), names);
}

#[test]
fn d5_after_a_failed_sync_everything_is_refused() {
    let mut recorded = Recorded::new();
    recorded.write_synced(&[1]);
    recorded.disk.fail(Call::Sync, 0, 1, ErrorKind::Other);
    recorded.write(&[1]);
    let error = recorded.log.sync().expect_err("it fails");
    assert!(error.is_final());
    for _ in 0..3 {
        assert!(recorded.log.sync().expect_err("for good").is_final());
        assert!(recorded.log.witness().expect_err("for good").is_final());
        assert!(recorded.log.write(&mut recorded.batch).is_err());
        assert!(recorded.log.prepare().is_none());
    }
}

#[test]
fn d5_a_failed_sync_of_a_segment_to_come_refuses_everything() {
    for call in [Call::Sync, Call::SyncDir] {
        let mut recorded = Recorded::new();
        recorded.write_synced(&[1]);
        let job = recorded.log.prepare().expect("none is ready");
        recorded.disk.fail(call, 0, 1, ErrorKind::Other);
        let error = recorded.log.prepared(job.run()).expect_err("it fails");
        assert!(error.is_final(), "{call:?}: {error}");
        assert!(recorded.log.write(&mut recorded.batch).is_err());
        assert!(recorded.log.sync().expect_err("for good").is_final());
        assert!(recorded.log.prepare().is_none());
    }
}

#[test]
fn d8_a_segment_for_which_a_sync_finds_no_room_is_made_later() {
    let mut recorded = Recorded::new();
    let job = recorded.log.prepare().expect("none is ready");
    recorded.disk.fail(Call::Sync, 0, 1, ErrorKind::StorageFull);
    recorded.log.prepared(job.run()).expect("only counted");
    assert_eq!(recorded.log.counts().prepare_failures, 1);
    recorded.write_synced(&[1]);
}

#[test]
fn a_manifest_that_is_older_than_the_log_says_is_damage() {
    let mut recorded = Recorded::new();
    while recorded.log.segments() < 3 {
        recorded.write_synced(&[1]);
    }
    let at = support::checkpoint_at(recorded.last[&1], 1);
    recorded
        .log
        .set_checkpoint(PartitionId(1), at, Default::default());
    let segments = recorded.log.segments();
    while recorded.log.segments() == segments {
        recorded.write_synced(&[1]);
    }
    let lost = PartitionDamage::ManifestLost {
        checkpoint: at.index,
    };
    let (_, recovered) = open(&recorded.disk.kill(), 2, &Manifests::new()).expect("opens");
    assert_eq!(damage(&recovered, 1), Some(lost));
}
