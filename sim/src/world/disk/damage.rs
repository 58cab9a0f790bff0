//! What becomes of damaged partitions (M39, M44): tried on a copy of the disk in which a bit has flipped.
//!
//! One of which entries are lost is set aside: it has the state of the entry before, acknowledges nothing, lets nobody in and writes
//! nothing; once the loss is accepted, its log goes on and is whole again. One of which records below the checkpoint are lost serves:
//! its streams stop there, and go on behind when the loss is accepted, which is counted.

use std::collections::BTreeMap;

use bytes::Bytes;
use courser_cluster::{Consensus, Group, GroupConfig, NodeId, Restored};
use courser_contract::{
    Append, AppendKey, AppendNumber, Attach, AttachStage, ConnectRefusal, DeliverTo, Delivery,
    Destinations, Dropped, FrontId, IndexChange, IndexToken, LogIndex, Now, Origin,
    PartitionEffects, PartitionId, Publish, QoS, Settled, ShardId, Source, Term, Tick, ToFront,
    ToHome, ToPartition, WallMs,
};
use courser_engine::{AsideFilters, Limits, LostStream, Partition, PlantedLoss, Restore};
use courser_log::{Manifest, PartitionDamage, Push, RecoveredEntry};

use super::DiskNode;
use super::groups;
use super::recovery::{Opened, open};
use super::truth::Truth;
use super::{Order, planted::PlantedDisk};
use crate::bug::Bug;
use crate::shell::partition_config;

/// What a partition of the copy asks for.
#[derive(Default)]
struct Heard {
    delivered: Vec<(FrontId, u64, bool)>,
    to_fronts: Vec<(FrontId, ToFront)>,
    settled: Vec<Settled>,
    index: Vec<IndexToken>,
    damaged: u64,
}

impl PartitionEffects for Heard {
    fn deliver(&mut self, delivery: Delivery<'_>, to: &[DeliverTo]) {
        let is_empty = delivery.view.topic.is_empty();
        for to in to {
            if let Some((Source::Session, seq)) = to.source {
                self.delivered.push((to.front, seq.0, is_empty));
            }
        }
    }

    fn send_front(&mut self, front: FrontId, message: ToFront) {
        self.to_fronts.push((front, message));
    }

    fn send_partition(&mut self, _: PartitionId, _: ToPartition) {}

    fn settled(&mut self, _: Origin, _: AppendNumber, result: Settled) {
        self.settled.push(result);
    }

    fn change_index(&mut self, token: IndexToken, _: IndexChange) {
        self.index.push(token);
    }

    fn fence(&mut self, _: IndexToken) {}

    fn destinations(&mut self, _: &str, _: bool) -> Destinations {
        Destinations::new()
    }

    fn retained_partition(&self, _: &str) -> PartitionId {
        PartitionId(1)
    }

    fn retained_partitions(&self) -> Destinations {
        Destinations::new()
    }

    fn group_partition(&self, _: &str, _: &str, _: bool) -> PartitionId {
        PartitionId(1)
    }

    fn dropped(&mut self, why: Dropped, messages: u64) {
        if why == Dropped::Damaged {
            self.damaged += messages;
        }
    }
}

/// A damaged partition that is tried alone.
struct Tried {
    partition: Partition,
    heard: Heard,
    now: Now,
    /// Place of the last entry of its log.
    last: LogIndex,
}

impl Tried {
    fn new(partition: Partition, last: LogIndex, wall: u64) -> Self {
        Self {
            last: last.max(partition.applied()),
            partition,
            heard: Heard::default(),
            now: Now {
                tick: Tick(wall),
                wall: WallMs(wall),
            },
        }
    }

    /// What was asked for happens: L1 confirms, entries commit.
    fn settle(&mut self) {
        for _ in 0..100 {
            for token in std::mem::take(&mut self.heard.index) {
                self.partition
                    .handle_index_confirmed(self.now, token, &mut self.heard);
            }
            let Some(entry) = self.partition.take_entry(self.now) else {
                if self.heard.index.is_empty() {
                    return;
                }
                continue;
            };
            self.last = self.last.next();
            self.partition
                .handle_committed(self.now, self.last, entry, &mut self.heard);
        }
    }

