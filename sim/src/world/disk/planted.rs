//! A disk with planted bugs: what a log that forgets a duty would do.

use std::io::{self, IoSlice};

use courser_log::testing::{MemDisk, MemFile};
use courser_log::{Disk, DiskFile};

use crate::bug::Bug;

/// A folder.
#[derive(Clone, Debug)]
pub(super) struct PlantedDisk {
    disk: MemDisk,
    bug: Option<Bug>,
}

/// A file of it.
#[derive(Debug)]
pub(super) struct PlantedFile {
    file: MemFile,
    name: String,
    bug: Option<Bug>,
}

impl PlantedDisk {
    pub(super) const fn new(disk: MemDisk, bug: Option<Bug>) -> Self {
        Self { disk, bug }
    }

    /// Checkpoints of the partition of which a file is begun.
    fn remove_older(&self, name: &str) -> io::Result<()> {
        let partition = |name: &str| {
            let (partition, _) = name.strip_suffix(".ckp")?.split_once('-')?;
            Some(partition.to_owned())
        };
        let begun = partition(name);
        let names = self.disk.names().into_iter();
        for older in names.filter(|older| begun.is_some() && partition(older) == begun) {
            self.disk.remove(&older)?;
        }
        Ok(())
    }

    fn file(&self, name: &str, file: MemFile) -> PlantedFile {
        PlantedFile {
            file,
            name: name.to_owned(),
            bug: self.bug,
        }
    }
}

impl Disk for PlantedDisk {
    type File = PlantedFile;

    fn list(&self) -> io::Result<Vec<String>> {
        self.disk.list()
    }

    fn create(&self, name: &str) -> io::Result<PlantedFile> {
        if self.bug == Some(Bug::OldCheckpointRemoved) {
            self.remove_older(name)?;
        }
        Ok(self.file(name, self.disk.create(name)?))
    }

    fn open(&self, name: &str) -> io::Result<PlantedFile> {
        Ok(self.file(name, self.disk.open(name)?))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.disk.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.disk.remove(name)
    }

    fn sync_dir(&self) -> io::Result<()> {
        self.disk.sync_dir()
    }

    fn free_bytes(&self) -> io::Result<u64> {
        self.disk.free_bytes()
    }
}

impl PlantedFile {
    /// Whether the bug forgets to sync this file.
    fn is_forgotten(&self) -> bool {
        match self.bug {
            Some(Bug::PiecesNotSynced) => self.name.ends_with(".ckp"),
            _ => false,
        }
    }
}

impl DiskFile for PlantedFile {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.file.read_at(buf, offset)
    }

    fn write_at(&self, bufs: &[IoSlice<'_>], offset: u64) -> io::Result<()> {
        self.file.write_at(bufs, offset)
    }

    fn sync(&self) -> io::Result<()> {
        if self.is_forgotten() {
            return Ok(());
        }
        match self.file.sync() {
            Err(_) if self.bug == Some(Bug::SyncErrorIgnored) => Ok(()),
            synced => synced,
        }
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }
}
