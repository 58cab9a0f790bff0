//! An operator who is called for what has rotted, after the broker's `repair`: he stops the node, looks at what the next start would lack, accepts its loss and
//! starts the node again, which writes that, counts it, and goes on behind it (M44).

use std::collections::{BTreeMap, BTreeSet};

use courser_contract::PartitionId;
use courser_engine::{LostReference, LostStream, Partition, ReferenceSearch};
use courser_log::inspect::RecordAt;

use super::super::World;
use super::damage::replay;
use super::recovery::open;
use super::restore::Unmade;
use super::{DiskEvent, DiskNode};
use crate::shell::{Inbound, Shard};

/// The operator comes so late, at most.
const OPERATOR_MS: u64 = 3_000;

/// What partitions have lost.
type Lost = BTreeMap<PartitionId, Vec<LostReference>>;

impl World {
    /// Somebody is called, unless he is on his way.
    pub(super) fn call_operator(&mut self) {
        let Some(node) = self.disk.as_deref_mut() else {
            return;
        };
        if !std::mem::replace(&mut node.rotten.is_called, true) {
            let ms = node.rotten.between(50, OPERATOR_MS);
            self.disk_later(ms, DiskEvent::Repair);
        }
    }

    /// Whether an operator is still to come for something.
    pub(in super::super) fn awaits_operator(&self) -> bool {
        let node = self.disk.as_deref();
        node.is_some_and(|node| node.rotten.is_called)
    }

    /// He comes.
    pub(super) fn repair(&mut self) {
        self.die();
        let limits = self.plan.limits.clone();
        let Some(node) = self.disk.as_deref_mut() else {
            return;
        };
        node.rotten.is_called = false;
        // What a start has to read is not known before the first look where the disk does not give something that lies below all checkpoints.
        let lost = match node.examine(&limits) {
            Err(Unmade::Disk(_)) => node.examine(&limits),
            examined => examined,
        };
        let lost = match lost {
            Ok(lost) => lost,
            Err(unmade) => return self.oracle.fail(format!("{unmade} (an operator looks)")),
        };
        let rotten = &mut node.rotten;
        rotten.told.clear();
        rotten.accepted.clear();
        for (id, lost) in &lost {
            let records = lost.iter().map(|it| (*id, it.index, it.byte));
            rotten.told.extend(records);
            let entries = lost.iter().map(|it| it.index).collect();
            rotten.accepted.insert(*id, entries);
        }
        self.counts.repaired += 1;
        let all = lost.values().map(Vec::len).sum::<usize>();
        self.note(format_args!(
            "the operator accepts that {all} messages are lost"
        ));
    }

    /// The node serves: what was accepted is written, and what else has stopped is said.
    pub(in super::super) fn settle_losses(&mut self) {
        let Some(node) = self.disk.as_deref().filter(|node| node.rotten.is_some()) else {
            return;
        };
        let accepted = node.rotten.accepted.clone();
        let partitions = self.shards.iter().flat_map(Shard::partitions);
        let kept: Vec<_> = partitions.filter(|(id, _)| !id.is_volatile()).collect();
        let (mut is_stopped, mut broken) = (false, None);
        for (id, partition) in kept {
            let explained = node.rotten.explains(id, partition);
            let said = is_said(id, partition, &node.rotten.told);
            if let Err(text) = explained.and(said) {
                broken.get_or_insert(format!("partition {}: {text}", id.0));
            }
            let of = accepted.get(&id);
            let is_left = |it: &LostReference| of.is_none_or(|of| !of.contains(&it.index));
            is_stopped |= partition.lost().iter().any(is_left);
        }
        if let Some(text) = broken {
            self.oracle.fail(text);
        }
        for (id, entries) in accepted {
            self.inbound(self.places.shard_of(id), Inbound::AcceptLoss(id, entries));
        }
        if is_stopped {
            self.call_operator();
        }
    }

