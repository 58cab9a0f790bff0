//! Backups: the data folder as it is at one moment, copied while the broker runs.
//!
//! ```text
//! courser backup create ─▶ admin ─▶ Backups ─▶ thread "backup"
//!                                                │ the log's writer and reader say what there is, and hold it
//!                                                ▼
//! BACKUPS/000001/{manifest, node, log/…, checkpoints/…}      all of it
//! BACKUPS/000002/{manifest, node, log/…, checkpoints/…}      what is new; the manifest names the rest in 000001
//! ```
//! - [`create`]: the thread. What it copies is what a crash right behind one batch would leave, so a start on it is a start after a
//!   crash, with any number of shards.
//! - [`manifest`]: what a backup holds; written last, so that a backup without one was not finished.
//! - [`store`]: the folder of backups.
//! - [`restore`]: checking, and making a data folder of one. Offline.
//! - [`prune`]: removing old ones. Offline.
//! - [`pace`]: so many bytes a second.

mod create;
mod manifest;
pub(crate) mod pace;
mod prune;
mod restore;
// The fuzz target has the same one.
#[cfg(test)]
#[path = "../../tests/fuzzed/sample.rs"]
mod sample;
mod store;
#[cfg(test)]
mod tests;

use std::cell::RefCell;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use courser_contract::{LogIndex, PartitionId, WallMs};
use courser_engine::DiskRoom;
use courser_memory::{Component, Scope};

use self::create::Making;
use self::manifest::Manifest;
pub(crate) use self::manifest::VERSION;
use self::pace::Pace;
pub use self::prune::{PruneMode, Pruned, prune_backups};
pub use self::restore::{restore_backup, verify_backup};
use self::store::Store;
use crate::clock;
use crate::live::Live;
use crate::node::random_bytes;
// For the manifest, which the fuzz target has without the rest of the broker.
use crate::node::layout;
use crate::stations::{CopyDoor, Medium, NotHeld};

/// What is wrong is named up to here.
const PROBLEMS_MAX: usize = 100;

/// Why there is no backup, or it cannot be used. Each text names the file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BackupError {
    /// A file cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file or folder cannot be written.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A folder that is for something else.
    #[error("{} is in the way: name an empty folder, or one with backups only", path.display())]
    Stranger {
        /// What is there.
        path: PathBuf,
    },
    /// Backups must not lie in what they are of.
    #[error("{}: name a folder by its whole path, outside of the data folder", path.display())]
    Place {
        /// What was named.
        path: PathBuf,
    },
    /// Nobody who keeps the settings has named it.
    #[error(
        "{} is in none of the folders that backup.folders names ({}) and that are there: name one, and start the server again",
        path.display(),
        if folders.is_empty() { "none" } else { folders }
    )]
    NotNamed {
        /// What was named.
        path: PathBuf,
        /// Those of the settings.
        folders: String,
    },
    /// Somebody writes to the folder.
    #[error("{} is in use by another backup", path.display())]
    InUse {
        /// Which.
        path: PathBuf,
    },
    /// Backups of another data folder.
    #[error("{} has backups of another node: name another folder", path.display())]
    Foreign {
        /// Which.
        path: PathBuf,
    },
    /// One is being made.
    #[error("a backup is being made")]
    Running,
    /// Nothing is kept that could be backed up.
    #[error("the server keeps everything in memory: there is nothing to back up")]
    NothingKept,
    /// Reader or writer of the log do not answer.
    #[error("{0}")]
    NotHeld(String),
    /// What is copied could not be held.
    #[error(
        "the disk of the log is short of room, which a backup would keep from being given back: begin it again when the server takes messages again"
    )]
    NoRoom,
    /// The disk needed the space.
    #[error(
        "given up: the disk of the log became short of room and needed the segments that were to be copied"
    )]
    GaveWay,
    /// The server stops, or somebody has said so.
    #[error("stopped before it was finished")]
    Stopped,
    /// No thread.
    #[error("cannot start a thread for the backup: {0}")]
    Thread(io::Error),
    /// A folder without backups.
    #[error("there is no backup in {}", path.display())]
    None {
        /// Which.
        path: PathBuf,
    },
    /// One that was not finished.
    #[error("backup {number} in {} was not finished{}", path.display(), otherwise(*whole))]
    Unfinished {
        /// The folder.
        path: PathBuf,
        /// Which.
        number: u32,
        /// The last one that was.
        whole: Option<u32>,
    },
    /// One that is not there.
    #[error("there is no backup {number} in {}", path.display())]
    Unknown {
        /// The folder.
        path: PathBuf,
        /// Which.
        number: u32,
    },
    /// Not what was written.
    #[error("{} is damaged: {why}", path.display())]
    Damaged {
        /// Which file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// What is written there would be in the way of the backups.
    #[error("{}: name a folder outside of the backups", path.display())]
    Inside {
        /// What was named.
        path: PathBuf,
    },
    /// Backups go while they would be read.
    #[error("backups are being removed from {}: try again when that is done", path.display())]
    Pruned {
        /// From which folder.
        path: PathBuf,
    },
    /// Backups are read that may have to go.
    #[error("{} is being read by verify or restore: try again when that is done", path.display())]
    BeingRead {
        /// Which folder.
        path: PathBuf,
    },
    /// A folder with something in it.
    #[error("{} is not empty: a backup is restored into a new folder", path.display())]
    NotEmpty {
        /// Which.
        path: PathBuf,
    },
}

