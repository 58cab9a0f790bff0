//! What comes to a client, judged packet by packet.

use courser_mqtt::codec::{
    Delivery, Frame, PACKET_BYTES_MAX, Packet, ProtocolVersion, Publish, QoS, ReasonCode, Rules,
    Split, Suback,
};

use super::requests::Request;
use super::{Client, Ctx, Expected, Kind, Open, Owed, Phase, wire};
use crate::oracle::Got;

impl Client {
    /// Bytes of the broker.
    pub(crate) fn receive(&mut self, conn: u32, bytes: &[u8], ctx: &mut Ctx<'_>) {
        // A connection that was left to be taken over is not listened to.
        if self.conn != Some(conn) {
            return;
        }
        self.last_event = ctx.now;
        self.rest.extend_from_slice(bytes);
        let rest = std::mem::take(&mut self.rest);
        let mut at = 0;
        while self.conn == Some(conn) {
            let (len, rules) = match Frame::split(&rest[at..], PACKET_BYTES_MAX) {
                Ok(Split::Whole(frame)) => {
                    let rules = Rules::from_server(self.version);
                    match Packet::decode(&frame, &rules) {
                        Ok(packet) => {
                            self.count_packet(ctx);
                            self.packet(&packet, ctx);
                            self.finish_cut(ctx);
                        }
                        Err(error) => self.fail(ctx, &format!("a malformed packet: {error}")),
                    }
                    (frame.len(), rules)
                }
                Ok(Split::Need(_)) => break,
                Err(error) => return self.fail(ctx, &format!("a malformed frame: {error}")),
            };
            let _ = rules;
            at += len;
        }
        if self.conn == Some(conn) {
            self.rest = rest[at..].to_vec();
        }
    }

    fn packet(&mut self, packet: &Packet<'_>, ctx: &mut Ctx<'_>) {
        let connecting = matches!(self.phase, Phase::Connecting { .. });
        match packet {
            Packet::Connack(connack) if connecting => return self.connacked(connack, ctx),
            _ if connecting => {
                return self.fail(ctx, "v5 [MQTT-3.2.0-1]: a packet before CONNACK");
            }
            _ => {}
        }
        match packet {
            Packet::Publish(publish) => self.delivered(publish, ctx),
            Packet::Puback(ack) => self.puback(ack.packet_id.get(), ack.reason, ctx),
            Packet::Pubrec(ack) => self.pubrec(ack.packet_id.get(), ack.reason, ctx),
            Packet::Pubrel(ack) => self.pubrel(ack.packet_id.get(), ctx),
            Packet::Pubcomp(ack) => self.pubcomp(ack.packet_id.get(), ctx),
            Packet::Suback(suback) => self.suback(suback, ctx),
            Packet::Unsuback(unsuback) => self.unsuback(unsuback.packet_id.get(), ctx),
            Packet::Disconnect(disconnect) => {
                ctx.note(format_args!(
                    "{} is sent away: {:?}",
                    self.id, disconnect.reason
                ));
                let fault = matches!(
                    disconnect.reason,
                    ReasonCode::ProtocolError
                        | ReasonCode::MalformedPacket
                        | ReasonCode::ReceiveMaximumExceeded
                );
                if fault {
                    self.fail(ctx, "the broker says that this client broke a rule");
                }
            }
            Packet::Pingresp(_) => {}
            Packet::Connack(_)
            | Packet::Connect(_)
            | Packet::Subscribe(_)
            | Packet::Unsubscribe(_)
            | Packet::Pingreq(_)
            | Packet::Auth(_) => self.fail(ctx, "a packet that a server may not send here"),
        }
    }

    fn delivered(&mut self, publish: &Publish<'_>, ctx: &mut Ctx<'_>) {
        let Some(life) = self.life else { return };
        let Some(topic) = publish.topic.name() else {
            return self.fail(ctx, "a topic alias that was not allowed");
        };
        let topic = topic.as_str().to_owned();
        if self.kind == Kind::Probe {
            self.found
                .entry(topic.clone())
                .or_default()
                .push(publish.payload.to_vec());
        }
        let mut got = Got {
            topic,
            payload: publish.payload.to_vec(),
            qos: publish.delivery.qos(),
            retain: publish.retain,
            dup: publish.delivery.dup(),
            repeat: false,
        };
        let packet_id = publish.delivery.packet_id().map_or(0, |id| id.get());
        self.judge_window(packet_id, ctx);
        let known = self.known(packet_id, got.qos);
        let named = ctx.oracle.name(&got.payload);
        got.repeat = known.is_some_and(|open| open.msg == named && (got.dup || !open.acked));
        self.judge_exchange(packet_id, &got, named, known, ctx);
        ctx.note(format_args!(
            "{} gets message {named} on {} as {packet_id}: {:?}, dup {}, retain {}, repeat {}",
            self.id, got.topic, got.qos, got.dup, got.retain, got.repeat
        ));
        let msg = ctx.oracle.got(life, &got, ctx.now);
        if self.version == ProtocolVersion::V5 {
            let left = publish.message_expiry_interval;
            ctx.oracle.judge_life(msg, left, ctx.now);
        }
        if got.repeat {
            ctx.counts.repeats += 1;
        } else {
            ctx.counts.delivered += 1;
        }
        match publish.delivery {
            Delivery::AtMostOnce => {}
            Delivery::AtLeastOnce { .. } => {
                self.open.insert(packet_id, Open { msg, acked: false });
                self.owe(Owed::Puback(packet_id), ctx);
            }
            Delivery::ExactlyOnce { .. } => {
                self.received.insert(packet_id, msg);
                self.owe(Owed::Pubrec(packet_id), ctx);
            }
        }
    }

