//! SUBSCRIBE and UNSUBSCRIBE: asked of the home in parts, answered by one packet each.
//!
//! A PUBLISH behind one waits for its answer, and with it all that the client sends later: it is matched with what was subscribed before it
//! (M38). What the answer waits for is the log, the other shards and shared groups, never an acknowledgement of this client; and where one of
//! them says nothing, the PUBLISH goes on after [`PUBLISH_WAITS_MS`].

use courser_contract::{
    Asked, FrontEffects, Now, Permission, QoS, RequestPart, RetainHandling, SubscribeResult,
    Subscription, SubscriptionOptions, Tick, ToHome,
};
use smallvec::{SmallVec, smallvec};

use super::close::Fault;
use super::config::Feature;
use super::publish::contract_qos;
use super::{Flow, Front};
use crate::codec::{
    self, PacketId, ProtocolVersion, ReasonCode, Subscribe, TopicFilter, Unsubscribe,
};

/// Requests that wait for the home at once; later packets wait in front of them.
const REQUESTS_MAX: usize = 256;

/// Filters that go home together. Between two parts a shard may turn to others: one filter takes a home some 10 µs (both indexes, the entry).
const PART_FILTERS: usize = 32;

/// A PUBLISH waits no longer than this for the requests before it, as a socket is not read for no longer (M49).
pub(super) const PUBLISH_WAITS_MS: u64 = 5_000;

/// SUBSCRIBE and UNSUBSCRIBE packets that the home has not answered.
#[derive(Debug, Default)]
pub(super) struct Requests {
    waiting: Vec<Request>,
    publishes: Publishes,
}

/// What becomes of publishes that come behind requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Publishes {
    /// The next one waits.
    #[default]
    ToWait,
    /// One has waited since then, and nothing is read.
    Wait(Tick),
    /// They have waited long enough, or can wait no longer.
    Pass,
}

#[derive(Debug)]
struct Request {
    packet_id: u16,
    /// Parts that the home has not answered.
    parts: u32,
    /// One a filter; [`ASKED`] where the home has not decided.
    codes: Codes,
}

type Codes = SmallVec<[u8; 16]>;

/// No reason code.
const ASKED: u8 = 0xFF;

impl Request {
    /// Takes what the home has decided of a part: codes of those of its filters that it was asked for.
    fn decide(&mut self, part: RequestPart, decided: impl Iterator<Item = ReasonCode>) {
        let first = (part.first as usize).min(self.codes.len());
        let asked = self.codes[first..].iter_mut();
        for (code, decided) in asked.filter(|code| **code == ASKED).zip(decided) {
            *code = decided.byte();
        }
        self.parts = self.parts.saturating_sub(1);
    }
}

impl Requests {
    /// Whether the front reads no further.
    pub(super) fn is_blocked(&self) -> bool {
        self.waiting.len() >= REQUESTS_MAX || self.holds_publish()
    }

    /// Whether a PUBLISH waits.
    pub(super) const fn holds_publish(&self) -> bool {
        matches!(self.publishes, Publishes::Wait(_))
    }

    /// A PUBLISH has come. Whether it waits.
    pub(super) fn hold_publish(&mut self, now: Now) -> bool {
        if self.publishes == Publishes::ToWait {
            self.publishes = Publishes::Wait(now.tick);
        }
        self.holds_publish()
    }

    /// When one that waits goes on without an answer.
    pub(super) fn publish_deadline(&self) -> Option<Tick> {
        match self.publishes {
            Publishes::Wait(since) => Some(since.after_ms(PUBLISH_WAITS_MS)),
            Publishes::ToWait | Publishes::Pass => None,
        }
    }

    /// Until all are answered, publishes do not wait.
    pub(super) fn let_publishes_pass(&mut self) {
        self.publishes = Publishes::Pass;
    }

    pub(super) fn are_none(&self) -> bool {
        self.waiting.is_empty()
    }

    #[cfg(test)]
    pub(super) fn packet_ids(&self) -> impl Iterator<Item = u16> {
        self.waiting.iter().map(|request| request.packet_id)
    }

    fn get(&mut self, packet_id: u16) -> Option<&mut Request> {
        let mut waiting = self.waiting.iter_mut();
        waiting.find(|request| request.packet_id == packet_id)
    }
}

