use std::collections::{BTreeMap, BTreeSet};

use courser_contract::{
    FrontId, GroupRoom, HomeRef, MemberConnection, OutcomeKind, PartitionId, QoS, Seq, SessionUid,
    ShardId, SharedStrategy, SubscriptionOptions, Uptake,
};

use super::*;
use crate::canonical::{DecodeError, read_whole};

mod choice;
mod kept;
mod properties;

fn home(session: u64) -> HomeRef {
    HomeRef {
        partition: PartitionId(3),
        session: SessionUid(session),
    }
}

fn front(session: u64) -> FrontId {
    FrontId {
        shard: ShardId(0),
        slot: session as u32,
        generation: 1,
    }
}

fn member(qos: QoS, priority: i32) -> Member {
    let options = SubscriptionOptions {
        qos,
        ..SubscriptionOptions::default()
    };
    Member {
        options,
        identifier: None,
        priority,
    }
}

/// A group with its leader's memory, and the stream's part that the tests need: QoS of each message, and what is done.
struct Bench {
    group: Group,
    dispatch: Dispatch,
    stream: Vec<QoS>,
    done: Vec<Seq>,
    facts: Vec<Fact>,
}

impl Bench {
    fn new(strategy: SharedStrategy) -> Self {
        let group = Group::new("share", "a/+", strategy);
        Self {
            dispatch: Dispatch::new(&group, Seq(0)),
            group,
            stream: Vec::new(),
            done: Vec::new(),
            facts: Vec::new(),
        }
    }

    /// Members 0.. with QoS 2 granted and this window.
    fn with_members(strategy: SharedStrategy, members: u64, window: u32) -> Self {
        let mut bench = Self::new(strategy);
        for session in 0..members {
            bench.join(session, member(QoS::ExactlyOnce, 0));
            bench.attach(session, window);
        }
        bench
    }

    fn join(&mut self, session: u64, asked: Member) {
        self.group.join(home(session), asked);
        self.dispatch.joined(&self.group, home(session));
    }

    fn attach(&mut self, session: u64, window: u32) {
        self.attach_with(session, window, u32::MAX);
    }

    fn attach_with(&mut self, session: u64, window: u32, delivery_bytes_max: u32) {
        let connection = MemberConnection {
            front: front(session),
            window: window.try_into().unwrap_or(u16::MAX),
            delivery_bytes_max,
            uptake: Uptake::Prompt,
        };
        self.dispatch.attached(home(session), connection);
    }

    fn room(&mut self, session: u64, room: GroupRoom) {
        self.dispatch.has_places(home(session), room);
        self.check();
    }

    fn picks(&mut self, bytes: usize) -> Option<u64> {
        let receiver = self.dispatch.pick_unstored(0, bytes);
        self.check();
        receiver.map(|receiver| receiver.home.session.0)
    }

    fn detach(&mut self, session: u64) {
        self.dispatch
            .detached(&self.group, home(session), &mut self.facts);
    }

    fn leave(&mut self, session: u64, why: Leave) {
        let done = self.group.leave(home(session), why);
        done.iter()
            .for_each(|&seq| self.group.apply(&Fact::Done { seq }));
        self.done.extend(done);
        self.dispatch
            .left(&self.group, home(session), why, &mut self.facts);
    }

    fn push(&mut self, count: usize, qos: QoS) {
        self.stream.extend(std::iter::repeat_n(qos, count));
    }

    /// Everything that can go out now, as (message, member, delivery); assignments of QoS 2 commit at once.
    fn send(&mut self) -> Vec<(u64, u64, u32)> {
        let mut given = Vec::new();
        while let Some(assignment) = self.next() {
            let to = assignment.receiver.home;
            assert_eq!(assignment.receiver.front, front(to.session.0));
            given.push((assignment.seq.0, to.session.0, assignment.attempt));
        }
        self.check();
        given
    }

