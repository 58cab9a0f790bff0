//! Lives at random: whatever is applied between the steps of a checkpoint, it is the state at its beginning.

mod records;

use courser_contract::{Cut, Want, Will};
use proptest::prelude::*;

use self::records::{OfRecords, of_records};
use super::*;
use crate::{entry::ScanState, record::Records};

const PLACES: u32 = 3;
const FILTERS: u8 = 30;

/// Long ones: of few a unit is full.
fn filter_of(filter: u8) -> String {
    format!("{:0100}", filter % FILTERS)
}

#[derive(Clone, Debug)]
enum Op {
    /// To streams by bits, sessions first, so many times.
    Publish(u8, u16, bool),
    /// Of a stream, from a share of its positions on, so many.
    Outcome(u8, u16, u16, Fate),
    Session(u8, OfSession),
    Records(OfRecords),
    Join(u8, u8),
    Leave(u8, u8, bool),
    /// Of a message of a group.
    Group(u8, u16, u8),
    Remake(u8),
    Inherit(u8, u8, bool),
    Step(u16),
    Cancel,
}

#[derive(Clone, Debug)]
enum OfSession {
    Hold(u16),
    Release(u16),
    Subscribe(u8, bool),
    Unsubscribe(u8),
    /// With a share name.
    Share(u8),
    Unshare(u8),
    Own,
    WillTaken,
    ScanMoved(u8),
    ScanEnded(u8),
    Attach(bool),
    Detach(bool),
    Reopen,
}

fn fate() -> impl Strategy<Value = Fate> {
    prop_oneof![
        2 => Just(Fate::Done),
        2 => Just(Fate::Received),
        1 => Just(Fate::Dropped),
    ]
}

fn of_session() -> impl Strategy<Value = OfSession> {
    prop_oneof![
        2 => (0..300_u16).prop_map(OfSession::Hold),
        2 => (0..300_u16).prop_map(OfSession::Release),
        3 => (any::<u8>(), any::<bool>()).prop_map(|(filter, scan)| OfSession::Subscribe(filter, scan)),
        2 => any::<u8>().prop_map(OfSession::Unsubscribe),
        2 => any::<u8>().prop_map(OfSession::Share),
        1 => any::<u8>().prop_map(OfSession::Unshare),
        1 => Just(OfSession::Own),
        1 => Just(OfSession::WillTaken),
        1 => any::<u8>().prop_map(OfSession::ScanMoved),
        1 => any::<u8>().prop_map(OfSession::ScanEnded),
        1 => any::<bool>().prop_map(OfSession::Attach),
        1 => any::<bool>().prop_map(OfSession::Detach),
        1 => Just(OfSession::Reopen),
    ]
}

fn op() -> impl Strategy<Value = Op> {
    let at = || any::<u8>();
    let from = prop_oneof![2 => any::<u16>(), 1 => Just(0)];
    let few_or_many = prop_oneof![4 => 0..3_u16, 1 => 0..400_u16];
    let count = prop_oneof![4 => 1..4_u16, 1 => 200..300_u16];
    prop_oneof![
        6 => (at(), count, any::<bool>()).prop_map(|(to, count, same)| Op::Publish(to, count, same)),
        8 => (at(), from, few_or_many, fate()).prop_map(|(to, from, count, fate)| Op::Outcome(to, from, count, fate)),
        14 => (at(), of_session()).prop_map(|(to, op)| Op::Session(to, op)),
        2 => (at(), at()).prop_map(|(to, member)| Op::Join(to, member)),
        2 => (at(), at(), any::<bool>()).prop_map(|(to, member, ended)| Op::Leave(to, member, ended)),
        6 => (at(), any::<u16>(), at()).prop_map(|(to, seq, what)| Op::Group(to, seq, what)),
        1 => at().prop_map(Op::Remake),
        1 => (at(), at(), any::<bool>()).prop_map(|(to, cut, took)| Op::Inherit(to, cut, took)),
        14 => of_records().prop_map(Op::Records),
        8 => prop_oneof![4 => 1..2_u16, 1 => 1..3_000_u16].prop_map(Op::Step),
        1 => Just(Op::Cancel),
    ]
}

fn pick(at: u8) -> usize {
    usize::from(at) % PLACES as usize
}

/// What is there, and the numbers of what comes next.
struct World {
    life: Life,
    sessions: Vec<u64>,
    groups: Vec<u64>,
    last: u64,
    scan: u64,
    request: u64,
    /// Of the log, without an answer.
    asked: Vec<Want>,
    ended: u32,
}

