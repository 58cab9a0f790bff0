//! Why the cleaner does not go on with something.

use std::io;

use courser_contract::{LogIndex, PartitionId};

use crate::{checkpoint::CheckpointError, disk::is_passing};

/// Why something cannot be read.
#[derive(Debug)]
pub(super) enum Trouble {
    /// For the moment ([`is_passing`]): that says nothing of what is on the disk.
    Passing(String),
    /// It is damaged.
    Damaged(String),
}

/// Why a segment is not gathered to its end.
#[derive(Debug)]
pub(super) enum Obstacle {
    /// It or the checkpoint cannot be read.
    Trouble(Trouble),
    /// A record of this entry is larger than a batch, since segments were larger when it was written: it stays where it is.
    TooLarge(PartitionId, LogIndex),
}

impl From<io::Error> for Trouble {
    fn from(error: io::Error) -> Self {
        match is_passing(&error) {
            true => Self::Passing(error.to_string()),
            false => Self::Damaged(error.to_string()),
        }
    }
}

impl From<CheckpointError> for Trouble {
    fn from(error: CheckpointError) -> Self {
        match &error {
            CheckpointError::Disk { source, .. } | CheckpointError::NotMade { source, .. }
                if is_passing(source) =>
            {
                Self::Passing(format!("{error}: {source}"))
            }
            CheckpointError::Disk { .. }
            | CheckpointError::NotMade { .. }
            | CheckpointError::Version { .. }
            | CheckpointError::Foreign { .. }
            | CheckpointError::Damaged { .. }
            | CheckpointError::Counts { .. }
            | CheckpointError::NotReplaced { .. }
            | CheckpointError::Uncertain { .. } => Self::Damaged(error.to_string()),
        }
    }
}

impl From<String> for Trouble {
    fn from(why: String) -> Self {
        Self::Damaged(why)
    }
}

impl From<&'static str> for Obstacle {
    fn from(why: &'static str) -> Self {
        Self::Trouble(Trouble::Damaged(why.to_owned()))
    }
}
