//! A partition with a log in memory, sessions that are away, and messages stored for them.

use std::collections::VecDeque;

use bytes::Bytes;
use compact_str::format_compact;
use courser_contract::{
    Append, AppendKey, AppendNumber, Attach, AttachStage, Class, ClientHash, DeliverTo, Delivery,
    Destinations, DetachCause, Dropped, Epoch, FrontId, HomeRef, IndexChange, IndexToken, LogIndex,
    Now, Origin, PartitionEffects, PartitionId, Publish, QoS, RequestPart, SessionLimits, Settled,
    ShardId, Subscription, SubscriptionOptions, Term, Tick, ToFront, ToHome, ToPartition,
    VolatilePart, WallMs,
};
use courser_engine::{Partition, PartitionConfig};

pub(crate) const NOW: Now = Now {
    tick: Tick(1),
    wall: WallMs(1_000_000),
};

/// Hears what the partition says.
#[derive(Default)]
pub(crate) struct Shell {
    attached: Option<(HomeRef, Epoch)>,
    index: Vec<IndexToken>,
    /// To partitions, this one included.
    sent: VecDeque<(PartitionId, ToPartition)>,
}

impl PartitionEffects for Shell {
    fn deliver(&mut self, _: Delivery<'_>, _: &[DeliverTo]) {}

    fn send_front(&mut self, _: FrontId, message: ToFront) {
        if let ToFront::Attached(attached) = message {
            self.attached = Some((attached.home, attached.epoch));
        }
    }

    fn send_partition(&mut self, to: PartitionId, message: ToPartition) {
        self.sent.push_back((to, message));
    }

    fn settled(&mut self, _: Origin, _: AppendNumber, _: Settled) {}

    fn change_index(&mut self, token: IndexToken, _: IndexChange) {
        self.index.push(token);
    }

    fn fence(&mut self, _: IndexToken, _: courser_contract::Fence) {}

    fn destinations(&mut self, _: &str, _: bool) -> Destinations {
        Destinations::new()
    }

    fn retained_partition(&self, _: &str) -> PartitionId {
        PartitionId(1)
    }

    fn retained_partitions(&self) -> Destinations {
        Destinations::new()
    }

    fn group_partition(&self, _: &str, _: &str) -> PartitionId {
        PartitionId(1)
    }

    fn volatile_partition(&self) -> PartitionId {
        PartitionId::volatile_of(courser_contract::ShardId(0))
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

    fn dropped(&mut self, _: Dropped, _: u64) {}
}

/// See the module.
pub(crate) struct Setup {
    pub(crate) partition: Partition,
    pub(crate) shell: Shell,
    /// Entries, if they are kept.
    pub(crate) log: Option<Vec<(LogIndex, Bytes)>>,
    /// Of the next messages.
    pub(crate) expires_at: Option<WallMs>,
    pub(crate) payload: Vec<u8>,
}

impl Setup {
    /// A partition that leads; its entries are kept, or not.
    pub(crate) fn new(class: Class, log: Option<Vec<(LogIndex, Bytes)>>) -> Self {
        let mut setup = Self {
            partition: Partition::new(PartitionConfig::new(PartitionId(1), class)),
            shell: Shell::default(),
            log,
            expires_at: None,
            payload: vec![7; 64],
        };
        if class != Class::Volatile {
            setup.lead(1);
        }
        setup
    }

    /// A term begins.
    pub(crate) fn lead(&mut self, term: u64) {
        let shell = &mut self.shell;
        self.partition.handle_leader(NOW, Term(term), shell);
        self.turn();
    }

    /// Commits what was decided, and passes on what comes of it.
    pub(crate) fn turn(&mut self) {
        self.commit();
        while let Some((to, message)) = self.shell.sent.pop_front() {
            let volatile = self.shell.volatile_partition();
            let (from, message) = match message {
                // The volatile partition has no part of any group.
                ToPartition::AskPart { name, term } => {
                    let part = VolatilePart::Absent;
                    (volatile, ToPartition::Part { name, term, part })
                }
                message if to == PartitionId(1) => (to, message),
                _ => continue,
            };
            let shell = &mut self.shell;
            self.partition.handle_partition(NOW, from, message, shell);
            self.commit();
        }
    }

    fn commit(&mut self) {
        let Self {
            partition,
            shell,
            log,
            ..
        } = self;
        while let Some(entry) = partition.take_entry(NOW) {
            if let Some(log) = log {
                log.push((partition.applied().next(), entry.clone()));
            }
            partition.handle_unlogged(NOW, entry, shell);
        }
        while let Some(token) = shell.index.pop() {
            partition.handle_index_confirmed(NOW, token, shell);
        }
    }

    pub(crate) fn call(&mut self, message: ToHome) {
        self.partition.handle_home(NOW, message, &mut self.shell);
        self.turn();
    }

    /// A session with a connection.
    pub(crate) fn attach(
        &mut self,
        number: u32,
        stage: AttachStage,
        expiry_seconds: u32,
    ) -> (HomeRef, Epoch) {
        let front = FrontId {
            shard: ShardId(0),
            slot: number,
            generation: 1,
        };
        let attach = Attach {
            front,
            publisher: ClientHash::of(&format_compact!("device-{number:08}")),
            client_id: format_compact!("device-{number:08}"),
            stage,
            clean_start: false,
            expiry_seconds,
            receive_maximum: 100,
            delivery_bytes_max: u32::MAX,
            will: None,
            owner: None,
            limits: SessionLimits::NONE,
            user_sessions_max: u32::MAX,
        };
        self.call(ToHome::Attach(Box::new(attach)));
        self.shell.attached.expect("it is attached")
    }

    /// A session with one subscription, to a filter or to one of its own.
    pub(crate) fn open(
        &mut self,
        number: u32,
        stage: AttachStage,
        expiry_seconds: u32,
        filter: Option<&str>,
    ) {
        let own = format!("device/{number:08}/commands");
        let filter = filter.unwrap_or(&own);
        let (home, epoch) = self.attach(number, stage, expiry_seconds);
        let subscription = Subscription {
            filter: filter.into(),
            share: None,
            options: SubscriptionOptions {
                qos: QoS::AtLeastOnce,
                // A scan that waits would count; it ends, and what it took is gone.
                retain_handling: courser_contract::RetainHandling::DoNotSend,
                ..SubscriptionOptions::default()
            },
            identifier: None,
        };
        self.call(ToHome::Subscribe {
            session: home.session,
            epoch,
            part: RequestPart::whole(1),
            subscriptions: vec![subscription],
        });
        if expiry_seconds > 0 {
            self.call(ToHome::Detach {
                session: home.session,
                epoch,
                cause: DetachCause::Lost,
                expiry_seconds: None,
                open: Vec::new(),
                claim: None,
            });
        }
    }

    /// A message, of 64 bytes unless that was changed.
    pub(crate) fn append(&mut self, topic: &str) {
        let append = Append {
            key: AppendKey::Unanswered,
            publish: &Publish {
                topic,
                properties: b"",
                payload: &self.payload,
                qos: QoS::AtLeastOnce,
                retain: false,
                expires_at: self.expires_at,
                publisher: None,
                author: None,
            },
            keep_retained: false,
            deliver: true,
            cut: courser_contract::Cut(0),
        };
        self.partition.handle_append(NOW, &append, &mut self.shell);
    }
}
