//! Connections of a client: CONNECT, CONNACK, the end; what survives them.

use courser_contract::Class;
use courser_mqtt::codec::{Connack, ProtocolVersion, QoS};

use super::wire::{self, Hello, HelloWill, Outgoing};
use super::{Asked, Belief, Client, Command, Ctx, Expected, Kind, Phase};
use crate::oracle::{LeftWill, Msg, Oracle};
use crate::shell::class_of_client;

/// Seven days, in seconds: what 3.1.1 gets without CleanSession.
const LONG: u32 = 7 * 24 * 3600;
/// Packet ids of shared groups begin here (M31).
const GROUP_IDS: u16 = 32_768;
/// How far the client's idea of when its session ends may be off.
const EXPIRY_SLACK_MS: u64 = 12_000;

impl Client {
    /// Opens a connection; a former one that is still open is left to be taken over.
    pub(super) fn connect(&mut self, ctx: &mut Ctx<'_>) {
        let conn = ctx.next_conn;
        let v5 = self.version == ProtocolVersion::V5;
        let keep = ctx.healing && self.kind == Kind::Player;
        self.accept_losses(ctx);
        let mut clean = !keep && (self.kind == Kind::Probe || ctx.rng.chance(20));
        // A session of which the broker has lost something is begun anew, half of the times.
        clean |= self.doubts && ctx.rng.chance(50);
        let expiry_seconds = match (v5, keep) {
            (true, true) => 3_600,
            (true, false) => *ctx.rng.pick(&[0, 2, 3_600, 3_600, 3_600]),
            (false, _) if clean => 0,
            (false, _) => LONG,
        };
        let asked = Asked {
            clean,
            expiry_seconds,
        };
        let will = (!ctx.healing && ctx.rng.chance(40)).then(|| self.make_will(ctx));
        let noted = will.as_ref().map(|(msg, will)| LeftWill {
            msg: *msg,
            delay_ms: u64::from(will.delay_seconds.min(expiry_seconds)) * 1_000,
            is_stored: expiry_seconds > 0 && class_of_client(&self.id) != Class::Volatile,
        });
        ctx.oracle.connecting(conn, self.place, clean, noted);
        ctx.note(format_args!(
            "{} connects: conn {conn}, clean {clean}, expiry {expiry_seconds}, will {noted:?}",
            self.id
        ));
        if clean {
            self.forget(ctx);
        }
        self.asked = asked;
        self.attempt();
        ctx.commands.push(Command::Open(conn));
        self.conn = Some(conn);
        self.phase = Phase::Connecting { since: ctx.now };
        self.reset_connection();
        let hello = Hello {
            version: self.version,
            client_id: &self.id,
            clean,
            expiry_seconds,
            receive_maximum: Some(self.receive_maximum),
            will: will.map(|(_, will)| will),
        };
        self.send(wire::connect(&hello), ctx);
    }

    fn make_will(&self, ctx: &mut Ctx<'_>) -> (u64, HelloWill) {
        let qos = *ctx
            .rng
            .pick(&[QoS::AtMostOnce, QoS::AtLeastOnce, QoS::ExactlyOnce]);
        let retain = ctx.rng.chance(30);
        let delay_seconds = match self.version {
            ProtocolVersion::V311 => 0,
            ProtocolVersion::V5 => *ctx.rng.pick(&[0, 1, 3]),
        };
        let topic = format!("w/{}", self.place);
        let msg = Msg {
            client: self.place,
            life: None,
            topic: topic.clone(),
            payload: Vec::new(),
            qos,
            retain,
            life_seconds: None,
            first_sent: ctx.now,
            acked: None,
            refused: false,
            copies: 1,
            resent: false,
            abandoned: false,
            strayed: false,
        };
        let (id, payload) = ctx.oracle.publish(msg, 8);
        let will = HelloWill {
            topic,
            payload,
            qos,
            retain,
            delay_seconds,
        };
        (id, will)
    }

    /// What the client keeps of its session is dropped: clean start, or the broker has none.
    pub(super) fn forget(&mut self, ctx: &mut Ctx<'_>) {
        for sent in self.sent.drain(..) {
            ctx.oracle.abandoned(sent.msg);
        }
        self.open.clear();
        self.received.clear();
    }

    /// A CONNECT whose answer may be lost makes beliefs uncertain.
    const fn attempt(&mut self) {
        let belief = &mut self.belief;
        belief.none_before = belief.surely_none;
        if self.asked.clean || self.asked.expiry_seconds == 0 {
            belief.surely_there = false;
        }
        if self.asked.expiry_seconds > 0 {
            belief.surely_none = false;
        }
    }

    fn reset_connection(&mut self) {
        self.rest.clear();
        self.expected.clear();
        self.requests.clear();
        self.owed.clear();
        self.under_way.clear();
        self.stalled = false;
    }

