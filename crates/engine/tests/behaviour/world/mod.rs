//! A shell for tests: partitions in one thread, commits that are late, refused or lost, leaders that go, an index and fences
//! that answer when they should. After every step each partition is built again from its entries and must be byte-equal.

mod checkpoints;
mod client;
mod effects;
mod recalls;

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use courser_contract::{
    Append, AppendKey, AppendNumber, Class, Cut, DetachCause, FrontId, HomeRef, IndexToken,
    LogIndex, Now, Origin, PartitionId, Publish, QoS, Record, RecordRef, Settled, ShardId, Term,
    Tick, ToHome, Uptake, WallMs, owner_name,
};
use courser_engine::{AsideFilters, Limits, Pace, Partition, PartitionConfig};

pub(crate) use checkpoints::{Checkpoints, Whole};
pub(crate) use client::{Acks, Client, Got, Options};
pub(crate) use effects::Effects;
use recalls::Reader;
pub(crate) use recalls::Recalling;

/// Where sessions with a lifetime live in most tests.
pub(crate) const DURABLE: PartitionId = PartitionId(1);
/// Another one.
pub(crate) const OTHER: PartitionId = PartitionId(2);
/// The one without a log.
pub(crate) const VOLATILE: PartitionId = PartitionId::volatile_of(ShardId(0));

/// Next to nothing: in every story messages leave memory and come back.
const HOT_BYTES: u64 = 300;

/// How commits come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Commits {
    /// In the turn in which an entry was taken.
    AtOnce,
    /// When the test says so.
    Held,
}

pub(crate) struct Node {
    pub(crate) partition: Partition,
    /// What is committed, and where: consensus has entries of its own in between.
    pub(crate) log: Vec<(LogIndex, Bytes)>,
    /// The last place of the log that is taken.
    last: LogIndex,
    /// What was proposed and is not committed.
    pub(crate) proposed: VecDeque<Bytes>,
    pub(crate) term: u64,
    pub(crate) checkpoints: Checkpoints,
    reader: Reader,
}

/// A publish that waits for a partition.
#[derive(Clone)]
struct Unsettled {
    record: Record,
    keep_retained: bool,
    cut: Cut,
    publish: usize,
}

/// A fence that has not passed.
struct WaitingFence {
    at: PartitionId,
    token: IndexToken,
    /// Entries that each partition must have.
    marks: BTreeMap<PartitionId, usize>,
    /// Publishes that must be settled; those that a leader has lost are sent again.
    unsettled: Vec<(PartitionId, u64)>,
}

pub(crate) struct World {
    pub(crate) nodes: BTreeMap<PartitionId, Node>,
    pub(crate) fx: Effects,
    pub(crate) now: Now,
    pub(crate) commits: Commits,
    pub(crate) recalling: Recalling,
    pub(crate) clients: Vec<Client>,
    pub(crate) config: BTreeMap<PartitionId, PartitionConfig>,
    next_number: BTreeMap<PartitionId, u64>,
    unsettled: BTreeMap<PartitionId, BTreeMap<u64, Unsettled>>,
    /// Answers of publishes: how many destinations still wait, and the worst result.
    pub(crate) publishes: Vec<(usize, Settled)>,
    fences: Vec<WaitingFence>,
    next_slot: u32,
    /// Checkpoints that have become whole.
    pub(crate) checkpoints: usize,
    /// The disk has lost something: partitions are not what their entries make of them.
    pub(crate) damaged: bool,
    /// They are written with a bug.
    #[cfg(feature = "planted")]
    pub(crate) plant_late_pieces: bool,
}

const ORIGIN: Origin = Origin {
    node: 0,
    shard: ShardId(0),
    start: 1,
};

impl World {
    pub(crate) fn new() -> Self {
        Self::with_limits(Limits::default())
    }

    pub(crate) fn with_limits(limits: Limits) -> Self {
        Self::with_hot(limits, HOT_BYTES)
    }

