//! The folder of backups: which there are, which one is being made, and what an unfinished one has left.

use std::collections::BTreeSet;
use std::fs::{self, File, TryLockError};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use courser_settings::read_whole;

use super::BackupError;
use super::manifest::{Manifest, folder_of, number_of};
use crate::files::{private_file, sync_folder};
use crate::node::layout::FOLDERS;
use crate::node::make_folder;

const LOCK: &str = "LOCK";
pub(super) const MANIFEST: &str = "manifest";
const MANIFEST_NEW: &str = "manifest.new";
/// What the manifest of a backup becomes that was pruned: what is left beside it is there for later ones.
const PRUNED: &str = "pruned";
/// In a backup of a folder with damage, which the backup has too: what of it, a line each.
const DAMAGED: &str = "damaged";
/// What is longer is not read: nobody would read it either.
const DAMAGED_BYTES_MAX: u64 = 16 << 20;
/// A manifest is no longer than this: a gibibyte would be five million files.
const MANIFEST_BYTES_MAX: u64 = 1 << 30;

/// A folder of backups.
#[derive(Debug)]
pub(super) struct Store {
    path: PathBuf,
}

/// What is in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Numbers {
    /// With a manifest, ascending.
    pub(super) finished: Vec<u32>,
    /// That were, until they were pruned; later ones need some of their files.
    pub(super) pruned: Vec<u32>,
    /// Neither.
    pub(super) unfinished: Vec<u32>,
}

impl Numbers {
    /// The highest that is a backup, or was to be one.
    pub(super) fn last(&self) -> u32 {
        let last = |numbers: &[u32]| numbers.last().copied().unwrap_or(0);
        last(&self.finished).max(last(&self.unfinished))
    }
}

