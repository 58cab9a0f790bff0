//! SUBSCRIBE and UNSUBSCRIBE: asked of the home, answered by one packet each.

use courser_contract::{
    Asked, FrontEffects, Permission, QoS, RetainHandling, SubscribeResult, Subscription,
    SubscriptionOptions, ToHome,
};
use smallvec::SmallVec;

use super::close::Fault;
use super::config::Feature;
use super::publish::contract_qos;
use super::{Flow, Front};
use crate::codec::{
    self, PacketId, ProtocolVersion, ReasonCode, Subscribe, TopicFilter, Unsubscribe,
};

/// Requests that wait for the home at once; later packets wait in front of them.
const REQUESTS_MAX: usize = 256;

/// SUBSCRIBE and UNSUBSCRIBE packets that the home has not answered.
#[derive(Debug, Default)]
pub(super) struct Requests {
    waiting: Vec<Request>,
}

#[derive(Debug)]
struct Request {
    packet_id: u16,
    /// Codes of the filters that were refused here, `None` where the home decides; empty when it decides all.
    refused: Vec<Option<ReasonCode>>,
}

impl Requests {
    pub(super) fn are_full(&self) -> bool {
        self.waiting.len() >= REQUESTS_MAX
    }

    pub(super) fn are_none(&self) -> bool {
        self.waiting.is_empty()
    }

    fn take(&mut self, packet_id: u16) -> Option<Request> {
        let index = self
            .waiting
            .iter()
            .position(|request| request.packet_id == packet_id)?;
        Some(self.waiting.remove(index))
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
        let mut refused = Vec::new();
        let mut subscriptions = Vec::with_capacity(packet.subscriptions.len());
        for (index, asked) in packet.subscriptions.iter().enumerate() {
            let refusal = if in_use {
                Some(ReasonCode::PacketIdentifierInUse)
            } else {
                match self.check_filter(asked.filter, index)? {
                    None => check_right(asked.filter, fx),
                    refused => refused,
                }
            };
            match refusal {
                None => subscriptions.push(self.subscription_of(&asked, identifier)),
                Some(_) => refused.resize(index, None),
            }
            if refusal.is_some() || !refused.is_empty() {
                refused.push(refusal);
            }
        }
        if subscriptions.is_empty() {
            let codes: SmallVec<[u8; 16]> = refused.iter().flatten().map(|c| c.byte()).collect();
            self.send_suback(packet.packet_id, &codes, fx);
            return Ok(Flow::Next);
        }
        self.request(packet_id, refused);
        let home = self.session.home;
        fx.send_home(
            home.partition,
            ToHome::Subscribe {
                session: home.session,
                epoch: self.session.epoch,
                packet_id,
                subscriptions,
            },
        );
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

    fn request(&mut self, packet_id: u16, refused: Vec<Option<ReasonCode>>) {
        self.requests
            .get_or_insert_default()
            .waiting
            .push(Request { packet_id, refused });
    }

    /// The request that the home has answered. Most clients subscribe once: with the last answer the memory for it goes back.
    fn answered(&mut self, packet_id: u16) -> Option<Request> {
        let request = self.requests.as_mut()?.take(packet_id);
        self.requests.take_if(|requests| requests.are_none());
        request
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
        packet_id: u16,
        results: &[SubscribeResult],
        fx: &mut impl FrontEffects,
    ) {
        let Some(request) = self.answered(packet_id) else {
            return;
        };
        let mut answers = results.iter().map(|&result| suback_code(result));
        let mut codes = SmallVec::<[u8; 16]>::new();
        for refused in request.refused {
            codes.extend(refused.or_else(|| answers.next()).map(ReasonCode::byte));
        }
        codes.extend(answers.map(ReasonCode::byte));
        if let Some(packet_id) = PacketId::new(packet_id) {
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
            let codes: SmallVec<[u8; 16]> = packet.filters.iter().map(|_| code).collect();
            self.send_unsuback(packet.packet_id, &codes, fx);
            return Ok(Flow::Next);
        }
        self.request(packet_id, Vec::new());
        let home = self.session.home;
        fx.send_home(
            home.partition,
            ToHome::Unsubscribe {
                session: home.session,
                epoch: self.session.epoch,
                packet_id,
                filters: packet.filters.iter().map(split_share).collect(),
            },
        );
        Ok(Flow::Next)
    }

    /// One UNSUBACK, also when nothing was deleted: v3 [MQTT-3.10.4-5], v5 [MQTT-3.10.4-5].
    pub(super) fn handle_unsubscribed(
        &mut self,
        packet_id: u16,
        existed: &[bool],
        fx: &mut impl FrontEffects,
    ) {
        let known = self.answered(packet_id);
        if let (Some(_), Some(packet_id)) = (known, PacketId::new(packet_id)) {
            let codes: SmallVec<[u8; 16]> = existed
                .iter()
                .map(|&existed| unsuback_code(existed).byte())
                .collect();
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
