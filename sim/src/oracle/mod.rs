//! What must hold, as the clients saw it: nothing here looks into fronts or partitions.
//!
//! A **life** is one session from its beginning to its end, whatever connections it had. What is not certain, for example
//! whether a CONNECT whose answer was lost did something, makes a life *fuzzy*: what must not happen is still checked, what
//! must happen is not.

mod deliveries;
mod excuses;
mod recount;
mod retained;
mod short;
#[cfg(test)]
mod tests;
mod wills;

use std::collections::{BTreeMap, BTreeSet};

use courser_mqtt::codec::{QoS, RetainHandling, SubscriptionOptions};

pub(crate) use self::deliveries::{Got, Seen};
pub use self::excuses::Excuse;
pub(crate) use self::excuses::Uses;
pub(crate) use self::wills::LeftWill;
use self::wills::{LATE_MS, UNSETTLED_MS, Wills};
use crate::seeds::Plan;

/// Number of a message; they count up in the order of publishing.
pub(crate) type MsgId = u64;
/// Number of a life.
pub(crate) type LifeId = usize;

/// A message that somebody published.
#[derive(Clone, Debug)]
pub(crate) struct Msg {
    pub(crate) client: usize,
    /// The publisher's life; none: a will.
    pub(crate) life: Option<LifeId>,
    pub(crate) topic: String,
    pub(crate) payload: Vec<u8>,
    pub(crate) qos: QoS,
    pub(crate) retain: bool,
    /// Seconds after which it expires (v5 [MQTT-3.3.2-5]).
    pub(crate) life_seconds: Option<u32>,
    pub(crate) first_sent: u64,
    /// When the publisher knew that the broker has it.
    pub(crate) acked: Option<u64>,
    pub(crate) refused: bool,
    /// How often it was published: a repeat at QoS 2 is the same exchange, unless a PUBREC may have ended that which refused it, for one of
    /// several partitions (v5 [MQTT-4.3.3-9]).
    pub(crate) copies: u32,
    /// It was sent more than once.
    pub(crate) resent: bool,
    /// Its publisher began anew before it had an answer, and never sends it again.
    pub(crate) abandoned: bool,
    /// It was sent again to a session that knows nothing of its first copy, and its publisher could not know that.
    pub(crate) strayed: bool,
}

impl Msg {
    /// Milliseconds after which it may be gone from a session.
    fn life_ms(&self) -> Option<u64> {
        self.life_seconds.map(|seconds| u64::from(seconds) * 1_000)
    }

    /// It was sent again at QoS 1, so that a copy of it may have come behind `later`, whose own repeat is known by its hold.
    fn may_come_again_behind(&self, later: &Self) -> bool {
        self.copies > 1 && self.acked.is_none_or(|acked| acked > later.first_sent)
    }
}

/// A subscription as its client knows it.
#[derive(Clone, Debug)]
pub(crate) struct Sub {
    pub(crate) qos: QoS,
    pub(crate) no_local: bool,
    pub(crate) retain_as_published: bool,
    /// SUBACK came at this moment and nothing was changed since; none: not certain.
    pub(crate) since: Option<u64>,
    /// UNSUBACK came, and nothing was subscribed since.
    pub(crate) gone: Option<u64>,
    /// How often it was asked for retained messages.
    pub(crate) scans: u32,
}

/// A time in which a session must get what matches.
#[derive(Clone, Debug)]
pub(crate) struct Span {
    pub(crate) filter: String,
    pub(crate) qos: QoS,
    pub(crate) no_local: bool,
    /// What was retained had to come, too.
    pub(crate) asks_retained: bool,
    pub(crate) from: u64,
    /// None: to the end.
    pub(crate) to: Option<u64>,
}

