//! Connections that came with a token, by when it ends.

use std::collections::BTreeSet;

use courser_contract::{FrontId, Tick};

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Ends(BTreeSet<(Tick, FrontId)>);

impl Ends {
    pub(crate) fn insert(&mut self, ends: Tick, front: FrontId) {
        self.0.insert((ends, front));
    }

    pub(crate) fn remove(&mut self, ends: Tick, front: FrontId) {
        self.0.remove(&(ends, front));
    }

    /// When the next one is at its end; in the past when [`take`](Self::take) has left some.
    pub(crate) fn next(&self) -> Option<Tick> {
        self.0.first().map(|(ends, _)| *ends)
    }

    /// Takes out those at their end by now, the earliest first, `max` at most.
    pub(crate) fn take(&mut self, now: Tick, max: usize) -> Vec<FrontId> {
        let mut taken = Vec::new();
        while taken.len() < max
            && let Some((ends, front)) = self.0.pop_first()
        {
            if ends > now {
                self.0.insert((ends, front));
                break;
            }
            taken.push(front);
        }
        taken
    }
}
