//! Partitions of thousands of sessions and stored messages: what they cost in memory, and what one turn does for a checkpoint of them.

mod memory;
mod slices;
mod support;
