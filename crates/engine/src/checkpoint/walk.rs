//! The walk over all that nobody has touched since the checkpoint began, a slice at a time.

use courser_contract::{PartitionId, Seq};

use super::{
    items::Part,
    save::{OpenSet, Saving},
    unit::Names,
};
use crate::{ids::PLACES_MAX, state::State};

/// What it costs to look at something, in bytes written: places that are empty or done are not free.
const VISIT: usize = 16;
/// The same of a record that is named: it is looked at where it is, and most are in no cache.
const NAME: usize = 4;
/// Topics of a unit.
const TOPICS_STEP: usize = 16;
/// Bytes of them from which on it takes no more.
const TOPICS_BYTES: usize = 1_024;

/// Where the walk is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Walk {
    /// At this target set.
    Sets(u32),
    /// At this place of the sessions' table, at a position of the stream there.
    Sessions(u32, u64),
    /// The same of groups.
    Groups(u32, u64),
    /// Behind this topic; none: before all.
    Retained(Option<Box<str>>),
    /// At this position of this outbox.
    Outboxes(PartitionId, Seq),
    /// At this request.
    Leaves(u64),
    /// At its end.
    Done,
}

impl Default for Walk {
    fn default() -> Self {
        Self::Sets(0)
    }
}

impl Saving {
    /// Goes on until about `budget` bytes are written. The head of a session or group is not cut, nor eight references of a stream, nor an item of a
    /// list: at most what that takes comes on top.
    pub(super) fn walk(&mut self, state: &mut State, budget: usize) {
        let mut spent = 0;
        while spent < budget && self.walk != Walk::Done {
            let names = self.needed.names;
            spent += VISIT + self.step(state);
            spent += NAME * (self.needed.names - names) as usize;
        }
    }

    fn step(&mut self, state: &mut State) -> usize {
        if !self.open_sets.is_empty() {
            return self.set();
        }
        if let Some(bytes) = self.walk_gone() {
            return bytes;
        }
        match self.walk.clone() {
            Walk::Sets(set) => self.walk_sets(state, set),
            Walk::Sessions(place, from) => self.walk_sessions(state, place, from),
            Walk::Groups(place, from) => self.walk_groups(state, place, from),
            Walk::Retained(after) => self.walk_retained(state, after.as_deref()),
            Walk::Outboxes(to, from) => self.walk_outboxes(state, to, from),
            Walk::Leaves(from) => self.walk_leaves(state, from),
            Walk::Done => 0,
        }
    }

    fn walk_sets(&mut self, state: &State, set: u32) -> usize {
        let Some(targets) = state.sets.get(set as usize) else {
            self.walk = Walk::Sessions(0, 0);
            return 0;
        };
        self.walk = Walk::Sets(set + 1);
        if !self.new_sets.remove(&set)
            && let Some(targets) = targets
        {
            let targets = targets.clone();
            self.open_sets.push(OpenSet {
                set,
                targets,
                from: 0,
            });
        }
        0
    }

    fn walk_sessions(&mut self, state: &mut State, place: u32, from: u64) -> usize {
        if place >= PLACES_MAX || place as usize >= state.sessions.places() {
            self.walk = Walk::Groups(0, 0);
            return 0;
        }
        let names = Names {
            records: &state.records,
            looks: &state.looks,
        };
        if let Some(session) = state.sessions.at_mut(place) {
            if !session.saved.has(self.mark, Part::Head) {
                return self.session(session);
            }
            if let Some(bytes) = self.rest_of_session(session) {
                return bytes;
            }
            let uid = session.uid.0;
            if let Some((bytes, next)) = self.next_chunk(uid, &mut session.stream, from, names) {
                self.walk = Walk::Sessions(place, next);
                return bytes;
            }
        }
        self.walk = Walk::Sessions(place + 1, 0);
        0
    }

    fn walk_groups(&mut self, state: &mut State, place: u32, from: u64) -> usize {
        if place >= PLACES_MAX || place as usize >= state.groups.places() {
            self.walk = Walk::Retained(None);
            return 0;
        }
        let names = Names {
            records: &state.records,
            looks: &state.looks,
        };
        if let Some((number, group)) = state.groups.numbered_at_mut(place) {
            if !group.saved.has(self.mark, Part::Head) {
                return self.group(number, group);
            }
            if let Some(bytes) = self.rest_of_group(number, group) {
                return bytes;
            }
            if let Some((bytes, next)) = self.next_chunk(number, &mut group.stream, from, names) {
                self.walk = Walk::Groups(place, next);
                return bytes;
            }
        }
        self.walk = Walk::Groups(place + 1, 0);
        0
    }

    fn walk_retained(&mut self, state: &State, after: Option<&str>) -> usize {
        let names = Names {
            records: &state.records,
            looks: &state.looks,
        };
        let mut bytes = 0;
        let few = state.retained.after(after).take(TOPICS_STEP);
        let few = few.take_while(|(topic, _)| {
            let has_room = bytes < TOPICS_BYTES;
            bytes += topic.len();
            has_room
        });
        let topics: Vec<_> = few.collect();
        let Some((last, _)) = topics.last() else {
            self.walk = Walk::Outboxes(PartitionId(0), Seq(0));
            return 0;
        };
        self.walk = Walk::Retained(Some(last.as_str().into()));
        let begun = self.index;
        let looked = topics.len() * VISIT;
        let old = topics.iter();
        let old = old.filter(|(_, slot)| names.records.address(*slot).index <= begun);
        let old: Vec<_> = old.map(|(topic, slot)| (topic.as_str(), *slot)).collect();
        match old.is_empty() {
            true => looked,
            false => looked + self.retained(old, names),
        }
    }

    fn walk_outboxes(&mut self, state: &State, to: PartitionId, from: Seq) -> usize {
        let Some((&to, &end)) = self.outboxes.range(to..).next() else {
            self.walk = Walk::Leaves(0);
            return 0;
        };
        let names = Names {
            records: &state.records,
            looks: &state.looks,
        };
        let outbox = state.outboxes.get(to);
        let next = outbox.and_then(|outbox| outbox.next_from(from));
        match next.filter(|(seq, _)| *seq < end) {
            Some((seq, forward)) => {
                self.walk = Walk::Outboxes(to, Seq(seq.0 + 1));
                self.forward(to, seq, forward, names)
            }
            None => {
                self.walk = match to.0.checked_add(1) {
                    Some(next) => Walk::Outboxes(PartitionId(next), Seq(0)),
                    None => Walk::Leaves(0),
                };
                0
            }
        }
    }

    fn walk_leaves(&mut self, state: &State, from: u64) -> usize {
        let next = self
            .last_leave
            .filter(|&last| from <= last)
            .and_then(|last| state.leaves.range(from..=last).next());
        match next {
            Some((&request, leaving)) => {
                self.walk = Walk::Leaves(request + 1);
                self.leave(request, leaving)
            }
            None => {
                self.walk = Walk::Done;
                0
            }
        }
    }
}
