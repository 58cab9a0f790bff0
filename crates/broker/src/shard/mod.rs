//! A shard: one thread with its sockets, sessions and partitions.
//!
//! All of it is one task of a `tokio` current-thread runtime. Sockets wake places in a queue ([`ready`]); each poll of the
//! task is one turn ([`turn`]). Nothing in a turn waits: what cannot go on now is queued, and its owner says what wakes it.
//!
//! Calls within a shard never nest into the same thing: a front or partition is taken out while it is called, deliveries to
//! other fronts are made at once, everything else is a message that is handled after the call.

mod accept;
mod access;
mod budget;
mod checkpoints;
mod connection;
mod denied;
mod effects_front;
mod effects_partition;
mod fronts;
mod guard;
mod holds;
mod hub;
mod links;
mod memory;
mod messages;
mod metadata;
mod pacing;
mod partitions;
mod placement;
mod publish;
mod questions;
mod ready;
mod recalls;
mod recovery;
mod reports;
mod runs;
mod settings;
mod sockets;
mod stop;
mod strangers;
mod timers;
mod traced;
mod transport;
mod turn;
mod writing;

/// The client of the tests in `tests/`, for those that need what is inside.
#[cfg(test)]
#[path = "../../tests/broker/support/mod.rs"]
pub(crate) mod support;

use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::task::Poll;

use courser_contract::{Now, PartitionId, ShardId, Term};
use courser_engine::{DiskBudget, DiskRoom};
use courser_memory::{PoolLimits, ReceivePool};
use courser_mqtt::front::PreparedScratch;
use rand::SeedableRng;
use rand::rngs::{StdRng, SysRng};
use router::{Reader, Writer};

use self::accept::Accepting;
use self::access::Sweep;
pub(crate) use self::budget::Budget;
use self::checkpoints::{CheckpointLink, Checkpoints};
use self::fronts::Fronts;
use self::hub::{Hub, HubParts, ShardAccess};
use self::memory::MemoryWatch;
use self::messages::Inbound;
use self::pacing::Pacing;
use self::partitions::Partitions;
use self::ready::{Place, ReadyQueue};
use self::recalls::Recalls;
use self::recovery::{Held, ReadAhead, Recovery};
use self::reports::{Busy, Reports};
use self::settings::Tuning;
use self::timers::Timer;
use self::turn::Next;
use crate::access::{Accounts, Logins, Metadata, Reply};
use crate::clock::{Alarm, Clock};
use crate::config::{Config, Pinning};
use crate::control::Desk;
use crate::doors::Inbox;
use crate::listen::BoundListener;
use crate::live::Live;
use crate::memory::MemoryBudget;
use crate::peer::Entrance;
use crate::rings::{Batch, Doze, Ports};
use crate::stations::DiskPorts;
use crate::store::{InMemory, OnDisk, Store, Stores};
use crate::sys::ShardReport;
use crate::timer::Wheel;

pub(crate) use recovery::making;
pub(crate) use stop::{Phase, StopSignal};

/// What a shard's thread is started with.
pub(crate) struct ShardParts {
    pub(crate) id: ShardId,
    pub(crate) config: Arc<Config>,
    /// What it is told later.
    pub(crate) live: Arc<Live>,
    /// All listeners.
    pub(crate) entrances: Arc<[Arc<Entrance>]>,
    pub(crate) memory: Arc<MemoryBudget>,
    pub(crate) clock: Clock,
    pub(crate) ports: Ports,
    pub(crate) listeners: Vec<BoundListener>,
    /// Connections that doors and other shards let in, by shard.
    pub(crate) inboxes: Arc<[Arc<Inbox>]>,
    pub(crate) reader: Reader<PartitionId>,
    /// For shard 0.
    pub(crate) writer: Option<Writer<PartitionId>>,
    pub(crate) connections: Arc<AtomicUsize>,
    pub(crate) stop: Arc<StopSignal>,
    /// Where operators' questions lie.
    pub(crate) desk: Arc<Desk>,
    /// Start counter of this node.
    pub(crate) start: u32,
    /// Users, roles, and what logins need.
    pub(crate) logins: Arc<Logins>,
    /// To the stations; none where nothing is kept.
    pub(crate) disk: Option<DiskPorts>,
}

