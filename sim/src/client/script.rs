//! What a client does of its own, by chance.

use courser_mqtt::codec::{ProtocolVersion, QoS, RetainHandling, SubscriptionOptions};

use super::requests::Request;
use super::wire::{self, Outgoing};
use super::{Client, Command, Ctx, Expected, Kind, Phase, Sent};
use crate::oracle::{Msg, Sub};

/// A CONNECT without an answer is given up after this time.
const CONNECT_PATIENCE_MS: u64 = 25_000;
/// Requests under way at once.
const REQUESTS_MAX: usize = 2;
/// Of a client that does not wait for answers.
const HASTY_REQUESTS_MAX: usize = 8;
/// The engine looks up the filters of a session that has so many by their hash.
const MANY_FILTERS: usize = 16;
/// Filters beside those of the topics, so that a session has many.
const FILLERS: u64 = 40;

/// A message that is about to be published.
#[derive(Clone, Copy, Debug)]
struct Draft<'a> {
    topic: &'a str,
    qos: QoS,
    retain: bool,
    len: usize,
    life_seconds: Option<u32>,
}

impl<'a> Draft<'a> {
    const fn new(topic: &'a str, qos: QoS, retain: bool, len: usize) -> Self {
        Self {
            topic,
            qos,
            retain,
            len,
            life_seconds: None,
        }
    }
}

impl Client {
    /// One deed.
    pub(crate) fn deed(&mut self, ctx: &mut Ctx<'_>) {
        self.do_something(ctx);
        self.finish_cut(ctx);
    }

    fn do_something(&mut self, ctx: &mut Ctx<'_>) {
        match self.phase {
            Phase::Idle => {
                if ctx.accepts && (ctx.healing || ctx.rng.chance(ctx.plan.returns)) {
                    self.connect(ctx);
                }
            }
            Phase::Connecting { since } => {
                if ctx.now > since + CONNECT_PATIENCE_MS
                    || (!ctx.healing && ctx.rng.chance(ctx.plan.cuts))
                {
                    self.cut(ctx);
                }
            }
            Phase::Up => self.deed_up(ctx),
        }
    }

    fn deed_up(&mut self, ctx: &mut Ctx<'_>) {
        if self.kind == Kind::Probe {
            if !self.scanned && self.requests.is_empty() {
                let options = SubscriptionOptions::new(QoS::ExactlyOnce);
                self.subscribe(vec![("r/#".to_owned(), options)], ctx);
            }
            return;
        }
        if ctx.healing {
            self.stall(false, ctx);
            return self.pay(usize::MAX, ctx);
        }
        if ctx.rng.chance(ctx.plan.cuts) {
            return match ctx.rng.below(6) {
                0 => self.part(ctx),
                1 => self.leave_to_takeover(ctx),
                _ => self.cut(ctx),
            };
        }
        if ctx.plan.hasty && ctx.rng.chance(25) {
            return self.hurry(ctx);
        }
        match ctx.rng.below(20) {
            0..=2 => self.subscribe_some(ctx),
            3 => self.unsubscribe_one(ctx),
            4 | 5 => {
                let most = ctx.rng.between(1, 4) as usize;
                self.pay(most, ctx);
            }
            6 => {
                let stalled = !self.stalled && ctx.rng.chance(ctx.plan.stalls);
                self.stall(stalled, ctx);
            }
            _ => {
                for _ in 0..ctx.rng.between(1, 4) {
                    self.publish_some(ctx);
                }
            }
        }
    }

    fn stall(&mut self, stalled: bool, ctx: &mut Ctx<'_>) {
        if let Some(conn) = self.conn
            && self.stalled != stalled
        {
            self.stalled = stalled;
            ctx.commands.push(Command::Stall(conn, stalled));
        }
    }

