//! PUBLISH of the client: QoS 0, QoS 1, and what all have in common. QoS 2 is in `publish_qos2`.

use courser_contract::{
    Asked, Dropped, FrontEffects, Now, Permission, Publish, QoS, Refusal, Routed, Tick, Ticket,
    WallMs,
};

use super::alias::{AliasBytes, AliasesIn, NoRoom};
use super::close::Fault;
use super::config::Feature;
use super::tickets::{Answer, Holds, Tickets, Way};
use super::{Flow, Front};
use crate::codec::{self, Frame, PacketType, ProtocolVersion, PublishTopic, ReasonCode};

/// A publish whose destinations have not answered for this long ends the connection: clients send again only on a new one (M11).
pub(super) const SETTLE_MS: u64 = 10_000;
/// From the first publish that was refused to a 3.1.1 client to the end of its connection (M49).
pub(super) const REFUSED_MS: u64 = 30_000;

/// What is remembered of the client's publishes.
#[derive(Debug, Default)]
pub(super) struct Inbound {
    pub(super) tickets: Tickets,
    pub(super) holds: Holds,
    pub(super) aliases: AliasesIn,
    /// What these take: beside them, since they are taken out and put back for a publish.
    alias_bytes: AliasBytes,
    /// QoS 1 tickets in the queue.
    pub(super) qos1: u16,
    /// The next packet waits until a ticket settles.
    pub(super) blocked: Blocked,
    /// A publish of a 3.1.1 client was refused.
    pub(super) refused: Option<Refused>,
}

/// The end of a connection that cannot be told of a refusal.
#[derive(Clone, Copy, Debug)]
pub(super) struct Refused {
    pub(super) close_at: Tick,
    pub(super) reason: ReasonCode,
}

/// Whether the front reads on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Blocked {
    /// It reads.
    #[default]
    No,
    /// A ticket must settle first.
    OnTicket,
}

impl Inbound {
    pub(super) fn is_blocked(&self) -> bool {
        self.blocked == Blocked::OnTicket
    }

    /// Publishes that count against our Receive Maximum: until PUBACK, PUBCOMP or a refusing PUBREC has left.
    fn under_way(&self) -> usize {
        usize::from(self.qos1) + self.holds.counted()
    }

    /// Nothing in it is still needed.
    pub(super) fn is_idle(&self) -> bool {
        self.tickets.is_empty()
            && self.holds.are_none()
            && self.refused.is_none()
            && self.aliases.is_empty()
    }
}

/// The message of a PUBLISH on its way, with what its acknowledgement needs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Incoming<'a> {
    pub(super) publish: Publish<'a>,
    pub(super) packet_id: u16,
    pub(super) duplicate: bool,
    pub(super) retain_mark: u32,
}

impl Front {
    #[inline]
    pub(super) fn handle_publish(
        &mut self,
        now: Now,
        frame: &Frame<'_>,
        fx: &mut impl FrontEffects,
    ) -> Result<Flow, Fault> {
        if let Some(requests) = &mut self.requests
            && requests.hold_publish(now.tick)
        {
            return Ok(Flow::Wait);
        }
        // Where it was read to: a move would copy what has just been written, and wait for it.
        let packet = codec::Publish::decode(frame, &self.rules());
        let packet = packet.as_ref().map_err(|error| *error)?;
        match packet.topic {
            PublishTopic::Name(name) => self.take_publish(now, packet, name.as_str(), fx),
            PublishTopic::NameAndAlias(..) | PublishTopic::Alias(_) => {
                self.take_aliased(now, packet, fx)
            }
        }
    }

    fn take_aliased(
        &mut self,
        now: Now,
        packet: &codec::Publish<'_>,
        fx: &mut impl FrontEffects,
    ) -> Result<Flow, Fault> {
        let alias = packet.topic.alias().map_or(0, codec::TopicAlias::get);
        // v5 [MQTT-3.3.2-9], v5 [MQTT-3.3.2-12]
        if alias > self.peer.topic_alias_in_max {
            return Err(Fault {
                reason: ReasonCode::TopicAliasInvalid,
                text: "the topic alias is above the maximum",
            });
        }
        let inbound = self.inbound.get_or_insert_default();
        if let Some(name) = packet.topic.name() {
            let name_of = (alias, name.as_str());
            let load = &self.config.alias_load;
            let bound = inbound
                .aliases
                .bind(name_of, &mut inbound.alias_bytes, load);
            if bound == Err(NoRoom) {
                return Err(Fault {
                    reason: ReasonCode::QuotaExceeded,
                    text: "topic aliases take too much memory",
                });
            }
            return self.take_publish(now, packet, name.as_str(), fx);
        }
        let aliases = std::mem::take(&mut inbound.aliases);
        let flow = match aliases.topic(alias) {
            Some(topic) => self.take_publish(now, packet, topic, fx),
            None => Err(Fault::protocol("the topic alias was never bound")),
        };
        if let Some(inbound) = &mut self.inbound {
            inbound.aliases = aliases;
        }
        flow
    }

