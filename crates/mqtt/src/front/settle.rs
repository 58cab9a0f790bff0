//! What becomes of the client's publishes of QoS > 0: their acknowledgements in order (M10), refusals, time limits (M11, M49).

use courser_contract::{
    Asked, CloseCause, DetachCause, FrontEffects, Now, QoS, Refusal, Settled, Tick, Ticket,
};

use super::Front;
use super::close::End;
use super::publish::{Blocked, Incoming, REFUSED_MS, Refused, SETTLE_MS};
use super::tickets::{Answer, Entry, Hold, Way};
use crate::codec::{PacketId, PacketType, ProtocolVersion, ReasonCode};

impl Front {
    /// A publish that goes nowhere: whoever runs the broker hears of one that the client has no right to.
    #[cold]
    pub(super) fn answer_refused_here(
        &mut self,
        now: Now,
        refusal: Refusal,
        incoming: &Incoming<'_>,
        fx: &mut impl FrontEffects,
    ) -> Answer {
        if refusal == Refusal::NotAuthorized {
            fx.denied(self.client_id(), Asked::Publish(incoming.publish.topic));
        }
        self.answer_refused(now, refusal, REFUSED_MS)
    }

    /// How a refusal is said. 3.1.1 cannot say it: the connection ends `close_ms` later.
    pub(super) fn answer_refused(&mut self, now: Now, refusal: Refusal, close_ms: u64) -> Answer {
        match self.peer.version {
            ProtocolVersion::V5 => Answer::Due(refusal_reason(refusal)),
            ProtocolVersion::V311 => {
                let refused = Refused {
                    close_at: now.tick.after_ms(match refusal {
                        // Waiting makes it no better. v3 [MQTT-3.3.5-2]: an acknowledgement would say that it was taken.
                        Refusal::NotAuthorized | Refusal::TooLarge => 0,
                        Refusal::QuotaExceeded | Refusal::Unavailable | Refusal::Unspecified => {
                            close_ms
                        }
                    }),
                    reason: refusal_reason(refusal),
                };
                let inbound = self.inbound.get_or_insert_default();
                if inbound
                    .refused
                    .is_none_or(|earlier| refused.close_at < earlier.close_at)
                {
                    inbound.refused = Some(refused);
                }
                Answer::Silent
            }
        }
    }

    pub(super) fn queue_ticket(
        &mut self,
        now: Now,
        incoming: &Incoming<'_>,
        way: Way,
        answer: Answer,
    ) {
        let inbound = self.inbound.get_or_insert_default();
        inbound.qos1 += u16::from(incoming.publish.qos == QoS::AtLeastOnce);
        inbound.tickets.push(Entry {
            since: now.tick,
            packet_id: incoming.packet_id,
            qos: incoming.publish.qos,
            way,
            answer,
            retain_mark: incoming.retain_mark,
        });
        self.drain_tickets();
    }

    /// All destinations of a waiting publish have answered; `result` is the worst answer.
    pub fn handle_settled(
        &mut self,
        now: Now,
        ticket: Ticket,
        result: Settled,
        fx: &mut impl FrontEffects,
    ) {
        let _ = fx;
        if self.inbound.is_none() {
            return;
        }
        let answer = match result {
            Settled::Ok => Answer::Due(ReasonCode::Success),
            Settled::Refused(refusal) => self.answer_refused(now, refusal, REFUSED_MS),
        };
        if let Some(inbound) = &mut self.inbound
            && let Some(entry) = inbound.tickets.get_mut(ticket)
            && entry.answer == Answer::Waits
        {
            entry.answer = answer;
        }
        self.drain_tickets();
    }

    /// Sends the acknowledgements that are due at the head of the queue (M10).
    pub(super) fn drain_tickets(&mut self) {
        let Some(inbound) = &mut self.inbound else {
            return;
        };
        inbound.blocked = Blocked::No;
        while let Some(inbound) = &mut self.inbound
            && let Some((entry, reason)) = inbound.tickets.drain()
        {
            match entry.qos {
                QoS::AtMostOnce => debug_assert!(false, "QoS 0 has no ticket"),
                QoS::AtLeastOnce => {
                    inbound.qos1 -= 1;
                    self.send_ack(PacketType::Puback, entry.packet_id, reason);
                }
                QoS::ExactlyOnce => self.send_pubrec(&entry, reason),
            }
        }
    }

    fn send_pubrec(&mut self, entry: &Entry, reason: ReasonCode) {
        let inbound = self.inbound.get_or_insert_default();
        if inbound.holds.get(entry.packet_id) == Some(Hold::Waits) {
            match (reason, entry.way) {
                // v5 [MQTT-4.3.3-9]
                _ if reason.is_error() => {
                    inbound.holds.remove(entry.packet_id);
                }
                (_, Way::Direct) => inbound.holds.set(entry.packet_id, Hold::Here),
                (_, Way::Home) => inbound.holds.set(entry.packet_id, Hold::AtHome),
            }
        }
        self.send_ack(PacketType::Pubrec, entry.packet_id, reason);
    }

    /// PUBACK, PUBREC, PUBREL or PUBCOMP: four bytes, five with a reason. v5 leaves the reason out when it is Success, and an error has
    /// a text.
    pub(super) fn send_ack(&mut self, packet: PacketType, packet_id: u16, reason: ReasonCode) {
        if reason.is_error()
            && let Some(packet_id) = PacketId::new(packet_id)
            && self.send_ack_refused(packet, packet_id, reason)
        {
            return;
        }
        let first = (packet as u8) << 4 | packet.required_flags().unwrap_or(0);
        let [high, low] = packet_id.to_be_bytes();
        let out = self.output.buffer(5);
        if reason == ReasonCode::Success || self.peer.version == ProtocolVersion::V311 {
            out.extend_from_slice(&[first, 2, high, low]);
        } else {
            debug_assert!(reason.allowed_in(packet), "a reason of this packet's table");
            out.extend_from_slice(&[first, 3, high, low, reason.byte()]);
        }
    }

    /// The oldest publish has waited too long (M11), or a refusal's time is over (M49).
    pub(super) fn handle_publish_timeout(&mut self, now: Now, fx: &mut impl FrontEffects) {
        if self.publish_deadline().is_none_or(|at| at > now.tick) {
            return;
        }
        let refused = self.inbound.as_ref().and_then(|inbound| inbound.refused);
        let (reason, cause) = match refused {
            Some(Refused { reason, .. }) => (reason, CloseCause::PublishRefused(reason.byte())),
            None => (ReasonCode::ServerBusy, CloseCause::PublishTimeout),
        };
        self.disconnect((reason, ""), End::new(DetachCause::Lost, cause), fx);
    }

    pub(super) fn publish_deadline(&self) -> Option<Tick> {
        let inbound = self.inbound.as_ref()?;
        if let Some(refused) = inbound.refused {
            return Some(refused.close_at);
        }
        let head = inbound.tickets.head()?;
        Some(head.since.after_ms(SETTLE_MS))
    }
}

/// Reason codes of the table of PUBACK and PUBREC: v5 [MQTT-3.4.2-1], v5 [MQTT-3.5.2-1].
const fn refusal_reason(refusal: Refusal) -> ReasonCode {
    match refusal {
        Refusal::QuotaExceeded | Refusal::TooLarge => ReasonCode::QuotaExceeded,
        Refusal::NotAuthorized => ReasonCode::NotAuthorized,
        Refusal::Unavailable => ReasonCode::ImplementationSpecificError,
        Refusal::Unspecified => ReasonCode::UnspecifiedError,
    }
}
