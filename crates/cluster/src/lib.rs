//! Consensus: what makes an entry of a partition's log committed.
//!
//! Each partition with a log is a raft [`Group`]. On a single node it is a group of one, which leads at once and commits what
//! its own disk has; with peers it replicates, elects and sends snapshots. Nothing above this crate knows which it is
//! (M3), and this is the only crate that names the consensus library.
//!
//! A group does no I/O and knows no time but [`Consensus::tick`]. What it wants done comes out of [`Consensus::poll`] as
//! [`ConsensusEffects`]: records to write, committed entries to apply, messages to peers. Writing is asynchronous: a group
//! goes on proposing while earlier records are on their way to the disk, and hears of them by [`Consensus::persisted`].
//!
//! # Order
//! - A group's records are written in the order of their numbers, and `persisted` is called in that order. A number stands
//!   for all below it.
//! - [`ConsensusEffects::committed`] is called once for each entry that carries data, in the order of indexes, and never
//!   before the entry is durable on a majority, this node included (M9). Indexes have gaps: a leader's first entry is empty.
//! - [`Role::Leader`] is told after everything before the term was handed to `committed` (M5).
#![forbid(unsafe_code)]

mod config;
mod consensus;
mod group;
mod ids;
mod message;
mod snapshot;
mod storage;
mod timeouts;

pub use config::{GroupConfig, RestoreError, Restored};
pub use consensus::{
    BadMessage, Consensus, ConsensusEffects, NotLeading, Polled, Role, SnapshotResult,
};
pub use group::{Group, PlantedConsensus};
pub use ids::NodeId;
pub use message::{PeerBody, PeerEntry, PeerMessage, VoteKind};
pub use snapshot::SnapshotDescriptor;