    /// So many bytes of messages that wait may be in the memory of a partition.
    pub(crate) fn with_hot(mut limits: Limits, hot_bytes: u64) -> Self {
        limits.hot_bytes = hot_bytes;
        let mut world = Self {
            nodes: BTreeMap::new(),
            fx: Effects::default(),
            now: Now {
                tick: Tick(1_000),
                wall: WallMs(1_000_000),
            },
            commits: Commits::AtOnce,
            recalling: Recalling::AtOnce,
            clients: Vec::new(),
            config: BTreeMap::new(),
            next_number: BTreeMap::new(),
            unsettled: BTreeMap::new(),
            publishes: Vec::new(),
            fences: Vec::new(),
            next_slot: 0,
            checkpoints: 0,
            damaged: false,
            #[cfg(feature = "planted")]
            plant_late_pieces: false,
        };
        for (id, class) in [
            (DURABLE, Class::Durable),
            (OTHER, Class::Durable),
            (VOLATILE, Class::Volatile),
        ] {
            let mut config = PartitionConfig::new(id, class);
            config.limits = limits.clone();
            world.config.insert(id, config.clone());
            world.fx.partitions.push(id);
            let node = Node {
                partition: Partition::new(config),
                log: Vec::new(),
                last: LogIndex(0),
                proposed: VecDeque::new(),
                term: 0,
                checkpoints: Checkpoints::default(),
                reader: Reader::default(),
            };
            world.nodes.insert(id, node);
        }
        world.elect(DURABLE);
        world.elect(OTHER);
        world.settle();
        world
    }

    /// Calls a partition.
    pub(crate) fn call<R>(
        &mut self,
        id: PartitionId,
        call: impl FnOnce(&mut Partition, Now, &mut Effects) -> R,
    ) -> R {
        let node = self.nodes.get_mut(&id).expect("a partition of the world");
        self.fx.at = effects::Asker(id);
        call(&mut node.partition, self.now, &mut self.fx)
    }

    /// Gives a partition the leadership, in a new term.
    pub(crate) fn elect(&mut self, id: PartitionId) {
        let node = self.nodes.get_mut(&id).expect("a partition of the world");
        node.term += 1;
        node.last = node.last.next();
        let term = Term(node.term);
        self.call(id, |partition, now, fx| {
            partition.handle_leader(now, term, fx)
        });
    }

    /// Takes it away; of what was proposed, the first `kept` entries still commit.
    pub(crate) fn depose(&mut self, id: PartitionId, kept: usize) {
        self.call(id, |partition, now, fx| partition.handle_follower(now, fx));
        let node = self.nodes.get_mut(&id).expect("a partition of the world");
        node.proposed.truncate(kept);
        while self.commit_one(id) {}
        self.forget_proposed(id);
    }

    /// What was proposed and is lost: no fence waits for it, but for what is sent again.
    fn forget_proposed(&mut self, id: PartitionId) {
        let there = self.nodes[&id].log.len();
        for fence in &mut self.fences {
            let mark = fence.marks.entry(id).or_default();
            *mark = there.min(*mark);
        }
    }

    /// Stops a partition and starts it again from its checkpoint and its log.
    pub(crate) fn restart(&mut self, id: PartitionId) {
        let started = self.started(id);
        self.put(id, started);
        self.elect(id);
    }

    /// The same, after the disk has lost entries that the checkpoint needs. To be settled by the test.
    pub(crate) fn restart_without(&mut self, id: PartitionId, lost: &[LogIndex]) {
        self.damaged = true;
        let started = self.started_without(id, lost);
        self.put(id, started);
        self.elect(id);
    }

    /// The same, after the disk has lost what comes behind an entry: the partition is set aside.
    pub(crate) fn restart_aside(&mut self, id: PartitionId, last: LogIndex, filters: AsideFilters) {
        self.damaged = true;
        let node = &self.nodes[&id];
        let kept = node.log.iter().filter(|(at, _)| *at <= last).cloned();
        let started = Partition::replay(self.config[&id].clone(), kept);
        self.put(id, started);
        self.fx.l1.retain(|(partition, _), ()| *partition != id);
        self.call(id, |partition, now, fx| {
            partition.set_aside(now, filters, fx)
        });
    }