    fn next(&mut self) -> Option<Assignment> {
        let end = Seq(self.stream.len() as u64);
        let (stream, done) = (&self.stream, &self.done);
        let assignment = self.dispatch.next(&self.group, end, |seq| {
            if done.contains(&seq) {
                return Look::Gone;
            }
            Look::Here(Message {
                // Three topics.
                topic_hash: seq.0 % 3,
                qos: stream[seq.0 as usize],
            })
        })?;
        let seq = assignment.seq;
        match assignment.qos {
            QoS::AtMostOnce | QoS::AtLeastOnce => {}
            QoS::ExactlyOnce => {
                let to = assignment.receiver.home;
                self.dispatch.named(to, seq, 32_768, &mut self.facts);
            }
        }
        Some(assignment)
    }

    /// Members that get what can go out now, in order of messages.
    fn receivers(&mut self) -> Vec<u64> {
        self.send()
            .into_iter()
            .map(|(_, session, _)| session)
            .collect()
    }

    fn outcome(&mut self, session: u64, seqs: std::ops::RangeInclusive<u64>, kind: OutcomeKind) {
        let range = (Seq(*seqs.start()), Seq(*seqs.end()));
        self.dispatch
            .outcome(home(session), range, kind, &mut self.facts);
        self.check();
    }

    /// All facts so far commit.
    fn commit(&mut self) -> Vec<Fact> {
        let facts = std::mem::take(&mut self.facts);
        for fact in &facts {
            self.group.apply(fact);
            match *fact {
                Fact::Done { seq } => self.done.push(seq),
                Fact::Attempts { seq, .. } => self.dispatch.counted(&self.group, seq),
                Fact::Assigned { .. } | Fact::Unassigned { .. } | Fact::Received { .. } => {}
            }
        }
        self.check();
        facts
    }

    /// The leader is lost with all that it knew and all that had not committed.
    fn new_leader(&mut self) {
        self.facts.clear();
        let floor = (0..).map(Seq).find(|seq| !self.done.contains(seq));
        self.dispatch = Dispatch::new(&self.group, floor.expect("a stream ends"));
        self.check();
    }

    fn check(&self) {
        self.group.check();
        self.dispatch.check(&self.group);
    }
}

/// Else its member could be asked for it once more before it hears that it is void.
#[test]
fn m31_what_could_not_be_sent_waits_until_that_is_committed() {
    let mut bench = Bench::with_members(SharedStrategy::RoundRobin, 1, 2);
    bench.push(2, QoS::ExactlyOnce);
    assert_eq!(bench.receivers(), [0, 0]);
    bench.commit();
    bench.dispatch.not_sent(Seq(0), &mut bench.facts);
    bench.check();
    assert_eq!(bench.facts, [Fact::Unassigned { seq: Seq(0) }]);
    let news = bench.dispatch.take_news();
    assert_eq!(news.unsent, [(home(0), Seq(0))]);
    assert_eq!(bench.receivers(), [0; 0], "its packet id is not free");
    bench.commit();
    bench.dispatch.give_again(Seq(0));
    bench.check();
    assert_eq!(bench.send(), [(0, 0, 1)]);
    bench.dispatch.not_sent(Seq(7), &mut bench.facts);
    assert!(!bench.dispatch.has_news(), "nobody has that");
}

/// The member's front has named a packet id for it, which is free when the end is committed.
#[test]
fn m31_what_is_given_up_before_it_is_committed_whose_it_is_is_void() {
    let mut bench = Bench::with_members(SharedStrategy::RoundRobin, 1, 2);
    bench.push(1, QoS::ExactlyOnce);
    assert_eq!(bench.receivers(), [0]);
    assert_eq!(bench.dispatch.give_up(Seq(0)), None);
    let news = bench.dispatch.take_news();
    assert_eq!(news.unsent, [(home(0), Seq(0))]);
    assert!(news.finished.is_empty());
    assert_eq!(bench.dispatch.under_way(), 0);
}

