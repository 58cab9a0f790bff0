//! Making a backup of a running broker.

use std::cell::RefCell;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use courser_contract::WallMs;
use courser_log::inspect::check_segment;
use courser_log::{DiskFile, HeldSegment, RealFile, is_same_segment};
use sha2::{Digest, Sha256};

use super::manifest::{FileLine, Manifest, Sum, folder_of};
use super::pace::{Pace, SlowFile, Stopped, forget_pages};
use super::store::{Store, private_file};
use super::{BackupError, Progress, Source};
use crate::stations::{CopyDoor, HeldData, Medium};

/// Bytes of one read: what is spent at once of the pace.
const CHUNK_BYTES: u64 = 256 << 10;
/// Small files beside the log.
const BESIDE: [&str; 3] = ["node", "repair", "crash"];

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
        let before = self.before()?;
        let number = self.store.begin()?;
        self.progress.change(|state| state.number = number);
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
            let line = self.segment(number, segment, cut.bytes_of(segment), before.as_ref())?;
            manifest.files.push(line);
            // What is copied may go.
            if let Some(next) = cut.segments.get(at + 1) {
                let held = next.segment..=cut.end.segment;
                self.source.door.requests.hold(Some(held));
            }
        }
        drop(hold);
        for held in &checkpoints {
            let path = format!("checkpoints/{}", held.name);
            let line = self.checkpoint(number, path, &held.file, before.as_ref())?;
            manifest.files.push(line);
        }
        for name in BESIDE {
            if let Some(line) = self.beside(number, name)? {
                manifest.files.push(line);
            }
        }
        self.store.finish(&manifest)?;
        Ok(manifest)
    }

    /// The last backup in the folder, which must be of this node.
    fn before(&self) -> Result<Option<Manifest>, BackupError> {
        let Some(&last) = self.store.numbers()?.finished.last() else {
            return Ok(None);
        };
        let before = self.store.manifest(last)?;
        if before.node != self.source.node {
            let path = self.store.path().to_owned();
            return Err(BackupError::Foreign { path });
        }
        Ok(Some(before))
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
        let path = format!("log/{name}");
        let source = self.source.data.join(&path);
        let known = before.and_then(|before| before.file(&path));
        let known = known.filter(|it| it.kept == kept && kept == segment.bytes);
        if let Some(known) = known
            && is_copy(&source, &self.store.file(&known.stored))
        {
            self.still_held()?;
            // What was damaged when it was copied still is, and the copy may have become so.
            self.check(segment, &self.store.file(&known.stored), Reads::FromDisk)?;
            self.progress.change(|state| state.bytes_reused += kept);
            return Ok(known.clone());
        }
        let file = open(&source)?;
        let stored = format!("{}/{path}", folder_of(number));
        let to = self.store.file(&stored);
        let sum = self.copy((&file, &source), &to, kept)?;
        // Only now: what was read until it was lost may be anything.
        self.still_held()?;
        self.check(segment, &to, Reads::FromMemory)?;
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
            if Sum::from(sum.finalize()) == known.sum {
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

    /// Whether it is to go on.
    fn go_on(&self) -> Result<(), Stopped> {
        self.pace.borrow().wait_until(Instant::now())
    }

    /// Damage is not lost on the way: the copy has it as the original, and whoever made it hears of it. What was read until it was told to
    /// stop says nothing.
    fn check(&self, segment: &HeldSegment, copy: &Path, reads: Reads) -> Result<(), BackupError> {
        let file = SlowFile::new(open(copy)?, |file, buf, offset| {
            match reads {
                Reads::FromDisk => self.spend(buf.len() as u64)?,
                Reads::FromMemory => self.go_on()?,
            }
            file.read_at(buf, offset)
        });
        let found = check_segment(file, segment);
        self.go_on().map_err(|Stopped| BackupError::Stopped)?;
        let found = found.map_err(|error| BackupError::Damaged {
            path: copy.to_owned(),
            why: error.to_string(),
        })?;
        for (offset, what) in found.damages {
            let text = format!("segment {} at byte {offset}: {what}", segment.segment);
            tracing::error!(event = "backup_of_damage", what = text);
            self.progress.change(|state| state.damaged.push(text));
        }
        // It is not read again soon.
        forget_pages(copy);
        Ok(())
    }
}

/// What reading a copy costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reads {
    /// As much as copying it.
    FromDisk,
    /// Nothing: it was just written.
    FromMemory,
}

fn open(path: &Path) -> Result<RealFile, BackupError> {
    RealFile::read_only(path).map_err(|source| BackupError::Read {
        path: path.to_owned(),
        source,
    })
}

/// Whether a segment is the one that was copied to there. Of what cannot be read that is not known.
fn is_copy(source: &Path, copy: &Path) -> bool {
    let files = RealFile::read_only(source).and_then(|it| Ok((it, RealFile::read_only(copy)?)));
    files.is_ok_and(|(source, copy)| is_same_segment(&source, &copy).unwrap_or(false))
}
