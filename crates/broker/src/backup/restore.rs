//! Checking backups, and making a data folder of one. Offline.

use std::fs::{self, File, TryLockError};
use std::io::{self, Read, Write};
use std::path::Path;

use courser_settings::open_regular;
use sha2::{Digest, Sha256};

use super::manifest::{FileLine, Manifest, Sum};
use super::store::Store;
use super::{BackupError, BackupReport};
use crate::files::{private_file, sync_folder};
use crate::node::layout::{FOLDERS, KEPT, NODE};
use crate::node::make_folder;

const CHUNK_BYTES: usize = 1 << 20;
/// In a folder that is being made; in the end it is its file `node`.
const RESTORING: &str = "restoring";

/// Which backup is meant: the given one, or the last. One that was not finished is none, and is not passed over in silence.
fn chosen(store: &Store, number: Option<u32>) -> Result<Manifest, BackupError> {
    let numbers = store.numbers()?;
    let path = || store.path().to_owned();
    let wanted = match number {
        Some(number) => number,
        None if numbers.last() == 0 => return Err(BackupError::None { path: path() }),
        None => numbers.last(),
    };
    if numbers.unfinished.contains(&wanted) {
        return Err(BackupError::Unfinished {
            path: path(),
            number: wanted,
            whole: numbers.finished.last().copied(),
        });
    }
    if !numbers.finished.contains(&wanted) {
        return Err(BackupError::Unknown {
            path: path(),
            number: wanted,
        });
    }
    store.manifest(wanted)
}

/// What a backup is, with the damage that the data folder had when it was made: what is read of it cannot tell.
fn report(store: &Store, manifest: &Manifest) -> Result<BackupReport, BackupError> {
    let mut report = BackupReport::new(manifest);
    if store.was_damaged(manifest.number) {
        let path = store.damaged_file(manifest.number);
        for what in store.damages(manifest.number) {
            report.problem(format!(
                "{}: the data folder was damaged when it was copied{what}",
                path.display()
            ));
        }
        let finished = store.numbers()?.finished;
        let is_good = |it: &u32| !store.was_damaged(*it) && store.manifest(*it).is_ok();
        report.undamaged = finished.into_iter().rev().find(is_good);
    }
    Ok(report)
}

/// Reads every byte of a backup and says what of it is not what was written.
///
/// # Errors
/// When there is no such backup, it was not finished, or its manifest is damaged; and while backups are removed.
pub fn verify_backup(path: &Path, number: Option<u32>) -> Result<BackupReport, BackupError> {
    let (store, _lock) = Store::share(path)?;
    let manifest = chosen(&store, number)?;
    let mut report = report(&store, &manifest)?;
    for file in &manifest.files {
        if let Err(error) = read(&store, file, |_| Ok(())) {
            report.problem(error.to_string());
        }
    }
    Ok(report)
}

