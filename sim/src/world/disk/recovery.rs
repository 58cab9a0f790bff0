//! The node comes out of its files.

use std::collections::{BTreeMap, VecDeque};

use courser_cluster::{Group, GroupConfig, NodeId, Restored};
use courser_contract::PartitionId;
use courser_engine::Partition;
use courser_log::{
    CheckpointStore, LoadedCheckpoints, Log, Manifest, Recovered, SpaceState, StartId,
};

use super::super::{Event, World};
use super::cleaner::Cleaning;
use super::planted::PlantedDisk;
use super::recall::Recalling;
use super::restore::{How, Reads, Unmade, restore};
use super::truth::MayRot;
use super::{DiskEvent, DiskNode, NODE, Running};
use crate::bug::Bug;

/// What is open after a start.
pub(super) struct Opened {
    pub(super) log: Log<PlantedDisk>,
    pub(super) store: CheckpointStore<PlantedDisk>,
    pub(super) recovered: Recovered,
    pub(super) loaded: LoadedCheckpoints,
}

/// Opens both folders.
pub(super) fn open(
    node: &DiskNode,
    (log, checkpoints): (PlantedDisk, PlantedDisk),
    counter: u32,
) -> Result<Opened, String> {
    let (store, loaded) =
        CheckpointStore::open(checkpoints, NODE).map_err(|error| error.to_string())?;
    let lived = match node.bug {
        Some(Bug::WordRepeats) => counter,
        // Random: no start has that of another one.
        _ => node.lived.wrapping_add(counter.wrapping_sub(node.starts)),
    };
    let start = StartId {
        counter,
        word: u64::from(lived).wrapping_mul(0x9E37_79B9_7F4A_7C15),
    };
    let opened = Log::open(log, node.config(), start, &loaded.manifests);
    let (log, recovered) = opened.map_err(|error| error.to_string())?;
    log.check();
    Ok(Opened {
        log,
        store,
        recovered,
        loaded,
    })
}

impl Opened {
    /// Whether records of a partition may stay in the log until somebody needs them: nothing is known to be damaged.
    fn may_stay(&self, id: PartitionId) -> bool {
        let found = self.recovered.partitions.get(&id);
        let lacks = found.is_some_and(|found| !found.missing_live.is_empty());
        self.recovered.report.damages.is_empty() && !lacks
    }

    /// Holds all that was found against what is known.
    /// `down`: when the process ended, if power was lost.
    pub(super) fn compare(
        &self,
        node: &DiskNode,
        may_rot: MayRot,
        down: Option<u64>,
    ) -> Result<(), String> {
        if may_rot == MayRot::No
            && let Some((id, error)) = self.loaded.damaged.first()
        {
            return Err(format!(
                "partition {}: I7: a manifest is damaged: {error}",
                id.0
            ));
        }
        for (id, truth) in &node.truth {
            let lost_manifest = self.loaded.damaged.iter().any(|(damaged, _)| damaged == id);
            if lost_manifest {
                continue;
            }
            let found = self.recovered.partitions.get(id);
            let damage = match node.bug {
                Some(Bug::ServeDamaged) => None,
                _ => node.damage_of(*id, &self.recovered),
            };
            truth
                .compare(found, damage, (may_rot, node.may_lose(*id, down)))
                .map_err(|text| format!("partition {}: {text}", id.0))?;
        }
        Ok(())
    }
}

impl World {
    /// Opens the log, checks what came out of it, and makes partitions and groups. None: the disk failed, and the node is
    /// started again later.
    pub(in super::super) fn recover_from_disk(
        &mut self,
    ) -> Option<BTreeMap<PartitionId, Partition>> {
        let node = self.disk.as_mut().expect("worlds with a disk only");
        node.starts += 1;
        node.lived += 1;
        let folders = (
            node.folder(&node.log_folder),
            node.folder(&node.checkpoint_folder),
        );
        let mut opened = match open(node, folders, node.starts) {
            Ok(opened) => opened,
            Err(error) => {
                self.start_again(&error);
                return None;
            }
        };
        node.rotten.is_called = false;
        let compared = opened.compare(node, MayRot::No, node.lost_power());
        self.counts.recoveries += 1;
        self.counts.passed += opened.recovered.report.passed_segments;
        let report = format!("{:?}", opened.recovered.report);
        if let Err(text) = compared {
            self.oracle.fail(text);
            return None;
        }
        self.note(format_args!("recovered {report}"));
        self.judge_panics(&mut opened);
        self.settle_doubts(&mut opened);
        let failed = self.failed_calls();
        let partitions = match self.restore_partitions(&mut opened) {
            Ok(partitions) => partitions,
            // What a start could not read is there the next time.
            Err(Unmade::Broken(text)) if self.failed_calls() == failed => {
                self.oracle.fail(text);
                return None;
            }
            Err(unmade) => {
                self.start_again(&unmade.to_string());
                return None;
            }
        };
        self.forget_what_is_lost(&opened);
        if let Err(text) = self.begin_running(opened) {
            self.oracle.fail(text);
            return None;
        }
        Some(partitions)
    }

    /// What relaxed partitions have lost is not owed any more, and their clients are told so (M1).
    fn forget_what_is_lost(&mut self, opened: &Opened) {
        let Some(node) = &mut self.disk else { return };
        node.down = None;
        let aside = &node.quarantine.aside;
        for (id, truth) in node
            .truth
            .iter_mut()
            .filter(|(id, _)| !aside.contains_key(id))
        {
            let found = opened.recovered.partitions.get(id);
            let Some(since) = truth.forget_behind(found) else {
                continue;
            };
            let theirs = self.clients.iter_mut();
            for client in theirs.filter(|it| self.places.session(it.id()) == *id) {
                client.loses_since(since, &mut self.oracle);
            }
            self.counts.rolled_back += 1;
        }
    }