    pub(super) fn connacked(&mut self, connack: &Connack<'_>, ctx: &mut Ctx<'_>) {
        if connack.reason.is_error() {
            ctx.note(format_args!("{} refused: {:?}", self.id, connack.reason));
            return;
        }
        self.quota = connack
            .properties
            .receive_maximum()
            .map_or(20, |most| most.get().min(20));
        self.phase = Phase::Up;
        let present = connack.session_present;
        let doubted = std::mem::take(&mut self.doubts);
        if !doubted {
            self.judge_present(present, ctx);
        }
        let life = match self.belief.life.filter(|_| present) {
            Some(life) => {
                let it = &mut ctx.oracle.lives[life];
                it.resumed = true;
                if !self.belief.surely_there {
                    // It may be a new one that an earlier connection opened, unheard: what was received is of the last one.
                    it.fuzzy = true;
                    it.close_spans(ctx.now);
                    self.open.clear();
                    self.received.clear();
                }
                life
            }
            None => {
                if let Some(old) = self.belief.life {
                    ctx.oracle.end_life(old);
                }
                let life = ctx.oracle.begin_life(self.place);
                if present && !doubted {
                    self.meets_a_stranger(ctx);
                }
                ctx.oracle.lives[life].fuzzy |= present;
                ctx.oracle.lives[life].resumed |= present;
                ctx.oracle.lives[life].doubtful |= present && doubted;
                life
            }
        };
        ctx.oracle.lives[life].lasts = self.asked.expiry_seconds > 0;
        ctx.note(format_args!(
            "{} is up: present {present}, life {life}",
            self.id
        ));
        self.life = Some(life);
        self.belief.life = Some(life);
        self.belief.surely_there = true;
        self.belief.surely_none = false;
        self.belief.ends = (u64::MAX, u64::MAX);
        if present {
            ctx.counts.resumed += 1;
            self.resend(ctx);
        } else {
            self.forget(ctx);
        }
    }

    /// Its session was lost with the process, and a connection whose answer never came has opened another one: it goes on with that as if it
    /// were the same. What it had received is of the lost one.
    fn meets_a_stranger(&mut self, ctx: &mut Ctx<'_>) {
        for sent in &self.sent {
            ctx.oracle.strayed(sent.msg);
        }
        self.open.clear();
        self.received.clear();
    }

    /// Session Present says whether the broker had a session: v3 [MQTT-3.2.2-2], v5 [MQTT-3.2.2-2].
    fn judge_present(&self, present: bool, ctx: &mut Ctx<'_>) {
        let belief = &self.belief;
        let recent_fault = ctx.last_fault + EXPIRY_SLACK_MS > ctx.now;
        if present {
            let over = ctx.now > belief.ends.1.saturating_add(EXPIRY_SLACK_MS) && !recent_fault;
            if self.asked.clean {
                self.fail(ctx, "v5 [MQTT-3.1.2-4]: session present after clean start");
            } else if belief.none_before || over {
                self.fail(ctx, "M26: session present, but it is over");
            }
        } else if !self.asked.clean && belief.surely_there && ctx.now < belief.ends.0 {
            self.fail(ctx, "I1: the session is lost");
        }
    }

    /// What was not acknowledged goes out again, in order, with its packet ids (v5 [MQTT-4.4.0-1]).
    fn resend(&mut self, ctx: &mut Ctx<'_>) {
        for sent in self.sent.clone() {
            if sent.released {
                self.send(wire::pubrel(self.version, sent.packet_id), ctx);
                continue;
            }
            ctx.oracle.resent(sent.msg);
            if self.version == ProtocolVersion::V5 {
                ctx.oracle.may_begin_anew(sent.msg);
            }
            if sent.qos == QoS::AtLeastOnce {
                self.expected.push_back(Expected::Puback(sent.packet_id));
            } else {
                self.expected.push_back(Expected::Pubrec(sent.packet_id));
            }
            let outgoing = Outgoing {
                topic: &sent.topic,
                payload: &sent.payload,
                qos: sent.qos,
                retain: sent.retain,
                packet_id: sent.packet_id,
                dup: true,
                life_seconds: sent.life_seconds,
            };
            ctx.note(format_args!("{} resends message {}", self.id, sent.msg));
            self.send(wire::publish(self.version, &outgoing), ctx);
        }
    }

    /// The connection is gone for this client.
    pub(super) fn down(&mut self, ctx: &mut Ctx<'_>) {
        let was_up = self.phase == Phase::Up;
        self.phase = Phase::Idle;
        self.conn = None;
        self.last_event = ctx.now;
        self.reset_connection();
        // At QoS 1 a shared group gives it to another member: its id is free (M31, M35).
        self.open.retain(|&id, _| id < GROUP_IDS);
        if let Some(life) = self.life.take() {
            let life = &mut ctx.oracle.lives[life];
            // Requests that were not answered leave their filters uncertain: the spans are closed already.
            life.resumed = true;
            if was_up && self.asked.expiry_seconds == 0 {
                life.ended = true;
            }
        }
        if was_up && self.asked.expiry_seconds == 0 {
            self.belief.surely_none = true;
            self.belief.surely_there = false;
            self.belief.life = None;
            self.forget(ctx);
        }
        if !was_up && ctx.now >= self.belief.ends.0 {
            // The session may have ended, and this connection have opened a new one, unheard.
            self.belief.surely_there = false;
        }
        let after = u64::from(self.asked.expiry_seconds) * 1_000;
        // The front may have closed before the client hears of it.
        let earliest = (ctx.now + after).saturating_sub(2_000);
        let (before, _) = self.belief.ends;
        self.belief.ends = (earliest.min(before), ctx.now + after);
    }

    /// A CONNECT that it had given up has come behind one that it sent later: it may have begun another session, or ended the one there
    /// was.
    pub(crate) fn was_overtaken(&mut self, oracle: &mut Oracle) {
        for life in self.life.into_iter().chain(self.belief.life) {
            oracle.lives[life].fuzzy = true;
        }
        self.belief = Belief {
            life: self.belief.life,
            surely_none: false,
            none_before: false,
            surely_there: false,
            ends: (0, u64::MAX),
        };
    }

    /// Whatever connection it has breaks.
    pub(crate) fn breaks(&mut self, ctx: &mut Ctx<'_>) {
        if let Some(conn) = self.conn {
            self.hung_up(conn, ctx);
        }
    }

    /// The broker closed the connection.
    pub(crate) fn hung_up(&mut self, conn: u32, ctx: &mut Ctx<'_>) {
        if self.conn == Some(conn) {
            ctx.note(format_args!("{} hears that conn {conn} is closed", self.id));
            self.down(ctx);
        }
    }
}
