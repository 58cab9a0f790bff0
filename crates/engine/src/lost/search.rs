//! A search for what needs certain records, in pieces: all that a partition stores, looked through at once, would hold up everybody else
//! (I10).

use courser_contract::{LogIndex, PartitionId, Seq};

use super::{LostReference, Places};
use crate::{
    Partition,
    record::{Address, Slot},
    state::State,
    stream::Stream,
};

/// A search for lost records that is under way.
#[derive(Debug)]
pub(crate) struct Search {
    /// Which losses there were when it began.
    losses: u64,
    at: At,
    found: Places,
}

/// Where a search for references has come to; see [`Partition::search_references`].
#[derive(Clone, Debug, Default)]
pub struct ReferenceSearch(At);

/// How far a walk has come.
#[derive(Clone, Debug)]
enum At {
    Sessions(AtStream),
    Groups(AtStream),
    /// It has looked at the retained messages up to a topic.
    Retained(Option<String>),
    /// At a position of the outbox to a partition, or of the next one behind it.
    Outboxes(PartitionId, Seq),
    /// At its end.
    Done,
}

/// A position of a stream: that with a number, if it is still at this place of a table.
#[derive(Clone, Copy, Debug, Default)]
struct AtStream {
    place: u32,
    number: u64,
    seq: u64,
}

impl Default for At {
    fn default() -> Self {
        Self::Sessions(AtStream::default())
    }
}

/// A part of a walk.
struct Part<'a, F> {
    state: &'a State,
    /// Places that may still be looked at.
    left: usize,
    is_meant: F,
    found: &'a mut Places,
}

impl At {
    /// Goes on. Returns whether it is at its end.
    fn go_on(&mut self, part: &mut Part<'_, impl Fn(Slot) -> bool>) -> bool {
        let State {
            sessions, groups, ..
        } = part.state;
        loop {
            *self = match self {
                Self::Done => return true,
                _ if part.left == 0 => return false,
                Self::Sessions(at) => {
                    let stream_at = |place| {
                        let (number, session) = sessions.numbered_at(place)?;
                        Some((number, &session.stream))
                    };
                    match part.search_streams(at, sessions.places(), stream_at) {
                        true => Self::Groups(AtStream::default()),
                        false => return false,
                    }
                }
                Self::Groups(at) => {
                    let stream_at = |place| {
                        let (number, group) = groups.numbered_at(place)?;
                        Some((number, &group.stream))
                    };
                    match part.search_streams(at, groups.places(), stream_at) {
                        true => Self::Retained(None),
                        false => return false,
                    }
                }
                Self::Retained(behind) => part.search_retained(behind.take()),
                Self::Outboxes(to, from) => part.search_outboxes(*to, *from),
            };
        }
    }
}

impl AtStream {
    const fn at(place: u32) -> Self {
        Self {
            place,
            number: 0,
            seq: 0,
        }
    }
}

