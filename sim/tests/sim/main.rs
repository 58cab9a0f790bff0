//! Worlds that run under every seed of an ordinary test run.
//!
//! One program for all of it, so that no core waits for the longest of a few.

mod aging;
mod backups;
mod cold;
mod cuts;
mod disk;
mod draining;
mod hasty;
mod long;
mod members;
mod planted;
mod quarantine;
mod seeds;
mod support;
mod tight;