    /// Calls that the disk was to let fail, and did.
    fn failed_calls(&self) -> u64 {
        let node = self.disk.as_ref();
        node.map_or(0, |it| {
            it.log_folder.failed() + it.checkpoint_folder.failed()
        })
    }

    /// A start that failed: the supervisor tries again.
    fn start_again(&mut self, why: &str) {
        self.note(format_args!("the node cannot start: {why}"));
        if let Some(node) = &mut self.disk {
            node.die(self.now);
        }
        let back = self.now + self.rng.between(10, 500);
        self.last_fault = back;
        self.at(back, Event::Start);
    }

    /// Partitions from their checkpoints, each equal to what its entries up to there make (M42).
    fn restore_partitions(
        &mut self,
        opened: &mut Opened,
    ) -> Result<BTreeMap<PartitionId, Partition>, Unmade> {
        let mut partitions = BTreeMap::new();
        for (id, manifest) in &opened.loaded.manifests {
            let found = format!("partition {}", id.0);
            let config = self.places.config(*id, &self.plan.limits);
            let node = self.disk.as_ref().expect("worlds with a disk only");
            let mut partition = node
                .restore_found(opened, manifest, config)
                .map_err(|unmade| unmade.named(|text| format!("{found}: {text}")))?;
            let entries = node.truth[id].committed_to(manifest.at.index);
            let config = self.places.config(*id, &self.plan.limits);
            let replayed = Partition::replay(config, entries);
            // What is lost has no length any more.
            let is_whole = !partition.has_lost();
            if is_whole && replayed.encode_state() != partition.encode_state() {
                let at = manifest.at.index.0;
                let text = format!("{found}: M42: the checkpoint at {at} differs from its entries");
                return Err(text.into());
            }
            self.counts.replays += 1;
            if self.plan.seed.is_multiple_of(3) && opened.may_stay(*id) {
                partition = self.restore_unread(opened, manifest, &partition)?;
            }
            if self.plan.bug == Some(Bug::ForgetInbox) {
                partition.plant_forgotten_inbox();
            }
            partitions.insert(*id, partition);
        }
        self.replay_aside(opened, &mut partitions)?;
        Ok(partitions)
    }

    /// The same partition, with what waits left in the log.
    fn restore_unread(
        &self,
        opened: &Opened,
        manifest: &Manifest,
        read: &Partition,
    ) -> Result<Partition, Unmade> {
        let config = self.places.config(manifest.partition, &self.plan.limits);
        let node = self.disk.as_ref().expect("worlds with a disk only");
        let how = How {
            reads: Reads::Pinned,
            ..How::read(node.lacking(), self.plan.bug)
        };
        let partition = restore(opened, manifest, config, how)?;
        partition.check();
        let is_whole = !read.has_lost();
        if is_whole && partition.encode_state() != read.encode_state() {
            let id = manifest.partition.0;
            let text =
                format!("partition {id}: M42: records that are left in the log change the state");
            return Err(text.into());
        }
        Ok(partition)
    }

    fn begin_running(&mut self, opened: Opened) -> Result<(), String> {
        let (seed, now) = (self.plan.seed, self.now);
        let node = self.disk.as_mut().expect("worlds with a disk only");
        let partitions = node.serving();
        let Opened {
            mut log,
            store,
            mut recovered,
            loaded,
        } = opened;
        let mut groups = BTreeMap::new();
        for id in partitions {
            let found = recovered
                .partitions
                .remove(&id)
                .map_or_else(Restored::nothing, Restored::from);
            let config = GroupConfig::alone(id, NodeId(1), seed);
            let mut group = Group::new(&config, found)
                .map_err(|error| format!("partition {}: I6: {error}", id.0))?;
            if let Some(planted) = node.bug.and_then(Bug::in_consensus) {
                group.plant(planted);
            }
            groups.insert(id, group);
        }
        let manifests = loaded.manifests.clone();
        let cleaning = Cleaning::new(node, store.clone(), manifests, now);
        let recalling = Recalling::new(node);
        node.running = Some(Running {
            cleaning,
            recalling,
            held: None,
            making: None,
            hurries: false,
            scrubbing: Vec::new(),
            batch: log.new_batch(),
            log,
            groups,
            orders: VecDeque::new(),
            writing: None,
            written: None,
            job: None,
            store,
            saving: BTreeMap::new(),
            saved: loaded
                .manifests
                .iter()
                .map(|(id, manifest)| (*id, (manifest.at.index, 0)))
                .collect(),
            syncs: 0,
            space: SpaceState::Enough,
        });
        Ok(())
    }

    /// All groups stand for election; what their logs have above the checkpoints comes as committed.
    pub(in super::super) fn begin_groups(&mut self) {
        self.last_fault = self.now;
        let node = self.disk.as_ref().expect("worlds with a disk only");
        let partitions = node.serving();
        self.leaderless.extend(&partitions);
        self.poll_groups(&partitions);
        self.begin_aside();
        self.tell_room();
        if self.plan.disk.as_ref().is_some_and(|disk| disk.drains) {
            self.disk_later(1, DiskEvent::Hurry);
        }
        self.disk_later(1, DiskEvent::Write);
        self.wake_cleaner(20);
    }
}
