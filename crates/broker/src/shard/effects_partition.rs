//! What partitions ask for. Nothing here calls a partition: messages are queued and handled after the call that sends them.

use std::panic::{AssertUnwindSafe, catch_unwind};

use courser_contract::{
    AppendNumber, CloseCause, Cut, DeliverTo, Delivery, Destinations, Dropped, Fence, FrontId,
    IndexChange, IndexToken, ListNumber, Origin, PartitionEffects, PartitionId, Permission,
    Settled, ShardId, ToFront, ToPartition, WillPermission,
};
use courser_mqtt::front::Prepared;

use super::Shard;
use super::budget::Budget;
use super::connection::Connection;
use super::effects_front::DeliverFx;
use super::fronts::Access;
use super::guard::Inside;
use super::hub::Hub;
use crate::access::may_publish_will;
use crate::failpoint;
use crate::index::IndexRequest;
use crate::rings::{Control, Message};

/// Where a delivery stands among what a front of this shard gets. Messages from one sender arrive in the order of their sending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// Behind what waits for it in the shard's own queue: a partition of this shard gives it now.
    BehindQueued,
    /// First: it comes out of a queue.
    First,
}

/// A message with more receivers of this shard goes to so many at once; the others have it from the shard's own queue, whose work a turn bounds.
pub(crate) const AT_ONCE: usize = 256;

/// Effects of one partition.
pub(crate) struct PartitionFx<'a> {
    pub(crate) shard: &'a mut Shard,
    pub(crate) id: PartitionId,
}

/// How far a delivery has come.
#[derive(Debug, Default)]
struct Given {
    /// The next receiver.
    next: usize,
    /// Whether some are on other shards.
    elsewhere: bool,
    closed: Option<Vec<(FrontId, CloseCause)>>,
}

impl Given {
    /// Gives the message to one front.
    #[inline]
    fn give(
        &mut self,
        hub: &mut Hub,
        connection: &mut Connection,
        prepared: &mut Prepared<'_>,
        target: &DeliverTo,
    ) {
        hub.inside = Inside::Front;
        failpoint::in_delivery(connection.front.client_id());
        let mut fx = DeliverFx {
            unsettled: connection.unsettled,
            hub: &mut *hub,
            id: target.front,
            close: None,
            gate: &mut connection.gate,
        };
        let now = fx.hub.now;
        connection.front.deliver(now, prepared, target, &mut fx);
        let close = fx.close;
        hub.inside = Inside::Shell;
        connection.send_early(&mut hub.counters);
        if let Some(cause) = close {
            self.closed
                .get_or_insert_default()
                .push((target.front, cause));
        }
        if !connection.touched {
            connection.touched = true;
            hub.output.touched.note_delivery(target.front.slot);
        }
    }
}

