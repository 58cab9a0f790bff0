//! Rot below a checkpoint, where no later entry of the partition says so: the head of a later segment does, and the partition lacks no more than the
//! records that are lost.

use courser_contract::{LogIndex, PartitionId, Term};
use courser_log::{BatchPlace, Disk as _, LiveEntries, PartitionDamage, Push, Recovered};

use super::recorded::{FRAME, HEADER, Recorded, damage, data, entries};
use crate::support::{CheckpointFolder, checkpoint_at, entry_of, open};

const BUSY: u16 = 1;
const IDLE: u16 = 2;
const LAST: u64 = 5;

/// A log whose partition 2 is idle since long.
struct Idle {
    recorded: Recorded,
    checkpoints: CheckpointFolder,
    places: Vec<BatchPlace>,
    starts: u32,
}

impl Idle {
    fn new() -> Self {
        let mut recorded = Recorded::new();
        let places = (0..LAST).map(|_| recorded.write_synced(&[IDLE])).collect();
        Self {
            recorded,
            checkpoints: CheckpointFolder::default(),
            places,
            starts: 1,
        }
    }

    fn save(&mut self, id: u16, index: u64, live: &[u64]) {
        let at = checkpoint_at(index, self.recorded.term.0);
        let live: LiveEntries = live.iter().map(|index| LogIndex(*index)).collect();
        let log = &mut self.recorded.log;
        self.checkpoints
            .take(PartitionId(id), at, live.clone(), log.synced());
        log.set_checkpoint(PartitionId(id), at, live);
    }

    /// Others write, and need nothing of it.
    fn others_go_on(&mut self) {
        let rolls = self.recorded.log.counts().rolls;
        while self.recorded.log.counts().rolls < rolls + 4 {
            self.recorded.write_synced(&[BUSY]);
            let last = self.recorded.last[&BUSY];
            self.save(BUSY, last, &[]);
            while let Some(job) = self.recorded.log.prepare() {
                self.recorded.log.prepared(job.run()).expect("synced");
            }
        }
    }

    fn rot(&self, index: u64) {
        let place = self.places[index as usize - 1];
        self.recorded.rot(place, HEADER + FRAME + 100);
        // Whoever has found it has seen to it that the next start reads the segment.
        let summary = place.place.segment.summary_name();
        let _removed = self.recorded.disk.remove(&summary);
    }

    fn start(&mut self) -> Recovered {
        self.starts += 1;
        let manifests = self.checkpoints.manifests();
        let opened = open(&self.recorded.disk.kill(), self.starts, &manifests);
        let (log, found) = opened.expect("it opens");
        log.check();
        self.recorded.log = log;
        self.recorded.batch = self.recorded.log.new_batch();
        found
    }

    /// Start after start the idle partition is whole but for these, whatever others write meanwhile.
    fn lacks(&mut self, missing: &[u64]) {
        for _ in 0..3 {
            let found = self.start();
            assert!(!found.report.damages.is_empty());
            assert_eq!(damage(&found, IDLE), None, "{}", found.report);
            let of = &found.partitions[&PartitionId(IDLE)];
            let missing_live: Vec<u64> = of.missing_live.iter().map(|it| it.0).collect();
            assert_eq!(missing_live, missing);
            self.others_go_on();
        }
    }
}

/// A partition without a later entry was set aside for an entry that no start has to replay.
#[test]
fn m44_rot_in_the_last_entry_of_a_partition_below_its_checkpoint_stops_its_stream_alone() {
    for rotten in [LAST - 1, LAST] {
        let mut log = Idle::new();
        log.save(IDLE, LAST, &[2, LAST - 1, LAST]);
        log.others_go_on();
        log.rot(rotten);
        log.lacks(&[rotten]);
    }
}

#[test]
fn m44_rot_above_the_checkpoint_is_said_until_it_is_accepted_whatever_heads_are_written() {
    let mut log = Idle::new();
    log.save(IDLE, LAST - 1, &[2]);
    log.others_go_on();
    log.rot(LAST);
    let after = LogIndex(LAST - 1);
    for _ in 0..3 {
        let found = log.start();
        let lost = PartitionDamage::InDoubt { after };
        assert_eq!(damage(&found, IDLE), Some(lost), "{}", found.report);
        log.others_go_on();
    }
}

/// The doubt came back at each start, once the entries behind the accepted loss were below a checkpoint and their segments used again.
#[test]
fn m44_an_accepted_loss_lasts_when_what_was_written_behind_it_is_gone() {
    let mut log = Idle::new();
    log.save(IDLE, LAST - 1, &[2]);
    log.others_go_on();
    log.rot(LAST);
    assert!(damage(&log.start(), IDLE).is_some());
    // It goes on, in a higher term.
    log.recorded.term = Term(2);
    log.recorded.last.insert(IDLE, LAST - 1);
    log.recorded.write_synced(&[IDLE]);
    log.save(IDLE, LAST, &[2]);
    log.others_go_on();
    log.lacks(&[]);
}

/// Of an entry in pieces the first may lie before a head and the last behind it: the head must not say that there was nothing.
#[test]
fn m44_an_entry_that_is_not_whole_at_a_head_counts_there() {
    for fill in 0..30 {
        let mut log = Idle::new();
        log.save(IDLE, LAST, &[]);
        let recorded = &mut log.recorded;
        for _ in 0..fill {
            recorded.write_of(&[BUSY], 3_000);
        }
        let large = entry_of(Term(1), IDLE, LAST + 1, &data(IDLE, LAST + 1, 60_000));
        recorded.batch.clear();
        assert_eq!(recorded.batch.push(&large), Push::Taken);
        let mut pieces = Vec::new();
        while !recorded.batch.is_empty() {
            pieces.push(recorded.log.write(&mut recorded.batch).expect("written"));
            recorded.batch.clear();
        }
        for _ in 0..30 {
            recorded.write_synced(&[BUSY]);
        }
        let found = log.start();
        assert_eq!(entries(&found, IDLE), 1);
        for piece in pieces {
            let disk = log.recorded.disk.fork();
            let name = piece.place.segment.file_name();
            disk.rot(&name, piece.place.offset + HEADER + 200, 1);
            let opened = open(&disk.kill(), 9, &log.checkpoints.manifests());
            let (_, found) = opened.expect("it opens");
            assert!(damage(&found, IDLE).is_some(), "{fill}: {}", found.report);
        }
    }
}
