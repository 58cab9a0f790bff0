//! Opening the data folder.

use std::fs::{self, DirBuilder, File, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use courser_engine::START_MAX;
use courser_log::{NodeIdentity, StartId};
use rand::TryRng;
use rand::rngs::SysRng;
use rustix::fs::{RenameFlags, renameat_with};

use crate::files::private_file;
use crate::repair::crash::Crashes;
use crate::repair::judge::Given;
use crate::repair::orders::Orders;
use crate::slots::Relaxed;

use super::file::{NodeFile, NodeFileError, VERSION};
use super::layout::{CHECKPOINTS, CRASH, FOLDERS, LOCK, LOG, NODE, NODE_NEW, REPAIR, SCRUB};

/// Why a data folder cannot be used. Each text says what and where, and what to do where there is something to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FolderError {
    /// It cannot be made or read.
    #[error("cannot use the data folder {}", path.display())]
    Io {
        /// What could not be used.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A sync failed, which is final whatever the reason: nobody knows what of it is on the disk.
    #[error(
        "a sync of the data folder failed at {}: look at the disk before the next start",
        path.display()
    )]
    Sync {
        /// What was synced.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// Another process serves it.
    #[error(
        "the data folder {} is in use by {holder}: stop that one, or name another folder with --data",
        path.display()
    )]
    InUse {
        /// The folder.
        path: PathBuf,
        /// The process, as far as it is known.
        holder: String,
    },
    /// The file `node` is not what was written.
    #[error(
        "{} is damaged: put it back from a backup; without it the messages of this folder cannot be told from those of \
         another node",
        path.display()
    )]
    Damaged {
        /// The file.
        path: PathBuf,
    },
    /// The file `node` is gone and messages are there.
    #[error(
        "{} is missing and there are segments beside it: put it back from a backup, or name an empty folder with --data",
        path.display()
    )]
    Missing {
        /// The file.
        path: PathBuf,
    },
    /// The file `repair` is not what was written.
    #[error(
        "{} is damaged: remove it, and give the orders of `courser repair` again",
        path.display()
    )]
    Orders {
        /// The file.
        path: PathBuf,
    },
    /// Another version of this program made the folder.
    #[error(
        "the data folder {} has format {found}, and this version of the broker reads format {VERSION}: start the version \
         that wrote it",
        path.display()
    )]
    Version {
        /// The folder.
        path: PathBuf,
        /// Its format.
        found: u32,
    },
    /// It was started as often as can be counted.
    #[error("the data folder {} has no start number left", path.display())]
    Worn {
        /// The folder.
        path: PathBuf,
    },
}

/// A folder that this process alone uses, for as long as this value lives.
#[derive(Debug)]
pub(crate) struct DataFolder {
    path: PathBuf,
    node: NodeFile,
    /// The kernel gives them free when the process ends, however it ends.
    _locks: Locks,
}

impl DataFolder {
    /// Opens or makes the folder and counts this start: the number is on the disk when this returns, so that no later start
    /// has it again whatever happens. `partitions` is for a new folder; one that exists keeps its own. Relaxed partitions are
    /// made with `relaxed` and stay.
    ///
    /// # Errors
    /// See [`FolderError`]. Nothing is changed then, but that a new folder may have been made.
    pub(crate) fn open(
        path: &Path,
        partitions: u16,
        relaxed: Relaxed,
    ) -> Result<Self, FolderError> {
        let failed = |source| FolderError::Io {
            path: path.to_owned(),
            source,
        };
        make(path).map_err(|error| error.at(path))?;
        let locks = lock(path)?;
        if let Some(mode) = mode_if_open(path).map_err(failed)? {
            tracing::warn!(
                event = "data_folder_open",
                folder = %path.display(),
                mode = format!("{mode:03o}"),
                "others may write into the data folder, and so remove or replace what is kept: chmod 700 it"
            );
        }
        for below in FOLDERS {
            make(&path.join(below)).map_err(|error| error.at(path))?;
        }
        let mut node = read_node(path)?.unwrap_or_else(|| NodeFile {
            identity: random_bytes(),
            start: 0,
            word: 0,
            partitions,
            relaxed,
        });
        match relaxed {
            Relaxed::None => {}
            Relaxed::Made => node.relaxed = relaxed,
        }
        if node.start >= START_MAX {
            return Err(FolderError::Worn {
                path: path.to_owned(),
            });
        }
        node.start += 1;
        node.word = u64::from_le_bytes(random_bytes());
        write_node(path, &node).map_err(|error| error.at(path))?;
        Ok(Self {
            path: path.to_owned(),
            node,
            _locks: locks,
        })
    }

    /// What the node must not forget.
    pub(crate) const fn node(&self) -> &NodeFile {
        &self.node
    }

    /// Whose files they are.
    pub(crate) const fn identity(&self) -> NodeIdentity {
        let [a, b, c, d, e, f, g, h, ..] = self.node.identity;
        NodeIdentity(u64::from_le_bytes([a, b, c, d, e, f, g, h]))
    }

