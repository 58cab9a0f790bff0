//! At the end every acknowledged message is counted again (I1, I4, M35, M38).

use courser_mqtt::codec::QoS;

use super::deliveries::subs_are_shared;
use super::{Life, LifeId, Msg, MsgId, Oracle, matches, matching};

/// So long a forward may be under way: until a partition without a leader has one again.
const FORWARD_MS: u64 = 20_000;
/// So long a batch may be under way between shards, with the turns at both ends.
const LINK_MS: u64 = 70;

impl Oracle {
    /// Every acknowledged message has reached every session that had to get it, but for as many as were counted as dropped: too old, and
    /// they were, or above what a session may have.
    pub(crate) fn recount(&mut self, now: u64, dropped: u64) {
        self.settle_wills(now);
        let missed: Vec<_> = self.missed().collect();
        let mut refusing = missed
            .iter()
            .filter(|(life, id)| self.keeps_all && self.is_to_refuse(*life, &self.msgs[id]));
        let unrefused = refusing.next().map(|&(number, id)| {
            let who = self.named(number, id);
            format!("I1: {who} was acknowledged where it is to be refused, and never came")
        });
        let uncounted = missed
            .get(usize::try_from(dropped).unwrap_or(usize::MAX))
            .map(|&(number, id)| {
                format!(
                    "I1: {} was acknowledged and never came, and is not among the {dropped} that were dropped and counted",
                    self.named(number, id)
                )
            });
        let early = missed.iter().find_map(|&(number, id)| {
            let after = self.gone_after(number, id)?;
            let who = self.named(number, id);
            let gone = self.waits_ms(&self.msgs[&id]);
            let gone = gone.is_some_and(|wait| after < wait);
            gone.then(|| format!("M20: {who} was gone within {after} ms, as if it were too old"))
        });
        let left = dropped.saturating_sub(missed.len() as u64);
        let broken = unrefused
            .or(uncounted)
            .or(early)
            .or_else(|| self.recount_groups(left))
            .or_else(|| self.uninformed());
        if let Some(text) = broken {
            self.fail(text);
        }
    }

    /// Milliseconds for which a message may wait in a session; none: for ever.
    pub(super) fn waits_ms(&self, msg: &Msg) -> Option<u64> {
        let both = [self.wait_ms, msg.life_ms()];
        both.into_iter().flatten().min()
    }

    /// Whether a session without room for a message refuses it: where its publisher is answered only once it has it (M13, M28). One that may have become
    /// too old is to be among those that were counted, as in worlds where nothing is refused.
    fn is_to_refuse(&self, life: LifeId, msg: &Msg) -> bool {
        let answered = msg.life.is_some_and(|publisher| {
            self.lives[life].lasts || msg.qos == QoS::AtLeastOnce || !self.lives[publisher].lasts
        });
        answered && self.waits_ms(msg).is_none()
    }

    /// What sessions had to get and did not.
    fn missed(&self) -> impl Iterator<Item = (LifeId, MsgId)> {
        let lives = self.lives.iter().enumerate();
        lives.flat_map(|(number, life)| {
            let missed = self.msgs.iter();
            let missed = missed.filter(|(id, msg)| is_owed(life, msg) && !has(life, **id));
            let missed = missed.filter(|(id, _)| !self.accepted.contains(&(life.client, **id)));
            missed.map(move |(&id, _)| (number, id))
        })
    }

    fn named(&self, life: LifeId, id: MsgId) -> String {
        let msg = &self.msgs[&id];
        let client = self.lives[life].client;
        format!(
            "message {id} ({:?} on {}) for client {client} (life {life})",
            msg.qos, msg.topic
        )
    }

    /// Milliseconds after which a message that a session did not get was not there any more, at the latest: what was published once it was
    /// stored is behind it in the stream, and has come. None: nothing says so. What is acknowledged at QoS 2 may still be on its way (M28).
    fn gone_after(&self, life: LifeId, id: MsgId) -> Option<u64> {
        let msg = &self.msgs[&id];
        let acked = msg.acked.filter(|_| msg.qos == QoS::AtLeastOnce)?;
        let life = &self.lives[life];
        // What came by a group is of another stream.
        let behind = life.seen.range(id..).filter(|(other, _)| {
            let other = &self.msgs[other];
            other.first_sent > acked && !subs_are_shared(&life.subs, &other.topic)
        });
        let came = behind.filter_map(|(_, seen)| seen.stored).min()?;
        Some(came.saturating_sub(msg.first_sent))
    }

