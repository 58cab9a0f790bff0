//! QoS 2 of the client: by the front's own memory where the session ends with the connection (M29), by the home where it is
//! durable (M28).

use courser_contract::{
    Asked, FrontEffects, Now, Permission, PublishedQos2, PubrecCan, Record, RecordView, Refusal,
    Routed, Settled, Ticket, ToHome, is_own_topic,
};

use super::close::Fault;
use super::publish::{Incoming, SETTLE_MS, reason_for};
use super::tickets::{Answer, Hold, Tickets, Way};
use super::{Flow, Front};
use crate::codec::{PacketType, ProtocolVersion, ReasonCode};

impl Front {
    pub(super) fn publish_exactly_once(
        &mut self,
        now: Now,
        incoming: &Incoming<'_>,
        fx: &mut impl FrontEffects,
    ) -> Result<Flow, Fault> {
        if self.is_refusing() {
            return Ok(Flow::Next);
        }
        let held = self
            .inbound
            .as_ref()
            .and_then(|inbound| inbound.holds.get(incoming.packet_id));
        let flow = match held {
            None => self.check_quota()?,
            // Answered in their turn too, and no Receive Maximum counts them.
            Some(_) => self.check_answers(),
        };
        if flow == Flow::Wait {
            return Ok(Flow::Wait);
        }
        fx.received(&incoming.publish);
        if let Some(hold) = held {
            return self.publish_again(now, incoming, hold);
        }
        if self.session.is_kept() {
            self.publish_by_home(now, incoming, fx);
        } else {
            self.publish_by_front(now, incoming, fx);
        }
        Ok(Flow::Next)
    }

    /// The same packet id before its exchange is over: v3 [MQTT-4.3.3-2], v5 [MQTT-4.3.3-10].
    fn publish_again(
        &mut self,
        now: Now,
        incoming: &Incoming<'_>,
        hold: Hold,
    ) -> Result<Flow, Fault> {
        match (hold, self.peer.version) {
            // Its PUBREC is on the way.
            (Hold::Waits, _) => {}
            (Hold::Here | Hold::AtHome, _) => {
                let answer = Answer::Due(ReasonCode::Success);
                self.queue_ticket(now, incoming, Way::Direct, answer);
            }
            (Hold::Releasing | Hold::ReleasingEarlier, ProtocolVersion::V5) => {
                let answer = Answer::Due(ReasonCode::PacketIdentifierInUse);
                self.queue_ticket(now, incoming, Way::Direct, answer);
            }
            (Hold::Releasing | Hold::ReleasingEarlier, ProtocolVersion::V311) => {
                return Err(Fault::protocol("the packet identifier is in use"));
            }
        }
        Ok(Flow::Next)
    }

    fn publish_by_front(&mut self, now: Now, incoming: &Incoming<'_>, fx: &mut impl FrontEffects) {
        let queue = self.inbound.as_ref().map(|inbound| &inbound.tickets);
        let ticket = queue.map_or(Ticket(0), Tickets::next);
        let answer = match self.hand_over(&incoming.publish, ticket, fx) {
            Routed::Done { matched } => Answer::Due(reason_for(matched)),
            Routed::Waits => Answer::Waits,
            Routed::Refused(refusal) => self.answer_refused_here(now, refusal, incoming, fx),
        };
        self.hold_and_queue(now, incoming, Way::Direct, answer);
    }

    /// A repeat of an earlier connection goes to the home in any case: only the home knows whether it holds the packet id.
    fn publish_by_home(&mut self, now: Now, incoming: &Incoming<'_>, fx: &mut impl FrontEffects) {
        let publish = &incoming.publish;
        let refusal = if publish.retain && self.is_too_large_to_retain(publish.payload) {
            Some(Refusal::TooLarge)
        } else if is_own_topic(publish.topic)
            || fx.may(Asked::Publish(publish.topic)) == Permission::Denied
        {
            // What only the server publishes to has no destinations for a client, which must not look as if nobody subscribed.
            Some(Refusal::NotAuthorized)
        } else {
            None
        };
        if let Some(refusal) = refusal {
            return self.refuse_for_home(now, incoming, refusal, fx);
        }
        let destinations = fx.destinations(publish.topic, publish.retain);
        if destinations.is_empty() && !incoming.duplicate {
            let answer = Answer::Due(ReasonCode::NoMatchingSubscribers);
            return self.hold_and_queue(now, incoming, Way::Home, answer);
        }
        // A repeat may be held already, and takes no memory then: the home knows.
        if !incoming.duplicate && fx.refuses(&destinations) {
            return self.refuse_for_home(now, incoming, Refusal::QuotaExceeded, fx);
        }
        let author = publish.retain.then(|| fx.author()).flatten();
        let record = RecordView {
            author: author.as_deref(),
            ..RecordView::from(publish)
        };
        let home = self.session.home;
        let cuts = destinations.iter().map(|&to| fx.cut(to)).collect();
        fx.send_home(
            home.partition,
            ToHome::PublishQos2 {
                session: home.session,
                epoch: self.session.epoch,
                publish: Box::new(PublishedQos2 {
                    packet_id: incoming.packet_id,
                    hash: hash_of(publish.topic, publish.payload),
                    record: Record::copy_of(&record),
                    destinations,
                    cuts,
                    pubrec: match self.peer.version {
                        ProtocolVersion::V5 => PubrecCan::Refuse,
                        ProtocolVersion::V311 => PubrecCan::OnlyAccept,
                    },
                }),
            },
        );
        self.hold_and_queue(now, incoming, Way::Home, Answer::Waits);
    }

