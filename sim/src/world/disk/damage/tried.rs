//! A damaged partition that is tried alone: what it says to those who ask it for something.

use std::collections::BTreeMap;

use courser_contract::{
    Append, AppendKey, AppendNumber, Attach, AttachStage, ClientHash, ConnectRefusal, Cut,
    DeliverTo, Delivery, Destinations, Dropped, Fence, FrontId, IndexChange, IndexToken, LogIndex,
    Now, Origin, PartitionEffects, PartitionId, Publish, QoS, SessionLimits, Settled, ShardId,
    Source, Term, ToFront, ToHome, ToPartition, WillPermission,
};
use courser_engine::{AsideFilters, LostStream, Partition};

/// What a partition of the copy asks for.
#[derive(Default)]
struct Heard {
    delivered: Vec<(FrontId, u64, bool)>,
    to_fronts: Vec<(FrontId, ToFront)>,
    settled: Vec<Settled>,
    index: Vec<IndexToken>,
    damaged: u64,
}

impl PartitionEffects for Heard {
    fn deliver(&mut self, delivery: Delivery<'_>, to: &[DeliverTo]) {
        let is_empty = delivery.view.topic.is_empty();
        for to in to {
            if let Some((Source::Session, seq)) = to.source {
                self.delivered.push((to.front, seq.0, is_empty));
            }
        }
    }

    fn send_front(&mut self, front: FrontId, message: ToFront) {
        self.to_fronts.push((front, message));
    }

    fn send_partition(&mut self, _: PartitionId, _: ToPartition) {}

    fn settled(&mut self, _: Origin, _: AppendNumber, result: Settled) {
        self.settled.push(result);
    }

    fn change_index(&mut self, token: IndexToken, _: IndexChange) {
        self.index.push(token);
    }

    fn permits_retained(&mut self, _: &str, _: &str) -> courser_contract::Permission {
        courser_contract::Permission::Granted
    }

    fn permits_will(&mut self, _: &str, _: &str, _: &str) -> WillPermission {
        // Nobody logs in here.
        WillPermission::Granted
    }

    fn fence(&mut self, _: IndexToken, _: Fence) {}

    fn cut(&self, _: PartitionId) -> Cut {
        Cut(0)
    }

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
        PartitionId::volatile_of(ShardId(0))
    }

    fn dropped(&mut self, why: Dropped, messages: u64) {
        if why == Dropped::Damaged {
            self.damaged += messages;
        }
    }
}

/// A damaged partition that is tried alone.
pub(super) struct Tried {
    partition: Partition,
    heard: Heard,
    now: Now,
    /// Place of the last entry of its log.
    last: LogIndex,
}

impl Tried {
    pub(super) fn new(partition: Partition, last: LogIndex, now: Now) -> Self {
        Self {
            last: last.max(partition.applied()),
            partition,
            heard: Heard::default(),
            now,
        }
    }

    /// What was asked for happens: L1 confirms, entries commit.
    fn settle(&mut self) {
        for _ in 0..100 {
            for token in std::mem::take(&mut self.heard.index) {
                self.partition
                    .handle_index_confirmed(self.now, token, &mut self.heard);
            }
            let Some(entry) = self.partition.take_entry(self.now) else {
                if self.heard.index.is_empty() {
                    return;
                }
                continue;
            };
            self.last = self.last.next();
            self.partition
                .handle_committed(self.now, self.last, entry, &mut self.heard);
        }
    }

    fn attach(&mut self, client_id: &str, slot: u32) -> FrontId {
        let front = FrontId {
            shard: ShardId(0),
            slot,
            generation: 1,
        };
        let attach = Attach {
            front,
            client_id: client_id.into(),
            publisher: ClientHash::of(client_id),
            stage: AttachStage::Claim,
            clean_start: false,
            expiry_seconds: 1_000,
            receive_maximum: 1_000,
            delivery_bytes_max: u32::MAX,
            will: None,
            owner: None,
            limits: SessionLimits::NONE,
            user_sessions_max: u32::MAX,
        };
        let message = ToHome::Attach(Box::new(attach));
        self.partition
            .handle_home(self.now, message, &mut self.heard);
        self.settle();
        front
    }

    /// M39: it refuses, and changes nothing.
    pub(super) fn refuses(mut self) -> Result<(), String> {
        self.partition
            .set_aside(self.now, AsideFilters::Known, &mut self.heard);
        self.settle();
        let publish = Publish {
            topic: "t/1",
            properties: b"",
            payload: b"later",
            qos: QoS::AtLeastOnce,
            retain: true,
            expires_at: None,
            publisher: None,
            author: None,
        };
        let origin = Origin {
            node: 0,
            shard: ShardId(0),
            start: u32::MAX,
        };
        let key = AppendKey::Numbered {
            origin,
            number: AppendNumber(1),
            floor: AppendNumber(1),
        };
        let append = Append {
            key,
            publish: &publish,
            keep_retained: true,
            deliver: true,
            cut: Cut(0),
        };
        self.partition
            .handle_append(self.now, &append, &mut self.heard);
        let before = self.partition.applied();
        let front = self.attach("c0", 1);
        let refused = ToFront::ConnectRefused(ConnectRefusal::Unavailable);
        let is_told = |(to, message): &(FrontId, ToFront)| {
            *to == front && format!("{message:?}") == format!("{refused:?}")
        };
        if !matches!(self.heard.settled[..], [Settled::Refused(_)]) {
            return Err("I1: a partition that is set aside acknowledges a publish".to_owned());
        }
        if !self.heard.to_fronts.iter().any(is_told) {
            return Err("M44: a partition that is set aside lets a session in".to_owned());
        }
        if self.partition.applied() != before {
            return Err("M44: a partition that is set aside goes on".to_owned());
        }
        self.partition.check();
        Ok(())
    }

    /// M44: streams stop at records that are lost; accepted, the loss is counted and they go on.
    pub(super) fn stops(mut self) -> Result<(), String> {
        let lost = self.partition.lost();
        let mut stops: BTreeMap<Box<str>, u64> = BTreeMap::new();
        for reference in &lost {
            if let LostStream::Session(client_id) = &reference.stream {
                stops.entry(client_id.clone()).or_insert(reference.seq);
            }
        }
        self.partition
            .handle_leader(self.now, Term(1 << 20), &mut self.heard);
        self.settle();
        for (slot, (client_id, stop)) in (1..).zip(&stops) {
            let front = self.attach(client_id, slot);
            let mine = self.heard.delivered.iter().filter(|(to, ..)| *to == front);
            for (_, seq, is_empty) in mine {
                if *is_empty {
                    return Err("I5: a record whose bytes are lost is delivered".to_owned());
                }
                if seq >= stop {
                    return Err(format!(
                        "I3: {client_id} gets {seq} and {stop} before it is lost"
                    ));
                }
            }
        }
        // Sessions that ended with their connection need nothing any more.
        let lost = self.partition.lost();
        let gone = self
            .partition
            .accept_loss(self.now, |_| true, &mut self.heard);
        self.settle();
        if gone != lost || !self.partition.lost().is_empty() {
            return Err("M44: an accepted loss is not all that was lost".to_owned());
        }
        if self.heard.damaged != lost.len() as u64 {
            return Err(format!(
                "M44: {} of {} lost messages are counted",
                self.heard.damaged,
                lost.len()
            ));
        }
        self.partition.check();
        Ok(())
    }
}