    /// What the client knows of a packet id that a delivery has.
    fn known(&self, packet_id: u16, qos: QoS) -> Option<Open> {
        match qos {
            QoS::AtMostOnce => None,
            QoS::AtLeastOnce => self.open.get(&packet_id).copied(),
            QoS::ExactlyOnce => {
                let msg = self.received.get(&packet_id).copied();
                msg.map(|msg| Open { msg, acked: false })
            }
        }
    }

    /// Receive Maximum: v5 [MQTT-3.3.4-9].
    fn judge_window(&mut self, packet_id: u16, ctx: &mut Ctx<'_>) {
        if packet_id == 0 {
            return;
        }
        self.under_way.insert(packet_id);
        let v5 = self.version == ProtocolVersion::V5;
        if v5 && self.under_way.len() > usize::from(self.receive_maximum) {
            self.fail(
                ctx,
                "v5 [MQTT-3.3.4-9]: more deliveries under way than Receive Maximum",
            );
        }
    }

    /// M30: repeats have their packet ids and DUP, and no id of an open exchange is used for another message.
    fn judge_exchange(
        &self,
        packet_id: u16,
        got: &Got,
        named: u64,
        known: Option<Open>,
        ctx: &mut Ctx<'_>,
    ) {
        let shown = format!("message {named} as {packet_id}");
        if let Some(open) = known {
            if open.msg == named && !open.acked && !got.dup {
                self.fail(
                    ctx,
                    &format!("v5 [MQTT-3.3.1-1]: a repeat without DUP: {shown}"),
                );
            }
            if open.msg != named && !open.acked {
                let text = format!(
                    "M30: the id of the open exchange of message {}: {shown}",
                    open.msg
                );
                self.fail(ctx, &text);
            }
        }
        // A retained message may have come live, and again by the scan of a subscription.
        if !got.dup || got.retain || named == 0 || ctx.oracle.comes_again(named) {
            return;
        }
        let elsewhere = self
            .open
            .iter()
            .filter(|(_, open)| !open.acked)
            .map(|(&id, open)| (id, open.msg))
            .chain(self.received.iter().map(|(&id, &msg)| (id, msg)))
            .find(|&(id, msg)| msg == named && id != packet_id);
        if let Some((id, _)) = elsewhere {
            self.fail(
                ctx,
                &format!("M30: a repeat under another id than {id}: {shown}"),
            );
        }
    }

    fn owe(&mut self, owed: Owed, ctx: &mut Ctx<'_>) {
        self.owed.push_back(owed);
        if ctx.healing || !ctx.rng.chance(ctx.plan.withheld) {
            self.pay(usize::MAX, ctx);
        }
    }

    /// Sends acknowledgements that are owed, in order: v5 [MQTT-4.6.0-2].
    pub(super) fn pay(&mut self, most: usize, ctx: &mut Ctx<'_>) {
        for _ in 0..most {
            let Some(owed) = self.owed.pop_front() else {
                break;
            };
            let bytes = match owed {
                Owed::Puback(id) => {
                    if let Some(open) = self.open.get_mut(&id) {
                        open.acked = true;
                    }
                    self.under_way.remove(&id);
                    wire::puback(self.version, id)
                }
                Owed::Pubrec(id) => wire::pubrec(self.version, id),
                Owed::Pubcomp(id) => {
                    self.under_way.remove(&id);
                    wire::pubcomp(self.version, id)
                }
            };
            self.send(bytes, ctx);
        }
    }

    /// M10: acknowledgements come in the order of the publishes.
    fn expect(&mut self, came: Expected, ctx: &mut Ctx<'_>) {
        let expected = self.expected.pop_front();
        if expected != Some(came) {
            self.fail(
                ctx,
                &format!("M10: {came:?} came where {expected:?} was due"),
            );
        }
    }

