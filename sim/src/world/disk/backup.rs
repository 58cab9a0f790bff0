//! Backups while the node runs, as the broker makes them: the log is cut, its segments are copied one after the other, each let go once it is copied,
//! and then checkpoints, which are held open since the cut. What the last backup has as well is not copied again.
//!
//! Each is restored into an empty folder and held against what was known at its cut: nothing that was committed is missing, every partition
//! ends at the entry that the backup names, and its state is the source's, byte for byte, at the cut and at that entry.

use std::collections::BTreeMap;
use std::io;

use courser_contract::{LogIndex, PartitionId};
use courser_engine::{Limits, Partition};
use courser_log::testing::MemDisk;
use courser_log::{Disk, DiskFile, HeldFile, HeldSegment, LogCut, SpaceState, is_same_segment};

use super::super::World;
use super::copy::{put, segment_up_to};
use super::damage::replay;
use super::from_backup::Memory;
use super::planted::PlantedFile;
use super::recovery::{Opened, open};
use super::restore::{How, Lacking, restore};
use super::truth::{MayLose, MayRot};
use super::{DiskEvent, DiskNode, Running};
use crate::bug::Bug;

/// Copying a segment takes as long as this, at most.
const SEGMENT_MS: u64 = 60;

/// A backup that is being made.
pub(super) struct Making {
    cut: LogCut,
    checkpoints: Vec<HeldFile<PlantedFile>>,
    memory: Memory,
    /// Segments that are copied.
    done: usize,
    /// What is copied for this one.
    stored: MemDisk,
    /// Files that the last one has.
    reused: u64,
    log: Files,
}

/// A finished backup.
pub(super) struct Backup {
    log: Files,
    checkpoints: Files,
    /// The last entry of each partition.
    partitions: Vec<(PartitionId, LogIndex)>,
    /// Files that the one before has.
    reused: u64,
    pub(super) memory: Memory,
}

/// Files of a folder, by name.
type Files = BTreeMap<String, Stored>;

/// Where a file is.
#[derive(Clone)]
struct Stored {
    /// Those of this backup, or of an earlier one.
    among: MemDisk,
    /// Bytes of it that are there.
    kept: u64,
    /// Its length in a data folder: the rest is zeros.
    bytes: u64,
}

/// Why there is no backup.
enum NotMade {
    /// A call of the disk failed, as was planned.
    Unread(io::Error),
    Broken(String),
}

impl From<io::Error> for NotMade {
    fn from(error: io::Error) -> Self {
        Self::Unread(error)
    }
}

impl World {
    /// A backup begins, unless one is under way, or the disk has no room for what is held.
    pub(super) fn back_up(&mut self) {
        let is_free = |it: &mut Running| {
            it.making.is_none() && it.held.is_none() && it.space == SpaceState::Enough
        };
        if !self.station().is_some_and(is_free) {
            return;
        }
        let Some(running) = self.station() else {
            return;
        };
        let Ok(checkpoints) = running.store.hold() else {
            return;
        };
        let cut = match running.log.cut() {
            Ok(cut) => cut,
            Err(error) => return self.stop_for_disk(&error.to_string()),
        };
        running.hold_from(&cut, 0);
        let memory = self.remember();
        let partitions = cut.partitions.len();
        self.note(format_args!("a backup of {partitions} partitions begins"));
        if let Some(running) = self.station() {
            running.making = Some(Making {
                cut,
                checkpoints,
                memory,
                done: 0,
                stored: MemDisk::new(),
                reused: 0,
                log: Files::new(),
            });
        }
        self.go_on_with_backup();
    }

    fn go_on_with_backup(&mut self) {
        let ms = self.rng.between(1, SEGMENT_MS);
        self.disk_later(ms, DiskEvent::BackUpSegment);
    }