impl<F: Fn(Slot) -> bool> Part<'_, F> {
    /// Looks at the streams of a table. Returns whether that was the last of them.
    fn search_streams<'s>(
        &mut self,
        at: &mut AtStream,
        places: usize,
        stream_at: impl Fn(u32) -> Option<(u64, &'s Stream)>,
    ) -> bool {
        while (at.place as usize) < places {
            if self.left == 0 {
                return false;
            }
            self.left -= 1;
            let Some((number, stream)) = stream_at(at.place) else {
                *at = AtStream::at(at.place + 1);
                continue;
            };
            if number != at.number {
                (at.number, at.seq) = (number, 0);
            }
            let Some((seq, reference)) = stream.next_reference(at.seq) else {
                *at = AtStream::at(at.place + 1);
                continue;
            };
            at.seq = seq + 1;
            if (self.is_meant)(reference.slot) && !self.state.is_received(number, seq) {
                self.found.streams.push((number, seq, reference.slot));
            }
        }
        true
    }

    /// Goes on behind a topic.
    fn search_retained(&mut self, behind: Option<String>) -> At {
        let mut last = None;
        for (topic, slot) in self.state.retained.after(behind.as_deref()) {
            if self.left == 0 {
                return At::Retained(last.or(behind));
            }
            self.left -= 1;
            if (self.is_meant)(slot) {
                self.found.retained.push((topic.as_str().into(), slot));
            }
            last = Some(topic);
        }
        At::Outboxes(PartitionId(0), Seq(0))
    }

    /// Goes on at a position of an outbox.
    fn search_outboxes(&mut self, mut to: PartitionId, mut from: Seq) -> At {
        while let Some((next, outbox)) = self.state.outboxes.next_from(to) {
            if next != to {
                (to, from) = (next, Seq(0));
            }
            if self.left == 0 {
                return At::Outboxes(to, from);
            }
            self.left -= 1;
            if let Some((seq, forward)) = outbox.next_from(from) {
                from = Seq(seq.0 + 1);
                if (self.is_meant)(forward.item.slot) {
                    self.found.forwards.push((to, seq, forward.item.slot));
                }
                continue;
            }
            let Some(behind) = to.0.checked_add(1) else {
                break;
            };
            (to, from) = (PartitionId(behind), Seq(0));
        }
        At::Done
    }
}

impl Places {
    /// Leaves out what has ended, or is received, since it was found.
    fn forget_ended(&mut self, state: &State) {
        let is_lost = |slot: Slot| state.records.is_tombstone(slot);
        self.streams.retain(|(number, seq, slot)| {
            let reference = state.stream_of(*number).and_then(|it| it.get(*seq));
            let is_there = reference.is_some_and(|it| it.slot == *slot);
            is_there && is_lost(*slot) && !state.is_received(*number, *seq)
        });
        self.retained
            .retain(|(topic, slot)| state.retained.get(topic) == Some(*slot) && is_lost(*slot));
        self.forwards.retain(|(to, seq, slot)| {
            let forward = state.outboxes.get(*to).and_then(|it| it.get(*seq));
            forward.is_some_and(|it| it.item.slot == *slot) && is_lost(*slot)
        });
    }
}

impl Partition {
    /// As [`lost`](Self::lost), by calls that each look at so many places at the most: `None` until one is through. With what was found
    /// comes what [`losses`](Self::losses) said when the search began; what was lost since then may be missing.
    pub fn search_lost(&mut self, steps: usize) -> Option<(u64, Vec<LostReference>)> {
        let state = &self.state;
        if state.records.tombstones() == 0 {
            self.search = None;
            return Some((self.losses(), Vec::new()));
        }
        let mut search = self.search.take().unwrap_or_else(|| {
            Box::new(Search {
                losses: state.records.losses(),
                at: At::default(),
                found: Places::default(),
            })
        });
        let Search { at, found, .. } = &mut *search;
        let is_through = at.go_on(&mut Part {
            state,
            left: steps.max(1),
            is_meant: |slot| state.records.is_tombstone(slot),
            found,
        });
        if !is_through {
            self.search = Some(search);
            return None;
        }
        search.found.forget_ended(state);
        Some((search.losses, self.named(search.found)))
    }

    /// Places that need a record of which `is_meant`, told by its entry and the byte of it at which the record begins: for a damage that was
    /// found there. Looks at so many places at the most, and returns those of them with where to go on; none: that was all. What comes or
    /// ends between two calls may be among what was found or not.
    #[must_use]
    pub fn search_references(
        &self,
        from: ReferenceSearch,
        steps: usize,
        is_meant: impl Fn(LogIndex, u32) -> bool,
    ) -> (Vec<LostReference>, Option<ReferenceSearch>) {
        let ReferenceSearch(mut at) = from;
        let mut found = Places::default();
        let is_through = at.go_on(&mut Part {
            state: &self.state,
            left: steps.max(1),
            is_meant: |slot| {
                let Address { index, ordinal } = self.state.records.address(slot);
                is_meant(LogIndex(index), ordinal)
            },
            found: &mut found,
        });
        let next = (!is_through).then_some(ReferenceSearch(at));
        (self.named(found), next)
    }
}
