//! What a damaged segment does not give any more, and whose that is.

use std::collections::{BTreeMap, BTreeSet};

use courser_contract::{LogIndex, PartitionId};
use courser_engine::LostStream;
use courser_log::HeldSegment;
use courser_log::inspect::{KeptCheck, RecordAt, RecordFinder, may_have, read_kept};

use super::Scrubber;
use crate::backup::pace::Stopped;

/// Streams that need something, each with the number of messages.
pub(super) type Concerned = BTreeMap<(PartitionId, LostStream), u64>;

/// What a segment had of a partition and does not give any more.
#[derive(Clone, Debug, Default)]
pub(crate) struct Missing {
    /// Entries, both ends included, ascending and apart.
    entries: Vec<(LogIndex, LogIndex)>,
    /// Records that a cleaner had put there (M41).
    kept: KeptCheck,
}

impl Missing {
    /// Whether a record was there that begins at this byte of an entry. O(log n).
    pub(crate) fn has(&self, index: LogIndex, byte: u32) -> bool {
        let at = self.entries.partition_point(|(_, last)| *last < index);
        let entry = self.entries.get(at);
        entry.is_some_and(|(first, _)| *first <= index) || self.kept.lacks(index, byte)
    }

    /// The last entry that a start may have to replay. What a cleaner moves is below a checkpoint.
    pub(crate) fn last_entry(&self) -> Option<LogIndex> {
        self.entries.last().map(|(_, last)| *last)
    }
}

impl Scrubber {
    /// Whom it concerns that a segment does not give these entries, nor perhaps what a cleaner has put there.
    pub(super) fn concerned(
        &self,
        segment: &HeldSegment,
        entries: &[(PartitionId, LogIndex, LogIndex)],
    ) -> Result<Concerned, Stopped> {
        let mut needed: Vec<(RecordAt, LostStream)> = Vec::new();
        for (id, missing) in self.missing(segment, entries)? {
            let needs = self.control.needs(id, missing).into_iter();
            needed.extend(needs.map(|it| ((id, it.index, it.byte), it.stream)));
        }
        let mut lost: BTreeSet<RecordAt> = needed.iter().map(|(at, _)| *at).collect();
        self.strike_readable(&mut lost)?;
        let mut concerned = Concerned::new();
        for (at, stream) in needed.into_iter().filter(|(at, _)| lost.contains(at)) {
            *concerned.entry((at.0, stream)).or_default() += 1;
        }
        Ok(concerned)
    }

    fn missing(
        &self,
        segment: &HeldSegment,
        entries: &[(PartitionId, LogIndex, LogIndex)],
    ) -> Result<BTreeMap<PartitionId, Missing>, Stopped> {
        let mut missing: BTreeMap<PartitionId, Missing> = BTreeMap::new();
        for &(id, first, last) in entries {
            let of = missing.entry(id).or_default();
            of.entries.push((first, last));
        }
        let mut kept = KeptCheck::of(segment);
        if !kept.is_empty() {
            // What of it cannot be read is lost.
            let _ = self.read(segment.segment, |file| read_kept(file, segment, &mut kept))?;
        }
        for (id, kept) in kept {
            missing.entry(id).or_default().kept = kept;
        }
        Ok(missing)
    }

    /// Takes out what can be read after all: of one entry some records may be in one segment and others in another, of some it is only
    /// known that they may have been where the damage is, and the pieces of an entry there may all be right.
    fn strike_readable(&self, lost: &mut BTreeSet<RecordAt>) -> Result<(), Stopped> {
        let mut finder = RecordFinder::new(lost);
        for segment in self.segments()? {
            if may_have(&segment, lost) {
                // What of it cannot be read is not found.
                let _ = self.read(segment.segment, |file| finder.segment(file, &segment))?;
            }
        }
        for at in finder.finish() {
            lost.remove(&at);
        }
        Ok(())
    }
}
