//! A running broker, tested from outside.
//!
//! One program for all of it: each program of tests is linked with the whole broker, and runs alone.

mod access;
mod access_paths;
mod aging;
mod classes;
mod cleaner;
mod cold;
mod damage;
mod doors;
mod fan_out;
mod kept_sessions;
mod large;
mod latencies;
mod lingering;
mod listeners;
mod login_failures;
mod owners;
mod pacing;
mod placement;
mod reload;
mod restart;
mod rings;
mod runs;
mod shards;
mod stalled;
mod support;
mod takeover;
mod tokens;