    /// A partition that was started takes the place of the one that was there. To be elected by the test.
    pub(crate) fn put(&mut self, id: PartitionId, started: Partition) {
        let node = self.nodes.get_mut(&id).expect("a partition of the world");
        node.proposed.clear();
        node.reader = Reader::default();
        node.partition = started;
        self.fx.kept.retain(|(partition, _), _| *partition != id);
        for client in &mut self.clients {
            if client.home.is_some_and(|home| home.partition == id) {
                client.lost();
            }
        }
        self.forget_proposed(id);
    }

    /// Sends again what is unsettled, in number order (M14).
    pub(crate) fn resend(&mut self, id: PartitionId) {
        let waiting = self.unsettled.get(&id).cloned().unwrap_or_default();
        let floor = waiting.keys().next().copied().unwrap_or(1);
        for (number, unsettled) in waiting {
            self.append(id, number, floor, &unsettled);
        }
    }

    fn append(&mut self, id: PartitionId, number: u64, floor: u64, unsettled: &Unsettled) {
        let append = Append {
            key: AppendKey::Numbered {
                origin: ORIGIN,
                number: AppendNumber(number),
                floor: AppendNumber(floor),
            },
            publish: &unsettled.record.view().into(),
            keep_retained: unsettled.keep_retained,
            deliver: true,
            cut: unsettled.cut,
        };
        self.call(id, |partition, now, fx| {
            partition.handle_append(now, &append, fx)
        });
    }

    /// Appends to one partition without a number, and says what it tells the publisher's shard.
    pub(crate) fn append_to(&mut self, id: PartitionId, publish: &Publish<'_>) -> Pace {
        let append = Append {
            key: AppendKey::Unanswered,
            publish,
            keep_retained: false,
            deliver: true,
            cut: self.fx.cut,
        };
        self.call(id, |partition, now, fx| {
            partition.handle_append(now, &append, fx)
        })
    }

    /// Publishes as a shard does; returns the number of the ticket.
    pub(crate) fn publish(&mut self, publish: &Publish<'_>) -> usize {
        let destinations = self.fx.route(publish.topic, publish.retain);
        let ticket = self.publishes.len();
        self.publishes.push((0, Settled::Ok));
        for id in destinations {
            let keep_retained = publish.retain && self.fx.keeper(publish.topic) == id;
            if id.is_volatile() || publish.qos == QoS::AtMostOnce {
                let append = Append {
                    key: AppendKey::Unanswered,
                    publish,
                    keep_retained,
                    deliver: true,
                    cut: self.fx.cut,
                };
                self.call(id, |partition, now, fx| {
                    partition.handle_append(now, &append, fx)
                });
                continue;
            }
            let number = self.next_number.entry(id).or_insert(0);
            *number += 1;
            let number = *number;
            let unsettled = Unsettled {
                record: Record::copy_of(&publish.into()),
                keep_retained,
                cut: self.fx.cut,
                publish: ticket,
            };
            let waiting = self.unsettled.entry(id).or_default();
            waiting.insert(number, unsettled.clone());
            let floor = *waiting.keys().next().expect("one was just added");
            self.publishes[ticket].0 += 1;
            self.append(id, number, floor, &unsettled);
        }
        self.turn();
        ticket
    }

    /// A message with the usual fields.
    pub(crate) fn send(&mut self, topic: &str, payload: &str, qos: QoS) -> usize {
        self.publish(&message(topic, payload, qos))
    }

    /// The same with RETAIN.
    pub(crate) fn retain(&mut self, topic: &str, payload: &str, qos: QoS) -> usize {
        let publish = Publish {
            retain: true,
            ..message(topic, payload, qos)
        };
        self.publish(&publish)
    }

    /// Whether a publish was acknowledged.
    pub(crate) fn is_acked(&self, ticket: usize) -> bool {
        self.publishes[ticket] == (0, Settled::Ok)
    }

    /// One turn: entries are taken, volatile ones commit, messages arrive.
    pub(crate) fn turn(&mut self) {
        for id in self.ids() {
            let node = self.nodes.get_mut(&id).expect("a partition of the world");
            if node.partition.has_entry()
                && let Some(entry) = node.partition.take_entry(self.now)
            {
                node.proposed.push_back(entry);
            }
            if id.is_volatile() || self.commits == Commits::AtOnce {
                while self.commit_one(id) {}
            }
        }
        self.pass_messages();
        self.recall();
        self.save();
        self.check();
    }