    /// Lost in the middle of whatever was being said.
    fn cut(&mut self, ctx: &mut Ctx<'_>) {
        let Some(conn) = self.conn else { return };
        ctx.note(format_args!("{} cuts conn {conn}", self.id));
        if self.phase == Phase::Up && ctx.rng.chance(50) {
            let ping = [0xC0, 0];
            ctx.commands.push(Command::Send(conn, ping[..1].to_vec()));
        }
        ctx.commands.push(Command::Break(conn));
        self.down(ctx);
    }

    /// Says good-bye; v5 sometimes asks for its will.
    fn part(&mut self, ctx: &mut Ctx<'_>) {
        let Some(conn) = self.conn else { return };
        let with_will = self.version == ProtocolVersion::V5 && ctx.rng.chance(30);
        ctx.note(format_args!("{} parts, will {with_will}", self.id));
        if with_will {
            ctx.oracle.asks_for_will(conn);
        }
        self.send(wire::disconnect(self.version, with_will), ctx);
        ctx.commands.push(Command::Finish(conn));
        self.down(ctx);
    }

    /// Connects again without closing: the broker must close the old connection (I8).
    fn leave_to_takeover(&mut self, ctx: &mut Ctx<'_>) {
        if !ctx.accepts {
            return;
        }
        ctx.note(format_args!("{} takes over from itself", self.id));
        if self.stalled {
            self.stall(false, ctx);
        }
        self.down(ctx);
        self.connect(ctx);
    }

    fn publish_some(&mut self, ctx: &mut Ctx<'_>) {
        let qos = *ctx.rng.pick(&[
            QoS::AtMostOnce,
            QoS::AtLeastOnce,
            QoS::AtLeastOnce,
            QoS::ExactlyOnce,
            QoS::ExactlyOnce,
        ]);
        let kind = ctx.rng.below(10);
        let (topic, retain) = match kind {
            _ if ctx.plan.one_group > 0 && ctx.rng.chance(ctx.plan.one_group) => {
                (format!("g/{}", busy_group(ctx)), false)
            }
            0 | 1 => (format!("r/{}", self.place), true),
            2 | 3 if ctx.plan.groups => (format!("g/{}", ctx.rng.below(2)), false),
            _ => (format!("t/{}", ctx.rng.below(4)), false),
        };
        let empty = retain && ctx.rng.chance(15);
        let len = match ctx.rng.below(30) {
            _ if empty => 0,
            0 => 6_000,
            1 => 1_000,
            _ => ctx.rng.between(1, ctx.plan.payload_bytes) as usize,
        };
        let expires = ctx.plan.expiring > 0 && self.version == ProtocolVersion::V5;
        let expires = expires && topic.starts_with("t/") && ctx.rng.chance(ctx.plan.expiring);
        let draft = Draft {
            life_seconds: expires.then(|| ctx.rng.between(1, 3) as u32),
            ..Draft::new(&topic, qos, retain, len)
        };
        self.publish(&draft, ctx);
    }

    /// The last messages of a run: they show that all is served again.
    pub(crate) fn publish_last(&mut self, ctx: &mut Ctx<'_>) {
        self.last_event = ctx.now;
        for qos in [QoS::AtLeastOnce, QoS::ExactlyOnce] {
            let topic = format!("t/{}", ctx.rng.below(4));
            self.publish(&Draft::new(&topic, qos, false, 10), ctx);
        }
        if ctx.plan.subscribing_last {
            return self.race(ctx);
        }
        if ctx.rng.chance(50) {
            let topic = format!("r/{}", self.place);
            self.publish(&Draft::new(&topic, QoS::AtLeastOnce, true, 10), ctx);
        }
    }

    /// Every second client sends a message that is retained, by two ways; the others ask for what is retained.
    fn race(&mut self, ctx: &mut Ctx<'_>) {
        if self.place.is_multiple_of(2) {
            let topic = format!("r/{}", self.place);
            let qos = *ctx.rng.pick(&[QoS::AtLeastOnce, QoS::ExactlyOnce]);
            self.publish(&Draft::new(&topic, qos, true, 10), ctx);
        } else {
            let options = SubscriptionOptions::new(QoS::ExactlyOnce);
            self.subscribe(vec![("r/#".to_owned(), options)], ctx);
        }
    }

