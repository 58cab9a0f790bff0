//! The stations beside the shards: threads that do what a shard must not.
//!
//! ```text
//! shard 0 ──order──▶ ┌────────────┐ one pwritev,          ┌────────────┐
//! shard 1 ──order──▶ │ log-writer │ one fdatasync ──job──▶ │ log-reader │ zeroes segments ahead,
//!         ◀──done─── └────────────┘ for all of them        └────────────┘ writes checkpoints
//! ```
//! - [`orders`]: the rings between a shard and the writer.
//! - [`recovery`]: what the writer's thread does first.
//! - [`writer`]: the one owner of the log. While a sync is under way the next batch gathers, so that batches grow with load and not with timers.
//! - [`reader`]: slow work with files that must not delay the writer.
//! - [`recall`]: reads records back that are not in memory any more.
//! - [`cleaner`]: moves what is needed of old segments, between the reader's jobs.
//! - [`requests`]: what those who copy or check the log ask for.
//! - [`disk`]: what all threads know of the disk.
//! - [`progress`]: how much of a start is done.
//! - [`found`]: what a start has found in the log.
//! - [`times`]: how long commits take.
//! - [`medium`]: what their files lie on.
//! - [`start`]: the threads and everything between them.

mod cleaner;
mod disk;
mod found;
pub(crate) mod medium;
mod orders;
mod progress;
mod reader;
mod recall;
mod recovery;
mod requests;
mod start;
mod times;
mod writer;

pub use disk::DiskFailure;
pub(crate) use disk::{COUNTERS, Counter, DiskState, Stage, TOPICS};
pub use found::FoundInLog;
pub(crate) use medium::Medium;
#[cfg(test)]
pub(crate) use orders::orders;
pub(crate) use orders::{Checkpointed, Mark, Order, OrderSender};
pub use progress::{Progress, StartStep};
pub(crate) use reader::{CheckpointDone, CheckpointPlace, Job};
pub(crate) use recall::QuestionDoor;
pub(crate) use recovery::{Found, Handed, RecoveredShard, Saved, found_in, without_metadata};
#[cfg(test)]
pub(crate) use requests::RequestDoor;
pub(crate) use requests::{CopyDoor, HeldData, NotHeld};
pub use start::StationsError;
pub(crate) use start::{DiskPorts, Stations};
