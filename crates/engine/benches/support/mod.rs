//! A partition with receivers that take everything at once, and the shell around it.

use std::hint::black_box;

use compact_str::format_compact;
use courser_contract::{
    Append, AppendKey, AppendNumber, Attach, AttachStage, Attached, Class, ClientHash, Cut, Cuts,
    DeliverTo, Delivery, Destinations, DetachCause, Dropped, Epoch, FrontId, GroupRef, HomeRef,
    IndexChange, IndexToken, Now, Origin, OutcomeKind, PartitionEffects, PartitionId, Publish,
    PublishedQos2, PubrecCan, QoS, Record, RecordView, RequestPart, RetainHandling, Seq,
    SessionLimits, Settled, ShardId, Source, Subscription, SubscriptionOptions, Term, Tick,
    ToFront, ToHome, ToPartition, VolatilePart, WallMs,
};
use courser_engine::{Partition, PartitionConfig};

/// Publishes of a turn.
pub(crate) const TURN: usize = 100;

/// The partition of a class: the only one there is.
const fn partition_of(class: Class) -> PartitionId {
    match class {
        Class::Durable | Class::Relaxed => PartitionId(1),
        Class::Volatile => PartitionId::volatile_of(ShardId(0)),
    }
}

struct Shell {
    own: PartitionId,
    delivered: u64,
    outcomes: Vec<(u32, Source, Seq)>,
    released: Vec<(u32, Seq)>,
    homes: Vec<Option<Attached>>,
    index: Vec<IndexToken>,
    fences: Vec<IndexToken>,
    messages: Vec<ToPartition>,
    settled: u64,
}

impl Shell {
    const fn new(own: PartitionId) -> Self {
        Self {
            own,
            delivered: 0,
            outcomes: Vec::new(),
            released: Vec::new(),
            homes: Vec::new(),
            index: Vec::new(),
            fences: Vec::new(),
            messages: Vec::new(),
            settled: 0,
        }
    }
}

impl PartitionEffects for Shell {
    fn deliver(&mut self, delivery: Delivery<'_>, to: &[DeliverTo]) {
        black_box(delivery.view.payload);
        self.delivered += to.len() as u64;
        for receiver in to {
            if let Some((source, seq)) = receiver.source {
                self.outcomes.push((receiver.front.slot, source, seq));
            }
        }
    }

    fn send_front(&mut self, front: FrontId, message: ToFront) {
        match message {
            ToFront::Attached(attached) => self.homes[front.slot as usize] = Some(attached),
            ToFront::Release { seq, .. } => self.released.push((front.slot, seq)),
            _ => {}
        }
    }

    fn send_partition(&mut self, to: PartitionId, message: ToPartition) {
        match message {
            // The volatile partition has nothing.
            ToPartition::Inheritances { .. } => {}
            ToPartition::AskPart { name, term } => self.messages.push(ToPartition::Part {
                name,
                term,
                part: VolatilePart::Absent,
            }),
            message => {
                assert_eq!(to, self.own, "there is only one partition");
                self.messages.push(message);
            }
        }
    }

    fn settled(&mut self, _: Origin, _: AppendNumber, result: Settled) {
        assert_eq!(result, Settled::Ok, "everything is taken");
        self.settled += 1;
    }

    fn change_index(&mut self, token: IndexToken, _: IndexChange) {
        self.index.push(token);
    }

    fn fence(&mut self, token: IndexToken, _: courser_contract::Fence) {
        self.fences.push(token);
    }

    fn destinations(&mut self, _: &str, _: bool) -> Destinations {
        Destinations::new()
    }

    fn retained_partition(&self, _: &str) -> PartitionId {
        self.own
    }

    fn retained_partitions(&self) -> Destinations {
        Destinations::from_slice(&[self.own])
    }

    fn group_partition(&self, _: &str, _: &str) -> PartitionId {
        self.own
    }

    fn volatile_partition(&self) -> PartitionId {
        PartitionId::volatile_of(ShardId(0))
    }

    fn cut(&self, _: PartitionId) -> courser_contract::Cut {
        courser_contract::Cut(0)
    }

    fn permits_retained(&mut self, _: &str, _: &str) -> courser_contract::Permission {
        courser_contract::Permission::Granted
    }

    fn permits_will(&mut self, _: &str, _: &str, _: &str) -> courser_contract::WillPermission {
        courser_contract::WillPermission::Granted
    }

    fn dropped(&mut self, why: Dropped, _: u64) {
        assert_eq!(why, Dropped::Offline, "nothing else is dropped");
    }
}

const NOW: Now = Now {
    tick: Tick(1),
    wall: WallMs(1_000_000),
};

fn front(slot: u32) -> FrontId {
    FrontId {
        shard: ShardId(0),
        slot,
        generation: 1,
    }
}

