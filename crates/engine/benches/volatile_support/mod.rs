//! A volatile partition with receivers that take everything at once, and the shell around it.

use std::hint::black_box;

use compact_str::format_compact;
use courser_contract::{
    Append, AppendKey, AppendNumber, Attach, AttachStage, Class, DeliverTo, Delivery, Destinations,
    Dropped, Epoch, FrontId, IndexChange, IndexToken, Now, Origin, OutcomeKind, PartitionEffects,
    PartitionId, Publish, QoS, Seq, SessionUid, Settled, ShardId, Source, Subscription,
    SubscriptionOptions, Tick, ToFront, ToHome, ToPartition, WallMs,
};
use courser_engine::{Partition, PartitionConfig};

/// Publishes of a turn.
pub(crate) const TURN: usize = 100;

#[derive(Default)]
struct Shell {
    delivered: u64,
    outcomes: Vec<(SessionUid, Seq)>,
    slots: Vec<SessionUid>,
    attached: Vec<(FrontId, SessionUid, Epoch)>,
    index: Vec<IndexToken>,
}

impl PartitionEffects for Shell {
    fn deliver(&mut self, delivery: Delivery<'_>, to: &[DeliverTo]) {
        black_box(delivery.view.payload);
        self.delivered += to.len() as u64;
        for receiver in to {
            if let Some((Source::Session, seq)) = receiver.source {
                let uid = self.slots[receiver.front.slot as usize];
                self.outcomes.push((uid, seq));
            }
        }
    }

    fn send_front(&mut self, front: FrontId, message: ToFront) {
        if let ToFront::Attached(attached) = message {
            self.attached
                .push((front, attached.home.session, attached.epoch));
        }
    }

    fn send_partition(&mut self, _: PartitionId, _: ToPartition) {}

    fn settled(&mut self, _: Origin, _: AppendNumber, _: Settled) {}

    fn change_index(&mut self, token: IndexToken, _: IndexChange) {
        self.index.push(token);
    }

    fn fence(&mut self, _: IndexToken) {}

    fn destinations(&mut self, _: &str, _: bool) -> Destinations {
        Destinations::new()
    }

    fn retained_partition(&self, _: &str) -> PartitionId {
        PartitionId(1)
    }

    fn retained_partitions(&self) -> Destinations {
        Destinations::new()
    }

    fn group_partition(&self, _: &str, _: &str, _: bool) -> PartitionId {
        PartitionId(1)
    }

    fn dropped(&mut self, _: Dropped, _: u64) {}
}

const NOW: Now = Now {
    tick: Tick(1),
    wall: WallMs(1_000_000),
};

/// A volatile partition and the sessions that are attached to it.
pub(crate) struct Volatile {
    partition: Partition,
    shell: Shell,
    ranges: Vec<(SessionUid, Seq, Seq)>,
}

impl Volatile {
    /// With `sessions` receivers of everything below "t".
    pub(crate) fn new(sessions: u32, qos: QoS) -> Self {
        let id = PartitionId::volatile_of(ShardId(0));
        let mut volatile = Self {
            partition: Partition::new(PartitionConfig::new(id, Class::Volatile)),
            shell: Shell::default(),
            ranges: Vec::new(),
        };
        for slot in 0..sessions {
            volatile.open(slot, qos);
        }
        volatile
    }

    /// Messages that were handed to sessions so far.
    pub(crate) fn delivered(&self) -> u64 {
        self.shell.delivered
    }

    fn open(&mut self, slot: u32, qos: QoS) {
        let front = FrontId {
            shard: ShardId(0),
            slot,
            generation: 1,
        };
        let attach = Attach {
            front,
            client_id: format_compact!("client-{slot}"),
            stage: AttachStage::Open(Epoch(1)),
            clean_start: true,
            expiry_seconds: 0,
            receive_maximum: 1_000,
            will: None,
        };
        let Self {
            partition, shell, ..
        } = self;
        partition.handle_home(NOW, ToHome::Attach(Box::new(attach)), shell);
        self.settle();
        let (_, session, epoch) = self.shell.attached.pop().expect("it is attached");
        self.shell.slots.push(session);
        let subscription = Subscription {
            filter: "t/#".into(),
            share: None,
            options: SubscriptionOptions {
                qos,
                ..SubscriptionOptions::default()
            },
            identifier: None,
        };
        let subscribe = ToHome::Subscribe {
            session,
            epoch,
            packet_id: 1,
            subscriptions: vec![subscription],
        };
        let Self {
            partition, shell, ..
        } = self;
        partition.handle_home(NOW, subscribe, shell);
        self.settle();
    }

    /// Commits what was decided, and confirms what it changed in the index.
    fn settle(&mut self) {
        let Self {
            partition, shell, ..
        } = self;
        while partition.has_entry()
            && let Some(entry) = partition.take_entry(NOW)
        {
            partition.handle_unlogged(NOW, entry, shell);
        }
        while let Some(token) = shell.index.pop() {
            partition.handle_index_confirmed(NOW, token, shell);
        }
    }

    /// One turn: publishes, their commit, then the outcomes as fronts coalesce them.
    pub(crate) fn turn(&mut self, qos: QoS, payload: &[u8]) {
        let append = Append {
            key: AppendKey::Unanswered,
            publish: Publish {
                topic: "t/some/topic",
                properties: b"",
                payload,
                qos,
                retain: false,
                expires_at: None,
                publisher: None,
            },
            keep_retained: false,
            deliver: true,
        };
        for _ in 0..TURN {
            self.partition.handle_append(NOW, &append, &mut self.shell);
        }
        self.settle();
        self.coalesce();
        for &(session, first, last) in &self.ranges {
            let outcome = ToHome::Outcome {
                session,
                epoch: Epoch(1),
                first,
                last,
                kind: OutcomeKind::Done,
            };
            self.partition.handle_home(NOW, outcome, &mut self.shell);
        }
        self.settle();
    }

    /// A range for each run of deliveries of a session.
    fn coalesce(&mut self) {
        self.ranges.clear();
        self.shell.outcomes.sort_unstable();
        for (uid, seq) in self.shell.outcomes.drain(..) {
            match self.ranges.last_mut() {
                Some((last, _, to)) if *last == uid && to.0 + 1 == seq.0 => *to = seq,
                Some(_) | None => self.ranges.push((uid, seq, seq)),
            }
        }
    }
}
