//! One shard: its fronts, its partitions, and the turn that drives both. What `courser-broker` does with sockets and rings,
//! here with queues that the world owns.

mod bounds;
mod control;
mod effects;
mod end;
mod hub;
mod index;
mod message;
mod parcels;
mod places;
mod planted;
mod publish;
mod turn;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;

use bytes::Bytes;
use courser_contract::{
    CloseCause, Dropped, FrontId, LogIndex, Now, PartitionId, Recalled, ShardId, Term, ToFront,
};
use courser_engine::{AsideFilters, DiskRoom, Limits, Overflow, Partition, PartitionConfig};
use courser_mqtt::front::{Front, FrontConfig, PreparedScratch};

use self::effects::FrontFx;
use self::hub::Hub;
pub(crate) use self::message::{Action, Message};
pub(crate) use self::places::{Places, Relaxed, class_of_client};
use crate::bug::Bug;
use crate::rng::Rng;

/// What comes to a shard from outside.
#[derive(Debug)]
pub(crate) enum Inbound {
    Accept(u32),
    Bytes(u32, Vec<u8>),
    Lost(u32),
    /// The client does not read, or does again.
    Stall(u32, bool),
    Batch(ShardId, Vec<Message>),
    /// A peer has handled this many batches of this shard.
    Returned(ShardId, u64),
    /// An entry is committed, at this place of its log.
    Committed(PartitionId, LogIndex, Bytes),
    /// How much room the disk has.
    Room(DiskRoom),
    /// Records have been read back.
    Recalled(Recalled),
    /// The operator accepts that records of these entries are lost.
    AcceptLoss(PartitionId, BTreeSet<LogIndex>),
    /// Applying the entry at this place panics.
    Panics(PartitionId, LogIndex),
    /// A partition is set aside.
    Aside(PartitionId, AsideFilters),
    Follow(PartitionId),
    Lead(PartitionId, Term),
}

/// A socket with its front.
#[derive(Debug)]
struct Connection {
    front: Front,
    rest: Vec<u8>,
    unsettled: u32,
    stalled: bool,
    attached: bool,
}

#[derive(Debug)]
struct Owned {
    partition: Partition,
    term: Term,
    /// The first entry of the term is not applied yet.
    elected: bool,
}

/// See the module.
pub(crate) struct Shard {
    hub: Hub,
    fronts: BTreeMap<u32, Connection>,
    partitions: BTreeMap<PartitionId, Owned>,
    pub(crate) inbox: VecDeque<Inbound>,
    config: Rc<FrontConfig>,
    scratch: PreparedScratch,
    handled: Vec<u64>,
}

/// What makes a shard.
pub(crate) struct Make<'a> {
    pub(crate) id: ShardId,
    pub(crate) start: u32,
    pub(crate) places: Places,
    pub(crate) limits: &'a Limits,
    pub(crate) fronts: Rc<FrontConfig>,
    pub(crate) bug: Option<Bug>,
}

impl Shard {
    /// A shard whose durable partitions come out of their logs.
    pub(crate) fn new(
        make: Make<'_>,
        rng: Rng,
        mut recovered: impl FnMut(PartitionConfig) -> Partition,
    ) -> Self {
        let mine = make
            .places
            .logged()
            .filter(|&id| make.places.shard_of(id) == make.id);
        let volatile = PartitionId::volatile_of(make.id);
        let partitions = mine.chain([volatile]).map(|id| {
            let config = make.places.config(id, make.limits);
            let partition = if id.is_volatile() {
                Partition::new(PartitionConfig {
                    start: make.start,
                    ..config
                })
            } else {
                recovered(config)
            };
            let owned = Owned {
                partition,
                term: Term(0),
                elected: false,
            };
            (id, owned)
        });
        let mut partitions: BTreeMap<_, _> = partitions.collect();
        for owned in partitions.values_mut() {
            if let Some(planted) = make.bug.and_then(Bug::in_partition) {
                owned.partition.plant(planted);
            }
        }
        let mut hub = Hub::new(make.id, make.start, make.places, rng, make.bug);
        hub.volatile_answers = make.limits.overflow == Overflow::RefusePublisher;
        Self {
            hub,
            fronts: BTreeMap::new(),
            partitions,
            inbox: VecDeque::new(),
            config: make.fronts,
            scratch: PreparedScratch::default(),
            handled: vec![0; usize::from(make.places.shards)],
        }
    }