/// A session from its beginning to its end.
#[derive(Clone, Debug, Default)]
pub(crate) struct Life {
    pub(crate) client: usize,
    pub(crate) fuzzy: bool,
    pub(crate) ended: bool,
    /// What it has is not known: a part of what was done in it is lost. What it gets must have been published, no more.
    pub(crate) doubtful: bool,
    pub(crate) resumed: bool,
    /// It outlives its connections.
    pub(crate) lasts: bool,
    pub(crate) subs: BTreeMap<String, Sub>,
    pub(crate) spans: Vec<Span>,
    pub(crate) seen: BTreeMap<MsgId, Seen>,
    /// Last first delivery by publisher's life, topic, QoS published, QoS delivered.
    pub(crate) order: BTreeMap<(LifeId, String, u8, u8), MsgId>,
    /// Newest live message with RETAIN by topic.
    pub(crate) newest: BTreeMap<String, MsgId>,
}

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Oracle {
    pub(crate) violation: Option<String>,
    pub(crate) msgs: BTreeMap<MsgId, Msg>,
    pub(crate) lives: Vec<Life>,
    pub(crate) uses: Uses,
    wills: Wills,
    /// Milliseconds that a message may wait in a session; none: for ever.
    wait_ms: Option<u64>,
    /// Sessions have limits that are reached: what has no room is dropped (M12).
    drops: bool,
    /// Sessions drop nothing whose publisher can be told: they refuse it (M12).
    keeps_all: bool,
    /// Publishes are refused for want of room at any time, by one partition and not by another (M10).
    refuses: bool,
    /// Subscriptions that a session may have (I9).
    subscriptions_max: usize,
    /// A kill or a deposal has happened.
    faulted: bool,
    /// A deposal has.
    deposed: bool,
    /// When the faults were over.
    healing_since: Option<u64>,
    /// Times in which the disk had only its reserve, or a partition was set aside, and what is new was refused (M39, M47).
    short: Vec<(u64, Option<u64>)>,
    /// Times in which nothing was refused for the filters of a partition that was set aside (M39).
    released: Vec<(u64, Option<u64>)>,
    /// The last time in which the log had no room for anything at all.
    stood: Option<(u64, Option<u64>)>,
    last_msg: MsgId,
    /// Messages that a client's sessions are not owed any more: the operator has accepted that they are lost (M44).
    accepted: BTreeSet<(usize, MsgId)>,
    /// The same of shared groups: a topic leads to one at the most.
    accepted_of_groups: BTreeSet<MsgId>,
    /// Retained topics with what was published to them, in order; none: cleared.
    retained: BTreeMap<String, Vec<MsgId>>,
}

impl Oracle {
    pub(crate) fn new(plan: &Plan) -> Self {
        let seconds = u64::from(plan.limits.queue_seconds_max);
        Self {
            violation: None,
            msgs: BTreeMap::new(),
            lives: Vec::new(),
            uses: Uses::default(),
            wills: Wills::default(),
            drops: plan.is_tight(),
            keeps_all: plan.refuses_publishers(),
            refuses: plan.refuses(),
            subscriptions_max: plan.limits.subscriptions_max as usize,
            wait_ms: plan.ages().then_some(1_000 * seconds),
            faulted: false,
            deposed: false,
            healing_since: None,
            short: Vec::new(),
            released: Vec::new(),
            stood: None,
            last_msg: 0,
            accepted: BTreeSet::new(),
            accepted_of_groups: BTreeSet::new(),
            retained: BTreeMap::new(),
        }
    }

    /// Notes the first violation.
    pub(crate) fn fail(&mut self, text: String) {
        self.violation.get_or_insert(text);
    }

    pub(crate) fn killed(&mut self, now: u64) {
        self.faulted = true;
        self.forget_waived(now, self.unwritten_ms(now), |_| true);
        self.interrupt_wills(now);
        self.log_stands(false, now);
    }

    /// From now on nothing fails any more.
    pub(crate) fn heals(&mut self, now: u64) {
        self.healing_since = Some(now);
    }

    /// The node has come out of a backup, and nobody knows of what happened behind its cut at `at`: to all, the process was killed there. Numbers of
    /// messages are not given again, so that what must not be there any more shows when it comes.
    pub(crate) fn goes_on_from(&mut self, at: u64, abandoned: &Self) {
        self.last_msg = abandoned.last_msg;
        self.killed(at);
        self.disk_short(false, at);
    }

    /// A partition has lost its leader, with what fronts of these clients were about to say to their sessions there. While another one
    /// had none since `last_fault`, their last words may have waited for appends there (M25).
    pub(crate) fn deposed(&mut self, now: u64, last_fault: u64, clients: &[usize]) {
        self.faulted = true;
        self.deposed = true;
        let shortly_ms = match now > last_fault + UNSETTLED_MS {
            true => UNSETTLED_MS,
            false => LATE_MS,
        };
        self.forget_waived(now, shortly_ms, |client| clients.contains(&client));
    }

    /// A connection has closed while nobody leads its session, and has not heard so yet: its last words reach nobody, as those that a
    /// leader is lost with.
    pub(crate) fn unheard(&mut self, now: u64, client: usize) {
        self.forget_waived(now, 0, |it| it == client);
    }

