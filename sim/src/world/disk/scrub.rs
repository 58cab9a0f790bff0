//! The scrub: segments that are not written any more are read and checked while the node runs, by the check that the broker's scrub is made of. What is
//! whole is not called damaged, although segments are used again meanwhile; what rots in an entry is found, and the entry is named (I7).

mod concerned;

use std::mem;

use courser_contract::{LogIndex, PartitionId};
use courser_log::inspect::{SegmentCheck, check_segment};
use courser_log::testing::MemDisk;
use courser_log::{Disk, HeldSegment};

use super::super::World;
use super::{DiskEvent, DiskNode};
use crate::rng::Rng;

/// A pass takes as long as this.
const PASS_MS: u64 = 2_000;

/// Entries of which a bit flips, each on a copy.
const FLIPS: u64 = 4;

impl World {
    /// A pass begins: the log says what there is to read.
    pub(super) fn scrub(&mut self) {
        let mut rng = self.scrub_rng();
        let Some(running) = self.station() else {
            return;
        };
        running.scrubbing = running.log.held_segments();
        // It is still written.
        running.scrubbing.pop();
        self.disk_later(rng.between(1, PASS_MS), DiskEvent::Scrubbed);
    }

    /// All of it is read. What was used again meanwhile says nothing.
    pub(super) fn scrubbed(&mut self) {
        let mut rng = self.scrub_rng();
        let Some(running) = self.station() else {
            return;
        };
        let left = running.log.held_segments();
        let mut segments = mem::take(&mut running.scrubbing);
        segments.retain(|segment| left.contains(segment));
        let Some(node) = self.disk.as_deref() else {
            return;
        };
        let (rotten, sound): (Vec<_>, Vec<_>) = segments
            .into_iter()
            .partition(|segment| node.rotten.is_in(segment.segment));
        let checked = node.check_segments(&sound, &mut rng);
        match checked {
            Ok(probes) => self.counts.probes += probes,
            Err(text) => self.oracle.fail(text),
        }
        for segment in &rotten {
            self.check_rotten(segment);
        }
    }

    /// What a scrub draws is not drawn from what decides the rest of the world.
    const fn scrub_rng(&self) -> Rng {
        Rng::new(self.plan.seed ^ self.now.wrapping_mul(0x9E37_79B9_7F4A_7C15))
    }
}

impl DiskNode {
    /// How often something was tried.
    fn check_segments(&self, segments: &[HeldSegment], rng: &mut Rng) -> Result<u64, String> {
        let disk = self.log_folder.fork().kill();
        for segment in segments {
            let check = check(&disk, segment)?;
            if !check.damages.is_empty() {
                return Err(format!(
                    "I7: a scrub finds damage in segment {} where nothing rotted: {check:?}",
                    segment.segment.0
                ));
            }
        }
        let mut tried = 0;
        for _ in 0..FLIPS {
            if segments.is_empty() {
                break;
            }
            let segment = rng.pick(segments);
            let Some((id, index, at)) = self.entry_in(&disk, segment, rng) else {
                continue;
            };
            let rotten = disk.fork();
            rotten.rot(&segment.segment.file_name(), at, 1 << rng.below(8));
            let check = check(&rotten, segment)?;
            let named = |&(it, first, last): &(PartitionId, LogIndex, LogIndex)| {
                it == id && (first..=last).contains(&index)
            };
            if check.damages.is_empty() || !check.missing.iter().any(named) {
                return Err(format!(
                    "partition {}: I7: a scrub does not find that entry {} rots at byte {at} of segment {}",
                    id.0, index.0, segment.segment.0
                ));
            }
            tried += 1;
        }
        Ok(tried)
    }

    /// A byte of an entry that a segment says it has, if it is there once.
    fn entry_in(
        &self,
        disk: &MemDisk,
        segment: &HeldSegment,
        rng: &mut Rng,
    ) -> Option<(PartitionId, LogIndex, u64)> {
        if segment.entries.is_empty() {
            return None;
        }
        let (id, first, last) = *rng.pick(&segment.entries);
        // The last ones of a segment are as likely as all others together: there a check may end too early.
        let index = match rng.chance(50) {
            true => last,
            false => LogIndex(rng.between(first.0, last.0)),
        };
        let entry = self.truth.get(&id)?.committed_at(index)?;
        let bytes = disk.bytes(&segment.segment.file_name())?;
        let places = bytes.windows(entry.len()).enumerate();
        let mut places = places.filter(|(_, place)| **place == *entry);
        let (at, _) = places.next()?;
        let once = places.next().is_none();
        let within = rng.below(entry.len() as u64);
        once.then_some((id, index, at as u64 + within))
    }
}

/// Reads a segment.
fn check(disk: &MemDisk, segment: &HeldSegment) -> Result<SegmentCheck, String> {
    let number = segment.segment.0;
    let file = disk.open(&segment.segment.file_name());
    let file = file.map_err(|error| format!("I7: segment {number} is not there: {error}"))?;
    check_segment(file, segment).map_err(|error| format!("I7: segment {number}: {error}"))
}
