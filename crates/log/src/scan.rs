//! Reading a segment file in order: in large reads, and never further than what is there.

use std::io;

use bytes::{Bytes, BytesMut};
use courser_contract::{LogIndex, PartitionId, Term};
use zerocopy::FromBytes;

use crate::{
    disk::{DiskFile, is_passing},
    format::{
        BATCH_HEADER_BYTES, BLOCK_BYTES, BatchHeader, FRAME_ALIGN, FRAME_BYTES, Frame, Header,
        KIND_SHORT_ENTRY, Kind, SHORT_FRAME_BYTES, Seen, ShortFrame, frame_crc, frame_seed,
    },
};

/// Bytes of one read, unless a batch is longer.
const CHUNK_BYTES: u64 = 1 << 20;

/// A file and the part of it that was read last. What it hands out shares that memory.
#[derive(Debug)]
pub(crate) struct Window<F> {
    file: F,
    len: u64,
    chunk: Bytes,
    at: u64,
    /// Bytes of one read.
    ahead: u64,
    /// Whether what a read needs and the last one gave is kept. Not for those who look at what is being written.
    carries: bool,
    /// Bytes that were asked of the file.
    pub(crate) read_bytes: u64,
}

/// Why there are no bytes.
#[derive(Debug)]
pub(crate) enum Fault {
    /// The file ends before them.
    End,
    /// The disk does not give them.
    Unreadable(io::Error),
}

impl<F: DiskFile> Window<F> {
    pub(crate) fn new(file: F) -> io::Result<Self> {
        let len = file.len()?;
        Ok(Self {
            file,
            len,
            chunk: Bytes::new(),
            at: 0,
            ahead: CHUNK_BYTES,
            carries: false,
            read_bytes: 0,
        })
    }

    pub(crate) const fn len(&self) -> u64 {
        self.len
    }

    pub(crate) fn into_file(self) -> F {
        self.file
    }

    pub(crate) const fn file(&self) -> &F {
        &self.file
    }

    /// Reads so many bytes at once from now on, and none of them twice while it goes forward.
    pub(crate) const fn set_ahead(&mut self, bytes: u64) {
        self.ahead = bytes;
        self.carries = true;
    }

    /// Whether a batch is here without another read.
    pub(crate) fn holds_batch(&self, offset: u64) -> bool {
        let Some(head) = self.held(offset, BATCH_HEADER_BYTES as u64) else {
            return false;
        };
        match BatchHeader::see(&head) {
            Seen::Header(header) => {
                let bytes = BATCH_HEADER_BYTES as u64 + u64::from(header.body_bytes.get());
                self.held(offset, bytes).is_some()
            }
            Seen::Nothing | Seen::Other(_) => false,
        }
    }

    /// `len` bytes from `offset` on.
    pub(crate) fn bytes(&mut self, offset: u64, len: u64) -> Result<Bytes, Fault> {
        match offset.checked_add(len) {
            Some(end) if end <= self.len => {}
            Some(_) | None => return Err(Fault::End),
        }
        if let Some(found) = self.held(offset, len) {
            return Ok(found);
        }
        let tail = self.tail(offset);
        let rest = len.saturating_sub(tail.len() as u64).max(self.ahead);
        let ahead = (tail.len() as u64 + rest).min(self.len - offset);
        let read = match self.read(offset, ahead, &tail) {
            Ok(read) => read,
            // What is ahead may be what cannot be read; and a call that fails once is no word on what is there.
            Err(_) => return self.read(offset, len, &[]).map_err(Fault::Unreadable),
        };
        self.chunk = read;
        self.at = offset;
        Ok(self.held(offset, len).expect("as much was read"))
    }

    fn held(&self, offset: u64, len: u64) -> Option<Bytes> {
        let from = usize::try_from(offset.checked_sub(self.at)?).ok()?;
        let to = from.checked_add(usize::try_from(len).ok()?)?;
        (to <= self.chunk.len()).then(|| self.chunk.slice(from..to))
    }

    /// What of the last read is behind `offset`, to be carried on.
    fn tail(&self, offset: u64) -> Bytes {
        let from = offset.checked_sub(self.at);
        let from = from.filter(|from| self.carries && *from < self.chunk.len() as u64);
        from.map_or_else(Bytes::new, |from| {
            Bytes::copy_from_slice(&self.chunk[from as usize..])
        })
    }

