//! Messages that no correct peer sends: refused with a reason, without a trace, and never a panic.

use bytes::Bytes;
use courser_cluster::{
    BadMessage, Consensus, NodeId, PeerBody, PeerEntry, PeerMessage, SnapshotDescriptor, VoteKind,
};
use courser_contract::{LogIndex, Term};
use courser_log::LiveEntries;

use crate::network::{Cluster, MEMBERS};

fn cluster() -> (Cluster, u16, u16) {
    let mut cluster = Cluster::new(1, 0);
    let leader = cluster.elect(100);
    for number in 0..10 {
        cluster.propose(leader, Bytes::from(vec![number]));
    }
    cluster.run();
    cluster.tick(leader);
    cluster.tick(leader);
    cluster.run();
    let follower = (0..MEMBERS).find(|&id| id != leader).unwrap();
    (cluster, leader, follower)
}

fn append(previous: (u64, u64), terms: &[u64], commit: u64) -> PeerBody {
    PeerBody::Append {
        previous: (LogIndex(previous.0), Term(previous.1)),
        entries: terms
            .iter()
            .map(|&term| PeerEntry {
                term: Term(term),
                data: Bytes::from_static(b"x"),
            })
            .collect(),
        commit: LogIndex(commit),
    }
}

fn refused(body: PeerBody, term: u64) -> Option<BadMessage> {
    let (mut cluster, leader, follower) = cluster();
    let node = cluster.node(follower);
    let before = (node.group.term(), node.group.last(), node.group.commit());
    let answer = node
        .group
        .step(
            NodeId(leader),
            PeerMessage {
                term: Term(term),
                body,
            },
        )
        .err();
    node.group.check();
    if answer.is_some() {
        assert_eq!(
            (node.group.term(), node.group.last(), node.group.commit()),
            before,
            "nothing was taken"
        );
    }
    cluster.poll(follower);
    answer
}

#[test]
fn entries_must_ascend() {
    assert_eq!(refused(append((11, 1), &[1, 1], 11), 1), None);
    assert_eq!(
        refused(append((11, 1), &[2, 1], 11), 2),
        Some(BadMessage::Entries)
    );
    assert_eq!(
        refused(append((11, 1), &[2], 11), 1),
        Some(BadMessage::Entries)
    );
    assert_eq!(
        refused(append((11, 1), &[0], 11), 1),
        Some(BadMessage::Entries)
    );
}

#[test]
fn i6_committed_entries_are_never_replaced() {
    assert_eq!(
        refused(append((4, 1), &[2, 2], 4), 2),
        Some(BadMessage::Fork)
    );
    // An old leader's contradiction is answered by the newer term, as raft has it.
    assert_eq!(refused(append((4, 1), &[1, 1], 4), 1), None);
}

#[test]
fn nothing_is_committed_that_is_not_here() {
    let heartbeat = |commit| PeerBody::Heartbeat {
        commit: LogIndex(commit),
    };
    assert_eq!(refused(heartbeat(11), 1), None);
    assert_eq!(refused(heartbeat(12), 1), Some(BadMessage::Commit));
    assert_eq!(refused(heartbeat(u64::MAX), 9), Some(BadMessage::Commit));
}

#[test]
fn numbers_out_of_range_are_refused() {
    assert_eq!(
        refused(append((u64::MAX, 1), &[1], 0), 1),
        Some(BadMessage::Range)
    );
    assert_eq!(
        refused(append((11, 1), &[], 0), u64::MAX),
        Some(BadMessage::Range)
    );
    assert_eq!(refused(PeerBody::TimeoutNow, 0), Some(BadMessage::Range));
    let snapshot = |index, term| {
        PeerBody::Snapshot(SnapshotDescriptor {
            checkpoint: 1,
            index: LogIndex(index),
            term: Term(term),
            live: LiveEntries::NONE,
        })
    };
    assert_eq!(refused(snapshot(0, 0), 1), Some(BadMessage::Range));
    assert_eq!(refused(snapshot(50, 2), 1), Some(BadMessage::Range));
    let vote = PeerBody::Vote {
        kind: VoteKind::Real,
        last: (LogIndex(u64::MAX), Term(1)),
        commit: (LogIndex(0), Term(0)),
    };
    assert_eq!(refused(vote, 2), Some(BadMessage::Range));
}

