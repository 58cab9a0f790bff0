//! A group of one over a log in memory, as the benchmarks of time and of instructions have it.

use bytes::Bytes;
use courser_cluster::{
    Consensus, ConsensusEffects, Group, GroupConfig, NodeId, PeerMessage, Polled, Restored, Role,
    SnapshotDescriptor,
};
use courser_contract::{LogIndex, PartitionId, Term};
use courser_log::Record;

/// Messages of an entry; what a group costs does not depend on them.
pub(crate) const MESSAGES: usize = 64;

/// What a shard does for a group, as far as it costs nothing: nothing is kept.
#[derive(Default)]
pub(crate) struct Shell {
    written: u64,
    records: usize,
    committed: u64,
}

impl ConsensusEffects for Shell {
    fn write(&mut self, number: u64, records: impl Iterator<Item = Record>) {
        self.written = number;
        self.records += records.count();
    }

    fn committed(&mut self, _: LogIndex, _: Term, _: Bytes) {
        self.committed += 1;
    }

    fn role(&mut self, _: Role) {}

    fn send(&mut self, _: NodeId, _: PeerMessage) {}

    fn restore(&mut self, _: SnapshotDescriptor) {}

    fn fetch(&mut self, _: LogIndex, _: LogIndex) {}
}

/// A group that leads, and an entry of [`MESSAGES`] messages.
pub(crate) fn leading() -> (Group, Shell, Bytes) {
    let config = GroupConfig::alone(PartitionId(1), NodeId(0), 7);
    let mut group = Group::new(&config, Restored::nothing()).expect("a new group is a group");
    let mut shell = Shell::default();
    let entry = Bytes::from(vec![7; MESSAGES * 160]).slice(1..);
    turns(&mut group, &mut shell, &entry, 10);
    (group, shell, entry)
}

/// What one turn proposes and writes, the next one hands over.
pub(crate) fn turns(group: &mut Group, shell: &mut Shell, entry: &Bytes, count: u64) {
    for _ in 0..count {
        let taken = group.propose(entry.clone());
        assert!(
            taken.is_ok() || shell.committed == 0,
            "it leads from its first turn on"
        );
        assert_eq!(group.poll(shell), Polled::Quiet);
        group.persisted(shell.written);
        assert_eq!(group.poll(shell), Polled::Quiet);
    }
}

/// Ticks while nothing is proposed.
pub(crate) fn ticks_of(group: &mut Group, shell: &mut Shell, count: u64) {
    for _ in 0..count {
        group.tick();
        assert_eq!(group.poll(shell), Polled::Quiet);
    }
}
