//! What the log and the checkpoints lie on: folders of the operating system.
//!
//! In unit tests they may lie in memory instead (`memory`): then a whole broker, with its shards, its stations and its start, loses power
//! behind whichever call a test wants.

#[cfg(test)]
pub(crate) mod memory;

#[cfg(not(test))]
pub(crate) use courser_log::FileDisk as Medium;

#[cfg(test)]
pub(crate) use memory::Medium;
