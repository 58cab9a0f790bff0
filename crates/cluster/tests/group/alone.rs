//! A group of one.

use bytes::Bytes;
use courser_cluster::{
    Consensus, Group, GroupConfig, NodeId, NotLeading, Polled, RestoreError, Restored, Role,
};
use courser_contract::{LogIndex, Term};
use courser_log::{HardState, Record, RecoveredEntry};

use crate::node::{Node, PARTITION};

fn entry(text: &'static str) -> Bytes {
    Bytes::from_static(text.as_bytes())
}

fn texts(committed: &[(LogIndex, Term, Bytes)]) -> Vec<&str> {
    committed
        .iter()
        .map(|(.., data)| std::str::from_utf8(data).unwrap())
        .collect()
}

#[test]
fn leads_at_once_without_a_tick() {
    let mut node = Node::alone();
    node.poll();
    assert_eq!(node.role, Role::Follower, "its term is not yet durable");
    assert_eq!(node.group.propose(entry("early")), Err(NotLeading));
    node.persist();
    node.poll();
    assert_eq!(node.role, Role::Leader(Term(1)));
    assert!(node.group.is_idle());
}

#[test]
fn m9_nothing_is_committed_before_it_is_durable() {
    let mut node = Node::alone();
    node.run();
    for text in ["a", "b", "c"] {
        node.group.propose(entry(text)).unwrap();
        assert!(node.poll().is_empty());
    }
    assert_eq!(
        node.asked.writes.len(),
        3,
        "a poll is a batch, and none waits for the one before"
    );
    assert!(!node.group.is_idle());
    for text in ["a", "b", "c"] {
        node.persist();
        assert_eq!(texts(&node.poll()), [text]);
    }
    assert!(node.group.is_idle());
}

#[test]
fn entries_of_one_turn_are_one_batch_and_share_the_bytes() {
    let mut node = Node::alone();
    node.run();
    let block = Bytes::from(vec![7_u8; 64]);
    for place in 0..4 {
        node.group
            .propose(block.slice(place * 16..(place + 1) * 16))
            .unwrap();
    }
    node.poll();
    let write = node.asked.writes.front().unwrap();
    let data: Vec<&Bytes> = write
        .records
        .iter()
        .map(|record| match record {
            Record::Entry { data, .. } => data,
            Record::HardState { .. } => panic!("the vote did not change"),
            Record::Kept { .. } | Record::Cleaned { .. } => panic!("a group cleans nothing"),
        })
        .collect();
    assert_eq!(data.len(), 4);
    for (place, data) in data.into_iter().enumerate() {
        assert_eq!(
            data.as_ptr(),
            block[place * 16..].as_ptr(),
            "written as it was proposed"
        );
    }
    node.persist();
    for (place, (.., data)) in node.poll().into_iter().enumerate() {
        assert_eq!(
            data.as_ptr(),
            block[place * 16..].as_ptr(),
            "applied as it was proposed"
        );
    }
}

#[test]
fn one_answer_of_the_disk_stands_for_all_before_it() {
    let mut node = Node::alone();
    node.run();
    for text in ["a", "b", "c"] {
        node.group.propose(entry(text)).unwrap();
        node.poll();
    }
    let last = node.asked.writes.back().unwrap().number;
    node.group.persisted(last);
    assert_eq!(texts(&node.poll()), ["a", "b", "c"]);
    // An answer that was overtaken says nothing new.
    node.group.persisted(last - 1);
    assert!(node.poll().is_empty());
}

#[test]
#[should_panic(expected = "was never handed out")]
fn an_answer_to_nothing_is_a_bug_of_the_shell() {
    let mut node = Node::alone();
    node.run();
    node.group.persisted(1_000);
}

#[test]
fn killed_between_write_and_sync_it_goes_on_with_what_is_there() {
    for survive in 0..=3 {
        let mut node = Node::alone();
        node.run();
        for text in ["a", "b", "c"] {
            node.group.propose(entry(text)).unwrap();
            node.poll();
        }
        node.restart(survive);
        let committed = node.run();
        assert_eq!(texts(&committed), ["a", "b", "c"][..survive]);
        assert_eq!(node.role, Role::Leader(Term(2)), "a new term");
        node.group.propose(entry("d")).unwrap();
        let after = node.run();
        assert_eq!(texts(&after), ["d"]);
        // Both terms began with an entry of their own.
        assert_eq!(after[0].0, LogIndex(survive as u64 + 3));
    }
}

#[test]
fn m5_leads_only_after_everything_before_its_term() {
    let mut node = Node::alone();
    node.run();
    node.group.propose(entry("a")).unwrap();
    node.run();
    node.restart(0);
    node.poll();
    assert_eq!(node.role, Role::Follower);
    node.persist();
    assert_eq!(texts(&node.poll()), ["a"]);
    assert_eq!(node.role, Role::Leader(Term(2)));
    assert_eq!(node.asked.roles, [Role::Leader(Term(2))]);
}

