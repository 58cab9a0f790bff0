//! What is not where it should be: doubted first, lost when newer places say the same.

use courser_contract::{LogIndex, PartitionId};

use super::{
    RecordReader,
    known::{Known, REACH, Stop, What},
    wants::{Asking, Doubt, Head},
};
use crate::{disk::Disk, error::ReadError, ids::Place, places::Found, read::BatchFault};

/// Heads of one partition that are not where they should be, all for one reason.
pub(super) struct Doubts {
    partition: PartitionId,
    /// One of them is so by newer places too: the others that were asked for before those need not be looked for again.
    is_confirmed: bool,
    /// Why they are not.
    pub(super) error: Option<ReadError>,
}

impl Doubts {
    pub(super) const fn new(partition: PartitionId) -> Self {
        Self {
            partition,
            is_confirmed: false,
            error: None,
        }
    }

    /// What is in a batch at a place is not what was written.
    pub(super) fn damaged(&mut self, place: Place, index: LogIndex) {
        let partition = self.partition;
        self.error = Some(ReadError::Damaged {
            place,
            partition,
            index,
        });
    }

    /// Remembers why something was lost, if something was.
    pub(super) fn tell(self, error: &mut Option<ReadError>) {
        if self.is_confirmed && self.error.is_some() {
            *error = self.error;
        }
    }
}

/// A head that is not where it should be.
pub(super) struct Missed {
    pub(super) head: Head,
    /// Where places say that it is, or begins to be looked for.
    pub(super) at: Place,
    /// That is among kept records.
    pub(super) is_kept: bool,
}

/// What is missing where a batch cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Missing {
    /// What can only be in that batch. What may be in it is missing when what lies behind it comes.
    There,
    /// All that must be in it or behind it: nothing is read on from there.
    Behind,
}

/// Doubts a head, which is in no set any more; or loses it.
pub(super) fn fail(doubts: &mut Doubts, known: &Known, asking: &mut Asking, missed: &Missed) {
    let partition = doubts.partition;
    let Missed { head, at, is_kept } = *missed;
    let Some(standing) = asking.standing(head) else {
        return;
    };
    let was_doubted = standing
        .doubt
        .is_some_and(|it| it.by < known.generation && it.at == at);
    let is_same = doubts.is_confirmed && standing.asked < known.generation;
    if !was_doubted && !is_same {
        let by = known.newest();
        return asking.doubt(head, Doubt { by, at });
    }
    doubts.is_confirmed = true;
    // A cleaner may have moved it before this one was damaged.
    if let Some(place) = known.kept_copy(partition, head).filter(|_| !is_kept) {
        asking.kept.insert((place, head));
        return;
    }
    asking.lose_head(head);
    asking.place(head.stream, |head, standing| {
        known.spot(partition, head, standing)
    });
}

impl Known {
    /// Where heads are that were not where older places said.
    pub(super) fn doubted(&self, partition: PartitionId, asking: &Asking) -> Option<Stop> {
        let stops =
            asking
                .doubted()
                .filter_map(|head| match self.of(partition)?.find(head.index)? {
                    Found::From(place) => Some(Stop {
                        place,
                        what: What::Batch,
                    }),
                    Found::Pieces(places) => Some(Stop {
                        place: *places.first()?,
                        what: What::Pieces,
                    }),
                });
        let kept = asking
            .doubted()
            .filter_map(|head| self.kept_copy(partition, head));
        let kept = kept.map(|place| Stop {
            place,
            what: What::Batch,
        });
        stops.chain(kept).min()
    }
}

impl<D: Disk> RecordReader<D> {
    /// A batch cannot be read: what must be there is missing.
    pub(super) fn fail_at(&mut self, place: Place, fault: &BatchFault, missing: Missing) {
        let (Some(run), known) = (&self.run, &self.known) else {
            return;
        };
        for (partition, asking) in self.askings.iter_mut().filter(|(_, it)| it.has_room()) {
            let Some(places) = known.of(*partition) else {
                continue;
            };
            let mut doubts = Doubts::new(*partition);
            loop {
                let all = (place, Head::first_of(LogIndex(0)))..;
                let kept = asking
                    .kept
                    .range(all)
                    .next()
                    .filter(|(at, _)| *at == place)
                    .copied();
                let expected = match missing {
                    Missing::There => None,
                    Missing::Behind => run.expected(*partition, asking, places),
                };
                let failed = match expected {
                    Some((head, at)) => {
                        asking.entries.remove(&head);
                        Missed {
                            head,
                            at,
                            is_kept: false,
                        }
                    }
                    None => match kept {
                        Some(kept) => {
                            asking.kept.remove(&kept);
                            Missed {
                                head: kept.1,
                                at: place,
                                is_kept: true,
                            }
                        }
                        None => break,
                    },
                };
                let index = failed.head.index;
                let why = run.why(*partition, index).filter(|_| !failed.is_kept);
                doubts.error = why.or_else(|| Some(fault.again().of(place, *partition, index)));
                fail(&mut doubts, known, asking, &failed);
            }
            doubts.tell(&mut self.error);
        }
    }

    /// An entry in pieces cannot be read.
    pub(super) fn fail_entry(
        &mut self,
        at: Place,
        (partition, index): (PartitionId, LogIndex),
        error: ReadError,
    ) {
        let Some(asking) = self.askings.get_mut(&partition) else {
            return;
        };
        let mut doubts = Doubts::new(partition);
        doubts.error = Some(error);
        let all = Head::first_of(index)..=Head::last_of(index);
        while let Some(head) = asking.entries.range(all.clone()).next().copied() {
            asking.entries.remove(&head);
            let missed = Missed {
                head,
                at,
                is_kept: false,
            };
            fail(&mut doubts, &self.known, asking, &missed);
        }
        doubts.tell(&mut self.error);
    }

    /// What should have come by now and has not is not there. True: then something that is in hand may be wanted.
    pub(super) fn fail_passed(&mut self) -> bool {
        let (Some(run), Some(hand), known) = (&self.run, &self.hand, &self.known) else {
            return false;
        };
        let mut has_failed = false;
        for (partition, asking) in self.askings.iter_mut().filter(|(_, it)| it.has_room()) {
            let Some(places) = known.of(*partition) else {
                continue;
            };
            let parts = hand.entries_of(*partition);
            let last = parts.last().map(|part| part.index);
            let mut doubts = Doubts::new(*partition);
            while let Some((head, from)) = run.expected(*partition, asking, places) {
                let is_here = parts
                    .binary_search_by_key(&head.index, |part| part.index)
                    .is_ok();
                let is_passed = last.is_some_and(|last| head.index <= last);
                if is_here || !is_passed && !run.is_out_of_reach(from, REACH) {
                    break;
                }
                has_failed = true;
                asking.entries.remove(&head);
                match run.why(*partition, head.index) {
                    Some(why) => doubts.error = Some(why),
                    None => doubts.damaged(from, head.index),
                }
                let missed = Missed {
                    head,
                    at: from,
                    is_kept: false,
                };
                fail(&mut doubts, known, asking, &missed);
            }
            doubts.tell(&mut self.error);
        }
        has_failed
    }

    /// Entries in hand were read.
    pub(super) fn note_seen(&mut self) {
        if let (Some(run), Some(hand)) = (&mut self.run, &self.hand) {
            hand.each_partition(|partition| run.saw(partition, hand));
        }
    }
}
