//! Bugs of consensus that tests must find: without the feature `planted` nothing of them is there.

use super::Group;

/// A duty of a group that is not done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlantedConsensus {
    /// A follower says that it has entries, and a voter that it has voted, before that is durable.
    ClaimBeforeSync,
    /// Of term and vote only the term is written.
    VoteForgotten,
    /// A leader counts its own entries for a majority when they are written, not when they are durable.
    CommitUnsynced,
    /// Word that some records are durable counts for all that were handed out.
    PersistedTooFar,
    /// Records are handed out in reverse.
    RecordsReversed,
    /// A leader says so when it is elected, before it has handed over what was committed before its term (M5).
    LeadsAtOnce,
}

impl Group {
    /// Plants a bug. For tests that must find it.
    #[cfg(feature = "planted")]
    pub const fn plant(&mut self, planted: PlantedConsensus) {
        self.planted = Some(planted);
    }

    /// Whether this bug is planted: never without the feature.
    pub(super) fn is_planted(&self, planted: PlantedConsensus) -> bool {
        cfg!(feature = "planted") && self.planted == Some(planted)
    }
}
