//! Three nodes over the real storage of a group: election, replication, loss of the leader, restart, snapshot.

use bytes::Bytes;
use courser_cluster::{Consensus, NodeId, PeerBody};
use courser_contract::LogIndex;

use crate::network::{Cluster, MEMBERS};

fn entry(number: u32) -> Bytes {
    Bytes::from(format!("entry {number}"))
}

fn others(of: u16) -> impl Iterator<Item = u16> {
    (0..MEMBERS).filter(move |&id| id != of)
}

/// A leader whose log begins behind twenty entries, and a node that is down and has none of them.
fn behind_the_log(cluster: &mut Cluster) -> (u16, u16) {
    let leader = cluster.elect(100);
    let late = others(leader).next().unwrap();
    cluster.kill(late, 0);
    for number in 0..20 {
        cluster.propose(leader, entry(number));
    }
    cluster.run();
    cluster.node(leader).checkpoint();
    (leader, late)
}

#[test]
fn one_of_three_is_elected_and_the_others_follow() {
    for seed in 0..50 {
        let mut cluster = Cluster::new(seed, 1 << 20);
        let leader = cluster.elect(100);
        for id in others(leader) {
            assert_eq!(cluster.node(id).group.leader(), Some(NodeId(leader)));
        }
    }
}

#[test]
fn what_the_leader_proposes_is_applied_by_all() {
    let mut cluster = Cluster::new(1, 1 << 20);
    let leader = cluster.elect(100);
    for number in 0..100 {
        assert!(cluster.propose(leader, entry(number)));
    }
    cluster.run();
    cluster.tick(leader);
    cluster.tick(leader);
    cluster.run();
    assert!(cluster.agree());
    assert_eq!(cluster.committed().count(), 100);
    for id in others(leader) {
        assert!(
            !cluster.propose(id, entry(1_000)),
            "followers refuse instead of passing on"
        );
    }
}

#[test]
fn m9_a_leader_alone_commits_nothing() {
    let mut cluster = Cluster::new(2, 1 << 20);
    let leader = cluster.elect(100);
    let before = cluster.node(leader).group.commit();
    cluster.isolate(leader);
    assert!(cluster.propose(leader, entry(1)));
    cluster.run();
    assert_eq!(cluster.node(leader).group.commit(), before);
    assert!(cluster.committed().next().is_none());
}

#[test]
fn m9_followers_alone_commit_nothing_that_their_own_disk_does_not_have() {
    let mut cluster = Cluster::new(3, 1 << 20);
    let leader = cluster.elect(100);
    assert!(cluster.propose(leader, entry(1)));
    // Both followers get it, and only the leader's disk works.
    while cluster.persist(leader) {}
    for id in others(leader) {
        while cluster.deliver(leader, id, 0) {}
        while cluster.deliver(id, leader, 0) {}
    }
    assert!(
        cluster.committed().next().is_none(),
        "one disk is no majority"
    );
    let follower = others(leader).next().unwrap();
    while cluster.persist(follower) {}
    while cluster.deliver(follower, leader, 0) {}
    assert_eq!(cluster.committed().count(), 1);
}

#[test]
fn a_new_leader_keeps_what_was_committed() {
    let mut cluster = Cluster::new(4, 1 << 20);
    let first = cluster.elect(100);
    for number in 0..10 {
        cluster.propose(first, entry(number));
    }
    cluster.run();
    cluster.kill(first, 0);
    let second = cluster.elect(200);
    assert_ne!(first, second);
    cluster.propose(second, entry(10));
    cluster.run();
    cluster.start(first);
    for _ in 0..50 {
        cluster.run();
        (0..MEMBERS).for_each(|id| cluster.tick(id));
    }
    assert!(cluster.agree());
    assert_eq!(cluster.committed().count(), 11);
}

#[test]
fn entries_of_a_lost_leadership_are_replaced() {
    let mut cluster = Cluster::new(5, 1 << 20);
    let first = cluster.elect(100);
    cluster.isolate(first);
    for number in 0..5 {
        cluster.propose(first, entry(number));
    }
    for _ in 0..60 {
        cluster.run();
        (0..MEMBERS).for_each(|id| cluster.tick(id));
    }
    let second = cluster.elect(200);
    assert_ne!(first, second);
    cluster.propose(second, entry(100));
    cluster.run();
    cluster.mend();
    for _ in 0..50 {
        (0..MEMBERS).for_each(|id| cluster.tick(id));
        cluster.run();
    }
    assert!(cluster.agree());
    let committed: Vec<_> = cluster.committed().cloned().collect();
    assert_eq!(committed, [entry(100)], "nobody was told of the others");
    // And so they stay after a restart of the node that had them.
    cluster.kill(first, 0);
    cluster.start(first);
    for _ in 0..50 {
        (0..MEMBERS).for_each(|id| cluster.tick(id));
        cluster.run();
    }
    assert!(cluster.agree());
}