    /// Refused here, and the home has to know: perhaps it was stored on an earlier connection, when it could be, or a client that lost its
    /// state uses the packet id anew. A PUBREC that refuses ends the exchange in both cases, and the next publish with that packet id is a
    /// new message (M28): v5 [MQTT-4.3.3-9]. 3.1.1 has no such PUBREC: the hold stays for the client's repeat.
    fn refuse_for_home(
        &mut self,
        now: Now,
        incoming: &Incoming<'_>,
        refusal: Refusal,
        fx: &mut impl FrontEffects,
    ) {
        if self.peer.version == ProtocolVersion::V5 {
            self.end_hold(incoming.packet_id, fx);
        }
        let answer = self.answer_refused_here(now, refusal, incoming, fx);
        self.hold_and_queue(now, incoming, Way::Direct, answer);
    }

    fn hold_and_queue(&mut self, now: Now, incoming: &Incoming<'_>, way: Way, answer: Answer) {
        let inbound = self.inbound.get_or_insert_default();
        inbound.holds.set(incoming.packet_id, Hold::Waits);
        self.queue_ticket(now, incoming, way, answer);
    }

    /// The home has answered a publish.
    pub(super) fn handle_received(
        &mut self,
        now: Now,
        packet_id: u16,
        (result, matched): (Settled, bool),
    ) {
        if self.inbound.is_none() {
            return;
        }
        let answer = match result {
            Settled::Ok => Answer::Due(reason_for(matched)),
            // The hold stays in 3.1.1: the client sends the message again on a new connection (M28).
            Settled::Refused(refusal) => self.answer_refused(now, refusal, SETTLE_MS),
        };
        if let Some(inbound) = &mut self.inbound
            && let Some(entry) = inbound.tickets.of_home(packet_id)
        {
            entry.answer = answer;
        }
        self.drain_tickets();
    }

    /// PUBREL of the client: v3 [MQTT-4.3.3-2], v5 [MQTT-4.3.3-11].
    pub(super) fn handle_pubrel(
        &mut self,
        packet_id: u16,
        fx: &mut impl FrontEffects,
    ) -> Result<(), Fault> {
        let kept = self.session.is_kept();
        let held = self
            .inbound
            .as_ref()
            .and_then(|inbound| inbound.holds.get(packet_id));
        match held {
            Some(Hold::Waits) => {
                return Err(Fault::protocol("PUBREL came before its PUBREC"));
            }
            Some(Hold::Here) => {
                if let Some(inbound) = &mut self.inbound {
                    inbound.holds.remove(packet_id);
                }
                self.send_ack(PacketType::Pubcomp, packet_id, ReasonCode::Success);
            }
            Some(Hold::AtHome) => self.release(packet_id, Hold::Releasing, fx),
            // Of an earlier connection: the home knows.
            None if kept => self.release(packet_id, Hold::ReleasingEarlier, fx),
            None => self.send_ack(
                PacketType::Pubcomp,
                packet_id,
                ReasonCode::PacketIdentifierNotFound,
            ),
            // PUBCOMP is on the way.
            Some(Hold::Releasing | Hold::ReleasingEarlier) => {}
        }
        Ok(())
    }

    fn release(&mut self, packet_id: u16, hold: Hold, fx: &mut impl FrontEffects) {
        let inbound = self.inbound.get_or_insert_default();
        inbound.holds.set(packet_id, hold);
        self.end_hold(packet_id, fx);
    }

    /// Tells the home that a packet id is free.
    fn end_hold(&self, packet_id: u16, fx: &mut impl FrontEffects) {
        let home = self.session.home;
        fx.send_home(
            home.partition,
            ToHome::Release {
                session: home.session,
                epoch: self.session.epoch,
                packet_id,
            },
        );
    }

    /// The home has let go of a packet id; the exchange is over.
    pub(super) fn handle_released(&mut self, packet_id: u16, existed: bool) {
        let holds = self.inbound.as_mut().map(|inbound| &mut inbound.holds);
        let releasing = holds.and_then(|holds| {
            let hold = holds.get(packet_id)?;
            let is_releasing = matches!(hold, Hold::Releasing | Hold::ReleasingEarlier);
            is_releasing.then(|| holds.remove(packet_id)).flatten()
        });
        let reason = match (releasing, existed) {
            // It was refused, and nobody waits for a PUBCOMP; the packet id may be that of another exchange already.
            (None, _) => return,
            (Some(Hold::ReleasingEarlier), false) => ReasonCode::PacketIdentifierNotFound,
            // This connection has seen its PUBREC, also where nothing was held because nobody subscribed.
            (Some(_), _) => ReasonCode::Success,
        };
        self.send_ack(PacketType::Pubcomp, packet_id, reason);
    }
}

/// Stored with the hold, so the same in each release of the broker.
fn hash_of(topic: &str, payload: &[u8]) -> u64 {
    let topic = rapidhash::v3::rapidhash_v3(topic.as_bytes());
    topic.rotate_left(32) ^ rapidhash::v3::rapidhash_v3(payload)
}
