//! Every delivery: I3, I4, I5, M30, M34 as far as one delivery can break them.

use courser_mqtt::codec::QoS;

use super::{Excuse, LifeId, Msg, MsgId, Oracle, matches};

/// What a life has seen of a message.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Seen {
    /// Deliveries that were processed: repeats of an exchange are not.
    pub(crate) processed: u32,
    /// Those of them that had DUP and came to a client without a memory of its session.
    pub(crate) forgotten: u32,
    /// Those of them with QoS 0.
    pub(crate) routed: u32,
    /// Highest QoS of them.
    pub(crate) qos: u8,
    /// When the first of them with a QoS above 0 came.
    pub(crate) stored: Option<u64>,
}

/// One PUBLISH as a client got it.
#[derive(Clone, Debug)]
pub(crate) struct Got {
    pub(crate) topic: String,
    pub(crate) payload: Vec<u8>,
    pub(crate) qos: QoS,
    pub(crate) retain: bool,
    pub(crate) dup: bool,
    /// A repeat of an exchange that the client knows.
    pub(crate) repeat: bool,
}

/// The number that a payload begins with.
pub(super) fn id_of(payload: &[u8]) -> Option<MsgId> {
    let end = payload.iter().position(|&byte| byte == b':')?;
    std::str::from_utf8(&payload[..end]).ok()?.parse().ok()
}

impl Oracle {
    /// A client got a PUBLISH. Gives the number of the message; 0 for one without payload.
    pub(crate) fn got(&mut self, life: LifeId, got: &Got, now: u64) -> MsgId {
        if got.payload.is_empty() {
            return self.got_empty(life, got);
        }
        let known = id_of(&got.payload).filter(|id| self.msgs.contains_key(id));
        let Some(id) = known else {
            self.fail(format!(
                "I5: nobody published {:?} on {}",
                text(&got.payload),
                got.topic
            ));
            return 0;
        };
        if let Err(text) = self.judge(life, id, got, now) {
            let client = self.lives[life].client;
            self.fail(format!(
                "{text} (message {id} on {}, client {client}, life {life})",
                got.topic
            ));
        }
        id
    }

    fn got_empty(&mut self, life: LifeId, got: &Got) -> MsgId {
        let cleared = self.retained.get(&got.topic).into_iter().flatten();
        let known = cleared.clone().any(|id| self.msgs[id].payload.is_empty());
        let subscribed = self.lives[life]
            .subs
            .keys()
            .any(|filter| matches(filter, &got.topic));
        let subscribed = subscribed || self.lives[life].doubtful;
        if !known || !subscribed {
            self.fail(format!(
                "I5: an empty message on {} that nobody published",
                got.topic
            ));
        }
        0
    }

    fn judge(&mut self, life: LifeId, id: MsgId, got: &Got, now: u64) -> Result<(), String> {
        self.judge_will(id, now)?;
        let msg = self.msgs[&id].clone();
        if msg.topic != got.topic || msg.payload != got.payload {
            return Err("I5: delivered bytes differ from published ones".to_owned());
        }
        if self.lives[life].doubtful {
            return Ok(());
        }
        self.judge_loss(life, id, &msg)?;
        self.judge_granted(life, &msg, got)?;
        if got.repeat {
            return Ok(());
        }
        let is_first = self.judge_count(life, (id, &msg), got, now)?;
        let as_published = self.lives[life]
            .subs_to(&msg.topic)
            .any(|(_, sub)| sub.retain_as_published);
        let from_scan = got.retain && !as_published;
        if from_scan && is_first && self.is_overtaken(life, id, &msg) {
            return Err("M34: a retained message after a newer live one".to_owned());
        }
        if !from_scan && is_first && !(msg.retain && got.retain) {
            return self.judge_order(life, (id, &msg), got, now);
        }
        Ok(())
    }

    /// M44: what an operator has given up does not come.
    fn judge_loss(&self, life: LifeId, id: MsgId, msg: &Msg) -> Result<(), String> {
        let is_once = msg.copies == 1 && !msg.retain;
        let is_new = !self.lives[life].seen.contains_key(&id);
        match is_once && is_new && self.is_given_up(life, id, msg) {
            true => Err("M44: comes although its loss was accepted".to_owned()),
            false => Ok(()),
        }
    }

