//! The world: virtual time, shards, links, logs, sockets and clients, all moved by one queue of events.

mod faults;
mod heal;
mod net;
mod store;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::num::NonZeroU16;
use std::rc::Rc;

use courser_contract::{Now, PartitionId, ShardId, Term, Tick, WallMs};
use courser_engine::Partition;
use courser_mqtt::front::{FrontConfig, OutputPool};

use self::net::Net;
use self::store::Store;
use crate::bug::Bug;
use crate::client::Client;
use crate::link::Links;
use crate::oracle::Oracle;
use crate::rng::Rng;
use crate::seeds::Plan;
use crate::shell::{Action, Inbound, Make, Places, Shard, partition_config};

/// Wall clock at the beginning of a run.
const WALL_BEGIN: u64 = 1_700_000_000_000;

/// What happens at a moment.
#[derive(Debug)]
pub(crate) enum Event {
    /// Something comes to a shard of this life of the node.
    Inbound(u32, ShardId, Inbound),
    Turn(u32, ShardId),
    /// The oldest pending entry of a partition is committed, if this is still its era.
    Commit(PartitionId, u64),
    /// Bytes, or the end, come to a client.
    ToClient(u32, Option<Vec<u8>>),
    /// A client does something of its own.
    Deed(usize),
    Kill,
    Start,
    Depose,
    Elect(PartitionId),
}

/// What a run came to.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The rule that was broken and how; none: all held.
    pub violation: Option<String>,
    /// What happened, line by line.
    pub trace: String,
    /// What was counted.
    pub counts: Counts,
}

/// Sums of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Events handled.
    pub events: u64,
    /// Messages published.
    pub published: u64,
    /// Messages processed by clients.
    pub delivered: u64,
    /// Deliveries that were repeats.
    pub repeats: u64,
    /// Connections.
    pub connections: u64,
    /// Sessions taken up again.
    pub resumed: u64,
    /// Entries committed.
    pub entries: u64,
    /// Comparisons of a partition with its replay.
    pub replays: u64,
}

impl Counts {
    /// Adds the sums of another run.
    pub const fn add(&mut self, other: &Self) {
        self.events += other.events;
        self.published += other.published;
        self.delivered += other.delivered;
        self.repeats += other.repeats;
        self.connections += other.connections;
        self.resumed += other.resumed;
        self.entries += other.entries;
        self.replays += other.replays;
    }
}

/// See the module.
pub(crate) struct World {
    pub(crate) plan: Plan,
    pub(crate) rng: Rng,
    pub(crate) now: u64,
    order: u64,
    queue: BTreeMap<(u64, u64), Event>,
    places: Places,
    life: u32,
    running: bool,
    serving: bool,
    shards: Vec<Shard>,
    turn_at: Vec<Option<u64>>,
    timer_at: Vec<u64>,
    links: Links,
    store: Store,
    pub(crate) net: Net,
    pub(crate) clients: Vec<Client>,
    pub(crate) oracle: Oracle,
    pub(crate) trace: String,
    pub(crate) counts: Counts,
    /// Partitions on their way to a new leader.
    leaderless: BTreeSet<PartitionId>,
    /// No more faults.
    pub(crate) healing: bool,
    /// When the last kill or deposal was, or is over.
    pub(crate) last_fault: u64,
}

/// Runs a plan to its end or to the first violation.
#[must_use]
pub fn run(plan: Plan) -> Outcome {
    let mut world = World::new(plan);
    world.live();
    Outcome {
        violation: world.oracle.violation.take(),
        counts: world.counts,
        trace: world.trace,
    }
}

impl World {
    fn new(plan: Plan) -> Self {
        let mut rng = Rng::new(plan.seed);
        let places = Places {
            partitions: plan.partitions,
            shards: plan.shards,
        };
        let clients = (0..plan.clients)
            .map(|place| Client::new(place, &plan, &mut rng))
            .collect();
        let shards = usize::from(plan.shards);
        Self {
            links: Links::new(plan.shards, plan.link_ms),
            store: Store::new(&places),
            net: Net::new(plan.socket_ms),
            oracle: Oracle::new(&plan),
            clients,
            rng,
            now: 0,
            order: 0,
            queue: BTreeMap::new(),
            places,
            life: 0,
            running: false,
            serving: false,
            shards: Vec::new(),
            turn_at: vec![None; shards],
            timer_at: vec![u64::MAX; shards],
            trace: String::new(),
            counts: Counts::default(),
            leaderless: BTreeSet::new(),
            healing: false,
            last_fault: 0,
            plan,
        }
    }