    fn puback(&mut self, packet_id: u16, reason: ReasonCode, ctx: &mut Ctx<'_>) {
        self.expect(Expected::Puback(packet_id), ctx);
        if let Some(at) = self
            .sent
            .iter()
            .position(|sent| sent.packet_id == packet_id)
            && let Some(sent) = self.sent.remove(at)
        {
            ctx.note(format_args!(
                "{}: message {} is acknowledged: {reason:?}",
                self.id, sent.msg
            ));
            ctx.counts.turned_away += u64::from(reason.is_error());
            ctx.oracle.answered(sent.msg, reason.is_error(), ctx.now);
        }
    }

    fn pubrec(&mut self, packet_id: u16, reason: ReasonCode, ctx: &mut Ctx<'_>) {
        self.expect(Expected::Pubrec(packet_id), ctx);
        let Some(at) = self
            .sent
            .iter()
            .position(|sent| sent.packet_id == packet_id)
        else {
            return;
        };
        let msg = self.sent[at].msg;
        ctx.note(format_args!(
            "{}: message {msg} is received: {reason:?}",
            self.id
        ));
        ctx.counts.turned_away += u64::from(reason.is_error());
        ctx.oracle.answered(msg, reason.is_error(), ctx.now);
        if reason.is_error() {
            self.sent.remove(at);
        } else {
            self.sent[at].released = true;
            self.send(wire::pubrel(self.version, packet_id), ctx);
        }
    }

    fn pubcomp(&mut self, packet_id: u16, ctx: &mut Ctx<'_>) {
        match self
            .sent
            .iter()
            .position(|sent| sent.packet_id == packet_id && sent.released)
        {
            Some(at) => {
                self.sent.remove(at);
            }
            None => self.fail(ctx, &format!("PUBCOMP {packet_id} for no PUBREL")),
        }
    }

    fn pubrel(&mut self, packet_id: u16, ctx: &mut Ctx<'_>) {
        self.received.remove(&packet_id);
        self.owe(Owed::Pubcomp(packet_id), ctx);
    }

    fn suback(&mut self, suback: &Suback<'_>, ctx: &mut Ctx<'_>) {
        let Some(life) = self.life else { return };
        let packet_id = suback.packet_id.get();
        let Some((place, Request::Subscribe(filters))) = self.requests.answered(packet_id) else {
            return self.fail(ctx, &format!("SUBACK {packet_id} for no SUBSCRIBE"));
        };
        if suback.codes.len() != filters.len() {
            return self.fail(
                ctx,
                "v5 [MQTT-3.8.4-6]: SUBACK with another number of codes",
            );
        }
        for ((filter, options), code) in filters.iter().zip(suback.codes.iter()) {
            ctx.note(format_args!(
                "{} is subscribed to {filter}: {code:?}",
                self.id
            ));
            let quota = match self.version {
                ProtocolVersion::V5 => ReasonCode::QuotaExceeded,
                ProtocolVersion::V311 => ReasonCode::UnspecifiedError,
            };
            // A session that is kept gets no new ones while the disk has only its reserve (M47).
            let has_no_room =
                ctx.oracle.may_be_refused(life) || ctx.oracle.may_be_unavailable(ctx.now);
            if code == quota && has_no_room {
                ctx.counts.refused += 1;
                continue;
            }
            // A group of a partition that is set aside takes nobody (M39).
            let is_shared = filter.starts_with("$share/");
            if code.is_error() && is_shared && ctx.oracle.may_be_unavailable(ctx.now) {
                continue;
            }
            if code.is_error() {
                self.fail(ctx, &format!("SUBSCRIBE to {filter} is refused: {code:?}"));
                continue;
            }
            if self.is_last_word(place, filter, ctx) {
                ctx.oracle.subscribed(life, filter, *options, ctx.now);
            }
        }
        self.scanned = true;
    }

    fn unsuback(&mut self, packet_id: u16, ctx: &mut Ctx<'_>) {
        let Some(life) = self.life else { return };
        let Some((place, Request::Unsubscribe(filter))) = self.requests.answered(packet_id) else {
            return self.fail(ctx, &format!("UNSUBACK {packet_id} for no UNSUBSCRIBE"));
        };
        ctx.note(format_args!("{} has unsubscribed from {filter}", self.id));
        if self.is_last_word(place, &filter, ctx) {
            ctx.oracle.unsubscribed(life, &filter, ctx.now);
        }
    }

    /// M38: whether the answer to the request that had this place among those under way says what is so: nothing was asked about the filter
    /// since. The answers come in the order of the requests, but for groups, which may be slow to confirm that somebody has left.
    fn is_last_word(&self, place: usize, filter: &str, ctx: &mut Ctx<'_>) -> bool {
        let (is_asked_before, is_asked_since) = self.requests.around(place, filter);
        if is_asked_before && !filter.starts_with("$share/") {
            let text = format!("M38: {filter} is answered before what was asked about it earlier");
            self.fail(ctx, &text);
        }
        !is_asked_since
    }
}
