//! Entries that make the program panic when they are applied (M50): what is noted of them, which partitions a start sets aside for it, and what an operator does
//! then, after the broker's `repair`.
//!
//! A program panics at one entry, whenever it comes to it, until it is mended. Of what a partition that is set aside has stored nothing may be gone when it serves
//! again; what was only in an entry that the operator skips is, and what matches filters that he releases is not stored.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use courser_contract::{Class, LogIndex, PartitionId};
use courser_engine::{AsideFilters, Partition};

use super::super::World;
use super::damage::replay;
use super::recovery::Opened;
use super::{DiskEvent, DiskNode};
use crate::bug::Bug;
use crate::shell::{Inbound, class_of_client};

/// So many panics at one entry set its partition aside.
const PANICS: u32 = 2;
/// The operator comes so late, at most.
const OPERATOR_MS: u64 = 3_000;

/// What the program, the folder and the operator say of such entries.
#[derive(Debug, Default)]
pub(super) struct Quarantine {
    /// The program panics at the next entry of this partition.
    awaited: Option<PartitionId>,
    /// It panics at this one.
    poison: Option<(PartitionId, LogIndex)>,
    /// How often it has.
    panics: u32,
    /// What the folder has of it: the file `crash`.
    noted: BTreeMap<(PartitionId, LogIndex), u32>,
    /// Entries that are not applied: the file `repair`.
    skips: BTreeSet<(PartitionId, LogIndex)>,
    /// Partitions whose filters are released, there.
    released: BTreeSet<PartitionId>,
    /// What this start has set aside, each before this entry.
    pub(super) aside: BTreeMap<PartitionId, LogIndex>,
}

/// What is done with an entry that is committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Treated {
    Applied,
    Skipped,
    Panics,
}

/// What an operator orders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verb {
    /// The program is mended: the partition tries again.
    Retry,
    /// It goes on without the entry.
    Skip,
    /// Nothing is refused for its filters.
    Release,
}

impl World {
    /// The program is one that panics at the next entry of some partition, unless it is one already.
    pub(super) fn poison(&mut self) {
        let healing = self.healing;
        let client = self.rng.below(self.clients.len() as u64) as usize;
        let client_id = self.clients[client].id();
        let id = match class_of_client(client_id) {
            Class::Durable | Class::Relaxed => self.places.session(client_id),
            Class::Volatile => PartitionId(1),
        };
        let Some(node) = self.disk.as_deref_mut().filter(|_| !healing) else {
            return;
        };
        let quarantine = &mut node.quarantine;
        if quarantine.poison.is_none() && quarantine.awaited.is_none() {
            quarantine.awaited = Some(id);
            quarantine.panics = 0;
        }
    }

    /// No more of them.
    pub(super) fn heal_program(&mut self) {
        if let Some(node) = self.disk.as_deref_mut() {
            node.quarantine.awaited = None;
        }
    }

    /// An entry is committed.
    pub(super) fn treat(&mut self, id: PartitionId, at: LogIndex, entry: &Bytes) -> Treated {
        let Some(node) = self.disk.as_deref_mut() else {
            return Treated::Applied;
        };
        let quarantine = &mut node.quarantine;
        // Those without data are of the consensus.
        if quarantine.awaited == Some(id) && !entry.is_empty() {
            quarantine.awaited = None;
            quarantine.poison = Some((id, at));
        }
        let is_next = LogIndex(at.0 - 1);
        let skips_next = self.plan.bug == Some(Bug::SkipTakesNext);
        if quarantine.skips.contains(&(id, at))
            || skips_next && quarantine.skips.contains(&(id, is_next))
        {
            Treated::Skipped
        } else if quarantine.poison == Some((id, at)) {
            Treated::Panics
        } else {
            Treated::Applied
        }
    }

    /// Applying an entry has panicked: nothing of that turn has left, and the process ends (M50).
    pub(in super::super) fn panicked(&mut self, id: PartitionId, at: LogIndex) {
        self.note(format_args!(
            "the program panics at entry {} of partition {}",
            at.0, id.0
        ));
        let (unnoted, running) = (self.plan.bug == Some(Bug::PanicUnnoted), self.running);
        let Some(node) = self.disk.as_deref_mut().filter(|_| running) else {
            return;
        };
        let quarantine = &mut node.quarantine;
        quarantine.panics += 1;
        if !unnoted {
            *quarantine.noted.entry((id, at)).or_default() += 1;
        }
        let panics = quarantine.panics;
        if panics > PANICS {
            self.oracle.fail(format!(
                "M50: the program has panicked {panics} times at entry {} of partition {}",
                at.0, id.0
            ));
        }
        self.die();
    }

