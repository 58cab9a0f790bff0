//! Segments in which something has rotted while the node runs: the scrub finds what is damaged and says whom that concerns, as the broker's does.

use std::collections::{BTreeMap, BTreeSet};

use courser_contract::{LogIndex, PartitionId};
use courser_engine::ReferenceSearch;
use courser_log::inspect::{KeptCheck, RecordAt, RecordFinder, SegmentCheck, read_kept};
use courser_log::{Disk, HeldSegment, SegmentNumber};

use super::super::super::World;
use super::super::{DiskEvent, DiskNode};
use super::check;
use crate::shell::Shard;

/// A segment of which something could not be read is looked at after so long, at most.
const SUSPECT_MS: u64 = 500;
/// How likely somebody calls an operator for what is found before a stream has come to it, in percent.
const CALLED: u64 = 50;

/// What a segment had of a partition and does not give any more.
#[derive(Debug, Default)]
struct Missing {
    entries: Vec<(LogIndex, LogIndex)>,
    kept: KeptCheck,
}

impl Missing {
    fn has(&self, index: LogIndex, byte: u32) -> bool {
        let mut entries = self.entries.iter();
        entries.any(|(first, last)| (*first..=*last).contains(&index))
            || self.kept.lacks(index, byte)
    }
}

impl World {
    /// Something of a segment could not be read for who needed it: it is looked at soon.
    pub(in super::super) fn suspect(&mut self, segment: SegmentNumber) {
        let Some(node) = self.disk.as_deref_mut() else {
            return;
        };
        let ms = node.rotten.between(1, SUSPECT_MS);
        self.disk_later(ms, |life| DiskEvent::Suspect(life, segment));
    }

    pub(in super::super) fn look_at_suspect(&mut self, segment: SegmentNumber) {
        let Some(running) = self.station() else {
            return;
        };
        let held = running.log.held_segments();
        let suspect = held.into_iter().find(|held| held.segment == segment);
        if let Some(suspect) = suspect {
            self.check_rotten(&suspect);
        }
    }

    /// Whether something of a segment has rotted.
    pub(in super::super) fn has_rotted(&self, segment: SegmentNumber) -> bool {
        let node = self.disk.as_deref();
        node.is_some_and(|node| node.rotten.is_in(segment))
    }

    /// I7: what has rotted of a segment and is needed is found, and who needs it is named.
    pub(super) fn check_rotten(&mut self, segment: &HeldSegment) {
        let checked = self.concerned(segment);
        let (check, concerned) = match checked {
            Ok(checked) => checked,
            Err(text) => return self.oracle.fail(text),
        };
        let needed = self.needed_in(segment);
        let unread = self.unread(&needed);
        // Of what a start has found to be lost its streams are known; what was in the segment is not then.
        let stopped = self.stopped();
        let mut unnamed = unread.difference(&concerned);
        let unnamed = unnamed.find(|it| !stopped.contains(*it));
        if let Some((id, index, byte)) = unnamed {
            let number = segment.segment.0;
            self.oracle.fail(format!(
                "partition {}: I7: a scrub does not say that byte {byte} of entry {} has rotted in segment {number}: {check:?}",
                id.0, index.0
            ));
        }
        if check.damages.is_empty() {
            return;
        }
        self.counts.found += 1;
        self.note(format_args!(
            "a scrub finds damage in segment {}: {} messages that wait are concerned",
            segment.segment.0,
            unread.len()
        ));
        if let Some(node) = self.disk.as_deref_mut() {
            node.rotten.note_known(segment.segment);
        }
        if let Some(running) = self.station() {
            running.log.note_damaged(segment.segment);
        }
        let is_called = |node: &mut DiskNode| node.rotten.between(1, 100) <= CALLED;
        if !unread.is_empty() && self.disk.as_deref_mut().is_some_and(is_called) {
            self.call_operator();
        }
    }

    /// What is known to be lost.
    fn stopped(&self) -> BTreeSet<RecordAt> {
        let partitions = self.shards.iter().flat_map(Shard::partitions);
        let lost = partitions.flat_map(|(id, partition)| {
            let lost = partition.lost().into_iter();
            lost.map(move |it| (id, it.index, it.byte))
        });
        lost.collect()
    }

    /// What a scrub finds in a segment, and what is needed of that.
    fn concerned(&self, held: &HeldSegment) -> Result<(SegmentCheck, BTreeSet<RecordAt>), String> {
        let node = self.disk.as_deref().expect("worlds with a disk only");
        let disk = node.log_folder.fork().kill();
        let check = check(&disk, held)?;
        let mut missing: BTreeMap<PartitionId, Missing> = BTreeMap::new();
        for &(id, first, last) in &check.missing {
            missing.entry(id).or_default().entries.push((first, last));
        }
        let mut kept = KeptCheck::of(held);
        if !check.damages.is_empty()
            && let Ok(file) = disk.open(&held.segment.file_name())
        {
            // What of it cannot be read is lost.
            let _ = read_kept(file, held, &mut kept);
            for (id, kept) in kept {
                missing.entry(id).or_default().kept = kept;
            }
        }
        let needed = self.needed(|(id, index, byte)| {
            let missing = missing.get(&id);
            missing.is_some_and(|missing| missing.has(index, byte))
        });
        Ok((check, self.unread(&needed)))
    }

    /// What may have rotted in a segment and is needed.
    pub(in super::super) fn needed_in(&self, segment: &HeldSegment) -> BTreeSet<RecordAt> {
        let node = self.disk.as_deref().expect("worlds with a disk only");
        self.needed(|record| node.rotten.may_lack_in(segment.segment, record))
    }

    /// Those of some records that something still needs.
    pub(in super::super) fn needed(
        &self,
        is_meant: impl Fn(RecordAt) -> bool,
    ) -> BTreeSet<RecordAt> {
        let mut needed = BTreeSet::new();
        for (id, partition) in self.shards.iter().flat_map(Shard::partitions) {
            if id.is_volatile() {
                continue;
            }
            let all = ReferenceSearch::default();
            let (references, _) = partition
                .search_references(all, usize::MAX, |index, byte| is_meant((id, index, byte)));
            needed.extend(references.into_iter().map(|it| (id, it.index, it.byte)));
        }
        needed
    }

    /// Those of some records that no segment gives.
    pub(in super::super) fn unread(&self, records: &BTreeSet<RecordAt>) -> BTreeSet<RecordAt> {
        self.unread_in(records, |_| true)
    }

    /// Those of some records that none of these segments gives.
    pub(in super::super) fn unread_in(
        &self,
        records: &BTreeSet<RecordAt>,
        is_meant: impl Fn(SegmentNumber) -> bool,
    ) -> BTreeSet<RecordAt> {
        let node = self.disk.as_deref().expect("worlds with a disk only");
        let disk = node.log_folder.fork().kill();
        let mut finder = RecordFinder::new(records);
        let held = node.running.as_ref().map(|it| it.log.held_segments());
        let held = held.unwrap_or_default().into_iter();
        for segment in held.filter(|held| is_meant(held.segment)) {
            if let Ok(file) = disk.open(&segment.segment.file_name()) {
                // What of it cannot be read is not found.
                let _ = finder.segment(file, &segment);
            }
        }
        let found: BTreeSet<RecordAt> = finder.finish().into_iter().collect();
        records.difference(&found).copied().collect()
    }
}