    /// Messages that were dropped for this reason since the last call.
    pub(crate) fn take_dropped(&mut self, why: Dropped) -> u64 {
        let dropped = self.hub.dropped.remove(&why);
        dropped.unwrap_or_default()
    }

    /// Index changes that were asked for and confirmed.
    pub(crate) const fn index_counts(&self) -> (u64, u64) {
        (self.hub.index_asked, self.hub.index_confirmed)
    }

    /// The node serves.
    pub(crate) const fn serve(&mut self) {
        self.hub.serves = true;
    }

    /// Whether every shard knows a leader of every partition.
    pub(crate) fn knows_leaders(&self) -> bool {
        self.hub.terms.len() == usize::from(self.hub.places.logs())
    }

    /// A partition of this shard.
    pub(crate) fn partition(&self, id: PartitionId) -> Option<&Partition> {
        self.partitions.get(&id).map(|owned| &owned.partition)
    }

    /// The same, to be asked for a checkpoint.
    pub(crate) fn partition_mut(&mut self, id: PartitionId) -> Option<&mut Partition> {
        self.partitions
            .get_mut(&id)
            .map(|owned| &mut owned.partition)
    }

    /// Partitions of this shard.
    pub(crate) fn partitions(&self) -> impl Iterator<Item = (PartitionId, &Partition)> {
        self.partitions
            .iter()
            .map(|(&id, owned)| (id, &owned.partition))
    }

    /// Client ids of the fronts that are attached (I8).
    pub(crate) fn attached(&self) -> impl Iterator<Item = (u32, &str)> {
        let up = self.fronts.iter().filter(|(_, c)| c.front.home().is_some());
        up.map(|(&conn, c)| (conn, c.front.client_id()))
    }

    fn front_id(&self, conn: u32) -> FrontId {
        FrontId {
            shard: self.hub.id,
            slot: conn,
            generation: 0,
        }
    }

    /// Calls a front and does what follows: bytes that waited, the end.
    fn with_front(
        &mut self,
        conn: u32,
        act: impl FnOnce(&mut Front, Now, &mut FrontFx<'_>, &mut PreparedScratch),
    ) {
        let id = self.front_id(conn);
        let Some(connection) = self.fronts.get_mut(&conn) else {
            return;
        };
        let now = self.hub.now;
        let mut fx = FrontFx {
            hub: &mut self.hub,
            id,
            unsettled: connection.unsettled,
            close: None,
        };
        act(&mut connection.front, now, &mut fx, &mut self.scratch);
        parse(&mut connection.front, &mut connection.rest, now, &mut fx);
        connection.unsettled = fx.unsettled;
        let close = fx.close;
        if !connection.attached && connection.front.home().is_some() {
            connection.attached = true;
            self.hub.actions.push(Action::Attached { conn });
        }
        if let Some(cause) = close {
            self.close(conn, cause);
        }
    }

    fn close(&mut self, conn: u32, cause: CloseCause) {
        if let Some(mut connection) = self.fronts.remove(&conn) {
            let bytes = take_output(&mut connection.front);
            if !bytes.is_empty() && !connection.stalled {
                self.hub.actions.push(Action::Bytes(conn, bytes));
            }
            self.hub.actions.push(Action::Closed { conn, cause });
        }
    }

    fn tell_front(&mut self, front: FrontId, message: ToFront) {
        self.with_front(front.slot, |it, now, fx, _| {
            it.handle_message(now, message, fx)
        });
    }
}

/// Gives a front the bytes that wait, as far as it takes them.
fn parse(front: &mut Front, rest: &mut Vec<u8>, now: Now, fx: &mut FrontFx<'_>) {
    let mut read = false;
    while fx.close.is_none() && front.wants_read() && !rest.is_empty() {
        let taken = front.handle_bytes(now, rest, fx);
        read = true;
        if taken == 0 {
            break;
        }
        rest.drain(..taken);
    }
    if read {
        front.handle_read_end(now, fx);
    }
}

fn take_output(front: &mut Front) -> Vec<u8> {
    let output = front.output();
    let bytes: Vec<u8> = output.slices().flatten().copied().collect();
    output.advance(bytes.len());
    bytes
}