    /// This start.
    pub(crate) const fn start(&self) -> StartId {
        StartId {
            counter: self.node.start,
            word: self.node.word,
        }
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Where segments are.
    pub(crate) fn log(&self) -> PathBuf {
        self.path.join(LOG)
    }

    /// Where panics are noted (M50).
    pub(crate) fn crash(&self) -> PathBuf {
        self.path.join(CRASH)
    }

    /// Where it is noted how far the scrub has come.
    pub(crate) fn scrub(&self) -> PathBuf {
        self.path.join(SCRUB)
    }

    /// What the operator has ordered, and which entries have made the program panic.
    ///
    /// # Errors
    /// When a file cannot be read, or the orders are damaged.
    pub(crate) fn given(&self) -> Result<Given, FolderError> {
        let path = self.path.join(REPAIR);
        let orders = match fs::read(&path) {
            Ok(bytes) => {
                let text = String::from_utf8(bytes).ok();
                let orders = text.and_then(|text| Orders::decode(&text));
                orders.ok_or(FolderError::Orders { path })?
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Orders::default(),
            Err(source) => return Err(FolderError::Io { path, source }),
        };
        let path = self.crash();
        let crashes = Crashes::read(&path).map_err(|source| FolderError::Io { path, source })?;
        Ok(Given { orders, crashes })
    }

    /// Replaces orders and notes of panics, durably.
    ///
    /// # Errors
    /// Those of the disk.
    pub(crate) fn give(&self, given: &Given) -> Result<(), FolderError> {
        for (name, text) in [
            (REPAIR, given.orders.encode()),
            (CRASH, given.crashes.encode()),
        ] {
            let path = self.path.join(name);
            let new = format!("{name}.new");
            replace(&self.path, (&new, name), text.as_bytes()).map_err(|error| error.at(&path))?;
        }
        Ok(())
    }

    /// Makes room for notes of panics, while there is some, and leaves out what does not count (M50). Without room the file stays as it is: a
    /// full disk keeps nobody from starting.
    ///
    /// # Errors
    /// When a sync fails, for another reason than that where it is of the new file, which nobody needs.
    pub(crate) fn reserve_crash(&self, crashes: &Crashes) -> Result<(), FolderError> {
        let text = crashes.encode();
        let path = self.crash();
        if fs::read(&path).is_ok_and(|there| there == text.as_bytes()) {
            return Ok(());
        }
        let new = format!("{CRASH}.new");
        match put(&self.path, (&new, CRASH), text.as_bytes()) {
            Ok(()) => sync_names(&self.path).map_err(|error| error.at(&self.path)),
            Err(Failed::Sync(error)) if !lacks_room(&error) => Err(Failed::Sync(error).at(&path)),
            Err(Failed::Io(error) | Failed::Sync(error)) => {
                tracing::warn!(
                    event = "crash_room_not_made",
                    %error,
                    "a panic is perhaps not noted while the disk is full"
                );
                Ok(())
            }
        }
    }

    /// Where checkpoints are.
    pub(crate) fn checkpoints(&self) -> PathBuf {
        self.path.join(CHECKPOINTS)
    }
}

/// Makes a folder and those above it, 0700, and the name of each that it makes durable. One that is there is left as it is.
pub(crate) fn make_folder(path: &Path) -> io::Result<()> {
    make(path).map_err(|(Failed::Io(error) | Failed::Sync(error))| error)
}

/// Why something was not put on the disk.
#[derive(Debug)]
enum Failed {
    /// It could not be written.
    Io(io::Error),
    /// It was, and whether it stays nobody knows.
    Sync(io::Error),
}

impl Failed {
    fn at(self, path: &Path) -> FolderError {
        let path = path.to_owned();
        match self {
            Self::Io(source) => FolderError::Io { path, source },
            Self::Sync(source) => FolderError::Sync { path, source },
        }
    }
}

impl From<io::Error> for Failed {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

fn sync(file: &File) -> Result<(), Failed> {
    file.sync_all().map_err(Failed::Sync)
}

fn sync_names(folder: &Path) -> Result<(), Failed> {
    sync(&File::open(folder)?)
}

fn make(path: &Path) -> Result<(), Failed> {
    if path.is_dir() {
        return Ok(());
    }
    let above = path.parent().filter(|above| !above.as_os_str().is_empty());
    let above = above.unwrap_or(Path::new("."));
    make(above)?;
    match DirBuilder::new().mode(0o700).create(path) {
        // Somebody else has made it meanwhile.
        Err(error) if !(error.kind() == io::ErrorKind::AlreadyExists && path.is_dir()) => {
            return Err(error.into());
        }
        Ok(()) | Err(_) => {}
    }
    sync_names(above)
}

/// Rights of a folder into which somebody else than its owner may write.
pub(super) fn mode_if_open(folder: &Path) -> io::Result<Option<u32>> {
    let mode = fs::metadata(folder)?.mode() & 0o777;
    Ok((mode & 0o022 != 0).then_some(mode))
}

/// What is locked for as long as the folder is used.
#[derive(Debug)]
struct Locks {
    /// It says who that is.
    _file: File,
    /// The folder itself, for a file that was removed locks nobody out; none where the file system locks no folders.
    _folder: Option<File>,
}

fn lock(folder: &Path) -> Result<Locks, FolderError> {
    let path = folder.join(LOCK);
    let failed = |source| FolderError::Io {
        path: path.clone(),
        source,
    };
    let mut file = private_file()
        .read(true)
        .truncate(false)
        .open(&path)
        .map_err(failed)?;
    let in_use = |file: &mut File| FolderError::InUse {
        path: folder.to_owned(),
        holder: holder(file),
    };
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Err(in_use(&mut file)),
        Err(TryLockError::Error(source)) => return Err(failed(source)),
    }
    let opened = File::open(folder).map_err(failed)?;
    let opened = match opened.try_lock() {
        Ok(()) => Some(opened),
        Err(TryLockError::WouldBlock) => return Err(in_use(&mut file)),
        // Over a network there may be locks of files only.
        Err(TryLockError::Error(_)) => None,
    };
    // As long as any, and where it was: that needs no room. Without it, people are told less.
    let _written = file.write_all(format!("{:<11}\n", std::process::id()).as_bytes());
    Ok(Locks {
        _file: file,
        _folder: opened,
    })
}

/// Who has the lock, for people: nothing depends on it.
fn holder(file: &mut File) -> String {
    let mut text = String::new();
    let read = file.take(32).read_to_string(&mut text);
    match (read, text.trim().parse::<u32>()) {
        (Ok(_), Ok(process)) => format!("process {process}"),
        (Ok(_) | Err(_), Ok(_) | Err(_)) => "another process".to_owned(),
    }
}

/// Whether there are segments in a folder. A disk of its own has other things in it from its first day.
fn has_segments(log: &Path) -> io::Result<bool> {
    for file in fs::read_dir(log)? {
        if Path::new(&file?.file_name())
            .extension()
            .is_some_and(|it| it == "seg")
        {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The file, if there is one. Segments without one belong to a node that is not known any more.
fn read_node(folder: &Path) -> Result<Option<NodeFile>, FolderError> {
    let path = folder.join(NODE);
    let bytes = match fs::read(&path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let log = folder.join(LOG);
            let has_some =
                has_segments(&log).map_err(|source| FolderError::Io { path: log, source })?;
            return match has_some {
                true => Err(FolderError::Missing { path }),
                false => Ok(None),
            };
        }
        Err(source) => return Err(FolderError::Io { path, source }),
    };
    match NodeFile::decode(&bytes) {
        Ok(node) => Ok(Some(node)),
        Err(NodeFileError::Damaged) => Err(FolderError::Damaged { path }),
        Err(NodeFileError::Version(found)) => Err(FolderError::Version {
            path: folder.to_owned(),
            found,
        }),
    }
}

/// Writes the file over the one before the last and exchanges the two: once there are both, that takes no room, and a full disk keeps nobody
/// from starting.
fn write_node(folder: &Path, node: &NodeFile) -> Result<(), Failed> {
    let (new, name) = (folder.join(NODE_NEW), folder.join(NODE));
    let bytes = node.encode();
    let mut file = private_file().truncate(false).open(&new)?;
    file.write_all(&bytes)?;
    file.set_len(bytes.len() as u64)?;
    sync(&file)?;
    let folder = File::open(folder)?;
    let exchanged = renameat_with(&folder, NODE_NEW, &folder, NODE, RenameFlags::EXCHANGE);
    if exchanged.is_err() {
        // There is none yet, or the file system exchanges nothing.
        fs::rename(&new, &name)?;
        // For the next start, while there is room.
        let _spare = write_new(&new, &bytes);
    }
    sync(&folder)
}

/// Replaces a file as a whole: after a power loss there is the old one or the new one.
fn replace(folder: &Path, (new, name): (&str, &str), bytes: &[u8]) -> Result<(), Failed> {
    put(folder, (new, name), bytes)?;
    sync_names(folder)
}

/// The same, but for the name.
fn put(folder: &Path, (new, name): (&str, &str), bytes: &[u8]) -> Result<(), Failed> {
    let new = folder.join(new);
    sync(&write_new(&new, bytes)?)?;
    Ok(fs::rename(&new, folder.join(name))?)
}

fn lacks_room(error: &io::Error) -> bool {
    use io::ErrorKind::{QuotaExceeded, StorageFull};
    matches!(error.kind(), StorageFull | QuotaExceeded)
}

/// Replaces a file that nobody needs: after a power loss there may also be one that says nothing.
///
/// # Errors
/// Those of the disk. The file is as it was then.
pub(crate) fn replace_unsynced(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let new = path.with_extension("new");
    write_new(&new, bytes)?;
    fs::rename(&new, path)
}

fn write_new(path: &Path, bytes: &[u8]) -> io::Result<File> {
    let mut file = private_file().truncate(true).open(path)?;
    file.write_all(bytes)?;
    Ok(file)
}

pub(crate) fn random_bytes<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    SysRng
        .try_fill_bytes(&mut bytes)
        .expect("the system has random bytes");
    bytes
}
