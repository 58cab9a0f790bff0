//! Checkpoints while the node runs (M42): a slice a turn, the file at the reader's station.

use courser_contract::{LogIndex, PartitionId, ShardId};
use courser_engine::EntrySet;
use courser_log::{BatchNumber, CheckpointAt, CheckpointError, CheckpointWriter, LiveEntries};

use super::super::World;
use super::planted::PlantedDisk;
use super::{DiskEvent, DiskNode, Running};
use crate::bug::Bug;
use courser_cluster::Consensus;

/// With more segments than this, partitions that had no checkpoint for so many syncs get one.
const SEGMENTS_WANTED: usize = 3;
const SYNCS_BETWEEN: u64 = 60;

/// A checkpoint under way.
pub(super) struct Saving {
    writer: CheckpointWriter<PlantedDisk>,
    at: CheckpointAt,
    /// All pieces are taken, and the last batch that was written then.
    end: Option<(LiveEntries, BatchNumber)>,
}

impl World {
    /// Each partition of a shard begins a checkpoint when one is due, and goes on with the one that it has.
    pub(super) fn take_checkpoint_slices(&mut self, shard: ShardId) {
        for id in DiskNode::shard_partitions(&self.places, shard) {
            if let Err(error) = self.take_checkpoint_slice(shard, id) {
                self.checkpoint_failed(shard, id, &error);
            }
            if self.station().is_none() {
                return;
            }
        }
    }

    fn take_checkpoint_slice(
        &mut self,
        shard: ShardId,
        id: PartitionId,
    ) -> Result<(), CheckpointError> {
        let Some(disk) = self.disk.as_deref_mut() else {
            return Ok(());
        };
        let (plan, bug) = (disk.plan.clone(), disk.bug);
        let Some(running) = &mut disk.running else {
            return Ok(());
        };
        let partition = self.shards[usize::from(shard.0)]
            .partition_mut(id)
            .expect("it is of this shard");
        // One that is set aside stays as it is.
        if !running.groups.contains_key(&id) {
            return Ok(());
        }
        if !running.saving.contains_key(&id) {
            let applied = partition.applied();
            let due = running.is_due(id, applied, plan.checkpoint_entries);
            if !due || !running.begin_saving(id, applied)? {
                return Ok(());
            }
            assert!(partition.begin_checkpoint(), "one checkpoint at a time");
            if bug == Some(Bug::LatePieces) {
                partition.plant_late_pieces();
            }
        }
        let Some(saving) = running
            .saving
            .get_mut(&id)
            .filter(|saving| saving.end.is_none())
        else {
            return Ok(());
        };
        if let Some(piece) = partition.take_checkpoint_piece(plan.checkpoint_budget) {
            saving.writer.piece(&piece.bytes)?;
        }
        if let Some(end) = partition.checkpoint_end() {
            assert_eq!(
                end.index, saving.at.index,
                "a checkpoint is valid where it began"
            );
            let live = live_entries(&end.live, bug);
            if bug == Some(Bug::ForgetBeforeManifest) {
                running.log.set_checkpoint(id, saving.at, live.clone());
            }
            saving.end = Some((live, running.log.last_batch()));
            let ms = self.rng.between(1, 40);
            self.disk_later(ms, |life| DiskEvent::CheckpointDone(life, id));
        }
        Ok(())
    }

    /// The reader's station makes the checkpoint the one that counts.
    pub(super) fn checkpoint_done(&mut self, id: PartitionId) {
        let Some(running) = self.station() else {
            return;
        };
        let saving = running.saving.remove(&id).expect("its pieces are written");
        // The manifest comes after a sync of all that the checkpoint speaks of, which a relaxed partition has not waited for (M42).
        let written = saving.end.as_ref().map(|(_, written)| *written);
        if written > Some(running.log.synced().batch())
            && let Err(error) = running.log.sync()
        {
            return self.stop_for_disk(&error.to_string());
        }
        match running.finish_saving(id, saving) {
            Ok(index) => {
                self.counts.checkpoints += 1;
                self.wake_cleaner(20);
                self.note(format_args!(
                    "checkpoint of partition {} at {}",
                    id.0, index.0
                ));
            }
            Err(error) => {
                let shard = self.places.shard_of(id);
                self.checkpoint_failed(shard, id, &error);
            }
        }
    }

    /// Without room there is none, and it is tried again. Everything else is as final as with the log.
    fn checkpoint_failed(&mut self, shard: ShardId, id: PartitionId, error: &CheckpointError) {
        if !is_full(error) {
            return self.stop_for_disk(&error.to_string());
        }
        if let Some(running) = self.station() {
            running.saving.remove(&id);
        }
        if let Some(partition) = self.shards[usize::from(shard.0)].partition_mut(id) {
            partition.cancel_checkpoint();
        }
        self.note(format_args!(
            "no room for a checkpoint of partition {}",
            id.0
        ));
    }
}

impl Running {
    /// After so many entries of its own, or when it may be what keeps old segments from being used again.
    fn is_due(&self, id: PartitionId, applied: LogIndex, entries: u64) -> bool {
        let (last, syncs) = self.saved.get(&id).copied().unwrap_or((LogIndex(0), 0));
        let pins = self.log.segments() > SEGMENTS_WANTED && self.syncs >= syncs + SYNCS_BETWEEN;
        applied.0 >= last.0 + entries || (applied > last && (pins || self.hurries))
    }

    /// False: the entry at that index is none of this log's.
    fn begin_saving(&mut self, id: PartitionId, index: LogIndex) -> Result<bool, CheckpointError> {
        let Some(term) = self.groups[&id].term_of(index) else {
            return Ok(false);
        };
        let at = CheckpointAt { index, term };
        let writer = self.store.writer(id, at)?;
        self.saving.insert(
            id,
            Saving {
                writer,
                at,
                end: None,
            },
        );
        Ok(true)
    }

    fn finish_saving(
        &mut self,
        id: PartitionId,
        saving: Saving,
    ) -> Result<LogIndex, CheckpointError> {
        let Saving { writer, at, end } = saving;
        let (live, _) = end.expect("its pieces are written");
        let manifest = writer.finish(live.clone(), self.log.synced())?;
        self.cleaning.cleaner.checkpointed(manifest);
        self.log.set_checkpoint(id, at, live);
        let group = self
            .groups
            .get_mut(&id)
            .expect("every partition has a group");
        group.compact(at.index);
        group.check();
        self.saved.insert(id, (at.index, self.syncs));
        Ok(at.index)
    }
}

fn live_entries(live: &EntrySet, bug: Option<Bug>) -> LiveEntries {
    let mut entries = LiveEntries::NONE;
    let forgotten = match bug {
        Some(Bug::LiveEntryForgotten) => live.ranges().next(),
        _ => None,
    };
    for (first, last) in live.ranges().filter(|range| Some(*range) != forgotten) {
        entries.push_range(first, last);
    }
    entries
}

fn is_full(error: &CheckpointError) -> bool {
    use std::error::Error;
    let source = error
        .source()
        .and_then(|source| source.downcast_ref::<std::io::Error>());
    source.is_some_and(|source| source.kind() == std::io::ErrorKind::StorageFull)
}