impl Front {
    pub(super) fn handle_subscribe(
        &mut self,
        packet: &Subscribe<'_>,
        fx: &mut impl FrontEffects,
    ) -> Result<Flow, Fault> {
        let identifier = packet
            .properties
            .subscription_identifier()
            .map(codec::SubscriptionId::get);
        if identifier.is_some() && self.config.subscription_identifiers == Feature::Off {
            return Err(Fault {
                reason: ReasonCode::SubscriptionIdentifiersNotSupported,
                text: "subscription identifiers are not available here",
            });
        }
        let packet_id = packet.packet_id.get();
        let in_use = self.is_requested(packet_id)?;
        let mut codes = Codes::with_capacity(packet.subscriptions.len());
        let mut subscriptions = Vec::new();
        let mut parts = Vec::new();
        for (index, asked) in packet.subscriptions.iter().enumerate() {
            let refusal = if in_use {
                Some(ReasonCode::PacketIdentifierInUse)
            } else {
                match self.check_filter(asked.filter, index)? {
                    None => check_right(asked.filter, fx),
                    refused => refused,
                }
            };
            codes.push(refusal.map_or(ASKED, ReasonCode::byte));
            if refusal.is_some() {
                continue;
            }
            match subscriptions.len() % PART_FILTERS {
                0 if parts.is_empty() => parts.push(0),
                0 => parts.push(index),
                _ => {}
            }
            subscriptions.push(self.subscription_of(&asked, identifier));
        }
        if parts.is_empty() {
            self.send_suback(packet.packet_id, &codes, fx);
            return Ok(Flow::Next);
        }
        self.request(packet_id, parts.len(), codes);
        let mut left = subscriptions.into_iter();
        for first in parts {
            let message = ToHome::Subscribe {
                session: self.session.home.session,
                epoch: self.session.epoch,
                part: part_from(packet_id, first),
                subscriptions: left.by_ref().take(PART_FILTERS).collect(),
            };
            fx.send_home(self.session.home.partition, message);
        }
        Ok(Flow::Next)
    }

    /// Whether a request with this packet id waits already. 3.1.1 has no code for it.
    fn is_requested(&self, packet_id: u16) -> Result<bool, Fault> {
        let in_use = self.requests.as_ref().is_some_and(|requests| {
            requests
                .waiting
                .iter()
                .any(|request| request.packet_id == packet_id)
        });
        match self.peer.version {
            ProtocolVersion::V311 if in_use => {
                Err(Fault::protocol("the packet identifier is in use"))
            }
            ProtocolVersion::V311 | ProtocolVersion::V5 => Ok(in_use),
        }
    }

    fn request(&mut self, packet_id: u16, parts: usize, codes: Codes) {
        let requests = self.requests.get_or_insert_default();
        requests.waiting.push(Request {
            packet_id,
            parts: number(parts),
            codes,
        });
    }

    /// The codes of a request that the home has answered with this part. Most clients subscribe once: with the last answer the memory for it goes
    /// back.
    fn answered(
        &mut self,
        part: RequestPart,
        decided: impl Iterator<Item = ReasonCode>,
    ) -> Option<(PacketId, Codes)> {
        let requests = self.requests.as_mut()?;
        let request = requests.get(part.packet_id)?;
        request.decide(part, decided);
        if request.parts > 0 {
            return None;
        }
        let codes = std::mem::take(&mut request.codes);
        requests
            .waiting
            .retain(|request| request.packet_id != part.packet_id);
        self.requests.take_if(|requests| requests.are_none());
        Some((PacketId::new(part.packet_id)?, codes))
    }

    /// What is switched off ends a v5 connection, which was told so by CONNACK (v5 sections 3.2.2.3.11 and 3.2.2.3.13); 3.1.1 is
    /// refused filter by filter, v3 [MQTT-3.8.3-2].
    fn check_filter(
        &self,
        filter: TopicFilter<'_>,
        index: usize,
    ) -> Result<Option<ReasonCode>, Fault> {
        let wildcard = self.config.wildcards == Feature::Off && filter.has_wildcard();
        let shared = self.config.shared_subscriptions == Feature::Off && filter.shared().is_some();
        let (reason, text) = if wildcard {
            (
                ReasonCode::WildcardSubscriptionsNotSupported,
                "wildcards in topic filters are not available here",
            )
        } else if shared {
            (
                ReasonCode::SharedSubscriptionsNotSupported,
                "shared subscriptions are not available here",
            )
        } else if index >= usize::from(self.config.filters_max) {
            return Ok(Some(ReasonCode::QuotaExceeded));
        } else {
            return Ok(None);
        };
        match self.peer.version {
            ProtocolVersion::V311 => Ok(Some(reason)),
            ProtocolVersion::V5 => Err(Fault { reason, text }),
        }
    }

    /// v5 [MQTT-3.2.2-10]: a QoS above our maximum is lowered, not refused.
    fn subscription_of(
        &self,
        asked: &codec::Subscription<'_>,
        identifier: Option<u32>,
    ) -> Subscription {
        let (share, filter) = split_share(asked.filter);
        Subscription {
            filter,
            share,
            options: SubscriptionOptions {
                qos: contract_qos(asked.options.qos).min(self.config.maximum_qos),
                no_local: asked.options.no_local,
                retain_as_published: asked.options.retain_as_published,
                retain_handling: match asked.options.retain_handling {
                    codec::RetainHandling::SendOnSubscribe => RetainHandling::Send,
                    codec::RetainHandling::SendIfNew => RetainHandling::SendIfNew,
                    codec::RetainHandling::DoNotSend => RetainHandling::DoNotSend,
                },
            },
            identifier,
        }
    }

