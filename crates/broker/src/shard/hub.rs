//! What fronts and partitions of a shard share: everything but themselves.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use courser_access::Table;
use courser_contract::{
    Append, Cut, Delivery, Destinations, Fence, FrontId, HomeRef, IndexToken, LogIndex, Now,
    Origin, PartitionId, ShardId, ToFront, ToHome, is_own_topic,
};
use courser_engine::Proposed;
use courser_shard::{Appends, FenceBook, FenceId, LastWords, Passed, RoundId, Rounds, Watermarks};
use rand::rngs::StdRng;
use router::{Reader, Writer};

use super::budget::Budget;
use super::guard::Inside;
use super::links::Links;
use super::publish::entry_bytes_max;
use super::recovery::Early;
use super::writing::Unsent;
use crate::access::{Access, Accounts, Authors};
use crate::classes::Classes;
use crate::config::Config;
use crate::control::{History, Traces};
use crate::index::{IndexRequest, Routes};
use crate::latency::{Latency, Moment};
use crate::memory::Level;
use crate::metrics::Counters;
use crate::partition_limits::PartitionLimits;
use crate::rings::{Batch, Control, Mark, Message, Ports};
use crate::slots::Places;
use crate::stations::DiskState;

/// The writer of L1 and its book; only shard 0 has it.
pub(crate) struct IndexWriter {
    pub(crate) writer: Writer<PartitionId>,
    pub(crate) rounds: Rounds,
}

/// What this shard remembers of what it has sent.
pub(crate) struct Books {
    /// Publishes that wait for partitions, with the moment at which each was received.
    pub(crate) appends: Appends<Moment, ()>,
    pub(crate) last_words: LastWords,
    pub(crate) fences: FenceBook<Mark>,
    /// The last cut of each shard that this one has heard of (M36): what is matched for its partitions carries it.
    pub(crate) cuts: Vec<Cut>,
}

impl Books {
    /// Empty ones of a shard that numbers its appends as `origin`.
    pub(crate) fn new(origin: Origin, places: &Places) -> Self {
        let shards = places.shards();
        Self {
            appends: Appends::new(origin, places.last_logged() + 1, shards),
            last_words: LastWords::default(),
            fences: FenceBook::new(origin.shard, shards),
            cuts: vec![Cut(0); usize::from(shards)],
        }
    }
}

/// The entry that is being applied.
#[derive(Default)]
pub(crate) struct Applying {
    /// Which, for panics (M50).
    pub(crate) entry: Option<(PartitionId, LogIndex)>,
    /// Its bytes: what is delivered out of them is new.
    pub(crate) bytes: Range<usize>,
}

/// What operators see of clients.
pub(crate) struct Watch {
    pub(crate) history: History,
    /// Clients that an operator watches.
    pub(crate) traces: Traces,
}

/// Users, roles, and who is logged in on this shard.
pub(crate) struct ShardAccess {
    /// Of the process.
    pub(crate) process: Arc<Access>,
    /// The table that counts on this shard.
    pub(crate) table: Arc<Table>,
    /// Rights of those who have retained messages in partitions of this shard.
    pub(crate) authors: Authors,
    /// Logins of this shard.
    pub(crate) accounts: Accounts,
    /// Kept sessions of this shard that have got a connection, and have not been told what they may use by the table of now.
    pub(crate) attached: Vec<HomeRef>,
}

impl ShardAccess {
    /// What counts at the start of a shard.
    pub(crate) fn new(process: &Arc<Access>, accounts: Accounts) -> Self {
        Self {
            process: Arc::clone(process),
            table: process.table(),
            authors: Authors::default(),
            accounts,
            attached: Vec::new(),
        }
    }
}

