//! Batches that are read one behind the other. A place says only where to begin: the entry is in one of the batches from there on.
//!
//! Invariant: all batches from `start` to `at` were read or could not be, and `seen` has the last entry of each partition in those that were. What
//! was in the others is missed when something behind it comes.

use std::collections::BTreeMap;

use courser_contract::{LogIndex, PartitionId};

use super::{
    hand::Hand,
    wants::{Asking, Head},
};
use crate::{
    error::ReadError,
    ids::{Place, SegmentNumber},
    places::{Found, PartitionPlaces},
    read::BatchFault,
};

/// Bytes of a first read: little is lost when nothing near is wanted.
pub(super) const READ_BYTES_MIN: u64 = 64 << 10;
/// Bytes of a read when a run has gone on for some.
pub(super) const READ_BYTES_MAX: u64 = 512 << 10;

/// See the module.
#[derive(Debug)]
pub(super) struct Run {
    segment: SegmentNumber,
    start: u64,
    at: u64,
    next: u64,
    seen: BTreeMap<PartitionId, LogIndex>,
    pub(super) read_bytes: u64,
    /// The last batch that could not be read, and why.
    fault: Option<(Place, BatchFault)>,
}

impl Run {
    pub(super) const fn new(from: Place) -> Self {
        Self {
            segment: from.segment,
            start: from.offset,
            at: from.offset,
            next: from.offset,
            seen: BTreeMap::new(),
            read_bytes: READ_BYTES_MIN,
            fault: None,
        }
    }

    /// Where it goes on.
    pub(super) const fn next(&self) -> Place {
        Place {
            segment: self.segment,
            offset: self.next,
        }
    }

    /// Whether it goes on at a place: behind the last batch, or among those that it passes by since they cannot be read.
    pub(super) fn goes_on_at(&mut self, place: Place) -> bool {
        let is_ahead = place.offset == self.next
            || self.fault.is_some() && (self.at + 1..self.next).contains(&place.offset);
        let goes_on = place.segment == self.segment && is_ahead;
        if goes_on {
            self.next = place.offset;
        }
        goes_on
    }

    /// The batch at `next` was read, and takes so many bytes; 0: it could not be.
    pub(super) const fn advance(&mut self, bytes: u64) {
        self.at = self.next;
        self.next += bytes;
    }

    /// The batch at `next` could not be read; the next one that is intact is there.
    pub(super) fn pass(&mut self, next: Place, fault: BatchFault) {
        self.fault = Some((self.next(), fault));
        self.at = self.next;
        self.next = next.offset;
    }

    /// Why an entry that must have been in the run is missing, if a batch of it could not be read.
    pub(super) fn why(&self, partition: PartitionId, index: LogIndex) -> Option<ReadError> {
        let (place, fault) = self.fault.as_ref()?;
        Some(fault.again().of(*place, partition, index))
    }

    /// Entries of a partition up to the last in hand were read.
    pub(super) fn saw(&mut self, partition: PartitionId, hand: &Hand) {
        if let Some(part) = hand.entries_of(partition).last() {
            self.seen.insert(partition, part.index);
        }
    }

    /// The first head that must come by reading on, with its place. One that was passed is not among them, nor one whose place is
    /// before the run, unless entries of its partition have shown that it is still to come.
    pub(super) fn expected(
        &self,
        partition: PartitionId,
        asking: &Asking,
        places: &PartitionPlaces,
    ) -> Option<(Head, Place)> {
        asking.entries.first()?;
        let start = Place {
            segment: self.segment,
            offset: self.start,
        };
        let mut from = match self.seen.get(&partition) {
            Some(last) => Head::first_of(LogIndex(last.0 + 1)),
            None => Head::first_of(places.runs_from(start).next()?.first),
        };
        loop {
            let head = *asking.entries.range(from..).next()?;
            match places.find(head.index)? {
                Found::From(place) => {
                    let is_here = place.segment == self.segment && place.offset <= self.at;
                    return is_here.then_some((head, place));
                }
                // It is read by its own places.
                Found::Pieces(_) => from = Head::first_of(LogIndex(head.index.0 + 1)),
            }
        }
    }

    /// Whether nothing that begins at a place is further behind.
    pub(super) const fn is_out_of_reach(&self, place: Place, reach: u64) -> bool {
        self.next.saturating_sub(place.offset) >= reach
    }
}
