//! What would be left if something happened now: tried on a copy of the disk.

use courser_contract::Now;
use courser_engine::{Limits, Partition};
use courser_log::SegmentNumber;
use courser_log::testing::{MemDisk, Survival};

use super::super::World;
use super::DiskNode;
use super::damage;
use super::planted::PlantedDisk;
use super::recovery::{Opened, open};
use super::restore::{How, Lacking, Unmade, restore};
use super::rotting::{Rot, segments};
use super::truth::MayRot;
use crate::rng::Rng;

/// Flips of a bit after the end of a process.
const FLIPS: usize = 6;

impl World {
    /// I2: whatever a loss of power takes now, it takes nothing that is committed, and nothing that checkpoints need.
    pub(super) fn probe_power_loss(&mut self) {
        let (now, limits) = (self.now, self.plan.limits.clone());
        let Some(node) = self.disk.as_deref_mut() else {
            return;
        };
        let any = node.rng.next();
        let some = (
            node.log_folder.fork().power_loss(any),
            node.checkpoint_folder.fork().power_loss(any ^ 1),
        );
        let left = [node.worst_loss(), some];
        self.probe_losses(&left, |node, opened| {
            node.is_all_there(opened, (now, &limits))
        });
    }

    /// I2, after a sync: what was not synced is gone, and all that is committed is in the log.
    pub(super) fn probe_sync(&mut self) {
        let now = self.now;
        let Some(node) = self.disk.as_deref() else {
            return;
        };
        let left = [node.worst_loss()];
        self.probe_losses(&left, |node, opened| {
            Ok(opened.compare(node, MayRot::No, Some(now))?)
        });
    }

    /// Opens what losses of power would leave now.
    fn probe_losses(
        &mut self,
        left: &[(MemDisk, MemDisk)],
        is_whole: impl Fn(&DiskNode, &Opened) -> Result<(), Unmade>,
    ) {
        let (counter, now) = (self.next_start(), self.now);
        let Some(node) = self.disk.as_deref() else {
            return;
        };
        let broken = left.iter().find_map(|(log, checkpoints)| {
            let looks = |counter| {
                let folders = (node.folder(log), node.folder(checkpoints));
                let opened = open(node, folders, counter)?;
                is_whole(node, &opened)
            };
            match looks(counter) {
                // The next start has looked at the segment that the disk does not give; this one may have written something.
                Err(Unmade::Disk(_)) => looks(counter + 1).err(),
                looked => looked.err(),
            }
        });
        if let Some(text) = broken {
            self.oracle
                .fail(format!("{text} (a loss of power at {now})"));
        }
        self.counts.probes += 1;
    }

    /// I7: a bit that flips somewhere in the log, or a write there that was synced and never came to the disk, is reported, or changes
    /// nothing that counts; and what is damaged by it is set aside, or stops. Tried a few times, each on a copy.
    pub(in super::super) fn probe_rot(&mut self) {
        let (counter, now) = (self.next_start(), self.clock());
        let limits = self.plan.limits.clone();
        let Some(node) = self.disk.as_deref_mut() else {
            return;
        };
        let log = node.log_folder.fork().kill();
        let checkpoints = node.checkpoint_folder.fork().kill();
        let whole = (node.folder(&log.fork()), node.folder(&checkpoints.fork()));
        let Ok(whole) = open(node, whole, counter) else {
            return;
        };
        if whole.compare(node, MayRot::No, node.lost_power()).is_err() {
            // The next start says so itself.
            return;
        }
        for round in 0..FLIPS {
            let place = match node.rng.chance(50) {
                true => node.in_an_entry(&log, &whole),
                false => node.somewhere(&log),
            };
            let Some((name, at)) = place else { continue };
            let bits = 1 << node.rng.below(8);
            let lost = [Rot::Block, Rot::Write, Rot::End][round % 3];
            for rot in [Rot::Bit(bits), lost] {
                let rotten = log.fork();
                // Who accepts a loss makes room for what comes behind it: on a full disk the log takes nothing, and says so.
                rotten.set_capacity(None);
                rot.happen(&rotten, &name, at);
                let folders = (node.folder(&rotten), node.folder(&checkpoints.fork()));
                let what = (rot, &name[..], at);
                match node.try_rot(&whole, what, folders, (counter, now, &limits)) {
                    Ok(tried) => self.counts.damaged += tried,
                    Err(text) => {
                        let text = format!("{text} ({rot:?} at byte {at} of {name})");
                        self.oracle.fail(text);
                        return;
                    }
                }
                self.counts.probes += 1;
            }
        }
    }
}

