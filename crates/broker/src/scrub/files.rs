//! What is read beside the segments: checkpoints that count with their manifests, and what the folder says of itself.
//!
//! A checkpoint may be replaced while it is read, and then its file goes: what is damaged counts only if the manifest names it afterwards. The
//! partition has in memory what it was to keep and writes another one, which is read as soon as it is there.

use std::fs;
use std::io;
use std::time::{Duration, Instant};

use courser_contract::PartitionId;
use courser_log::{CheckpointError, check_checkpoint, checkpoint_file, is_passing};

use super::{LOOK, Scrubber, pace_of};
use crate::Status;
use crate::backup::pace::{Stopped, forget_pages};
use crate::causes::with_causes;
use crate::node::{NodeFile, layout};
use crate::repair::RottenFile;
use crate::repair::orders::Orders;
use crate::stations::Counter;

/// How often a checkpoint is read again that was replaced meanwhile.
const TRIES_MAX: u32 = 5;

impl Scrubber {
    /// Reads all of it when that is due, and otherwise what was damaged, once it may be whole.
    pub(super) fn look_at_files(&mut self) -> Result<(), Stopped> {
        if self.control.status() != Status::Serving {
            return Ok(());
        }
        let period = self.period();
        if !period.is_zero() && self.files_read.elapsed() >= period / 2 {
            self.files(period)?;
            self.files_read = Instant::now();
            return Ok(());
        }
        self.look_for_renewed()
    }

    /// Reads all of it.
    fn files(&mut self, period: Duration) -> Result<(), Stopped> {
        // What is written from now on may be what is to take the place of something damaged.
        self.checkpoints_seen = self.door.state.count(Counter::Checkpoints);
        let (partitions, bytes) = self.saved();
        self.pace.borrow_mut().set(pace_of(bytes, period));
        let aside = self.door.state.damage().get().set_aside;
        let mut found = Vec::new();
        for id in partitions {
            // What it was to be made of stays as it is, and is told.
            if !aside.iter().any(|it| it.partition == id) {
                found.extend(self.checkpoint(id)?);
            }
        }
        found.extend(self.beside(layout::NODE, |bytes| NodeFile::decode(bytes).is_ok())?);
        found.extend(self.beside(layout::REPAIR, |bytes| {
            std::str::from_utf8(bytes).is_ok_and(|text| Orders::decode(text).is_some())
        })?);
        let known = self.door.state.damage().files_scrubbed(found.clone());
        for RottenFile { file, what, .. } in without(&found, &known) {
            self.door.state.add(Counter::ScrubDamages, 1);
            tracing::error!(event = "file_damaged", file, what);
        }
        let renewed = without(&known, &found).filter_map(|it| it.partition);
        renewed.for_each(tell_renewed);
        for id in found.iter().filter_map(|it| it.partition) {
            self.renew(id)?;
        }
        Ok(())
    }

    /// Has another checkpoint written. Where the shard has no time for the question for long, the next look asks again.
    fn renew(&self, id: PartitionId) -> Result<(), Stopped> {
        for _ in 0..TRIES_MAX {
            if self.control.renew(id) {
                break;
            }
            self.rest(LOOK)?;
        }
        Ok(())
    }

    /// Looks again at what was damaged, once a checkpoint was written.
    fn look_for_renewed(&mut self) -> Result<(), Stopped> {
        let written = self.door.state.count(Counter::Checkpoints);
        if std::mem::replace(&mut self.checkpoints_seen, written) == written {
            return Ok(());
        }
        let files = self.door.state.damage().get().rotten_files;
        self.pace.borrow_mut().set(u64::MAX);
        for id in files.iter().filter_map(|it| it.partition) {
            if self.checkpoint(id)?.is_none() {
                self.door.state.damage().renewed(id);
                tell_renewed(id);
            }
        }
        Ok(())
    }

    /// Partitions that have a manifest, and the bytes of all checkpoints.
    fn saved(&self) -> (Vec<PartitionId>, u64) {
        let (mut partitions, mut bytes) = (Vec::new(), 0);
        let files = fs::read_dir(self.data.join(layout::CHECKPOINTS));
        for file in files.into_iter().flatten().flatten() {
            let name = file.file_name();
            let id = name.to_str().and_then(checkpoint_file);
            let is_manifest = name.to_string_lossy().ends_with("manifest");
            partitions.extend(id.filter(|_| is_manifest));
            bytes += file.metadata().map_or(0, |about| about.len());
        }
        partitions.sort_unstable();
        (partitions, bytes)
    }

    /// What is damaged of the checkpoint of a partition that counts.
    fn checkpoint(&self, id: PartitionId) -> Result<Option<RottenFile>, Stopped> {
        let manifest = format!("{}.manifest", id.0);
        let mut seen = None;
        for _ in 0..TRIES_MAX {
            let named = match self.check(&manifest)? {
                Ok(named) => named.unwrap_or_default(),
                Err(error) => return Ok(Some(rotten(id, &manifest, &error))),
            };
            let Err(error) = self.check(&named)? else {
                return Ok(None);
            };
            // The same twice: it was not replaced meanwhile.
            if seen.replace(named.clone()).as_ref() == Some(&named) {
                return Ok(Some(rotten(id, &named, &error)));
            }
        }
        Ok(None)
    }

    /// Reads one file of them to its end.
    fn check(&self, name: &str) -> Result<Result<Option<String>, CheckpointError>, Stopped> {
        let path = self.data.join(layout::CHECKPOINTS).join(name);
        let found = match self.open(&path)? {
            Ok(file) => check_checkpoint(file, name),
            Err(source) => Err(CheckpointError::Disk {
                what: "opening",
                name: name.to_owned(),
                source,
            }),
        };
        forget_pages(&path);
        self.go_on()?;
        Ok(found)
    }

    /// What is damaged of a small file, if it is there.
    fn beside(
        &self,
        name: &str,
        is_whole: impl FnOnce(&[u8]) -> bool,
    ) -> Result<Option<RottenFile>, Stopped> {
        let path = self.data.join(name);
        forget_pages(&path);
        let what = match fs::read(&path) {
            Ok(bytes) if is_whole(&bytes) => return Ok(None),
            Ok(_) => "it is not what was written".to_owned(),
            Err(error) if error.kind() == io::ErrorKind::NotFound && name != layout::NODE => {
                return Ok(None);
            }
            // It says nothing of the file.
            Err(error) if is_passing(&error) => return Ok(None),
            Err(error) => error.to_string(),
        };
        self.go_on()?;
        Ok(Some(RottenFile {
            file: name.to_owned(),
            partition: None,
            what,
        }))
    }
}

/// Files of a list that are not in another one.
fn without<'a>(
    files: &'a [RottenFile],
    others: &'a [RottenFile],
) -> impl Iterator<Item = &'a RottenFile> {
    let files = files.iter();
    files.filter(|it| !others.iter().any(|other| other.file == it.file))
}

fn tell_renewed(id: PartitionId) {
    tracing::info!(event = "checkpoint_renewed", partition = id.0);
}

fn rotten(id: PartitionId, name: &str, error: &CheckpointError) -> RottenFile {
    RottenFile {
        file: format!("{}/{name}", layout::CHECKPOINTS),
        partition: Some(id),
        what: with_causes(error),
    }
}