    /// The next segment is copied; behind the last one the backup is finished.
    pub(super) fn back_up_segment(&mut self) {
        let limits = self.plan.limits.clone();
        let Some(node) = self.disk.as_deref_mut() else {
            return;
        };
        let making = node.running.as_mut().and_then(|it| it.making.take());
        let Some(mut making) = making else { return };
        let copied = node.copy_next(&mut making);
        let is_last = making.done == making.cut.segments.len();
        if let Some(running) = &mut node.running {
            running.hold_from(&making.cut, making.done);
        }
        let made = match copied {
            Ok(()) if !is_last => {
                if let Some(running) = &mut node.running {
                    running.making = Some(making);
                }
                return self.go_on_with_backup();
            }
            Ok(()) => node.finish(making),
            Err(error) => Err(error),
        };
        let made = made.and_then(|backup| match node.try_backup(&backup, &limits) {
            Ok(()) => Ok(backup),
            Err(text) => Err(NotMade::Broken(text)),
        });
        match made {
            Ok(backup) => {
                let (files, reused) = (backup.files(), backup.reused);
                node.backups.push(backup);
                self.counts.backups += 1;
                self.counts.reused += reused;
                self.note(format_args!(
                    "a backup of {files} files is made: the last one has {reused} of them"
                ));
            }
            Err(NotMade::Unread(error)) => {
                if let Some(running) = self.station() {
                    running.log.hold(None);
                }
                self.note(format_args!("no backup: {error}"));
            }
            Err(NotMade::Broken(text)) => self.oracle.fail(format!("{text} (a backup)")),
        }
    }

    /// The disk is short of room: what is held for a backup is needed.
    pub(super) fn give_up_backup(&mut self) {
        let Some(running) = self.station() else {
            return;
        };
        if running.making.take().is_some() {
            running.log.hold(None);
            self.note(format_args!("a backup is given up for want of room"));
        }
    }
}

impl Running {
    /// Holds what is still to be copied.
    fn hold_from(&mut self, cut: &LogCut, done: usize) {
        let next = cut.segments.get(done);
        self.log
            .hold(next.map(|next| next.segment..=cut.end.segment));
    }
}

impl DiskNode {
    fn copy_next(&self, making: &mut Making) -> Result<(), NotMade> {
        let Some(segment) = making.cut.segments.get(making.done) else {
            return Ok(());
        };
        making.done += 1;
        let name = segment.segment.file_name();
        let last = self.backups.last();
        let known = last.and_then(|last| last.log.get(&name));
        let is_moved = !segment.kept.is_empty();
        if self.bug == Some(Bug::MovedLeftOut) && last.is_some() && known.is_none() && is_moved {
            return Ok(());
        }
        let stored = match known {
            Some(known) if self.is_known(known, segment, &making.cut)? => {
                making.reused += 1;
                known.clone()
            }
            Some(_) | None => {
                let mut bytes =
                    segment_up_to(&self.folder(&self.log_folder), segment, &making.cut)?;
                let kept = making.cut.bytes_of(segment);
                bytes.truncate(kept as usize);
                put(&making.stored, &name, bytes)?;
                Stored {
                    among: making.stored.clone(),
                    kept,
                    bytes: segment.bytes,
                }
            }
        };
        making.log.insert(name, stored);
        Ok(())
    }

