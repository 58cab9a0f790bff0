//! What fronts and partitions of a shard share: everything but themselves.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use courser_access::Table;
use courser_contract::{
    Append, Cut, Delivery, Destinations, Fence, FrontId, HomeRef, IndexToken, LogIndex, Now,
    PartitionId, ShardId, Tick, ToFront, ToHome, is_own_topic,
};
use courser_engine::{Limits, Proposed};
use courser_shard::{Appends, FenceBook, FenceId, LastWords, Passed, RoundId, Rounds, Watermarks};
use rand::rngs::StdRng;
use router::{Visited, Writer};

use super::guard::Inside;
use super::ready::Place;
use super::recovery::Early;
use super::writing::{Touched, Unwritten};
use crate::access::{Access, Accounts, Authors};
use crate::classes::Classes;
use crate::config::Config;
use crate::control::{History, Traces};
use crate::index::{IndexRequest, Routes};
use crate::latency::{Latency, Moment};
use crate::memory::Level;
use crate::metrics::Counters;
use crate::rings::{Batch, Mark, Message, Ports};
use crate::slots::Places;
use crate::stations::DiskState;

/// The writer of L1 and its book; only shard 0 has it.
pub(crate) struct IndexWriter {
    pub(crate) writer: Writer<PartitionId>,
    pub(crate) rounds: Rounds,
}

/// What is left of a turn, in units of about 20 ns on a core of 3 GHz (measured: a delivery at QoS 0 with 64 bytes).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Budget(i64);

impl Budget {
    /// A turn's work: about 200 µs. At most half of it for what other shards sent.
    pub(crate) const TURN: i64 = 10_000;
    /// One delivery to a front.
    pub(crate) const DELIVERY: i64 = 1;
    /// What a delivery costs more that is one of hundreds of the same message: each receiver's memory is far away (estimated:
    /// 0.3 µs; turns of 1,900 of them took 3 to 8 ms on a busy machine, their 128 writes included).
    pub(crate) const FAR: i64 = 14;
    /// One append, one timer.
    pub(crate) const STEP: i64 = 4;
    /// One write of a socket, for a connection that is answered: the system call, which on the same machine does the receiver's part too
    /// (measured: 134 of PINGREQ with their answers took 2.0 ms). Deliveries do not pay it: one publish for many would end the batch that
    /// makes their writes few; what a turn writes is bounded by itself ([`write_touched`](super::Shard::write_touched)).
    pub(crate) const ANSWER: i64 = 400;
    /// One message of a ring or of the shard itself.
    pub(crate) const MESSAGE: i64 = 4;
    /// One read of a socket: the system call.
    pub(crate) const READ: i64 = 75;
    /// Bytes of a committed entry that cost as much as one unit (measured: about 1 ns a byte at 128 bytes a message).
    pub(crate) const ENTRY_BYTES: i64 = 20;
    /// One place of a table that an operator's question looks at (estimated: 0.3 µs for a row).
    pub(crate) const ROW: i64 = 15;
    /// One connection that ends: its front, its session, its filters in both indexes, its socket (measured: 10 in a turn took 0.7 to 1.1 ms).
    pub(crate) const CLOSE: i64 = 2_500;
    /// One accepted connection.
    pub(crate) const ACCEPT: i64 = 500;
    /// One filter of a SUBSCRIBE or UNSUBSCRIBE: it is looked up in its session, written, and put into both indexes (measured: 10 to 40 µs,
    /// by how many the session has).
    pub(crate) const FILTER: i64 = 1_000;
    /// One filter that comes into L1 or goes: it is written now and once more behind the readers (measured: 1 to 2 µs).
    pub(crate) const INDEXED: i64 = 80;
    /// One question for retained messages, its answer, or a message in it: an entry is written (measured: 1 to 2 µs).
    pub(crate) const SCAN: i64 = 60;
    /// One node of an index that a match visits, far from the one before it (measured: 43 ns, 16,000 nodes a match).
    const VISIT: i64 = 2;

    /// `units` of work.
    pub(crate) const fn of(units: i64) -> Self {
        Self(units)
    }

    /// Counts work that was done.
    #[inline]
    pub(crate) const fn spend(&mut self, units: i64) {
        self.0 -= units;
    }

