//! Cost of a group's turns. The normal test run does it small; in full:
//! `cargo test --release -p courser-engine group::bench -- --ignored --nocapture`.

use std::{hint::black_box, time::Instant};

use courser_contract::{
    FrontId, HomeRef, MemberConnection, OutcomeKind, PartitionId, QoS, Seq, SessionUid, ShardId,
    SharedStrategy, SubscriptionOptions, Uptake,
};

use super::{Dispatch, Group, Look, Member, Message};

const WINDOW: u16 = 64;

fn group(strategy: SharedStrategy, members: u64) -> (Group, Dispatch) {
    let mut group = Group::new("share", "a/#", strategy);
    let mut dispatch = Dispatch::new(&group, Seq(0));
    for session in 0..members {
        let home = HomeRef {
            partition: PartitionId(1),
            session: SessionUid(session),
        };
        let member = Member {
            options: SubscriptionOptions {
                qos: QoS::AtLeastOnce,
                ..SubscriptionOptions::default()
            },
            identifier: None,
            priority: 0,
        };
        group.join(home, member);
        dispatch.joined(&group, home);
        let front = FrontId {
            shard: ShardId(0),
            slot: session as u32,
            generation: 0,
        };
        let connection = MemberConnection {
            front,
            window: WINDOW,
            delivery_bytes_max: u32::MAX,
            uptake: Uptake::Prompt,
        };
        dispatch.attached(home, connection);
    }
    (group, dispatch)
}

/// Sends and acknowledges `messages`, some at a time; returns nanoseconds a message.
fn run(strategy: SharedStrategy, members: u64, messages: u64) -> f64 {
    let (mut group, mut dispatch) = group(strategy, members);
    let mut given = Vec::new();
    let mut facts = Vec::new();
    let mut done = 0;
    let mut end = 0;
    let start = Instant::now();
    while done < messages {
        end = messages.min(end + 100);
        let message = |seq: Seq| {
            Look::Here(Message {
                topic_hash: seq.0.wrapping_mul(0x9E37_79B9_7F4A_7C15),
                qos: QoS::AtLeastOnce,
            })
        };
        while let Some(assignment) = dispatch.next(&group, Seq(end), message) {
            given.push((assignment.receiver.home, assignment.seq));
        }
        for (home, seq) in given.drain(..) {
            dispatch.outcome(home, (seq, seq), OutcomeKind::Done, &mut facts);
        }
        for fact in facts.drain(..) {
            group.apply(&fact);
            done += 1;
        }
    }
    black_box(&dispatch);
    start.elapsed().as_nanos() as f64 / messages as f64
}

fn all(messages: u64, mut report: impl FnMut(String)) {
    for strategy in [
        SharedStrategy::RoundRobin,
        SharedStrategy::Sticky,
        SharedStrategy::HashTopic,
        SharedStrategy::LeastOutstanding,
    ] {
        for members in [4, 100, 1_000] {
            let nanos = run(strategy, members, messages);
            report(format!(
                "{strategy:?}, {members} members: {nanos:.0} ns a message given and done"
            ));
        }
    }
}

#[test]
fn bench_small() {
    all(1_000, |_| {});
}

#[test]
#[ignore = "takes seconds; by hand"]
fn bench_full() {
    all(1_000_000, |line| eprintln!("{line}"));
}
