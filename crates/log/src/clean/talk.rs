//! What a cleaner says and is told.

use crate::{ids::SegmentNumber, record::Record};

/// What a cleaner asks the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Question {
    /// [`crate::Log::survey`], for [`crate::clean::Cleaner::surveyed`].
    Survey,
    /// [`crate::Log::source`], for [`crate::clean::Cleaner::sourced`].
    Source(SegmentNumber),
    /// The same of a segment that is not what was written, of which [`crate::Log::note_damaged`] is told before.
    Damaged(SegmentNumber),
}

/// What is to be done next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Nothing before something changes: a checkpoint, an answer, more budget.
    Rest,
    /// Another step, whenever there is time.
    Again,
    /// An answer of the log is wanted.
    Ask(Question),
    /// To be written in this order, and synced; then [`crate::clean::Cleaner::written`].
    Write(Vec<Record>),
    /// Something cannot be read for the moment, such as for want of a descriptor. Another step after a while tries it again.
    HeldUp {
        /// Why.
        why: String,
    },
    /// A segment stays as it is: it, or what the checkpoint says of it, is damaged. Another step follows.
    GaveUp {
        /// Which, if it is one.
        segment: Option<SegmentNumber>,
        /// Why.
        why: String,
    },
}

/// What was done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CleanerCounts {
    /// Segments whose needed records were all moved.
    pub segments: u64,
    /// Records moved.
    pub records: u64,
    /// Bytes that they take.
    pub bytes: u64,
    /// Bytes of files that were read for it.
    pub read_bytes: u64,
    /// Segments that had more in them than was thought and were left; without those that were read to see whether they have.
    pub too_full: u64,
    /// Segments that were left since a record of them is larger than a batch: it was written when `log.segment_bytes` was larger.
    pub too_large: u64,
    /// Segments and checkpoints that were left since they are damaged.
    pub given_up: u64,
    /// Segments that stayed as they are when it last looked, since a needed entry that is larger than a batch lies there in pieces.
    pub in_pieces: u64,
}