impl World {
    /// I7: a bit that flips in a checkpoint or a manifest is reported, or makes no difference.
    pub(in super::super) fn probe_checkpoint_rot(&mut self) {
        let counter = self.next_start();
        let limits = self.plan.limits.clone();
        let Some(node) = self.disk.as_deref_mut() else {
            return;
        };
        let log = node.log_folder.fork().kill();
        let checkpoints = node.checkpoint_folder.fork().kill();
        let names = checkpoints.names();
        let Some(name) = names.get(node.rng.below(names.len() as u64) as usize) else {
            return;
        };
        let len = checkpoints
            .bytes(name)
            .map_or(0, |bytes| bytes.len() as u64);
        if len == 0 {
            return;
        }
        let at = node.rng.below(len);
        checkpoints.rot(name, at, 1 << node.rng.below(8));
        let folders = (node.folder(&log), node.folder(&checkpoints));
        // Folders that do not open have said so, and so have checkpoints that are not read.
        let Ok(opened) = open(node, folders, counter) else {
            return;
        };
        for manifest in opened.loaded.manifests.values() {
            let id = manifest.partition;
            let config = node.places.config(id, &limits);
            let how = How::read(Lacking::Broken, node.bug);
            let Ok(partition) = restore(&opened, manifest, config.clone(), how) else {
                continue;
            };
            let entries = node.truth[&id].committed_to(manifest.at.index);
            let replayed = Partition::replay(config, entries);
            if replayed.encode_state() != partition.encode_state() {
                self.oracle.fail(format!(
                    "partition {}: I5: a checkpoint is read that is not what was written (a bit flipped at byte {at} of {name})",
                    id.0
                ));
                return;
            }
        }
        self.counts.probes += 1;
    }
}

impl World {
    /// M44: whatever rots of a summary changes nothing of what a start finds: its segment is read instead.
    pub(in super::super) fn probe_summary_rot(&mut self) {
        let (counter, now) = (self.next_start(), self.now);
        let limits = self.plan.limits.clone();
        let Some(node) = self.disk.as_deref() else {
            return;
        };
        // Drawn apart: it changes nothing of the world.
        let mut rng = Rng::new(self.plan.seed ^ now.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let log = node.log_folder.fork().kill();
        let checkpoints = node.checkpoint_folder.fork().kill();
        let Some((name, bytes)) = some_summary(&log, &mut rng) else {
            return;
        };
        let finds_all = |log: &MemDisk| {
            let folders = (node.folder(log), node.folder(&checkpoints.fork()));
            let opened = open(node, folders, counter)?;
            node.is_all_there(&opened, (now, &limits))
        };
        if finds_all(&log.fork()).is_err() {
            // The next start says so itself.
            return;
        }
        let at = rng.below(bytes);
        match rng.chance(70) {
            true => log.rot(&name, at, 1 << rng.below(8)),
            false => log.truncate(&name, at),
        }
        if let Err(text) = finds_all(&log) {
            self.oracle
                .fail(format!("{text} (byte {at} of {name} is damaged)"));
        }
        self.counts.probes += 1;
    }
}

impl DiskNode {
    /// The worst loss of power: all that is not synced is gone.
    fn worst_loss(&self) -> (MemDisk, MemDisk) {
        let left = |disk: &MemDisk| disk.fork().power_loss_with(|_| 0, |_| Survival::Gone);
        (left(&self.log_folder), left(&self.checkpoint_folder))
    }

