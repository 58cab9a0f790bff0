//! Random lives of a group: members, connections, outcomes, commits that come late, leaders that are lost.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;

const WINDOW: u32 = 3;

/// What the members have seen, by their own account.
#[derive(Default)]
struct World {
    /// Messages that a connected member holds.
    held: BTreeMap<u64, u64>,
    connected: BTreeSet<u64>,
    members: BTreeSet<u64>,
    /// Places that fronts have which gave something back.
    places: BTreeMap<u64, u16>,
    /// Sessions to which a QoS 2 message was sent, in committed assignments.
    exactly_once: BTreeMap<u64, u64>,
}

impl World {
    fn send(&mut self, bench: &mut Bench) {
        let before: BTreeSet<u64> = self.held.keys().copied().collect();
        for (seq, session, _) in bench.send() {
            assert!(
                self.connected.contains(&session),
                "only the connected get messages"
            );
            assert!(
                self.members.contains(&session),
                "only members get new messages"
            );
            if let Some(places) = self.places.get_mut(&session) {
                assert!(
                    *places > 0,
                    "what was given back comes again with a word only"
                );
                *places -= 1;
            }
            let holder = self.held.insert(seq, session);
            assert_eq!(holder, None, "{seq} is with one member at a time");
            if bench.stream[seq as usize] == QoS::ExactlyOnce {
                let first = *self.exactly_once.entry(seq).or_insert(session);
                assert_eq!(first, session, "{seq} of QoS 2 has one receiver");
            }
        }
        for session in &self.connected {
            let mine = self.held.iter().filter(|(_, at)| *at == session).count();
            assert!(mine <= WINDOW as usize, "the window of {session} holds");
        }
        // Assignments commit before a PUBLISH leaves.
        if self.held.keys().any(|seq| !before.contains(seq)) {
            bench.commit();
        }
    }

    /// The connection goes: QoS 1 is no longer with the session, unless no member is left.
    fn disconnect(&mut self, bench: &mut Bench, session: u64) {
        self.places.remove(&session);
        if self.connected.remove(&session) {
            bench.detach(session);
            let nobody = self.members.is_empty();
            self.held.retain(|&seq, at| {
                *at != session || nobody || bench.stream[seq as usize] == QoS::ExactlyOnce
            });
        }
    }

    fn acknowledge(&mut self, bench: &mut Bench, session: u64, nth: usize, kind: OutcomeKind) {
        if !self.connected.contains(&session) {
            return;
        }
        let mine = self.held.iter().filter(|(_, at)| **at == session);
        let Some(seq) = mine.map(|(&seq, _)| seq).nth(nth) else {
            return;
        };
        bench.outcome(session, seq..=seq, kind);
        if kind != OutcomeKind::Received {
            self.held.remove(&seq);
        }
        if kind == OutcomeKind::Returned {
            self.exactly_once.remove(&seq);
            self.places.insert(session, 0);
        }
    }

    fn say_room(&mut self, bench: &mut Bench, session: u64, places: u16) {
        if self.connected.contains(&session) {
            bench.room(session, GroupRoom::Places(places));
            let before = self.places.get(&session).copied().unwrap_or(0);
            let after = if places == 0 { 0 } else { before + places };
            self.places.insert(session, after);
        }
    }

    fn end_session(&mut self, bench: &mut Bench, session: u64) {
        self.disconnect(bench, session);
        bench.leave(session, Leave::SessionEnded);
        self.members.remove(&session);
        self.held.retain(|_, at| *at != session);
    }

    fn step(&mut self, bench: &mut Bench, kind: u8, session: u64, nth: usize) {
        match kind {
            0 | 1 => bench.push(
                nth,
                if kind == 0 {
                    QoS::AtLeastOnce
                } else {
                    QoS::ExactlyOnce
                },
            ),
            2 | 3 => self.send(bench),
            4 | 5 => self.acknowledge(bench, session, nth, OutcomeKind::Done),
            6 => self.acknowledge(bench, session, nth, OutcomeKind::Received),
            7 => self.acknowledge(bench, session, nth, OutcomeKind::Returned),
            8 => {
                bench.join(session, member(QoS::ExactlyOnce, 0));
                self.members.insert(session);
                self.connect(bench, session);
            }
            9 => self.connect(bench, session),
            10 => self.disconnect(bench, session),
            11 => {
                bench.leave(session, Leave::Unsubscribed);
                self.members.remove(&session);
                // What is not owed and not begun has no one to be given back by: the connection stays.
            }
            12 => self.end_session(bench, session),
            13 => {
                bench.commit();
            }
            14 => self.say_room(bench, session, nth as u16),
            _ => self.new_leader(bench),
        }
        bench.check();
    }

