//! Writing a checkpoint.

use std::io::{IoSlice, Write};

use courser_contract::PartitionId;
use zerocopy::{
    FromZeros, IntoBytes,
    little_endian::{U16, U32, U64},
};

use super::{
    CheckpointError, failed, file_name,
    format::{
        CHECKPOINT_VERSION, END_MARK, EndMark, FILE_HEADER_BYTES, FILE_MAGIC, FileHeader,
        PIECE_BYTES_MAX, PIECE_HEAD_BYTES, PieceHead, end_crc, piece_crc,
    },
    manifest::{self, Manifest},
    not_made, of_file_name,
};
use crate::{
    disk::{Disk, DiskFile, is_passing},
    ids::{NodeIdentity, Synced},
    live::LiveEntries,
    record::CheckpointAt,
};

/// A checkpoint that is being written. Dropped before [`CheckpointWriter::finish`], it leaves a file that the next checkpoint of
/// the partition or the next start removes; [`CheckpointWriter::give_up`] leaves none.
#[derive(Debug)]
pub struct CheckpointWriter<D: Disk> {
    disk: D,
    node: NodeIdentity,
    partition: PartitionId,
    at: CheckpointAt,
    name: String,
    file: D::File,
    file_crc: u32,
    offset: u64,
    pieces: u32,
    bytes: u64,
}

impl<D: Disk> CheckpointWriter<D> {
    pub(super) fn new(
        disk: D,
        node: NodeIdentity,
        partition: PartitionId,
        at: CheckpointAt,
    ) -> Result<Self, CheckpointError> {
        let name = file_name(partition, at.index);
        let file = disk.create(&name).map_err(not_made(&name))?;
        let mut header = FileHeader::new_zeroed();
        header.magic = FILE_MAGIC;
        header.version = U16::new(CHECKPOINT_VERSION);
        header.partition = U16::new(partition.0);
        header.index = U64::new(at.index.0);
        header.term = U64::new(at.term.0);
        header.node = U64::new(node.0);
        let before_crc = size_of::<FileHeader>() - 4;
        let file_crc = crc32c::crc32c(&header.as_bytes()[..before_crc]);
        header.crc = U32::new(file_crc);
        if let Err(error) = file.write_at(&[IoSlice::new(header.as_bytes())], 0) {
            remove_unfinished(&disk, &name);
            return Err(failed("writing", &name)(error));
        }
        Ok(Self {
            disk,
            node,
            partition,
            at,
            name,
            file,
            file_crc,
            offset: FILE_HEADER_BYTES,
            pieces: 0,
            bytes: 0,
        })
    }

    /// Adds a piece of at most [`PIECE_BYTES_MAX`].
    ///
    /// # Errors
    /// Those of the disk; the checkpoint is then given up.
    ///
    /// # Panics
    /// When the piece is longer.
    pub fn piece(&mut self, piece: &[u8]) -> Result<(), CheckpointError> {
        assert!(
            piece.len() <= PIECE_BYTES_MAX,
            "a piece of a checkpoint is at most 64 KiB"
        );
        let mut head = PieceHead::new_zeroed();
        head.bytes = U32::new(piece.len() as u32);
        head.number = U32::new(self.pieces);
        head.crc = U32::new(piece_crc(self.file_crc, &head, piece));
        let parts = [IoSlice::new(head.as_bytes()), IoSlice::new(piece)];
        self.file
            .write_at(&parts, self.offset)
            .map_err(failed("writing", &self.name))?;
        self.offset += PIECE_HEAD_BYTES + piece.len() as u64;
        self.pieces += 1;
        self.bytes += piece.len() as u64;
        Ok(())
    }

    /// Bytes of the pieces so far.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Makes the checkpoint the one that counts: pieces, end and manifest are durable when this returns, and older files of the
    /// partition are removed.
    ///
    /// `synced` proves that the log is durable to the checkpoint's index: it is from a sync that ended after the entry at that
    /// index was written.
    ///
    /// # Errors
    /// Those of the disk; then the older checkpoint counts, or this one, and the next start says which.
    pub fn finish(self, live: LiveEntries, synced: Synced) -> Result<Manifest, CheckpointError> {
        let manifest = Manifest {
            partition: self.partition,
            at: self.at,
            synced,
            live,
            pieces: self.pieces,
            bytes: self.bytes,
        };
        let name = manifest::file_name(self.partition);
        let new = format!("{name}.new");
        if let Err(error) = self.prepare(&manifest, &new) {
            remove_unfinished(&self.disk, &new);
            self.give_up();
            return Err(error);
        }
        self.disk
            .rename(&new, &name)
            .map_err(failed("renaming", &new))?;
        self.disk
            .sync_dir()
            .map_err(failed("syncing the folder of", &name))?;
        self.remove_older()?;
        Ok(manifest)
    }

    /// Ends it without one, and gives back the room that it took: on a full disk the next attempt needs it.
    pub fn give_up(self) {
        remove_unfinished(&self.disk, &self.name);
    }

    /// Everything is durable but the manifest's name.
    fn prepare(&self, manifest: &Manifest, new: &str) -> Result<(), CheckpointError> {
        let mut end = EndMark::new_zeroed();
        end.mark = U32::new(END_MARK);
        end.pieces = U32::new(self.pieces);
        end.bytes = U64::new(self.bytes);
        end.crc = U32::new(end_crc(self.file_crc, &end));
        self.file
            .write_at(&[IoSlice::new(end.as_bytes())], self.offset)
            .map_err(failed("writing", &self.name))?;
        self.file.sync().map_err(failed("syncing", &self.name))?;
        let mut bytes = Vec::new();
        bytes
            .write_all(&manifest::encode(manifest, self.node))
            .expect("a vector takes all bytes");
        let file = self.disk.create(new).map_err(not_made(new))?;
        file.write_at(&[IoSlice::new(&bytes)], 0)
            .map_err(failed("writing", new))?;
        file.sync().map_err(failed("syncing", new))?;
        // The name of the pieces' file must not come later than the manifest that names it.
        self.disk
            .sync_dir()
            .map_err(failed("syncing the folder of", new))
    }

    fn remove_older(&self) -> Result<(), CheckpointError> {
        let names = match self.disk.list() {
            Ok(names) => names,
            // The next checkpoint of the partition does it.
            Err(error) if is_passing(&error) => return Ok(()),
            Err(error) => return Err(failed("listing", "the checkpoints' folder")(error)),
        };
        for name in names {
            let older = of_file_name(&name).is_some_and(|(partition, index)| {
                partition == self.partition && index != self.at.index
            });
            if older {
                self.disk.remove(&name).map_err(failed("removing", &name))?;
            }
        }
        Ok(())
    }
}

/// A file that nothing names. What is left of it is removed at the next start if not now.
fn remove_unfinished<D: Disk>(disk: &D, name: &str) {
    let _removed = disk.remove(name);
}