fn otherwise(whole: Option<u32>) -> String {
    whole.map_or_else(String::new, |number| {
        format!(": the last one that was is --backup {number}")
    })
}

impl From<NotHeld> for BackupError {
    fn from(error: NotHeld) -> Self {
        Self::NotHeld(error.to_string())
    }
}

/// What a backup is, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackupReport {
    /// Its number in its folder.
    pub number: u32,
    /// When it was made.
    pub made: WallMs,
    /// Files of the data folder.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Its last entry of each partition.
    pub partitions: Vec<(PartitionId, LogIndex)>,
    /// What is not what was written, each with its file: the first hundred.
    pub problems: Vec<String>,
    /// How many there are.
    pub problems_total: u64,
    /// Where the data folder was damaged when this one was made: the last backup of one without damage.
    pub undamaged: Option<u32>,
}

impl BackupReport {
    fn new(manifest: &Manifest) -> Self {
        Self {
            number: manifest.number,
            made: manifest.made,
            files: manifest.files.len() as u64,
            bytes: manifest.bytes(),
            partitions: manifest.partitions.clone(),
            problems: Vec::new(),
            problems_total: 0,
            undamaged: None,
        }
    }

    /// One more.
    fn problem(&mut self, problem: String) {
        self.problems_total += 1;
        if self.problems.len() < PROBLEMS_MAX {
            self.problems.push(problem);
        }
    }
}

/// How far a backup is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BackupStage {
    /// None was made since the start.
    #[default]
    None,
    /// It is being made.
    Running,
    /// It is finished.
    Done,
    /// It is not, and will not be.
    Failed,
}

/// The last backup that was asked for since the start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BackupState {
    /// How far it is.
    pub stage: BackupStage,
    /// Which it is: drawn at random when it is asked for, so that no other one has it, also of another start. 0: none was asked for.
    pub id: u64,
    /// Where to.
    pub folder: PathBuf,
    /// Its number there; 0: it has not begun.
    pub number: u32,
    /// Bytes of segments that are wanted.
    pub bytes_total: u64,
    /// Bytes that were read.
    pub bytes_read: u64,
    /// Bytes that were written.
    pub bytes_copied: u64,
    /// Bytes that the one before has.
    pub bytes_reused: u64,
    /// Damage in what was copied: the copy has it too.
    pub damaged: Vec<String>,
    /// What of the backups before it is not as it should be; this one does not need it.
    pub warnings: Vec<String>,
    /// Why it failed.
    pub error: Option<String>,
    /// Its last entry of each partition, once it is finished.
    pub partitions: Vec<(PartitionId, LogIndex)>,
}

/// What others see of a backup while it is made.
#[derive(Debug)]
struct Progress {
    state: Mutex<BackupState>,
    /// Bytes a second; 0: what the settings say.
    pace: AtomicU64,
    live: Arc<Live>,
}

impl Progress {
    fn change(&self, change: impl FnOnce(&mut BackupState)) {
        change(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner));
    }

    fn warn(&self, what: String) {
        tracing::warn!(event = "backup_warned", what);
        self.change(|state| state.warnings.push(what));
    }

    fn state(&self) -> BackupState {
        let state = self.state.lock();
        state.unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn pace(&self) -> u64 {
        match self.pace.load(Ordering::Relaxed) {
            0 => self.live.get().settings.backup.bytes_per_second.bytes(),
            asked => asked,
        }
    }
}

/// What is copied.
#[derive(Debug)]
pub(crate) struct Source {
    pub(crate) door: CopyDoor<Medium>,
    /// The data folder.
    pub(crate) data: PathBuf,
    /// Where backups may be.
    pub(crate) folders: Vec<String>,
    pub(crate) node: [u8; 16],
}

