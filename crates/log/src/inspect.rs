//! What is in a segment file, read offline: for `courser inspect` and for tests.
//!
//! One file is looked at, which says what it holds and where it is damaged. Whether something is missing at its end the segment behind it
//! knows ([`told_end`]), and of the last one only the log as a whole ([`crate::Log::open`]). Checkpoints are read with [`crate::CheckpointReader`].

mod check;
mod end;
mod entry;
mod found;
mod kept;

use std::{collections::VecDeque, io};

use bytes::Bytes;

use crate::{
    disk::DiskFile,
    error::OpenError,
    format::{BLOCK_BYTES, BatchHeader, Header, Seen, SegmentHeader, padded},
    ids::{BatchNumber, NodeIdentity, SegmentNumber},
    scan::{BatchSeen, Check, Fault, Frames, Window, batch_at},
};

pub use self::{
    check::{SegmentCheck, check_segment},
    end::{ToldEnd, told_end},
    entry::{EntryFinder, FoundEntry},
    found::{
        BatchRole, BatchSummary, Found, InspectedDamage, PieceSummary, RecordKind, RecordSummary,
        Rest, SegmentSummary,
    },
    kept::{KeptCheck, RecordAt, RecordFinder, may_have, read_kept},
};

const BLOCK: u64 = BLOCK_BYTES as u64;

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
    told: Option<ToldEnd>,
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
            told: None,
            found: VecDeque::new(),
            ended: false,
        })
    }

    /// With what a later segment says of the end of this one: a batch that is missing there is damage.
    #[must_use]
    pub const fn with_end(mut self, told: ToldEnd) -> Self {
        self.told = Some(told);
        self
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
        let seen = match batch_at(&mut self.window, self.offset) {
            // As a start sees it: nothing of it can be saved.
            BatchSeen::UnreadableBody(header, _) => BatchSeen::BadBody(header, Bytes::new()),
            seen => seen,
        };
        match seen {
            BatchSeen::Whole(batch) if self.follows(&batch.header) => {
                let header = batch.header;
                self.found
                    .push_back(Found::Batch(BatchSummary::new(&header, self.offset)));
                for frame in Frames::new(&batch.body, header.tag.get(), Check::Lengths).flatten() {
                    self.found
                        .push_back(Found::Record(RecordSummary::new(&frame)));
                }
                self.offset += header.file_bytes();
                self.last = Some(header);
            }
            BatchSeen::BadBody(header, body) if self.follows(&header) => {
                let later = self.later(self.offset + BLOCK);
                let frames = Frames::new(&body, header.tag.get(), Check::Checksums);
                let right: Vec<_> = frames
                    .flatten()
                    .map(|frame| RecordSummary::new(&frame))
                    .collect();
                let kind = InspectedDamage::BadBody {
                    number: BatchNumber(header.number.get()),
                    records: header.records.get(),
                    salvaged: right.len() as u32,
                    was_synced: self.was_synced(&later, header.number.get()),
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
            | BatchSeen::UnreadableBody(..)
            | BatchSeen::Nothing
            | BatchSeen::Other(_) => {
                let later = self.later(self.offset);
                if let Some(lost) = self.lost_before(&later) {
                    self.damage(lost);
                }
                self.resume(&later, None);
            }
        }
    }

    /// What is missing before the first later batch.
    fn lost_before(&self, later: &[(u64, BatchHeader)]) -> Option<InspectedDamage> {
        let (offset, next) = later.first()?;
        let before = next.number.get().saturating_sub(1);
        let first = match self.last {
            Some(last) => last.number.get() + 1,
            // A segment begins with a batch, and here was room for one.
            None if *offset == 2 * BLOCK => before,
            None => {
                return Some(InspectedDamage::Beginning {
                    last: BatchNumber(before),
                    was_synced: self.was_synced(later, before),
                });
            }
        };
        Some(InspectedDamage::Lost {
            first: BatchNumber(first),
            last: BatchNumber(before.max(first)),
            was_synced: self.was_synced(later, first),
        })
    }

    /// What is missing behind the last batch, as a later segment says.
    fn lost_behind(&self, last: Option<BatchHeader>) -> Option<InspectedDamage> {
        let told = self.told?;
        let Some(first) = last.map(|last| last.number.get() + 1) else {
            let lost = InspectedDamage::Beginning {
                last: told.last,
                was_synced: told.synced >= told.last,
            };
            // One that is not named may never have been used.
            return told.is_named.then_some(lost);
        };
        let lost = InspectedDamage::Lost {
            first: BatchNumber(first),
            last: told.last,
            was_synced: told.synced.0 >= first,
        };
        (first <= told.last.0).then_some(lost)
    }

    fn was_synced(&self, later: &[(u64, BatchHeader)], number: u64) -> bool {
        let mut headers = later.iter().map(|(_, header)| header.synced.get());
        self.told.is_some_and(|told| told.synced.0 >= number) || headers.any(|it| it >= number)
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
        if let Some(lost) = self.lost_behind(bad.or(self.last)) {
            self.damage(lost);
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
