//! Memory of the broker: pooled receive buffers, and allocations counted by component.
//!
//! - [`ReceivePool`] gives each shard its read buffers. A connection holds one only while there are bytes in it.
//! - [`Counting`] wraps the allocator of the binary (or of a test) and makes "allocations per message" a measured
//!   figure: [`Scope`] says who allocates, [`snapshot()`] and [`thread_snapshot`] read the counters, [`held()`] says
//!   who holds what is not freed.
//!
//! Nothing here does I/O, reads a clock or starts a thread. The counters are the only state of the process;
//! a pool belongs to the thread that made it. `unsafe` lives in the module `counting` alone, because
//! [`std::alloc::GlobalAlloc`] is an unsafe trait.
//!
//! ```
//! use courser_memory::{Component, Counting, Scope, thread_snapshot};
//! use std::alloc::System;
//!
//! #[global_allocator]
//! static ALLOCATOR: Counting<System> = Counting::new(System);
//!
//! let before = thread_snapshot();
//! {
//!     let _scope = Scope::enter(Component::Router);
//!     drop(Vec::<u8>::with_capacity(100));
//! }
//! let counted = thread_snapshot().since(&before);
//! assert_eq!(counted.of(Component::Router).allocations, 1);
//! assert_eq!(counted.of(Component::Router).bytes, 100);
//! ```
#![deny(unsafe_code)]

mod component;
mod counting;
mod held;
mod receive;
mod snapshot;

pub use component::{Component, Scope};
pub use counting::{Counting, fold, snapshot, thread_snapshot};
pub use held::{Held, held};
pub use receive::{BLOCK_BYTES, Buffer, ClassStats, Detached, PoolLimits, PoolStats, ReceivePool};
pub use snapshot::{Counts, Snapshot};