impl PartitionEffects for PartitionFx<'_> {
    #[inline]
    fn deliver(&mut self, delivery: Delivery<'_>, to: &[DeliverTo]) {
        self.shard.deliver(delivery, to, Place::BehindQueued);
    }

    #[inline]
    fn deliver_to_list(&mut self, delivery: Delivery<'_>, to: &[DeliverTo], list: ListNumber) {
        self.shard.deliver_to_list(delivery, to, (self.id, list));
    }

    fn send_front(&mut self, front: FrontId, message: ToFront) {
        if front.shard == self.shard.hub.id {
            self.shard.fronts.note_queued(front);
        }
        if let ToFront::Attached(attached) = &message
            && !self.id.is_volatile()
        {
            self.shard.hub.access.attached.push(attached.home);
        }
        self.shard.hub.send_front(front, message);
    }

    fn send_partition(&mut self, to: PartitionId, message: ToPartition) {
        let hub = &mut self.shard.hub;
        let shard = hub.places.shard_of(to);
        hub.batch(shard).push(Message::Partition {
            from: self.id,
            to,
            message,
        });
    }

    fn settled(&mut self, origin: Origin, number: AppendNumber, result: Settled) {
        let batch = self.shard.hub.batch(origin.shard);
        batch.push_settled(self.id, origin, number, result);
    }

    fn change_index(&mut self, token: IndexToken, change: IndexChange) {
        let request = IndexRequest {
            partition: self.id,
            token,
            change,
        };
        self.shard
            .hub
            .batch(ShardId(0))
            .push(Message::Control(Control::Index(Box::new(request))));
    }

    fn fence(&mut self, token: IndexToken, fence: Fence) {
        self.shard.hub.ask_fence(self.id, token, fence);
    }

    fn cut(&self, partition: PartitionId) -> Cut {
        self.shard.hub.cut(partition)
    }

    fn destinations(&mut self, topic: &str, retain: bool) -> Destinations {
        self.shard.hub.destinations_of_client(topic, retain)
    }

    fn retained_partition(&self, topic: &str) -> PartitionId {
        self.shard.hub.classes.retained(topic)
    }

    fn retained_partitions(&self) -> Destinations {
        self.shard.hub.classes.retained_all().collect()
    }

    fn group_partition(&self, share: &str, filter: &str) -> PartitionId {
        self.shard.hub.places.group(share, filter)
    }

    fn volatile_partition(&self) -> PartitionId {
        PartitionId::volatile_of(self.shard.hub.id)
    }

    fn slow_down(&mut self, front: FrontId) {
        self.shard.hub.batch(front.shard).push_slow(front);
    }

    fn routes_all(&self) -> bool {
        self.shard.hub.serving
    }

    fn permits_will(&mut self, owner: &str, client_id: &str, topic: &str) -> WillPermission {
        may_publish_will(&self.shard.hub.access.process, owner, client_id, topic)
    }

    fn permits_retained(&mut self, author: &str, topic: &str) -> Permission {
        let hub = &mut self.shard.hub;
        hub.access
            .authors
            .permit(&hub.access.process, author, topic)
    }

    fn may_keep_session(&mut self, owner: &str, most: u32) -> Permission {
        self.shard.hub.access.process.kept().has_room(owner, most)
    }

    fn keep_session(&mut self, owner: &str, most: u32) -> Permission {
        self.shard.hub.access.process.kept().keep(owner, most)
    }

    fn forget_session(&mut self, owner: &str) {
        self.shard.hub.access.process.kept().forget(owner);
    }

    fn dropped(&mut self, why: Dropped, messages: u64) {
        self.shard.hub.counters.drop_messages(why, messages);
    }
}

impl Shard {
    /// Gives a message to fronts of this shard and passes it on to those of others.
    pub(crate) fn deliver(&mut self, delivery: Delivery<'_>, to: &[DeliverTo], place: Place) {
        let received = match place {
            Place::BehindQueued => self.hub.received(&delivery),
            // Whoever put it into the queue knew.
            Place::First => self.hub.latency.handling(),
        };
        let before = self.hub.handle_received(received);
        let first = match place {
            Place::BehindQueued if to.len() <= AT_ONCE => to.len(),
            Place::BehindQueued if self.hub.budget.is_spent() => 0,
            // The one before is not all handed out: it goes behind that as a whole, or each receiver would be a message of its own.
            Place::BehindQueued if self.waits(&to[0]) => 0,
            Place::BehindQueued => AT_ONCE,
            // Whoever works the queue off gives it in pieces.
            Place::First => to.len(),
        };
        let (first, later) = to.split_at(first);
        self.give(&delivery, first, place);
        if !later.is_empty() {
            self.give_later(&delivery, later);
        }
        self.hub.handle_received(before);
    }

    /// Whether something is queued for a receiver of this shard.
    fn waits(&self, target: &DeliverTo) -> bool {
        target.front.shard == self.hub.id && self.fronts.has_queued(target.front)
    }