    /// Commits the oldest entry of a partition.
    pub(crate) fn commit_one(&mut self, id: PartitionId) -> bool {
        let node = self.nodes.get_mut(&id).expect("a partition of the world");
        let Some(entry) = node.proposed.pop_front() else {
            return false;
        };
        node.last = node.last.next();
        let at = node.last;
        node.log.push((at, entry.clone()));
        self.call(id, |partition, now, fx| {
            if id.is_volatile() {
                partition.handle_unlogged(now, entry, fx);
            } else {
                partition.handle_committed(now, at, entry, fx);
            }
        });
        true
    }

    /// Turns until nothing moves any more, with everything committed.
    pub(crate) fn settle(&mut self) {
        let mut waited = 0;
        for _ in 0..1_000 {
            for id in self.ids() {
                while self.commit_one(id) {}
            }
            let before = self.activity();
            self.flush();
            self.turn();
            if self.activity() == before && self.is_quiet() {
                if self.recalling == Recalling::Held || !self.is_starved() || waited == 2 {
                    return self.check_kept();
                }
                // What was read back for those who do not take it goes again, and is read for others, within the turn. Who waits for longer is
                // nobody any more.
                self.pass_time(100);
                waited = match self.activity() == before {
                    true => waited + 1,
                    false => 0,
                };
            } else {
                waited = 0;
            }
        }
        panic!("the world does not come to rest");
    }

    fn activity(&self) -> (usize, u64) {
        let entries = self.nodes.values().map(|node| node.log.len()).sum();
        (entries, self.fx.events)
    }

    fn is_quiet(&self) -> bool {
        self.fx.to_partitions.is_empty()
            && self.fx.index.is_empty()
            && self.fences.is_empty()
            && self.fx.fences.is_empty()
            && self
                .nodes
                .values()
                .all(|node| node.proposed.is_empty() && !node.partition.has_entry())
            && (self.recalling == Recalling::Held || !self.is_reading())
    }

    /// Lets facts go that wait for company.
    fn flush(&mut self) {
        for id in self.ids() {
            let node = self.nodes.get_mut(&id).expect("a partition of the world");
            if let Some(entry) = node.partition.take_entry(self.now) {
                node.proposed.push_back(entry);
            }
        }
    }

    pub(crate) fn ids(&self) -> Vec<PartitionId> {
        self.nodes.keys().copied().collect()
    }

    /// Time passes, with its timeouts.
    pub(crate) fn pass_time(&mut self, ms: u64) {
        self.now.tick.0 += ms;
        self.now.wall.0 += ms;
        for id in self.ids() {
            let due = self.nodes[&id].partition.poll_timeout();
            if due.is_some_and(|due| due <= self.now.tick) {
                self.call(id, |partition, now, fx| partition.handle_timeout(now, fx));
            }
        }
        self.turn();
    }

    /// What is under way between partitions and fronts comes, and nothing is asked of the log yet.
    pub(crate) fn pass_messages(&mut self) {
        loop {
            let events = self.fx.events;
            while let Some((from, to, message)) = self.fx.to_partitions.pop_front() {
                self.call(to, |partition, now, fx| {
                    partition.handle_partition(now, from, message, fx)
                });
            }
            for (id, token) in std::mem::take(&mut self.fx.index) {
                self.call(id, |partition, now, fx| {
                    partition.handle_index_confirmed(now, token, fx)
                });
            }
            self.pass_fences();
            self.pass_settled();
            self.pass_fronts();
            if self.fx.events == events {
                return;
            }
        }
    }

    fn pass_settled(&mut self) {
        for (id, number, result) in std::mem::take(&mut self.fx.settled) {
            let waiting = self
                .unsettled
                .get_mut(&id)
                .and_then(|w| w.remove(&number.0));
            if let Some(unsettled) = waiting {
                let (left, worst) = &mut self.publishes[unsettled.publish];
                *left -= 1;
                if result != Settled::Ok {
                    *worst = result;
                }
            }
        }
    }

