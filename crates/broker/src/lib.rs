//! Shards, listeners, rings and timers: the thin shell around the pure crates.
//!
//! [`Broker::start`] binds all addresses, starts one thread a shard ([`shard`](self)) and returns at once; [`Broker::stop`]
//! ends it. Everything that is decided is decided below: sessions in `courser-mqtt` and `courser-engine`, routing in
//! `courser-trie`. Here are sockets, clocks and threads, and the moving of messages between them.
//!
//! ```text
//! listen ─▶ shard (one a core) ──ring──▶ shard
//!             │ ready: sockets that woke     index: filter → partitions (L1), written by shard 0
//!             │ turn: what happens, in order appends: publishes that wait, by partition
//!             │ fronts, partitions           slots: name → partition → shard
//!             └ store: entries until they are committed ──▶ stations: log writer and reader, on the folder of node ──▶ backup
//! ```
#![forbid(unsafe_code)]

/// Of tests: they say how much a shard does.
#[cfg(test)]
#[global_allocator]
static ALLOCATOR: courser_memory::Counting<std::alloc::System> =
    courser_memory::Counting::new(std::alloc::System);

// The client of the integration tests serves unit tests too.
#[cfg(test)]
extern crate self as courser_broker;

mod access;
mod backup;
mod broker;
mod causes;
mod classes;
mod clock;
mod config;
mod control;
mod doors;
mod doubts;
mod failpoint;
mod faults;
mod files;
mod formats;
mod index;
pub mod latency;
mod lines;
mod listen;
mod live;
mod memory;
pub mod metrics;
mod node;
mod partition_limits;
mod peer;
mod repair;
mod rings;
mod scant;
mod scrub;
mod shard;
mod slots;
mod stations;
mod store;
mod sys;
mod timer;

pub use access::{
    Access, BootstrapError, ChangeError, Credentials, LogInError, LoggedIn, MakeError, TokensError,
    first_administrator, write_bootstrap,
};
pub use backup::{
    BackupError, BackupReport, BackupStage, BackupState, PruneMode, Pruned, prune_backups,
    restore_backup, verify_backup,
};
pub use broker::{Broker, RereadError, StartError, Status, StopError, Summary};
pub use causes::with_causes;
pub use config::{Anonymous, Config, Pinning, redirect_of};
pub use control::{
    AskError, ClientRow, Control, Deed, Direction, Ended, Happened, ListenerRow, Page, PastEvent,
    RetainedMessage, RetainedRow, SessionPlace, SessionRow, SubscriptionRow, SubscriptionStop,
    TracePage, TracedLine, cause_words,
};
pub use courser_mqtt::front::{BadReference, Redirect, RedirectKind};
pub use courser_settings::{open_regular, read_open};
pub use doors::{CertificateError, OpenDoor, Reread};
pub use doubts::{FileDoubt, file_doubts};
pub use faults::{file_faults, memory_fault, public_faults};
pub use formats::FORMATS;
pub use listen::{ListenError, find_taken, holder};
pub use memory::MemoryError;
pub use node::{FolderError, layout};
pub use peer::Authentication;
pub use repair::{
    Accepted, Behind, Cause, Examined, Fault, Finding, LostEntries, NodeState, Order, RepairError,
    RottenFile, RottenPlace, SetAside, Standing, StoppedStream, Verb, examine, repair,
};
pub use stations::{DiskFailure, FoundInLog, Progress, StartStep, StationsError};
pub use sys::ShardReport;
