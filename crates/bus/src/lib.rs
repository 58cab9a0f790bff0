//! In-process message router with MQTT-like keys.
#![doc = include_str!("../README.md")]
#![deny(unsafe_code)]

#[cfg(not(target_pointer_width = "64"))]
compile_error!(
    "courser-router keeps numbers in the low bits of 64-bit addresses: it is for 64-bit targets only"
);

mod bus;
mod filter;
mod handler;
mod inner;
mod key;
mod keys;
mod local;
#[cfg(all(test, loom))]
mod loom_tests;
mod plan;
mod planner;
mod presence;
mod record;
mod retained;
mod ring;
mod segments;
mod slot;
mod stats;
mod stream;
mod subscription;
mod sync;
mod table;
mod walk;

pub use crate::bus::{Router, RouterOptions};
pub use crate::filter::{Filter, FilterError, IntoFilter, Token};
pub use crate::handler::{Handler, SubscriptionId, SubscriptionRef};
pub use crate::key::{Key, KeyError};
pub use crate::ring::{Delivered, Overflow, Ring, RingOptions};
pub use crate::stats::Stats;
pub use crate::stream::MessageStream;
pub use crate::subscription::{Subscription, WithinHandler};