/// See the module.
pub(crate) struct Hub {
    pub(crate) id: ShardId,
    pub(crate) now: Now,
    pub(crate) config: Arc<Config>,
    pub(crate) places: Places,
    pub(crate) classes: Classes,
    pub(crate) routes: Routes,
    pub(crate) links: Links,
    pub(crate) books: Books,
    pub(crate) index: Option<IndexWriter>,
    pub(crate) counters: Counters,
    pub(crate) latency: Latency,
    pub(crate) applying: Applying,
    pub(crate) watch: Watch,
    pub(crate) budget: Budget,
    /// Connections that have closed in this turn.
    pub(crate) closed_in_turn: u64,
    /// Connections that were let in in this turn.
    pub(crate) let_in_in_turn: u64,
    /// Sockets that were read in this turn, of connections that are open and of those that are closing.
    pub(crate) read_in_turn: u64,
    pub(crate) rng: StdRng,
    /// Whether volatile partitions may refuse publishers, so that a publish waits for their answers (M13).
    pub(crate) volatile_answers: bool,
    /// See [`entry_bytes_max`].
    pub(crate) entry_bytes_max: usize,
    /// Set when an append of the front that is being called went to a session that is slower than it.
    pub(crate) slow: bool,
    /// How near the memory of the process is to its end.
    pub(crate) memory: Level,
    /// Whose code runs, for panics.
    pub(crate) inside: Inside,
    /// Connections with output to write.
    pub(crate) output: Unsent,
    /// Connections of the process.
    pub(crate) connections: Arc<AtomicUsize>,
    pub(crate) access: ShardAccess,
    /// Whether CONNECT is taken: all partitions of the process serve (M39).
    pub(crate) serving: bool,
    /// CONNECTs that came before, until when each waits, in order.
    pub(crate) early: VecDeque<Early>,
    /// What the stations know; none where nothing is kept.
    pub(crate) disk: Option<Arc<DiskState>>,
}

/// What a hub is made of.
pub(crate) struct HubParts {
    pub(crate) id: ShardId,
    pub(crate) now: Now,
    /// Start counter of this node.
    pub(crate) start: u32,
    pub(crate) config: Arc<Config>,
    pub(crate) volatile_answers: bool,
    pub(crate) reader: Reader<PartitionId>,
    /// For shard 0.
    pub(crate) writer: Option<Writer<PartitionId>>,
    pub(crate) ports: Ports,
    pub(crate) rng: StdRng,
    pub(crate) connections: Arc<AtomicUsize>,
    pub(crate) access: ShardAccess,
    pub(crate) disk: Option<Arc<DiskState>>,
}

impl Hub {
    /// The hub of a shard before its first turn.
    pub(crate) fn new(parts: HubParts) -> Self {
        let id = parts.id;
        let places = parts.config.places();
        let origin = Origin {
            node: 0,
            shard: id,
            start: parts.start,
        };
        Self {
            id,
            now: parts.now,
            classes: Classes::new(places, &parts.config.settings.classes),
            routes: Routes::new(parts.reader),
            links: Links::new(id, parts.ports),
            books: Books::new(origin, &places),
            index: parts.writer.map(|writer| IndexWriter {
                writer,
                rounds: Rounds::new(places.shards()),
            }),
            counters: Counters::default(),
            latency: Latency::default(),
            applying: Applying::default(),
            watch: Watch {
                history: History::new(parts.config.memory_max, parts.config.shards),
                traces: Traces::default(),
            },
            budget: Budget::of(Budget::TURN),
            closed_in_turn: 0,
            let_in_in_turn: 0,
            read_in_turn: 0,
            rng: parts.rng,
            volatile_answers: parts.volatile_answers,
            entry_bytes_max: entry_bytes_max(parts.config.settings.log.segment_bytes.bytes()),
            slow: false,
            memory: Level::Free,
            inside: Inside::default(),
            output: Unsent::default(),
            connections: parts.connections,
            access: parts.access,
            serving: parts.disk.is_none(),
            early: VecDeque::new(),
            disk: parts.disk,
            places,
            config: parts.config,
        }
    }