#[test]
fn a_delivery_keeps_to_the_granted_qos() {
    // v5 [MQTT-4.8.2-3]
    for (message, granted, expected) in [
        (QoS::AtLeastOnce, QoS::ExactlyOnce, QoS::AtLeastOnce),
        (QoS::ExactlyOnce, QoS::AtLeastOnce, QoS::AtLeastOnce),
        (QoS::ExactlyOnce, QoS::ExactlyOnce, QoS::ExactlyOnce),
        (QoS::ExactlyOnce, QoS::AtMostOnce, QoS::AtMostOnce),
    ] {
        let mut bench = Bench::new(SharedStrategy::RoundRobin);
        bench.join(0, member(granted, 0));
        bench.attach(0, 1);
        bench.push(1, message);
        assert_eq!(bench.next().map(|given| given.qos), Some(expected));
        assert_eq!(bench.dispatch.under_way(), 1, "QoS 0 until it has left");
    }
}

#[test]
fn m35_on_detach_qos_1_goes_to_others_first_and_in_order() {
    let mut bench = Bench::with_members(SharedStrategy::RoundRobin, 2, 3);
    bench.push(8, QoS::AtLeastOnce);
    assert_eq!(bench.receivers(), [0, 1, 0, 1, 0, 1]);
    bench.outcome(0, 2..=2, OutcomeKind::Done);
    bench.commit();
    bench.detach(0);
    assert_eq!(
        bench.commit(),
        [0, 4].map(|seq| Fact::Attempts {
            seq: Seq(seq),
            attempts: 1
        })
    );
    bench.outcome(1, 0..=9, OutcomeKind::Done);
    assert_eq!(
        bench.send(),
        [(0, 1, 2), (4, 1, 2), (6, 1, 1)],
        "before the newer ones"
    );
}

#[test]
fn qos_2_stays_with_its_session_until_it_comes_back() {
    // v5 [MQTT-4.8.2-4]
    let mut bench = Bench::with_members(SharedStrategy::RoundRobin, 2, 4);
    bench.push(4, QoS::ExactlyOnce);
    assert_eq!(bench.receivers(), [0, 1, 0, 1]);
    bench.outcome(0, 0..=0, OutcomeKind::Received);
    bench.commit();
    bench.detach(0);
    assert_eq!(bench.send(), [], "the other member does not get it");
    let owed: Vec<_> = bench
        .group
        .owed_to(home(0))
        .map(|(seq, owed)| (seq, owed.stage))
        .collect();
    assert_eq!(owed, [(Seq(0), Stage::Received), (Seq(2), Stage::Assigned)]);
    bench.attach(0, 4);
    bench.outcome(0, 0..=2, OutcomeKind::Done);
    assert_eq!(
        bench.commit(),
        [0, 2].map(|seq| Fact::Done { seq: Seq(seq) })
    );
    assert_eq!(bench.group.owed_to(home(0)).count(), 0);
}

#[test]
fn qos_2_of_a_session_that_ends_goes_to_nobody() {
    // v5 [MQTT-4.8.2-5]
    let mut bench = Bench::with_members(SharedStrategy::RoundRobin, 2, 4);
    bench.push(2, QoS::ExactlyOnce);
    bench.push(2, QoS::AtLeastOnce);
    assert_eq!(bench.receivers(), [0, 1, 0, 1]);
    bench.commit();
    bench.detach(0);
    bench.leave(0, Leave::SessionEnded);
    assert_eq!(bench.done, [Seq(0)]);
    bench.commit();
    assert_eq!(bench.send(), [(2, 1, 2)], "only QoS 1 goes on");
}

#[test]
fn a_refusal_by_a_member_ends_the_message() {
    // v5 [MQTT-4.8.2-6]
    for qos in [QoS::AtLeastOnce, QoS::ExactlyOnce] {
        for kind in [OutcomeKind::Rejected, OutcomeKind::Skipped] {
            let mut bench = Bench::with_members(SharedStrategy::RoundRobin, 2, 4);
            bench.push(1, qos);
            assert_eq!(bench.receivers(), [0]);
            bench.outcome(0, 0..=0, kind);
            assert_eq!(bench.commit().last(), Some(&Fact::Done { seq: Seq(0) }));
            bench.detach(0);
            assert_eq!(bench.send(), [], "nobody else is tried");
            assert!(bench.group.owed(Seq(0)).is_none());
        }
    }
}