/// Makes a data folder of a backup. All of the backup is read before anything is written, and the folder is one only when all of it
/// is there and durable: its file `node` comes last. Until then it has the file `restoring`: what fails is removed, and what has ended in the middle
/// is removed by the next one that is to be made there. Damage that the data folder had when the backup was made is in the new one too, and is in the
/// answer.
///
/// # Errors
/// When the backup is not whole, or the folder is there and not empty, is among the backups, or cannot be written; and while backups are removed.
pub fn restore_backup(
    path: &Path,
    number: Option<u32>,
    data: &Path,
) -> Result<BackupReport, BackupError> {
    let (store, _lock) = Store::share(path)?;
    let manifest = chosen(&store, number)?;
    let failed = |source| BackupError::Write {
        path: data.to_owned(),
        source,
    };
    if is_inside(data, path) {
        let path = data.to_owned();
        return Err(BackupError::Inside { path });
    }
    let is_there = match fs::read_dir(data) {
        Ok(mut files) => {
            let has = |name| data.join(name).exists();
            if files.next().is_some() && (has(NODE) || !has(RESTORING)) {
                let path = data.to_owned();
                return Err(BackupError::NotEmpty { path });
            }
            true
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => false,
        Err(error) => return Err(failed(error)),
    };
    if manifest.file(NODE).is_none() {
        let path = store.path().to_owned();
        let why = "it has no file `node`".to_owned();
        return Err(BackupError::Damaged { path, why });
    }
    for file in &manifest.files {
        read(&store, file, |_| Ok(()))?;
    }
    let report = report(&store, &manifest)?;
    restore(&store, &manifest, data, is_there)?;
    Ok(report)
}

/// Makes the folder, of which nothing is left if that fails; it may be there already, without anything that is not of one that has ended in the
/// middle.
pub(super) fn restore(
    store: &Store,
    manifest: &Manifest,
    data: &Path,
    is_there: bool,
) -> Result<(), BackupError> {
    let failed = |source| BackupError::Write {
        path: data.to_owned(),
        source,
    };
    make_folder(data).map_err(failed)?;
    let mark = private_file().truncate(false).open(data.join(RESTORING));
    let mark = mark.map_err(failed)?;
    // Another one works there.
    if let Err(TryLockError::WouldBlock) = mark.try_lock() {
        let path = data.to_owned();
        return Err(BackupError::NotEmpty { path });
    }
    // Another one was done there meanwhile.
    if data.join(NODE).exists() {
        let _ = fs::remove_file(data.join(RESTORING));
        let path = data.to_owned();
        return Err(BackupError::NotEmpty { path });
    }
    clear(data).map_err(failed)?;
    let made = make(store, manifest, data, mark);
    if made.is_err() {
        // What cannot be removed is marked, and goes with the next attempt.
        let cleared = clear(data).and_then(|()| fs::remove_file(data.join(RESTORING)));
        if cleared.is_ok() && !is_there {
            let _ = fs::remove_dir(data);
        }
    }
    made
}

/// Writes all of it. The mark becomes the file `node`.
fn make(
    store: &Store,
    manifest: &Manifest,
    data: &Path,
    mut mark: File,
) -> Result<(), BackupError> {
    let failed = |source| BackupError::Write {
        path: data.to_owned(),
        source,
    };
    sync_folder(data).map_err(failed)?;
    for below in FOLDERS {
        make_folder(&data.join(below)).map_err(failed)?;
    }
    for file in manifest.files.iter().filter(|file| file.path != NODE) {
        write(store, file, data)?;
    }
    for below in FOLDERS {
        sync_folder(&data.join(below)).map_err(failed)?;
    }
    mark.set_len(0).map_err(failed)?;
    for node in manifest.files.iter().filter(|file| file.path == NODE) {
        read(store, node, |bytes| mark.write_all(bytes).map_err(failed))?;
    }
    mark.sync_all().map_err(failed)?;
    // Nothing but the mark may be missing in a folder that is one.
    sync_folder(data).map_err(failed)?;
    fs::rename(data.join(RESTORING), data.join(NODE)).map_err(failed)?;
    sync_folder(data).map_err(failed)
}

/// Removes what one that ended in the middle has made, and nothing else, but the mark.
fn clear(data: &Path) -> io::Result<()> {
    for folder in FOLDERS {
        gone(fs::remove_dir_all(data.join(folder)))?;
    }
    for file in KEPT {
        gone(fs::remove_file(data.join(file)))?;
    }
    Ok(())
}

/// What is not there need not be removed.
fn gone(removed: io::Result<()>) -> io::Result<()> {
    removed.or_else(|error| match error.kind() {
        io::ErrorKind::NotFound => Ok(()),
        _ => Err(error),
    })
}

/// Whether a folder is among the backups, or would be.
fn is_inside(data: &Path, backups: &Path) -> bool {
    let data = std::path::absolute(data).unwrap_or_else(|_| data.to_owned());
    let there = data.ancestors().find(|it| it.exists());
    let there = there.and_then(|it| it.canonicalize().ok());
    match (there, backups.canonicalize()) {
        (Some(there), Ok(backups)) => there.starts_with(backups),
        _ => false,
    }
}

fn write(store: &Store, file: &FileLine, data: &Path) -> Result<(), BackupError> {
    let to = data.join(&file.path);
    let failed = |source| BackupError::Write {
        path: to.clone(),
        source,
    };
    let mut out = private_file().create_new(true).open(&to).map_err(failed)?;
    read(store, file, |bytes| out.write_all(bytes).map_err(failed))?;
    // Zeros, as a segment has them: a file with holes would be filled while somebody waits for a sync.
    let zeros = vec![0; CHUNK_BYTES];
    let mut left = file.bytes - file.kept;
    while left > 0 {
        let len = left.min(CHUNK_BYTES as u64);
        out.write_all(&zeros[..len as usize]).map_err(failed)?;
        left -= len;
    }
    out.sync_all().map_err(failed)
}

/// Reads what is kept of a file and checks it.
pub(super) fn read(
    store: &Store,
    file: &FileLine,
    mut take: impl FnMut(&[u8]) -> Result<(), BackupError>,
) -> Result<(), BackupError> {
    let path = store.file(&file.stored);
    let failed = |source: io::Error| match source.kind() {
        io::ErrorKind::NotFound => BackupError::Damaged {
            path: path.clone(),
            why: "it is missing".to_owned(),
        },
        io::ErrorKind::InvalidInput => BackupError::Damaged {
            path: path.clone(),
            why: source.to_string(),
        },
        _ => BackupError::Read {
            path: path.clone(),
            source,
        },
    };
    // One byte more tells a file that is too long, also one without an end.
    let source = open_regular(&path).map_err(failed)?;
    let mut source = source.take(file.kept.saturating_add(1));
    let mut buffer = vec![0; CHUNK_BYTES];
    let mut sum = Sha256::new();
    let mut bytes = 0;
    loop {
        let len = source.read(&mut buffer).map_err(failed)?;
        if len == 0 {
            break;
        }
        bytes += len as u64;
        sum.update(&buffer[..len]);
        take(&buffer[..len])?;
    }
    let is_right = bytes == file.kept && Sum::from(sum.finalize()) == file.sum;
    if is_right {
        return Ok(());
    }
    let why = match bytes == file.kept {
        true => "its checksum is wrong".to_owned(),
        false if bytes > file.kept => format!("it has more than {} bytes", file.kept),
        false => format!("it has {bytes} bytes and must have {}", file.kept),
    };
    Err(BackupError::Damaged { path, why })
}