    fn live(&mut self) {
        let plan = format!("{:?}", self.plan);
        self.note(format_args!("{plan}"));
        self.at(0, Event::Start);
        for client in 0..self.clients.len() {
            let at = self.rng.between(50, 400);
            self.at(at, Event::Deed(client));
        }
        self.plan_faults();
        let end = self.plan.faulty_ms;
        self.run_until(end);
        self.heal();
    }

    /// Writes a line of the trace.
    pub(crate) fn note(&mut self, line: std::fmt::Arguments<'_>) {
        let _ = writeln!(self.trace, "{:>7} {line}", self.now);
    }

    pub(crate) fn at(&mut self, at: u64, event: Event) {
        self.order += 1;
        self.queue.insert((at.max(self.now), self.order), event);
    }

    pub(crate) const fn failed(&self) -> bool {
        self.oracle.violation.is_some()
    }

    /// Handles events up to a moment.
    pub(crate) fn run_until(&mut self, end: u64) {
        while !self.failed() {
            match self.queue.first_entry() {
                Some(entry) if entry.key().0 <= end => {
                    self.now = entry.key().0;
                    let event = entry.remove();
                    self.counts.events += 1;
                    self.handle(event);
                }
                Some(_) | None => break,
            }
        }
        self.now = self.now.max(end);
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Inbound(life, shard, inbound) => {
                if life == self.life && self.running {
                    self.inbound(shard, inbound);
                }
            }
            Event::Turn(life, shard) => {
                if life == self.life && self.running {
                    self.turn(shard);
                }
            }
            Event::Commit(partition, era) => self.commit(partition, era),
            Event::ToClient(conn, bytes) => self.to_client(conn, bytes),
            Event::Deed(client) => self.deed(client),
            Event::Kill => self.kill(),
            Event::Start => self.start(),
            Event::Depose => self.depose(),
            Event::Elect(partition) => self.elect(partition),
        }
    }

    pub(crate) fn clock(&self) -> Now {
        Now {
            tick: Tick(self.now),
            wall: WallMs(WALL_BEGIN + self.now),
        }
    }

    /// Something has come to a shard: it gets a turn soon.
    fn inbound(&mut self, shard: ShardId, inbound: Inbound) {
        let place = usize::from(shard.0);
        self.shards[place].inbox.push_back(inbound);
        if self.turn_at[place].is_none() {
            let at = self.now + self.rng.below(3);
            self.turn_at[place] = Some(at);
            self.at(at, Event::Turn(self.life, shard));
        }
    }

    fn turn(&mut self, shard: ShardId) {
        let place = usize::from(shard.0);
        if self.turn_at[place].is_some_and(|at| at <= self.now) {
            self.turn_at[place] = None;
        }
        let now = self.clock();
        let before: Vec<_> = (0..self.plan.shards)
            .map(|peer| self.shards[place].handled(ShardId(peer)))
            .collect();
        let actions = self.shards[place].turn(now);
        for (peer, before) in before.into_iter().enumerate() {
            let handled = self.shards[place].handled(ShardId(peer as u16));
            if handled > before {
                let at = self
                    .links
                    .arrival(self.now, shard, ShardId(peer as u16), &mut self.rng);
                let returned = Inbound::Returned(shard, handled);
                self.at(
                    at,
                    Event::Inbound(self.life, ShardId(peer as u16), returned),
                );
            }
        }
        for action in actions {
            self.act(shard, action);
        }
        self.arm(shard);
        self.check_owners();
        if !self.serving {
            self.look_whether_serving();
        }
    }

    fn arm(&mut self, shard: ShardId) {
        let place = usize::from(shard.0);
        if let Some(at) = self.shards[place].poll_timeout() {
            let at = at.0.max(self.now + 1);
            if self.timer_at[place] <= self.now || at < self.timer_at[place] {
                self.timer_at[place] = at;
                self.at(at, Event::Turn(self.life, shard));
            }
        }
    }

    fn act(&mut self, shard: ShardId, action: Action) {
        match action {
            Action::Batch(to, mut messages) => {
                self.damage(&mut messages);
                let at = if self.plan.bug == Some(Bug::ReorderLink) {
                    self.links.arrival_unordered(self.now, &mut self.rng)
                } else {
                    self.links.arrival(self.now, shard, to, &mut self.rng)
                };
                if self.plan.bug == Some(Bug::LoseBatch) && !self.healing && self.rng.chance(3) {
                    messages.clear();
                }
                self.at(
                    at,
                    Event::Inbound(self.life, to, Inbound::Batch(shard, messages)),
                );
            }
            Action::Bytes(conn, bytes) => self.send_to_client(conn, bytes),
            Action::Closed { conn, cause } => {
                self.note(format_args!("conn {conn} closed by its front: {cause:?}"));
                self.closed(conn, cause);
            }
            Action::Attached { conn } => {
                self.note(format_args!("conn {conn} attached"));
                self.attached(conn);
            }
            Action::Propose(partition, entry) => self.propose(partition, entry),
            Action::Deposed(partition) => self.deposed(partition),
            Action::Note(line) => self.note(format_args!("{line}")),
            Action::Led(partition) => {
                self.leaderless.remove(&partition);
                self.note(format_args!("partition {} is led", partition.0));
            }
        }
    }

    /// The planted bug of a link that changes what it carries.
    fn damage(&mut self, messages: &mut [crate::shell::Message]) {
        if self.plan.bug != Some(Bug::DamagePayload) {
            return;
        }
        for message in messages {
            if let crate::shell::Message::Append { record, .. } = message
                && self.rng.chance(5)
            {
                let mut view = record.view();
                let mut payload = view.payload.to_vec();
                if let Some(last) = payload.last_mut() {
                    *last ^= 1;
                }
                view.payload = &payload;
                *record = courser_contract::Record::copy_of(&view);
            }
        }
    }

    fn look_whether_serving(&mut self) {
        let counts = self.shards.iter().map(Shard::index_counts);
        let (asked, confirmed) = counts.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        if asked == confirmed && self.shards.iter().all(Shard::knows_leaders) {
            self.serving = true;
            self.note(format_args!("the node serves"));
        }
    }

    /// I8: a client id has at most one attached front.
    fn check_owners(&mut self) {
        let mut owners = BTreeMap::new();
        let mut twice = None;
        for (conn, client_id) in self.shards.iter().flat_map(Shard::attached) {
            if let Some(other) = owners.insert(client_id, conn) {
                twice = Some(format!(
                    "I8: {client_id} is attached on connections {other} and {conn}"
                ));
            }
        }
        if let Some(text) = twice {
            self.oracle.fail(text);
        }
    }

    /// A node begins: its partitions come out of their logs.
    fn start(&mut self) {
        self.life += 1;
        self.running = true;
        let life = self.life;
        self.note(format_args!("start {life}"));
        let pool = OutputPool::new(1 << 20);
        let mut fronts = FrontConfig::new(pool);
        fronts.receive_maximum =
            NonZeroU16::new(self.plan.receive_maximum).unwrap_or(NonZeroU16::MIN);
        let fronts = Rc::new(fronts);
        self.links = Links::new(self.plan.shards, self.plan.link_ms);
        self.turn_at.fill(None);
        self.timer_at.fill(u64::MAX);
        self.shards.clear();
        for id in (0..self.plan.shards).map(ShardId) {
            let make = Make {
                id,
                start: self.life,
                places: self.places,
                limits: &self.plan.limits,
                fronts: fronts.clone(),
                bug: self.plan.bug,
            };
            let rng = self.rng.split();
            let store = &self.store;
            self.shards
                .push(Shard::new(make, rng, |id| store.entries(id).to_vec()));
        }
        for partition in self.places.durable() {
            self.elect(partition);
        }
    }

    fn elect(&mut self, partition: PartitionId) {
        if !self.running {
            return;
        }
        self.leaderless.insert(partition);
        let term = self.store.next_term(partition);
        self.note(format_args!(
            "partition {} elects term {}",
            partition.0, term.0
        ));
        self.last_fault = self.now;
        self.inbound(
            self.places.shard_of(partition),
            Inbound::Lead(partition, term),
        );
    }

    /// The partition as its log says, compared with the one that lives: byte for byte.
    pub(crate) fn check_replay(&mut self, id: PartitionId) {
        let shard = &self.shards[usize::from(self.places.shard_of(id).0)];
        let Some(live) = shard.partition(id) else {
            return;
        };
        live.check();
        // Entries on their way to it are in the log already.
        if id.is_volatile() || shard.applied(id) < self.store.entries(id).len() {
            return;
        }
        self.counts.replays += 1;
        let config = partition_config(id, &self.plan.limits);
        let replayed = Partition::replay(config, self.store.entries(id).iter().cloned());
        if replayed.encode_state() != live.encode_state() {
            self.oracle.fail(format!(
                "M9/M42: partition {} differs from its replay",
                id.0
            ));
        }
    }

    /// Every partition.
    pub(crate) fn check_replays(&mut self) {
        let ids: Vec<_> = self
            .shards
            .iter()
            .flat_map(Shard::partitions)
            .map(|(id, _)| id)
            .collect();
        for id in ids {
            self.check_replay(id);
        }
    }
}

/// The first term of a partition is 1.
pub(crate) const fn term_after(term: Term) -> Term {
    Term(term.0 + 1)
}
