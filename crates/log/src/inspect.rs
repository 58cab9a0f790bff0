//! What is in a segment file, read offline: for `courser inspect` and for tests.
//!
//! One file is looked at alone. It says what it holds and where it is damaged; whether something that is missing at its end was
//! synced, only the log as a whole knows ([`crate::Log::open`]). Checkpoints are read with [`crate::CheckpointReader`].

mod check;
mod entry;
mod kept;

use std::{collections::VecDeque, fmt, io};

use courser_contract::{LogIndex, PartitionId, Term};
use zerocopy::FromBytes;

use crate::{
    disk::DiskFile,
    error::OpenError,
    format::{
        BLOCK_BYTES, BatchHeader, FLAG_HEAD, FLAG_WITNESS, Header, Kind, PieceHeader, Seen,
        SegmentHeader, padded,
    },
    ids::{BatchNumber, NodeIdentity, SegmentNumber},
    read::kept_of,
    scan::{BatchSeen, Check, Fault, Frames, RawFrame, Window, batch_at},
};

pub use self::{
    check::{SegmentCheck, check_segment},
    entry::{EntryFinder, FoundEntry},
    kept::{KeptCheck, RecordAt, RecordFinder, may_have, read_kept},
};

const BLOCK: u64 = BLOCK_BYTES as u64;

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
            Self::Lost { was_synced, .. } | Self::BadBody { was_synced, .. } => *was_synced,
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

/// Why a file is not inspected.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InspectError {
    /// Not a segment, or its header is damaged.
    #[error("this is no segment of a log, or its header is damaged")]
    NotASegment,
    /// Another version.
    #[error(transparent)]
    Version(OpenError),
    /// The disk refused.
    #[error("the file cannot be read")]
    Read(#[from] io::Error),
}

/// Goes through a segment file.
#[derive(Debug)]
pub struct SegmentInspector<F> {
    window: Window<F>,
    summary: SegmentSummary,
    offset: u64,
    last: Option<BatchHeader>,
    found: VecDeque<Found>,
    ended: bool,
}

impl<F: DiskFile> SegmentInspector<F> {
    /// Opens a segment's file.
    ///
    /// # Errors
    /// When it is none, of another version, or cannot be read.
    pub fn new(file: F) -> Result<Self, InspectError> {
        let mut window = Window::new(file)?;
        let header = match window.bytes(0, size_of::<SegmentHeader>() as u64) {
            Ok(bytes) => SegmentHeader::see(&bytes),
            Err(Fault::End) => Seen::Nothing,
            Err(Fault::Unreadable(error)) => return Err(error.into()),
        };
        let header = match header {
            Seen::Header(header) => header,
            Seen::Nothing => return Err(InspectError::NotASegment),
            Seen::Other(version) => {
                let segment = SegmentNumber(0);
                return Err(InspectError::Version(OpenError::Version {
                    segment,
                    version,
                }));
            }
        };
        let summary = SegmentSummary {
            segment: SegmentNumber(header.segment.get()),
            node: NodeIdentity(header.node.get()),
            segment_bytes: header.segment_bytes.get(),
            file_bytes: window.len(),
            start: header.start.get(),
        };
        Ok(Self {
            window,
            summary,
            offset: BLOCK,
            last: None,
            found: VecDeque::new(),
            ended: false,
        })
    }

    /// What the header says.
    #[must_use]
    pub const fn summary(&self) -> SegmentSummary {
        self.summary
    }

    fn is_later(&self, header: &BatchHeader) -> bool {
        let in_order = self.last.is_none_or(|last| {
            let same_start = header.start == last.start && header.word == last.word;
            let later_start = header.start.get() > last.start.get();
            header.number.get() > last.number.get() && (same_start || later_start)
        });
        header.segment.get() == self.summary.segment.0 && in_order
    }

    fn follows(&self, header: &BatchHeader) -> bool {
        let next = |last: BatchHeader| last.number.get().checked_add(1);
        let is_next = self
            .last
            .is_none_or(|last| next(last) == Some(header.number.get()));
        is_next && self.is_later(header)
    }