/// See the module.
pub(crate) struct Shard {
    hub: Hub,
    fronts: Fronts,
    partitions: Partitions,
    scratch: PreparedScratch,
    tuning: Tuning,
    /// Connections from this place on have not been looked at since users and roles changed.
    revoking: Option<Place>,
    /// What is left to do for sessions of users that are gone.
    sweep: Sweep,
    /// The timer of the next token that ends.
    token_end: access::TokenEnd,
    memory: MemoryWatch,
    pool: ReceivePool,
    store: Stores,
    recovery: Recovery,
    /// Messages for partitions that do not serve yet, in order.
    held: Vec<Held>,
    /// Partition 0, on the first shard.
    metadata: Option<Box<Metadata>>,
    /// Of the partitions with a log.
    checkpoints: Option<Checkpoints>,
    /// Where messages are kept on a disk.
    recalls: Option<Recalls>,
    disk_room: DiskRoom,
    disk_budget: DiskBudget,
    timers: Wheel<Timer>,
    /// Timers that fired, with the memory of the last turn.
    due: Vec<Timer>,
    watching: bool,
    ready: Arc<ReadyQueue>,
    /// Places that were woken, with the memory of the last turn.
    woken: VecDeque<Place>,
    /// Sockets to look at, in order.
    sockets: VecDeque<Place>,
    accepting: Accepting,
    /// Of this shard.
    inbox: Arc<Inbox>,
    /// Of all.
    inboxes: Arc<[Arc<Inbox>]>,
    pacing: Pacing,
    /// Batches of peers that are being worked off.
    inbound: Vec<Option<Inbound>>,
    /// The shard's own messages that are being worked off.
    local: Option<Inbound>,
    spare: Batch,
    reports: Reports,
    clock: Clock,
    /// Thread CPU time at the end of the last turn.
    turn_ended_us: u64,
    busy: Busy,
    alarm: Alarm,
    doze: Arc<Doze>,
    desk: Arc<Desk>,
    stop: stop::Stopping,
}

/// Sockets that a turn is told of as ready: what it has no budget for stays with the kernel.
const EVENTS_MAX: usize = 256;

