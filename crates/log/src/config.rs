//! Sizes of the log.

use crate::{
    format::{BATCH_BYTES_MAX, BLOCK_BYTES},
    ids::NodeIdentity,
};

/// Smallest segment that the log works with; a broker's setting begins at 1 MiB.
pub const SEGMENT_BYTES_MIN: u64 = 64 << 10;

/// Largest segment; offsets of blocks fit 32 bits with room to spare.
pub const SEGMENT_BYTES_MAX: u64 = 16 << 30;

/// How the log is cut into files.
#[derive(Clone, Copy, Debug)]
pub struct LogConfig {
    /// Whose log it is.
    pub node: NodeIdentity,
    segment_bytes: u64,
    /// Segments kept ready besides the next one, so that results and acknowledgements get through a full disk (M47).
    /// Default 4.
    pub reserve_segments: u32,
    /// Segments kept ready for use under load, besides the reserve. Default 1.
    pub ahead_segments: u32,
    /// Segments in which nothing is live, kept for use again beyond those; more are removed. Default 4.
    pub spare_segments: u32,
    /// Whether opening the log reads and checks all segments, also those that a start need not know. Default no.
    pub reads_all: bool,
    planted: Option<Planted>,
}

/// Bugs that tests plant to see that they are found; without the feature `testing` there is no way to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    not(feature = "testing"),
    allow(
        unreachable_pub,
        dead_code,
        reason = "exported and made by the module `testing`"
    )
)]
pub enum Planted {
    /// A sync says that it is done and is not (I2).
    SyncNothing,
    /// Only the newest segment is synced after a roll.
    ForgetOlderSegment,
    /// A header calls synced what was only written.
    ClaimTooMuch,
    /// Names of segments are not made durable.
    SkipFolderSync,
    /// Heads of segments leave out hard states.
    HeadWithoutHardStates,
    /// Segments are used again although older entries in them are needed.
    FreeLiveSegments,
    /// Rot is cut like a torn end (M44).
    CutRot,
    /// A batch of which nothing is left is the end of the log, whatever comes behind it (M44).
    CutLost,
    /// Heads of segments say that the log ended with the last batch that is left of it (M44).
    ForgetLost,
    /// Batches of the segment that a file was before are read.
    ReadRecycled,
    /// Batches that a later start has cut are read.
    ReadVoid,
    /// Records of damaged batches are taken without looking at their checksums (I5).
    TakeDamaged,
    /// The end of the log is taken as durable because it can be read.
    TrustTheCache,
    /// Segments are used again although kept records in them are needed (M41).
    FreeKept,
    /// A start does not see kept records in segments (M41).
    ForgetKeptAtStart,
    /// Segments with entries above their checkpoint are cleaned (M41).
    CleanUncovered,
    /// Segments that somebody copies are used again.
    IgnoreHold,
    /// A disk that was short of room once stays so (M47).
    LowForEver,
    /// The end of the log that a copy is told of is a block before its end.
    CutShort,
    /// Who checks a segment is told that it ends before its last batch.
    HeldTooShort,
    /// A summary of another state of its segment is believed: its entries are said to be behind what was written later.
    StaleSummary,
    /// A start passes over segments with entries above their checkpoint.
    PassUncovered,
    /// A summary leaves out what a cleaner has moved into its segment (M41).
    SummaryWithoutKept,
    /// A record reader gives records whose checksums are wrong (I5).
    RecallDamaged,
    /// A record reader gives nothing of a damaged batch, also what is whole in it (M44).
    RecallNeighbours,
    /// A segment that the cleaner cannot read is called cleaned (M41).
    CleanDamaged,
    /// Entries that others have replaced count again once those are below a checkpoint.
    CountVoid,
}

#[cfg(feature = "testing")]
impl Planted {
    /// Those that runs without a cleaner and copies find; the others are looked for by the simulator.
    pub const ALL: [Self; 12] = [
        Self::SyncNothing,
        Self::ForgetOlderSegment,
        Self::ClaimTooMuch,
        Self::SkipFolderSync,
        Self::HeadWithoutHardStates,
        Self::FreeLiveSegments,
        Self::CutRot,
        Self::ReadRecycled,
        Self::ReadVoid,
        Self::TakeDamaged,
        Self::TrustTheCache,
        Self::CountVoid,
    ];
}

/// A size that the log does not work with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "segments of {0} bytes: the size must be a multiple of {BLOCK_BYTES} from {SEGMENT_BYTES_MIN} to {SEGMENT_BYTES_MAX}"
)]
pub struct SegmentBytesError(pub u64);

impl LogConfig {
    /// Defaults for segments of `segment_bytes`.
    ///
    /// # Errors
    /// When the size is not a multiple of the block size within its limits.
    pub const fn new(node: NodeIdentity, segment_bytes: u64) -> Result<Self, SegmentBytesError> {
        let whole = segment_bytes.is_multiple_of(BLOCK_BYTES as u64);
        if !whole || segment_bytes < SEGMENT_BYTES_MIN || segment_bytes > SEGMENT_BYTES_MAX {
            return Err(SegmentBytesError(segment_bytes));
        }
        Ok(Self {
            node,
            segment_bytes,
            reserve_segments: 4,
            ahead_segments: 1,
            spare_segments: 4,
            reads_all: false,
            planted: None,
        })
    }

    /// The same with a bug.
    #[cfg(feature = "testing")]
    #[must_use]
    pub const fn with(mut self, planted: Planted) -> Self {
        self.planted = Some(planted);
        self
    }

    /// Whether this bug is planted: never without the feature `testing`.
    pub(crate) fn has(&self, planted: Planted) -> bool {
        cfg!(feature = "testing") && self.planted == Some(planted)
    }

    /// Size of a segment's file.
    #[must_use]
    pub const fn segment_bytes(&self) -> u64 {
        self.segment_bytes
    }

    /// A batch takes at most this much of the file: 4 MiB or a quarter of a segment, whichever is less (M45).
    #[must_use]
    pub const fn batch_bytes_max(&self) -> usize {
        batch_bytes_max(self.segment_bytes)
    }
}

/// What a batch takes at most in segments of `segment_bytes` (M45). Older segments may have larger ones: the setting may have been
/// lowered.
#[must_use]
pub const fn batch_bytes_max(segment_bytes: u64) -> usize {
    let quarter = segment_bytes / 4;
    let quarter = quarter - quarter % BLOCK_BYTES as u64;
    if quarter < BATCH_BYTES_MAX as u64 {
        quarter as usize
    } else {
        BATCH_BYTES_MAX
    }
}
