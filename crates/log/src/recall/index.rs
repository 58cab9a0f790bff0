//! Making the indexes of kept records, for all partitions that need one at once.

use std::time::Duration;

use courser_contract::PartitionId;

use super::{RecordReader, SWEEP, hand::Hand, run::READ_BYTES_MAX, wants::Generation};
use crate::{disk::Disk, ids::Place};

/// A batch with kept records that could not be read.
#[derive(Debug, Default)]
pub(super) struct Indexing {
    unreadable: Option<(Place, Generation)>,
}

impl Indexing {
    /// Whether newer places than these must say whether it still counts.
    pub(super) fn is_stuck(&self, generation: Generation) -> bool {
        self.unreadable.is_some_and(|(_, of)| of >= generation)
    }
}

impl<D: Disk> RecordReader<D> {
    /// Reads some batches with kept records if there is need. False: there is none.
    pub(super) fn index(&mut self, now: Duration) -> bool {
        if self.indexing.is_stuck(self.known.generation) {
            return false;
        }
        let known = &mut self.known;
        let asking = self.askings.iter().filter(|(_, it)| !it.unknown.is_empty());
        let wanting = asking.filter(|(id, it)| {
            let mut unknown = it.unknown.iter();
            unknown.any(|head| !known.lacks_places(**id, *head, it))
        });
        let wanting: Vec<PartitionId> = wanting.map(|(id, _)| *id).collect();
        if wanting.is_empty() {
            return false;
        }
        self.sweep.get_or_insert(now + SWEEP);
        let before = self.aside.read_bytes();
        self.aside.set_ahead(READ_BYTES_MAX);
        while self.aside.read_bytes() < before + READ_BYTES_MAX {
            let missing = wanting
                .iter()
                .filter_map(|id| known.unfinished(*id)?.next_missing());
            let Some(place) = missing.min() else {
                break;
            };
            let mut read = self.aside.batch(place);
            if read.is_err() {
                self.aside.close();
                read = self.aside.batch(place);
            }
            let batch = match read {
                Ok((batch, check)) => Some(Hand::new(place, &batch, check)),
                Err(fault) if fault.is_passing() => {
                    self.hold_up_for(fault.of(place, wanting[0], super::FIRST), now);
                    return true;
                }
                Err(_) if self.indexing.unreadable.is_none_or(|(at, _)| at != place) => {
                    self.indexing.unreadable = Some((place, known.newest()));
                    return true;
                }
                // By newer places too: what it had counts as nowhere.
                Err(fault) => {
                    self.error = Some(fault.of(place, wanting[0], super::FIRST));
                    None
                }
            };
            for id in &wanting {
                if let Some(index) = known.unfinished(*id) {
                    index.add(place, batch.as_ref().map(|batch| (batch, *id)));
                }
            }
        }
        let known = &self.known;
        for id in wanting {
            if let Some(asking) = self.askings.get_mut(&id) {
                asking.place_unknown(|head, standing| known.spot(id, head, standing));
                self.changed.insert(id);
            }
        }
        true
    }
}
