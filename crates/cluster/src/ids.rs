//! Which node.

/// A node of the cluster, 0 to 65,534. Numbers are given once and never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u16);

impl NodeId {
    /// Its number in the consensus library and in votes on disk, where 0 means nobody.
    pub(crate) const fn raft_id(self) -> u64 {
        self.0 as u64 + 1
    }

    /// The node of such a number; none for nobody and for numbers that no node has.
    pub(crate) fn of_raft_id(id: u64) -> Option<Self> {
        u16::try_from(id.checked_sub(1)?).ok().map(Self)
    }
}