    fn step(&mut self) {
        let seen = batch_at(&mut self.window, self.offset);
        match seen {
            BatchSeen::Whole(batch) if self.follows(&batch.header) => {
                let header = batch.header;
                self.found
                    .push_back(Found::Batch(summary(&header, self.offset)));
                for frame in Frames::new(&batch.body, header.tag.get(), Check::Lengths).flatten() {
                    self.found.push_back(Found::Record(record(&frame)));
                }
                self.offset += header.file_bytes();
                self.last = Some(header);
            }
            BatchSeen::BadBody(header, body) if self.follows(&header) => {
                let later = self.later(self.offset + BLOCK);
                let frames = Frames::new(&body, header.tag.get(), Check::Checksums);
                let right: Vec<_> = frames.flatten().map(|frame| record(&frame)).collect();
                let kind = InspectedDamage::BadBody {
                    number: BatchNumber(header.number.get()),
                    records: header.records.get(),
                    salvaged: right.len() as u32,
                    was_synced: was_synced(&later, header.number.get()),
                };
                self.damage(kind);
                // A start reads them as well (M44).
                self.found.extend(right.into_iter().map(Found::Record));
                self.resume(&later, Some(header));
            }
            BatchSeen::Unreadable(error) => {
                let later = self.later(self.offset + BLOCK);
                self.damage(InspectedDamage::Unreadable {
                    error: error.to_string(),
                });
                self.resume(&later, None);
            }
            BatchSeen::Whole(_)
            | BatchSeen::BadBody(..)
            | BatchSeen::Nothing
            | BatchSeen::Other(_) => {
                let later = self.later(self.offset);
                if let (Some((_, next)), Some(last)) = (later.first(), self.last) {
                    let first = last.number.get() + 1;
                    self.damage(InspectedDamage::Lost {
                        first: BatchNumber(first),
                        last: BatchNumber((next.number.get() - 1).max(first)),
                        was_synced: was_synced(&later, first),
                    });
                }
                self.resume(&later, None);
            }
        }
    }

    /// Intact headers from `offset` on that are later than the last batch, in the order of the file.
    fn later(&mut self, offset: u64) -> Vec<(u64, BatchHeader)> {
        self.headers(offset)
            .into_iter()
            .filter(|(_, header)| self.is_later(header))
            .collect()
    }

    fn headers(&mut self, mut offset: u64) -> Vec<(u64, BatchHeader)> {
        let mut found = Vec::new();
        while offset < self.window.len() {
            let len = BLOCK.min(self.window.len() - offset);
            if let Ok(block) = self.window.bytes(offset, len)
                && let Seen::Header(header) = BatchHeader::see(&block)
            {
                found.push((offset, header));
            }
            offset += BLOCK;
        }
        found
    }

    /// Goes on at the first later batch, or ends.
    fn resume(&mut self, later: &[(u64, BatchHeader)], bad: Option<BatchHeader>) {
        if let Some((offset, header)) = later.first() {
            self.offset = *offset;
            let mut before = bad.or(self.last).unwrap_or(*header);
            before.number.set(header.number.get() - 1);
            self.last = Some(before);
            return;
        }
        if self.window.len() < self.summary.segment_bytes {
            self.damage(InspectedDamage::ShortFile {
                was: self.summary.segment_bytes,
            });
        }
        let from = padded(self.offset).min(self.window.len());
        let stale_batches = self.headers(from).len() as u64;
        self.found.push_back(Found::End {
            offset: self.offset,
            rest: Rest {
                bytes: self.window.len().saturating_sub(self.offset),
                stale_batches: stale_batches.saturating_sub(u64::from(bad.is_some())),
            },
        });
        self.ended = true;
    }

    fn damage(&mut self, kind: InspectedDamage) {
        self.found.push_back(Found::Damage {
            offset: self.offset,
            kind,
        });
    }
}

impl<F: DiskFile> Iterator for SegmentInspector<F> {
    type Item = Found;

    fn next(&mut self) -> Option<Found> {
        while self.found.is_empty() && !self.ended {
            self.step();
        }
        self.found.pop_front()
    }
}

fn was_synced(later: &[(u64, BatchHeader)], number: u64) -> bool {
    later
        .iter()
        .any(|(_, header)| header.synced.get() >= number)
}

fn summary(header: &BatchHeader, offset: u64) -> BatchSummary {
    let flags = header.flags.get();
    BatchSummary {
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

fn record(frame: &RawFrame) -> RecordSummary {
    let kind = match frame.known() {
        Some(Kind::Entry) => RecordKind::Entry,
        Some(Kind::Piece) => RecordKind::Piece,
        Some(Kind::HardState) => RecordKind::HardState,
        Some(Kind::Checkpoint) => RecordKind::Checkpoint,
        Some(Kind::Sealed) => RecordKind::Sealed,
        Some(Kind::Kept) => RecordKind::Kept,
        Some(Kind::Cleaned) => RecordKind::Cleaned,
        None => RecordKind::Unknown(frame.kind),
    };
    let kept = (kind == RecordKind::Kept).then(|| kept_of(frame)).flatten();
    let byte = kept.map_or(0, |kept| kept.byte);
    let piece = (kind == RecordKind::Piece).then(|| piece_of(frame));
    RecordSummary {
        kind,
        partition: frame.partition,
        term: frame.term,
        index: frame.index,
        byte,
        data_bytes: frame.data.len() as u64,
        piece: piece.flatten(),
    }
}

fn piece_of(frame: &RawFrame) -> Option<PieceSummary> {
    let (head, part) = PieceHeader::read_from_prefix(&frame.data).ok()?;
    Some(PieceSummary {
        offset: head.offset.get(),
        bytes: part.len() as u64,
        total: head.total.get(),
    })
}
