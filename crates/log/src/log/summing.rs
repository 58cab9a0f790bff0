//! Which segments get a summary, and what it says.

use std::{collections::BTreeMap, sync::Arc};

use courser_contract::PartitionId;

use super::{Log, SpaceState};
use crate::{
    config::Planted,
    disk::Disk,
    ids::SegmentNumber,
    summary::{OfPartition, Summary},
};

impl<D: Disk> Log<D> {
    /// The next one that is to be written; none while room is short. Whether the segment is synced does not matter: a start believes no
    /// summary before a manifest says that all of its segment was.
    pub(crate) fn next_summary(&mut self) -> Option<Summary> {
        if self.space.state != SpaceState::Enough {
            return None;
        }
        while let Some(number) = self.unsummed.pop_first() {
            if let Some(summary) = self.summary_of(number) {
                return Some(summary);
            }
        }
        None
    }

    /// Says that something of a segment is damaged: it gets no summary any more, and the next job removes the one that it has, so that the next
    /// start looks at that damage.
    pub fn note_damaged(&mut self, segment: SegmentNumber) {
        if let Some(found) = self.segments.get_mut(&segment) {
            found.is_damaged = true;
            self.discredited.insert(segment);
        }
    }

    /// Nothing, without the feature `testing`.
    fn plant(&self, said: &mut OfPartition, last_at: u64) {
        if self.config.has(Planted::StaleSummary) {
            said.runs
                .iter_mut()
                .for_each(|it| it.place.offset = last_at);
        }
        if self.config.has(Planted::SummaryWithoutKept) {
            said.kept = Arc::default();
            said.kept_at.clear();
        }
    }

    /// None for a segment whose last entry goes on in the next one: who reads that one has to read this one as well.
    fn summary_of(&self, number: SegmentNumber) -> Option<Summary> {
        let segment = self.segments.get(&number)?;
        let open = self.pieces.iter().flat_map(|(_, _, places)| places);
        let mut open = open.map(|place| place.segment);
        let mut places = self.places.iter();
        let goes_on =
            open.any(|it| it == number) || places.any(|(_, it)| it.goes_on_behind(number));
        if goes_on || segment.in_doubt != 0 || segment.is_damaged || segment.last_at == 0 {
            return None;
        }
        let mut partitions: BTreeMap<PartitionId, OfPartition> = BTreeMap::new();
        for (id, range) in &segment.ranges {
            partitions.entry(*id).or_default().range = Some(*range);
        }
        for (id, (first, last)) in &segment.void {
            let range = &mut partitions.entry(*id).or_default().range;
            let (begin, end) = range.unwrap_or((*first, *last));
            *range = Some((begin.min(*first), end.max(*last)));
        }
        for (id, kept) in &segment.kept {
            partitions.entry(*id).or_default().kept = Arc::clone(kept);
        }
        for (id, said) in &mut partitions {
            let Some(places) = self.places.of(*id) else {
                continue;
            };
            (said.runs, said.pieces) = places.all_in(number);
            let kept_at = places.kept().iter();
            said.kept_at = kept_at.filter(|it| it.segment == number).copied().collect();
            self.plant(said, segment.last_at);
        }
        Some(Summary {
            node: self.config.node,
            segment: number,
            last_at: segment.last_at,
            last_crc: segment.last_crc,
            cleaned: segment.cleaned.clone(),
            partitions,
        })
    }
}