    /// M35: one member at least, but for so many messages that may have been dropped and those whose loss was accepted, at QoS 2 one exactly.
    fn recount_groups(&self, dropped: u64) -> Option<String> {
        let mut left = dropped;
        for (id, msg) in &self.msgs {
            let Some(acked) = msg.acked.filter(|_| msg.qos > QoS::AtMostOnce) else {
                continue;
            };
            if self.comes_while_released(msg) {
                continue;
            }
            let member = |life: &Life| {
                life.spans.iter().any(|span| {
                    matching(&span.filter).1
                        && matches(&span.filter, &msg.topic)
                        && span.from < msg.first_sent
                        && span.to.is_none_or(|to| to > acked)
                })
            };
            let stays = |life: &Life| {
                life.spans.iter().any(|span| {
                    matching(&span.filter).1
                        && matches(&span.filter, &msg.topic)
                        && span.from < msg.first_sent
                        && span.to.is_none()
                })
            };
            let is_owed = self
                .lives
                .iter()
                .any(|life| !life.ended && !life.fuzzy && stays(life));
            let is_shared = self.lives.iter().any(member);
            let seen = self.lives.iter().filter_map(|life| life.seen.get(id));
            let (processed, forgotten) = seen.fold((0, 0), |sum, seen| {
                (sum.0 + seen.processed, sum.1 + seen.forgotten)
            });
            let ended = self.lives.iter().filter(|life| {
                let took_part = || life.subs.keys().any(|f| matches(f, &msg.topic));
                life.doubtful || (life.ended || life.fuzzy) && took_part()
            });
            let fuzzy = ended.count() as u32;
            let is_lost = self.accepted_of_groups.contains(id);
            if is_owed && processed == 0 && fuzzy == 0 && !is_lost {
                if left > 0 {
                    left -= 1;
                    continue;
                }
                return Some(format!(
                    "M35: message {id} ({:?} on {}) reached no member of its group",
                    msg.qos, msg.topic
                ));
            }
            // One exchange may be repeated as often as its client has forgotten its half (I4).
            let taken = processed - forgotten;
            if is_shared && msg.qos == QoS::ExactlyOnce && taken > 1 + fuzzy {
                return Some(format!(
                    "M35: message {id} on {} reached {taken} members",
                    msg.topic
                ));
            }
        }
        None
    }
}

/// Whether a life has a message at QoS above 0.
fn has(life: &Life, id: MsgId) -> bool {
    life.seen
        .get(&id)
        .is_some_and(|seen| seen.processed > 0 && seen.qos > 0)
}

/// Whether a life must have got a message: it was subscribed before the publish and until the acknowledgement.
fn is_owed(life: &Life, msg: &Msg) -> bool {
    let Some(acked) = msg.acked else { return false };
    if life.ended || life.fuzzy || msg.qos == QoS::AtMostOnce || msg.payload.is_empty() {
        return false;
    }
    // At QoS 2 the acknowledgement says that it is in an outbox; its destination matches it when it comes there (M28, M37).
    let late = match (msg.qos, msg.life) {
        (QoS::ExactlyOnce, _) | (_, None) => FORWARD_MS,
        // What only clean sessions get is acknowledged when it leaves: their UNSUBSCRIBE may overtake it on its link (M13).
        (QoS::AtMostOnce | QoS::AtLeastOnce, Some(_)) => LINK_MS,
    };
    life.spans.iter().any(|span| {
        !matching(&span.filter).1
            && span.qos > QoS::AtMostOnce
            && span.from < msg.first_sent
            && span.to.is_none_or(|to| to > acked + late)
            && !(span.no_local && msg.client == life.client)
            && matches(&span.filter, &msg.topic)
    })
}
