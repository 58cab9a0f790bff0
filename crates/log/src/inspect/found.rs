//! What is found in a segment file, and the words for it.

use std::fmt;

use courser_contract::{LogIndex, PartitionId, Term};
use zerocopy::FromBytes;

use crate::{
    format::{BatchHeader, FLAG_HEAD, FLAG_WITNESS, Kind, PieceHeader},
    ids::{BatchNumber, NodeIdentity, SegmentNumber},
    read::kept_of,
    scan::RawFrame,
};

/// What a segment's header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentSummary {
    /// Its number.
    pub segment: SegmentNumber,
    /// Whose it is.
    pub node: NodeIdentity,
    /// Bytes that the file had when it was made.
    pub segment_bytes: u64,
    /// Bytes that it has.
    pub file_bytes: u64,
    /// Counter of the start that made it.
    pub start: u32,
}

/// What is found next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// An intact batch; its records follow.
    Batch(BatchSummary),
    /// A record of the batch before, or of what is left of one that is damaged.
    Record(RecordSummary),
    /// Something that was written here is not here any more.
    Damage {
        /// Byte of the file.
        offset: u64,
        /// What is known.
        kind: InspectedDamage,
    },
    /// The end of what counts, and what lies behind it.
    End {
        /// Byte of the file.
        offset: u64,
        /// The rest.
        rest: Rest,
    },
}

/// A batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchSummary {
    /// Byte of the file.
    pub offset: u64,
    /// Its number.
    pub number: BatchNumber,
    /// Counter of the start that wrote it.
    pub start: u32,
    /// All batches up to this one were synced when it was written.
    pub synced: BatchNumber,
    /// Bytes of the file, whole blocks.
    pub bytes: u64,
    /// Records in it.
    pub records: u32,
    /// What it is for.
    pub role: BatchRole,
}

/// What a batch is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BatchRole {
    /// Records of partitions.
    Data,
    /// The beginning of a segment: what makes older ones unnecessary.
    Head,
    /// Nothing but to say that all before it is synced.
    Witness,
}

/// A record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordSummary {
    /// What it is.
    pub kind: RecordKind,
    /// Whose; 0 for facts about segments.
    pub partition: PartitionId,
    /// Term.
    pub term: Term,
    /// Index of the entry; the commit index for a hard state.
    pub index: LogIndex,
    /// Byte of the entry at which kept bytes begin; 0 for all else.
    pub byte: u32,
    /// Bytes of its data.
    pub data_bytes: u64,
    /// Which part of its entry a piece is; none for all else.
    pub piece: Option<PieceSummary>,
}

/// What a piece has of its entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PieceSummary {
    /// Byte of the entry at which it begins.
    pub offset: u64,
    /// Bytes of the entry in it.
    pub bytes: u64,
    /// Bytes of the whole entry.
    pub total: u64,
}

/// What a record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordKind {
    /// An entry.
    Entry,
    /// A part of a large entry.
    Piece,
    /// Term, vote and commit.
    HardState,
    /// Where a partition's checkpoint is.
    Checkpoint,
    /// The last batch of an older segment: its number stands for the index, the segment for the term.
    Sealed,
    /// Bytes of an entry that a cleaner has moved.
    Kept,
    /// A segment of which all that was needed was moved; its number is the term.
    Cleaned,
    /// The last entry of a partition that was written before; its index.
    Last,
    /// Of a kind that this program does not know.
    Unknown(u8),
}

/// What is known of a damage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InspectedDamage {
    /// Batches are lost, and a later one is there.
    Lost {
        /// First.
        first: BatchNumber,
        /// Last.
        last: BatchNumber,
        /// Whether a later one says that they were synced; if not, they were torn and cut.
        was_synced: bool,
    },
    /// The first batches of the segment are lost, nobody knows how many.
    Beginning {
        /// The last of them.
        last: BatchNumber,
        /// Whether a later one says that it was synced; if not, they were torn and cut.
        was_synced: bool,
    },
    /// A batch with a good header and a bad body.
    BadBody {
        /// Which.
        number: BatchNumber,
        /// Its records.
        records: u32,
        /// Records whose own checksums are right.
        salvaged: u32,
        /// Whether a later one says that it was synced; if not, it was torn.
        was_synced: bool,
    },
    /// The file is shorter than it was made.
    ShortFile {
        /// Bytes that it had.
        was: u64,
    },
    /// The disk does not give these bytes.
    Unreadable {
        /// What the system said.
        error: String,
    },
}