    /// All that is committed is there, and all that checkpoints need.
    fn is_all_there(&self, opened: &Opened, (now, limits): (u64, &Limits)) -> Result<(), Unmade> {
        opened.compare(self, MayRot::No, Some(now))?;
        for (id, manifest) in &opened.loaded.manifests {
            let config = self.places.config(*id, limits);
            self.restore_found(opened, manifest, config)
                .map_err(|unmade| unmade.named(|text| format!("partition {}: {text}", id.0)))?;
        }
        Ok(())
    }
}

impl DiskNode {
    /// Opens a copy that is not what it was at a place, once more without anybody having accepted anything, and tries what is damaged. How
    /// many partitions that were.
    fn try_rot(
        &self,
        whole: &Opened,
        (rot, name, at): (Rot, &str, u64),
        folders: (PlantedDisk, PlantedDisk),
        (counter, now, limits): (u32, Now, &Limits),
    ) -> Result<u64, String> {
        let segment = SegmentNumber::of_file_name(name);
        let unproven = whole.recovered.report.unproven;
        let is_unproven =
            unproven.is_some_and(|from| (segment, at) >= (Some(from.segment), from.offset));
        let may_rot = match is_unproven || matches!(rot, Rot::End) {
            true => MayRot::Unproven,
            false => MayRot::Yes,
        };
        // A log that does not open has said so.
        let Ok(opened) = open(self, folders.clone(), counter) else {
            return Ok(0);
        };
        opened.compare(self, may_rot, self.lost_power())?;
        let damage = |opened: &Opened| {
            let ids = self.truth.keys();
            ids.map(|id| (*id, opened.recovered.damage(*id)))
                .collect::<Vec<_>>()
        };
        let first = damage(&opened);
        drop(opened);
        // What a start has found is found by the next one too.
        let opened = open(self, folders.clone(), counter + 1)?;
        let again = damage(&opened);
        let mut both = first.iter().zip(&again);
        if let Some(((id, first), (_, again))) = both.find(|(first, again)| first != again) {
            return Err(format!(
                "partition {}: M44: {first:?} is {again:?} at the next start",
                id.0
            ));
        }
        damage::probe(self, opened, folders, (counter + 1, now, limits))
    }

    /// A bit of what is written in some segment.
    fn somewhere(&mut self, log: &MemDisk) -> Option<(String, u64)> {
        let segments = segments(log);
        let name = segments
            .get(self.rng.below(segments.len() as u64) as usize)?
            .clone();
        let bytes = log.bytes(&name)?;
        let end = bytes.iter().rposition(|byte| *byte != 0)?;
        let at = self.rng.below(end as u64 + 1);
        Some((name, at))
    }

    /// A bit of an entry that a start needs: one above the checkpoint of its partition, or one with a message that waits.
    fn in_an_entry(&mut self, log: &MemDisk, whole: &Opened) -> Option<(String, u64)> {
        let found: Vec<_> = whole.recovered.partitions.iter().collect();
        let (id, found) = *found.get(self.rng.below(found.len() as u64) as usize)?;
        let above = found.entries.iter().map(|entry| entry.index);
        let live: Vec<_> = found.live.iter().collect();
        let needed = match self.rng.chance(70) && !live.is_empty() {
            true => live,
            false => above.collect(),
        };
        let index = *needed.get(self.rng.below(needed.len() as u64) as usize)?;
        let entry = self.truth[id].committed_at(index)?;
        let (name, at) = segments(log).into_iter().find_map(|name| {
            let bytes = log.bytes(&name)?;
            let mut places = bytes.windows(entry.len());
            let at = places.position(|place| *place == *entry)?;
            Some((name, at))
        })?;
        let within = self.rng.below(entry.len() as u64);
        Some((name, at as u64 + within))
    }
}

/// A summary with something in it, and its bytes.
fn some_summary(log: &MemDisk, rng: &mut Rng) -> Option<(String, u64)> {
    let names = log.names().into_iter();
    let summaries = names.filter(|name| SegmentNumber::of_summary_name(name).is_some());
    let with_bytes = summaries.filter_map(|name| {
        let bytes = log.bytes(&name)?.len() as u64;
        (bytes > 0).then_some((name, bytes))
    });
    let mut found: Vec<_> = with_bytes.collect();
    if found.is_empty() {
        return None;
    }
    Some(found.swap_remove(rng.below(found.len() as u64) as usize))
}