    /// A fence passes once all that was pushed before it is committed.
    fn pass_fences(&mut self) {
        for (at, token) in std::mem::take(&mut self.fx.fences) {
            let marks = self.nodes.iter().map(|(id, node)| {
                let more = usize::from(node.partition.has_entry());
                (*id, node.log.len() + node.proposed.len() + more)
            });
            let unsettled = self.unsettled.iter();
            self.fences.push(WaitingFence {
                at,
                token,
                marks: marks.collect(),
                unsettled: unsettled
                    .flat_map(|(id, waiting)| waiting.keys().map(|number| (*id, *number)))
                    .collect(),
            });
        }
        let (nodes, unsettled) = (&self.nodes, &self.unsettled);
        let waits = |(id, number): &(PartitionId, u64)| {
            unsettled
                .get(id)
                .is_some_and(|waiting| waiting.contains_key(number))
        };
        let passed = self.fences.extract_if(.., |fence| {
            let mut marks = fence.marks.iter();
            marks.all(|(id, mark)| nodes[id].log.len() >= *mark)
                && !fence.unsettled.iter().any(waits)
        });
        for fence in passed.collect::<Vec<_>>() {
            self.fx.events += 1;
            self.call(fence.at, |partition, now, fx| {
                partition.handle_fence(now, fence.token, fx)
            });
        }
    }

    fn pass_fronts(&mut self) {
        for (front, message) in std::mem::take(&mut self.fx.to_fronts) {
            let Some(at) = self.clients.iter().position(|c| c.front == Some(front)) else {
                continue;
            };
            let replies = self.clients[at].handle(message);
            for (to, reply) in replies {
                self.fx.events += 1;
                self.call(to, |partition, now, fx| {
                    partition.handle_home(now, reply, fx)
                });
            }
        }
        for (front, got) in std::mem::take(&mut self.fx.deliveries) {
            let Some(at) = self.clients.iter().position(|c| c.front == Some(front)) else {
                continue;
            };
            for (to, reply) in self.clients[at].take(got) {
                self.fx.events += 1;
                self.call(to, |partition, now, fx| {
                    partition.handle_home(now, reply, fx)
                });
            }
        }
    }

    /// Checks every partition and builds it again.
    pub(crate) fn check(&self) {
        for (id, node) in &self.nodes {
            node.partition.check();
            self.check_records(&node.partition, node);
            if self.damaged {
                continue;
            }
            let again = Partition::replay(self.config[id].clone(), node.log.clone());
            again.check();
            self.check_records(&again, node);
            assert!(
                again.encode_state() == node.partition.encode_state(),
                "a partition is what its entries make of it"
            );
            if !id.is_volatile() {
                let started = self.started(*id);
                started.check();
                self.check_records(&started, node);
                assert!(
                    started.encode_state() == node.partition.encode_state(),
                    "a partition is what its checkpoint and the entries behind it make of it (M42)"
                );
            }
        }
    }

    /// At rest, what is counted of users' sessions is what there is.
    fn check_kept(&self) {
        let mut expected = BTreeMap::<_, u32>::new();
        for (id, node) in self.nodes.iter().filter(|(_, it)| it.partition.serves()) {
            let sessions = node.partition.client_ids();
            let sessions = sessions.filter_map(|name| node.partition.stored_session(name));
            for owner in sessions.filter_map(|session| session.owner().map(owner_name)) {
                *expected.entry((*id, owner.into())).or_default() += 1;
            }
        }
        assert_eq!(self.fx.kept, expected);
    }

    /// What is in memory of records is what their entries say.
    fn check_records(&self, partition: &Partition, node: &Node) {
        for (index, byte, found) in partition.records_in_memory() {
            let at = node.log.binary_search_by_key(&index, |(at, _)| *at);
            let (_, entry) = &node.log[at.expect("records are of entries that are committed")];
            let written = RecordRef::parse(entry, byte as usize).map(|record| record.view());
            let is_lost = self.damaged && found.topic.is_empty();
            assert!(
                is_lost || written == Some(found),
                "a record keeps its bytes"
            );
        }
    }