    fn attach(&mut self, client_id: &str, slot: u32) -> FrontId {
        let front = FrontId {
            shard: ShardId(0),
            slot,
            generation: 1,
        };
        let attach = Attach {
            front,
            client_id: client_id.into(),
            stage: AttachStage::Claim,
            clean_start: false,
            expiry_seconds: 1_000,
            receive_maximum: 1_000,
            will: None,
        };
        let message = ToHome::Attach(Box::new(attach));
        self.partition
            .handle_home(self.now, message, &mut self.heard);
        self.settle();
        front
    }

    /// M39: it refuses, and changes nothing.
    fn is_aside(mut self) -> Result<(), String> {
        self.partition
            .set_aside(self.now, AsideFilters::Known, &mut self.heard);
        self.settle();
        let publish = Publish {
            topic: "t/1",
            properties: b"",
            payload: b"later",
            qos: QoS::AtLeastOnce,
            retain: true,
            expires_at: None,
            publisher: None,
        };
        let origin = Origin {
            node: 0,
            shard: ShardId(0),
            start: u32::MAX,
        };
        let key = AppendKey::Numbered {
            origin,
            number: AppendNumber(1),
            floor: AppendNumber(1),
        };
        let append = Append {
            key,
            publish,
            keep_retained: true,
            deliver: true,
        };
        self.partition
            .handle_append(self.now, &append, &mut self.heard);
        let before = self.partition.applied();
        let front = self.attach("c0", 1);
        let refused = ToFront::ConnectRefused(ConnectRefusal::Unavailable);
        let is_told = |(to, message): &(FrontId, ToFront)| {
            *to == front && format!("{message:?}") == format!("{refused:?}")
        };
        if !matches!(self.heard.settled[..], [Settled::Refused(_)]) {
            return Err("I1: a partition that is set aside acknowledges a publish".to_owned());
        }
        if !self.heard.to_fronts.iter().any(is_told) {
            return Err("M44: a partition that is set aside lets a session in".to_owned());
        }
        if self.partition.applied() != before {
            return Err("M44: a partition that is set aside goes on".to_owned());
        }
        self.partition.check();
        Ok(())
    }

    /// M44: streams stop at records that are lost; accepted, the loss is counted and they go on.
    fn stops(mut self) -> Result<(), String> {
        let lost = self.partition.lost();
        let mut stops: BTreeMap<Box<str>, u64> = BTreeMap::new();
        for reference in &lost {
            if let LostStream::Session(client_id) = &reference.stream {
                stops.entry(client_id.clone()).or_insert(reference.seq);
            }
        }
        self.partition
            .handle_leader(self.now, Term(1 << 20), &mut self.heard);
        self.settle();
        for (slot, (client_id, stop)) in (1..).zip(&stops) {
            let front = self.attach(client_id, slot);
            let mine = self.heard.delivered.iter().filter(|(to, ..)| *to == front);
            for (_, seq, is_empty) in mine {
                if *is_empty {
                    return Err("I5: a record whose bytes are lost is delivered".to_owned());
                }
                if seq >= stop {
                    return Err(format!(
                        "I3: {client_id} gets {seq} and {stop} before it is lost"
                    ));
                }
            }
        }
        let gone = self
            .partition
            .accept_loss(self.now, |_| true, &mut self.heard);
        self.settle();
        if gone != lost || !self.partition.lost().is_empty() {
            return Err("M44: an accepted loss is not all that was lost".to_owned());
        }
        if self.heard.damaged != lost.len() as u64 {
            return Err(format!(
                "M44: {} of {} lost messages are counted",
                self.heard.damaged,
                lost.len()
            ));
        }
        self.partition.check();
        Ok(())
    }
}

