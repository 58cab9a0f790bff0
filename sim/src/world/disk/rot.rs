//! Rot while the node runs: bits flip, a block is what it was before, or the disk does not give it any more, in a segment that is not written any more and of
//! which no start has to replay anything. Records that are only there are lost with it (M44); which ones that may be is known here, outside of the node.

mod choice;

use std::collections::{BTreeMap, BTreeSet};

use courser_contract::{LogIndex, Need, PartitionId, Recalled};
use courser_engine::{Partition, PartitionConfig};
use courser_log::inspect::RecordAt;
use courser_log::testing::MemDisk;
use courser_log::{HeldSegment, Manifest, PartitionDamage, Recovered, SegmentNumber};

use self::choice::{Choice, Lost};
use super::super::{Event, World};
use super::recovery::Opened;
use super::restore::{How, Lacking, Unmade, restore};
use super::rotting::Rot;
use super::{DiskEvent, DiskNode};
use crate::rng::Rng;

/// While nothing is there that may rot it is looked again after so long, at most.
const LOOK_MS: u64 = 600;

/// A place that has rotted, and what was there.
#[derive(Debug)]
struct Spot {
    segment: SegmentNumber,
    lost: Lost,
    /// Somebody has told the log that the segment is damaged.
    is_known: bool,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Rotten {
    rng: Rng,
    spots: Vec<Spot>,
    /// Somebody has called an operator.
    pub(super) is_called: bool,
    /// What he has found to be lost: the next start says the same.
    pub(super) told: BTreeSet<RecordAt>,
    /// Entries of which he accepts the loss: the file `repair`.
    pub(super) accepted: BTreeMap<PartitionId, BTreeSet<LogIndex>>,
}

impl Rotten {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            // Drawn apart: worlds in which nothing rots are what they were.
            rng: Rng::new(seed ^ 0x0000_2077_E500),
            spots: Vec::new(),
            is_called: false,
            told: BTreeSet::new(),
            accepted: BTreeMap::new(),
        }
    }

    /// A number in `first..=last`.
    pub(super) const fn between(&mut self, first: u64, last: u64) -> u64 {
        self.rng.between(first, last)
    }

    /// Whether anything has rotted.
    pub(super) const fn is_some(&self) -> bool {
        !self.spots.is_empty()
    }

    /// Whether something of a segment has.
    pub(super) fn is_in(&self, segment: SegmentNumber) -> bool {
        self.spots.iter().any(|spot| spot.segment == segment)
    }

    /// Somebody has found that a segment is damaged, and the log hears of it.
    pub(super) fn note_known(&mut self, segment: SegmentNumber) {
        let spots = self.spots.iter_mut();
        spots
            .filter(|spot| spot.segment == segment)
            .for_each(|spot| spot.is_known = true);
    }

    /// A file of which nobody has noticed that blocks of it cannot be read is used again, or removed: the disk takes other blocks for them. Else a start might
    /// not know where the log ends, and an operator would have to copy the file.
    pub(super) fn forget_unnoticed(&self, held: &[HeldSegment], log: &MemDisk) {
        let names = log.names();
        let unnoticed = self.spots.iter().filter(|spot| !spot.is_known);
        for spot in unnoticed {
            let name = spot.segment.file_name();
            let is_held = held.iter().any(|it| it.segment == spot.segment);
            if !is_held && names.contains(&name) {
                log.make_readable(&name);
            }
        }
    }

    /// Whether a record of a segment may be lost.
    pub(super) fn may_lack_in(&self, segment: SegmentNumber, record: RecordAt) -> bool {
        let mut spots = self.spots.iter().filter(|spot| spot.segment == segment);
        spots.any(|spot| spot.lost.has(record))
    }

    /// Whether a record may be lost.
    fn may_lack(&self, record: RecordAt) -> bool {
        self.spots.iter().any(|spot| spot.lost.has(record))
    }

    /// Segments of which that is so.
    pub(super) fn known(&self) -> BTreeSet<SegmentNumber> {
        let known = self.spots.iter().filter(|spot| spot.is_known);
        known.map(|spot| spot.segment).collect()
    }

    /// I1: what a partition has lost has rotted. What lies whole behind it is there.
    pub(super) fn explains(&self, id: PartitionId, partition: &Partition) -> Result<(), String> {
        let lost = partition.lost();
        let mut unexplained = lost
            .iter()
            .filter(|it| !self.may_lack((id, it.index, it.byte)));
        match unexplained.next() {
            None => Ok(()),
            Some(lost) => Err(format!(
                "I1: byte {} of entry {} is lost for {}, and has not rotted",
                lost.byte, lost.index.0, lost.stream
            )),
        }
    }
}

impl DiskNode {
    /// What a record means that the log does not give.
    pub(super) const fn lacking(&self) -> Lacking {
        match self.rotten.is_some() {
            true => Lacking::Stops,
            false => Lacking::Broken,
        }
    }