    /// The home has answered: one SUBACK, codes in the order of the filters, v3 [MQTT-3.9.3-1], v5 [MQTT-3.9.3-1].
    pub(super) fn handle_subscribed(
        &mut self,
        part: RequestPart,
        results: &[SubscribeResult],
        fx: &mut impl FrontEffects,
    ) {
        let decided = results.iter().map(|&result| suback_code(result));
        if let Some((packet_id, codes)) = self.answered(part, decided) {
            self.send_suback(packet_id, &codes, fx);
        }
    }

    fn send_suback(&mut self, packet_id: PacketId, codes: &[u8], fx: &mut impl FrontEffects) {
        if !self.send_suback_codes(packet_id, codes) {
            self.fail(ANSWER_TOO_LARGE, fx);
        }
    }

    pub(super) fn handle_unsubscribe(
        &mut self,
        packet: &Unsubscribe<'_>,
        fx: &mut impl FrontEffects,
    ) -> Result<Flow, Fault> {
        let packet_id = packet.packet_id.get();
        if self.is_requested(packet_id)? {
            let code = ReasonCode::PacketIdentifierInUse.byte();
            let codes: Codes = packet.filters.iter().map(|_| code).collect();
            self.send_unsuback(packet.packet_id, &codes, fx);
            return Ok(Flow::Next);
        }
        let filters = packet.filters.len();
        let parts = filters.div_ceil(PART_FILTERS);
        self.request(packet_id, parts, smallvec![ASKED; filters]);
        let mut left = packet.filters.iter().map(split_share);
        for part in 0..parts {
            let message = ToHome::Unsubscribe {
                session: self.session.home.session,
                epoch: self.session.epoch,
                part: part_from(packet_id, part * PART_FILTERS),
                filters: left.by_ref().take(PART_FILTERS).collect(),
            };
            fx.send_home(self.session.home.partition, message);
        }
        Ok(Flow::Next)
    }

    /// One UNSUBACK, also when nothing was deleted: v3 [MQTT-3.10.4-5], v5 [MQTT-3.10.4-5].
    pub(super) fn handle_unsubscribed(
        &mut self,
        part: RequestPart,
        existed: &[bool],
        fx: &mut impl FrontEffects,
    ) {
        let decided = existed.iter().map(|&existed| unsuback_code(existed));
        if let Some((packet_id, codes)) = self.answered(part, decided) {
            self.send_unsuback(packet_id, &codes, fx);
        }
    }

    fn send_unsuback(&mut self, packet_id: PacketId, codes: &[u8], fx: &mut impl FrontEffects) {
        if !self.send_unsuback_codes(packet_id, codes) {
            self.fail(ANSWER_TOO_LARGE, fx);
        }
    }
}

/// The client asked for more filters at once than fit an answer that it takes: v5 [MQTT-3.1.2-24].
const ANSWER_TOO_LARGE: Fault = Fault {
    reason: ReasonCode::PacketTooLarge,
    text: "the answer is larger than the client takes",
};

const fn part_from(packet_id: u16, first: usize) -> RequestPart {
    RequestPart {
        packet_id,
        first: number(first),
    }
}

const fn number(filters: usize) -> u32 {
    debug_assert!(filters <= u32::MAX as usize, "a packet is smaller");
    filters as u32
}

/// A filter that the client has no right to gets a code of its own (v5 section 3.9.3), and the others are served.
fn check_right(filter: TopicFilter<'_>, fx: &mut impl FrontEffects) -> Option<ReasonCode> {
    let asked = match filter.shared() {
        Some(shared) => Asked::SubscribeShared(shared.filter),
        None => Asked::Subscribe(filter.as_str()),
    };
    match fx.may(asked) {
        Permission::Granted => None,
        Permission::Denied => Some(ReasonCode::NotAuthorized),
    }
}

fn split_share(filter: TopicFilter<'_>) -> (Option<Box<str>>, Box<str>) {
    let share = filter.shared().map(|shared| shared.share_name.into());
    (share, filter.match_filter().into())
}

/// v5 [MQTT-3.9.3-2]; 3.1.1 gets 0x80 for every failure, v3 [MQTT-3.9.3-2].
const fn suback_code(result: SubscribeResult) -> ReasonCode {
    match result {
        SubscribeResult::Granted(QoS::AtMostOnce) => ReasonCode::GRANTED_QOS_0,
        SubscribeResult::Granted(QoS::AtLeastOnce) => ReasonCode::GrantedQos1,
        SubscribeResult::Granted(QoS::ExactlyOnce) => ReasonCode::GrantedQos2,
        SubscribeResult::QuotaExceeded => ReasonCode::QuotaExceeded,
        SubscribeResult::NotAuthorized => ReasonCode::NotAuthorized,
        SubscribeResult::Unsupported => ReasonCode::ImplementationSpecificError,
        SubscribeResult::Failed => ReasonCode::UnspecifiedError,
    }
}

const fn unsuback_code(existed: bool) -> ReasonCode {
    if existed {
        ReasonCode::Success
    } else {
        ReasonCode::NoSubscriptionExisted
    }
}
