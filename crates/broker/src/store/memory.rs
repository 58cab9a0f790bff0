//! A store that keeps nothing.

use std::collections::VecDeque;

use bytes::Bytes;
use courser_contract::PartitionId;

use super::{Store, Stored};

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

    fn next(&mut self) -> Option<Stored> {
        self.ripe = self.ripe.checked_sub(1)?;
        let (partition, entry) = self.proposed.pop_front()?;
        Some(Stored::Unlogged(partition, entry))
    }

    fn end_turn(&mut self) {}

    fn has_work(&self) -> bool {
        !self.proposed.is_empty()
    }

    fn is_quiet(&self) -> bool {
        self.proposed.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARTITION: PartitionId = PartitionId(1);

    fn committed(entry: &'static [u8]) -> Option<Stored> {
        Some(Stored::Unlogged(PARTITION, Bytes::from_static(entry)))
    }

    #[test]
    fn m9_an_entry_commits_in_a_later_turn_and_in_order() {
        let mut store = InMemory::default();
        store.begin_turn();
        store.propose(PARTITION, Bytes::from_static(b"a"));
        assert_eq!(store.next(), None, "never within the turn of its proposal");
        assert!(store.has_work() && !store.is_quiet());
        store.begin_turn();
        store.propose(PARTITION, Bytes::from_static(b"b"));
        assert_eq!(store.next(), committed(b"a"));
        assert_eq!(store.next(), None);
        store.begin_turn();
        assert_eq!(store.next(), committed(b"b"));
        assert!(!store.has_work() && store.is_quiet());
    }
}