    fn connect(&mut self, bench: &mut Bench, session: u64) {
        let has_seat =
            self.members.contains(&session) || self.held.values().any(|&at| at == session);
        if has_seat && self.connected.insert(session) {
            bench.attach(session, WINDOW);
        }
    }

    /// With the leader all connections are lost, and results that had not committed.
    fn new_leader(&mut self, bench: &mut Bench) {
        bench.new_leader();
        self.connected.clear();
        self.places.clear();
        self.held.clear();
        for (seq, owed) in bench.group.all_owed() {
            self.held.insert(seq.0, owed.member.session.0);
        }
    }

    /// Without faults every message comes to its end.
    fn heal(&mut self, bench: &mut Bench) {
        bench.commit();
        for session in 0..4 {
            bench.join(session, member(QoS::ExactlyOnce, 0));
            self.members.insert(session);
            self.connect(bench, session);
            bench.room(session, GroupRoom::Enough);
        }
        self.places.clear();
        for _ in 0..=bench.stream.len() {
            bench.commit();
            self.send(bench);
            for (seq, session) in std::mem::take(&mut self.held) {
                bench.outcome(session, seq..=seq, OutcomeKind::Done);
            }
        }
        bench.commit();
    }
}

fn strategy() -> impl Strategy<Value = SharedStrategy> {
    prop::sample::select(vec![
        SharedStrategy::RoundRobin,
        SharedStrategy::Sticky,
        SharedStrategy::HashTopic,
        SharedStrategy::LeastOutstanding,
    ])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// M35, v5 [MQTT-4.8.2-4], v5 [MQTT-4.8.2-5]: one holder at a time, windows kept, QoS 2 with one session only, nothing lost.
    #[test]
    fn m35_messages_come_to_an_end_with_one_holder_at_a_time(
        strategy in strategy(),
        steps in prop::collection::vec((0_u8..16, 0_u64..4, 0_usize..4), 1..200),
    ) {
        let mut bench = Bench::new(strategy);
        let mut world = World::default();
        for (kind, session, nth) in steps {
            world.step(&mut bench, kind, session, nth);
            let mut bytes = Vec::new();
            bench.group.encode(&mut bytes);
            let mut again = Vec::new();
            read_whole(&bytes, Group::read).expect("canonical bytes are read").encode(&mut again);
            prop_assert_eq!(bytes, again);
        }
        world.heal(&mut bench);
        bench.done.sort_unstable();
        bench.done.dedup();
        let all: Vec<Seq> = (0..bench.stream.len() as u64).map(Seq).collect();
        prop_assert_eq!(&bench.done, &all, "every message is done");
        prop_assert_eq!(bench.dispatch.under_way(), 0);
        prop_assert_eq!(bench.group.all_owed().count(), 0);
    }

    /// While nobody goes away, new messages are given out in the order of the stream.
    #[test]
    fn new_messages_go_out_in_order(
        strategy in strategy(),
        steps in prop::collection::vec((0_u64..4, 0_usize..3), 1..100),
    ) {
        let mut bench = Bench::with_members(strategy, 4, WINDOW);
        let mut held: BTreeMap<u64, u64> = BTreeMap::new();
        let mut seen: BTreeMap<(u64, u64), u64> = BTreeMap::new();
        for (session, nth) in steps {
            bench.push(nth, QoS::AtLeastOnce);
            for (seq, session, attempt) in bench.send() {
                prop_assert_eq!(attempt, 1);
                held.insert(seq, session);
                // By member, and for a hash of the topic by topic: others may wait for another member.
                let before = seen.insert((session, seq % 3), seq);
                prop_assert!(before.is_none_or(|before| before < seq));
            }
            let mine = held.iter().find(|(_, at)| **at == session).map(|(&seq, _)| seq);
            if let Some(seq) = mine {
                bench.outcome(session, seq..=seq, OutcomeKind::Done);
                held.remove(&seq);
            }
        }
    }
}
