//! One member: its group, its disk, and what is on its way there.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use courser_cluster::{
    Consensus, ConsensusEffects, Group, GroupConfig, NodeId, PeerMessage, PlantedConsensus, Polled,
    Restored, Role, SnapshotDescriptor,
};
use courser_contract::{LogIndex, PartitionId, Term};
use courser_log::{HardState, Record, RecoveredEntry};

const PARTITION: PartitionId = PartitionId(1);
/// Bytes of entries that a group keeps for its peers: all of a run.
const CACHE_BYTES: usize = 16 << 20;

/// What is synced, by the rules of records: an entry takes the place of all from its index on.
#[derive(Debug)]
pub(super) struct Disk {
    hard_state: HardState,
    entries: BTreeMap<LogIndex, (Term, Bytes)>,
}

impl Disk {
    /// Whether it has an entry for sure.
    pub(super) fn holds(&self, index: LogIndex, term: Term) -> bool {
        let found = self.entries.get(&index);
        found.is_some_and(|(found, _)| *found == term)
    }

    fn write(&mut self, record: Record) {
        match record {
            Record::Entry {
                term, index, data, ..
            } => {
                self.entries.split_off(&index);
                self.entries.insert(index, (term, data));
            }
            Record::HardState {
                term, vote, commit, ..
            } => self.hard_state = HardState { term, vote, commit },
            Record::Kept { .. } | Record::Cleaned { .. } => {
                unreachable!("a group moves no records")
            }
        }
    }

    fn restored(&self) -> Restored {
        let entries = self.entries.iter().map(|(&index, (term, data))| {
            let (term, data) = (*term, data.clone());
            RecoveredEntry { index, term, data }
        });
        Restored {
            hard_state: self.hard_state,
            entries: entries.collect(),
            ..Restored::nothing()
        }
    }
}

/// What a group asked for in one poll, but for its records.
#[derive(Debug, Default)]
pub(super) struct Asked {
    pub(super) committed: Vec<(LogIndex, Term, Bytes)>,
    pub(super) roles: Vec<Role>,
    pub(super) sent: Vec<(NodeId, PeerMessage)>,
}

struct Fx<'a> {
    asked: Asked,
    writes: &'a mut VecDeque<(u64, Vec<Record>)>,
}

impl ConsensusEffects for Fx<'_> {
    fn write(&mut self, number: u64, records: impl Iterator<Item = Record>) {
        self.writes.push_back((number, records.collect()));
    }

    fn committed(&mut self, index: LogIndex, term: Term, entry: Bytes) {
        self.asked.committed.push((index, term, entry));
    }

    fn opened(&mut self, index: LogIndex, term: Term) {
        self.asked.committed.push((index, term, Bytes::new()));
    }

    fn role(&mut self, role: Role) {
        self.asked.roles.push(role);
    }

    fn send(&mut self, to: NodeId, message: PeerMessage) {
        self.asked.sent.push((to, message));
    }

    fn restore(&mut self, _: SnapshotDescriptor) {
        unreachable!("nobody has a checkpoint to send");
    }

    fn fetch(&mut self, _: LogIndex, _: LogIndex) {
        unreachable!("all entries of a run are in memory");
    }
}

/// See the module.
pub(super) struct Member {
    config: GroupConfig,
    planted: Option<PlantedConsensus>,
    group: Option<Group>,
    pub(super) disk: Disk,
    writes: VecDeque<(u64, Vec<Record>)>,
    pub(super) role: Role,
    /// The last entry that was handed over since it started.
    pub(super) handed: LogIndex,
}

impl Member {
    pub(super) fn new(
        id: usize,
        members: usize,
        seed: u64,
        planted: Option<PlantedConsensus>,
    ) -> Self {
        let peers = (0..members).filter(|&peer| peer != id);
        let config = GroupConfig {
            partition: PARTITION,
            node: NodeId(id as u16),
            peers: peers.map(|peer| NodeId(peer as u16)).collect(),
            seed,
            cache_bytes: CACHE_BYTES,
        };
        let mut member = Self {
            config,
            planted,
            group: None,
            disk: Disk {
                hard_state: HardState::NONE,
                entries: BTreeMap::new(),
            },
            writes: VecDeque::new(),
            role: Role::Follower,
            handed: LogIndex(0),
        };
        member.start().expect("an empty disk can be restored");
        member
    }

    pub(super) const fn is_up(&self) -> bool {
        self.group.is_some()
    }

    pub(super) const fn group_mut(&mut self) -> Option<&mut Group> {
        self.group.as_mut()
    }

    pub(super) fn term(&self) -> Option<u64> {
        self.group.as_ref().map(|group| group.term().0)
    }

    pub(super) fn start(&mut self) -> Result<(), String> {
        let mut group = Group::new(&self.config, self.disk.restored()).map_err(|error| {
            format!(
                "I6: member {} cannot be restored: {error}",
                self.config.node.0
            )
        })?;
        if let Some(planted) = self.planted {
            group.plant(planted);
        }
        self.group = Some(group);
        Ok(())
    }

    /// Of what was being written, the first part is there.
    pub(super) fn lose_power(&mut self, mut below: impl FnMut(u64) -> u64) {
        let written = std::mem::take(&mut self.writes).into_iter();
        let records: Vec<Record> = written.flat_map(|(_, records)| records).collect();
        let survive = below(records.len() as u64 + 1) as usize;
        for record in records.into_iter().take(survive) {
            self.disk.write(record);
        }
        self.group = None;
        self.role = Role::Follower;
        self.handed = LogIndex(0);
    }

    /// The oldest batch is synced, and the group hears so.
    pub(super) fn sync(&mut self) -> bool {
        let Some(group) = &mut self.group else {
            return false;
        };
        let Some((number, records)) = self.writes.pop_front() else {
            return false;
        };
        for record in records {
            self.disk.write(record);
        }
        group.persisted(number);
        true
    }

    pub(super) fn poll(&mut self) -> Asked {
        let mut fx = Fx {
            asked: Asked::default(),
            writes: &mut self.writes,
        };
        if let Some(group) = &mut self.group {
            while group.poll(&mut fx) == Polled::More {}
            group.check();
        }
        let asked = fx.asked;
        if let Some((index, _, _)) = asked.committed.last() {
            self.handed = *index;
        }
        asked
    }
}
