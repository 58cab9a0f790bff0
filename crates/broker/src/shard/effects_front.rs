//! What fronts ask for.
//!
//! [`FrontFx`] is for fronts that were taken out of the table: they may publish, which calls partitions of this shard at
//! once. [`DeliverFx`] is for a front that gets a delivery in the middle of a partition's call: it never publishes there, and
//! what it says to partitions is queued like everything else between the two.

use std::net::SocketAddr;
use std::sync::Arc;

use courser_contract::{
    Asked, AttachStage, CloseCause, ConnectRefusal, Cut, Destinations, Dropped, FrontEffects,
    FrontId, PartitionId, Permission, Publish, QoS, Routed, Ticket, ToFront, ToHome, Will,
};
use rand::Rng;

use super::Shard;
use super::connection::Connection;
use super::guard::Inside;
use super::hub::Hub;
use crate::access::{Gate, Name};
use crate::memory::Level;

/// Effects of a front that was taken out.
pub(crate) struct FrontFx<'a> {
    pub(crate) shard: &'a mut Shard,
    pub(crate) id: FrontId,
    /// Its publishes that wait for destinations.
    pub(crate) unsettled: u32,
    /// Set when it closes.
    pub(crate) close: Option<CloseCause>,
    /// Set when it asks for a session with a will.
    pub(crate) has_will: bool,
    /// What it may.
    pub(crate) gate: Gate,
    /// Set when it has published more than it may.
    pub(crate) over_quota: bool,
    /// Where it comes from, if that is known.
    address: Option<SocketAddr>,
}

impl<'a> FrontFx<'a> {
    /// For a connection that was taken out.
    pub(crate) fn new(shard: &'a mut Shard, id: FrontId, connection: &mut Connection) -> Self {
        Self {
            shard,
            id,
            unsettled: connection.unsettled,
            close: None,
            has_will: connection.has_will,
            gate: std::mem::replace(&mut connection.gate, Gate::Shut),
            over_quota: false,
            address: connection.peer.address,
        }
    }

    /// The gate of a connection that has just logged in.
    #[cold]
    fn open_gate(&mut self) {
        let hub = &self.shard.hub;
        if let Some((client_id, who)) = hub.access.accounts.take_login(self.id) {
            self.gate.log_in(&client_id, who, &hub.access.table);
        }
    }

    /// Leaves what has changed with the connection, and says whether the front has closed.
    pub(crate) fn finish(mut self, connection: &mut Connection) -> Option<CloseCause> {
        if matches!(self.gate, Gate::Shut) {
            self.open_gate();
        }
        connection.gate = self.gate;
        connection.unsettled = self.unsettled;
        connection.has_will = self.has_will;
        self.close
    }
}

impl FrontEffects for FrontFx<'_> {
    #[inline]
    fn is_spent(&self) -> bool {
        self.over_quota || self.shard.hub.budget.is_spent()
    }

    #[inline]
    fn may(&mut self, asked: Asked<'_>) -> Permission {
        if matches!(self.gate, Gate::Shut) {
            self.open_gate();
        }
        self.gate.may(asked, &self.shard.hub.access.table)
    }

    #[cold]
    fn denied(&mut self, client_id: &str, asked: Asked<'_>) {
        let user = self.gate.principal().map(|who| who.user.as_str());
        let hub = &mut self.shard.hub;
        hub.tell_denied(self.id, (client_id, user), asked);
    }

    fn author(&mut self) -> Option<Arc<str>> {
        self.gate.author()
    }

    #[inline]
    fn received(&mut self, publish: &Publish<'_>) {
        let counters = &mut self.shard.hub.counters;
        counters.publishes_received_by_qos[publish.qos as usize] += 1;
        counters.publish_bytes_received += publish.payload.len() as u64;
        let now = self.shard.hub.now.tick;
        let parts = [
            publish.topic.as_bytes(),
            publish.properties,
            publish.payload,
        ];
        self.over_quota |= self.gate.charge(now, parts);
    }

    fn charge_will(&mut self, client_id: &str, will: &Will) -> Permission {
        if matches!(self.gate, Gate::Shut) {
            self.open_gate();
        }
        let hub = &self.shard.hub;
        let name = Name::of(client_id, self.address);
        let quotas = hub.access.process.quotas();
        self.gate.charge_will(hub.now.tick, quotas, name, will)
    }

    fn refuses(&mut self, destinations: &Destinations) -> bool {
        self.shard.is_refused(destinations.iter().copied())
    }

    #[inline]
    fn publish(&mut self, publish: &Publish<'_>, ticket: Ticket) -> Routed {
        self.shard.hub.inside = Inside::Shell;
        let routed = self.shard.publish(self.id, publish, ticket);
        self.shard.hub.inside = Inside::Front;
        match routed {
            Routed::Waits => self.unsettled += 1,
            Routed::Done { .. } if publish.qos != QoS::AtMostOnce => {
                let latency = &mut self.shard.hub.latency;
                latency.acknowledge(latency.turn());
            }
            Routed::Done { .. } | Routed::Refused(_) => {}
        }
        routed
    }

    fn destinations(&mut self, topic: &str, retain: bool) -> Destinations {
        self.shard.hub.inside = Inside::Shell;
        let destinations = self.shard.hub.destinations_of_client(topic, retain);
        self.shard.hub.inside = Inside::Front;
        if destinations.is_empty() {
            // There is nothing to wait for.
            let latency = &mut self.shard.hub.latency;
            latency.acknowledge(latency.turn());
        }
        destinations
    }

    fn cut(&self, partition: PartitionId) -> Cut {
        self.shard.hub.cut(partition)
    }

    fn home_partition(&self, client_id: &str) -> PartitionId {
        self.shard.hub.classes.session(client_id)
    }

    fn volatile_partition(&self) -> PartitionId {
        PartitionId::volatile_of(self.id.shard)
    }

    fn send_home(&mut self, partition: PartitionId, mut message: ToHome) {
        if let ToHome::Attach(attach) = &mut message {
            if matches!(self.gate, Gate::Shut) {
                self.open_gate();
            }
            attach.owner = self.gate.owner();
            self.gate.limit(attach, &self.shard.hub.access.table);
            if let Some(will) = &attach.will {
                self.has_will = true;
                self.gate.note_will(&will.topic);
            }
        }
        let message = match message {
            ToHome::Attach(attach)
                if attach.stage == AttachStage::Claim && self.shard.hub.memory >= Level::Over =>
            {
                self.shard.fronts.note_queued(self.id);
                let refused = ToFront::ConnectRefused(ConnectRefusal::NoMemory);
                return self.shard.hub.send_front(self.id, refused);
            }
            ToHome::Attach(attach) if !self.shard.hub.serving => {
                return self.shard.hub.come_early(self.id, attach);
            }
            ToHome::PublishQos2 { ref publish, .. } if !publish.destinations.is_empty() => {
                let latency = &mut self.shard.hub.latency;
                latency.sent_home(self.id, publish.packet_id);
                message
            }
            message => message,
        };
        let hub = &mut self.shard.hub;
        hub.inside = Inside::Shell;
        hub.send_from_front(self.id, self.unsettled, partition, message);
        hub.inside = Inside::Front;
    }

    fn close(&mut self, cause: CloseCause) {
        self.close.get_or_insert(cause);
    }

    fn dropped(&mut self, why: Dropped, messages: u64) {
        self.shard.hub.counters.drop_messages(why, messages);
    }

    fn assigned_bits(&mut self) -> [u64; 2] {
        self.shard.hub.assigned_bits()
    }
}