impl World {
    fn new() -> Self {
        let mut world = Self {
            life: Life::new(),
            sessions: Vec::new(),
            groups: Vec::new(),
            last: 0,
            scan: 0,
            request: 0,
            asked: Vec::new(),
            ended: 0,
        };
        for place in 0..PLACES {
            world.last += 1;
            world.sessions.push(session(world.last, place));
            world.groups.push(group(world.last, place));
            world.life.open(session(world.last, place));
            world.life.make_group(group(world.last, place));
        }
        world.life.rare(Rare::TermBegun {});
        world.furnish();
        world.furnish_records();
        world.life.commit();
        world.life.begin();
        world
    }

    /// So much that the walk takes several steps for it; and in the middle of streams a chunk of which all is done.
    fn furnish(&mut self) {
        let (first, group) = (self.sessions[0], self.groups[1]);
        let session = SessionUid(first);
        for packet_id in 0..250 {
            let hash = 7;
            self.life.rare(Rare::Held {
                session,
                packet_id,
                hash,
            });
        }
        for filter in 0..FILTERS {
            self.scan += 1;
            self.life.subscribe(first, &filter_of(filter), self.scan);
        }
        (0..100).for_each(|member| self.life.join(group, member));
        let streams = [self.sessions[1], group];
        (0..700).for_each(|_| self.life.publish(&streams, &[]));
        for stream in streams {
            self.life.outcome(stream, (1, 600), Fate::Done);
        }
        (601..700).for_each(|seq| self.life.assign(group, seq, seq % 8));
    }

    /// One of the streams with its positions: first that is not done, and the one behind the last.
    fn stream(&self, at: u8) -> (u64, u64, u64) {
        let streams = [&self.sessions[..], &self.groups[..]].concat();
        let number = streams[usize::from(at) % streams.len()];
        let state = &self.life.partition.state;
        let stream = match ids::owner(number) {
            Owner::Session => &state.sessions.get(number).expect("it is there").stream,
            Owner::Group => &state.groups.get(number).expect("it is there").stream,
        };
        (number, stream.floor(), stream.next())
    }

    fn apply(&mut self, op: &Op) {
        match *op {
            Op::Publish(to, count, same) => self.publish(to, count, same),
            Op::Outcome(at, from, count, fate) => {
                let (number, floor, next) = self.stream(at);
                let first = floor + u64::from(from) * (next - floor) / 65_536;
                let range = (first, first + u64::from(count));
                self.life.outcome(number, range, fate);
            }
            Op::Session(at, ref op) => self.of_session(pick(at), op),
            Op::Records(ref op) => self.of_records(op),
            Op::Inherit(at, cut, took) => self.inherit(self.groups[pick(at)], cut, took),
            Op::Join(at, member) => self.life.join(self.groups[pick(at)], member.into()),
            Op::Leave(at, member, ended) => self.life.rare(Rare::GroupLeft {
                group: self.groups[pick(at)],
                member: home(u64::from(member % 8)),
                ended,
            }),
            Op::Group(at, seq, what) => self.of_group(self.groups[pick(at)], seq, what),
            Op::Remake(at) => {
                let group = self.groups[pick(at)];
                self.life.rare(Rare::GroupEnded { group });
                self.last += 1;
                let number = super::group(self.last, pick(at) as u32);
                self.groups[pick(at)] = number;
                self.life.make_group(number);
            }
            Op::Step(budget) => self.step(budget.into()),
            Op::Cancel => {
                self.life.partition.cancel_checkpoint();
                self.life.begin();
            }
        }
        self.life.commit();
        self.life.partition.check();
    }

