//! Checkpoint files: the state of a partition at one entry, in pieces.
//!
//! A checkpoint is written into a file of its own; then the **manifest** of its partition is replaced, by writing a new file
//! and renaming it. Whoever reads a manifest finds the pieces whole, and the log synced to the checkpoint's index: both were
//! waited for, [`CheckpointWriter::finish`] asks for the proof. Files that no manifest names are removed.

mod check;
mod format;
mod held;
mod manifest;
mod reader;
mod writer;

use std::{collections::BTreeMap, io};

use courser_contract::{LogIndex, PartitionId};

pub use self::{
    check::check_checkpoint,
    format::{CHECKPOINT_VERSION, PIECE_BYTES_MAX},
    held::HeldFile,
    manifest::Manifest,
    reader::{CheckpointReader, CheckpointSummary},
    writer::CheckpointWriter,
};

use crate::{
    disk::{Disk, is_full, is_passing},
    ids::NodeIdentity,
    record::CheckpointAt,
};

#[cfg(all(test, feature = "testing"))]
mod tests;

/// The last durable checkpoint of each partition that has one.
pub type Manifests = BTreeMap<PartitionId, Manifest>;

/// The folder of checkpoints.
#[derive(Clone, Debug)]
pub struct CheckpointStore<D> {
    disk: D,
    node: NodeIdentity,
}

/// What was in the folder.
#[derive(Debug, Default)]
pub struct LoadedCheckpoints {
    /// Manifests that are whole.
    pub manifests: Manifests,
    /// Partitions whose manifest is damaged: they are set aside.
    pub damaged: Vec<(PartitionId, CheckpointError)>,
    /// Files that no manifest names, removed.
    pub removed: u64,
}