    /// Counts what a match took. One that was asked before takes nothing.
    #[inline]
    pub(crate) fn spend_on(&mut self, visited: Visited) {
        self.0 -= Self::VISIT * visited.0 as i64;
    }

    /// Adds units; what was overdrawn is forgiven.
    pub(crate) fn grant(&mut self, units: i64) {
        self.0 = self.0.max(0) + units;
    }

    /// Sets half of what is there aside, which is the answer: [`grant`](Self::grant) gives it back.
    pub(crate) const fn halve(&mut self) -> i64 {
        let aside = if self.0 > 0 { self.0 / 2 } else { 0 };
        self.0 -= aside;
        aside
    }

    /// Whether it is used up.
    #[inline]
    pub(crate) const fn is_spent(self) -> bool {
        self.0 <= 0
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
    pub(crate) ports: Ports,
    /// Messages of this shard to itself.
    pub(crate) local: Batch,
    /// Publishes that wait for partitions, with the moment at which each was received.
    pub(crate) appends: Appends<Moment, ()>,
    pub(crate) last_words: LastWords,
    pub(crate) fences: FenceBook<Mark>,
    /// The last cut of each shard that this one has heard of (M36): what is matched for its partitions carries it.
    pub(crate) cuts: Vec<Cut>,
    pub(crate) index: Option<IndexWriter>,
    pub(crate) counters: Counters,
    pub(crate) latency: Latency,
    /// The bytes of the entry that is being applied: what is delivered out of them is new.
    pub(crate) entry: Range<usize>,
    pub(crate) history: History,
    /// Clients that an operator watches.
    pub(crate) traces: Traces,
    pub(crate) budget: Budget,
    /// Connections that have closed in this turn.
    pub(crate) closed_in_turn: u64,
    pub(crate) rng: StdRng,
    /// Whether volatile partitions may refuse publishers, so that a publish waits for their answers (M13).
    pub(crate) volatile_answers: bool,
    /// Since when links are full, by peer.
    pub(crate) congested: Vec<Option<Tick>>,
    /// Set when an append was added to a full link: whoever added it waits.
    pub(crate) overfull: bool,
    /// Set when an append of the front that is being called went to a session that is slower than it.
    pub(crate) slow: bool,
    /// How near the memory of the process is to its end.
    pub(crate) memory: Level,
    /// Whose code runs, for panics.
    pub(crate) inside: Inside,
    /// Kept sessions of this shard that have got a connection, and have not been told what they may use by the table of now.
    pub(crate) attached: Vec<HomeRef>,
    /// The entry that is being applied, for panics (M50).
    pub(crate) applying: Option<(PartitionId, LogIndex)>,
    /// Connections that are not read until a link has room.
    pub(crate) waiting_for_link: Vec<Place>,
    /// Connections with output to write.
    pub(crate) touched: Touched,
    /// Those of earlier turns.
    pub(crate) unwritten: Unwritten,
    /// Connections of the process.
    pub(crate) connections: Arc<AtomicUsize>,
    /// Users and roles.
    pub(crate) access: Arc<Access>,
    /// The table that counts on this shard.
    pub(crate) table: Arc<Table>,
    /// Rights of those who have retained messages in partitions of this shard.
    pub(crate) authors: Authors,
    /// Logins of this shard.
    pub(crate) accounts: Accounts,
    /// Whether CONNECT is taken: all partitions of the process serve (M39).
    pub(crate) serving: bool,
    /// CONNECTs that came before, until when each waits, in order.
    pub(crate) early: VecDeque<Early>,
    /// What the stations know; none where nothing is kept.
    pub(crate) disk: Option<Arc<DiskState>>,
}

/// Bytes of one shard that may be on their way to the disk before it stops reading sockets.
const DISK_BACKLOG_MAX: usize = 32 << 20;

/// How long a shard does not read sockets for want of room on a link, in milliseconds (M49).
pub(crate) const NOT_READING_MS: u64 = 5_000;

impl Hub {
    /// Limits of its partitions, by the settings and the domain of now.
    pub(crate) fn partition_limits(&self) -> Limits {
        self.config.limits(self.table.retained())
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
        if shard == self.id {
            return &mut self.local;
        }
        self.ports.to[usize::from(shard.0)]
            .as_mut()
            .expect("every other shard is a peer")
            .batch()
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
        let sender = self.ports.to[usize::from(shard.0)]
            .as_mut()
            .expect("every other shard is a peer");
        let batch = sender.batch();
        batch.push_append(partition, append, front);
        batch.note_received(self.latency.handling());
        self.overfull |= !sender.has_room();
    }