    /// At a start: partitions with an entry at which the program has panicked too often keep what is before it.
    pub(super) fn judge_panics(&mut self, opened: &mut Opened) {
        let Some(node) = self.disk.as_deref_mut() else {
            return;
        };
        let Quarantine {
            noted,
            skips,
            aside,
            ..
        } = &mut node.quarantine;
        aside.clear();
        for (&(id, at), &panics) in &*noted {
            let Some(found) = opened.recovered.partitions.get_mut(&id) else {
                continue;
            };
            let is_there = found.entries.iter().any(|entry| entry.index == at);
            if panics < PANICS || skips.contains(&(id, at)) || !is_there {
                continue;
            }
            found.entries.retain(|entry| entry.index < at);
            aside.entry(id).or_insert(at);
        }
    }

    /// Partitions that are set aside have the state of the entry before (M39).
    pub(super) fn replay_aside(
        &self,
        opened: &Opened,
        partitions: &mut BTreeMap<PartitionId, Partition>,
    ) -> Result<(), String> {
        let Some(node) = self.disk.as_deref() else {
            return Ok(());
        };
        for (id, at) in node.set_aside() {
            let named = |text: String| format!("partition {}: {text}", id.0);
            let config = self.places.config(id, &self.plan.limits);
            let mut partition = partitions
                .remove(&id)
                .unwrap_or_else(|| Partition::new(config.clone()));
            let found = opened.recovered.partitions.get(&id);
            let entries = found.map_or(&[][..], |found| &found.entries[..]);
            let entries = node.truth[&id].applied_of(entries);
            replay(&mut partition, &entries).map_err(named)?;
            let before = node.truth[&id].committed_to(LogIndex(at.0 - 1));
            let again = Partition::replay(config, before);
            if again.encode_state() != partition.encode_state() {
                let text = format!("M39: what is left before entry {} is not its state", at.0);
                return Err(named(text));
            }
            partitions.insert(id, partition);
        }
        Ok(())
    }

    /// Those that a start has set aside say so, and somebody is called.
    pub(super) fn begin_aside(&mut self) {
        let running = self.running;
        let Some(node) = self.disk.as_deref().filter(|_| running) else {
            return;
        };
        for (id, _) in node.set_aside() {
            let filters = self.aside_filters(id);
            self.counts.set_aside += 1;
            self.note(format_args!("partition {} is set aside: {filters:?}", id.0));
            self.oracle.disk_short(true, self.now);
            if filters == AsideFilters::Released {
                self.oracle.released(true, self.now);
                self.doubt_sessions(Some(id));
            }
            self.inbound(self.places.shard_of(id), Inbound::Aside(id, filters));
            let ms = self.rng.between(100, OPERATOR_MS);
            self.disk_later(ms, DiskEvent::Operate);
        }
    }

    fn aside_filters(&self, id: PartitionId) -> AsideFilters {
        let quarantine = self.disk.as_deref().map(|node| &node.quarantine);
        match quarantine.is_some_and(|it| it.released.contains(&id)) {
            true => AsideFilters::Released,
            false => AsideFilters::Known,
        }
    }

    /// What sessions of a partition, or of all, have is not known any more.
    fn doubt_sessions(&mut self, of: Option<PartitionId>) {
        let now = self.now;
        for client in &mut self.clients {
            let home = self.places.session(client.id());
            if !home.is_volatile() && of.is_none_or(|of| of == home) {
                client.loses_since(now, &mut self.oracle);
            }
        }
    }

    /// The operator stops the node, orders something and starts it again.
    pub(super) fn operate(&mut self) {
        let verb = *self
            .rng
            .pick(&[Verb::Retry, Verb::Retry, Verb::Skip, Verb::Release]);
        let Some(node) = self.disk.as_deref_mut() else {
            return;
        };
        let Quarantine {
            poison,
            noted,
            skips,
            released,
            aside,
            ..
        } = &mut node.quarantine;
        let Some((&id, &at)) = aside.first_key_value() else {
            return;
        };
        let verb = match verb {
            Verb::Release if released.contains(&id) => Verb::Retry,
            verb => verb,
        };
        match verb {
            Verb::Retry => {
                *poison = None;
                noted.retain(|(of, _), _| *of != id);
                released.remove(&id);
            }
            Verb::Skip => {
                *poison = None;
                skips.insert((id, at));
                released.remove(&id);
                node.truth
                    .get_mut(&id)
                    .expect("every partition has one")
                    .skip(at);
            }
            Verb::Release => {
                released.insert(id);
            }
        }
        self.counts.operated += 1;
        self.note(format_args!("the operator: {verb:?} of partition {}", id.0));
        if verb == Verb::Skip {
            self.doubt_sessions(None);
        }
        self.die();
    }
}

impl DiskNode {
    /// What this start has set aside, each before an entry.
    fn set_aside(&self) -> Vec<(PartitionId, LogIndex)> {
        let aside = self.quarantine.aside.iter();
        let serves = self.bug == Some(Bug::ServesBeforePanic);
        aside
            .filter(|_| !serves)
            .map(|(&id, &at)| (id, at))
            .collect()
    }

    /// Partitions that serve.
    pub(super) fn serving(&self) -> Vec<PartitionId> {
        let aside = self.set_aside();
        let all = self.places.logged();
        all.filter(|id| aside.iter().all(|(it, _)| it != id))
            .collect()
    }
}
