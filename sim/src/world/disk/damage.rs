//! What becomes of damaged partitions (M39, M44): tried on a copy of the disk in which a bit has flipped.
//!
//! One of which entries are lost is set aside: it has the state of the entry before, acknowledges nothing, lets nobody in and writes
//! nothing; once the loss is accepted, its log goes on and is whole again. One of which records below the checkpoint are lost serves:
//! its streams stop there, and go on behind when the loss is accepted, which is counted.

mod tried;

use bytes::Bytes;
use courser_cluster::{Consensus, Group, GroupConfig, NodeId, Restored};
use courser_contract::{LogIndex, Now, PartitionId};
use courser_engine::{Limits, Partition};
use courser_log::{PartitionDamage, Push, RecoveredEntry};

use self::tried::Tried;
use super::DiskNode;
use super::groups;
use super::recovery::{Opened, open};
use super::restore::{How, Lacking, restore};
use super::truth::Truth;
use super::{Order, Waits, planted::PlantedDisk};
use crate::bug::Bug;

/// Tries every partition of a copy that is damaged; how many that were.
pub(super) fn probe(
    node: &DiskNode,
    mut opened: Opened,
    folders: (PlantedDisk, PlantedDisk),
    (counter, now, limits): (u32, Now, &Limits),
) -> Result<u64, String> {
    let mut tried = 0;
    let mut accepted = None;
    for (id, truth) in &node.truth {
        let named = |text| format!("partition {}: {text}", id.0);
        let damage = opened.recovered.damage(*id);
        let manifest = opened.loaded.manifests.get(id);
        if matches!(damage, Some(PartitionDamage::ManifestLost { .. })) {
            continue;
        }
        let found = opened.recovered.partitions.get(id);
        let entries = found.map_or(&[][..], |found| &found.entries[..]);
        let entries = &truth.applied_of(entries)[..];
        let config = node.places.config(*id, limits);
        let mut partition = match manifest {
            None => Partition::new(config),
            Some(manifest) => {
                match restore(
                    &opened,
                    manifest,
                    config,
                    How::read(Lacking::Stops, node.bug),
                ) {
                    Ok(partition) => partition,
                    // A checkpoint that is not read is another matter.
                    Err(_) => continue,
                }
            }
        };
        replay(&mut partition, entries)?;
        if damage.is_none() && !partition.has_lost() {
            continue;
        }
        tried += 1;
        if !partition.has_lost() {
            compare(truth, &partition, entries).map_err(named)?;
        }
        if let Some(planted) = node.bug.and_then(Bug::in_partition) {
            partition.plant(planted);
        }
        let last = found.map_or(LogIndex(0), |found| found.seen);
        let it = Tried::new(partition, last, now);
        match damage {
            Some(_) => it.refuses().map_err(named)?,
            None => it.stops().map_err(named)?,
        }
        if damage.is_some() {
            accepted = Some(*id);
        }
    }
    if let Some(id) = accepted {
        accept(node, &mut opened, id, counter)
            .and_then(|kept| is_whole(node, folders, (id, kept), counter))
            .map_err(|text| format!("partition {}: {text}", id.0))?;
    }
    Ok(tried)
}

/// Those without data are of the consensus.
fn own(entries: &[RecoveredEntry]) -> impl Iterator<Item = &RecoveredEntry> {
    entries.iter().filter(|entry| !entry.data.is_empty())
}

pub(super) fn replay(partition: &mut Partition, entries: &[RecoveredEntry]) -> Result<(), String> {
    for entry in own(entries) {
        let replayed = partition.replay_entry(entry.index, &entry.data);
        replayed.map_err(|error| format!("I5: what was read is no entry: {error}"))?;
    }
    Ok(())
}

/// M39: it is replayed up to the entry before the bad one, as far as that was committed.
fn compare(truth: &Truth, partition: &Partition, entries: &[RecoveredEntry]) -> Result<(), String> {
    let at = partition.applied();
    if own(entries).any(|entry| entry.index > truth.last_committed()) {
        return Ok(());
    }
    let again = Partition::replay(partition.config().clone(), truth.committed_to(at));
    if again.encode_state() == partition.encode_state() {
        Ok(())
    } else {
        Err(format!(
            "M39: what is left at {} is not what was there",
            at.0
        ))
    }
}

/// The loss of a partition's entries is accepted: its group goes on behind what is left. Gives what was left.
fn accept(
    node: &DiskNode,
    opened: &mut Opened,
    id: PartitionId,
    counter: u32,
) -> Result<Vec<RecoveredEntry>, String> {
    let found = opened.recovered.partitions.remove(&id);
    let kept = found
        .as_ref()
        .map_or_else(Vec::new, |found| found.entries.clone());
    let mut restored = found.map_or_else(Restored::nothing, Restored::from);
    let term = &mut restored.hard_state.term.0;
    *term = (*term).max(u64::from(counter));
    let config = GroupConfig::alone(id, NodeId(1), u64::from(counter));
    let mut group = Group::new(&config, restored).map_err(|error| format!("M44: {error}"))?;
    let mut scratch = Truth::default();
    for round in 0..6 {
        if round == 3 && group.propose(Bytes::from_static(GOES_ON)).is_err() {
            return Err("M44: a group that goes on leads nobody".to_owned());
        }
        let mut order = Order::default();
        groups::poll(&mut group, &mut order, &mut scratch, (0, node.bug));
        let mut batch = opened.log.new_batch();
        for record in &order.records {
            assert_eq!(batch.push(record), Push::Taken, "a few records fit a batch");
        }
        if !batch.is_empty() {
            let written = opened.log.write(&mut batch).map(drop);
            let synced = written.and_then(|()| opened.log.sync().map(drop));
            synced.map_err(|error| error.to_string())?;
        }
        for waits in order.marks {
            if let Waits::Group(_, number) = waits {
                group.persisted(number);
            }
        }
    }
    opened.log.witness().map_err(|error| error.to_string())?;
    Ok(kept)
}

const GOES_ON: &[u8] = b"goes on";

/// M44: the next start finds what was left and what came since, and no damage.
fn is_whole(
    node: &DiskNode,
    (log, checkpoints): (PlantedDisk, PlantedDisk),
    (id, kept): (PartitionId, Vec<RecoveredEntry>),
    counter: u32,
) -> Result<(), String> {
    let opened = open(node, (log, checkpoints), counter + 1)?;
    if let Some(damage) = opened.recovered.damage(id) {
        return Err(format!("M44: what was accepted is damage again: {damage}"));
    }
    let found = opened.recovered.partitions.get(&id);
    let entries = found.map_or(&[][..], |found| &found.entries[..]);
    let last = entries.last().map(|entry| &entry.data[..]);
    if !entries.starts_with(&kept) || last != Some(GOES_ON) {
        return Err("I1: what came after an accepted loss is gone".to_owned());
    }
    Ok(())
}
