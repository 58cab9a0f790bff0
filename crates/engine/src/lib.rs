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

mod after;
#[allow(
    dead_code,
    reason = "reading is for checkpoints, priorities for work queues"
)]
mod canonical;
mod check;
mod config;
mod deliver;
#[allow(
    dead_code,
    reason = "reading is for checkpoints, priorities for work queues"
)]
mod due;
mod entry;
#[allow(
    dead_code,
    reason = "reading is for checkpoints, priorities for work queues"
)]
mod group;
mod ids;
mod l2;
mod lead;
mod look;
#[allow(
    dead_code,
    reason = "reading is for checkpoints, priorities for work queues"
)]
mod origins;
#[allow(
    dead_code,
    reason = "reading is for checkpoints, priorities for work queues"
)]
mod outbox;
mod partition;
mod publish;
mod record;
#[allow(
    dead_code,
    reason = "reading is for checkpoints, priorities for work queues"
)]
mod retained;
mod scan;
#[allow(
    dead_code,
    reason = "reading is for checkpoints, priorities for work queues"
)]
mod seq_table;
mod session;
mod share;
mod state;
mod stream;
mod term;
mod timeouts;

pub use config::{Counts, Limits, Overflow, PartitionConfig};
pub use entry::EntryError;
pub use partition::Partition;