    /// Puts a message into the queues of those who are to get it: of this shard, and of others.
    #[cold]
    fn give_later(&mut self, delivery: &Delivery<'_>, to: &[DeliverTo]) {
        let Self { fronts, hub, .. } = self;
        hub.budget
            .spend(Budget::FAR * AT_ONCE as i64 + Budget::DELIVERY * to.len() as i64);
        let received = hub.latency.handling();
        let mine = hub.id;
        let here = to
            .iter()
            .filter(|target| target.front.shard == mine)
            .inspect(|target| fronts.note_queued(target.front));
        let before = hub.links.local.receivers();
        hub.links.local.push_delivery(delivery, here, received);
        if hub.links.local.receivers() - before < to.len() {
            self.deliver_elsewhere(delivery, to);
        }
    }

    fn give(&mut self, delivery: &Delivery<'_>, to: &[DeliverTo], place: Place) {
        let mut given = Given::default();
        while given.next < to.len() {
            let called = catch_unwind(AssertUnwindSafe(|| {
                self.deliver_here(delivery, to, place, &mut given);
            }));
            if let Err(panic) = called {
                self.hub.note_panic(panic);
                self.hub.inside = Inside::Shell;
                self.bury_receiver(to[given.next].front);
                given.next += 1;
            }
        }
        if given.elsewhere {
            self.deliver_elsewhere(delivery, to);
        }
        for (front, cause) in given.closed.into_iter().flatten() {
            self.close_front(front, cause);
        }
    }

    /// The receivers of this shard, from `given.next` on.
    #[inline]
    fn deliver_here(
        &mut self,
        delivery: &Delivery<'_>,
        to: &[DeliverTo],
        place: Place,
        given: &mut Given,
    ) {
        let Self {
            fronts,
            hub,
            scratch,
            ..
        } = self;
        let now = hub.now;
        let payload = delivery.view.payload.len() as u64;
        let mut prepared = Prepared::new(delivery, now, scratch);
        while let Some(target) = to.get(given.next) {
            if target.front.shard != hub.id {
                given.elsewhere = true;
            } else if place == Place::BehindQueued && fronts.has_queued(target.front) {
                fronts.note_queued(target.front);
                let received = hub.latency.handling();
                hub.links
                    .local
                    .push_delivery(delivery, std::iter::once(target), received);
            } else {
                match fronts.get(target.front) {
                    Access::Here(connection) if connection.takes_events() => {
                        hub.budget.spend(Budget::DELIVERY);
                        hub.counters.publishes_sent += 1;
                        hub.counters.publish_bytes_sent += payload;
                        given.give(hub, connection, &mut prepared, target);
                    }
                    // To itself, in the middle of its own read: right after that.
                    Access::Taken => {
                        let received = hub.latency.handling();
                        hub.links
                            .local
                            .push_delivery(delivery, std::iter::once(target), received);
                        fronts.note_queued(target.front);
                    }
                    Access::Here(_) | Access::Gone => {}
                }
            }
            given.next += 1;
        }
    }

    /// One message a shard that has receivers, with the record once.
    fn deliver_elsewhere(&mut self, delivery: &Delivery<'_>, to: &[DeliverTo]) {
        let hub = &mut self.hub;
        let received = hub.latency.handling();
        for (place, sender) in hub.links.ports.to.iter_mut().enumerate() {
            let Some(sender) = sender else { continue };
            let there = |target: &&DeliverTo| usize::from(target.front.shard.0) == place;
            let count = to.iter().filter(there).count();
            if count == 0 {
                continue;
            }
            // Stored messages are bounded by the windows of their sessions; what is only routed has no other bound than this.
            if delivery.record.is_none() && !sender.has_room() {
                hub.counters
                    .drop_messages(Dropped::OutputFull, count as u64);
                continue;
            }
            sender
                .batch()
                .push_delivery(delivery, to.iter().filter(there), received);
        }
    }
}
