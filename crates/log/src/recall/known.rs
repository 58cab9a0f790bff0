//! What the reader knows of places, and since when.

use std::collections::BTreeMap;

use courser_contract::{LogIndex, PartitionId};

use super::{
    hand::Hand,
    kept::KeptIndex,
    wants::{Asking, Doubt, Generation, Head, Spot, Standing},
};
use crate::{
    format::{BATCH_BYTES_MAX, BLOCK_BYTES},
    ids::Place,
    places::{Found, LogPlaces, PartitionPlaces, STRETCH_BYTES},
};

/// An entry is found less than so many bytes behind its place.
pub(super) const REACH: u64 = STRETCH_BYTES + BATCH_BYTES_MAX as u64;

/// Where the elevator goes, or stands. A batch goes before the entry whose first piece is in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Stop {
    pub(super) place: Place,
    pub(super) what: What,
}

/// What is read there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum What {
    Batch,
    /// An entry in pieces, the first of them there.
    Pieces,
    /// Nothing any more.
    Over,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Known {
    places: LogPlaces,
    /// Counts up with each of them; 0 before the first.
    pub(super) generation: Generation,
    /// Newer places are on their way.
    pub(super) has_asked: bool,
    kept: BTreeMap<PartitionId, Indexed>,
}

/// The index of a partition's kept records.
#[derive(Debug, Default)]
struct Indexed {
    index: KeptIndex,
    /// Somebody has wanted something of the partition since the last sweep.
    is_wanted: bool,
}

impl Known {
    pub(super) fn set(&mut self, places: LogPlaces) {
        self.places = places;
        self.generation += 1;
        self.has_asked = false;
        for (partition, of) in &mut self.kept {
            let places = self.places.places.of(*partition);
            of.index.refresh(places.map_or(&[], PartitionPlaces::kept));
        }
    }

    /// Somebody wants something of a partition.
    pub(super) fn want(&mut self, partition: PartitionId) {
        if let Some(of) = self.kept.get_mut(&partition) {
            of.is_wanted = true;
        }
    }

    /// Lets go of the indexes of partitions of which nobody has wanted anything since the last sweep, or waits for something.
    pub(super) fn sweep(&mut self, waits: impl Fn(PartitionId) -> bool) {
        self.kept.retain(|partition, of| {
            std::mem::replace(&mut of.is_wanted, false) || waits(*partition)
        });
    }

    pub(super) fn has_indexes(&self) -> bool {
        !self.kept.is_empty()
    }

    /// Bytes that indexes take.
    pub(super) fn index_bytes(&self) -> usize {
        self.kept.values().map(|of| of.index.held_bytes()).sum()
    }

    /// The newest places that may be older than what happens now: those that are on their way, if some are.
    pub(super) const fn newest(&self) -> Generation {
        self.generation + self.has_asked as Generation
    }

    /// Whether somebody waits for newer places than these.
    const fn awaits(&self, doubt: Option<Doubt>) -> bool {
        match doubt {
            Some(doubt) => doubt.by >= self.generation,
            None => false,
        }
    }

    pub(super) fn of(&self, partition: PartitionId) -> Option<&PartitionPlaces> {
        self.places.places.of(partition)
    }

    /// Whether no batch that counts begins there: they have ended before.
    pub(super) fn is_behind_end(&self, place: Place) -> bool {
        let end = self.places.ends.get(&place.segment);
        end.is_some_and(|end| place.offset > *end)
    }

    /// Where to look for the next batch behind one that cannot be read: from each of these batches before it, in turn; and up to which byte.
    pub(super) fn around(&self, bad: Place) -> ([Place; 2], u64) {
        let first = Place {
            offset: BLOCK_BYTES as u64,
            ..bad
        };
        let end = self.places.ends.get(&bad.segment).copied();
        let reach = bad.offset + REACH;
        let until = end.map_or(0, |end| end.min(reach));
        ([self.places.before(bad), first], until)
    }