/// Who receives what a [`Bench`] publishes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Receivers {
    /// How many sessions.
    pub(crate) sessions: u32,
    /// What they ask for.
    pub(crate) qos: QoS,
    /// Their one shared group.
    pub(crate) share: Option<&'static str>,
}

/// A partition and the sessions that are attached to it.
pub(crate) struct Bench {
    partition: Partition,
    shell: Shell,
    class: Class,
    number: u64,
    ranges: Vec<(u32, Source, Seq, Seq)>,
    entry_bytes: usize,
}

impl Bench {
    /// With receivers of everything below "t".
    pub(crate) fn new(class: Class, receivers: Receivers) -> Self {
        let own = partition_of(class);
        let mut bench = Self {
            partition: Partition::new(PartitionConfig::new(own, class)),
            shell: Shell::new(own),
            class,
            number: 0,
            ranges: Vec::new(),
            entry_bytes: 0,
        };
        if class != Class::Volatile {
            bench
                .partition
                .handle_leader(NOW, Term(1), &mut bench.shell);
            bench.settle();
        }
        for slot in 0..receivers.sessions {
            bench.open(slot, receivers);
        }
        bench
    }

    /// Messages that were handed to sessions so far.
    pub(crate) fn delivered(&self) -> u64 {
        self.shell.delivered
    }

    /// Bytes of all entries so far.
    pub(crate) fn entry_bytes(&self) -> usize {
        self.entry_bytes
    }

    fn home(&self, slot: u32) -> (HomeRef, Epoch) {
        let attached = self.shell.homes[slot as usize].as_ref();
        let attached = attached.expect("it is attached");
        (attached.home, attached.epoch)
    }

    fn attach(&mut self, slot: u32) {
        self.shell.homes.resize(slot as usize + 1, None);
        let (stage, expiry_seconds) = match self.class {
            Class::Volatile => (AttachStage::Open(Epoch(1)), 0),
            Class::Durable | Class::Relaxed => (AttachStage::Claim, 3_600),
        };
        let attach = Attach {
            front: front(slot),
            publisher: ClientHash::of(&format_compact!("client-{slot}")),
            client_id: format_compact!("client-{slot}"),
            stage,
            clean_start: false,
            expiry_seconds,
            receive_maximum: 1_000,
            delivery_bytes_max: u32::MAX,
            will: None,
            owner: None,
            limits: SessionLimits::NONE,
            user_sessions_max: u32::MAX,
        };
        self.tell(ToHome::Attach(Box::new(attach)));
    }

    fn open(&mut self, slot: u32, receivers: Receivers) {
        self.attach(slot);
        self.subscribe(slot, receivers, RetainHandling::DoNotSend);
    }

    /// Subscribes to everything below "t", which may find retained messages.
    pub(crate) fn subscribe(&mut self, slot: u32, receivers: Receivers, retained: RetainHandling) {
        let (home, epoch) = self.home(slot);
        let subscription = Subscription {
            filter: "t/#".into(),
            share: receivers.share.map(Into::into),
            options: SubscriptionOptions {
                qos: receivers.qos,
                retain_handling: retained,
                ..SubscriptionOptions::default()
            },
            identifier: None,
        };
        self.tell(ToHome::Subscribe {
            session: home.session,
            epoch,
            part: RequestPart::whole(1),
            subscriptions: vec![subscription],
        });
    }

    /// The session's connection goes; it keeps what comes.
    pub(crate) fn detach(&mut self, slot: u32) {
        let (home, epoch) = self.home(slot);
        self.tell(ToHome::Detach {
            session: home.session,
            epoch,
            cause: DetachCause::Lost,
            expiry_seconds: None,
            open: Vec::new(),
            claim: None,
        });
    }

    fn tell(&mut self, message: ToHome) {
        self.partition.handle_home(NOW, message, &mut self.shell);
        self.settle();
    }

    /// Commits what was decided, confirms what it changed in the index, and carries what it says to itself.
    fn settle(&mut self) {
        let Self {
            partition, shell, ..
        } = self;
        loop {
            while partition.has_entry()
                && let Some(entry) = partition.take_entry(NOW)
            {
                self.entry_bytes += entry.len();
                partition.handle_unlogged(NOW, entry, shell);
            }
            if let Some(token) = shell.index.pop() {
                partition.handle_index_confirmed(NOW, token, shell);
            } else if let Some(token) = shell.fences.pop() {
                partition.handle_fence(NOW, token, shell);
            } else if !shell.messages.is_empty() {
                for message in std::mem::take(&mut shell.messages) {
                    partition.handle_partition(NOW, shell.own, message, shell);
                }
            } else {
                return;
            }
        }
    }