/// Runs a shard until it is stopped; to be called on its own thread. What it has counted is the answer.
///
/// # Errors
/// When the runtime or a listener cannot be set up.
pub(crate) fn run(parts: ShardParts) -> io::Result<ShardReport> {
    if parts.config.pinning == Pinning::Cores {
        pin(parts.id)?;
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .max_io_events_per_tick(EVENTS_MAX)
        .enable_time()
        .build()?;
    runtime.block_on(async move {
        let mut shard = Shard::new(parts)?;
        shard.lead();
        // Without tokio's own budget: a turn has one, and a socket that is told to wait must mean that it has nothing.
        tokio::task::unconstrained(poll_fn(move |context| {
            shard.doze.set_waker(context.waker());
            shard.ready.set_task(context.waker());
            match shard.guarded_turn(context) {
                Next::Turn => {
                    context.waker().wake_by_ref();
                    Poll::Pending
                }
                Next::Sleep => Poll::Pending,
                Next::End => {
                    shard.desk.close();
                    Poll::Ready(Ok(shard.report()))
                }
            }
        }))
        .await
    })
}

/// Binds the calling thread to the core of its number among those that the process may use.
fn pin(shard: ShardId) -> io::Result<()> {
    let allowed = rustix::thread::sched_getaffinity(None)?;
    let cores: Vec<usize> = (0..rustix::thread::CpuSet::MAX_CPU)
        .filter(|&cpu| allowed.is_set(cpu))
        .collect();
    let mut mine = rustix::thread::CpuSet::new();
    mine.set(cores[usize::from(shard.0) % cores.len()]);
    rustix::thread::sched_setaffinity(None, &mine)?;
    Ok(())
}

/// What a shard has towards the stations.
struct Stationed {
    store: Stores,
    recovery: Recovery,
    checkpoints: Option<Checkpoints>,
    recalls: Option<Recalls>,
}

impl Stationed {
    /// Nothing is kept.
    fn in_memory() -> Self {
        Self {
            store: Stores::Memory(InMemory::default()),
            recovery: Recovery::Over,
            checkpoints: None,
            recalls: None,
        }
    }

    fn on_disk(disk: DiskPorts, config: &Config, partitions: &Partitions) -> Self {
        let places = config.places();
        let link = CheckpointLink {
            jobs: disk.jobs,
            done: disk.checkpoints,
            pieces: Arc::default(),
        };
        let every = config.settings.log.checkpoint_bytes.bytes();
        let checkpoints = Checkpoints::new(link, every, places.last_logged(), partitions.ids());
        Self {
            store: Stores::Disk(Box::new(OnDisk::new(places, disk.orders))),
            recovery: Recovery::Reading(Box::new(ReadAhead::new(disk.handed))),
            checkpoints: Some(checkpoints),
            recalls: Some(Recalls::new(disk.questions, disk.recalled)),
        }
    }
}

fn seeded() -> io::Result<StdRng> {
    StdRng::try_from_rng(&mut SysRng).map_err(io::Error::other)
}

impl Shard {
    fn new(parts: ShardParts) -> io::Result<Self> {
        let ShardParts {
            id,
            config,
            mut clock,
            ports,
            listeners,
            inboxes,
            disk,
            desk,
            logins,
            ..
        } = parts;
        let now = clock.now();
        let ready = Arc::new(ReadyQueue::default());
        let doze = Arc::clone(&ports.dozes[usize::from(id.0)]);
        let limits = config.limits(logins.access.table().retained());
        let mut partitions = Partitions::new(id, parts.start, &config.places(), &limits);
        let disk_budget = DiskBudget::default();
        partitions.share_disk_budget(&disk_budget);
        let reply = Reply::new(Arc::clone(&doze));
        let accounts = Accounts::new(Arc::clone(&logins), reply, seeded()?);
        let hub = Hub::new(HubParts {
            id,
            now,
            start: parts.start,
            volatile_answers: limits.overflow() == courser_engine::Overflow::RefusePublisher,
            reader: parts.reader,
            writer: parts.writer,
            ports,
            rng: seeded()?,
            connections: parts.connections,
            access: ShardAccess::new(&logins.access, accounts.clone()),
            disk: disk.as_ref().map(|disk| Arc::clone(&disk.state)),
            config: Arc::clone(&config),
        });
        let stationed = match disk {
            None => Stationed::in_memory(),
            Some(disk) => Stationed::on_disk(disk, &config, &partitions),
        };
        Ok(Self {
            fronts: Fronts::new(id),
            partitions,
            scratch: PreparedScratch::default(),
            tuning: Tuning::new(parts.live, parts.entrances, &config, Rc::new(accounts)),
            revoking: None,
            sweep: access::Sweep::beginning_with(&hub.access.table),
            token_end: access::TokenEnd::default(),
            memory: MemoryWatch::new(parts.memory),
            pool: ReceivePool::new(PoolLimits::default()),
            store: stationed.store,
            recovery: stationed.recovery,
            held: Vec::new(),
            metadata: (id == ShardId(0))
                .then(|| Box::new(Metadata::new(Arc::clone(&logins.access)))),
            checkpoints: stationed.checkpoints,
            recalls: stationed.recalls,
            disk_room: DiskRoom::Enough,
            disk_budget,
            timers: Wheel::new(now.tick),
            due: Vec::new(),
            watching: false,
            woken: VecDeque::new(),
            sockets: VecDeque::new(),
            accepting: Accepting::new(listeners, &ready)?,
            inbox: Arc::clone(&inboxes[usize::from(id.0)]),
            inboxes,
            pacing: Pacing::default(),
            inbound: (0..config.shards).map(|_| None).collect(),
            local: None,
            spare: Batch::default(),
            reports: Reports::new(&config, now),
            clock,
            turn_ended_us: 0,
            busy: Busy::default(),
            alarm: Alarm::default(),
            doze,
            desk,
            stop: stop::Stopping::new(parts.stop, id),
            ready,
            hub,
        })
    }

    /// Where nothing is kept every durable partition leads itself at once; its first entry is committed before anybody is
    /// accepted. With a log there is something to recover first, see [`recovery`].
    fn lead(&mut self) {
        if matches!(self.store, Stores::Disk(_)) {
            return self.begin_reporting();
        }
        for place in 1..self.partitions.len() {
            let id = self.partitions.at(place).id;
            self.with_partition(id, |it, now: Now, fx| it.handle_leader(now, Term(1), fx));
        }
        self.lead_metadata();
        while !self.partitions.dirty.is_empty() || self.store.has_work() {
            self.hub.budget = Budget::of(Budget::TURN);
            self.commit();
            self.store.begin_turn();
            self.handle_commits();
        }
        self.begin_reporting();
    }
}
