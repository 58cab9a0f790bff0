//! The contract's two traits of effects, over a hub.

use courser_contract::{
    AppendNumber, Asked, CloseCause, Cut, DeliverTo, Delivery, Destinations, Dropped, Fence,
    FrontEffects, FrontId, IndexChange, IndexToken, Origin, PartitionEffects, PartitionId,
    Permission, Publish, Record, Routed, Settled, ShardId, Ticket, ToFront, ToHome, ToPartition,
};

use super::hub::Hub;
use super::message::{Control, Message};
use crate::bug::Bug;

/// Effects of a front.
pub(crate) struct FrontFx<'a> {
    pub(crate) hub: &'a mut Hub,
    pub(crate) id: FrontId,
    /// Its publishes that wait for destinations.
    pub(crate) unsettled: u32,
    /// Set when it closes.
    pub(crate) close: Option<CloseCause>,
}

impl FrontEffects for FrontFx<'_> {
    /// Nobody logs in here.
    fn may(&mut self, _: Asked<'_>) -> Permission {
        Permission::Granted
    }

    fn publish(&mut self, publish: &Publish<'_>, ticket: Ticket) -> Routed {
        let routed = self.hub.publish(self.id, publish, ticket);
        if routed == Routed::Waits {
            self.unsettled += 1;
        }
        routed
    }

    fn destinations(&mut self, topic: &str, retain: bool) -> Destinations {
        self.hub.destinations(topic, retain)
    }

    fn cut(&self, partition: PartitionId) -> Cut {
        self.hub.cut(partition)
    }

    fn home_partition(&self, client_id: &str) -> PartitionId {
        self.hub.places.session(client_id)
    }

    fn volatile_partition(&self) -> PartitionId {
        PartitionId::volatile_of(self.id.shard)
    }

    fn send_home(&mut self, partition: PartitionId, message: ToHome) {
        self.hub
            .send_from_front(self.id, self.unsettled, partition, message);
    }

    fn close(&mut self, cause: CloseCause) {
        self.close.get_or_insert(cause);
    }

    fn dropped(&mut self, why: Dropped, messages: u64) {
        *self.hub.dropped.entry(why).or_default() += messages;
    }

    fn assigned_bits(&mut self) -> [u64; 2] {
        [self.hub.rng.next(), self.hub.rng.next()]
    }
}

/// Effects of a partition.
pub(crate) struct PartitionFx<'a> {
    pub(crate) hub: &'a mut Hub,
    pub(crate) id: PartitionId,
}

impl PartitionEffects for PartitionFx<'_> {
    fn deliver(&mut self, delivery: Delivery<'_>, to: &[DeliverTo]) {
        self.hub.check_heirs(to);
        let (record, stored) = match &delivery.record {
            Some(record) => (record.to_record(), true),
            None => (Record::copy_of(delivery.view), false),
        };
        for shard in (0..self.hub.places.shards).map(ShardId) {
            let there = to.iter().filter(|to| to.front.shard == shard);
            let to: Vec<_> = there.cloned().collect();
            if to.is_empty() {
                continue;
            }
            let message = Message::Deliver {
                record: record.clone(),
                stored,
                to,
            };
            if self.hub.bug == Some(Bug::DeliverTwice) && self.hub.rng.chance(3) {
                self.hub.push(shard, message.clone());
            }
            self.hub.push(shard, message);
        }
    }

    fn send_front(&mut self, front: FrontId, message: ToFront) {
        self.hub.push(front.shard, Message::Front(front, message));
    }

    fn send_partition(&mut self, to: PartitionId, message: ToPartition) {
        self.hub.send_partition(self.id, to, message);
    }

    fn settled(&mut self, origin: Origin, number: AppendNumber, result: Settled) {
        self.hub.settle_number(self.id, origin, number, result);
    }

    fn change_index(&mut self, token: IndexToken, change: IndexChange) {
        self.hub.index_asked += 1;
        let message = Message::Control(Control::Index(self.id, token, change));
        self.hub.push(ShardId(0), message);
    }

    fn fence(&mut self, token: IndexToken, fence: Fence) {
        self.hub.ask_fence(self.id, token, fence);
    }

    fn cut(&self, partition: PartitionId) -> Cut {
        self.hub.cut(partition)
    }

    fn destinations(&mut self, topic: &str, retain: bool) -> Destinations {
        self.hub.destinations(topic, retain)
    }

    fn retained_partition(&self, topic: &str) -> PartitionId {
        self.hub.places.retained(topic)
    }

    fn retained_partitions(&self) -> Destinations {
        self.hub.places.retained_all()
    }

    fn group_partition(&self, share: &str, filter: &str) -> PartitionId {
        self.hub.places.group(share, filter)
    }

    fn volatile_partition(&self) -> PartitionId {
        PartitionId::volatile_of(self.hub.id)
    }

    fn routes_all(&self) -> bool {
        self.hub.serves || self.hub.bug == Some(Bug::WillsAtStart)
    }

    fn permits_retained(&mut self, _: &str, _: &str) -> courser_contract::Permission {
        courser_contract::Permission::Granted
    }

    fn permits_will(&mut self, _: &str, _: &str, _: &str) -> courser_contract::WillPermission {
        // Nobody logs in here.
        courser_contract::WillPermission::Granted
    }

    fn dropped(&mut self, why: Dropped, messages: u64) {
        *self.hub.dropped.entry(why).or_default() += messages;
    }
}
