//! Shards, listeners, rings and timers: the thin shell around the pure crates.

pub mod timer;
