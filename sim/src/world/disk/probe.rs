//! What would be left if something happened now: tried on a copy of the disk.

use courser_engine::Partition;
use courser_log::SegmentNumber;
use courser_log::testing::{MemDisk, Survival};

use super::super::World;
use super::DiskNode;
use super::recovery::{open, restore};
use super::truth::MayRot;
use crate::shell::partition_config;

impl World {
    /// I2: whatever a loss of power takes now, it takes nothing that is committed. The worst one: all that is not synced.
    pub(super) fn probe_power_loss(&mut self) {
        let counter = self.life + 1;
        let Some(node) = self.disk.as_deref_mut() else {
            return;
        };
        let nothing = |disk: &MemDisk| disk.fork().power_loss_with(|_| 0, |_| Survival::Gone);
        let worst = (nothing(&node.log_folder), nothing(&node.checkpoint_folder));
        let any = node.rng.next();
        let some = (
            node.log_folder.fork().power_loss(any),
            node.checkpoint_folder.fork().power_loss(any ^ 1),
        );
        for (log, checkpoints) in [worst, some] {
            let folders = (node.folder(&log), node.folder(&checkpoints));
            let compared =
                open(node, folders, counter).and_then(|opened| opened.compare(node, MayRot::No));
            if let Err(text) = compared {
                self.oracle
                    .fail(format!("{text} (a loss of power at {})", self.now));
                return;
            }
        }
        self.counts.probes += 1;
    }

    /// I7: a bit that flips somewhere in the log is reported, or changes nothing that counts.
    pub(in super::super) fn probe_rot(&mut self) {
        let counter = self.life + 1;
        let Some(node) = self.disk.as_deref_mut() else {
            return;
        };
        let log = node.log_folder.fork().kill();
        let checkpoints = node.checkpoint_folder.fork().kill();
        let Some((name, at, flip)) = node.somewhere(&log) else {
            return;
        };
        let whole = (node.folder(&log.fork()), node.folder(&checkpoints.fork()));
        if open(node, whole, counter)
            .and_then(|opened| opened.compare(node, MayRot::No))
            .is_err()
        {
            // The next start says so itself.
            return;
        }
        log.rot(&name, at, flip);
        let folders = (node.folder(&log), node.folder(&checkpoints));
        // A log that does not open has said so.
        let compared = match open(node, folders, counter) {
            Ok(opened) => opened.compare(node, MayRot::Yes),
            Err(_) => Ok(()),
        };
        if let Err(text) = compared {
            self.oracle
                .fail(format!("{text} (a bit flipped at byte {at} of {name})"));
        }
        self.counts.probes += 1;
    }
}

impl World {
    /// I7: a bit that flips in a checkpoint or a manifest is reported, or makes no difference.
    pub(in super::super) fn probe_checkpoint_rot(&mut self) {
        let counter = self.life + 1;
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
            let Ok(partition) = restore(&opened, manifest, &limits) else {
                continue;
            };
            let entries = node.truth[&id].committed_to(manifest.at.index);
            let replayed = Partition::replay(partition_config(id, &limits), entries);
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

impl DiskNode {
    /// A bit of what is written in some segment.
    fn somewhere(&mut self, log: &MemDisk) -> Option<(String, u64, u8)> {
        let segments: Vec<String> = log
            .names()
            .into_iter()
            .filter(|name| SegmentNumber::of_file_name(name).is_some())
            .collect();
        let name = segments
            .get(self.rng.below(segments.len() as u64) as usize)?
            .clone();
        let bytes = log.bytes(&name)?;
        let end = bytes.iter().rposition(|byte| *byte != 0)?;
        let at = self.rng.below(end as u64 + 1);
        Some((name, at, 1 << self.rng.below(8)))
    }
}
