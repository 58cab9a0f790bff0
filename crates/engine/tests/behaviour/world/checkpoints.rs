//! Checkpoints as a broker takes them: begun as soon as the last one has ended, a small slice a turn, so that entries are
//! applied all the while; and partitions built from the last whole one and the entries behind it.

use std::collections::BTreeMap;

use bytes::Bytes;
use courser_contract::{LogIndex, RecordRef};
use courser_engine::{
    CheckpointEnd, CheckpointPiece, NeededRecords, Partition, PartitionConfig, Restore,
};

use super::World;
use crate::world::PartitionId;

/// Slices of the turns, in turn: from one unit to all there is.
const BUDGETS: [usize; 5] = [1, 100, 40, 1_000, 7];

#[derive(Default)]
pub(crate) struct Checkpoints {
    turns: usize,
    /// Of the one under way.
    pieces: Vec<Bytes>,
    whole: Option<Whole>,
}

/// A checkpoint with its end.
#[derive(Clone)]
pub(crate) struct Whole {
    pub(crate) pieces: Vec<Bytes>,
    pub(crate) end: CheckpointEnd,
}

impl Checkpoints {
    /// A slice; whether a checkpoint has become whole.
    pub(crate) fn turn(&mut self, partition: &mut Partition) -> bool {
        if partition.begin_checkpoint() {
            self.pieces.clear();
        }
        let budget = BUDGETS[self.turns % BUDGETS.len()];
        self.turns += 1;
        while let Some(piece) = partition.take_checkpoint_piece(budget) {
            assert!(piece.bytes.len() <= CheckpointPiece::BYTES_MAX);
            self.pieces.push(piece.bytes);
        }
        let Some(end) = partition.checkpoint_end() else {
            return false;
        };
        let pieces = std::mem::take(&mut self.pieces);
        let bytes: usize = pieces.iter().map(Bytes::len).sum();
        assert_eq!(bytes as u64, end.bytes);
        self.whole = Some(Whole { pieces, end });
        true
    }

    pub(crate) fn whole(&self) -> Option<&Whole> {
        self.whole.as_ref()
    }
}

impl Whole {
    /// A partition as it was, of the entries that hold live records and no others; without some of those that the disk has lost.
    pub(crate) fn restore_without(
        &self,
        config: PartitionConfig,
        log: &BTreeMap<LogIndex, Bytes>,
        lost: &[LogIndex],
    ) -> Partition {
        let mut restore = self.read(config, None);
        let wanted = restore.wanted().expect("the pieces fit each other");
        let ranges: Vec<_> = wanted.ranges().collect();
        let live: Vec<_> = self.end.live.ranges().collect();
        assert_eq!(ranges, live, "the end names what is wanted");
        self.give_kept(&mut restore, log, lost);
        for (first, last) in ranges {
            for (at, entry) in log.range(first..=last) {
                if !restore.is_wanting(*at) {
                    assert!(is_moved(*at), "only what was moved is not wanted any more");
                    continue;
                }
                if lost.contains(at) {
                    let records = restore.lost_entry(*at).expect("a checkpoint as it was");
                    assert!(records > 0, "a live entry has live records");
                    continue;
                }
                let given = restore.live_entry(*at, entry);
                given.expect("an entry that is in the log");
            }
        }
        let partition = restore.finish().expect("all that was wanted has come");
        assert_eq!(partition.applied(), self.end.index);
        partition.check();
        partition
    }
}

impl Whole {
    /// All pieces, and whether records stay in the log.
    fn read(&self, config: PartitionConfig, cold_from: Option<u64>) -> Restore {
        let mut restore = Restore::new(config);
        if let Some(bytes) = cold_from {
            restore.leave_cold(bytes);
        }
        for piece in &self.pieces {
            restore.piece(piece).expect("a piece as it was written");
        }
        restore
    }

