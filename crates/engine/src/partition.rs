//! What happens to a partition: every event in one place, each handed to the part that it concerns.

use bytes::Bytes;
use courser_contract::{
    Append, IndexToken, Now, PartitionEffects, PartitionId, Term, Tick, ToHome, ToPartition,
};

use crate::{Counts, PartitionConfig};

/// One log's state machine, see the crate.
#[derive(Debug)]
pub struct Partition {
    config: PartitionConfig,
}

impl Partition {
    /// An empty partition. A volatile one serves at once; the others follow until [`handle_leader`](Self::handle_leader).
    #[must_use]
    pub fn new(config: PartitionConfig) -> Self {
        Self { config }
    }

    /// Its configuration.
    #[must_use]
    pub fn config(&self) -> &PartitionConfig {
        &self.config
    }

    /// A publish that L1 sent here.
    pub fn handle_append(&mut self, now: Now, append: &Append<'_>, fx: &mut impl PartitionEffects) {
        let _ = (now, append, fx);
    }

    /// A message of a front.
    pub fn handle_home(&mut self, now: Now, message: ToHome, fx: &mut impl PartitionEffects) {
        let _ = (now, message, fx);
    }

    /// A message of a partition.
    pub fn handle_partition(
        &mut self,
        now: Now,
        from: PartitionId,
        message: ToPartition,
        fx: &mut impl PartitionEffects,
    ) {
        let _ = (now, from, message, fx);
    }

    /// Every shard uses the index with this change (M38).
    pub fn handle_index_confirmed(
        &mut self,
        now: Now,
        token: IndexToken,
        fx: &mut impl PartitionEffects,
    ) {
        let _ = (now, token, fx);
    }

    /// Every shard has pushed and settled what it had matched before the fence was asked for (M34).
    pub fn handle_fence(&mut self, now: Now, token: IndexToken, fx: &mut impl PartitionEffects) {
        let _ = (now, token, fx);
    }

    /// The moment of [`poll_timeout`](Self::poll_timeout) has come.
    pub fn handle_timeout(&mut self, now: Now, fx: &mut impl PartitionEffects) {
        let _ = (now, fx);
    }

    /// When [`handle_timeout`](Self::handle_timeout) is wanted.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Tick> {
        None
    }

    /// Whether [`take_entry`](Self::take_entry) would give an entry now.
    #[must_use]
    pub fn has_entry(&self) -> bool {
        false
    }

    /// The facts gathered so far as an entry to propose. Several may be under way.
    pub fn take_entry(&mut self, now: Now) -> Option<Bytes> {
        let _ = now;
        None
    }

    /// An entry is committed; in the order of [`take_entry`](Self::take_entry).
    pub fn handle_committed(&mut self, now: Now, entry: Bytes, fx: &mut impl PartitionEffects) {
        let _ = (now, entry, fx);
    }

    /// This partition leads from now on, in `term`.
    pub fn handle_leader(&mut self, now: Now, term: Term, fx: &mut impl PartitionEffects) {
        let _ = (now, term, fx);
    }

    /// This partition no longer leads: what was only reserved is dropped (M5).
    pub fn handle_follower(&mut self, now: Now, fx: &mut impl PartitionEffects) {
        let _ = (now, fx);
    }

    /// What the partition holds.
    #[must_use]
    pub fn counts(&self) -> Counts {
        Counts::default()
    }
}
