//! The state machine of a partition: streams, sessions, retained messages.
//!
//! A [`Partition`] is driven by `handle_*` calls and asks for effects through
//! [`PartitionEffects`](courser_contract::PartitionEffects). It knows no socket, file, clock or thread.
//!
//! The leader decides (rights, limits, targets, time) when something is asked, and writes what it decided as facts into the
//! entry that it gathers; [`Partition::take_entry`] hands the entry out, and once it is committed,
//! [`Partition::handle_committed`] applies it, which reads nothing but state and entry and cannot fail (M4). Answers and
//! deliveries leave only then (M9).
#![forbid(unsafe_code)]

#[allow(dead_code, unused_imports, reason = "not yet called by the partition")]
pub(crate) mod canonical;
mod config;
#[allow(dead_code, unused_imports, reason = "not yet called by the partition")]
pub(crate) mod due;
#[allow(dead_code, unused_imports, reason = "not yet called by the partition")]
pub(crate) mod group;
#[allow(dead_code, unused_imports, reason = "not yet called by the partition")]
pub(crate) mod origins;
#[allow(dead_code, unused_imports, reason = "not yet called by the partition")]
pub(crate) mod outbox;
mod partition;
#[allow(dead_code, unused_imports, reason = "not yet called by the partition")]
pub(crate) mod retained;
#[allow(dead_code, unused_imports, reason = "not yet called by the partition")]
pub(crate) mod seq_table;

pub use config::{Counts, Limits, Overflow, PartitionConfig};
pub use partition::Partition;
