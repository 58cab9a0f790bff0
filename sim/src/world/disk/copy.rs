//! A copy that is made while the node runs, as a backup is: segments are held at a cut, read much later, and must then hold all
//! that was there at the cut.

use std::io;

use courser_engine::Limits;
use courser_log::testing::{MemDisk, MemFile};
use courser_log::{DiskFile, HeldFile, HeldSegment, LogCut};

use super::super::World;
use super::planted::{PlantedDisk, PlantedFile};
use super::recovery::open;
use super::restore::Unmade;
use super::truth::{MayLose, MayRot};
use super::{DiskEvent, DiskNode};

/// Longest time for which segments are held.
const HELD_MS: u64 = 3_000;

/// What is to be copied.
pub(super) struct Held {
    cut: LogCut,
    checkpoints: Vec<HeldFile<PlantedFile>>,
    at: u64,
}

impl World {
    /// A copy begins, unless one is under way.
    pub(super) fn hold(&mut self) {
        let now = self.now;
        let Some(running) = self.station().filter(|running| running.held.is_none()) else {
            return;
        };
        let Ok(checkpoints) = running.store.hold() else {
            return;
        };
        let cut = match running.log.cut() {
            Ok(cut) => cut,
            Err(error) => return self.stop_for_disk(&error.to_string()),
        };
        let numbers = cut.segments.iter().map(|it| it.segment);
        if let (Some(first), Some(last)) = (numbers.clone().min(), numbers.max()) {
            running.log.hold(Some(first..=last));
        }
        running.held = Some(Held {
            cut,
            checkpoints,
            at: now,
        });
        self.note(format_args!("a copy begins"));
        let ms = self.rng.between(1, HELD_MS);
        self.disk_later(ms, DiskEvent::Copy);
    }

    /// What was held is read, tried, and let go.
    pub(super) fn copy(&mut self) {
        let (counter, limits) = (self.next_start(), self.plan.limits.clone());
        let Some(node) = self.disk.as_deref_mut() else {
            return;
        };
        let held = node.running.as_mut().and_then(|it| it.held.take());
        let Some(held) = held else { return };
        let tried = node.try_copy(&held, (counter, &limits));
        if let Some(running) = &mut node.running {
            running.log.hold(None);
        }
        match tried {
            Ok(Tried::Whole) => self.counts.copies += 1,
            Ok(Tried::Unread(error)) => self.note(format_args!("no copy: {error}")),
            Err(text) => self.oracle.fail(format!("{text} (a copy)")),
        }
    }
}

/// How a copy went.
enum Tried {
    Whole,
    /// A call of the disk failed, as was planned.
    Unread(io::Error),
}

impl DiskNode {
    fn try_copy(&self, held: &Held, (counter, limits): (u32, &Limits)) -> Result<Tried, String> {
        let (log, checkpoints) = match self.copy_of(held) {
            Ok(copied) => copied,
            Err(error) => return Ok(Tried::Unread(error)),
        };
        let folders = (self.folder(&log), self.folder(&checkpoints));
        let opened = open(self, folders, counter)?;
        for (id, truth) in &self.truth {
            let named = |text| format!("partition {}: {text}", id.0);
            let found = opened.recovered.partitions.get(id);
            let damage = self.damage_of(*id, &opened.recovered);
            let may = (MayRot::No, MayLose::Behind(held.at));
            truth.compare(found, damage, may).map_err(named)?;
            if let Some(manifest) = opened.loaded.manifests.get(id) {
                let config = self.places.config(*id, limits);
                match self.restore_found(&opened, manifest, config) {
                    Ok(_) => {}
                    Err(Unmade::Broken(text)) => return Err(named(text)),
                    Err(Unmade::Disk(text)) => return Ok(Tried::Unread(io::Error::other(text))),
                }
            }
        }
        Ok(Tried::Whole)
    }

    fn copy_of(&self, held: &Held) -> io::Result<(MemDisk, MemDisk)> {
        let (log, checkpoints) = (MemDisk::new(), MemDisk::new());
        let folder = self.folder(&self.log_folder);
        for segment in &held.cut.segments {
            let bytes = segment_up_to(&folder, segment, &held.cut)?;
            put(&log, &segment.segment.file_name(), bytes)?;
        }
        for HeldFile { name, file } in &held.checkpoints {
            let mut bytes = vec![0; file.len()? as usize];
            file.read_at(&mut bytes, 0)?;
            put(&checkpoints, name, bytes)?;
        }
        Ok((log, checkpoints))
    }
}

/// A segment as it was at the cut. One that was used again has another name: there are no bytes of it.
pub(super) fn segment_up_to(
    folder: &PlantedDisk,
    held: &HeldSegment,
    cut: &LogCut,
) -> io::Result<Vec<u8>> {
    use courser_log::Disk;
    let mut bytes = vec![0; held.bytes as usize];
    let file = match folder.open(&held.segment.file_name()) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(bytes),
        opened => opened?,
    };
    file.read_at(&mut bytes[..cut.bytes_of(held) as usize], 0)?;
    Ok(bytes)
}

pub(super) fn put(folder: &MemDisk, name: &str, bytes: Vec<u8>) -> io::Result<()> {
    use courser_log::Disk;
    let _: MemFile = folder.create(name)?;
    folder.sync_dir()?;
    folder.replace(name, bytes);
    Ok(())
}