    fn publish(&mut self, draft: &Draft<'_>, ctx: &mut Ctx<'_>) {
        let Draft {
            topic,
            qos,
            retain,
            len,
            life_seconds,
        } = *draft;
        if qos > QoS::AtMostOnce && self.sent.len() >= usize::from(self.quota) {
            return;
        }
        let Some(life) = self.life else { return };
        let msg = Msg {
            client: self.place,
            life: Some(life),
            topic: topic.to_owned(),
            payload: Vec::new(),
            qos,
            retain,
            life_seconds,
            first_sent: ctx.now,
            acked: None,
            refused: false,
            copies: 1,
            resent: false,
            abandoned: false,
            strayed: false,
        };
        let (msg, payload) = ctx.oracle.publish(msg, len);
        ctx.counts.published += 1;
        let packet_id = if qos == QoS::AtMostOnce {
            0
        } else {
            self.free_id()
        };
        ctx.note(format_args!(
            "{} publishes message {msg} on {topic}: {qos:?}, retain {retain}, life {life_seconds:?}",
            self.id
        ));
        let outgoing = Outgoing {
            topic,
            payload: &payload,
            qos,
            retain,
            packet_id,
            dup: false,
            life_seconds,
        };
        self.send(wire::publish(self.version, &outgoing), ctx);
        match qos {
            QoS::AtMostOnce => return,
            QoS::AtLeastOnce => self.expected.push_back(Expected::Puback(packet_id)),
            QoS::ExactlyOnce => self.expected.push_back(Expected::Pubrec(packet_id)),
        }
        self.sent.push_back(Sent {
            packet_id,
            msg,
            topic: topic.to_owned(),
            payload,
            qos,
            retain,
            life_seconds,
            released: false,
        });
    }

    fn subscribe_some(&mut self, ctx: &mut Ctx<'_>) {
        let mut filters: Vec<(String, SubscriptionOptions)> = Vec::new();
        for _ in 0..ctx.rng.between(1, if ctx.plan.hasty { 6 } else { 2 }) {
            let filter = some_filter(ctx);
            if self.may_name(&filter, ctx) && filters.iter().all(|(known, _)| *known != filter) {
                let options = self.some_options(&filter, ctx);
                filters.push((filter, options));
            }
        }
        self.subscribe(filters, ctx);
    }

    /// Asks about one filter again and again, and waits for no answer (v5 [MQTT-3.10.4-2]).
    fn hurry(&mut self, ctx: &mut Ctx<'_>) {
        let filter = some_filter(ctx);
        for _ in 0..ctx.rng.between(2, 4) {
            if ctx.rng.chance(50) {
                let options = self.some_options(&filter, ctx);
                self.subscribe(vec![(filter.clone(), options)], ctx);
            } else {
                self.unsubscribe(&filter, ctx);
            }
        }
    }

    /// Whether it asks about this filter now.
    fn may_name(&self, filter: &str, ctx: &Ctx<'_>) -> bool {
        ctx.plan.hasty || !self.requests.name(filter)
    }

    fn has_asked_enough(&self, ctx: &Ctx<'_>) -> bool {
        let most = match ctx.plan.hasty {
            true => HASTY_REQUESTS_MAX,
            false => REQUESTS_MAX,
        };
        self.requests.len() >= most
    }

    fn some_options(&self, filter: &str, ctx: &mut Ctx<'_>) -> SubscriptionOptions {
        let shared = filter.starts_with("$share/");
        let qos = match shared {
            true => QoS::ExactlyOnce,
            false => *ctx.rng.pick(&[
                QoS::AtMostOnce,
                QoS::AtLeastOnce,
                QoS::ExactlyOnce,
                QoS::ExactlyOnce,
            ]),
        };
        let mut options = SubscriptionOptions::new(qos);
        if self.version == ProtocolVersion::V5 {
            options.no_local = !shared && ctx.rng.chance(10);
            options.retain_as_published = ctx.rng.chance(20);
            options.retain_handling = *ctx.rng.pick(&[
                RetainHandling::SendOnSubscribe,
                RetainHandling::SendOnSubscribe,
                RetainHandling::SendIfNew,
                RetainHandling::DoNotSend,
            ]);
        }
        options
    }