#[test]
fn m35_what_is_too_large_for_one_member_goes_to_another() {
    for qos in [QoS::AtMostOnce, QoS::AtLeastOnce, QoS::ExactlyOnce] {
        let mut bench = Bench::with_members(SharedStrategy::RoundRobin, 3, 1);
        bench.push(2, qos);
        assert_eq!(bench.receivers(), [0, 1]);
        bench.commit();
        bench.outcome(0, 0..=0, OutcomeKind::TooLarge);
        assert_eq!(bench.send(), [(0, 2, 1)], "no attempt is counted");
        bench.commit();
        bench.outcome(2, 0..=0, OutcomeKind::TooLarge);
        assert_eq!(bench.send(), [], "only the second is left, without room");
        bench.commit();
        assert!(bench.done.is_empty());
        bench.outcome(1, 1..=1, OutcomeKind::Done);
        bench.commit();
        assert_eq!(bench.send(), [(0, 1, 1)]);
        bench.commit();
        bench.outcome(1, 0..=0, OutcomeKind::TooLarge);
        bench.commit();
        assert_eq!(bench.done, [Seq(1), Seq(0)], "it is too large for all");
        assert_eq!(bench.send(), []);
    }
}

#[test]
fn m35_a_member_at_qos_0_gets_what_is_stored_within_its_window() {
    let mut bench = Bench::new(SharedStrategy::RoundRobin);
    for session in 0..2 {
        bench.join(session, member(QoS::AtMostOnce, 0));
        bench.attach(session, 2);
    }
    bench.push(6, QoS::AtLeastOnce);
    assert_eq!(bench.receivers(), [0, 1, 0, 1], "the rest waits");
    bench.outcome(1, 1..=3, OutcomeKind::Done);
    assert_eq!(bench.receivers(), [1, 1], "one is slow, the other is not");
    bench.detach(0);
    bench.outcome(1, 4..=5, OutcomeKind::Done);
    assert_eq!(
        bench.receivers(),
        [1, 1],
        "what it has not sent is not lost"
    );
    bench.outcome(1, 0..=2, OutcomeKind::Done);
    bench.commit();
    assert_eq!(bench.done.len(), 6);
}

#[test]
fn m31_what_was_not_sent_goes_back_without_an_attempt() {
    let mut bench = Bench::with_members(SharedStrategy::RoundRobin, 2, 4);
    bench.push(1, QoS::AtLeastOnce);
    bench.push(1, QoS::ExactlyOnce);
    assert_eq!(bench.receivers(), [0, 1]);
    bench.commit();
    bench.outcome(0, 0..=1, OutcomeKind::Returned);
    assert_eq!(
        bench.send(),
        [(0, 1, 1)],
        "the next one's turn, still the first delivery"
    );
    bench.outcome(1, 1..=1, OutcomeKind::Returned);
    assert_eq!(bench.commit(), [Fact::Unassigned { seq: Seq(1) }]);
    assert!(bench.group.owed(Seq(1)).is_none());
    bench.room(0, GroupRoom::Enough);
    assert_eq!(bench.send(), [(1, 0, 1)]);
}

#[test]
fn m31_who_gave_something_back_gets_nothing_before_it_has_room() {
    for strategy in [
        SharedStrategy::RoundRobin,
        SharedStrategy::Sticky,
        SharedStrategy::HashTopic,
        SharedStrategy::LeastOutstanding,
    ] {
        let mut bench = Bench::with_members(strategy, 1, 4);
        bench.push(6, QoS::AtLeastOnce);
        assert_eq!(bench.send().len(), 4);
        bench.outcome(0, 0..=3, OutcomeKind::Returned);
        assert!(bench.send().is_empty(), "it has no room");
        bench.push(1, QoS::AtLeastOnce);
        assert!(bench.send().is_empty(), "for a new one neither");
        bench.room(0, GroupRoom::Places(1));
        bench.room(0, GroupRoom::Places(1));
        assert_eq!(bench.send(), [(0, 0, 1), (1, 0, 1)], "in order");
        bench.outcome(0, 0..=0, OutcomeKind::Done);
        assert!(
            bench.send().is_empty(),
            "its front has given the place away"
        );
        bench.room(0, GroupRoom::Enough);
        assert_eq!(bench.send(), [(2, 0, 1), (3, 0, 1), (4, 0, 1)]);
        bench.room(0, GroupRoom::Places(0));
        bench.outcome(0, 1..=1, OutcomeKind::Done);
        assert!(bench.send().is_empty());
        // Another connection has room until it says otherwise.
        bench.detach(0);
        bench.attach(0, 2);
        assert_eq!(bench.send(), [(2, 0, 2), (3, 0, 2)]);
    }
}

