//! What can go wrong, by operation.

use std::io;

use crate::{
    format::{SEGMENT_VERSION, SEGMENT_VERSION_FIRST},
    ids::{BatchNumber, NodeIdentity, Place, SegmentNumber},
};
use courser_contract::{LogIndex, PartitionId};

/// Why a log does not open. Nothing was changed on the disk unless [`OpenError::Write`] says so.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The folder cannot be listed, or a file of it not opened.
    #[error("cannot open {name}: check that the log's folder belongs to this user")]
    Folder {
        /// File, or "the folder".
        name: String,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// A segment of a version that this program does not know.
    #[error(
        "segment {segment} has format version {version}, this program reads versions {SEGMENT_VERSION_FIRST} to {SEGMENT_VERSION}: start it with the program that wrote it"
    )]
    Version {
        /// Which.
        segment: SegmentNumber,
        /// Its version.
        version: u16,
    },
    /// A record that must be understood and is not.
    #[error(
        "{place}: a record of kind {kind}, which this program does not know: start it with the program that wrote it"
    )]
    Kind {
        /// Where its batch is.
        place: Place,
        /// Its kind.
        kind: u8,
    },
    /// A segment of another node.
    #[error(
        "segment {segment} belongs to node {}, this is node {}: is the data folder somebody else's?",
        .found.0, .expected.0
    )]
    Foreign {
        /// Which.
        segment: SegmentNumber,
        /// Whose it is.
        found: NodeIdentity,
        /// Who opened it.
        expected: NodeIdentity,
    },
    /// The log was opened by a later start than this one says it is.
    #[error(
        "{place}: written by start {found}, this is start {given}: the node's file is older than its log"
    )]
    Start {
        /// Where.
        place: Place,
        /// Counter of the batch's start.
        found: u32,
        /// Counter of this start.
        given: u32,
    },
    /// The disk does not give something of which nothing says that it is of no account, so nobody knows what is missing.
    #[error(
        "{place}: cannot be read, and what was acknowledged may be there: nothing was changed; check the disk, then start again"
    )]
    Read {
        /// Where.
        place: Place,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The end of the log cannot be made durable.
    #[error("cannot make the end of the log durable")]
    Write(#[from] WriteError),
}

/// Why a write, a sync or a roll failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// No segment is ready and the disk has no room for one. Nothing was written; the same batch can be written later.
    #[error("no room for another segment: free space on the log's disk")]
    NoSpace,
    /// A write, sync or change of names failed. Final: what of it is durable is unknown, and the log refuses all that follows.
    #[error("{what} failed: the log takes nothing more; check the disk, then start again")]
    Failed {
        /// Which call.
        what: &'static str,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// An earlier call failed for good.
    #[error("the log takes nothing more since an earlier write or sync failed")]
    Refused,
}

impl From<PrepareError> for WriteError {
    /// For who cannot go on without the segment.
    fn from(error: PrepareError) -> Self {
        match error {
            PrepareError::NoSpace => Self::NoSpace,
            PrepareError::Failed { what, source } | PrepareError::Unsynced { what, source } => {
                Self::Failed { what, source }
            }
        }
    }
}

impl WriteError {
    /// Whether the log is of no use any more: the process stops with code 74 and verifies at its next start.
    #[must_use]
    pub const fn is_final(&self) -> bool {
        match self {
            Self::NoSpace => false,
            Self::Failed { .. } | Self::Refused => true,
        }
    }
}

/// Why a segment was not made ready.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PrepareError {
    /// The disk has no room.
    #[error("no room for another segment")]
    NoSpace,
    /// A call failed, and what it was about is given up. The log itself goes on; its next roll decides.
    #[error("{what} failed")]
    Failed {
        /// Which call.
        what: &'static str,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// A sync failed. Final for the log, as any sync of it: a later one that succeeds would say nothing of what this one lost.
    #[error("{what} failed")]
    Unsynced {
        /// Which call.
        what: &'static str,
        /// What the system said.
        #[source]
        source: io::Error,
    },
}

/// Why an entry cannot be read back.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The log does not have it (any more).
    #[error("partition {}: no entry {} in the log", .partition.0, .index.0)]
    Unknown {
        /// Whose.
        partition: PartitionId,
        /// Which.
        index: LogIndex,
    },
    /// What is there is not what was written.
    #[error("{place}: damaged, entry {} of partition {} cannot be read", .index.0, .partition.0)]
    Damaged {
        /// Where its batch is.
        place: Place,
        /// Whose.
        partition: PartitionId,
        /// Which.
        index: LogIndex,
    },
    /// The disk does not give it.
    #[error("{place}: cannot be read")]
    Disk {
        /// Where.
        place: Place,
        /// What the system said.
        #[source]
        source: io::Error,
    },
}

/// A batch in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchPlace {
    /// Its number.
    pub number: BatchNumber,
    /// Where it begins.
    pub place: Place,
    /// Bytes of the file that it takes.
    pub bytes: u64,
}
