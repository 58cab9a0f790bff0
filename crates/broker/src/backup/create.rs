//! Making a backup of a running broker.

use std::cell::RefCell;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use courser_contract::WallMs;
use courser_log::inspect::check_segment;
use courser_log::{
    CheckpointError, DiskFile, HeldFile, HeldSegment, RealFile, check_checkpoint, is_same_segment,
};
use sha2::{Digest, Sha256};

use super::manifest::{FileLine, Manifest, Sum, folder_of};
use super::pace::{Pace, SlowFile, Stopped, forget_pages};
use super::store::{Numbers, Store};
use super::{BackupError, Progress, Source};
use crate::causes::with_causes;
use crate::files::private_file;
use crate::node::{NodeFile, layout};
use crate::stations::{CopyDoor, HeldData, Medium};

/// Bytes of one read: what is spent at once of the pace.
const CHUNK_BYTES: u64 = 256 << 10;

/// A backup that is being made.
pub(super) struct Making<'a> {
    pub(super) source: &'a Source,
    pub(super) store: &'a Store,
    pub(super) pace: RefCell<Pace>,
    pub(super) progress: &'a Progress,
    /// Set when segments are not held any more.
    pub(super) lost: Arc<AtomicBool>,
}

/// Lets go of what is held, whatever comes.
struct Hold<'a>(&'a CopyDoor<Medium>);

impl Drop for Hold<'_> {
    fn drop(&mut self) {
        self.0.requests.hold(None);
    }
}