    /// `len` bytes from `offset` on, of which the first ones are known.
    fn read(&mut self, offset: u64, len: u64, tail: &[u8]) -> io::Result<Bytes> {
        let len = usize::try_from(len).expect("a read is no longer than a segment");
        // The last chunk's memory serves again unless entries still share it.
        let mut buffer = match std::mem::take(&mut self.chunk).try_into_mut() {
            Ok(mut buffer) => {
                buffer.resize(len, 0);
                buffer
            }
            // Of new memory nearly all is zero already.
            Err(_) => BytesMut::zeroed(len),
        };
        let (known, rest) = buffer.split_at_mut(tail.len());
        known.copy_from_slice(tail);
        self.file.read_at(rest, offset + known.len() as u64)?;
        self.read_bytes += rest.len() as u64;
        Ok(buffer.freeze())
    }
}

/// A batch as it lies in a file, its checksums right.
#[derive(Clone, Debug)]
pub(crate) struct RawBatch {
    pub(crate) header: BatchHeader,
    pub(crate) body: Bytes,
}

/// What stands at a place where a batch may begin.
#[derive(Debug)]
pub(crate) enum BatchSeen {
    /// No header, or no longer one.
    Nothing,
    /// A header of another version.
    Other(u16),
    /// An intact header, and a body that is not the one that was written; with as much of it as there is.
    BadBody(BatchHeader, Bytes),
    /// An intact header, and a body that the disk does not give.
    UnreadableBody(BatchHeader, io::Error),
    /// All of it.
    Whole(RawBatch),
    /// The disk does not give it.
    Unreadable(io::Error),
}

/// Looks at a place.
pub(crate) fn batch_at<F: DiskFile>(window: &mut Window<F>, offset: u64) -> BatchSeen {
    let head = match window.bytes(offset, BATCH_HEADER_BYTES as u64) {
        Ok(head) => head,
        Err(Fault::End) => return BatchSeen::Nothing,
        Err(Fault::Unreadable(error)) => return BatchSeen::Unreadable(error),
    };
    let header = match BatchHeader::see(&head) {
        Seen::Nothing => return BatchSeen::Nothing,
        Seen::Other(version) => return BatchSeen::Other(version),
        Seen::Header(header) => header,
    };
    let body_bytes = header.body_bytes.get() as usize;
    // The slice must not keep the chunk from being used again.
    drop(head);
    let from = offset + BATCH_HEADER_BYTES as u64;
    let there = (body_bytes as u64).min(window.len().saturating_sub(from));
    let body = match window.bytes(from, there) {
        Ok(body) => body,
        Err(Fault::End) => Bytes::new(),
        // What is not to be had now is not lost.
        Err(Fault::Unreadable(error)) if is_passing(&error) => return BatchSeen::Unreadable(error),
        Err(Fault::Unreadable(error)) => return BatchSeen::UnreadableBody(header, error),
    };
    if body.len() == body_bytes && crc32c::crc32c(&body) == header.body_crc.get() {
        BatchSeen::Whole(RawBatch { header, body })
    } else {
        BatchSeen::BadBody(header, body)
    }
}

/// What a block begins with that a batch may begin with; `None` behind the end of the file. Behind a bad place batches are found by this, block
/// by block.
pub(crate) fn header_at<F: DiskFile>(
    window: &mut Window<F>,
    offset: u64,
) -> io::Result<Option<Seen<BatchHeader>>> {
    let left = window.len().saturating_sub(offset);
    if left == 0 {
        return Ok(None);
    }
    match window.bytes(offset, left.min(BLOCK_BYTES as u64)) {
        Ok(block) => Ok(Some(BatchHeader::see(&block))),
        Err(Fault::End) => Ok(Some(Seen::Nothing)),
        Err(Fault::Unreadable(error)) => Err(error),
    }
}

/// Which batch it is, and who wrote it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stamp {
    pub(crate) number: u64,
    pub(crate) start: u32,
    /// Random word of that start.
    pub(crate) word: u64,
}