    #[inline]
    fn take_publish(
        &mut self,
        now: Now,
        packet: &codec::Publish<'_>,
        topic: &str,
        fx: &mut impl FrontEffects,
    ) -> Result<Flow, Fault> {
        let Some(properties) = packet.passthrough.as_contiguous() else {
            let mut gathered = self.config.scratch.take();
            gathered.clear();
            packet.passthrough.copy_to(&mut gathered);
            let flow = self.route(now, packet, (topic, &gathered), fx);
            self.config.scratch.replace(gathered);
            return flow;
        };
        self.route(now, packet, (topic, properties), fx)
    }

    #[inline]
    fn route(
        &mut self,
        now: Now,
        packet: &codec::Publish<'_>,
        (topic, properties): (&str, &[u8]),
        fx: &mut impl FrontEffects,
    ) -> Result<Flow, Fault> {
        // By its parts: as a whole it would be read in one piece, which has just been written in three.
        let (qos, packet_id, duplicate) = match &packet.delivery {
            codec::Delivery::AtMostOnce => (QoS::AtMostOnce, 0, false),
            codec::Delivery::AtLeastOnce { packet_id, dup } => {
                (QoS::AtLeastOnce, packet_id.get(), *dup)
            }
            codec::Delivery::ExactlyOnce { packet_id, dup } => {
                (QoS::ExactlyOnce, packet_id.get(), *dup)
            }
        };
        self.check_offered(qos, packet.retain)?;
        let mut incoming = Incoming {
            publish: Publish {
                topic,
                properties,
                payload: packet.payload,
                qos,
                retain: packet.retain,
                expires_at: packet
                    .message_expiry_interval
                    .map(|seconds| WallMs(now.wall.0 + u64::from(seconds) * 1000)),
                publisher: Some(self.session.publisher),
                author: None,
            },
            packet_id,
            duplicate,
            retain_mark: 0,
        };
        if packet.retain && self.session.is_kept() {
            incoming.retain_mark = retain_mark(topic);
            if self.retain_must_wait(&incoming) {
                return Ok(Flow::Wait);
            }
        }
        match qos {
            QoS::AtMostOnce => {
                self.publish_at_most_once(&incoming.publish, fx);
                Ok(Flow::Next)
            }
            QoS::AtLeastOnce => self.publish_at_least_once(now, &incoming, fx),
            QoS::ExactlyOnce => self.publish_exactly_once(now, &incoming, fx),
        }
    }

    #[inline]
    fn check_offered(&self, qos: QoS, retain: bool) -> Result<(), Fault> {
        if retain && self.config.retain == Feature::Off {
            return Err(Fault {
                reason: ReasonCode::RetainNotSupported,
                text: "retained messages are not available here",
            });
        }
        if qos > self.config.maximum_qos {
            return Err(Fault {
                reason: ReasonCode::QosNotSupported,
                text: "the QoS is above the maximum of this server",
            });
        }
        Ok(())
    }

    /// A RETAIN publish may not overtake an earlier one to the same topic that goes another way (M28): the latest must be kept. Of one with
    /// QoS 0 nobody says that it has come, and nothing waits for it.
    fn retain_must_wait(&mut self, incoming: &Incoming<'_>) -> bool {
        let way = match incoming.publish.qos {
            QoS::AtMostOnce | QoS::AtLeastOnce => Way::Direct,
            QoS::ExactlyOnce => Way::Home,
        };
        let Some(inbound) = &mut self.inbound else {
            return false;
        };
        let waits = inbound.tickets.retain_waits(incoming.retain_mark, way);
        if waits {
            inbound.blocked = Blocked::OnTicket;
        }
        waits
    }

    #[inline]
    fn publish_at_most_once(&mut self, publish: &Publish<'_>, fx: &mut impl FrontEffects) {
        fx.received(publish);
        if self.is_refusing() {
            return fx.dropped(Dropped::Rejected, 1);
        }
        match self.hand_over(publish, Ticket(0), fx) {
            Routed::Done { .. } | Routed::Waits => {}
            Routed::Refused(refusal) => self.drop_refused(publish, refusal, fx),
        }
    }

    /// Nobody hears of it but who runs the broker.
    #[cold]
    fn drop_refused(&self, publish: &Publish<'_>, refusal: Refusal, fx: &mut impl FrontEffects) {
        match refusal {
            Refusal::NotAuthorized => {
                fx.dropped(Dropped::Denied, 1);
                fx.denied(self.client_id(), Asked::Publish(publish.topic));
            }
            Refusal::QuotaExceeded
            | Refusal::TooLarge
            | Refusal::Unavailable
            | Refusal::Unspecified => fx.dropped(Dropped::Rejected, 1),
        }
    }