    // ------------------------------------------------------------------------------------------------------- clients

    /// A client that has not connected.
    pub(crate) fn client(&mut self, name: &str) -> usize {
        self.clients.push(Client::new(name));
        self.clients.len() - 1
    }

    /// CONNECT, as far as the partitions let it come without [`World::settle`].
    pub(crate) fn connect(&mut self, at: usize, options: Options) {
        self.next_slot += 1;
        let front = FrontId {
            shard: ShardId(0),
            slot: self.next_slot,
            generation: 1,
        };
        let place = options.place;
        let attach = self.clients[at].connect(front, options);
        self.send_home(place, ToHome::Attach(attach));
    }

    /// CONNECT of a durable session, until it is attached.
    pub(crate) fn attach(&mut self, at: usize, options: Options) {
        self.connect(at, options);
        self.settle();
        assert!(self.clients[at].home.is_some(), "the client is connected");
    }

    /// Sends a message of a front and ends the turn.
    pub(crate) fn send_home(&mut self, to: PartitionId, message: ToHome) {
        self.call(to, |partition, now, fx| {
            partition.handle_home(now, message, fx)
        });
        self.turn();
    }

    pub(crate) fn subscribe(&mut self, at: usize, subscription: courser_contract::Subscription) {
        let (home, message) = self.clients[at].subscribe(vec![subscription]);
        self.send_home(home, message);
        self.settle();
    }

    /// The connection ends.
    pub(crate) fn detach(&mut self, at: usize, cause: DetachCause) {
        for (to, message) in self.clients[at].detach(cause) {
            self.send_home(to, message);
        }
        self.settle();
    }

    /// Acknowledges the next `count` deliveries that wait.
    pub(crate) fn ack(&mut self, at: usize, count: usize) {
        for (to, message) in self.clients[at].ack(count) {
            self.send_home(to, message);
        }
        self.settle();
    }

    /// A client has no room for what groups have given it so far: its front gives that back (M31).
    pub(crate) fn give_back(&mut self, at: usize) {
        for (to, message) in self.clients[at].give_back() {
            self.send_home(to, message);
        }
        self.settle();
    }

    /// It has room again.
    pub(crate) fn makes_room(&mut self, at: usize) {
        for (to, message) in self.clients[at].makes_room() {
            self.send_home(to, message);
        }
        self.settle();
    }

    /// A client reads slower than it is sent, or as fast again.
    pub(crate) fn reads(&mut self, at: usize, uptake: Uptake) {
        let home = self.home(at);
        let message = ToHome::Uptake {
            session: home.session,
            epoch: self.clients[at].epoch,
            uptake,
        };
        self.send_home(home.partition, message);
    }

    /// A client has read the retained messages that its home waits for.
    pub(crate) fn take_page(&mut self, at: usize) {
        for (to, message) in self.clients[at].take_page() {
            self.send_home(to, message);
        }
        self.settle();
    }

    /// Payloads that a client got since the last call.
    pub(crate) fn got(&mut self, at: usize) -> Vec<String> {
        let got = std::mem::take(&mut self.clients[at].got);
        got.into_iter().map(|got| got.payload).collect()
    }

    pub(crate) fn home(&self, at: usize) -> HomeRef {
        self.clients[at].home.expect("the client is connected")
    }
}

/// A message with the usual fields.
pub(crate) fn message<'a>(topic: &'a str, payload: &'a str, qos: QoS) -> Publish<'a> {
    Publish {
        topic,
        properties: b"",
        payload: payload.as_bytes(),
        qos,
        retain: false,
        expires_at: None,
        publisher: None,
        author: None,
    }
}

/// The contract's names that tests use with the world.
pub(crate) use courser_contract::{Subscription, SubscriptionOptions};

/// A plain subscription.
pub(crate) fn to(filter: &str, qos: QoS) -> Subscription {
    Subscription {
        filter: filter.into(),
        share: None,
        options: SubscriptionOptions {
            qos,
            ..SubscriptionOptions::default()
        },
        identifier: None,
    }
}
