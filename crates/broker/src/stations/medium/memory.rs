//! Folders in memory, which lose power.
//!
//! A test names the data folder whose log and checkpoints are to lie in memory ([`NodeInMemory`]); everything else of that folder, and all
//! other folders, are of the operating system. The calls of both folders that change something come one after the other, so that who looks
//! behind one of them sees one moment of both.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use courser_log::testing::{MemDisk, MemFile, Survival};
use courser_log::{Disk, DiskFile, FileDisk, RealFile};

use crate::node::layout;

/// Folders that lie in memory.
static IN_MEMORY: Mutex<BTreeMap<PathBuf, FolderInMemory>> = Mutex::new(BTreeMap::new());

fn in_memory() -> MutexGuard<'static, BTreeMap<PathBuf, FolderInMemory>> {
    IN_MEMORY.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Which folder of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Folder {
    Log,
    Checkpoints,
}

impl Folder {
    const fn name(self) -> &'static str {
        match self {
            Self::Log => layout::LOG,
            Self::Checkpoints => layout::CHECKPOINTS,
        }
    }
}

/// What both folders of a node hold.
#[derive(Clone, Debug, Default)]
pub(crate) struct Folders {
    log: MemDisk,
    checkpoints: MemDisk,
}

impl Folders {
    /// What there is now: what happens later does not happen to it.
    pub(crate) fn fork(&self) -> Self {
        Self {
            log: self.log.fork(),
            checkpoints: self.checkpoints.fork(),
        }
    }

    /// The worst loss of power: all that is not synced is gone.
    pub(crate) fn worst_loss(&self) -> Self {
        self.after(|disk| disk.power_loss_with(|_| 0, |_| Survival::Gone))
    }

    /// One that leaves any part of what is not synced.
    pub(crate) fn some_loss(&self, seed: u64) -> Self {
        self.after(|disk| disk.power_loss(seed))
    }

    /// The folders themselves stay as they are.
    fn after(&self, lose: impl Fn(&MemDisk) -> MemDisk) -> Self {
        let Self { log, checkpoints } = self.fork();
        Self {
            log: lose(&log),
            checkpoints: lose(&checkpoints),
        }
    }
}

/// What looks at each call that changes something, once it is done.
type Look = dyn FnMut(Folder, &str, &Folders) + Send;

/// Both folders of a node, and who looks at them.
struct Node {
    folders: Folders,
    look: Mutex<Box<Look>>,
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.folders.fmt(f)
    }
}

/// A data folder whose log and checkpoints lie in memory, for as long as this value lives.
#[derive(Debug)]
pub(crate) struct NodeInMemory {
    data: PathBuf,
}

impl NodeInMemory {
    /// Those of this data folder are these. `look` sees each call that changes something: its folder, its name with that of its file, and
    /// what there is behind it.
    pub(crate) fn new(
        data: &Path,
        folders: Folders,
        look: impl FnMut(Folder, &str, &Folders) + Send + 'static,
    ) -> Self {
        let node = Arc::new(Node {
            folders,
            look: Mutex::new(Box::new(look)),
        });
        for which in [Folder::Log, Folder::Checkpoints] {
            let folder = FolderInMemory {
                which,
                node: Arc::clone(&node),
            };
            in_memory().insert(data.join(which.name()), folder);
        }
        let data = data.to_owned();
        Self { data }
    }
}

impl Drop for NodeInMemory {
    fn drop(&mut self) {
        for which in [Folder::Log, Folder::Checkpoints] {
            in_memory().remove(&self.data.join(which.name()));
        }
    }
}

/// One folder of it.
#[derive(Clone, Debug)]
pub(crate) struct FolderInMemory {
    which: Folder,
    node: Arc<Node>,
}

impl FolderInMemory {
    fn disk(&self) -> &MemDisk {
        match self.which {
            Folder::Log => &self.node.folders.log,
            Folder::Checkpoints => &self.node.folders.checkpoints,
        }
    }

    /// Makes a call that changes something.
    fn change<T>(
        &self,
        (call, name): (&str, &str),
        make: impl FnOnce() -> io::Result<T>,
    ) -> io::Result<T> {
        let look = self.node.look.lock();
        let mut look = look.unwrap_or_else(PoisonError::into_inner);
        let made = make();
        let call = format!("{call} {}/{name}", self.which.name());
        look(self.which, &call, &self.node.folders);
        made
    }