    /// Whether the last backup has all of a segment.
    fn is_known(
        &self,
        known: &Stored,
        segment: &HeldSegment,
        cut: &LogCut,
    ) -> Result<bool, NotMade> {
        if self.bug == Some(Bug::OldSegmentKept) {
            return Ok(true);
        }
        let kept = cut.bytes_of(segment);
        if known.kept != kept || kept != segment.bytes {
            return Ok(false);
        }
        let name = segment.segment.file_name();
        let source = match self.folder(&self.log_folder).open(&name) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(NotMade::Broken(format!("I7: {name} is held and gone")));
            }
            opened => opened?,
        };
        Ok(is_same_segment(&source, &known.among.open(&name)?)?)
    }

    fn finish(&self, making: Making) -> Result<Backup, NotMade> {
        let Making {
            cut,
            checkpoints,
            memory,
            stored,
            mut reused,
            log,
            ..
        } = making;
        let held = match (self.bug, &self.running) {
            (Some(Bug::CheckpointsLate), Some(running)) => {
                running.store.hold().map_err(io::Error::other)?
            }
            _ => checkpoints,
        };
        let mut checkpoints = Files::new();
        for HeldFile { name, file } in held {
            let mut bytes = vec![0; file.len()? as usize];
            file.read_at(&mut bytes, 0)?;
            let len = bytes.len() as u64;
            let last = self.backups.last();
            let known = last.and_then(|last| last.checkpoints.get(&name));
            let known = known.filter(|known| known.among.bytes(&name).as_ref() == Some(&bytes));
            let stored = match known {
                Some(known) => {
                    reused += 1;
                    known.clone()
                }
                None => {
                    put(&stored, &name, bytes)?;
                    Stored {
                        among: stored.clone(),
                        kept: len,
                        bytes: len,
                    }
                }
            };
            checkpoints.insert(name, stored);
        }
        Ok(Backup {
            log,
            checkpoints,
            partitions: cut.partitions,
            reused,
            memory,
        })
    }

    /// Restores a backup and holds it against what was known at its cut.
    fn try_backup(&self, backup: &Backup, limits: &Limits) -> Result<(), String> {
        let (log, checkpoints) = backup.folders();
        let folders = (self.folder(&log), self.folder(&checkpoints));
        let opened = open(self, folders, backup.memory.starts + 1)?;
        for (id, truth) in &backup.memory.truth {
            let named = |text| format!("partition {}: {text}", id.0);
            let found = opened.recovered.partitions.get(id);
            let damage = opened.recovered.damage(*id);
            let may = (MayRot::No, MayLose::Nothing);
            truth.compare(found, damage, may).map_err(named)?;
            self.is_state_of_source(backup, &opened, (*id, limits))
                .map_err(named)?;
        }
        Ok(())
    }

    /// A partition of a restored backup has the state that the source has at the same entries.
    fn is_state_of_source(
        &self,
        backup: &Backup,
        opened: &Opened,
        (id, limits): (PartitionId, &Limits),
    ) -> Result<(), String> {
        let config = self.places.config(id, limits);
        let mut partition = match opened.loaded.manifests.get(&id) {
            Some(manifest) => {
                let how = How::read(Lacking::Broken, self.bug);
                restore(opened, manifest, config.clone(), how).map_err(|it| it.to_string())?
            }
            None => Partition::new(config.clone()),
        };
        let found = opened.recovered.partitions.get(&id);
        let entries = found.map_or(&[][..], |found| &found.entries[..]);
        let last = entries.last().map(|entry| entry.index);
        let last = last.max(opened.loaded.manifests.get(&id).map(|it| it.at.index));
        let stated = backup.partitions.iter().find(|(it, _)| *it == id);
        if last != stated.map(|(_, index)| *index) {
            return Err(format!("I1: it ends at {last:?}, and {stated:?} is stated"));
        }
        let differs = |at: LogIndex, what: &str| {
            let at = at.0;
            Err(format!("M42: the state at {at} is not that of {what}"))
        };
        if let Some((at, state)) = backup.memory.states.get(&id) {
            let upto = entries.partition_point(|entry| entry.index <= *at);
            let (before, behind) = entries.split_at(upto);
            replay(&mut partition, before)?;
            if partition.encode_state() != *state {
                return differs(*at, "the node that was copied");
            }
            // What was not committed since the cut has no state yet.
            let committed = self.truth[&id].last_committed();
            let upto = behind.partition_point(|entry| entry.index <= committed);
            replay(&mut partition, &behind[..upto])?;
        }
        let at = partition.applied();
        let replayed = Partition::replay(config, self.truth[&id].committed_to(at));
        match replayed.encode_state() == partition.encode_state() {
            true => Ok(()),
            false => differs(at, "its entries"),
        }
    }
}

impl Backup {
    fn files(&self) -> usize {
        self.log.len() + self.checkpoints.len()
    }

    /// The folders that are made of it.
    pub(super) fn folders(&self) -> (MemDisk, MemDisk) {
        (folder(&self.log), folder(&self.checkpoints))
    }
}

fn folder(files: &Files) -> MemDisk {
    let folder = MemDisk::new();
    for (name, stored) in files {
        let mut bytes = stored.among.bytes(name).expect("it was stored");
        bytes.resize(stored.bytes as usize, 0);
        put(&folder, name, bytes).expect("an empty disk takes it");
    }
    folder
}