/// Why a checkpoint or a manifest cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CheckpointError {
    /// A version that this program does not know.
    #[error(
        "{name} has format version {version}, this program reads version {CHECKPOINT_VERSION}: start it with the program that wrote it"
    )]
    Version {
        /// File.
        name: String,
        /// Its version.
        version: u16,
    },
    /// Another node's.
    #[error("{name} belongs to node {}: is the data folder somebody else's?", .found.0)]
    Foreign {
        /// File.
        name: String,
        /// Whose it is.
        found: NodeIdentity,
    },
    /// Not what was written.
    #[error("{name} is damaged at byte {offset}: {what}")]
    Damaged {
        /// File.
        name: String,
        /// Where.
        offset: u64,
        /// What does not fit.
        what: &'static str,
    },
    /// A file was not made; nothing else was done.
    #[error("creating {name} failed")]
    NotMade {
        /// File.
        name: String,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// It is not written in place of the one that counts, which is at the same entry.
    #[error("{name} is the checkpoint that counts, and stays as it is")]
    Counts {
        /// File.
        name: String,
    },
    /// It did not get the name of the one whose place it takes, which stays. Both are of the state at one entry, and nothing was synced in
    /// between: whichever has the name fits the manifest.
    #[error("renaming {name} failed, so that the older one stays")]
    NotReplaced {
        /// File.
        name: String,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// Nobody knows which of two checkpoints is the one that counts after a loss of power.
    #[error("{what} {name} failed, so that nobody knows which checkpoint counts")]
    Uncertain {
        /// Which call.
        what: &'static str,
        /// File.
        name: String,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The disk refused.
    #[error("{what} {name} failed")]
    Disk {
        /// Which call.
        what: &'static str,
        /// File.
        name: String,
        /// What the system said.
        #[source]
        source: io::Error,
    },
}

impl<D: Disk> CheckpointStore<D> {
    /// Opens the folder, reads all manifests and removes what none of them names. What it gives is durable.
    ///
    /// Of a partition whose manifest is missing or damaged nobody knows which file was the one: those that are whole stay, for an operator who
    /// has the manifest, until another checkpoint of the partition counts (I7).
    ///
    /// # Errors
    /// When a file is of another version or node, or the folder cannot be read or synced. A damaged manifest is no error here
    /// but in the result.
    pub fn open(disk: D, node: NodeIdentity) -> Result<(Self, LoadedCheckpoints), CheckpointError> {
        let (store, mut loaded, names) = Self::read(disk, node)?;
        for name in &names {
            // One that cannot be removed is in nobody's way: the next start tries again.
            if store.is_left(name, &loaded) && store.disk.remove(name).is_ok() {
                loaded.removed += 1;
            }
        }
        Ok((store, loaded))
    }

    /// The same, and removes nothing.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn look(disk: D, node: NodeIdentity) -> Result<(Self, LoadedCheckpoints), CheckpointError> {
        let (store, loaded, _) = Self::read(disk, node)?;
        Ok((store, loaded))
    }

    /// What there is, and the names of all files.
    fn read(
        disk: D,
        node: NodeIdentity,
    ) -> Result<(Self, LoadedCheckpoints, Vec<String>), CheckpointError> {
        let store = Self { disk, node };
        // After a sync of the folder that failed, a process that was started again sees a manifest under its new name, and a
        // loss of power would bring back the one before: after the log has said that there is a newer one.
        store
            .disk
            .sync_dir()
            .map_err(failed("syncing", "the checkpoints' folder"))?;
        let mut loaded = LoadedCheckpoints::default();
        let mut names = store
            .disk
            .list()
            .map_err(failed("listing", "the checkpoints' folder"))?;
        names.sort_unstable();
        for name in &names {
            let Some(partition) = manifest::of_file_name(name) else {
                continue;
            };
            match manifest::read(&store.disk, name, node, partition) {
                Ok(manifest) => {
                    loaded.manifests.insert(partition, manifest);
                }
                Err(error @ CheckpointError::Damaged { .. }) => {
                    loaded.damaged.push((partition, error));
                }
                Err(error) => return Err(error),
            }
        }
        Ok((store, loaded, names))
    }

    /// Whether nobody needs a file: no manifest names it, and none that is missing may have.
    fn is_left(&self, name: &str, loaded: &LoadedCheckpoints) -> bool {
        match of_file_name(name) {
            Some((partition, index)) => match loaded.manifests.get(&partition) {
                Some(manifest) => manifest.at.index != index,
                None => !reader::may_be_whole(&self.disk, name),
            },
            None => name.ends_with(".new"),
        }
    }

    /// Begins a checkpoint of a partition at one entry.
    ///
    /// # Errors
    /// Those of the disk.
    pub fn writer(
        &self,
        partition: PartitionId,
        at: CheckpointAt,
    ) -> Result<CheckpointWriter<D>, CheckpointError> {
        CheckpointWriter::new(self.disk.clone(), self.node, partition, at)
    }

    /// Begins a checkpoint of a partition whose last one, or the manifest of that, is damaged on the disk. It may be at the same entry: then it is
    /// of the same state, and takes the place of the damaged one when all of it is durable.
    ///
    /// # Errors
    /// Those of the disk.
    pub fn renewing_writer(
        &self,
        partition: PartitionId,
        at: CheckpointAt,
    ) -> Result<CheckpointWriter<D>, CheckpointError> {
        CheckpointWriter::renewing(self.disk.clone(), self.node, partition, at)
    }

    /// Reads the checkpoint that a manifest names.
    ///
    /// # Errors
    /// When the file is missing or its beginning is not what was written.
    pub fn reader(
        &self,
        manifest: &Manifest,
    ) -> Result<CheckpointReader<D::File>, CheckpointError> {
        let name = file_name(manifest.partition, manifest.at.index);
        let file = self.disk.open(&name).map_err(failed("opening", &name))?;
        let reader = CheckpointReader::new(file, name)?;
        reader.expect(manifest, self.node)?;
        Ok(reader)
    }
}

/// Name of a checkpoint's file.
fn file_name(partition: PartitionId, index: LogIndex) -> String {
    format!("{}-{}.ckp", partition.0, index.0)
}

fn of_file_name(name: &str) -> Option<(PartitionId, LogIndex)> {
    let (partition, index) = name.strip_suffix(".ckp")?.split_once('-')?;
    let found = (
        PartitionId(partition.parse().ok()?),
        LogIndex(index.parse().ok()?),
    );
    (file_name(found.0, found.1) == name).then_some(found)
}

/// The partition to which a file of this name belongs in a folder of checkpoints: it is a checkpoint, or the manifest that names one.
#[must_use]
pub fn checkpoint_file(name: &str) -> Option<PartitionId> {
    let checkpoint = of_file_name(name).map(|(partition, _)| partition);
    checkpoint.or_else(|| manifest::of_file_name(name))
}

impl CheckpointError {
    /// Whether another checkpoint is worth a try, since the one before counts as it did: there was no room, a file could not be made for
    /// want of something that may be there again a moment later, such as a descriptor, or one did not get the name of another.
    #[must_use]
    pub fn is_passing(&self) -> bool {
        match self {
            Self::NotMade { source, .. } => is_full(source) || is_passing(source),
            Self::Disk { source, .. } => is_full(source),
            Self::NotReplaced { .. } => true,
            Self::Version { .. }
            | Self::Foreign { .. }
            | Self::Damaged { .. }
            | Self::Counts { .. }
            | Self::Uncertain { .. } => false,
        }
    }
}

fn not_made(name: &str) -> impl FnOnce(io::Error) -> CheckpointError {
    let name = name.to_owned();
    move |source| CheckpointError::NotMade { name, source }
}

fn failed(what: &'static str, name: &str) -> impl FnOnce(io::Error) -> CheckpointError {
    let name = name.to_owned();
    move |source| CheckpointError::Disk { what, name, source }
}

fn uncertain(what: &'static str, name: &str) -> impl FnOnce(io::Error) -> CheckpointError {
    let name = name.to_owned();
    move |source| CheckpointError::Uncertain { what, name, source }
}