    fn subscribe(&mut self, filters: Vec<(String, SubscriptionOptions)>, ctx: &mut Ctx<'_>) {
        let Some(life) = self.life else { return };
        if self.has_asked_enough(ctx) || filters.is_empty() {
            return;
        }
        ctx.counts.many_filters += u64::from(ctx.oracle.filters_of(life) >= MANY_FILTERS);
        for (filter, options) in &filters {
            ctx.counts.asked_again += u64::from(self.requests.name(filter));
            let sub = Sub {
                qos: options.qos,
                no_local: options.no_local,
                retain_as_published: options.retain_as_published,
                since: None,
                gone: None,
                scans: 1,
            };
            ctx.note(format_args!(
                "{} subscribes to {filter}: {options:?}",
                self.id
            ));
            ctx.oracle.subscribing(life, filter, sub, ctx.now);
        }
        let packet_id = self.free_id();
        let identifier = (self.version == ProtocolVersion::V5 && ctx.rng.chance(20))
            .then(|| 1 + u32::from(packet_id));
        self.send(
            wire::subscribe(self.version, packet_id, &filters, identifier),
            ctx,
        );
        self.requests.push(packet_id, Request::Subscribe(filters));
    }

    fn unsubscribe_one(&mut self, ctx: &mut Ctx<'_>) {
        let Some(life) = self.life else { return };
        if self.has_asked_enough(ctx) {
            return;
        }
        let filters: Vec<_> = ctx.oracle.lives[life].subs.keys().cloned().collect();
        if filters.is_empty() {
            return;
        }
        let filter = ctx.rng.pick(&filters).clone();
        if self.may_name(&filter, ctx) {
            self.unsubscribe(&filter, ctx);
        }
    }

    fn unsubscribe(&mut self, filter: &str, ctx: &mut Ctx<'_>) {
        let Some(life) = self.life else { return };
        if self.has_asked_enough(ctx) {
            return;
        }
        ctx.counts.asked_again += u64::from(self.requests.name(filter));
        ctx.note(format_args!("{} unsubscribes from {filter}", self.id));
        ctx.oracle.unsubscribing(life, filter, ctx.now);
        let packet_id = self.free_id();
        self.send(wire::unsubscribe(self.version, packet_id, filter), ctx);
        self.requests
            .push(packet_id, Request::Unsubscribe(filter.to_owned()));
    }
}

/// Share name and filter of a group.
pub(crate) fn group_names(group: u64) -> (String, String) {
    (format!("s{group}"), format!("g/{group}"))
}

/// One of the groups to which most clients go.
fn busy_group(ctx: &mut Ctx<'_>) -> u64 {
    match ctx.plan.busy_groups {
        0 | 1 => 0,
        groups => ctx.rng.below(groups),
    }
}

fn some_filter(ctx: &mut Ctx<'_>) -> String {
    let filters = [
        "t/+", "t/0", "t/1", "t/2", "t/#", "t/3", "r/#", "r/0", "r/1", "w/#", "w/0", "t/0/#",
    ];
    if ctx.plan.one_group > 0 && ctx.rng.chance(ctx.plan.one_group) {
        let (share, filter) = group_names(busy_group(ctx));
        return format!("$share/{share}/{filter}");
    }
    if ctx.plan.groups && ctx.rng.chance(25) {
        let (share, filter) = group_names(ctx.rng.below(2));
        return format!("$share/{share}/{filter}");
    }
    if ctx.plan.hasty && ctx.rng.chance(50) {
        return format!("h/{}", ctx.rng.below(FILLERS));
    }
    (*ctx.rng.pick(&filters)).to_owned()
}