/// What lies behind the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rest {
    /// Bytes to the end of the file.
    pub bytes: u64,
    /// Intact headers that count no more: of the segment that the file was before, or of a start that was cut.
    pub stale_batches: u64,
}

impl InspectedDamage {
    /// Whether something that was durable is lost. The torn end of a log is no such damage.
    #[must_use]
    pub const fn is_loss(&self) -> bool {
        match self {
            Self::Lost { was_synced, .. }
            | Self::Beginning { was_synced, .. }
            | Self::BadBody { was_synced, .. } => *was_synced,
            Self::ShortFile { .. } | Self::Unreadable { .. } => true,
        }
    }
}

impl fmt::Display for InspectedDamage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = |synced: &bool| if *synced { "it was synced" } else { "torn" };
        match self {
            Self::Lost {
                first,
                last,
                was_synced,
            } => write!(
                f,
                "batches {} to {} are lost ({})",
                first.0,
                last.0,
                verdict(was_synced)
            ),
            Self::Beginning { last, was_synced } => write!(
                f,
                "the first batches, up to {}, are lost ({})",
                last.0,
                verdict(was_synced)
            ),
            Self::BadBody {
                number,
                records,
                salvaged,
                was_synced,
            } => write!(
                f,
                "batch {} is damaged ({}), {salvaged} of {records} records are right",
                number.0,
                verdict(was_synced)
            ),
            Self::ShortFile { was } => write!(f, "the file was made with {was} bytes"),
            Self::Unreadable { error } => write!(f, "cannot be read: {error}"),
        }
    }
}

impl BatchSummary {
    pub(super) fn new(header: &BatchHeader, offset: u64) -> Self {
        let flags = header.flags.get();
        Self {
            offset,
            number: BatchNumber(header.number.get()),
            start: header.start.get(),
            synced: BatchNumber(header.synced.get()),
            bytes: header.file_bytes(),
            records: header.records.get(),
            role: if flags & FLAG_HEAD != 0 {
                BatchRole::Head
            } else if flags & FLAG_WITNESS != 0 {
                BatchRole::Witness
            } else {
                BatchRole::Data
            },
        }
    }
}

impl RecordSummary {
    pub(super) fn new(frame: &RawFrame) -> Self {
        let kind = match frame.known() {
            Some(Kind::Entry) => RecordKind::Entry,
            Some(Kind::Piece) => RecordKind::Piece,
            Some(Kind::HardState) => RecordKind::HardState,
            Some(Kind::Checkpoint) => RecordKind::Checkpoint,
            Some(Kind::Sealed) => RecordKind::Sealed,
            Some(Kind::Kept) => RecordKind::Kept,
            Some(Kind::Cleaned) => RecordKind::Cleaned,
            Some(Kind::Last) => RecordKind::Last,
            None => RecordKind::Unknown(frame.kind),
        };
        let kept = (kind == RecordKind::Kept).then(|| kept_of(frame)).flatten();
        let byte = kept.map_or(0, |kept| kept.byte);
        let piece = (kind == RecordKind::Piece).then(|| PieceSummary::new(frame));
        Self {
            kind,
            partition: frame.partition,
            term: frame.term,
            index: frame.index,
            byte,
            data_bytes: frame.data.len() as u64,
            piece: piece.flatten(),
        }
    }
}

impl PieceSummary {
    fn new(frame: &RawFrame) -> Option<Self> {
        let (head, part) = PieceHeader::read_from_prefix(&frame.data).ok()?;
        Some(Self {
            offset: head.offset.get(),
            bytes: part.len() as u64,
            total: head.total.get(),
        })
    }
}