#[test]
fn m31_what_one_has_no_room_for_goes_to_those_who_have() {
    let mut bench = Bench::with_members(SharedStrategy::RoundRobin, 3, 4);
    bench.push(9, QoS::AtLeastOnce);
    let given = bench.send();
    for (seq, session, _) in given {
        if session == 1 {
            bench.outcome(1, seq..=seq, OutcomeKind::Returned);
        }
    }
    let given = bench.send();
    assert!(given.iter().all(|(_, session, _)| *session != 1));
    bench.detach(0);
    bench.detach(2);
    assert!(bench.send().is_empty(), "they wait for room");
    bench.room(1, GroupRoom::Places(1));
    assert_eq!(bench.send(), [(0, 1, 2)]);
}

#[test]
fn m21_the_third_delivery_waits_for_the_count() {
    let mut bench = Bench::with_members(SharedStrategy::RoundRobin, 1, 1);
    bench.push(2, QoS::AtLeastOnce);
    for attempt in 1..=2 {
        assert_eq!(bench.send(), [(0, 0, attempt)]);
        bench.detach(0);
        bench.attach(0, 1);
    }
    bench.attach(0, 2);
    assert_eq!(bench.send(), [(1, 0, 1)], "others do not wait");
    bench.commit();
    assert_eq!(bench.group.attempts(Seq(0)), 2);
    assert_eq!(bench.send(), [(0, 0, 3)]);
    bench.detach(0);
    bench.new_leader();
    bench.attach(0, 2);
    assert_eq!(
        bench.send(),
        [(0, 0, 3), (1, 0, 1)],
        "committed counts outlive the leader"
    );
    bench.detach(0);
    bench.commit();
    assert_eq!(
        bench.group.attempts(Seq(0)),
        3,
        "counted on from what had committed"
    );
    bench.attach(0, 2);
    bench.send();
    bench.outcome(0, 0..=1, OutcomeKind::Done);
    bench.commit();
    assert_eq!(
        bench.group.attempts(Seq(0)),
        0,
        "forgotten with the message"
    );
}

#[test]
fn unsubscribing_finishes_what_was_begun() {
    // v3 [MQTT-3.10.4-3], v5 [MQTT-3.10.4-3]; and nothing new: v3 [MQTT-3.10.4-2], v5 [MQTT-3.10.4-2]
    let mut bench = Bench::with_members(SharedStrategy::RoundRobin, 1, 2);
    bench.push(1, QoS::AtLeastOnce);
    bench.push(5, QoS::ExactlyOnce);
    assert_eq!(bench.receivers(), [0, 0]);
    bench.commit();
    bench.leave(0, Leave::Unsubscribed);
    let kept = Fact::Assigned {
        seq: Seq(0),
        member: home(0),
        packet_id: None,
    };
    assert_eq!(bench.commit(), [kept], "there is nobody else");
    assert!(!bench.group.is_over(), "both are owed");
    assert_eq!(bench.send(), []);
    bench.outcome(0, 0..=0, OutcomeKind::Done);
    bench.outcome(0, 1..=1, OutcomeKind::Received);
    assert_eq!(
        bench.commit(),
        [Fact::Done { seq: Seq(0) }, Fact::Received { seq: Seq(1) }]
    );
    assert_eq!(bench.send(), [], "room does not bring new ones");
    bench.outcome(0, 1..=1, OutcomeKind::Done);
    bench.commit();
    assert!(bench.group.is_over());
    assert_eq!(bench.dispatch.under_way(), 0);
}