    /// A socket is read: the system call is paid for, whatever it brings and whoever it is of.
    #[inline]
    pub(crate) const fn spend_read(&mut self) {
        self.budget.spend(Budget::READ);
        self.read_in_turn += 1;
    }

    /// Limits of its partitions, by the settings and the domain of now.
    pub(crate) fn partition_limits(&self) -> PartitionLimits {
        self.config.limits(self.access.table.retained())
    }

    /// What the stations know.
    ///
    /// # Panics
    /// Where nothing is kept.
    pub(crate) fn disk_state(&self) -> &DiskState {
        self.disk
            .as_deref()
            .expect("a shard with a log knows its disk")
    }

    /// The batch for a shard: a ring's, or the one of this shard to itself.
    #[inline]
    pub(crate) fn batch(&mut self, shard: ShardId) -> &mut Batch {
        self.links.batch(shard)
    }

    /// Adds an append to the link to `shard`, and notes when that is full.
    #[inline]
    pub(crate) fn push_append(
        &mut self,
        shard: ShardId,
        partition: PartitionId,
        append: &Append<'_>,
        front: Option<FrontId>,
    ) {
        let received = self.latency.handling();
        self.links
            .push_append(shard, partition, append, front, received);
    }

    /// When a message was received that is delivered now; none: it has waited somewhere. What is only routed never does, and what is
    /// stored has not if it is out of the entry that is being applied.
    #[inline]
    pub(crate) fn received(&self, delivery: &Delivery<'_>) -> Option<Moment> {
        let is_new = delivery.record.is_none_or(|record| {
            let place = record.block().as_ptr() as usize;
            self.applying.bytes.contains(&place)
        });
        self.latency.handling().filter(|_| is_new)
    }

    /// Something else is handled from now on, which was received then; gives what was handled before.
    #[inline]
    pub(crate) fn handle_received(&mut self, received: Option<Moment>) -> Option<Moment> {
        let delivered = self.counters.publishes_sent;
        self.latency.handle(received, delivered)
    }

    /// Sends a message to the shard of a partition.
    pub(crate) fn send_home(&mut self, partition: PartitionId, message: ToHome) {
        let shard = self.places.shard_of(partition);
        self.batch(shard).push(Message::Home(partition, message));
    }

    /// Sends a message to a front wherever it is.
    pub(crate) fn send_front(&mut self, front: FrontId, message: ToFront) {
        self.batch(front.shard).push(Message::Front(front, message));
    }

    /// Tells every shard, this one included.
    pub(crate) fn send_all(&mut self, mut control: impl FnMut() -> Control) {
        for shard in (0..self.places.shards()).map(ShardId) {
            let message = Message::Control(control());
            self.batch(shard).push(message);
        }
    }

    /// Where L1 sends the message of a client now; nowhere if the topic is the broker's own.
    pub(crate) fn destinations_of_client(&mut self, topic: &str, retain: bool) -> Destinations {
        if is_own_topic(topic) {
            return Destinations::new();
        }
        self.destinations(topic, retain)
    }

    /// Where L1 sends a topic now, with the keeper of its retained message if the publish sets RETAIN.
    pub(crate) fn destinations(&mut self, topic: &str, retain: bool) -> Destinations {
        let keeper = retain.then(|| self.classes.retained(topic));
        self.routes.destinations(topic, keeper, &mut self.budget)
    }

    /// Asks every shard whether it has pushed and settled what it matched before (M34), and with a cut to count what it matches from then on
    /// behind that (M36).
    pub(crate) fn ask_fence(&mut self, partition: PartitionId, token: IndexToken, fence: Fence) {
        let (id, first) = self.books.fences.ask(partition, token, fence);
        self.send_all(|| Control::FenceAsk(id, first));
    }