    /// What a start says of a partition. Where a batch has rotted that lies below its checkpoint, nobody knows whether that had something above it: it is in doubt
    /// unless something of it lies behind that batch, or a head that names its last entry.
    pub(super) fn damage_of(
        &self,
        id: PartitionId,
        recovered: &Recovered,
    ) -> Option<PartitionDamage> {
        let damage = recovered.damage(id)?;
        let at = recovered.lost_at(id);
        let is_doubt = matches!(damage, PartitionDamage::InDoubt { .. });
        let has_rotted = at.is_some_and(|at| self.rotten.is_in(at.segment));
        (!(is_doubt && has_rotted)).then_some(damage)
    }

    /// Restores a partition: what it lacks has rotted.
    pub(super) fn restore_found(
        &self,
        opened: &Opened,
        manifest: &Manifest,
        config: PartitionConfig,
    ) -> Result<Partition, Unmade> {
        let how = How::read(self.lacking(), self.bug);
        let partition = restore(opened, manifest, config, how)?;
        self.rotten.explains(manifest.partition, &partition)?;
        Ok(partition)
    }
}

impl World {
    /// Something rots; if nothing is there that may, a little later.
    pub(super) fn rot(&mut self) {
        if self.healing {
            return;
        }
        let choice = self.choose_rot();
        let now = self.now;
        let Some(node) = self.disk.as_deref_mut() else {
            return;
        };
        let Some(choice) = choice else {
            let at = now + node.rotten.between(100, LOOK_MS);
            self.at(at, Event::Disk(DiskEvent::Rot));
            return;
        };
        let name = choice.segment.file_name();
        let Some(bytes) = node.log_folder.bytes(&name) else {
            return;
        };
        let rng = &mut node.rotten.rng;
        let rot = match rng.below(10) {
            0..=4 => Rot::Bit(1 << rng.below(8)),
            5 => Rot::Block,
            6 => Rot::Write,
            _ => Rot::Unreadable,
        };
        let (at, lost) = choice.place(matches!(rot, Rot::Bit(_)), &node.truth, &bytes, rng);
        rot.happen(&node.log_folder, &name, at);
        let Choice {
            segment,
            from,
            bytes,
            ..
        } = choice;
        let told = lost.to_string();
        let is_known = false;
        node.rotten.spots.push(Spot {
            segment,
            lost,
            is_known,
        });
        self.counts.rotted += 1;
        self.note(format_args!(
            "{rot:?} at byte {at} of segment {}, in the batch at {from} of {bytes} bytes: {told}may be lost",
            segment.0
        ));
    }

    /// An operator has been there for partitions that were in doubt, and has lost nothing by it.
    pub(super) fn settle_doubts(&mut self, opened: &mut Opened) {
        let Some(node) = self.disk.as_deref_mut() else {
            return;
        };
        let starts = u64::from(node.starts);
        for damage in &opened.recovered.report.damages {
            node.rotten.note_known(damage.place.segment);
        }
        let ids = node.truth.keys();
        let ids = ids.filter(|id| opened.recovered.damage(**id).is_some());
        let mut doubted = 0;
        for id in ids.copied().collect::<Vec<_>>() {
            let found = opened.recovered.partitions.entry(id).or_default();
            // A term that is lost may have been led: no start has led a higher one than its own number.
            let term = &mut found.hard_state.term.0;
            *term = (*term).max(starts);
            doubted += 1;
        }
        self.counts.doubted += doubted;
    }

    /// I5: what was read back is what was written.
    pub(super) fn check_recalled(&mut self, answer: &Recalled) {
        let Some(node) = self.disk.as_deref() else {
            return;
        };
        let truth = &node.truth[&answer.partition];
        let wrong = answer.records.iter().find(|(want, at)| {
            let entry = truth.committed_at(want.index).unwrap_or_default();
            let (from, at, len) = (want.byte as usize, *at as usize, want.len as usize);
            let is_there = entry.get(from..from + len);
            is_there.is_none() || is_there != answer.bytes.get(at..at + len)
        });
        if let Some((want, _)) = wrong {
            let (id, text) = (answer.partition.0, format!("{want:?}"));
            self.oracle.fail(format!(
                "partition {id}: I5: what is read back is not what was written: {text}"
            ));
        }
    }

    /// Records could not be read back, and some of them at least are needed: their streams stop. What has ended since a stream asked for it is among those that the
    /// reader does not find, since no cleaner has kept it, and is no loss.
    pub(in super::super) fn unreadable(&mut self, id: PartitionId, unread: &[Need]) {
        let unread: BTreeSet<RecordAt> = unread.iter().map(|it| (id, it.index, it.byte)).collect();
        let lost = self.needed(|record| unread.contains(&record));
        let Some(node) = self.disk.as_deref() else {
            return;
        };
        let is_sound = |record: &&RecordAt| !node.rotten.may_lack(**record);
        let sound = lost.iter().find(is_sound).copied();
        if let Some((_, index, byte)) = sound {
            let is_there = self.unread(&BTreeSet::from([(id, index, byte)])).is_empty();
            self.oracle.fail(format!(
                "partition {}: I1: byte {byte} of entry {} cannot be read back, and has not rotted; it is there: {is_there}",
                id.0, index.0
            ));
        }
        self.counts.unreadable += lost.len() as u64;
        self.note(format_args!(
            "{} records of partition {} cannot be read back, and {} that have ended",
            lost.len(),
            id.0,
            unread.len() - lost.len()
        ));
        self.call_operator();
    }
}