    /// What needed a record goes on without it.
    pub(in super::super) fn loss_accepted(
        &mut self,
        id: PartitionId,
        gone: &[LostReference],
        counted: u64,
    ) {
        for lost in gone {
            if let Err(text) = self.forget_lost(id, lost) {
                self.oracle.fail(format!("partition {}: {text}", id.0));
            }
        }
        self.counts.accepted += gone.len() as u64;
        self.counts.counted += counted;
        if !gone.is_empty() {
            self.note(format_args!(
                "{} messages of partition {} are lost, and counted",
                gone.len(),
                id.0
            ));
        }
    }

    /// Its session or group is not owed the message any more.
    fn forget_lost(&mut self, id: PartitionId, lost: &LostReference) -> Result<(), String> {
        let node = self.disk.as_deref().expect("worlds with a disk only");
        let (index, byte) = (lost.index, lost.byte);
        if !node.rotten.told.contains(&(id, index, byte)) {
            return Err(format!(
                "M44: byte {byte} of entry {} is accepted as lost, and no operator was told",
                index.0
            ));
        }
        let entry = node.truth[&id].committed_at(lost.index);
        let entry = entry.ok_or("I5: what is lost was never written")?;
        let record = courser_contract::RecordRef::parse(&entry, lost.byte as usize);
        let record = record.ok_or("I5: what is lost was no message")?;
        let message = self.oracle.name(record.view().payload);
        match &lost.stream {
            LostStream::Session(client_id) => {
                let client = self.clients.iter().position(|it| *it.id() == **client_id);
                let client = client.ok_or("I5: nobody has the session that has lost something")?;
                self.oracle.accept_loss(client, message);
            }
            LostStream::Group { .. } => self.oracle.accept_loss_of_group(message),
            LostStream::Retained(_) | LostStream::Forwards(_) => {
                return Err(format!(
                    "M44: {} needs what only sessions and groups needed when it rotted",
                    lost.stream
                ));
            }
        }
        Ok(())
    }

    /// M44: every message whose loss was accepted was counted by the node, and so was nothing else.
    pub(in super::super) fn check_counted(&mut self) {
        let (counted, accepted) = (self.counts.counted, self.counts.accepted);
        if counted != accepted {
            self.oracle.fail(format!(
                "M44: {counted} of {accepted} messages that are accepted as lost are counted"
            ));
        }
        let missed = self.counts.missed;
        if missed > 0 {
            self.oracle.fail(format!(
                "M44: {missed} messages are counted as lost that nobody has accepted"
            ));
        }
    }
}

/// M44: a start says of what the operator was told that it is lost, unless nobody needs it any more.
fn is_said(
    id: PartitionId,
    partition: &Partition,
    told: &BTreeSet<RecordAt>,
) -> Result<(), String> {
    let all = ReferenceSearch::default();
    let is_told = |index, byte| told.contains(&(id, index, byte));
    let (needed, _) = partition.search_references(all, usize::MAX, is_told);
    let lost = partition.lost();
    match needed.iter().find(|it| lost.binary_search(it).is_err()) {
        None => Ok(()),
        Some(it) => Err(format!(
            "M44: byte {} of entry {} is lost, and the next start does not say so",
            it.byte, it.index.0
        )),
    }
}

impl DiskNode {
    /// What the next start would lack, and what of it is needed by then.
    fn examine(&mut self, limits: &courser_engine::Limits) -> Result<Lost, Unmade> {
        self.starts += 1;
        self.lived += 1;
        self.reads_all = true;
        let folders = (
            self.folder(&self.log_folder),
            self.folder(&self.checkpoint_folder),
        );
        let opened = open(self, folders, self.starts);
        self.reads_all = false;
        let opened = opened?;
        let mut lost = Lost::new();
        for (id, manifest) in &opened.loaded.manifests {
            let named = |text: String| format!("partition {}: {text}", id.0);
            let config = self.places.config(*id, limits);
            let mut partition = self
                .restore_found(&opened, manifest, config)
                .map_err(|unmade| unmade.named(named))?;
            let found = opened.recovered.partitions.get(id);
            let entries = found.map_or(&[][..], |found| &found.entries[..]);
            let entries = self.truth[id].applied_of(entries);
            replay(&mut partition, &entries).map_err(named)?;
            if partition.has_lost() {
                lost.insert(*id, partition.lost());
            }
        }
        Ok(lost)
    }
}