#[test]
fn who_joins_again_goes_on_with_what_it_has() {
    let mut bench = Bench::with_members(SharedStrategy::RoundRobin, 1, 2);
    bench.push(4, QoS::ExactlyOnce);
    bench.send();
    bench.commit();
    bench.leave(0, Leave::Unsubscribed);
    bench.join(0, member(QoS::ExactlyOnce, 0));
    assert_eq!(bench.send(), [], "its window is full as before");
    bench.outcome(0, 0..=0, OutcomeKind::Done);
    assert_eq!(bench.send(), [(2, 0, 1)]);
}

#[test]
fn m35_the_group_is_over_with_its_last_member() {
    let mut bench = Bench::with_members(SharedStrategy::RoundRobin, 2, 1);
    bench.push(2, QoS::ExactlyOnce);
    bench.send();
    bench.commit();
    bench.leave(0, Leave::Unsubscribed);
    bench.leave(1, Leave::SessionEnded);
    assert!(!bench.group.is_over());
    bench.detach(0);
    bench.leave(0, Leave::SessionEnded);
    assert!(
        bench.group.is_over(),
        "also when who is owed has left before"
    );
    assert_eq!(bench.done, [Seq(1), Seq(0)]);
}

#[test]
fn qos_0_goes_to_the_connected_and_takes_no_room() {
    let mut bench = Bench::with_members(SharedStrategy::RoundRobin, 3, 1);
    let pick = |bench: &mut Bench| bench.picks(100);
    bench.detach(1);
    assert_eq!(
        [pick(&mut bench), pick(&mut bench), pick(&mut bench)],
        [Some(0), Some(2), Some(0)]
    );
    bench.push(1, QoS::AtLeastOnce);
    assert_eq!(bench.receivers(), [2]);
    assert_eq!(pick(&mut bench), Some(0), "first who has room");
    bench.push(1, QoS::AtLeastOnce);
    assert_eq!(bench.receivers(), [0]);
    assert_eq!(
        [pick(&mut bench), pick(&mut bench)],
        [Some(2), Some(0)],
        "then anyone"
    );
    bench.detach(0);
    bench.detach(2);
    assert_eq!(pick(&mut bench), None);
}

/// v5 section 3.1.2.11.4: too large for one member is not too large for the group.
#[test]
fn m35_qos_0_goes_to_a_member_that_takes_its_size() {
    for strategy in [
        SharedStrategy::RoundRobin,
        SharedStrategy::Sticky,
        SharedStrategy::LeastOutstanding,
        SharedStrategy::HashTopic,
    ] {
        let mut bench = Bench::with_members(strategy, 3, 1);
        for (session, most) in [(0, 100), (1, 1_000), (2, 200)] {
            bench.detach(session);
            bench.attach_with(session, 1, most);
        }
        for _ in 0..3 {
            assert_eq!(bench.picks(201), Some(1), "{strategy:?}");
            assert_ne!(bench.picks(101), Some(0), "{strategy:?}");
            let text = "its front knows, and it takes the longest";
            assert_eq!(bench.picks(1_001), Some(1), "{strategy:?}: {text}");
        }
        bench.detach(1);
        assert_eq!(bench.picks(201), Some(2));
    }
}

#[test]
fn m35_qos_0_goes_to_members_that_read() {
    let mut bench = Bench::with_members(SharedStrategy::RoundRobin, 3, 1);
    bench.dispatch.reads(home(1), Uptake::Behind);
    assert_eq!([0; 4].map(|_| bench.picks(9)), [0, 2, 0, 2].map(Some));
    bench.dispatch.reads(home(0), Uptake::Behind);
    bench.dispatch.reads(home(2), Uptake::Behind);
    let all: BTreeSet<_> = (0..3).map(|_| bench.picks(9)).collect();
    assert_eq!(
        all.len(),
        3,
        "none reads: each has its turn, and half an output"
    );
    bench.dispatch.reads(home(1), Uptake::Prompt);
    assert_eq!([0; 3].map(|_| bench.picks(9)), [Some(1); 3]);
    bench.detach(1);
    assert!(bench.picks(9).is_some());
    let mut bench = Bench::with_members(SharedStrategy::HashTopic, 2, 1);
    let owner = bench.picks(9).expect("there are two");
    bench.dispatch.reads(home(owner), Uptake::Behind);
    assert_eq!(bench.picks(9), Some(owner), "a topic stays with its owner");
}

