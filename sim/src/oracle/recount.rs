//! At the end every acknowledged message is counted again (I1, I4, M35, M38).

use courser_mqtt::codec::QoS;

use super::{Life, Msg, MsgId, Oracle, matches, matching};

/// So long a forward may be under way: until a partition without a leader has one again.
const FORWARD_MS: u64 = 20_000;
/// So long a batch may be under way between shards, with the turns at both ends.
const LINK_MS: u64 = 70;

impl Oracle {
    /// Every acknowledged message has reached every session that had to get it, but for as many as were counted as too old.
    pub(crate) fn recount(&mut self, now: u64, too_old: u64) {
        self.settle_wills(now);
        let lives = self.lives.iter().enumerate();
        let missed = lives.flat_map(|(number, life)| {
            let missed = self.msgs.iter();
            let missed = missed.filter(|(id, msg)| is_owed(life, msg) && !has(life, **id));
            missed.map(move |(id, msg)| (number, life, id, msg))
        });
        let mut uncounted = missed.skip(usize::try_from(too_old).unwrap_or(usize::MAX));
        let lost = uncounted.next().map(|(number, life, id, msg)| {
            format!(
                "I1: message {id} ({:?} on {}) was acknowledged and never reached client {} (life {number}), and is not among the \
                 {too_old} that were too old",
                msg.qos, msg.topic, life.client
            )
        });
        if let Some(text) = lost {
            return self.fail(text);
        }
        if let Some(text) = self.recount_groups() {
            self.fail(text);
        }
    }

    /// M35: one member at least, at QoS 2 one exactly.
    fn recount_groups(&self) -> Option<String> {
        for (id, msg) in &self.msgs {
            let Some(acked) = msg.acked.filter(|_| msg.qos > QoS::AtMostOnce) else {
                continue;
            };
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
            let processed = self
                .lives
                .iter()
                .filter_map(|life| life.seen.get(id))
                .map(|seen| seen.processed);
            let processed: u32 = processed.sum();
            let ended = self.lives.iter().filter(|life| {
                let took_part = || life.subs.keys().any(|f| matches(f, &msg.topic));
                life.doubtful || (life.ended || life.fuzzy) && took_part()
            });
            let fuzzy = ended.count() as u32;
            if is_owed && processed == 0 && fuzzy == 0 {
                return Some(format!(
                    "M35: message {id} ({:?} on {}) reached no member of its group",
                    msg.qos, msg.topic
                ));
            }
            if is_shared && msg.qos == QoS::ExactlyOnce && processed > 1 + fuzzy {
                return Some(format!(
                    "M35: message {id} on {} reached {processed} members",
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