#[test]
fn a_cut_off_node_comes_back_without_an_election() {
    let mut cluster = Cluster::new(6, 1 << 20);
    let leader = cluster.elect(100);
    let lonely = others(leader).next().unwrap();
    let term = cluster.node(leader).group.term();
    cluster.isolate(lonely);
    for _ in 0..500 {
        (0..MEMBERS).for_each(|id| cluster.tick(id));
        cluster.run();
    }
    assert_eq!(
        cluster.node(lonely).group.term(),
        term,
        "it asks before it begins a term"
    );
    cluster.mend();
    for _ in 0..50 {
        (0..MEMBERS).for_each(|id| cluster.tick(id));
        cluster.run();
    }
    assert_eq!(cluster.leader(), Some(leader));
}

#[test]
fn m43_a_node_behind_the_compacted_log_gets_a_checkpoint() {
    let mut cluster = Cluster::new(7, 0);
    let (leader, late) = behind_the_log(&mut cluster);
    for number in 20..25 {
        cluster.propose(leader, entry(number));
    }
    cluster.run();
    cluster.start(late);
    for _ in 0..60 {
        (0..MEMBERS).for_each(|id| cluster.tick(id));
        cluster.run();
    }
    assert_eq!(cluster.snapshots, 1);
    assert!(cluster.agree());
    // The restored log is as good as any: it survives a restart and can be voted for.
    cluster.kill(late, 0);
    cluster.start(late);
    cluster.node(leader).group.transfer(NodeId(late));
    cluster.poll(leader);
    for _ in 0..60 {
        cluster.run();
        (0..MEMBERS).for_each(|id| cluster.tick(id));
    }
    assert!(cluster.agree());
}

#[test]
fn a_node_that_lags_reads_the_leaders_log() {
    let mut cluster = Cluster::new(8, 0);
    let leader = cluster.elect(100);
    let late = others(leader).next().unwrap();
    cluster.isolate(late);
    for number in 0..3_000 {
        cluster.propose(leader, entry(number));
        if number % 100 == 0 {
            cluster.run();
        }
    }
    cluster.run();
    cluster.mend();
    // The first read fails, and is asked for again with the next answer of the peer.
    cluster.node(leader).failing_fetches = 1;
    for _ in 0..100 {
        (0..MEMBERS).for_each(|id| cluster.tick(id));
        cluster.run();
    }
    assert!(
        cluster.fetches > 2 && cluster.snapshots == 0,
        "{} reads",
        cluster.fetches
    );
    assert!(cluster.agree());
}

#[test]
fn leadership_is_handed_over_at_once() {
    let mut cluster = Cluster::new(9, 1 << 20);
    let leader = cluster.elect(100);
    let next = others(leader).next().unwrap();
    cluster.node(leader).group.transfer(NodeId(next));
    cluster.poll(leader);
    cluster.run();
    assert_eq!(cluster.leader(), Some(next));
}

#[test]
fn groups_with_peers_do_not_sleep() {
    let mut cluster = Cluster::new(10, 1 << 20);
    let leader = cluster.elect(100);
    cluster.run();
    (0..MEMBERS).for_each(|id| assert!(!cluster.node(id).group.is_idle()));
    assert!(cluster.node(leader).group.applied() > LogIndex(0));
}

#[test]
fn a_restored_checkpoint_must_be_durable_before_an_election() {
    let mut cluster = Cluster::new(11, 0);
    let (leader, late) = behind_the_log(&mut cluster);
    cluster.start(late);
    // Until the snapshot is there, everything works but the late node's disk.
    for _ in 0..60 {
        if cluster.snapshots > 0 {
            break;
        }
        cluster.tick(leader);
        for (from, to) in [(leader, late), (late, leader)] {
            while cluster.deliver(from, to, 0) {}
        }
        if cluster.snapshots == 0 {
            while cluster.persist(late) {}
        }
        while cluster.persist(leader) {}
    }
    assert_eq!(cluster.snapshots, 1);
    for _ in 0..100 {
        cluster.tick(late);
    }
    let wants_votes = |body: &PeerBody| matches!(body, PeerBody::Vote { .. });
    assert!(!cluster.under_way(late).any(wants_votes));
    cluster.run();
    assert!(cluster.node(late).group.applied() >= LogIndex(20));
}
