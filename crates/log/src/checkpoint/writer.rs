//! Writing a checkpoint.

use std::io::{self, IoSlice, Write};

use courser_contract::{LogIndex, PartitionId};
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
    not_made, of_file_name, uncertain,
};
use crate::{
    disk::{Disk, DiskFile, is_full},
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
    /// Another name until it is durable: it may take the place of the one that counts.
    beside: Option<String>,
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
        let file = match disk.create_new(&name) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                remove_left(&disk, node, (partition, at), &name)?;
                disk.create_new(&name)
            }
            made => made,
        };
        let file = file.map_err(not_made(&name))?;
        Self::begun(disk, (node, partition, at), (name, None), file)
    }

    /// Beside the one that counts, whose name it takes if that is at the same entry.
    pub(super) fn renewing(
        disk: D,
        node: NodeIdentity,
        partition: PartitionId,
        at: CheckpointAt,
    ) -> Result<Self, CheckpointError> {
        let name = file_name(partition, at.index);
        let beside = format!("{name}.new");
        let file = disk.create(&beside).map_err(not_made(&beside))?;
        Self::begun(disk, (node, partition, at), (name, Some(beside)), file)
    }

    fn begun(
        disk: D,
        (node, partition, at): (NodeIdentity, PartitionId, CheckpointAt),
        (name, beside): (String, Option<String>),
        file: D::File,
    ) -> Result<Self, CheckpointError> {
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
            remove_unfinished(&disk, beside.as_ref().unwrap_or(&name));
            return Err(failed("writing", &name)(error));
        }
        Ok(Self {
            disk,
            node,
            partition,
            at,
            name,
            beside,
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
    /// Those of the disk. Behind one that [is passing](CheckpointError::is_passing) the older checkpoint counts, and nothing is left of this one.
    /// All others are final: nobody knows which of them counts, and the next start says.
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
        if let Err(source) = self.disk.rename(&new, &name) {
            return Err(self.not_renamed(source, &new));
        }
        self.disk
            .sync_dir()
            .map_err(uncertain("syncing the folder of", &name))?;
        self.remove_older();
        Ok(manifest)
    }

    /// A system without room has not renamed anything, if the manifest is still the one that it was.
    fn not_renamed(self, source: io::Error, new: &str) -> CheckpointError {
        let name = manifest::file_name(self.partition);
        let is_full = is_full(&source);
        let error = failed("renaming", new)(source);
        let found = names(&self.disk, self.node, self.partition);
        if is_full && found.is_ok_and(|index| index != Some(self.at.index)) {
            remove_unfinished(&self.disk, new);
            self.give_up();
            return error;
        }
        match error {
            CheckpointError::Disk { source, .. } => uncertain("renaming", &name)(source),
            other => other,
        }
    }

    /// Ends it without one, and gives back the room that it took: on a full disk the next attempt needs it.
    pub fn give_up(self) {
        // One that has its name may count.
        let written = self.beside.as_ref().unwrap_or(&self.name);
        remove_unfinished(&self.disk, written);
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
        // Behind a crash in between the manifest that is there names it: both are of the state at one entry.
        if let Some(beside) = &self.beside {
            let renamed = self.disk.rename(beside, &self.name);
            renamed.map_err(|source| CheckpointError::NotReplaced {
                name: beside.clone(),
                source,
            })?;
        }
        let mut bytes = Vec::new();
        bytes
            .write_all(&manifest::encode(manifest, self.node))
            .expect("a vector takes all bytes");
        let file = self.disk.create(new).map_err(not_made(new))?;
        file.write_at(&[IoSlice::new(&bytes)], 0)
            .map_err(failed("writing", new))?;
        file.sync().map_err(failed("syncing", new))?;
        // The name of the pieces' file must not come later than the manifest that names it. A sync of the folder stands for all names in it:
        // when it fails, for whatever reason, nobody knows which of them are durable.
        self.disk
            .sync_dir()
            .map_err(uncertain("syncing the folder of", new))
    }

    /// What cannot be removed is none of this checkpoint's, which counts: the next one of the partition tries again, and each start.
    fn remove_older(&self) {
        for name in self.disk.list().unwrap_or_default() {
            let older = of_file_name(&name).is_some_and(|(partition, index)| {
                partition == self.partition && index != self.at.index
            });
            if older {
                remove_unfinished(&self.disk, &name);
            }
        }
    }
}

/// The entry of the checkpoint that the manifest of a partition names, if there is a whole manifest.
fn names<D: Disk>(
    disk: &D,
    node: NodeIdentity,
    partition: PartitionId,
) -> Result<Option<LogIndex>, CheckpointError> {
    match manifest::read(disk, &manifest::file_name(partition), node, partition) {
        Ok(manifest) => Ok(Some(manifest.at.index)),
        Err(CheckpointError::Damaged { .. }) => Ok(None),
        Err(CheckpointError::Disk { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Removes what is left of a checkpoint at the same entry that was given up; never the one that counts.
fn remove_left<D: Disk>(
    disk: &D,
    node: NodeIdentity,
    (partition, at): (PartitionId, CheckpointAt),
    name: &str,
) -> Result<(), CheckpointError> {
    // Nothing is made yet, so what keeps the manifest from being read keeps this file from being made: a descriptor may be there again a moment
    // later.
    let counts = names(disk, node, partition).map_err(|error| match error {
        CheckpointError::Disk { source, .. } => not_made(name)(source),
        other => other,
    })?;
    if counts == Some(at.index) {
        let name = name.to_owned();
        return Err(CheckpointError::Counts { name });
    }
    disk.remove(name).map_err(not_made(name))
}

/// A file that nothing names. What is left of it is removed later if not now.
fn remove_unfinished<D: Disk>(disk: &D, name: &str) {
    let _removed = disk.remove(name);
}