impl Store {
    /// One that is only read.
    pub(super) fn at(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
        }
    }

    /// Makes the folder, or takes one with backups or without anything; nobody else writes to it while the lock is held.
    pub(super) fn lock(path: &Path) -> Result<(Self, File), BackupError> {
        let failed = |source| BackupError::Write {
            path: path.to_owned(),
            source,
        };
        if !path.is_dir() {
            make_folder(path).map_err(failed)?;
        }
        for entry in fs::read_dir(path).map_err(failed)? {
            let name = entry.map_err(failed)?.file_name();
            let is_ours = name
                .to_str()
                .is_some_and(|name| name == LOCK || number_of(name).is_some());
            if !is_ours {
                return Err(BackupError::Stranger {
                    path: path.join(name),
                });
            }
        }
        let lock = private_file().open(path.join(LOCK)).map_err(failed)?;
        match lock.try_lock() {
            Ok(()) => Ok((Self::at(path), lock)),
            Err(TryLockError::WouldBlock) => Err(BackupError::InUse {
                path: path.to_owned(),
            }),
            Err(TryLockError::Error(source)) => Err(failed(source)),
        }
    }

    /// One that is only read, for as long as nothing is pruned of it: while the file is open.
    pub(super) fn share(path: &Path) -> Result<(Self, Option<File>), BackupError> {
        let pruned = || BackupError::Pruned {
            path: path.to_owned(),
        };
        let folder = lock_folder(path, File::try_lock_shared).ok_or_else(pruned)?;
        Ok((Self::at(path), folder))
    }

    /// Nobody reads it while the file is open.
    pub(super) fn keep_readers_out(&self) -> Result<Option<File>, BackupError> {
        let read = || BackupError::BeingRead {
            path: self.path.clone(),
        };
        lock_folder(&self.path, File::try_lock).ok_or_else(read)
    }

    /// Where it is.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Where a file of a backup is.
    pub(super) fn file(&self, stored: &str) -> PathBuf {
        self.path.join(stored)
    }

    /// Which backups there are.
    pub(super) fn numbers(&self) -> Result<Numbers, BackupError> {
        let failed = |source| BackupError::Read {
            path: self.path.clone(),
            source,
        };
        let mut numbers = Numbers::default();
        for entry in fs::read_dir(&self.path).map_err(failed)? {
            let name = entry.map_err(failed)?.file_name();
            if let Some(number) = name.to_str().and_then(number_of) {
                let has = |file| self.folder(number).join(file).exists();
                let list = match (has(MANIFEST), has(PRUNED)) {
                    (true, _) => &mut numbers.finished,
                    (false, true) => &mut numbers.pruned,
                    (false, false) => &mut numbers.unfinished,
                };
                list.push(number);
            }
        }
        numbers.finished.sort_unstable();
        numbers.pruned.sort_unstable();
        numbers.unfinished.sort_unstable();
        Ok(numbers)
    }

    fn folder(&self, number: u32) -> PathBuf {
        self.path.join(folder_of(number))
    }

    /// The manifest of a finished backup.
    pub(super) fn manifest(&self, number: u32) -> Result<Manifest, BackupError> {
        let path = self.folder(number).join(MANIFEST);
        let failed = |source| BackupError::Read {
            path: path.clone(),
            source,
        };
        let damaged = |why: String| BackupError::Damaged {
            path: path.clone(),
            why,
        };
        let bytes = read_whole(&path, MANIFEST_BYTES_MAX).map_err(|error| match error.kind() {
            ErrorKind::FileTooLarge => damaged("it is longer than any manifest".to_owned()),
            ErrorKind::InvalidInput => damaged(error.to_string()),
            _ => failed(error),
        })?;
        let text = String::from_utf8(bytes);
        let text = text.map_err(|_| damaged("it is no text".to_owned()))?;
        let manifest = Manifest::decode(&text).map_err(|error| damaged(error.to_string()))?;
        if manifest.number != number {
            return Err(damaged(format!("it is that of backup {}", manifest.number)));
        }
        Ok(manifest)
    }

    /// Removes what unfinished backups have left. A folder may also have lost its manifest, and then others need what is in it: what is
    /// not above the last finished backup stays, and so does what a manifest names, or may name that cannot be read (I7). Those that stay.
    pub(super) fn forget_unfinished(&self, numbers: &Numbers) -> Result<Vec<u32>, BackupError> {
        let last = numbers.finished.last().copied().unwrap_or(0);
        let is_above = |number: &&u32| **number > last;
        let mut named = BTreeSet::new();
        let mut is_known = true;
        if numbers.unfinished.iter().any(|it| is_above(&it)) {
            for number in &numbers.finished {
                match self.manifest(*number) {
                    Ok(manifest) => named.extend(manifest.numbers()),
                    Err(_) => is_known = false,
                }
            }
        }
        let mut left = Vec::new();
        for number in &numbers.unfinished {
            if is_above(&number) && is_known && !named.contains(number) {
                self.forget(*number)?;
            } else {
                left.push(*number);
            }
        }
        Ok(left)
    }

    /// Makes the folders of the next backup.
    pub(super) fn begin(&self, numbers: &Numbers) -> Result<u32, BackupError> {
        let number = numbers.last() + 1;
        for folder in [""].into_iter().chain(FOLDERS) {
            let path = self.folder(number).join(folder);
            make_folder(&path).map_err(|source| BackupError::Write { path, source })?;
        }
        Ok(number)
    }

    /// Makes a backup count no more; its files stay.
    pub(super) fn retire(&self, number: u32) -> Result<(), BackupError> {
        let folder = self.folder(number);
        let renamed = fs::rename(folder.join(MANIFEST), folder.join(PRUNED));
        let synced = renamed.and_then(|()| sync_folder(&folder));
        synced.map_err(|source| BackupError::Write {
            path: folder,
            source,
        })
    }

    /// The same of one that has no manifest.
    pub(super) fn note_pruned(&self, number: u32) -> Result<(), BackupError> {
        let folder = self.folder(number);
        let noted = private_file().open(folder.join(PRUNED));
        let synced = noted.and_then(|_| sync_folder(&folder));
        synced.map_err(|source| BackupError::Write {
            path: folder,
            source,
        })
    }

    /// Notes what of a backup was damaged in the data folder. Durable once the backup is finished.
    pub(super) fn note_damaged(&self, number: u32, damages: &[String]) -> Result<(), BackupError> {
        let path = self.damaged_file(number);
        let mut text = damages.join("\n");
        text.push('\n');
        let written = private_file().truncate(true).open(&path);
        let written = written.and_then(|mut file| {
            file.write_all(text.as_bytes())?;
            file.sync_all()
        });
        written.map_err(|source| BackupError::Write { path, source })
    }

    /// Whether the data folder was damaged where a backup has copied it.
    pub(super) fn was_damaged(&self, number: u32) -> bool {
        self.damaged_file(number).exists()
    }

    /// What of it was, at least one, each a text to follow what says so; empty where that cannot be read.
    pub(super) fn damages(&self, number: u32) -> Vec<String> {
        let bytes = read_whole(&self.damaged_file(number), DAMAGED_BYTES_MAX).unwrap_or_default();
        let text = String::from_utf8_lossy(&bytes);
        let lines = text.lines().map(|line| format!(": {line}"));
        let lines: Vec<String> = lines.collect();
        match lines.is_empty() {
            true => vec![String::new()],
            false => lines,
        }
    }

    /// The file that says what of it was, a line each.
    pub(super) fn damaged_file(&self, number: u32) -> PathBuf {
        self.folder(number).join(DAMAGED)
    }

    /// The files of a backup, as manifests name them, with their bytes.
    pub(super) fn stored(&self, number: u32) -> Result<Vec<(String, u64)>, BackupError> {
        let mut stored = Vec::new();
        for below in [""].into_iter().chain(FOLDERS) {
            let folder = self.folder(number).join(below);
            let failed = |source| BackupError::Read {
                path: folder.clone(),
                source,
            };
            let files = match fs::read_dir(&folder) {
                Ok(files) => files,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(failed(error)),
            };
            for file in files {
                let file = file.map_err(failed)?;
                let about = file.metadata().map_err(failed)?;
                let name = file.file_name().to_string_lossy().into_owned();
                if about.is_file() && ![MANIFEST, PRUNED, DAMAGED].contains(&name.as_str()) {
                    let parts = [folder_of(number).as_str(), below, &name].map(str::to_owned);
                    let parts: Vec<String> =
                        parts.into_iter().filter(|it| !it.is_empty()).collect();
                    stored.push((parts.join("/"), about.len()));
                }
            }
        }
        Ok(stored)
    }

    /// Removes the folder of a backup, with whatever is in it.
    pub(super) fn forget(&self, number: u32) -> Result<(), BackupError> {
        let path = self.folder(number);
        fs::remove_dir_all(&path).map_err(|source| BackupError::Write { path, source })
    }

    /// Makes a backup count: everything else of it is durable before the manifest has its name.
    pub(super) fn finish(&self, manifest: &Manifest) -> Result<(), BackupError> {
        let folder = self.folder(manifest.number);
        let failed = |source| BackupError::Write {
            path: folder.clone(),
            source,
        };
        for below in FOLDERS {
            sync_folder(&folder.join(below)).map_err(failed)?;
        }
        let new = folder.join(MANIFEST_NEW);
        let mut file = private_file().truncate(true).open(&new).map_err(failed)?;
        file.write_all(manifest.encode().as_bytes())
            .map_err(failed)?;
        file.sync_all().map_err(failed)?;
        sync_folder(&folder).map_err(failed)?;
        sync_folder(&self.path).map_err(failed)?;
        fs::rename(&new, folder.join(MANIFEST)).map_err(failed)?;
        sync_folder(&folder).map_err(failed)
    }
}

/// Locks the folder itself, which needs no file in it: it may be on a disk that is read only. Where there are no such locks nobody is kept out; none: somebody
/// has one that does not go with it.
fn lock_folder(
    path: &Path,
    lock: impl FnOnce(&File) -> Result<(), TryLockError>,
) -> Option<Option<File>> {
    let Ok(folder) = File::open(path) else {
        return Some(None);
    };
    match lock(&folder) {
        Ok(()) => Some(Some(folder)),
        Err(TryLockError::WouldBlock) => None,
        Err(TryLockError::Error(_)) => Some(None),
    }
}
