//! Checking backups, and making a data folder of one. Offline.

use std::fs;
use std::io::{self, Read, Write};
use std::path::Path;

use courser_settings::open_regular;
use sha2::{Digest, Sha256};

use super::manifest::{FileLine, Manifest, Sum};
use super::store::Store;
use super::{BackupError, BackupReport};
use crate::files::{private_file, sync_folder};
use crate::node::layout::{FOLDERS, NODE};
use crate::node::make_folder;

const CHUNK_BYTES: usize = 1 << 20;

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
/// When there is no such backup, it was not finished, or its manifest is damaged.
pub fn verify_backup(path: &Path, number: Option<u32>) -> Result<BackupReport, BackupError> {
    let store = Store::at(path);
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
/// is there and durable: its file `node` comes last. Damage that the data folder had when the backup was made is in the new one too, and
/// is in the answer.
///
/// # Errors
/// When the backup is not whole, or the folder is there and not empty, or cannot be written.
pub fn restore_backup(
    path: &Path,
    number: Option<u32>,
    data: &Path,
) -> Result<BackupReport, BackupError> {
    let store = Store::at(path);
    let manifest = chosen(&store, number)?;
    let failed = |source| BackupError::Write {
        path: data.to_owned(),
        source,
    };
    match fs::read_dir(data) {
        Ok(mut files) => {
            if files.next().is_some() {
                let path = data.to_owned();
                return Err(BackupError::NotEmpty { path });
            }
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(failed(error)),
    }
    if manifest.file(NODE).is_none() {
        let path = store.path().to_owned();
        let why = "it has no file `node`".to_owned();
        return Err(BackupError::Damaged { path, why });
    }
    for file in &manifest.files {
        read(&store, file, |_| Ok(()))?;
    }
    let report = report(&store, &manifest)?;
    make_folder(data).map_err(failed)?;
    for below in FOLDERS {
        make_folder(&data.join(below)).map_err(failed)?;
    }
    let (last, others): (Vec<_>, Vec<_>) =
        manifest.files.iter().partition(|file| file.path == NODE);
    for file in others.into_iter().chain(last) {
        if file.path == NODE {
            for below in FOLDERS {
                sync_folder(&data.join(below)).map_err(failed)?;
            }
        }
        write(&store, file, data)?;
    }
    sync_folder(data).map_err(failed)?;
    Ok(report)
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
