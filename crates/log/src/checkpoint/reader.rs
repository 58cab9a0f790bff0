//! Reading a checkpoint, piece by piece.

use bytes::Bytes;
use courser_contract::{LogIndex, PartitionId, Term};
use zerocopy::{FromBytes, FromZeros, IntoBytes};

use super::{
    CheckpointError, failed,
    format::{
        CHECKPOINT_VERSION, END_MARK, END_MARK_BYTES, EndMark, FILE_HEADER_BYTES, FILE_MAGIC,
        FileHeader, PIECE_BYTES_MAX, PIECE_HEAD_BYTES, PieceHead, end_crc, piece_crc,
    },
    manifest::Manifest,
};
use crate::{
    disk::{Disk, DiskFile},
    ids::NodeIdentity,
    record::CheckpointAt,
    scan::{Fault, Window},
};

/// Reads the pieces of a checkpoint in order and checks each. Memory: one piece, and a read of up to 1 MiB.
#[derive(Debug)]
pub struct CheckpointReader<F> {
    window: Window<F>,
    name: String,
    summary: CheckpointSummary,
    file_crc: u32,
    offset: u64,
    pieces: u32,
    bytes: u64,
    ended: bool,
}

/// What the beginning of a checkpoint's file says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckpointSummary {
    /// Whose.
    pub partition: PartitionId,
    /// The entry at which its pieces are valid.
    pub at: CheckpointAt,
    /// Which node wrote it.
    pub node: NodeIdentity,
}

impl<F: DiskFile> CheckpointReader<F> {
    /// Begins to read a file; `name` is for messages.
    ///
    /// # Errors
    /// When the beginning is not what was written, of another version, or cannot be read.
    pub fn new(file: F, name: String) -> Result<Self, CheckpointError> {
        let mut window = Window::new(file).map_err(failed("reading", &name))?;
        let mut reader = {
            let bytes = take(&mut window, &name, 0, FILE_HEADER_BYTES)?;
            let header = FileHeader::read_from_bytes(&bytes).expect("as many bytes were taken");
            let file_crc = crc32c::crc32c(&bytes[..bytes.len() - 4]);
            if header.magic != FILE_MAGIC || header.crc.get() != file_crc {
                return Err(damaged(&name, 0, "its header is not one of a checkpoint"));
            }
            let version = header.version.get();
            if version != CHECKPOINT_VERSION {
                return Err(CheckpointError::Version { name, version });
            }
            let summary = CheckpointSummary {
                partition: PartitionId(header.partition.get()),
                at: CheckpointAt {
                    index: LogIndex(header.index.get()),
                    term: Term(header.term.get()),
                },
                node: NodeIdentity(header.node.get()),
            };
            Self {
                window,
                name,
                summary,
                file_crc,
                offset: 0,
                pieces: 0,
                bytes: 0,
                ended: false,
            }
        };
        reader.offset = FILE_HEADER_BYTES;
        Ok(reader)
    }

    /// What the file says of itself.
    #[must_use]
    pub const fn summary(&self) -> CheckpointSummary {
        self.summary
    }

    /// Pieces and their bytes so far.
    #[must_use]
    pub const fn so_far(&self) -> (u32, u64) {
        (self.pieces, self.bytes)
    }

    /// That it is the one that a manifest names.
    pub(super) fn expect(
        &self,
        manifest: &Manifest,
        node: NodeIdentity,
    ) -> Result<(), CheckpointError> {
        if self.summary.node != node {
            return Err(CheckpointError::Foreign {
                name: self.name.clone(),
                found: self.summary.node,
            });
        }
        if (self.summary.partition, self.summary.at) != (manifest.partition, manifest.at) {
            return Err(damaged(
                &self.name,
                0,
                "it is not the one that the manifest names",
            ));
        }
        Ok(())
    }

    /// The next piece; `None` after the last, once the end is there and says the same.
    ///
    /// # Errors
    /// When what is there is not what was written, or cannot be read.
    pub fn next_piece(&mut self) -> Result<Option<Bytes>, CheckpointError> {
        if self.ended {
            return Ok(None);
        }
        let at = self.offset;
        let head = take(&mut self.window, &self.name, at, PIECE_HEAD_BYTES)?;
        let head = PieceHead::read_from_bytes(&head).expect("as many bytes were taken");
        let len = head.bytes.get();
        if len == END_MARK {
            self.end()?;
            return Ok(None);
        }
        if len as usize > PIECE_BYTES_MAX {
            return Err(damaged(&self.name, at, "a piece is longer than any"));
        }
        let from = at + PIECE_HEAD_BYTES;
        let piece = take(&mut self.window, &self.name, from, u64::from(len))?;
        let crc = piece_crc(self.file_crc, &head, &piece);
        if head.number.get() != self.pieces || head.crc.get() != crc {
            return Err(damaged(&self.name, at, "a piece is not what was written"));
        }
        self.offset = from + u64::from(len);
        self.pieces += 1;
        self.bytes += u64::from(len);
        Ok(Some(piece))
    }

    fn end(&mut self) -> Result<(), CheckpointError> {
        let at = self.offset;
        let end = take(&mut self.window, &self.name, at, END_MARK_BYTES)?;
        let end = EndMark::read_from_bytes(&end).expect("as many bytes were taken");
        debug_assert_eq!(end.as_bytes().len() as u64, END_MARK_BYTES);
        let counts = (end.pieces.get(), end.bytes.get());
        if end.crc.get() != end_crc(self.file_crc, &end) || counts != (self.pieces, self.bytes) {
            return Err(damaged(&self.name, at, "its end does not fit its pieces"));
        }
        self.ended = true;
        Ok(())
    }
}

fn take<F: DiskFile>(
    window: &mut Window<F>,
    name: &str,
    offset: u64,
    len: u64,
) -> Result<Bytes, CheckpointError> {
    window.bytes(offset, len).map_err(|fault| match fault {
        Fault::End => damaged(name, offset, "it ends early"),
        Fault::Unreadable(source) => failed("reading", name)(source),
    })
}

fn damaged(name: &str, offset: u64, what: &'static str) -> CheckpointError {
    CheckpointError::Damaged {
        name: name.to_owned(),
        offset,
        what,
    }
}

/// Whether a file has the end that is written last. What cannot be read may be whole.
pub(super) fn may_be_whole<D: Disk>(disk: &D, name: &str) -> bool {
    let mut end = EndMark::new_zeroed();
    let read = disk.open(name).and_then(|file| {
        let Some(at) = file.len()?.checked_sub(END_MARK_BYTES) else {
            return Ok(());
        };
        file.read_at(end.as_mut_bytes(), at)
    });
    read.is_err() || end.mark.get() == END_MARK
}