    fn publish(&mut self, topic: &str, qos: QoS, payload: &[u8], keep_retained: bool) {
        let key = match self.class {
            Class::Durable if qos > QoS::AtMostOnce => {
                self.number += 1;
                AppendKey::Numbered {
                    origin: Origin {
                        node: 1,
                        shard: ShardId(0),
                        start: 1,
                    },
                    number: AppendNumber(self.number),
                    floor: AppendNumber(self.shell.settled + 1),
                }
            }
            Class::Durable | Class::Relaxed | Class::Volatile => AppendKey::Unanswered,
        };
        let append = Append {
            key,
            publish: &Publish {
                topic,
                properties: b"",
                payload,
                qos,
                retain: keep_retained,
                expires_at: None,
                publisher: None,
                author: None,
            },
            keep_retained,
            deliver: !keep_retained,
            cut: courser_contract::Cut(0),
        };
        self.partition.handle_append(NOW, &append, &mut self.shell);
    }

    /// One turn: publishes of one topic, their commit, then the outcomes as fronts coalesce them.
    pub(crate) fn turn(&mut self, qos: QoS, payload: &[u8]) {
        for _ in 0..TURN {
            self.publish("t/some/topic", qos, payload, false);
        }
        self.settle();
        self.acknowledge(qos);
    }

    /// One turn of QoS 2 publishes of session 0, which is stored: their entry, the outcomes, and what the holds' releases take.
    pub(crate) fn hold(&mut self, payload: &[u8]) {
        let (home, epoch) = self.home(0);
        let publish = Publish {
            topic: "t/some/topic",
            properties: b"",
            payload,
            qos: QoS::ExactlyOnce,
            retain: false,
            expires_at: None,
            publisher: None,
            author: None,
        };
        for packet_id in 1..=TURN as u16 {
            let publish = PublishedQos2 {
                packet_id,
                hash: packet_id.into(),
                record: Record::copy_of(&RecordView::from(&publish)),
                destinations: Destinations::from_slice(&[self.shell.own]),
                cuts: Cuts::from_slice(&[Cut::default()]),
                pubrec: PubrecCan::Refuse,
            };
            let message = ToHome::PublishQos2 {
                session: home.session,
                epoch,
                publish: Box::new(publish),
            };
            self.partition.handle_home(NOW, message, &mut self.shell);
        }
        self.settle();
        self.acknowledge(QoS::ExactlyOnce);
        for packet_id in 1..=TURN as u16 {
            let message = ToHome::Release {
                session: home.session,
                epoch,
                packet_id,
            };
            self.partition.handle_home(NOW, message, &mut self.shell);
        }
        self.settle();
    }

    /// One turn of retained messages, each of another topic, from number `first` on.
    pub(crate) fn retain(&mut self, first: usize, payload: &[u8]) {
        for number in first..first + TURN {
            let topic = format_compact!("t/device/{number:05}/state");
            self.publish(&topic, QoS::AtLeastOnce, payload, true);
        }
        self.settle();
    }

    /// The receivers have taken what they were sent.
    pub(crate) fn acknowledge(&mut self, qos: QoS) {
        while !self.shell.outcomes.is_empty() {
            self.coalesce();
            if qos == QoS::ExactlyOnce {
                self.say(OutcomeKind::Received);
                self.settle();
                let released = self.shell.released.len() as u64;
                assert_eq!(
                    released,
                    self.ranges.iter().map(|r| r.3.0 - r.2.0 + 1).sum()
                );
                self.shell.released.clear();
            }
            self.say(OutcomeKind::Done);
            self.settle();
        }
    }

    fn say(&mut self, kind: OutcomeKind) {
        for at in 0..self.ranges.len() {
            let (slot, source, first, last) = self.ranges[at];
            let (home, epoch) = self.home(slot);
            let outcome = match source {
                Source::Session => ToHome::Outcome {
                    session: home.session,
                    epoch,
                    first,
                    last,
                    kind,
                },
                Source::Group(GroupRef { group, .. }) => ToHome::GroupOutcome {
                    group,
                    member: home,
                    front: front(slot),
                    first,
                    last,
                    kind,
                },
            };
            self.partition.handle_home(NOW, outcome, &mut self.shell);
        }
    }

    /// A range for each run of deliveries of a session.
    fn coalesce(&mut self) {
        self.ranges.clear();
        self.shell
            .outcomes
            .sort_unstable_by_key(|&(slot, _, seq)| (slot, seq));
        for (slot, source, seq) in self.shell.outcomes.drain(..) {
            match self.ranges.last_mut() {
                Some((last, of, _, to)) if (*last, *of, to.0 + 1) == (slot, source, seq.0) => {
                    *to = seq;
                }
                Some(_) | None => self.ranges.push((slot, source, seq, seq)),
            }
        }
    }
}