    /// A session begins.
    pub(crate) fn begin_life(&mut self, client: usize) -> LifeId {
        self.lives.push(Life {
            client,
            ..Life::default()
        });
        self.lives.len() - 1
    }

    /// A session is over, or nobody will come back to it.
    pub(crate) fn end_life(&mut self, life: LifeId) {
        self.lives[life].ended = true;
    }

    /// A message is about to be sent for the first time. Gives it its number and its payload.
    pub(crate) fn publish(&mut self, mut msg: Msg, len: usize) -> (MsgId, Vec<u8>) {
        self.last_msg += 1;
        let id = self.last_msg;
        if msg.payload.is_empty() && len > 0 {
            let mut payload = format!("{id}:").into_bytes();
            payload.extend((0..len).map(|at| b'a' + ((at as u64 + id) % 26) as u8));
            msg.payload = payload;
        }
        let payload = msg.payload.clone();
        if msg.retain {
            self.retained.entry(msg.topic.clone()).or_default().push(id);
        }
        self.msgs.insert(id, msg);
        (id, payload)
    }

    /// The number in a payload; 0 when there is none.
    pub(crate) fn name(&self, payload: &[u8]) -> MsgId {
        deliveries::id_of(payload).unwrap_or(0)
    }

    /// Whether a session may have several deliveries of a message: it was sent again, or is found by scans.
    pub(crate) fn comes_again(&self, msg: MsgId) -> bool {
        let msg = self.msgs.get(&msg);
        msg.is_some_and(|msg| msg.copies > 1 || msg.retain || self.may_be_new_there(msg))
    }

    /// Whether it was sent again to a session that may have begun behind its publisher's back, and knows nothing of the exchange.
    fn may_be_new_there(&self, msg: &Msg) -> bool {
        let unheard = msg.strayed || msg.life.is_some_and(|life| self.lives[life].fuzzy);
        msg.resent && unheard
    }

    pub(crate) fn resent(&mut self, msg: MsgId) {
        let it = self.msgs.get(&msg);
        let may_be_refused = it.is_some_and(|msg| self.comes_while_all_refuse(msg));
        if let Some(msg) = self.msgs.get_mut(&msg) {
            msg.copies += u32::from(msg.qos == QoS::AtLeastOnce || may_be_refused);
            msg.resent = true;
        }
    }

    /// What is sent again may have been refused by a PUBREC that was lost, which ended its exchange: it is another one then
    /// (v5 [MQTT-4.3.3-9]). Version 3.1.1 has no such PUBREC (M28).
    pub(crate) fn may_begin_anew(&mut self, msg: MsgId) {
        let refuses = self.refuses;
        if let Some(msg) = self.msgs.get_mut(&msg) {
            msg.copies += u32::from(refuses && msg.qos == QoS::ExactlyOnce);
        }
    }

    /// Its publisher has forgotten it, as a CONNECT with Clean Start asks of both sides, whatever becomes of that CONNECT.
    pub(crate) fn abandoned(&mut self, msg: MsgId) {
        if let Some(msg) = self.msgs.get_mut(&msg) {
            msg.abandoned = true;
        }
    }

    /// It will be sent again, to a session that has begun unheard after the one that it was sent to first was lost.
    pub(crate) fn strayed(&mut self, msg: MsgId) {
        if let Some(msg) = self.msgs.get_mut(&msg) {
            msg.strayed = true;
        }
    }

    /// The broker took responsibility, or refused.
    pub(crate) fn answered(&mut self, msg: MsgId, refused: bool, now: u64) {
        if let Some(msg) = self.msgs.get_mut(&msg) {
            if refused {
                msg.refused = true;
            } else {
                msg.acked.get_or_insert(now);
            }
        }
    }

    /// A loss of power has taken what was done in a client's session since a moment: what was answered since then may be gone
    /// with it, before it left for its destinations (M28).
    pub(crate) fn doubt_answers(&mut self, client: usize, since: u64) {
        for msg in self.msgs.values_mut() {
            if msg.client == client && msg.qos == QoS::ExactlyOnce {
                msg.acked = msg.acked.filter(|acked| *acked < since);
            }
        }
    }

