//! A node: one group, its disk, and the state that its entries make.

use std::collections::VecDeque;

use bytes::Bytes;
use courser_cluster::{
    Consensus, ConsensusEffects, Group, GroupConfig, NodeId, PeerMessage, Polled, Role,
    SnapshotDescriptor,
};
use courser_contract::{LogIndex, PartitionId, Term};
use courser_log::Record;

use crate::durable::Durable;
use crate::real_log::RealLog;

/// A batch on its way to the disk.
#[derive(Debug)]
pub(crate) struct Write {
    pub(crate) number: u64,
    pub(crate) records: Vec<Record>,
    /// The checkpoint that takes the place of the log with this batch.
    pub(crate) replaces: Option<(LogIndex, Term)>,
}

/// What `poll` asked for.
#[derive(Debug, Default)]
pub(crate) struct Asked {
    pub(crate) writes: VecDeque<Write>,
    pub(crate) committed: Vec<(LogIndex, Term, Bytes)>,
    pub(crate) roles: Vec<Role>,
    pub(crate) sent: Vec<(NodeId, PeerMessage)>,
    pub(crate) fetches: VecDeque<(LogIndex, LogIndex)>,
    restoring: Option<SnapshotDescriptor>,
}

impl ConsensusEffects for Asked {
    fn write(&mut self, number: u64, records: impl Iterator<Item = Record>) {
        let replaces = self
            .restoring
            .as_ref()
            .map(|snapshot| (snapshot.index, snapshot.term));
        let records: Vec<Record> = records.collect();
        assert!(
            !records.is_empty(),
            "a number without records is never asked for"
        );
        self.writes.push_back(Write {
            number,
            records,
            replaces,
        });
    }

    fn committed(&mut self, index: LogIndex, term: Term, entry: Bytes) {
        assert!(!entry.is_empty(), "empty entries stay with the consensus");
        self.committed.push((index, term, entry));
    }

    fn role(&mut self, role: Role) {
        self.roles.push(role);
    }

    fn send(&mut self, to: NodeId, message: PeerMessage) {
        self.sent.push((to, message));
    }

    fn restore(&mut self, snapshot: SnapshotDescriptor) {
        self.restoring = Some(snapshot);
    }

    fn fetch(&mut self, first: LogIndex, last: LogIndex) {
        assert!(first <= last, "something is asked for");
        self.fetches.push_back((first, last));
    }
}

/// The state machine of the tests: all that it was told, as one number and the last index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Told {
    pub(crate) last: u64,
    pub(crate) digest: u64,
}

impl Told {
    /// As a checkpoint has it.
    pub(crate) fn to_bytes(self) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.last.to_le_bytes());
        bytes[8..].copy_from_slice(&self.digest.to_le_bytes());
        bytes
    }

    fn apply(&mut self, index: LogIndex, entry: &[u8]) {
        assert!(index.0 > self.last, "entries come in order");
        self.last = index.0;
        for byte in entry {
            self.digest = (self.digest ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01B3);
        }
        self.digest ^= index.0.rotate_left(32);
    }
}

/// A checkpoint as a node keeps it.
#[derive(Clone, Debug)]
pub(crate) struct Checkpoint {
    pub(crate) descriptor: SnapshotDescriptor,
    pub(crate) told: Told,
}

/// See the module.
pub(crate) struct Node {
    config: GroupConfig,
    pub(crate) group: Group,
    pub(crate) asked: Asked,
    pub(crate) durable: Durable,
    pub(crate) told: Told,
    /// Checkpoints on this node's disk: of its own, and fetched for a snapshot.
    pub(crate) checkpoints: Vec<Checkpoint>,
    pub(crate) role: Role,
    /// So many reads out of the log fail.
    pub(crate) failing_fetches: u64,
    /// The same on a real log, where a test wants it.
    pub(crate) log: Option<RealLog>,
}

pub(crate) const PARTITION: PartitionId = PartitionId(3);

impl Node {
    pub(crate) fn alone() -> Self {
        Self::new(
            GroupConfig::alone(PARTITION, NodeId(0), 1),
            Durable::default(),
            Vec::new(),
        )
    }

    pub(crate) fn member(node: u16, of: u16, seed: u64, cache_bytes: usize) -> Self {
        let config = GroupConfig {
            partition: PARTITION,
            node: NodeId(node),
            peers: (0..of).filter(|&peer| peer != node).map(NodeId).collect(),
            seed,
            cache_bytes,
        };
        Self::new(config, Durable::default(), Vec::new())
    }

