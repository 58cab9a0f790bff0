//! What has come to its end in a group.

use courser_contract::{HomeRef, Seq};

/// What has come to its end since the caller asked.
#[derive(Clone, Debug, Default)]
pub(crate) struct News {
    /// Deliveries of QoS 2, with their members: the packet ids are free when that is committed (M31).
    pub(crate) finished: Vec<(HomeRef, Seq)>,
    /// Deliveries of QoS 2 whose packet ids nothing was sent with: they are free when it is committed that they are not wanted.
    pub(crate) unsent: Vec<(HomeRef, Seq)>,
    /// Sessions that have left, when nothing more is under way with them.
    pub(crate) cleared: Vec<HomeRef>,
}

impl News {
    /// Whether there is none.
    pub(crate) const fn is_empty(&self) -> bool {
        self.finished.is_empty() && self.unsent.is_empty() && self.cleared.is_empty()
    }
}