    fn find(&self, partition: PartitionId, index: LogIndex) -> Option<Found<'_>> {
        self.of(partition)?.find(index)
    }

    /// Where a head is.
    pub(super) fn spot(&self, partition: PartitionId, head: Head, standing: Standing) -> Spot {
        if self.generation == 0 || self.awaits(standing.doubt) {
            return Spot::Unknown;
        }
        let is_newer = standing.asked < self.generation;
        if self.find(partition, head.index).is_some() {
            // By older places an entry may be one that was replaced before the one that is wanted was there.
            let settled = self.places.settled.get(&partition);
            let is_settled = settled.is_some_and(|settled| head.index <= *settled);
            return match is_settled || is_newer {
                true => Spot::Entry,
                false => Spot::Unknown,
            };
        }
        if !self.is_indexed(partition) {
            return Spot::Unknown;
        }
        match self.kept_copy(partition, head) {
            Some(place) => Spot::Kept(place),
            None if is_newer => Spot::Nowhere,
            None => Spot::Unknown,
        }
    }

    /// The kept records that have it, as far as they are indexed.
    pub(super) fn kept_copy(&self, partition: PartitionId, head: Head) -> Option<Place> {
        let index = &self.kept.get(&partition)?.index;
        index
            .is_whole()
            .then(|| index.find(head.index, head.byte))?
    }

    /// Whether the kept records of a partition are all known.
    fn is_indexed(&self, partition: PartitionId) -> bool {
        match self.kept.get(&partition) {
            Some(of) => of.index.is_whole(),
            None => self.of(partition).is_none_or(|of| of.kept().is_empty()),
        }
    }

    /// Whether nothing but newer places says where a head is.
    pub(super) fn lacks_places(&self, partition: PartitionId, head: Head, asking: &Asking) -> bool {
        let doubt = asking.standing(head).and_then(|it| it.doubt);
        self.generation == 0
            || self.awaits(doubt)
            || self.is_indexed(partition)
            || self.find(partition, head.index).is_some()
    }

    /// The index of a partition that is to be made; none: it is.
    pub(super) fn unfinished(&mut self, partition: PartitionId) -> Option<&mut KeptIndex> {
        if self.is_indexed(partition) {
            return None;
        }
        let kept = self.places.places.of(partition)?.kept();
        let of = self.kept.entry(partition).or_insert_with(|| {
            let mut of = Indexed {
                is_wanted: true,
                ..Indexed::default()
            };
            of.index.refresh(kept);
            of
        });
        Some(&mut of.index)
    }

    /// Whether the entry of that index which is in hand is the one that counts: one that was replaced is before its place.
    pub(super) fn counts(&self, partition: PartitionId, index: LogIndex, hand: &Hand) -> bool {
        match self.find(partition, index) {
            Some(Found::From(place)) => {
                !hand.is_joined
                    && place <= hand.place
                    && place.segment == hand.place.segment
                    && hand.place.offset - place.offset < REACH
            }
            Some(Found::Pieces(places)) => hand.is_joined && places.first() == Some(&hand.place),
            None => false,
        }
    }

    /// Where the first head is that is not before a stop.
    pub(super) fn ahead(
        &self,
        partition: PartitionId,
        asking: &Asking,
        from: Stop,
    ) -> Option<Stop> {
        let entries = self.entries_ahead(partition, asking, from);
        let kept = asking
            .kept
            .range((from.place, Head::first_of(LogIndex(0)))..);
        let kept = kept.map(|(place, _)| Stop {
            place: *place,
            what: What::Batch,
        });
        entries
            .into_iter()
            .chain(kept.filter(|it| *it >= from).take(1))
            .min()
    }

    fn entries_ahead(&self, partition: PartitionId, asking: &Asking, from: Stop) -> Option<Stop> {
        let of = self.of(partition)?;
        asking.entries.first()?;
        for run in of.runs_from(from.place) {
            let what = match run.in_pieces {
                true => What::Pieces,
                false => What::Batch,
            };
            let stop = Stop {
                place: run.place,
                what,
            };
            if stop < from {
                continue;
            }
            let head = asking.entries.range(Head::first_of(run.first)..).next()?;
            if head.index <= run.last {
                return Some(stop);
            }
            if run.place > from.place {
                // All that follows is behind: where this one is says enough.
                return match of.find(head.index)? {
                    Found::From(place) => Some(Stop {
                        place,
                        what: What::Batch,
                    }),
                    Found::Pieces(places) => Some(Stop {
                        place: *places.first()?,
                        what: What::Pieces,
                    }),
                };
            }
        }
        None
    }

    /// The places of an entry in pieces, the first of them there, of which somebody wants something.
    pub(super) fn pieces_at(
        &self,
        partition: PartitionId,
        asking: &Asking,
        at: Place,
    ) -> Option<(LogIndex, Vec<Place>)> {
        let of = self.of(partition)?;
        let runs = of.runs_from(at).take_while(|run| run.place == at);
        let mut joined = runs.filter(|run| run.in_pieces);
        let run = joined.find(|run| {
            let heads = Head::first_of(run.first)..=Head::last_of(run.first);
            asking.entries.range(heads).next().is_some()
        })?;
        match of.find(run.first)? {
            Found::Pieces(places) => Some((run.first, places.to_vec())),
            Found::From(_) => None,
        }
    }
}
