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

    /// Takes out the one that ended first, if it has by now.
    pub(crate) fn take(&mut self, now: Tick) -> Option<FrontId> {
        if self.next()? > now {
            return None;
        }
        self.0.pop_first().map(|(_, front)| front)
    }
}