impl Making<'_> {
    /// Makes it; its manifest.
    pub(super) fn run(mut self, made: WallMs) -> Result<Manifest, BackupError> {
        let numbers = self.store.numbers()?;
        let before = self.before(&numbers)?;
        for left in self.store.forget_unfinished(&numbers)? {
            let folder = self.store.file(&folder_of(left));
            self.progress.warn(format!(
                "{} has no manifest, and other backups may need what is in it: it stays; if it was a backup, it is none any more",
                folder.display()
            ));
        }
        let number = self.store.begin(&numbers)?;
        self.progress.change(|state| state.number = number);
        let made = self.make(number, made, before.as_ref());
        // Nothing names it, and it may be what the disk is short of.
        if made.is_err()
            && let Err(error) = self.store.forget(number)
        {
            self.progress
                .warn(format!("{error}: it stays there, and is no backup"));
        }
        made
    }

    /// Copies all of it; the manifest says that it is a backup.
    fn make(
        &mut self,
        number: u32,
        made: WallMs,
        before: Option<&Manifest>,
    ) -> Result<Manifest, BackupError> {
        let hold = Hold(&self.source.door);
        let held = self.source.door.held(&self.lost)?;
        let HeldData { cut, checkpoints } = held;
        let mut manifest = Manifest {
            number,
            node: self.source.node,
            made,
            cut: (cut.end, cut.synced.batch()),
            partitions: cut.partitions.clone(),
            files: Vec::new(),
        };
        let total = cut.segments.iter().map(|it| cut.bytes_of(it)).sum();
        self.progress.change(|state| state.bytes_total = total);
        for (at, segment) in cut.segments.iter().enumerate() {
            let line = self.segment(number, segment, cut.bytes_of(segment), before)?;
            manifest.files.push(line);
            // What is copied may go.
            if let Some(next) = cut.segments.get(at + 1) {
                let held = next.segment..=cut.end.segment;
                self.source.door.requests.hold(Some(held));
            }
        }
        drop(hold);
        for held in &checkpoints {
            let path = format!("{}/{}", layout::CHECKPOINTS, held.name);
            let line = self.checkpoint(number, path, &held.file, before)?;
            let damages = self.damages_of_checkpoint(&held.name, &line, &checkpoints)?;
            self.note(damages);
            manifest.files.push(line);
        }
        for name in layout::KEPT {
            if let Some(line) = self.beside(number, name)? {
                let copy = self.store.file(&line.stored);
                if name == layout::NODE && !is_node_file(&copy)? {
                    self.note(vec![format!("{name}: it is not what was written")]);
                }
                manifest.files.push(line);
            }
        }
        let damaged = self.progress.state().damaged;
        if !damaged.is_empty() {
            self.store.note_damaged(number, &damaged)?;
        }
        self.store.finish(&manifest)?;
        Ok(manifest)
    }

    /// The last backup in the folder of which the manifest can be read, which must be of this node.
    fn before(&self, numbers: &Numbers) -> Result<Option<Manifest>, BackupError> {
        for &number in numbers.finished.iter().rev() {
            match self.store.manifest(number) {
                Ok(before) if before.node == self.source.node => return Ok(Some(before)),
                Ok(_) => {
                    let path = self.store.path().to_owned();
                    return Err(BackupError::Foreign { path });
                }
                Err(error) => self.progress.warn(format!(
                    "{error}: backup {number} is none any more, and nothing of it is used again"
                )),
            }
        }
        Ok(None)
    }

    /// Copies a segment, unless the last backup has the same.
    fn segment(
        &mut self,
        number: u32,
        segment: &HeldSegment,
        kept: u64,
        before: Option<&Manifest>,
    ) -> Result<FileLine, BackupError> {
        let name = segment.segment.file_name();
        let path = format!("{}/{name}", layout::LOG);
        let source = self.source.data.join(&path);
        let known = before.and_then(|before| before.file(&path));
        let known = known.filter(|it| it.kept == kept && kept == segment.bytes);
        if let Some(known) = known
            && !is_other(&source, &self.store.file(&known.stored))
            && self.is_whole(known)?
        {
            self.still_held()?;
            // A disk may have given something else when it was copied than it gives now.
            let damages = self.damages_of(segment, &self.store.file(&known.stored))?;
            if damages.is_empty() {
                self.progress.change(|state| state.bytes_reused += kept);
                return Ok(known.clone());
            }
        }
        let file = open(&source)?;
        let stored = format!("{}/{path}", folder_of(number));
        let to = self.store.file(&stored);
        let sum = self.copy((&file, &source), &to, kept)?;
        // Only now: what was read until it was lost may be anything.
        self.still_held()?;
        let damages = self.damages_of(segment, &to)?;
        self.note(damages);
        Ok(FileLine {
            path,
            stored,
            bytes: segment.bytes,
            kept,
            sum,
        })
    }

    /// Copies a checkpoint or its manifest, unless the last backup has the same: these are small, so they are read for that.
    fn checkpoint(
        &mut self,
        number: u32,
        path: String,
        file: &impl DiskFile,
        before: Option<&Manifest>,
    ) -> Result<FileLine, BackupError> {
        let read = |source| BackupError::Read {
            path: self.source.data.join(&path),
            source,
        };
        let bytes = file.len().map_err(read)?;
        let known = before.and_then(|before| before.file(&path));
        if let Some(known) = known.filter(|known| known.bytes == bytes) {
            let mut sum = Sha256::new();
            self.each_chunk((file, &self.source.data.join(&path)), bytes, |chunk| {
                sum.update(chunk);
                Ok(())
            })?;
            if Sum::from(sum.finalize()) == known.sum && self.is_whole(known)? {
                self.progress.change(|state| state.bytes_reused += bytes);
                return Ok(known.clone());
            }
        }
        let stored = format!("{}/{path}", folder_of(number));
        let source = self.source.data.join(&path);
        let sum = self.copy((file, &source), &self.store.file(&stored), bytes)?;
        Ok(FileLine {
            path,
            stored,
            bytes,
            kept: bytes,
            sum,
        })
    }

    /// A file beside the log, if it is there.
    fn beside(&mut self, number: u32, name: &str) -> Result<Option<FileLine>, BackupError> {
        let source = self.source.data.join(name);
        if !source.exists() {
            return Ok(None);
        }
        let file = open(&source)?;
        let stored = format!("{}/{name}", folder_of(number));
        let bytes = file.len().map_err(|source| BackupError::Read {
            path: self.source.data.join(name),
            source,
        })?;
        let sum = self.copy((&file, &source), &self.store.file(&stored), bytes)?;
        Ok(Some(FileLine {
            path: name.to_owned(),
            stored,
            bytes,
            kept: bytes,
            sum,
        }))
    }

    fn still_held(&self) -> Result<(), BackupError> {
        match self.lost.load(Ordering::Acquire) {
            true => Err(BackupError::GaveWay),
            false => Ok(()),
        }
    }

    /// Copies the beginning of a file, durably; its checksum.
    fn copy(
        &mut self,
        from: (&impl DiskFile, &Path),
        to: &Path,
        bytes: u64,
    ) -> Result<Sum, BackupError> {
        let failed = |source| BackupError::Write {
            path: to.to_owned(),
            source,
        };
        let mut file = private_file().truncate(true).open(to).map_err(failed)?;
        let mut sum = Sha256::new();
        self.each_chunk(from, bytes, |chunk| {
            sum.update(chunk);
            file.write_all(chunk).map_err(failed)
        })?;
        file.sync_all().map_err(failed)?;
        self.progress.change(|state| state.bytes_copied += bytes);
        Ok(sum.finalize().into())
    }

    /// Reads the beginning of a file at the pace.
    fn each_chunk(
        &mut self,
        (file, path): (&impl DiskFile, &Path),
        bytes: u64,
        mut take: impl FnMut(&[u8]) -> Result<(), BackupError>,
    ) -> Result<(), BackupError> {
        let mut buffer = vec![0; CHUNK_BYTES.min(bytes) as usize];
        let mut at = 0;
        while at < bytes {
            let len = CHUNK_BYTES.min(bytes - at);
            self.spend(len).map_err(|Stopped| BackupError::Stopped)?;
            let chunk = &mut buffer[..len as usize];
            file.read_at(chunk, at)
                .map_err(|source| BackupError::Read {
                    path: path.to_owned(),
                    source,
                })?;
            take(chunk)?;
            at += len;
            self.progress.change(|state| state.bytes_read += len);
        }
        Ok(())
    }

    /// So many bytes are read, at the pace that is wanted now.
    fn spend(&self, bytes: u64) -> Result<(), Stopped> {
        let mut pace = self.pace.borrow_mut();
        pace.set(self.progress.pace());
        pace.spend(bytes)
    }

    /// Whether a file of an earlier backup still is what was written. If not, it is copied anew.
    fn is_whole(&mut self, known: &FileLine) -> Result<bool, BackupError> {
        let path = self.store.file(&known.stored);
        let why = match self.sum_of(&path, known.kept) {
            Ok(Some(sum)) if sum == known.sum => return Ok(true),
            Ok(Some(_)) => "its checksum is wrong".to_owned(),
            Ok(None) => "it has another length".to_owned(),
            Err(BackupError::Read { source, .. }) => source.to_string(),
            Err(error) => return Err(error),
        };
        self.progress.warn(format!(
            "{} is not what was written ({why}): it is copied anew, and earlier backups that need it are damaged",
            path.display()
        ));
        Ok(false)
    }

    /// The checksum of a file that has so many bytes.
    fn sum_of(&mut self, path: &Path, bytes: u64) -> Result<Option<Sum>, BackupError> {
        let file = open(path)?;
        let len = file.len().map_err(|source| BackupError::Read {
            path: path.to_owned(),
            source,
        })?;
        if len != bytes {
            return Ok(None);
        }
        let mut sum = Sha256::new();
        self.each_chunk((&file, path), bytes, |chunk| {
            sum.update(chunk);
            Ok(())
        })?;
        Ok(Some(sum.finalize().into()))
    }

    /// Says what the copy has of damage.
    fn note(&self, damages: Vec<String>) {
        for damage in damages {
            tracing::error!(event = "backup_of_damage", what = damage);
            self.progress.change(|state| state.damaged.push(damage));
        }
    }

    /// What of a copied checkpoint, or of the manifest that names one, is not what was written: a start on it would set the partition aside.
    fn damages_of_checkpoint(
        &self,
        name: &str,
        line: &FileLine,
        all: &[HeldFile<impl DiskFile>],
    ) -> Result<Vec<String>, BackupError> {
        let copy = self.store.file(&line.stored);
        match check_checkpoint(open(&copy)?, name) {
            Ok(Some(named)) if !all.iter().any(|it| it.name == named) => {
                Ok(vec![format!("{name}: {named}, which it names, is missing")])
            }
            Ok(_) => Ok(Vec::new()),
            Err(CheckpointError::Disk { source, .. }) => {
                Err(BackupError::Read { path: copy, source })
            }
            Err(error) => Ok(vec![with_causes(&error)]),
        }
    }

    /// Whether it is to go on.
    fn go_on(&self) -> Result<(), Stopped> {
        self.pace.borrow().wait_until(Instant::now())
    }

    /// Damage is not lost on the way: the copy has it as the original, and whoever made it hears of it. What was read until it was told to
    /// stop says nothing. It was just written or read, so that this costs the disk nothing.
    fn damages_of(&self, segment: &HeldSegment, copy: &Path) -> Result<Vec<String>, BackupError> {
        let file = SlowFile::new(open(copy)?, |file, buf, offset| {
            self.go_on()?;
            file.read_at(buf, offset)
        });
        let found = check_segment(file, segment);
        self.go_on().map_err(|Stopped| BackupError::Stopped)?;
        let found = found.map_err(|error| BackupError::Damaged {
            path: copy.to_owned(),
            why: error.to_string(),
        })?;
        // It is not read again soon.
        forget_pages(copy);
        let damages = found.damages.iter();
        let named = damages
            .map(|(offset, what)| format!("segment {} at byte {offset}: {what}", segment.segment));
        Ok(named.collect())
    }
}

/// Whether a copy of the file `node` can be read.
fn is_node_file(copy: &Path) -> Result<bool, BackupError> {
    let bytes = fs::read(copy).map_err(|source| BackupError::Read {
        path: copy.to_owned(),
        source,
    })?;
    Ok(NodeFile::decode(&bytes).is_ok())
}

fn open(path: &Path) -> Result<RealFile, BackupError> {
    RealFile::read_only(path).map_err(|source| BackupError::Read {
        path: path.to_owned(),
        source,
    })
}

/// Whether a segment is another one than that which was copied to there, as far as its length and its header say. Of a source that cannot
/// be read that is not known; a copy that is not there, or not all of it, was of this one.
fn is_other(source: &Path, copy: &Path) -> bool {
    let Ok(source) = RealFile::read_only(source) else {
        return true;
    };
    let Ok(copy) = RealFile::read_only(copy) else {
        return false;
    };
    let lengths = source.len().and_then(|len| Ok((len, copy.len()?)));
    lengths.is_ok_and(|(of_source, of_copy)| of_source == of_copy)
        && !is_same_segment(&source, &copy).unwrap_or(false)
}
