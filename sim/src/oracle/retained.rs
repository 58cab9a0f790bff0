//! Retained messages at the end: the last value of each topic, exactly (M33, M34).

use std::collections::BTreeMap;

use courser_mqtt::codec::QoS;

use super::short::ARRIVAL_MS;
use super::{Excuse, Life, Msg, MsgId, Oracle, matches, matching};

/// A value that a topic may have at the end.
#[derive(Clone, Copy)]
struct Candidate {
    /// None: nobody's.
    id: Option<MsgId>,
    /// What else would have taken its place.
    excuse: Option<Excuse>,
}

impl Oracle {
    /// Messages whose value may be a topic's last one: the last that is certain, or one after it.
    fn candidates(&self, topic: &str) -> Vec<Candidate> {
        let mut values = vec![Candidate {
            id: None,
            excuse: None,
        }];
        for &id in self.retained.get(topic).into_iter().flatten() {
            let msg = &self.msgs[&id];
            // Of what was sent again only the repeat was refused: an earlier copy may have been stored, its answer lost.
            // And where the disk was full for a part of its way only, one partition may have refused what another one keeps (M10, M14).
            let is_refused = msg.refused && !msg.resent;
            if is_refused && !self.comes_when_room_changes(msg) {
                continue;
            }
            if msg.acked.is_some() {
                values.retain_mut(|value| {
                    let older = value.id.map(|value| &self.msgs[&value]);
                    let excuse = older.and_then(|it| self.why_kept_behind(it, msg));
                    value.excuse = excuse.or(value.excuse);
                    excuse.is_some()
                });
            }
            values.push(Candidate {
                id: Some(id),
                excuse: is_refused.then_some(Excuse::KeptElsewhere),
            });
        }
        values
    }

    /// Why a message may come to where it is kept behind one that the same client published later, and stay.
    pub(super) fn why_kept_behind(&self, it: &Msg, later: &Msg) -> Option<Excuse> {
        let overlaps = it.acked.is_none_or(|acked| acked > later.first_sent);
        // What was answered is out of its outbox.
        let outlives = overlaps && it.qos == QoS::ExactlyOnce && it.life != later.life;
        let late = overlaps && self.may_have_been_refused(it);
        // It is stored when its forward comes through.
        let forgotten = it.abandoned && overlaps;
        // One of QoS 2, which goes by the home, does not wait for one of QoS 0.
        let unheard = it.qos == QoS::AtMostOnce
            && later.qos == QoS::ExactlyOnce
            && it.first_sent + ARRIVAL_MS > later.first_sent;
        let reasons = [
            (it.may_come_again_behind(later), Excuse::SentAgain),
            (outlives, Excuse::OutlivesSession),
            (late, Excuse::RefusedBefore),
            (forgotten, Excuse::Forgotten),
            (unheard, Excuse::Unheard),
        ];
        let given = reasons.into_iter().find(|(is_given, _)| *is_given);
        given.map(|(_, excuse)| excuse)
    }

    /// Why a message that came to a subscription may be missing where it is kept: nothing is atomic across partitions, so without an
    /// acknowledgement it may have been lost on its way there, or refused (M10).
    pub(super) fn why_kept_nowhere(&self, msg: &Msg) -> Option<Excuse> {
        let may_be = self.faulted || msg.refused || self.comes_while_short(msg);
        (msg.acked.is_none() && may_be).then_some(Excuse::KeptNowhere)
    }

    /// A new subscriber got these payloads by topic.
    pub(crate) fn check_retained(&mut self, found: &BTreeMap<String, Vec<Vec<u8>>>) {
        let topics: Vec<_> = self
            .retained
            .keys()
            .filter(|topic| topic.starts_with("r/"))
            .cloned()
            .collect();
        for topic in topics {
            let got = found.get(&topic).map_or(&[][..], Vec::as_slice);
            if got.len() > 1 {
                return self.fail(format!("M33: {} retained messages for {topic}", got.len()));
            }
            let candidates = self.candidates(&topic);
            let payload = |id: &Option<MsgId>| {
                let payload = id.map(|id| self.msgs[&id].payload.clone());
                payload.filter(|payload| !payload.is_empty())
            };
            let got = got.first().cloned();
            // What is retained with QoS 0 is dropped where the output has no room for it (M23).
            let routed =
                |id: &Option<MsgId>| id.is_some_and(|id| self.msgs[&id].qos == QoS::AtMostOnce);
            let ids: Vec<_> = candidates.iter().map(|value| value.id).collect();
            if got.is_none() && self.drops && ids.iter().any(routed) {
                continue;
            }
            let fitting = candidates.iter().filter(|value| payload(&value.id) == got);
            // One that needs no excuse, if there is one.
            let fitting = fitting.min_by_key(|value| value.excuse.is_some());
            if let Some(excuse) = fitting.and_then(|value| value.excuse) {
                self.uses.count(excuse);
            }
            if fitting.is_none() {
                let got = got.map(|payload| {
                    String::from_utf8_lossy(&payload[..payload.len().min(12)]).into_owned()
                });
                return self.fail(format!(
                    "M33: the last value of {topic} is one of {ids:?}, not {got:?}"
                ));
            }
        }
    }

    /// M34: who subscribed, asked for what is retained and has stayed knows the last value of each topic, retained when it subscribed or
    /// live behind that. None is between the two.
    pub(super) fn uninformed(&self) -> Option<String> {
        if self.drops || self.wait_ms.is_some() {
            return None;
        }
        let topics = self.retained.keys().filter(|topic| topic.starts_with("r/"));
        let certain = topics.filter_map(|topic| {
            let values = self.candidates(topic).into_iter().map(|value| value.id);
            let values: Option<Vec<MsgId>> = values.collect();
            let values = values?;
            let stored = |id: &MsgId| {
                let msg = &self.msgs[id];
                msg.acked.is_some() && msg.qos > QoS::AtMostOnce && !msg.payload.is_empty()
            };
            values.iter().all(stored).then_some((topic, values))
        });
        certain
            .filter_map(|(topic, values)| {
                let asked = |life: &Life| {
                    life.spans.iter().any(|span| {
                        span.asks_retained
                            && span.to.is_none()
                            && span.qos > QoS::AtMostOnce
                            && !span.no_local
                            && !matching(&span.filter).1
                            && matches(&span.filter, topic)
                    })
                };
                let lives = self.lives.iter().enumerate();
                let mut lives = lives.filter(|(_, it)| !it.ended && !it.fuzzy && !it.doubtful);
                let (number, life) = lives.find(|(_, life)| {
                    let knows = |id: &MsgId| {
                        life.seen.contains_key(id) || self.accepted.contains(&(life.client, *id))
                    };
                    asked(life) && !values.iter().any(knows)
                })?;
                Some(format!(
                    "M34: the last value of {topic} is one of {values:?}, and client {} (life {number}) got none of them",
                    life.client
                ))
            })
            .next()
    }
}
