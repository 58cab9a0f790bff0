//! Where entries of durable partitions go until they are committed.
//!
//! A partition proposes an entry and goes on; the entry is applied once the store says that it is committed, in a later turn,
//! in the order of the proposals of that partition. What stands behind it (memory now, a log and its replicas later) is not
//! the shard's business.

use std::collections::VecDeque;

use bytes::Bytes;
use courser_contract::PartitionId;

/// Takes entries and says when they are committed.
pub(crate) trait Store {
    /// Takes an entry. It is never committed within this call.
    fn propose(&mut self, partition: PartitionId, entry: Bytes);

    /// Begins a turn: what was proposed in earlier turns may be committed in this one.
    fn begin_turn(&mut self);

    /// The next entry that is committed.
    fn next_committed(&mut self) -> Option<(PartitionId, Bytes)>;

    /// Whether a turn would find something committed.
    fn has_work(&self) -> bool;
}

/// Commits everything one turn later and keeps nothing: what the partitions have in memory is all there is.
#[derive(Debug, Default)]
pub(crate) struct InMemory {
    proposed: VecDeque<(PartitionId, Bytes)>,
    /// How many of them were proposed before this turn.
    ripe: usize,
}

impl Store for InMemory {
    fn propose(&mut self, partition: PartitionId, entry: Bytes) {
        self.proposed.push_back((partition, entry));
    }

    fn begin_turn(&mut self) {
        self.ripe = self.proposed.len();
    }

    fn next_committed(&mut self) -> Option<(PartitionId, Bytes)> {
        self.ripe = self.ripe.checked_sub(1)?;
        self.proposed.pop_front()
    }

    fn has_work(&self) -> bool {
        !self.proposed.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn m9_an_entry_commits_in_a_later_turn_and_in_order() {
        let mut store = InMemory::default();
        store.begin_turn();
        store.propose(PartitionId(1), Bytes::from_static(b"a"));
        assert_eq!(
            store.next_committed(),
            None,
            "never within the turn of its proposal"
        );
        assert!(store.has_work());
        store.begin_turn();
        store.propose(PartitionId(1), Bytes::from_static(b"b"));
        assert_eq!(
            store.next_committed(),
            Some((PartitionId(1), Bytes::from_static(b"a")))
        );
        assert_eq!(store.next_committed(), None);
        store.begin_turn();
        assert_eq!(
            store.next_committed(),
            Some((PartitionId(1), Bytes::from_static(b"b")))
        );
        assert!(!store.has_work());
    }
}