#[test]
fn terms_never_come_again() {
    let mut node = Node::alone();
    for start in 1..10 {
        node.run();
        assert_eq!(node.role, Role::Leader(Term(start)));
        node.restart(0);
    }
    // A start whose vote did not reach the disk was never a term.
    node.poll();
    node.restart(0);
    node.run();
    assert_eq!(node.role, Role::Leader(Term(10)));
}

#[test]
fn a_checkpoint_takes_the_place_of_entries() {
    let mut node = Node::alone();
    node.run();
    for text in ["a", "b", "c"] {
        node.group.propose(entry(text)).unwrap();
        node.run();
    }
    node.checkpoint();
    assert_eq!(node.durable.snapshot.0, LogIndex(4));
    node.group.propose(entry("d")).unwrap();
    node.run();
    let told = node.told;
    node.restart(0);
    assert_eq!(
        texts(&node.run()),
        ["d"],
        "only what is above the checkpoint"
    );
    assert_eq!(node.told, told);
}

#[test]
fn compaction_stops_at_what_is_applied() {
    let mut node = Node::alone();
    node.run();
    node.group.propose(entry("a")).unwrap();
    node.poll();
    node.group.compact(LogIndex(1_000));
    node.group.check();
    assert_eq!(texts(&node.run()), ["a"]);
    node.group.compact(LogIndex(2));
    node.group.compact(LogIndex(1));
    node.group.check();
    assert_eq!(
        node.group.term_of(LogIndex(2)),
        Some(Term(1)),
        "of the last one the term is kept"
    );
    assert_eq!(node.group.term_of(LogIndex(1)), None);
}

#[test]
fn much_to_apply_comes_in_steps() {
    let mut node = Node::alone();
    node.run();
    let part = Bytes::from(vec![1_u8; 400 << 10]);
    for _ in 0..8 {
        node.group.propose(part.clone()).unwrap();
    }
    node.poll();
    node.persist();
    let mut before = 0;
    while node.group.poll(&mut node.asked) == Polled::More {
        let committed = node.asked.committed.len();
        assert!(committed - before <= 2, "about a mebibyte at a time");
        before = committed;
    }
    assert_eq!(node.asked.committed.len(), 8);
}

#[test]
fn ticks_change_nothing_for_an_idle_group_of_one() {
    let mut node = Node::alone();
    node.run();
    for _ in 0..1_000 {
        node.group.tick();
        assert!(node.poll().is_empty());
        assert!(node.asked.writes.is_empty() && node.asked.sent.is_empty());
        assert!(node.group.is_idle());
    }
    assert_eq!(node.role, Role::Leader(Term(1)));
}

fn restored(entries: &[(u64, u64)]) -> Restored {
    Restored {
        hard_state: HardState {
            term: Term(5),
            vote: 1,
            commit: LogIndex(0),
        },
        snapshot: (LogIndex(10), Term(3)),
        entries: entries
            .iter()
            .map(|&(index, term)| RecoveredEntry {
                index: LogIndex(index),
                term: Term(term),
                data: entry("x"),
            })
            .collect(),
    }
}

#[test]
fn a_log_that_no_group_writes_is_refused() {
    let config = GroupConfig::alone(PARTITION, NodeId(0), 1);
    let error = |restored| Group::new(&config, restored).err();
    assert_eq!(error(restored(&[(11, 3), (12, 5)])), None);
    assert_eq!(
        error(restored(&[(12, 3)])),
        Some(RestoreError::Gap {
            last: 10,
            found: 12
        })
    );
    assert_eq!(
        error(restored(&[(11, 3), (11, 3)])),
        Some(RestoreError::Gap {
            last: 11,
            found: 11
        })
    );
    let back = RestoreError::Term {
        index: 12,
        found: 3,
        current: 5,
    };
    assert_eq!(error(restored(&[(11, 4), (12, 3)])), Some(back));
    let ahead = RestoreError::Term {
        index: 11,
        found: 6,
        current: 5,
    };
    assert_eq!(error(restored(&[(11, 6)])), Some(ahead));
    let mut strange = restored(&[]);
    strange.hard_state.vote = u64::MAX;
    assert_eq!(error(strange), Some(RestoreError::Vote { vote: u64::MAX }));
    let mut young = restored(&[]);
    young.hard_state.term = Term(2);
    assert_eq!(
        error(young),
        Some(RestoreError::Term {
            index: 10,
            found: 3,
            current: 2
        })
    );
}

#[test]
fn m42_commit_at_start_is_the_larger_of_stored_and_checkpoint() {
    let config = GroupConfig::alone(PARTITION, NodeId(0), 1);
    for (stored, expected) in [(0, 10), (11, 11), (900, 12)] {
        let mut found = restored(&[(11, 3), (12, 3)]);
        found.hard_state.commit = LogIndex(stored);
        assert_eq!(
            Group::new(&config, found).unwrap().commit(),
            LogIndex(expected)
        );
    }
}
