//! Instruction counts of a group of one: `cargo xtask instructions`.
//!
//! What a group costs does not depend on how many messages an entry carries, so a case is entries, ticks or starts;
//! `docs/performance.md` divides by messages.
#![allow(missing_docs)] // the macros make undocumented items

use bytes::Bytes;
use courser_cluster::{
    Consensus, ConsensusEffects, Group, GroupConfig, NodeId, PeerMessage, Polled, Restored, Role,
    SnapshotDescriptor,
};
use courser_contract::{LogIndex, PartitionId, Term};
use courser_log::Record;
use gungraun::prelude::*;

/// Entries or ticks of one case.
const TIMES: u64 = 100;

#[derive(Default)]
struct Shell {
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

fn leading() -> (Group, Shell, Bytes) {
    let config = GroupConfig::alone(PartitionId(1), NodeId(0), 7);
    let mut group = Group::new(&config, Restored::nothing()).expect("a new group is a group");
    let mut shell = Shell::default();
    let entry = Bytes::from(vec![7; 64 * 160]).slice(1..);
    turns(&mut group, &mut shell, &entry, 10);
    (group, shell, entry)
}

/// What one turn proposes and writes, the next one hands over.
fn turns(group: &mut Group, shell: &mut Shell, entry: &Bytes, count: u64) {
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

#[library_benchmark]
#[bench::alone(leading())]
fn entries((mut group, mut shell, entry): (Group, Shell, Bytes)) -> (Group, Shell, Bytes) {
    turns(&mut group, &mut shell, &entry, TIMES);
    // Handed back, so that freeing it is not counted.
    (group, shell, entry)
}

#[library_benchmark]
#[bench::alone(leading())]
fn ticks((mut group, mut shell, entry): (Group, Shell, Bytes)) -> (Group, Shell, Bytes) {
    for _ in 0..TIMES {
        group.tick();
        assert_eq!(group.poll(&mut shell), Polled::Quiet);
    }
    (group, shell, entry)
}

library_benchmark_group!(name = consensus, benchmarks = [entries, ticks]);
main!(library_benchmark_groups = consensus);