    /// The same, with all records that may stay in the log left there, if they have so many bytes; and how many entries were read.
    pub(crate) fn restore_cold(
        &self,
        config: PartitionConfig,
        cold_from: u64,
        log: &BTreeMap<LogIndex, Bytes>,
    ) -> (Partition, usize) {
        let mut restore = self.read(config, Some(cold_from));
        let wanted = restore.wanted().expect("the pieces fit each other");
        let mut read = 0;
        for (first, last) in wanted.ranges() {
            for (at, entry) in log.range(first..=last) {
                assert!(self.end.live.contains(*at), "no more is wanted");
                let given = restore.live_entry(*at, entry);
                given.expect("an entry that is in the log");
                read += 1;
            }
        }
        let partition = restore.finish().expect("all that was wanted has come");
        partition.check();
        (partition, read)
    }
}

/// Whether a cleaner has moved the records of an entry.
const fn is_moved(at: LogIndex) -> bool {
    at.0.is_multiple_of(3)
}

impl Whole {
    /// What a cleaner would have moved of some entries, one record at a time, the last one first.
    fn give_kept(&self, restore: &mut Restore, log: &BTreeMap<LogIndex, Bytes>, lost: &[LogIndex]) {
        let mut needed = Vec::new();
        let mut scan = NeededRecords::new(PartitionId(restore.summary().partition));
        for piece in &self.pieces {
            let told = scan.piece(piece, |index, byte| needed.push((index, byte)));
            told.expect("a piece as it was written");
        }
        scan.finish().expect("all pieces have come");
        for (index, _) in &needed {
            assert!(
                self.end.live.contains(*index),
                "the end names what is needed"
            );
        }
        for (index, byte) in needed.into_iter().rev() {
            if !is_moved(index) || lost.contains(&index) {
                continue;
            }
            let entry = &log[&index];
            let record = RecordRef::parse(entry, byte as usize).expect("a record is there");
            let start = byte as usize;
            let bytes = Bytes::copy_from_slice(&entry[start..start + record.encoded_len()]);
            let given = restore.kept(index, byte, &bytes);
            given.expect("a record that is needed, or has come");
        }
    }
}

impl World {
    /// A slice of a checkpoint of each partition with a log.
    pub(super) fn save(&mut self) {
        for (id, node) in &mut self.nodes {
            if !id.is_volatile() && node.checkpoints.turn(&mut node.partition) {
                self.checkpoints += 1;
            }
            #[cfg(feature = "planted")]
            if self.plant_late_pieces {
                node.partition.plant_late_pieces();
            }
        }
    }

    /// The partition as a start makes it: from its last checkpoint, and the entries behind that.
    pub(crate) fn started(&self, id: PartitionId) -> Partition {
        self.started_without(id, &[])
    }

    /// The partition as its last checkpoint alone makes it.
    pub(crate) fn saved(&self, id: PartitionId) -> Option<Partition> {
        let node = &self.nodes[&id];
        let log: BTreeMap<_, _> = node.log.iter().cloned().collect();
        let whole = node.checkpoints.whole()?;
        Some(whole.restore_without(self.config[&id].clone(), &log, &[]))
    }

    /// The same after the disk has lost entries that the checkpoint needs.
    pub(crate) fn started_without(&self, id: PartitionId, lost: &[LogIndex]) -> Partition {
        let node = &self.nodes[&id];
        let config = self.config[&id].clone();
        let log: BTreeMap<_, _> = node.log.iter().cloned().collect();
        let mut partition = match node.checkpoints.whole() {
            Some(whole) if lost.is_empty() => {
                let warm = whole.restore_without(config.clone(), &log, lost);
                let (cold, _) = whole.restore_cold(config, 0, &log);
                assert!(
                    warm.encode_state() == cold.encode_state(),
                    "where records are is no state"
                );
                // One start like this, another one like that.
                match whole.end.index.0.is_multiple_of(2) {
                    true => cold,
                    false => warm,
                }
            }
            Some(whole) => whole.restore_without(config, &log, lost),
            None => Partition::new(config),
        };
        for (at, entry) in log.range(partition.applied().next()..) {
            let replayed = partition.replay_entry(*at, entry);
            replayed.expect("an entry that is in the log");
        }
        partition
    }
}
