//! A search for what needs lost records, in pieces: all that a partition stores, looked through at once, would hold up everybody else (I10).

use courser_contract::{PartitionId, Seq};

use super::{LostReference, Places};
use crate::{Partition, record::Slot, state::State};

/// A search that is under way.
#[derive(Debug)]
pub(crate) struct Search {
    /// Which losses there were when it began.
    losses: u64,
    at: At,
    found: Places,
}

/// How far it has come.
#[derive(Debug)]
enum At {
    /// Of these streams it is in the last one, at a position.
    Streams(Vec<u64>, u64),
    /// It has looked at the retained messages up to a topic.
    Retained(Option<String>),
    /// Of these outboxes it is in the last one, at a position.
    Outboxes(Vec<PartitionId>, Seq),
    /// At its end.
    Done,
}

impl Search {
    fn new(state: &State) -> Self {
        let mut streams = state.sessions.sorted();
        streams.extend(state.groups.sorted());
        Self {
            losses: state.records.losses(),
            at: At::Streams(streams, 0),
            found: Places::default(),
        }
    }

    /// Goes on for so many steps at the most. Returns whether it is at its end.
    fn go_on(&mut self, state: &State, steps: usize) -> bool {
        let mut left = steps;
        loop {
            left = match &mut self.at {
                At::Done => return true,
                _ if left == 0 => return false,
                At::Streams(..) => self.search_streams(state, left),
                At::Retained(_) => self.search_retained(state, left),
                At::Outboxes(..) => self.search_outboxes(state, left),
            };
        }
    }

    /// Returns how many of these steps are left.
    fn search_streams(&mut self, state: &State, mut left: usize) -> usize {
        let At::Streams(numbers, seq) = &mut self.at else {
            return left;
        };
        while left > 0
            && let Some(&number) = numbers.last()
        {
            left -= 1;
            let stream = state.stream_of(number);
            let next = stream.and_then(|it| it.next_reference(*seq));
            let (Some((at, reference)), Some(stream)) = (next, stream) else {
                numbers.pop();
                *seq = 0;
                continue;
            };
            *seq = at + 1;
            // Of an exchange of QoS 2 that the client has the message of, only the rest is needed.
            if state.records.is_tombstone(reference.slot) && !stream.is_received(at) {
                self.found.streams.push((number, at, reference.slot));
            }
        }
        if numbers.is_empty() {
            self.at = At::Retained(None);
        }
        left
    }

    fn search_retained(&mut self, state: &State, left: usize) -> usize {
        let At::Retained(behind) = &mut self.at else {
            return left;
        };
        let mut looked_at = 0;
        let mut last = None;
        for (topic, slot) in state.retained.after(behind.as_deref()).take(left) {
            looked_at += 1;
            if state.records.is_tombstone(slot) {
                let found = (topic.as_str().into(), slot);
                self.found.retained.push(found);
            }
            last = Some(topic);
        }
        self.at = match last.filter(|_| looked_at == left) {
            Some(topic) => At::Retained(Some(topic)),
            None => {
                let outboxes = state.outboxes.iter().map(|(to, _)| to);
                At::Outboxes(outboxes.collect(), Seq(0))
            }
        };
        left - looked_at
    }

    fn search_outboxes(&mut self, state: &State, mut left: usize) -> usize {
        let At::Outboxes(destinations, seq) = &mut self.at else {
            return left;
        };
        while left > 0
            && let Some(&to) = destinations.last()
        {
            left -= 1;
            let outbox = state.outboxes.get(to);
            let Some((at, forward)) = outbox.and_then(|it| it.next_from(*seq)) else {
                destinations.pop();
                *seq = Seq(0);
                continue;
            };
            *seq = Seq(at.0 + 1);
            if state.records.is_tombstone(forward.item.slot) {
                self.found.forwards.push((to, at, forward.item.slot));
            }
        }
        if destinations.is_empty() {
            self.at = At::Done;
        }
        left
    }
}

impl Places {
    /// Leaves out what has ended since it was found.
    fn forget_ended(&mut self, state: &State) {
        let is_lost = |slot: Slot| state.records.is_tombstone(slot);
        self.streams.retain(|(number, seq, slot)| {
            let reference = state.stream_of(*number).and_then(|it| it.get(*seq));
            reference.is_some_and(|it| it.slot == *slot) && is_lost(*slot)
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
        let begun = self.search.take();
        let mut search = begun.unwrap_or_else(|| Box::new(Search::new(state)));
        if !search.go_on(state, steps.max(1)) {
            self.search = Some(search);
            return None;
        }
        search.found.forget_ended(state);
        Some((search.losses, self.named(search.found)))
    }
}