#[test]
fn strangers_are_not_heard() {
    let (mut cluster, leader, follower) = cluster();
    let message = PeerMessage {
        term: Term(9),
        body: PeerBody::TimeoutNow,
    };
    let node = cluster.node(follower);
    assert_eq!(
        node.group.step(NodeId(7), message.clone()),
        Err(BadMessage::NoMember)
    );
    assert_eq!(
        node.group.step(NodeId(follower), message),
        Err(BadMessage::NoMember)
    );
    assert_eq!(cluster.leader(), Some(leader));
}

#[test]
fn a_follower_has_no_more_than_its_leader() {
    let (mut cluster, leader, follower) = cluster();
    let claim = |last| PeerMessage {
        term: Term(1),
        body: PeerBody::Appended {
            last: LogIndex(last),
            commit: LogIndex(0),
        },
    };
    let node = cluster.node(leader);
    assert_eq!(node.group.step(NodeId(follower), claim(11)), Ok(()));
    assert_eq!(
        node.group.step(NodeId(follower), claim(12)),
        Err(BadMessage::Range)
    );
}

/// Every kind of message with numbers around those that matter, to a leader, a follower and a candidate.
#[test]
fn any_numbers_in_any_message_are_survived() {
    let numbers = [0, 1, 2, 5, 10, 11, 12, 13, 1_000, u64::MAX >> 2, u64::MAX];
    let mut answers = [0, 0];
    for at in 0..3 {
        for (place, &one) in numbers.iter().enumerate() {
            for &two in &numbers {
                let three = numbers[(place + 3) % numbers.len()];
                let answered = survive(at, &bodies(one, two, three));
                answers[0] += answered[0];
                answers[1] += answered[1];
            }
        }
    }
    assert!(answers.iter().all(|&count| count > 500), "{answers:?}");
}

/// How many of these messages a node takes, and how many it refuses: a leader, a follower, a candidate.
fn survive(at: u8, bodies: &[PeerBody]) -> [u32; 2] {
    let (mut cluster, leader, follower) = cluster();
    let (from, to) = if at == 0 {
        (follower, leader)
    } else {
        (leader, follower)
    };
    if at == 2 {
        (0..30).for_each(|_| cluster.node(to).group.tick());
    }
    let mut answers = [0, 0];
    for term in [0, 1, 2, u64::MAX >> 2, u64::MAX] {
        for body in bodies {
            let message = PeerMessage {
                term: Term(term),
                body: body.clone(),
            };
            let node = cluster.node(to);
            let answer = node.group.step(NodeId(from), message);
            node.group.check();
            answers[usize::from(answer.is_err())] += 1;
        }
    }
    answers
}

fn bodies(one: u64, two: u64, three: u64) -> Vec<PeerBody> {
    let pair = |index, term| (LogIndex(index), Term(term));
    vec![
        append((one, 1), &[1, 2], two),
        append((one, two), &[], three),
        PeerBody::Appended {
            last: LogIndex(one),
            commit: LogIndex(two),
        },
        PeerBody::AppendRejected {
            previous: LogIndex(one),
            hint: pair(two, 1),
            commit: LogIndex(three),
        },
        PeerBody::Vote {
            kind: VoteKind::Real,
            last: pair(one, 1),
            commit: pair(two, 1),
        },
        PeerBody::Vote {
            kind: VoteKind::Pre,
            last: pair(one, two),
            commit: pair(three, 1),
        },
        PeerBody::Voted {
            kind: VoteKind::Real,
            granted: true,
            commit: pair(one, two),
        },
        PeerBody::Heartbeat {
            commit: LogIndex(one),
        },
        PeerBody::HeartbeatAnswer {
            commit: LogIndex(one),
        },
    ]
}
