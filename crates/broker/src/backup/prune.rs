//! Removing old backups, and of what they have what no later one needs. Offline.
//!
//! A backup that goes loses its manifest first: that becomes the file `pruned`, which says that the rest of the folder is there for
//! others. Then files go that no manifest names. Whatever ends the program in between, all that is left is whole, and the next prune goes
//! on.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::Path;

use super::BackupError;
use super::manifest::{FileLine, Manifest};
use super::restore::read;
use super::store::Store;
use crate::files::sync_folder;

/// What was removed, or would be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pruned {
    /// Backups that are left, ascending.
    pub kept: Vec<u32>,
    /// Those of them, ascending, of which the data folder was damaged when they were made: every byte of them is what was written, and
    /// they have that damage.
    pub damaged: Vec<u32>,
    /// Backups that cannot be restored any more, ascending.
    pub removed: Vec<u32>,
    /// Files that went.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Bytes of earlier backups that stay, since those that are left need them.
    pub bytes_needed: u64,
}

/// Whether something is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PruneMode {
    /// It is.
    Remove,
    /// It is only said what would be.
    Say,
}

/// Removes all finished backups of a folder but the last `keep`, at least one. Those are read first, every byte that they name once: one
/// that is damaged may be why an older one is wanted, and then nothing is removed. Where each of them has damage that the data folder had, the
/// last one without stays besides. A backup that ended in the middle, behind the last one, goes as well.
///
/// # Errors
/// When there is no backup, one that would be left is not whole, somebody writes to the folder or reads a backup in it, or it cannot be written.
pub fn prune_backups(path: &Path, keep: usize, mode: PruneMode) -> Result<Pruned, BackupError> {
    let none = || BackupError::None {
        path: path.to_owned(),
    };
    if !path.is_dir() {
        return Err(none());
    }
    let (store, _lock) = Store::lock(path)?;
    let _readers = match mode {
        PruneMode::Remove => store.keep_readers_out()?,
        PruneMode::Say => None,
    };
    let numbers = store.numbers()?;
    let left = numbers.finished.len().saturating_sub(keep.max(1));
    let (older, kept) = numbers.finished.split_at(left);
    if kept.is_empty() {
        return Err(none());
    }
    let is_good = |number: &&u32| !store.was_damaged(**number);
    let good = match kept.iter().any(|it| is_good(&it)) {
        true => None,
        false => older.iter().rev().find(is_good),
    };
    let kept: Vec<u32> = good.into_iter().chain(kept).copied().collect();
    let removed: Vec<u32> = older
        .iter()
        .filter(|it| Some(*it) != good)
        .copied()
        .collect();
    let manifests: Result<Vec<Manifest>, _> = kept.iter().map(|it| store.manifest(*it)).collect();
    let needed = check(&store, &manifests?)?;
    let mut pruned = Pruned {
        kept: kept.clone(),
        damaged: kept.iter().filter(|it| !is_good(it)).copied().collect(),
        removed: removed.clone(),
        ..Pruned::default()
    };
    if mode == PruneMode::Remove {
        for number in &removed {
            store.retire(*number)?;
        }
    }
    // What ended in the middle: the next backup would remove it too.
    let is_rest = |number: &&u32| kept.last().is_some_and(|last| *number > last);
    let rests = numbers.unfinished.iter().filter(is_rest);
    // What has lost its manifest can be restored no more than what was pruned.
    let is_old = |number: &&u32| kept.first().is_some_and(|first| *number < first);
    let lost: Vec<u32> = numbers.unfinished.iter().filter(is_old).copied().collect();
    if mode == PruneMode::Remove {
        for number in &lost {
            store.note_pruned(*number)?;
        }
    }
    for number in numbers
        .pruned
        .iter()
        .chain(&lost)
        .chain(&removed)
        .chain(rests)
    {
        sweep(&store, *number, &needed, mode, &mut pruned)?;
    }
    if mode == PruneMode::Remove {
        sync_folder(path).map_err(|source| failed(path, source))?;
    }
    Ok(pruned)
}

/// Reads all that these backups name; where it is.
fn check(store: &Store, manifests: &[Manifest]) -> Result<BTreeSet<String>, BackupError> {
    let files = manifests.iter().flat_map(|manifest| &manifest.files);
    // One place with two checksums: both are looked at, and one is wrong.
    let files: BTreeMap<(&str, u64, &[u8]), &FileLine> = files
        .map(|file| ((file.stored.as_str(), file.kept, &file.sum[..]), file))
        .collect();
    for file in files.values() {
        read(store, file, |_| Ok(()))?;
    }
    Ok(files
        .keys()
        .map(|(stored, ..)| (*stored).to_owned())
        .collect())
}

/// Removes the files of a backup that went which nobody needs, and its folder when nothing is left.
fn sweep(
    store: &Store,
    number: u32,
    needed: &BTreeSet<String>,
    mode: PruneMode,
    pruned: &mut Pruned,
) -> Result<(), BackupError> {
    let mut is_empty = true;
    for (stored, bytes) in store.stored(number)? {
        if needed.contains(&stored) {
            pruned.bytes_needed += bytes;
            is_empty = false;
            continue;
        }
        pruned.files += 1;
        pruned.bytes += bytes;
        if mode == PruneMode::Remove {
            let path = store.file(&stored);
            fs::remove_file(&path).map_err(|source| failed(&path, source))?;
        }
    }
    if is_empty && mode == PruneMode::Remove {
        store.forget(number)?;
    }
    Ok(())
}

fn failed(path: &Path, source: io::Error) -> BackupError {
    BackupError::Write {
        path: path.to_owned(),
        source,
    }
}
