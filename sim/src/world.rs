//! The world: virtual time, shards, links, logs, sockets and clients, all moved by one queue of events.

mod checks;
mod disk;
mod faults;
mod heal;
mod net;
mod node;
mod outcome;
mod store;
mod turns;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use courser_contract::{Now, PartitionId, ShardId, Term, Tick, WallMs};

use self::disk::{DiskEvent, DiskNode};
use self::net::Net;
pub use self::outcome::{Counts, Outcome};
use self::store::Store;
use crate::client::Client;
use crate::link::Links;
use crate::oracle::Oracle;
use crate::rng::Rng;
use crate::seeds::Plan;
use crate::shell::{Inbound, Places, Shard};

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
    /// A partition gets a leader again, in this life of the node.
    Elect(u32, PartitionId),
    Disk(DiskEvent),
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
    /// The node's disk, in worlds that have one; `store` is for the others.
    disk: Option<Box<DiskNode>>,
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
    if plan.members > 0 {
        return crate::members::run(&plan);
    }
    let mut world = World::new(plan);
    world.live();
    Outcome {
        violation: world.oracle.violation.take(),
        counts: world.counts,
        uses: world.oracle.uses,
        trace: world.trace,
    }
}

impl World {
    fn new(plan: Plan) -> Self {
        let mut rng = Rng::new(plan.seed);
        let places = Places {
            partitions: plan.partitions,
            shards: plan.shards,
            relaxed: plan.relaxed(),
        };
        let clients = (0..plan.clients)
            .map(|place| Client::new(place, &plan, &mut rng))
            .collect();
        let shards = usize::from(plan.shards);
        Self {
            links: Links::new(plan.shards, plan.link_ms),
            store: Store::new(&places),
            disk: DiskNode::new(&plan, &places).map(Box::new),
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
            Event::ToClient(conn, bytes) => self.arrive_at_client(conn, bytes),
            Event::Deed(client) => self.deed(client),
            Event::Kill => self.kill(),
            Event::Start => self.start(),
            Event::Depose => self.depose(),
            Event::Elect(life, partition) => {
                if life == self.life {
                    self.elect(partition);
                }
            }
            Event::Disk(event) => self.disk_event(event),
        }
    }

    pub(crate) fn clock(&self) -> Now {
        Now {
            tick: Tick(self.now),
            wall: WallMs(WALL_BEGIN + self.now),
        }
    }
}

/// The first term of a partition is 1.
pub(crate) const fn term_after(term: Term) -> Term {
    Term(term.0 + 1)
}