/// Backups of a running broker, one at a time.
#[derive(Debug)]
pub(crate) struct Backups {
    source: Arc<Source>,
    progress: Arc<Progress>,
    /// Told to the thread that works.
    stop: Mutex<Arc<AtomicBool>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Backups {
    /// None yet.
    pub(crate) fn new(source: Source, live: Arc<Live>) -> Self {
        Self {
            source: Arc::new(source),
            progress: Arc::new(Progress {
                state: Mutex::default(),
                pace: AtomicU64::new(0),
                live,
            }),
            stop: Mutex::default(),
            thread: Mutex::default(),
        }
    }

    /// Begins one, at so many bytes a second or what the settings say. How far it is then.
    pub(crate) fn begin(
        &self,
        folder: &Path,
        pace: Option<u64>,
    ) -> Result<BackupState, BackupError> {
        self.begin_by(folder, pace, make)
    }

    fn begin_by(
        &self,
        folder: &Path,
        pace: Option<u64>,
        make: impl FnOnce(&Source, &Store, &Progress, Arc<AtomicBool>) + Send + 'static,
    ) -> Result<BackupState, BackupError> {
        self.check_place(folder)?;
        // What it would hold is what gives room, and the log's reader has checkpoints to finish.
        if self.source.door.state.room() == DiskRoom::Short {
            return Err(BackupError::NoRoom);
        }
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        if self.is_made_by(thread.as_ref()) {
            return Err(BackupError::Running);
        }
        if let Some(ended) = thread.take() {
            // Its panic was printed when it happened.
            let _ = ended.join();
        }
        let (store, lock) = Store::lock(folder)?;
        let stop = Arc::new(AtomicBool::new(false));
        *self.stop.lock().unwrap_or_else(PoisonError::into_inner) = Arc::clone(&stop);
        self.progress
            .pace
            .store(pace.unwrap_or(0), Ordering::Relaxed);
        let begun = BackupState {
            stage: BackupStage::Running,
            id: u64::from_le_bytes(random_bytes()),
            folder: folder.to_owned(),
            ..BackupState::default()
        };
        self.progress.change(|state| *state = begun.clone());
        let (source, progress) = (Arc::clone(&self.source), Arc::clone(&self.progress));
        let work = move || {
            let _lock = lock;
            let _scope = Scope::enter(Component::Log);
            let _panicking = Panicking(&progress);
            make(&source, &store, &progress, stop);
        };
        let spawned = thread::Builder::new().name("backup".to_owned()).spawn(work);
        match spawned {
            Ok(handle) => {
                *thread = Some(handle);
                Ok(begun)
            }
            Err(error) => {
                self.progress
                    .change(|state| state.stage = BackupStage::Failed);
                Err(BackupError::Thread(error))
            }
        }
    }

    /// A backup in the folder that it is of would be part of the next one. Other folders are written to where the settings say so.
    fn check_place(&self, folder: &Path) -> Result<(), BackupError> {
        let path = folder.to_owned();
        let is_plain = folder.is_absolute()
            && folder
                .components()
                .all(|part| !matches!(part, std::path::Component::ParentDir));
        let whole = |path: &Path| {
            let there = path.ancestors().find(|it| it.exists());
            there.and_then(|it| it.canonicalize().ok())
        };
        let data = self.source.data.canonicalize().ok();
        let (Some(folder), Some(data)) = (whole(folder), data) else {
            return Err(BackupError::Place { path });
        };
        if !is_plain || folder.starts_with(&data) {
            return Err(BackupError::Place { path });
        }
        let folders = &self.source.folders;
        let named = folders
            .iter()
            .filter_map(|it| Path::new(it).canonicalize().ok());
        if named.into_iter().any(|named| folder.starts_with(named)) {
            return Ok(());
        }
        let folders = folders.join(", ");
        Err(BackupError::NotNamed { path, folders })
    }

    /// How far the last one is.
    pub(crate) fn state(&self) -> BackupState {
        self.progress.state()
    }

    /// Stops the one that is being made, which then was not finished. True if there is one.
    pub(crate) fn stop(&self) -> bool {
        let stop = self.stop.lock().unwrap_or_else(PoisonError::into_inner);
        stop.store(true, Ordering::Release);
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        self.is_made_by(thread.as_ref())
    }

    /// Whether it makes a backup. Behind the end of one it only lets go of the folder, which takes no time.
    fn is_made_by(&self, thread: Option<&JoinHandle<()>>) -> bool {
        thread.is_some_and(|it| !it.is_finished()) && self.state().stage == BackupStage::Running
    }

    /// The same, and waits for its end.
    pub(crate) fn end(&self) {
        self.stop();
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(thread) = thread.take() {
            // Its panic was printed when it happened.
            let _ = thread.join();
        }
    }
}

/// Who waits for the end of a backup hears of it also where its thread panics.
struct Panicking<'a>(&'a Progress);

impl Drop for Panicking<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.change(|state| {
                state.stage = BackupStage::Failed;
                state.error = Some(PANICKED.to_owned());
            });
        }
    }
}

const PANICKED: &str = "the server failed while it made the backup: its log has the event `panic`";

/// What the thread does.
fn make(source: &Source, store: &Store, progress: &Progress, stop: Arc<AtomicBool>) {
    let making = Making {
        source,
        store,
        pace: RefCell::new(Pace::new(progress.pace(), stop)),
        progress,
        lost: Arc::new(AtomicBool::new(false)),
    };
    match making.run(clock::system()) {
        Ok(manifest) => {
            tracing::info!(event = "backup_made", number = manifest.number);
            progress.change(|state| {
                state.stage = BackupStage::Done;
                state.partitions = manifest.partitions;
            });
        }
        Err(error) => {
            let error = error.to_string();
            tracing::warn!(event = "backup_failed", error);
            progress.change(|state| {
                state.stage = BackupStage::Failed;
                state.error = Some(error);
            });
        }
    }
}
