//! The first level of matching (L1, M37): filter → partitions, one a process, written by shard 0.
//!
//! [`Routes`] is a shard's reader with its cache. Who already uses a published change, and when everything that was matched before a
//! moment is pushed and settled, is told by the books of `courser-shard`.

mod routes;

pub(crate) use routes::{Routes, Way};

use courser_contract::{IndexChange, IndexToken, PartitionId};

/// A change that a partition asks of the writer of L1.
#[derive(Debug)]
pub(crate) struct IndexRequest {
    /// Who asks, and where its filters lead.
    pub(crate) partition: PartitionId,
    /// Names the change in the confirmation.
    pub(crate) token: IndexToken,
    /// What changes.
    pub(crate) change: IndexChange,
}
