//! The state machine of a partition: streams, sessions, retained messages, shared groups.
//!
//! A [`Partition`] is driven by `handle_*` calls and asks for effects through
//! [`PartitionEffects`](courser_contract::PartitionEffects). It knows no socket, file, clock or thread.
//!
//! The leader decides (rights, limits, targets, time) when something is asked, and writes what it decided as facts into the
//! entry that it gathers; [`Partition::take_entry`] hands the entry out, and once it is committed,
//! [`Partition::handle_committed`] applies it, which reads nothing but state and entry and cannot fail (M4). Answers and
//! deliveries leave only then (M9).
//!
//! # How a shell drives it
//! - At the end of a turn, while [`Partition::has_entry`]: `take_entry`. A volatile partition gets it back at once (M13), the
//!   others when it is committed; applying may gather the next entry, so ask again.
//! - A partition with a log serves once the first entry of its term is applied (M5) and, if it has filters, L1 has confirmed
//!   them (M39). Appends that come before get no answer; after a change of leader the shard sends again what is unsettled.
//! - QoS 0, and publishes to volatile partitions that refuse nothing, carry no key and get no answer.
//! - [`Pace::Slow`] of an append: the publisher is not read for a moment (M12). A shell that has no way to do so may go on.
//! - A front stays in the shell's table until its attach is answered: a connection that is lost meanwhile detaches (or
//!   unclaims) then. A front whose [`AttachStage::Open`](courser_contract::AttachStage::Open) is refused unclaims.
//!
//! # Code map
//! | module | what |
//! |---|---|
//! | `partition` | every event, and who handles it |
//! | `entry` | facts and their bytes |
//! | `state` | what the log makes, fact by fact; canonical bytes; invariants |
//! | `lead` | what only the leader knows; `term`: how it begins and ends; `after`: what happens behind a commit |
//! | `publish`, `l2`, `room`, `route`, `deliver` | a message in, to whom, whether it fits, out |
//! | `session` | attach, detach, wills, subscriptions, QoS 2 coming in |
//! | `share`, `group` | shared subscriptions: home and group |
//! | `scan`, `retained` | retained messages |
//! | `record`, `stream`, `look` | where records are, who needs them, how deliveries look |
//! | `timeouts`, `due` | what comes with time |
//! | `aging` | what has waited or was retained for too long |
//! | `lost`, `aside` | records that the disk has lost; a partition that must not go on |
//! | `list` | what an operator sees, and what they may end |
//! | `checkpoint` | the state as it is at one place of the log, written in slices and read back |
#![forbid(unsafe_code)]

/// Of tests: they say what structs take.
#[cfg(test)]
#[global_allocator]
static ALLOCATOR: courser_memory::Counting<std::alloc::System> =
    courser_memory::Counting::new(std::alloc::System);

mod after;
mod aging;
mod aside;
mod canonical;
mod check;
mod checkpoint;
mod config;
mod deliver;
mod due;
mod emptied;
mod entry;
mod group;
mod ids;
mod l2;
mod lead;
mod list;
mod look;
mod lost;
mod origins;
mod orphans;
mod outbox;
mod partition;
mod planted;
mod publish;
mod recall;
mod record;
mod retained;
mod room;
mod route;
mod scan;
mod seq_table;
mod session;
mod share;
mod state;
mod stream;
mod term;
mod timeouts;
mod varint;
mod wall;

pub use aside::AsideFilters;
pub use checkpoint::{
    AbandonedCheckpoint, CheckpointEnd, CheckpointNeeds, CheckpointPiece, EntrySet, NeededRecords,
    Restore, RestoreError, Restored, STATE_VERSION, later_checkpoint,
};
pub use config::{
    Counts, DiskBudget, DiskRoom, Limits, MemoryRoom, Overflow, PartitionConfig, SessionRoom,
};
pub use entry::{ENGINE_VERSION, EntryError, EntryView, FactView, later_version, left_of_skipped};
pub use list::{
    Deletion, RetainedPage, RetainedView, SessionView, SessionsEnded, SubscriptionView,
};
pub use lost::{LostReference, LostStream, ReferenceSearch};
pub use outbox::START_MAX;
pub use partition::{Partition, Proposed};
pub use planted::PlantedPartition;
pub use room::Pace;
pub use wall::{APART_MS_MAX, WallClock};
