//! A model client: its half of the session, kept as the standards say, so that it can tell when the broker does not.

mod classes;
mod incoming;
mod machine;
mod requests;
mod script;
mod wire;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use courser_contract::Class;
use courser_mqtt::codec::{ProtocolVersion, QoS};

use self::requests::Requests;
pub(crate) use self::script::group_names;
use crate::oracle::{LifeId, MsgId, Oracle};
use crate::rng::Rng;
use crate::seeds::Plan;
use crate::world::Counts;

/// What a client asks of its sockets.
#[derive(Debug)]
pub(crate) enum Command {
    /// Opens a connection, with the number that comes next.
    Open(u32),
    Send(u32, Vec<u8>),
    /// Lost at any byte of what is under way.
    Break(u32),
    /// Closed after all that was sent.
    Finish(u32),
    /// Stops reading, or begins again.
    Stall(u32, bool),
}

/// What a client may use while it acts.
pub(crate) struct Ctx<'a> {
    pub(crate) now: u64,
    pub(crate) rng: &'a mut Rng,
    pub(crate) oracle: &'a mut Oracle,
    pub(crate) trace: &'a mut String,
    pub(crate) counts: &'a mut Counts,
    pub(crate) plan: &'a Plan,
    pub(crate) accepts: bool,
    pub(crate) healing: bool,
    pub(crate) last_fault: u64,
    pub(crate) next_conn: u32,
    pub(crate) commands: &'a mut Vec<Command>,
}

impl Ctx<'_> {
    pub(crate) fn note(&mut self, line: std::fmt::Arguments<'_>) {
        use std::fmt::Write;
        let _ = writeln!(self.trace, "{:>7} {line}", self.now);
    }
}

/// What a client is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Player,
    /// The last subscriber, which wants retained messages only.
    Probe,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Idle,
    Connecting { since: u64 },
    Up,
}

/// What the end of a process has taken of a session whose class allows that (M1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lost {
    Nothing,
    /// A volatile session: all of it.
    All,
    /// A relaxed one, by a loss of power: what was done since this moment.
    Since(u64),
}

/// What the client asked for in its present or last CONNECT.
#[derive(Clone, Copy, Debug)]
struct Asked {
    clean: bool,
    expiry_seconds: u32,
}

/// What the client believes of its session at the broker.
#[derive(Clone, Copy, Debug)]
struct Belief {
    life: Option<LifeId>,
    surely_none: bool,
    /// The same before the present CONNECT.
    none_before: bool,
    surely_there: bool,
    /// When a session without a connection ends at the earliest and at the latest.
    ends: (u64, u64),
}

/// A publish that is not acknowledged.
#[derive(Clone, Debug)]
struct Sent {
    packet_id: u16,
    msg: MsgId,
    topic: String,
    payload: Vec<u8>,
    qos: QoS,
    retain: bool,
    life_seconds: Option<u32>,
    released: bool,
}

/// A delivery of QoS 1 by packet id, as last seen.
#[derive(Clone, Copy, Debug)]
struct Open {
    msg: MsgId,
    acked: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owed {
    Puback(u16),
    Pubrec(u16),
    Pubcomp(u16),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expected {
    Puback(u16),
    Pubrec(u16),
}

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    kind: Kind,
    place: usize,
    id: String,
    version: ProtocolVersion,
    receive_maximum: u16,
    phase: Phase,
    conn: Option<u32>,
    asked: Asked,
    belief: Belief,
    life: Option<LifeId>,
    /// What the broker has lost of its session since it connected last.
    lost: Lost,
    /// What the broker has of its session is not known until it has answered a CONNECT.
    doubts: bool,
    rest: Vec<u8>,
    next_id: u16,
    sent: VecDeque<Sent>,
    expected: VecDeque<Expected>,
    quota: u16,
    requests: Requests,
    open: BTreeMap<u16, Open>,
    /// QoS 2 deliveries between PUBLISH and PUBREL.
    received: BTreeMap<u16, MsgId>,
    owed: VecDeque<Owed>,
    /// Deliveries of this connection that are not acknowledged.
    under_way: BTreeSet<u16>,
    stalled: bool,
    /// The packet has gone behind which the plan cuts.
    is_cut: bool,
    last_event: u64,
    found: BTreeMap<String, Vec<Vec<u8>>>,
    scanned: bool,
}

impl Client {
    pub(crate) fn new(place: usize, plan: &Plan, rng: &mut Rng) -> Self {
        let version = if rng.chance(60) {
            ProtocolVersion::V5
        } else {
            ProtocolVersion::V311
        };
        let class = match plan.class_of(place) {
            Class::Durable => 'c',
            Class::Relaxed => 'r',
            Class::Volatile => 'v',
        };
        Self {
            kind: Kind::Player,
            place,
            id: format!("{class}{place}"),
            version,
            receive_maximum: *rng.pick(&[1, 3, 10, 100]),
            phase: Phase::Idle,
            conn: None,
            asked: Asked {
                clean: true,
                expiry_seconds: 0,
            },
            belief: Belief {
                life: None,
                surely_none: true,
                none_before: true,
                surely_there: false,
                ends: (u64::MAX, u64::MAX),
            },
            life: None,
            lost: Lost::Nothing,
            doubts: false,
            rest: Vec::new(),
            next_id: 1,
            sent: VecDeque::new(),
            expected: VecDeque::new(),
            quota: 0,
            requests: Requests::default(),
            open: BTreeMap::new(),
            received: BTreeMap::new(),
            owed: VecDeque::new(),
            under_way: BTreeSet::new(),
            stalled: false,
            is_cut: false,
            last_event: 0,
            found: BTreeMap::new(),
            scanned: false,
        }
    }