    /// Whether an operator has accepted its loss.
    fn is_given_up(&self, life: LifeId, id: MsgId, msg: &Msg) -> bool {
        let it = &self.lives[life];
        // What comes to a group comes to nobody else.
        match subs_are_shared(&it.subs, &msg.topic) {
            true => self.accepted_of_groups.contains(&id),
            false => self.accepted.contains(&(it.client, id)),
        }
    }

    /// I4, I5: it comes by a subscription, and as that says.
    fn judge_granted(&self, life: LifeId, msg: &Msg, got: &Got) -> Result<(), String> {
        let it = &self.lives[life];
        let subs = || it.subs_to(&msg.topic);
        if subs().next().is_none() {
            return Err("I5: delivered to a session that never subscribed".to_owned());
        }
        if subs().all(|(_, sub)| sub.gone.is_some_and(|gone| gone < msg.first_sent)) {
            return Err("I5: published after UNSUBACK".to_owned());
        }
        if msg.client == it.client && subs().all(|(_, sub)| sub.no_local) {
            return Err("v5 [MQTT-3.8.3-3]: came back in spite of No Local".to_owned());
        }
        let granted = subs()
            .map(|(_, sub)| sub.qos)
            .max()
            .unwrap_or(QoS::AtMostOnce);
        if got.qos > granted.min(msg.qos) {
            return Err(format!(
                "I4: QoS {:?} is more than granted or published",
                got.qos
            ));
        }
        if got.retain && !msg.retain {
            return Err("v5 [MQTT-3.3.1-12]: RETAIN on a message that had none".to_owned());
        }
        if got.dup && !got.repeat && !it.resumed && !it.fuzzy {
            return Err("v5 [MQTT-3.3.1-1]: DUP on a first delivery".to_owned());
        }
        Ok(())
    }

    /// I4: it does not come more often than it may. Whether it is the first time.
    fn judge_count(
        &mut self,
        life: LifeId,
        (id, msg): (MsgId, &Msg),
        got: &Got,
        now: u64,
    ) -> Result<bool, String> {
        let may_be_new_there = self.may_be_new_there(msg);
        let it = &mut self.lives[life];
        let scans: u32 = it.subs_to(&msg.topic).map(|(_, sub)| sub.scans).sum();
        let shared = subs_are_shared(&it.subs, &msg.topic);
        let seen = it.seen.entry(id).or_default();
        let is_first = seen.processed == 0;
        // A client that lost its own half takes a repeat for something new.
        seen.forgotten += u32::from(it.fuzzy && got.dup);
        // What is only routed leaves before the commit: after a crash the message may come again, and be stored then.
        seen.routed += u32::from(got.qos == QoS::AtMostOnce);
        seen.processed += 1;
        seen.qos = seen.qos.max(got.qos.number());
        if got.qos > QoS::AtMostOnce {
            seen.stored.get_or_insert(now);
        }
        let routed = if self.faulted { seen.routed } else { 0 };
        let most = msg.copies + seen.forgotten + routed + if msg.retain { scans } else { 0 };
        let excused = may_be_new_there || shared && got.qos == QoS::AtLeastOnce;
        if seen.processed > most && !excused {
            return Err(format!(
                "I4: processed {} times, at most {most} may be",
                seen.processed
            ));
        }
        if seen.processed > most - seen.forgotten && !excused {
            self.uses.count(Excuse::ExchangeForgotten);
        }
        Ok(is_first)
    }

