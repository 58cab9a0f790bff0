//! What a group costs in memory and in allocations, measured.

use std::alloc::System;

use bytes::Bytes;
use courser_cluster::{
    Consensus, ConsensusEffects, Group, GroupConfig, NodeId, PeerMessage, Polled, Restored, Role,
    SnapshotDescriptor,
};
use courser_contract::{LogIndex, PartitionId, Term};
use courser_log::Record;
use courser_memory::{Counting, thread_snapshot};

#[global_allocator]
static ALLOCATOR: Counting<System> = Counting::new(System);

/// A disk that takes everything and says so when asked.
#[derive(Default)]
struct Shell {
    written: u64,
    records: u64,
    committed: u64,
}

impl ConsensusEffects for Shell {
    fn write(&mut self, number: u64, records: impl Iterator<Item = Record>) {
        self.written = number;
        self.records += records.count() as u64;
    }

    fn committed(&mut self, _: LogIndex, _: Term, _: Bytes) {
        self.committed += 1;
    }

    fn role(&mut self, role: Role) {
        assert_eq!(role, Role::Leader(Term(1)));
    }

    fn send(&mut self, _: NodeId, _: PeerMessage) {
        panic!("a group of one speaks to nobody");
    }

    fn restore(&mut self, _: SnapshotDescriptor) {
        panic!("nobody sends a group of one a checkpoint");
    }

    fn fetch(&mut self, _: LogIndex, _: LogIndex) {
        panic!("a group of one reads nothing");
    }
}

/// Polls, persists and polls, as two turns of a shard do.
fn turn(group: &mut Group, shell: &mut Shell) {
    assert_eq!(group.poll(shell), Polled::Quiet);
    group.persisted(shell.written);
    assert_eq!(group.poll(shell), Polled::Quiet);
}

fn alone(partition: u16) -> Group {
    let config = GroupConfig::alone(PartitionId(partition), NodeId(0), 7);
    Group::new(&config, Restored::nothing()).expect("a new group is a group")
}

#[test]
fn an_idle_group_is_at_most_two_kibibytes() {
    const GROUPS: usize = 100;
    let mut shell = Shell::default();
    let mut groups = Vec::with_capacity(GROUPS);
    let entry = Bytes::from(vec![1; 128]);
    let before = thread_snapshot().live_bytes_signed();
    for partition in 0..GROUPS {
        let mut group = alone(partition as u16);
        turn(&mut group, &mut shell);
        // It has been busy before it was idle.
        for _ in 0..100 {
            for _ in 0..4 {
                group.propose(entry.clone()).expect("it leads");
            }
            turn(&mut group, &mut shell);
        }
        assert!(group.is_idle());
        groups.push(group);
    }
    let heap = (thread_snapshot().live_bytes_signed() - before) as usize / GROUPS;
    let all = heap + size_of::<Group>();
    eprintln!(
        "{all} bytes an idle group: {} itself, {heap} on the heap",
        size_of::<Group>()
    );
    assert!(all <= 2_048, "{all} bytes");
}

#[test]
fn a_ready_is_at_most_eight_allocations() {
    const TURNS: u64 = 1_000;
    let mut shell = Shell::default();
    let mut group = alone(1);
    turn(&mut group, &mut shell);
    let block = Bytes::from(vec![1; 64 << 10]);
    // Bytes get their shared count with the first clone.
    let entry = block.slice(..128);
    for _ in 0..100 {
        group.propose(entry.clone()).expect("it leads");
        turn(&mut group, &mut shell);
    }
    let before = thread_snapshot();
    for _ in 0..TURNS {
        group.propose(entry.clone()).expect("it leads");
        turn(&mut group, &mut shell);
    }
    let since = thread_snapshot().since(&before);
    let allocations = since.allocated().allocations as f64;
    // One that writes the entry, one that hands it over.
    let readies = (2 * TURNS) as f64;
    eprintln!(
        "{:.2} allocations a Ready, proposing included",
        allocations / readies
    );
    assert!(allocations / readies <= 8.0, "{allocations} in {readies}");
    assert_eq!(since.live_bytes_signed(), 0, "nothing stays behind");
    assert_eq!(shell.committed, 100 + TURNS);
}