    /// A shard has answered a fence. Whom to tell, when that was the last answer.
    pub(crate) fn fence_passed(&mut self, id: FenceId) -> Option<(PartitionId, IndexToken)> {
        match self.books.fences.passed(id)? {
            Passed::Again(fence) => {
                self.send_all(|| Control::FenceAsk(id, fence));
                None
            }
            Passed::Wholly(partition, token) => Some((partition, token)),
        }
    }

    /// The last cut of the shard of a partition that this shard has heard of.
    #[inline]
    pub(crate) fn cut(&self, partition: PartitionId) -> Cut {
        self.books.cuts[usize::from(self.places.shard_of(partition).0)]
    }

    /// Gathers a change of L1, on shard 0.
    pub(crate) fn change_index(&mut self, request: &IndexRequest) {
        let IndexWriter { writer, rounds } = self.index.as_mut().expect("shard 0 writes the index");
        for filter in &request.change.remove {
            writer.remove(filter, &request.partition);
        }
        for filter in &request.change.add {
            writer.insert(filter, request.partition);
        }
        rounds.add(request.partition, request.token);
    }

    /// Publishes what was gathered and tells every shard. Tries again in the next turn while a shard still matches in the
    /// copy that is to be written.
    pub(crate) fn publish_index(&mut self) {
        let Some(IndexWriter { writer, rounds }) = &mut self.index else {
            return;
        };
        if !rounds.has_changes() || writer.try_publish().is_err() {
            return;
        }
        let round = rounds.publish();
        self.send_all(|| Control::IndexPublished(round));
    }

    /// A shard uses the index of a round. Partitions whose changes all shards use are told.
    pub(crate) fn index_used(&mut self, shard: ShardId, round: RoundId) {
        let index = self.index.as_mut().expect("shard 0 writes the index");
        let mut confirmed = Vec::new();
        index.rounds.used(shard, round, |partition, token| {
            confirmed.push((partition, token))
        });
        for (partition, token) in confirmed {
            let home = self.places.shard_of(partition);
            self.batch(home)
                .push(Message::Control(Control::IndexConfirmed(partition, token)));
        }
    }

    /// Whether changes of L1 wait to be published.
    pub(crate) fn has_index_changes(&self) -> bool {
        self.index
            .as_ref()
            .is_some_and(|index| index.rounds.has_changes())
    }

    /// How far this shard has come, for a fence.
    pub(crate) fn watermarks(&self) -> Watermarks<Mark> {
        let links = self
            .links
            .ports
            .to
            .iter()
            .enumerate()
            .filter_map(|(peer, sender)| {
                let sender = sender.as_ref()?;
                let mark = sender.mark();
                (!sender.has_passed(mark)).then_some((ShardId(peer as u16), mark))
            });
        Watermarks {
            links: links.collect(),
            appends: self.books.appends.watermarks().collect(),
            proposed: Vec::new(),
        }
    }

    /// Answers the fences whose marks have been passed.
    pub(crate) fn settle_fences(&mut self, applied: impl Fn(PartitionId, &mut Proposed) -> bool) {
        if !self.books.fences.owes() {
            return;
        }
        let mut passed = Vec::new();
        let Self { books, links, .. } = self;
        let (fences, appends, ports) = (&mut books.fences, &books.appends, &links.ports);
        fences.settle(
            |peer, mark| {
                ports.to[usize::from(peer.0)]
                    .as_ref()
                    .is_none_or(|sender| sender.has_passed(mark))
            },
            |partition, number| appends.is_settled_below(partition, number),
            applied,
            |id, fence| passed.push((id, fence)),
        );
        for (id, fence) in passed {
            match fence {
                Fence::Matched | Fence::Cut(_) => {
                    self.batch(id.asker)
                        .push(Message::Control(Control::FencePassed(id)));
                }
                // What partitions sent on without a number until now comes first (M13).
                Fence::Forwarded => {
                    let me = self.id;
                    self.batch(me)
                        .push(Message::Control(Control::FenceAsk(id, Fence::Matched)));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