    /// I3: a live message does not come behind a later one of its publisher.
    fn judge_order(
        &mut self,
        life: LifeId,
        (id, msg): (MsgId, &Msg),
        got: &Got,
        now: u64,
    ) -> Result<(), String> {
        let refused = self.may_have_been_refused(msg);
        let waits_ms = self.waits_ms(msg);
        let may_be_dropped = self.drops || waits_ms.is_some_and(|ms| now >= msg.first_sent + ms);
        // The first copy was in order, and its loss is accepted: what is sent again comes now.
        let was_lost = msg.resent && self.is_given_up(life, id, msg);
        let it = &mut self.lives[life];
        if msg.retain && msg.qos > QoS::AtMostOnce && got.qos > QoS::AtMostOnce {
            it.newest.insert(msg.topic.clone(), id);
        }
        // A member of a shared group is one of many: v5 section 4.6 orders only non-shared subscriptions.
        let shared = subs_are_shared(&it.subs, &msg.topic);
        // Of a message that was sent again, the first copy may have come before the subscription, or as QoS 0 while the
        // subscriber was away, or may have been too old or without room: then the second one is the first that it can see.
        let whole = !msg.resent
            || got.qos > QoS::AtMostOnce
                && it.spans.iter().any(|span| {
                    span.from < msg.first_sent
                        && span.qos > QoS::AtMostOnce
                        && span.to.is_none()
                        && !(span.no_local && msg.client == it.client)
                        && matches(&span.filter, &msg.topic)
                });
        let was_dropped = msg.resent && may_be_dropped;
        // What was left behind without an answer by a client that began anew is not before what it sends next: that may go by
        // another shard while the first connection's publish still waits for a leader, and is never sent again in its place.
        let in_order = !shared && whole && !refused && !was_lost;
        let Some(publisher) = msg.life.filter(|_| in_order) else {
            return Ok(());
        };
        let (sent, came) = (msg.qos.number(), got.qos.number());
        let key = (publisher, msg.topic.clone(), sent, came);
        let before = it.order.get(&key).copied();
        let before = before.filter(|before| *before > id);
        let excuse = match msg.abandoned {
            _ if was_dropped => Some(Excuse::DroppedBefore),
            true => Some(Excuse::Forgotten),
            false => None,
        };
        if let Some(excuse) = excuse {
            if before.is_some() {
                self.uses.count(excuse);
            }
            return Ok(());
        }
        it.order.insert(key, id);
        match before {
            None => Ok(()),
            Some(before) => Err(format!(
                "I3: came after message {before} of the same publisher"
            )),
        }
    }

    /// v5 [MQTT-3.3.2-6]: who gets a message that expires is told what is left of its time, and no other message expires. To the nearest second; the
    /// copy that came may be a later one.
    pub(crate) fn judge_life(&mut self, id: MsgId, left: Option<u32>, now: u64) {
        let Some(msg) = self.msgs.get(&id) else {
            return;
        };
        let is_right = match (msg.life_ms(), left) {
            (None, None) => true,
            (Some(life_ms), Some(left)) => {
                let left_ms = u64::from(left) * 1_000;
                left_ms <= life_ms && left_ms + 500 >= life_ms.saturating_sub(now - msg.first_sent)
            }
            (None, Some(_)) | (Some(_), None) => false,
        };
        if !is_right {
            let life = msg.life_seconds;
            self.fail(format!(
                "v5 [MQTT-3.3.2-6]: message {id} says {left:?} of {life:?} seconds"
            ));
        }
    }

    /// Whether a life has had a live message that must have taken the place of this one where it is kept.
    fn is_overtaken(&self, life: LifeId, id: MsgId, msg: &Msg) -> bool {
        let newest = self.lives[life].newest.get(&msg.topic);
        let Some(newer) = newest.filter(|newest| **newest > id) else {
            return false;
        };
        let newer = &self.msgs[newer];
        let excuse = self.why_kept_nowhere(newer);
        let excuse = excuse.or_else(|| self.why_kept_behind(msg, newer));
        if let Some(excuse) = excuse {
            self.uses.count(excuse);
        }
        excuse.is_none()
    }
}

/// Whether a topic may come to a session by a shared group.
pub(super) fn subs_are_shared(
    subs: &std::collections::BTreeMap<String, super::Sub>,
    topic: &str,
) -> bool {
    subs.keys()
        .any(|filter| super::matching(filter).1 && matches(filter, topic))
}

fn text(payload: &[u8]) -> String {
    String::from_utf8_lossy(&payload[..payload.len().min(24)]).into_owned()
}