#[test]
fn m18_a_new_leader_sends_what_is_not_done_and_not_owed() {
    let mut bench = Bench::with_members(SharedStrategy::RoundRobin, 2, 9);
    bench.push(2, QoS::AtLeastOnce);
    bench.push(2, QoS::ExactlyOnce);
    bench.push(1, QoS::AtLeastOnce);
    assert_eq!(bench.receivers(), [0, 1, 0, 1, 0]);
    bench.commit();
    bench.outcome(1, 1..=1, OutcomeKind::Done);
    bench.commit();
    bench.new_leader();
    bench.attach(1, 9);
    assert_eq!(bench.send(), [(0, 1, 1), (4, 1, 1)]);
    bench.outcome(1, 3..=3, OutcomeKind::Done);
    assert_eq!(bench.commit(), [Fact::Done { seq: Seq(3) }]);
    bench.attach(0, 1);
    bench.push(1, QoS::AtLeastOnce);
    assert_eq!(bench.receivers(), [1], "what is owed fills the window of 0");
}

#[test]
fn an_outcome_touches_only_the_members_own_messages() {
    let mut bench = Bench::with_members(SharedStrategy::RoundRobin, 2, 9);
    bench.push(4, QoS::AtLeastOnce);
    bench.send();
    bench.outcome(1, 0..=3, OutcomeKind::Done);
    bench.outcome(7, 0..=3, OutcomeKind::Done);
    bench.outcome(1, 0..=3, OutcomeKind::Done);
    assert_eq!(
        bench.commit(),
        [1, 3].map(|seq| Fact::Done { seq: Seq(seq) })
    );
    assert_eq!(bench.dispatch.under_way(), 2, "those of the other member");
}

#[test]
fn m30_what_was_given_to_a_member_waits_no_more() {
    for qos in [QoS::AtMostOnce, QoS::AtLeastOnce, QoS::ExactlyOnce] {
        let mut bench = Bench::with_members(SharedStrategy::RoundRobin, 1, 2);
        bench.push(1, qos);
        assert!(bench.dispatch.waits(Seq(0)), "{qos:?}: it may expire");
        bench.send();
        assert!(!bench.dispatch.waits(Seq(0)), "{qos:?}: it may not");
    }
}

#[test]
fn many_members_are_found_beyond_one_word() {
    let mut bench = Bench::with_members(SharedStrategy::RoundRobin, 200, 1);
    bench.push(250, QoS::AtLeastOnce);
    assert_eq!(bench.receivers(), (0..200).collect::<Vec<_>>());
    for session in (0..200).rev() {
        bench.leave(session, Leave::SessionEnded);
    }
    bench.check();
    bench.join(500, member(QoS::AtLeastOnce, 0));
    bench.attach(500, 300);
    bench.commit();
    assert_eq!(bench.receivers(), [500; 250]);
}

#[test]
fn bytes_that_break_an_invariant_are_refused() {
    let mut bench = Bench::with_members(SharedStrategy::Sticky, 2, 1);
    bench.push(2, QoS::ExactlyOnce);
    bench.send();
    bench.commit();
    bench.group.apply(&Fact::Attempts {
        seq: Seq(1),
        attempts: 1,
    });
    let mut bytes = Vec::new();
    bench.group.encode(&mut bytes);
    let read = read_whole(&bytes, Group::read).expect("it was just written");
    let mut again = Vec::new();
    read.encode(&mut again);
    assert_eq!(again, bytes);
    let strategy = 4 + "share".len() + 4 + "a/+".len();
    let first_session = strategy + 1 + 4 + 2;
    let attempts = bytes.len() - 4;
    for (at, value) in [(strategy, 9), (first_session, 1), (attempts, 0), (4, 0xFF)] {
        let mut broken = bytes.clone();
        broken[at] = value;
        let result = read_whole(&broken, Group::read);
        assert!(matches!(result, Err(DecodeError::Invalid(_))), "byte {at}");
    }
    for len in 0..bytes.len() {
        assert!(
            read_whole(&bytes[..len], Group::read).is_err(),
            "{len} bytes"
        );
    }
}
