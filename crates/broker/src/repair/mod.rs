//! Damage: which partitions are set aside at a start, what the operator has ordered, and what stays stopped (M39, M44, M50).
//!
//! ```text
//! log, checkpoints ─┐
//! DATA/crash ───────┼─▶ judge ─▶ fate of each partition ─▶ shards
//! DATA/repair ──────┘
//! ```
//! - [`orders`]: what the operator has ordered with `courser repair`.
//! - [`crash`]: which entries have made the program panic.
//! - [`judge`]: what follows for a partition.
//! - [`state`]: what a running broker says of all that.
//! - [`offline`]: the same for a folder that nobody serves.

pub(crate) mod crash;
pub(crate) mod judge;
pub(crate) mod offline;
pub(crate) mod orders;
pub(crate) mod state;

pub use judge::{Behind, Fault, LostEntries};
pub use offline::{Examined, Finding, RepairError, Standing, Verb, examine, repair};
pub use orders::{Cause, Order};
pub use state::{Accepted, NodeState, RottenFile, RottenPlace, SetAside, StoppedStream};