    fn file(&self, name: &str, file: MemFile) -> MediumFile {
        MediumFile::Memory {
            file,
            name: name.to_owned(),
            folder: self.clone(),
        }
    }
}

/// See the module.
#[derive(Clone, Debug)]
pub(crate) enum Medium {
    Files(FileDisk),
    Memory(FolderInMemory),
}

/// A file of a [`Medium`].
#[derive(Debug)]
pub(crate) enum MediumFile {
    Files(RealFile),
    Memory {
        file: MemFile,
        name: String,
        folder: FolderInMemory,
    },
}

impl Medium {
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        match in_memory().get(path) {
            Some(folder) => Ok(Self::Memory(folder.clone())),
            None => FileDisk::open(path).map(Self::Files),
        }
    }

    pub(crate) fn reading_around(self) -> Self {
        match self {
            Self::Files(disk) => Self::Files(disk.reading_around()),
            Self::Memory(_) => self,
        }
    }
}

impl Disk for Medium {
    type File = MediumFile;

    fn list(&self) -> io::Result<Vec<String>> {
        match self {
            Self::Files(disk) => disk.list(),
            Self::Memory(folder) => folder.disk().list(),
        }
    }

    fn create(&self, name: &str) -> io::Result<MediumFile> {
        match self {
            Self::Files(disk) => disk.create(name).map(MediumFile::Files),
            Self::Memory(folder) => {
                let made = folder.change(("create", name), || folder.disk().create(name));
                made.map(|file| folder.file(name, file))
            }
        }
    }

    fn create_new(&self, name: &str) -> io::Result<MediumFile> {
        match self {
            Self::Files(disk) => disk.create_new(name).map(MediumFile::Files),
            Self::Memory(folder) => {
                let made = folder.change(("create", name), || folder.disk().create_new(name));
                made.map(|file| folder.file(name, file))
            }
        }
    }

    fn open(&self, name: &str) -> io::Result<MediumFile> {
        match self {
            Self::Files(disk) => disk.open(name).map(MediumFile::Files),
            Self::Memory(folder) => Ok(folder.file(name, folder.disk().open(name)?)),
        }
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        match self {
            Self::Files(disk) => disk.rename(from, to),
            Self::Memory(folder) => {
                folder.change(("rename to", to), || folder.disk().rename(from, to))
            }
        }
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        match self {
            Self::Files(disk) => disk.remove(name),
            Self::Memory(folder) => folder.change(("remove", name), || folder.disk().remove(name)),
        }
    }

    fn sync_dir(&self) -> io::Result<()> {
        match self {
            Self::Files(disk) => disk.sync_dir(),
            Self::Memory(folder) => folder.change(("sync", ""), || folder.disk().sync_dir()),
        }
    }

    fn free_bytes(&self) -> io::Result<u64> {
        match self {
            Self::Files(disk) => disk.free_bytes(),
            Self::Memory(folder) => folder.disk().free_bytes(),
        }
    }
}

impl DiskFile for MediumFile {
    fn len(&self) -> io::Result<u64> {
        match self {
            Self::Files(file) => file.len(),
            Self::Memory { file, .. } => file.len(),
        }
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        match self {
            Self::Files(file) => file.read_at(buf, offset),
            Self::Memory { file, .. } => file.read_at(buf, offset),
        }
    }

    fn write_at(&self, bufs: &[IoSlice<'_>], offset: u64) -> io::Result<()> {
        match self {
            Self::Files(file) => file.write_at(bufs, offset),
            Self::Memory { file, name, folder } => {
                folder.change(("write", name), || file.write_at(bufs, offset))
            }
        }
    }

    fn sync(&self) -> io::Result<()> {
        match self {
            Self::Files(file) => file.sync(),
            Self::Memory { file, name, folder } => folder.change(("sync", name), || file.sync()),
        }
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        match self {
            Self::Files(file) => file.set_len(len),
            Self::Memory { file, name, folder } => {
                folder.change(("set the length of", name), || file.set_len(len))
            }
        }
    }
}