    /// To the shard, unless it is more than may be retained or the client has no right to the topic.
    // Always: the topic is in registers where it is called, and would be read back from what has just been written.
    #[inline(always)]
    pub(super) fn hand_over(
        &self,
        publish: &Publish<'_>,
        ticket: Ticket,
        fx: &mut impl FrontEffects,
    ) -> Routed {
        if publish.retain {
            return self.hand_over_retained(publish, ticket, fx);
        }
        if fx.may(Asked::Publish(publish.topic)) == Permission::Denied {
            return Routed::Refused(Refusal::NotAuthorized);
        }
        fx.publish(publish, ticket)
    }

    /// The same of what is to be retained, which says who published it.
    #[inline(never)]
    fn hand_over_retained(
        &self,
        publish: &Publish<'_>,
        ticket: Ticket,
        fx: &mut impl FrontEffects,
    ) -> Routed {
        if self.is_too_large_to_retain(publish.payload) {
            return Routed::Refused(Refusal::TooLarge);
        }
        if fx.may(Asked::Publish(publish.topic)) == Permission::Denied {
            return Routed::Refused(Refusal::NotAuthorized);
        }
        let author = fx.author();
        let publish = Publish {
            author: author.as_deref(),
            ..*publish
        };
        fx.publish(&publish, ticket)
    }

    pub(super) fn is_too_large_to_retain(&self, payload: &[u8]) -> bool {
        payload.len() > self.config.retained_payload_bytes_max
    }

    fn publish_at_least_once(
        &mut self,
        now: Now,
        incoming: &Incoming<'_>,
        fx: &mut impl FrontEffects,
    ) -> Result<Flow, Fault> {
        if self.is_refusing() {
            return Ok(Flow::Next);
        }
        if self.check_quota()? == Flow::Wait {
            return Ok(Flow::Wait);
        }
        fx.received(&incoming.publish);
        let queue = self.inbound.as_ref().map(|inbound| &inbound.tickets);
        let ticket = queue.map_or(Ticket(0), Tickets::next);
        let alone = queue.is_none_or(Tickets::is_empty);
        let answer = match self.hand_over(&incoming.publish, ticket, fx) {
            Routed::Done { matched } if alone => {
                let reason = reason_for(matched);
                self.send_ack(PacketType::Puback, incoming.packet_id, reason);
                return Ok(Flow::Next);
            }
            Routed::Done { matched } => Answer::Due(reason_for(matched)),
            Routed::Waits => Answer::Waits,
            Routed::Refused(refusal) => self.answer_refused_here(now, refusal, incoming, fx),
        };
        self.queue_ticket(now, incoming, Way::Direct, answer);
        Ok(Flow::Next)
    }

    /// After a refusal a 3.1.1 client gets nothing acknowledged and nothing stored (M49).
    #[inline]
    pub(super) fn is_refusing(&self) -> bool {
        self.inbound
            .as_ref()
            .is_some_and(|inbound| inbound.refused.is_some())
    }

    /// Our Receive Maximum: v5 section 3.3.4. 3.1.1 clients do not know it; their next packets wait.
    #[inline]
    pub(super) fn check_quota(&mut self) -> Result<Flow, Fault> {
        let Some(inbound) = &self.inbound else {
            return Ok(Flow::Next);
        };
        let max = usize::from(self.config.receive_maximum.get());
        match self.peer.version {
            ProtocolVersion::V5 if inbound.under_way() >= max => Err(Fault {
                reason: ReasonCode::ReceiveMaximumExceeded,
                text: "more publishes under way than Receive Maximum",
            }),
            ProtocolVersion::V5 => Ok(Flow::Next),
            ProtocolVersion::V311 => Ok(self.check_answers()),
        }
    }

    /// As many answers wait as a client may have publishes under way; then its next packets do.
    #[inline]
    pub(super) fn check_answers(&mut self) -> Flow {
        let max = usize::from(self.config.receive_maximum.get());
        match &mut self.inbound {
            Some(inbound) if inbound.tickets.len() >= max => {
                inbound.blocked = Blocked::OnTicket;
                Flow::Wait
            }
            Some(_) | None => Flow::Next,
        }
    }
}

/// v5 section 3.4.2.1: nobody subscribes.
pub(super) const fn reason_for(matched: bool) -> ReasonCode {
    if matched {
        ReasonCode::Success
    } else {
        ReasonCode::NoMatchingSubscribers
    }
}

/// Never 0, which means no RETAIN.
fn retain_mark(topic: &str) -> u32 {
    rapidhash::v3::rapidhash_v3(topic.as_bytes()) as u32 | 1
}

pub(super) const fn contract_qos(qos: codec::QoS) -> QoS {
    match qos {
        codec::QoS::AtMostOnce => QoS::AtMostOnce,
        codec::QoS::AtLeastOnce => QoS::AtLeastOnce,
        codec::QoS::ExactlyOnce => QoS::ExactlyOnce,
    }
}