/// Tries every partition of a copy that is damaged; how many that were.
pub(super) fn probe(
    node: &DiskNode,
    mut opened: Opened,
    folders: (PlantedDisk, PlantedDisk),
    counter: u32,
    limits: &Limits,
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
        let mut partition = match manifest {
            None => Partition::new(partition_config(*id, limits)),
            Some(manifest) => match restore(&opened, manifest, limits) {
                Ok(partition) => partition,
                // A checkpoint that is not read is another matter.
                Err(_) => continue,
            },
        };
        replay(&mut partition, entries)?;
        if damage.is_none() && !partition.has_lost() {
            continue;
        }
        tried += 1;
        if !partition.has_lost() {
            compare(truth, &partition, entries, limits).map_err(named)?;
        }
        plant(node.bug, &mut partition);
        let last = found.map_or(LogIndex(0), |found| found.seen);
        let it = Tried::new(partition, last, 1 << 50);
        match damage {
            Some(_) => it.is_aside().map_err(named)?,
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

fn plant(bug: Option<Bug>, partition: &mut Partition) {
    let planted = match bug {
        Some(Bug::AsideAcknowledges) => PlantedLoss::AsideAcknowledges,
        Some(Bug::DeliverLost) => PlantedLoss::Delivered,
        Some(Bug::SkipLost) => PlantedLoss::Skipped,
        Some(Bug::UncountedLoss) => PlantedLoss::Uncounted,
        _ => return,
    };
    partition.plant_loss(planted);
}

/// Those without data are of the consensus.
fn own(entries: &[RecoveredEntry]) -> impl Iterator<Item = &RecoveredEntry> {
    entries.iter().filter(|entry| !entry.data.is_empty())
}

fn replay(partition: &mut Partition, entries: &[RecoveredEntry]) -> Result<(), String> {
    for entry in own(entries) {
        let replayed = partition.replay_entry(entry.index, &entry.data);
        replayed.map_err(|error| format!("I5: what was read is no entry: {error}"))?;
    }
    Ok(())
}

/// M39: it is replayed up to the entry before the bad one, as far as that was committed.
fn compare(
    truth: &Truth,
    partition: &Partition,
    entries: &[RecoveredEntry],
    limits: &Limits,
) -> Result<(), String> {
    let at = partition.applied();
    if own(entries).any(|entry| entry.index > truth.last_committed()) {
        return Ok(());
    }
    let config = partition_config(partition.config().id, limits);
    let again = Partition::replay(config, truth.committed_to(at));
    if again.encode_state() == partition.encode_state() {
        Ok(())
    } else {
        Err(format!(
            "M39: what is left at {} is not what was there",
            at.0
        ))
    }
}

/// As `recovery::restore`, with entries that cannot be read.
fn restore(opened: &Opened, manifest: &Manifest, limits: &Limits) -> Result<Partition, String> {
    let failed = |error: &dyn std::error::Error| error.to_string();
    let mut reader = opened
        .store
        .reader(manifest)
        .map_err(|error| failed(&error))?;
    let mut restore = Restore::new(partition_config(manifest.partition, limits));
    while let Some(piece) = reader.next_piece().map_err(|error| failed(&error))? {
        restore.piece(&piece).map_err(|error| failed(&error))?;
    }
    let wanted = restore.wanted().map_err(|error| failed(&error))?;
    let mut entries = opened.log.reader(manifest.partition);
    for (first, last) in wanted.ranges() {
        for index in (first.0..=last.0).map(LogIndex) {
            match entries.read(index) {
                Ok(entry) => restore
                    .live_entry(index, &entry.data)
                    .map_err(|error| failed(&error))?,
                Err(_) => drop(restore.lost_entry(index).map_err(|error| failed(&error))?),
            }
        }
    }
    restore.finish().map_err(|error| failed(&error))
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
        groups::poll(&mut group, &mut order, &mut scratch, node.bug);
        let mut batch = opened.log.new_batch();
        for record in &order.records {
            assert_eq!(batch.push(record), Push::Taken, "a few records fit a batch");
        }
        if !batch.is_empty() {
            let written = opened.log.write(&mut batch).map(drop);
            let synced = written.and_then(|()| opened.log.sync().map(drop));
            synced.map_err(|error| error.to_string())?;
        }
        for (_, number) in order.marks {
            group.persisted(number);
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