    /// A client that connects once and asks for all retained messages.
    pub(crate) fn probe(place: usize, plan: &Plan, rng: &mut Rng) -> Self {
        Self {
            kind: Kind::Probe,
            version: ProtocolVersion::V5,
            receive_maximum: 100,
            ..Self::new(place, plan, rng)
        }
    }

    /// Retained messages that a probe found; none before its SUBACK.
    pub(crate) fn probed(&self) -> Option<&BTreeMap<String, Vec<Vec<u8>>>> {
        self.scanned.then_some(&self.found)
    }

    /// Whether it is connected, has nothing open and got nothing since `quiet`.
    pub(crate) fn is_settled(&self, quiet: u64) -> bool {
        self.phase == Phase::Up
            && self.sent.is_empty()
            && self.requests.is_empty()
            && self.owed.is_empty()
            && self.received.is_empty()
            && !self.stalled
            && self.last_event <= quiet
    }

    /// Why it is not settled.
    pub(crate) fn describe(&self) -> String {
        format!(
            "{} {:?} conn {:?}, {} sent ({:?}), {} requests, {} owed, {} received, last event {}",
            self.id,
            self.phase,
            self.conn,
            self.sent.len(),
            self.sent
                .front()
                .map(|sent| (sent.msg, sent.packet_id, sent.released)),
            self.requests.len(),
            self.owed.len(),
            self.received.len(),
            self.last_event,
        )
    }

    /// Sends one packet.
    fn send(&mut self, bytes: Vec<u8>, ctx: &mut Ctx<'_>) {
        if let Some(conn) = self.conn
            && !self.is_cut
        {
            ctx.commands.push(Command::Send(conn, bytes));
            self.count_packet(ctx);
        }
    }

    /// A packet has gone one way or the other, behind which the connection may be lost: what comes now is not sent any more.
    fn count_packet(&mut self, ctx: &mut Ctx<'_>) {
        if !ctx.healing {
            ctx.counts.packets += 1;
            self.is_cut |= ctx.plan.cut_after == Some(ctx.counts.packets);
        }
    }

    /// Loses the connection behind the packet that was named; the broker hears of it behind all that was sent.
    fn finish_cut(&mut self, ctx: &mut Ctx<'_>) {
        if std::mem::take(&mut self.is_cut)
            && let Some(conn) = self.conn
        {
            ctx.note(format_args!("{}: conn {conn} is lost here", self.id));
            ctx.commands.push(Command::Finish(conn));
            self.down(ctx);
        }
    }

    fn fail(&self, ctx: &mut Ctx<'_>, text: &str) {
        ctx.oracle
            .fail(format!("{text} (client {}, conn {:?})", self.id, self.conn));
    }

    /// A packet id that is free in both directions of use.
    fn free_id(&mut self) -> u16 {
        loop {
            let id = self.next_id;
            self.next_id = if id >= 400 { 1 } else { id + 1 };
            let used = self.sent.iter().any(|sent| sent.packet_id == id) || self.requests.has(id);
            if !used {
                return id;
            }
        }
    }
}