    fn of_session(&mut self, place: usize, op: &OfSession) {
        let session = SessionUid(self.sessions[place]);
        let fact = match *op {
            OfSession::Hold(packet_id) => Rare::Held {
                session,
                packet_id,
                hash: self.last + u64::from(packet_id),
            },
            OfSession::Release(packet_id) => Rare::Released { session, packet_id },
            OfSession::Subscribe(filter, scan) => {
                self.scan += 1;
                let scan = if scan { self.scan } else { 0 };
                return self.life.subscribe(session.0, &filter_of(filter), scan);
            }
            OfSession::Unsubscribe(filter) => Rare::Unsubscribed {
                session,
                filter: filter_of(filter).into(),
                share: None,
            },
            OfSession::Share(filter) => Rare::Subscribed {
                session,
                filter: filter_of(filter).into(),
                share: Some("g".into()),
                options: SubscriptionOptions::default(),
                identifier: Some(filter.into()),
                scan: 0,
            },
            OfSession::Unshare(filter) => Rare::Unsubscribed {
                session,
                filter: filter_of(filter).into(),
                share: Some("g".into()),
            },
            OfSession::Own => Rare::SessionOwned {
                session,
                owner: format!("owner-{}", self.scan).into(),
            },
            OfSession::WillTaken => Rare::WillTaken { session },
            OfSession::ScanMoved(scan) => Rare::ScanMoved {
                session,
                scan: scan.into(),
                partition: PartitionId(u16::from(scan % 3)),
                state: ScanState::After(format!("t/{}", self.scan).into()),
            },
            OfSession::ScanEnded(scan) => Rare::ScanEnded {
                session,
                scan: scan.into(),
            },
            OfSession::Attach(will) => return self.attach(session, will),
            OfSession::Detach(due) => Rare::SessionDetached {
                session,
                expiry_seconds: 9,
                sent_limit: 0,
                ends_at: Some(WallMs(9_999)),
                will_due: due.then_some(WallMs(8_888)),
            },
            OfSession::Reopen => {
                self.life.rare(Rare::SessionEnded { session });
                self.last += 1;
                let number = super::session(self.last, place as u32);
                self.sessions[place] = number;
                return self.life.open(number);
            }
        };
        self.life.rare(fact);
    }

    fn publish(&mut self, to: u8, count: u16, same: bool) {
        let chosen = self.chosen(to);
        for n in 0..count {
            let identifiers = if same { 0 } else { u32::from(n % 3) };
            let expires_at = (n % 5 == 2).then_some(WallMs(900_000 + 700 * u64::from(n)));
            let message = Message {
                expires_at,
                ..Message::default()
            };
            let identifiers = &[1, 2][..identifiers as usize];
            self.life.message_to(&chosen, identifiers, message);
        }
    }

    /// Streams by bits, sessions first.
    fn chosen(&self, to: u8) -> Vec<u64> {
        let streams = [&self.sessions[..], &self.groups[..]].concat();
        let bits = streams.iter().enumerate();
        let chosen = bits.filter(|(at, _)| to & 1 << at != 0);
        chosen.map(|(_, number)| *number).collect()
    }

    /// A group is the durable part of one that was volatile, or takes something of that.
    fn inherit(&mut self, group: u64, cut: u8, took: bool) {
        let (next, stored, all) = (u64::from(cut), 0, cut.is_multiple_of(2));
        self.life.rare(match took {
            true => Rare::GroupTook {
                group,
                next,
                stored,
                all,
            },
            false => Rare::GroupInherits {
                group,
                cut: Cut(cut.into()),
            },
        });
    }

    fn attach(&mut self, session: SessionUid, will: bool) {
        let will = will.then(|| {
            Box::new(Will {
                topic: "other/will".into(),
                properties: Box::default(),
                payload: Box::from(*b"gone"),
                qos: QoS::AtLeastOnce,
                retain: false,
                delay_seconds: 0,
                expiry_seconds: None,
            })
        });
        let attach = AttachFact { will, ..attach() };
        self.life.rare(Rare::SessionAttached { session, attach });
    }

    /// A group says things of messages that wait.
    fn of_group(&mut self, number: u64, seq: u16, what: u8) {
        let group = self.life.partition.state.groups.get(number);
        let stream = &group.expect("it is there").stream;
        let from = stream.floor() + u64::from(seq) * (stream.next() - stream.floor()) / 65_536;
        let Some(seq) = stream.next_live(from).map(Seq) else {
            return;
        };
        match what % 6 {
            0 | 1 => self.life.assign(number, seq.0, u64::from(what) / 6 % 8),
            2 => self.life.of_group(number, GroupFact::Received { seq }),
            3 => self.life.of_group(number, GroupFact::Unassigned { seq }),
            4 => {
                let attempts = 1 + u32::from(what);
                self.life
                    .of_group(number, GroupFact::Attempts { seq, attempts });
            }
            _ => self.life.of_group(number, GroupFact::Done { seq }),
        }
    }

    fn step(&mut self, budget: usize) {
        self.life.step(budget);
        if self.life.has_ended() {
            self.ended += 1;
            self.life.begin();
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 120, ..ProptestConfig::default() })]

    #[test]
    fn m42_a_checkpoint_is_the_state_at_its_beginning(ops in prop::collection::vec(op(), 1..200)) {
        let mut world = World::new();
        for op in &ops {
            world.apply(op);
        }
        let ended = world.ended;
        while world.ended == ended {
            world.step(1);
        }
    }
}
