//! Records that leave memory and are read back from the log: what a partition asks, and what comes back (M17, M41).

use bytes::Bytes;

use crate::{LogIndex, Need, PartitionId};

/// A record that a stream waits for: where it was born, and how long it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Want {
    /// The entry that brought it.
    pub index: LogIndex,
    /// Byte of that entry at which it begins.
    pub byte: u32,
    /// Bytes of it.
    pub len: u32,
}

/// What a partition asks of its log. Each record is asked for once and answered once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// Who asks.
    pub partition: PartitionId,
    /// By stream, what it needs next, in the order in which it needs it: behind all that was asked for that stream before.
    pub streams: Vec<StreamWants>,
    /// For so many bytes more there is room. Wants wait while there is none; the last record may be longer than what is left.
    pub room: u64,
}

/// What a stream needs next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamWants {
    /// Number of the stream in its partition.
    pub stream: u64,
    /// Its records in order.
    pub wants: Vec<Want>,
}

/// Records that were read back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recalled {
    /// Who has asked.
    pub partition: PartitionId,
    /// All of them, one behind the other.
    pub bytes: Bytes,
    /// Each with the byte of `bytes` at which it begins.
    pub records: Vec<(Want, u32)>,
    /// What the log does not give any more: damage, unless nobody needs it any more.
    pub lost: Vec<Need>,
    /// Why, if more is known than that it is not there.
    pub error: Option<String>,
}

impl Recalled {
    /// Bytes of room that this has used.
    #[must_use]
    pub fn room(&self) -> u64 {
        self.bytes.len() as u64
    }
}