    fn new(config: GroupConfig, durable: Durable, checkpoints: Vec<Checkpoint>) -> Self {
        let mut group =
            Group::new(&config, durable.restored()).expect("what was written can be restored");
        let found = checkpoints
            .iter()
            .find(|it| it.descriptor.index == durable.snapshot.0);
        if let Some(checkpoint) = found {
            group.offer_snapshot(checkpoint.descriptor.clone());
        }
        let told = found.map(|it| it.told);
        assert!(
            told.is_some() || durable.snapshot.0 == LogIndex(0),
            "the checkpoint is there"
        );
        Self {
            config,
            group,
            asked: Asked::default(),
            durable,
            told: told.unwrap_or_default(),
            checkpoints,
            role: Role::Follower,
            failing_fetches: 0,
            log: None,
        }
    }

    /// Polls until nothing is left, applies, and returns the committed entries.
    pub(crate) fn poll(&mut self) -> Vec<(LogIndex, Term, Bytes)> {
        loop {
            let polled = self.group.poll(&mut self.asked);
            self.group.check();
            if let Some(snapshot) = self.asked.restoring.take() {
                let found = self.checkpoints.iter().find(|it| it.descriptor == snapshot);
                self.told = found
                    .expect("a snapshot is stepped in once it is here")
                    .told;
            }
            if polled == Polled::Quiet {
                break;
            }
        }
        if let Some(role) = self.asked.roles.last() {
            self.role = *role;
        }
        let committed = std::mem::take(&mut self.asked.committed);
        for (index, _, entry) in &committed {
            self.told.apply(*index, entry);
        }
        committed
    }

    /// The oldest batch is durable.
    pub(crate) fn persist(&mut self) -> bool {
        let Some(write) = self.asked.writes.pop_front() else {
            return false;
        };
        let number = write.number;
        self.make_durable(write);
        self.group.persisted(number);
        true
    }

    fn make_durable(&mut self, write: Write) {
        if let Some((index, term)) = write.replaces {
            let told = self.told_at(index);
            if let (Some(log), Some(told)) = (&mut self.log, told) {
                log.replace((index, term), &told);
            }
            self.durable.replace(index, term);
        }
        if let Some(log) = &mut self.log {
            log.write(&write.records);
        }
        for record in write.records {
            self.durable.apply(record);
        }
    }

    /// What it was told up to a checkpoint that it has.
    fn told_at(&self, index: LogIndex) -> Option<Told> {
        let mut checkpoints = self.checkpoints.iter();
        let found = checkpoints.find(|it| it.descriptor.index == index)?;
        Some(found.told)
    }

    /// Persists and polls until nothing is under way.
    pub(crate) fn run(&mut self) -> Vec<(LogIndex, Term, Bytes)> {
        let mut committed = self.poll();
        while self.persist() {
            committed.extend(self.poll());
        }
        committed
    }

    /// The process dies; of what was on its way to the disk, the first `survive` batches are there.
    pub(crate) fn restart(&mut self, survive: usize) {
        for _ in 0..survive {
            let write = self
                .asked
                .writes
                .pop_front()
                .expect("a batch can survive that was written");
            self.make_durable(write);
        }
        let seed = self.durable.entries.len() as u64;
        let told = self.told_at(self.durable.snapshot.0);
        let log = self.log.take();
        let log = log.map(|log| log.restart(seed, &self.durable, told.as_ref()));
        let fresh = Self::new(
            self.config.clone(),
            self.durable.clone(),
            std::mem::take(&mut self.checkpoints),
        );
        *self = Self { log, ..fresh };
    }

    /// Makes a checkpoint of what is applied, and forgets the log below it.
    pub(crate) fn checkpoint(&mut self) {
        let index = self.group.applied();
        let Some(term) = self
            .group
            .term_of(index)
            .filter(|_| index > self.durable.snapshot.0)
        else {
            return;
        };
        if !self.durable.holds(index, term) {
            return;
        }
        let descriptor = SnapshotDescriptor {
            checkpoint: index.0,
            index,
            term,
            live: [LogIndex(1)].into_iter().collect(),
        };
        self.checkpoints.push(Checkpoint {
            descriptor: descriptor.clone(),
            told: self.told,
        });
        if let Some(log) = &mut self.log {
            log.checkpoint((index, term), &self.told);
        }
        self.durable.checkpoint(index, term);
        self.group.offer_snapshot(descriptor);
        self.group.compact(index);
        self.group.check();
    }

    /// Answers a read out of the log.
    pub(crate) fn fetch(&mut self) -> bool {
        let Some((first, last)) = self.asked.fetches.pop_front() else {
            return false;
        };
        assert!(last.0 - first.0 < 1_024, "a read is bounded");
        let found = self.durable.entries.range(first..=last);
        let mut entries = Vec::new();
        for (index, (term, data)) in found {
            if index.0 != first.0 + entries.len() as u64 {
                break;
            }
            entries.push((*term, data.clone()));
        }
        if self.failing_fetches > 0 {
            self.failing_fetches -= 1;
            entries.clear();
        }
        self.group.fetched(first, entries);
        true
    }
}