/// Effects of a front within a delivery.
pub(crate) struct DeliverFx<'a> {
    pub(crate) hub: &'a mut Hub,
    pub(crate) id: FrontId,
    pub(crate) unsettled: u32,
    pub(crate) close: Option<CloseCause>,
    pub(crate) gate: &'a mut Gate,
}

impl FrontEffects for DeliverFx<'_> {
    #[inline]
    fn may(&mut self, asked: Asked<'_>) -> Permission {
        self.gate.may(asked, &self.hub.access.table)
    }

    fn publish(&mut self, _publish: &Publish<'_>, _ticket: Ticket) -> Routed {
        unreachable!("a front publishes only what it reads")
    }

    fn destinations(&mut self, topic: &str, retain: bool) -> Destinations {
        self.hub.inside = Inside::Shell;
        let destinations = self.hub.destinations_of_client(topic, retain);
        self.hub.inside = Inside::Front;
        destinations
    }

    fn cut(&self, partition: PartitionId) -> Cut {
        self.hub.cut(partition)
    }

    fn home_partition(&self, client_id: &str) -> PartitionId {
        self.hub.classes.session(client_id)
    }

    fn volatile_partition(&self) -> PartitionId {
        PartitionId::volatile_of(self.id.shard)
    }

    fn send_home(&mut self, partition: PartitionId, message: ToHome) {
        self.hub.inside = Inside::Shell;
        self.hub
            .send_from_front(self.id, self.unsettled, partition, message);
        self.hub.inside = Inside::Front;
    }

    fn close(&mut self, cause: CloseCause) {
        self.close.get_or_insert(cause);
    }

    fn dropped(&mut self, why: Dropped, messages: u64) {
        self.hub.counters.drop_messages(why, messages);
        self.hub.counters.publishes_sent =
            self.hub.counters.publishes_sent.saturating_sub(messages);
    }

    fn assigned_bits(&mut self) -> [u64; 2] {
        self.hub.assigned_bits()
    }
}

impl Hub {
    /// For a client id that is assigned.
    fn assigned_bits(&mut self) -> [u64; 2] {
        let drawn = [self.rng.next_u64(), self.rng.next_u64()];
        self.access.accounts.seal(drawn)
    }

    /// A front's message to a partition. Its last ones wait for its appends (M25).
    fn send_from_front(
        &mut self,
        front: FrontId,
        unsettled: u32,
        partition: PartitionId,
        message: ToHome,
    ) {
        let is_last = matches!(message, ToHome::Detach { .. } | ToHome::Unclaim { .. });
        if is_last && unsettled > 0 {
            self.books
                .last_words
                .hold(self.now.tick, front, unsettled, (partition, message));
        } else {
            self.send_home(partition, message);
        }
    }

    /// A publish of a front is settled, whether or not the front is still there.
    pub(crate) fn front_settled(&mut self, front: FrontId) {
        if self.books.last_words.is_empty() {
            return;
        }
        if let Some(leaving) = self.books.last_words.settled(front) {
            for (partition, message) in leaving.messages {
                self.send_home(partition, message);
            }
        }
    }

    /// Sends the last words of fronts that have waited long enough, with what is still open.
    pub(crate) fn send_overdue_words(&mut self) {
        while let Some(leaving) = self.books.last_words.overdue(self.now.tick) {
            let still_open = self.books.appends.open(leaving.front);
            for (partition, mut message) in leaving.messages {
                if let ToHome::Detach { open, .. } | ToHome::Unclaim { open, .. } = &mut message {
                    open.clone_from(&still_open);
                }
                self.send_home(partition, message);
            }
        }
    }
}