impl Stamp {
    pub(crate) const fn of(header: &BatchHeader) -> Self {
        Self {
            number: header.number.get(),
            start: header.start.get(),
            word: header.word.get(),
        }
    }

    /// Whether the same start or a later one has written that: an earlier one can not have, behind this.
    pub(crate) const fn allows_start_of(&self, header: &BatchHeader) -> bool {
        let start = header.start.get();
        start > self.start || start == self.start && header.word.get() == self.word
    }

    /// Whether that may lie behind it in the log.
    pub(crate) const fn allows(&self, header: &BatchHeader) -> bool {
        header.number.get() > self.number && self.allows_start_of(header)
    }
}

/// A frame and its data.
#[derive(Clone, Debug)]
pub(crate) struct RawFrame {
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    pub(crate) partition: PartitionId,
    pub(crate) term: Term,
    pub(crate) index: LogIndex,
    pub(crate) data: Bytes,
}

impl RawFrame {
    pub(crate) const fn known(&self) -> Option<Kind> {
        Kind::of(self.kind)
    }
}

/// Whether each frame's own checksum is looked at: not needed in a body whose checksum is right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Check {
    Lengths,
    Checksums,
}

/// The frames of a body. With [`Check::Checksums`] those that are damaged are `None`, as far as lengths lead.
#[derive(Debug)]
pub(crate) struct Frames<'a> {
    body: &'a Bytes,
    at: usize,
    seed: u32,
    check: Check,
}

impl<'a> Frames<'a> {
    pub(crate) fn new(body: &'a Bytes, tag: u64, check: Check) -> Self {
        Self {
            body,
            at: 0,
            seed: frame_seed(tag),
            check,
        }
    }
}

/// What the head of a frame says, whichever form it has.
struct Head {
    /// Bytes of the head itself.
    len: usize,
    crc: u32,
    kind: u8,
    flags: u8,
    partition: u16,
    data_bytes: usize,
    term: u64,
    index: u64,
}

impl Head {
    /// Of the frame at the beginning of `bytes`; none: there is no whole one.
    #[inline]
    fn read(bytes: &[u8]) -> Option<Self> {
        // Both forms have their kind in the same place.
        match bytes.get(4) {
            Some(&KIND_SHORT_ENTRY) => {
                let (frame, _) = ShortFrame::read_from_prefix(bytes).ok()?;
                Some(Self {
                    len: SHORT_FRAME_BYTES,
                    crc: frame.crc.get(),
                    kind: Kind::Entry.number(),
                    flags: frame.flags,
                    partition: frame.partition.get(),
                    data_bytes: frame.data_bytes(),
                    term: frame.term(),
                    index: frame.index(),
                })
            }
            Some(_) | None => {
                let (frame, _) = Frame::read_from_prefix(bytes).ok()?;
                Some(Self {
                    len: FRAME_BYTES,
                    crc: frame.crc.get(),
                    kind: frame.kind,
                    flags: frame.flags,
                    partition: frame.partition.get(),
                    data_bytes: frame.data_bytes.get() as usize,
                    term: frame.term.get(),
                    index: frame.index.get(),
                })
            }
        }
    }
}

impl Iterator for Frames<'_> {
    type Item = Option<RawFrame>;

    fn next(&mut self) -> Option<Self::Item> {
        let rest = self.body.get(self.at..)?;
        if rest.is_empty() {
            return None;
        }
        let end = self.body.len();
        let Some(head) = Head::read(rest) else {
            self.at = end;
            return Some(None);
        };
        let Some(data) = rest[head.len..].get(..head.data_bytes) else {
            self.at = end;
            return Some(None);
        };
        let from = self.at + head.len;
        let to = from + head.data_bytes;
        self.at = to.next_multiple_of(FRAME_ALIGN).min(end);
        let wrong = self.check == Check::Checksums
            && frame_crc(self.seed, &rest[..head.len], &[], data) != head.crc;
        if wrong {
            return Some(None);
        }
        Some(Some(RawFrame {
            kind: head.kind,
            flags: head.flags,
            partition: PartitionId(head.partition),
            term: Term(head.term),
            index: LogIndex(head.index),
            data: self.body.slice(from..to),
        }))
    }
}