    /// When a message was received that is delivered now; none: it has waited somewhere. What is only routed never does, and what is
    /// stored has not if it is out of the entry that is being applied.
    #[inline]
    pub(crate) fn received(&self, delivery: &Delivery<'_>) -> Option<Moment> {
        let is_new = delivery.record.is_none_or(|record| {
            let place = record.block().as_ptr() as usize;
            self.entry.contains(&place)
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

    /// Sends a message to every shard, this one included.
    pub(crate) fn send_all(&mut self, mut message: impl FnMut() -> Message) {
        for shard in (0..self.places.shards()).map(ShardId) {
            let message = message();
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
        let (id, first) = self.fences.ask(partition, token, fence);
        self.send_all(|| Message::FenceAsk(id, first));
    }

    /// A shard has answered a fence. Whom to tell, when that was the last answer.
    pub(crate) fn fence_passed(&mut self, id: FenceId) -> Option<(PartitionId, IndexToken)> {
        match self.fences.passed(id)? {
            Passed::Again(fence) => {
                self.send_all(|| Message::FenceAsk(id, fence));
                None
            }
            Passed::Wholly(partition, token) => Some((partition, token)),
        }
    }

    /// The last cut of the shard of a partition that this shard has heard of.
    #[inline]
    pub(crate) fn cut(&self, partition: PartitionId) -> Cut {
        self.cuts[usize::from(self.places.shard_of(partition).0)]
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
        self.send_all(|| Message::IndexPublished(round));
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
                .push(Message::IndexConfirmed(partition, token));
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
            appends: self.appends.watermarks().collect(),
            proposed: Vec::new(),
        }
    }

    /// Answers the fences whose marks have been passed.
    pub(crate) fn settle_fences(&mut self, applied: impl Fn(PartitionId, &mut Proposed) -> bool) {
        if !self.fences.owes() {
            return;
        }
        let mut passed = Vec::new();
        let Self {
            fences,
            ports,
            appends,
            ..
        } = self;
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
                    self.batch(id.asker).push(Message::FencePassed(id));
                }
                // What partitions sent on without a number until now comes first (M13).
                Fence::Forwarded => {
                    let me = self.id;
                    self.batch(me).push(Message::FenceAsk(id, Fence::Matched));
                }
            }
        }
    }

    /// Takes note of a disk that is slower than the publishers: as a link of the shard to itself that is full.
    pub(crate) fn watch_disk(&mut self, backlog_bytes: usize) {
        let since = &mut self.congested[usize::from(self.id.0)];
        match (backlog_bytes < DISK_BACKLOG_MAX, &since) {
            (true, _) => *since = None,
            (false, None) => *since = Some(self.now.tick),
            (false, Some(_)) => {}
        }
    }

    /// Whether a link is full; the one of this shard to itself is its disk's.
    #[inline]
    pub(crate) fn is_congested(&self, shard: ShardId) -> bool {
        self.congested[usize::from(shard.0)].is_some()
    }

    /// Takes note of links that became full or free.
    pub(crate) fn watch_links(&mut self) {
        for (sender, since) in self.ports.to.iter_mut().zip(&mut self.congested) {
            let Some(sender) = sender else { continue };
            match (sender.has_room(), &since) {
                (true, _) => *since = None,
                (false, None) => *since = Some(self.now.tick),
                (false, Some(_)) => {}
            }
        }
    }

    /// Whether a link refuses requests: it has been full for as long as a socket may stay unread (M49).
    pub(crate) fn refuses(&self, shard: ShardId) -> bool {
        self.congested[usize::from(shard.0)]
            .is_some_and(|since| self.now.tick >= since.after_ms(NOT_READING_MS))
    }

    /// Whether a connection that is not read for want of room on a link may be read again.
    pub(crate) fn may_read_again(&self) -> bool {
        (0..self.congested.len())
            .all(|shard| self.congested[shard].is_none() || self.refuses(ShardId(shard as u16)))
    }
}

#[cfg(test)]
mod tests;