    /// SUBSCRIBE leaves: until SUBACK nothing is certain about this filter.
    pub(crate) fn subscribing(&mut self, life: LifeId, filter: &str, mut sub: Sub, now: u64) {
        let life = &mut self.lives[life];
        close_span(life, filter, now);
        if let Some(old) = life.subs.get(filter) {
            sub.scans += old.scans;
            sub.qos = sub.qos.max(old.qos);
            sub.no_local &= old.no_local;
            sub.retain_as_published |= old.retain_as_published;
        }
        life.subs.insert(filter.to_owned(), sub);
    }

    /// I9: whether a session may have as many subscriptions as it can have, with those that it asks for. Below the limit nothing is
    /// refused.
    pub(crate) fn may_be_refused(&self, life: LifeId) -> bool {
        let life = &self.lives[life];
        life.fuzzy || life.doubtful || life.subs.len() > self.subscriptions_max
    }

    /// Filters to which a session is or may be subscribed.
    pub(crate) fn filters_of(&self, life: LifeId) -> usize {
        let subs = self.lives[life].subs.values();
        subs.filter(|sub| sub.gone.is_none()).count()
    }

    /// I9: a session has no more subscriptions than it may have. A fuzzy life may be two sessions, each with its own.
    fn judge_subscriptions(&mut self, life: LifeId) {
        if self.lives[life].fuzzy || self.lives[life].doubtful {
            return;
        }
        let subs = self.lives[life].subs.values();
        let granted = subs.filter(|sub| sub.since.is_some() && sub.gone.is_none());
        let granted = granted.count();
        if granted > self.subscriptions_max {
            let most = self.subscriptions_max;
            self.fail(format!(
                "I9: life {life} has {granted} subscriptions, above {most}"
            ));
        }
    }

    /// SUBACK came.
    pub(crate) fn subscribed(
        &mut self,
        life_id: LifeId,
        filter: &str,
        options: SubscriptionOptions,
        now: u64,
    ) {
        let life = &mut self.lives[life_id];
        if let Some(sub) = life.subs.get_mut(filter) {
            sub.since = Some(now);
            sub.gone = None;
        }
        life.spans.push(Span {
            filter: filter.to_owned(),
            qos: options.qos,
            no_local: options.no_local,
            asks_retained: options.retain_handling == RetainHandling::SendOnSubscribe,
            from: now,
            to: None,
        });
        self.judge_subscriptions(life_id);
    }

    /// UNSUBSCRIBE leaves.
    pub(crate) fn unsubscribing(&mut self, life: LifeId, filter: &str, now: u64) {
        let life = &mut self.lives[life];
        close_span(life, filter, now);
        if let Some(sub) = life.subs.get_mut(filter) {
            sub.since = None;
        }
    }

    /// The operator accepts that a message is lost for who waits for it.
    pub(crate) fn accept_loss(&mut self, client: usize, msg: MsgId) {
        self.accepted.insert((client, msg));
    }

    /// The same for a shared group.
    pub(crate) fn accept_loss_of_group(&mut self, msg: MsgId) {
        self.accepted_of_groups.insert(msg);
    }

    /// UNSUBACK came.
    pub(crate) fn unsubscribed(&mut self, life: LifeId, filter: &str, now: u64) {
        if let Some(sub) = self.lives[life].subs.get_mut(filter)
            && sub.since.is_none()
        {
            sub.gone = Some(now);
        }
    }
}

impl Life {
    /// Its subscriptions to a topic, by filter.
    fn subs_to(&self, topic: &str) -> impl Iterator<Item = (&String, &Sub)> {
        let subs = self.subs.iter();
        subs.filter(move |(filter, _)| matches(filter, topic))
    }

    /// None of its subscriptions is certain any more.
    pub(crate) fn close_spans(&mut self, now: u64) {
        for span in &mut self.spans {
            span.to.get_or_insert(now);
        }
    }
}

fn close_span(life: &mut Life, filter: &str, now: u64) {
    let open = life
        .spans
        .iter_mut()
        .filter(|span| span.filter == filter && span.to.is_none());
    for span in open {
        span.to = Some(now);
    }
}

/// The part of a filter that topics are compared with, and whether it is a shared subscription.
pub(crate) fn matching(filter: &str) -> (&str, bool) {
    match filter
        .strip_prefix("$share/")
        .and_then(|rest| rest.split_once('/'))
    {
        Some((_, filter)) => (filter, true),
        None => (filter, false),
    }
}

/// Whether a filter of a client matches a topic.
pub(crate) fn matches(filter: &str, topic: &str) -> bool {
    router::filter_matches(matching(filter).0, topic)
}
