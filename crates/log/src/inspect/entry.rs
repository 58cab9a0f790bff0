//! One entry of a partition, looked for in segment files.

use bytes::{Bytes, BytesMut};
use courser_contract::{LogIndex, PartitionId, Term};
use zerocopy::FromBytes;

use super::{BLOCK, InspectError, SegmentInspector};
use crate::{
    disk::DiskFile,
    format::{BatchHeader, Kind, PieceHeader},
    ids::{Place, SegmentNumber},
    scan::{BatchSeen, Check, Frames, RawFrame, batch_at},
};

/// An entry that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundEntry {
    /// The batch that has it, or its last piece.
    pub place: Place,
    /// Term of the leader that proposed it.
    pub term: Term,
    /// What it says.
    pub data: Bytes,
}

/// Looks for one entry in segments that are given in the order of their numbers. The last one of its index counts; of damaged
/// batches the records whose own checksums are right are looked at.
#[derive(Debug)]
pub struct EntryFinder {
    partition: PartitionId,
    index: LogIndex,
    found: Option<FoundEntry>,
    /// Its pieces so far: term, bytes of all, bytes that are there.
    pieces: Option<(Term, u64, BytesMut)>,
    last: Option<BatchHeader>,
}

impl EntryFinder {
    /// For the entry of a partition.
    #[must_use]
    pub const fn new(partition: PartitionId, index: LogIndex) -> Self {
        Self {
            partition,
            index,
            found: None,
            pieces: None,
            last: None,
        }
    }

    /// Looks through a segment's file; `number` is that of its name. Cost: one pass over the file.
    ///
    /// # Errors
    /// As [`SegmentInspector::new`].
    pub fn segment<F: DiskFile>(
        &mut self,
        number: SegmentNumber,
        file: F,
    ) -> Result<(), InspectError> {
        let mut inspector = SegmentInspector::new(file)?;
        if inspector.summary.segment != number {
            // It was about to be used again: nothing in it counts.
            return Ok(());
        }
        let mut offset = BLOCK;
        while offset < inspector.window.len() {
            let (header, body, check) = match batch_at(&mut inspector.window, offset) {
                BatchSeen::Whole(batch) => (batch.header, batch.body, Check::Lengths),
                BatchSeen::BadBody(header, body) => (header, body, Check::Checksums),
                BatchSeen::UnreadableBody(header, _) => (header, Bytes::new(), Check::Checksums),
                BatchSeen::Nothing | BatchSeen::Other(_) | BatchSeen::Unreadable(_) => {
                    offset += BLOCK;
                    continue;
                }
            };
            if !self.counts(&header, number) {
                offset += BLOCK;
                continue;
            }
            let segment = number;
            for frame in Frames::new(&body, header.tag.get(), check).flatten() {
                self.take(&frame, Place { segment, offset });
            }
            self.last = Some(header);
            // A damaged body is as long as its header says.
            offset += header.file_bytes();
        }
        Ok(())
    }

    /// What was found.
    #[must_use]
    pub fn finish(self) -> Option<FoundEntry> {
        self.found
    }

    /// Whether a batch is of this segment, and of no start that a later one has cut.
    fn counts(&self, header: &BatchHeader, segment: SegmentNumber) -> bool {
        let is_later = self.last.is_none_or(|last| {
            header.number.get() > last.number.get() && header.start.get() >= last.start.get()
        });
        header.segment.get() == segment.0 && is_later
    }

    fn take(&mut self, frame: &RawFrame, place: Place) {
        if frame.partition != self.partition {
            return;
        }
        match frame.known() {
            Some(Kind::Entry) => {
                self.pieces = None;
                if frame.index == self.index {
                    self.found = Some(FoundEntry {
                        place,
                        term: frame.term,
                        data: frame.data.clone(),
                    });
                } else if frame.index < self.index {
                    // It replaces all above it.
                    self.found = None;
                }
            }
            Some(Kind::Piece) if frame.index == self.index => self.take_piece(frame, place),
            Some(_) | None => {}
        }
    }

    fn take_piece(&mut self, frame: &RawFrame, place: Place) {
        let Ok((head, part)) = PieceHeader::read_from_prefix(&frame.data) else {
            return;
        };
        let (offset, total) = (head.offset.get(), head.total.get());
        let mut so_far = match self.pieces.take() {
            _ if offset == 0 => BytesMut::new(),
            Some((term, of, so_far))
                if (term, of, so_far.len() as u64) == (frame.term, total, offset) =>
            {
                so_far
            }
            // A piece between is lost.
            Some(_) | None => return,
        };
        so_far.extend_from_slice(part);
        if so_far.len() as u64 == total {
            self.found = Some(FoundEntry {
                place,
                term: frame.term,
                data: so_far.freeze(),
            });
        } else {
            self.pieces = Some((frame.term, total, so_far));
        }
    }
}
