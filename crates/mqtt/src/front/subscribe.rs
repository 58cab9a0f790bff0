//! SUBSCRIBE and UNSUBSCRIBE: asked of the home in parts, answered by one packet each.
//!
//! A PUBLISH behind one waits for its answer, and with it all that the client sends later: it is matched with what was subscribed before it
//! (M38). What the answer waits for is the log, the other shards and shared groups, never an acknowledgement of this client; and where one of
//! them says nothing, the PUBLISH goes on after [`PUBLISH_WAITS_MS`](super::requests::PUBLISH_WAITS_MS).

use courser_contract::{
    Asked as AskedRight, FrontEffects, Now, Permission, QoS, RequestPart, RetainHandling,
    SubscribeResult, Subscription, SubscriptionOptions, ToHome,
};
use smallvec::smallvec;

use super::close::Fault;
use super::config::Feature;
use super::publish::contract_qos;
use super::requests::{ASKED, Asked, Codes, Filters, Requests, Wants};
use super::{Flow, Front};
use crate::codec::{
    self, PacketId, ProtocolVersion, ReasonCode, Subscribe, TopicFilter, Unsubscribe,
};

/// What has gone home.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Gone {
    Nothing,
    Part,
}

impl Front {
    pub(super) fn handle_subscribe(
        &mut self,
        now: Now,
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
        for (index, asked) in packet.subscriptions.iter().enumerate() {
            let refusal = if in_use {
                Some(ReasonCode::PacketIdentifierInUse)
            } else {
                match self.check_filter(asked.filter, index)? {
                    None => self.check_right(asked.filter, fx),
                    refused => refused,
                }
            };
            codes.push(refusal.map_or(ASKED, ReasonCode::byte));
        }
        if !codes.contains(&ASKED) {
            self.send_suback(packet.packet_id, &codes, fx);
            return Ok(Flow::Next);
        }
        let filters = Filters::of_subscribe(&packet.subscriptions, identifier);
        self.request(now, (packet_id, codes), filters, fx);
        Ok(Flow::Next)
    }

    /// Whether a request with this packet id waits already. 3.1.1 has no code for it.
    fn is_requested(&self, packet_id: u16) -> Result<bool, Fault> {
        let requests = self.requests.as_ref();
        let in_use = requests.is_some_and(|requests| requests.has(packet_id));
        match self.peer.version {
            ProtocolVersion::V311 if in_use => {
                Err(Fault::protocol("the packet identifier is in use"))
            }
            ProtocolVersion::V311 | ProtocolVersion::V5 => Ok(in_use),
        }
    }

    /// Asks the home for what a packet wants, as far as there is room.
    fn request(
        &mut self,
        now: Now,
        (packet_id, codes): (u16, Codes),
        mut filters: Filters<'_>,
        fx: &mut impl FrontEffects,
    ) {
        let mut requests = self.requests.take().unwrap_or_else(|| {
            let load = &self.config.request_load;
            Box::new(Requests::new(load, now.tick))
        });
        requests.begin(packet_id, codes);
        while requests.has_room()
            && self.ask(now, &mut requests, (packet_id, &mut filters), fx) == Gone::Part
        {}
        requests.keep(packet_id, &filters);
        self.requests = Some(requests);
    }

    /// Asks for more of what has not gone home: for one part at least, or only where there is room.
    fn ask_more(&mut self, now: Now, at_least: Gone, fx: &mut impl FrontEffects) {
        let Some(mut requests) = self.requests.take() else {
            return;
        };
        requests.go_on(|requests, packet_id, filters| {
            let mut owes = at_least == Gone::Part;
            while (std::mem::take(&mut owes) || requests.has_room())
                && self.ask(now, requests, (packet_id, filters), fx) == Gone::Part
            {}
        });
        self.requests = Some(requests);
    }

    /// Sends the next part of a packet home.
    fn ask(
        &self,
        now: Now,
        requests: &mut Requests,
        (packet_id, filters): (u16, &mut Filters<'_>),
        fx: &mut impl FrontEffects,
    ) -> Gone {
        let wants = filters.wants;
        let (mut made, mut ended) = (Vec::new(), Vec::new());
        let part = requests.next_part(packet_id, filters, now.tick, |asked| match asked {
            Asked::Subscribe(asked) => made.push(self.subscription_of(&asked, wants)),
            Asked::Unsubscribe(filter) => ended.push(split_share(filter)),
        });
        let Some(part) = part else {
            return Gone::Nothing;
        };
        let (session, epoch) = (self.session.home.session, self.session.epoch);
        let message = match wants {
            Wants::Subscribe(_) => ToHome::Subscribe {
                session,
                epoch,
                part,
                subscriptions: made,
            },
            Wants::Unsubscribe => ToHome::Unsubscribe {
                session,
                epoch,
                part,
                filters: ended,
            },
        };
        fx.send_home(self.session.home.partition, message);
        Gone::Part
    }

    /// The codes of a request that the home has answered with this part. Most clients subscribe once: with the last answer the memory for it goes
    /// back.
    fn answered(
        &mut self,
        now: Now,
        part: RequestPart,
        decided: impl Iterator<Item = ReasonCode>,
        fx: &mut impl FrontEffects,
    ) -> Option<(PacketId, Codes)> {
        self.requests.as_mut()?.answered(part, decided, now.tick);
        self.ask_more(now, Gone::Nothing, fx);
        let codes = self.requests.as_mut()?.finish(part.packet_id)?;
        self.requests.take_if(|requests| requests.are_none());
        Some((PacketId::new(part.packet_id)?, codes))
    }

    /// Requests have waited long enough for what does not answer.
    pub(super) fn handle_request_timeout(&mut self, now: Now, fx: &mut impl FrontEffects) {
        let requests = self.requests.as_mut();
        if requests.is_some_and(|requests| requests.handle_timeout(now.tick)) {
            self.ask_more(now, Gone::Part, fx);
        }
    }

    /// Bytes that are held of SUBSCRIBE and UNSUBSCRIBE packets without an answer.
    #[must_use]
    pub fn request_bytes(&self) -> usize {
        let requests = self.requests.as_ref();
        requests.map_or(0, |requests| requests.held_bytes())
    }

    /// Whether one of them is not wholly asked for: the client asks for more than its home does.
    #[must_use]
    pub fn has_unsent_requests(&self) -> bool {
        let requests = self.requests.as_ref();
        requests.is_some_and(|requests| requests.has_unsent())
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
    fn subscription_of(&self, asked: &codec::Subscription<'_>, wants: Wants) -> Subscription {
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
            identifier: match wants {
                Wants::Subscribe(identifier) => identifier,
                Wants::Unsubscribe => None,
            },
        }
    }

    /// The home has answered: one SUBACK, codes in the order of the filters, v3 [MQTT-3.9.3-1], v5 [MQTT-3.9.3-1].
    pub(super) fn handle_subscribed(
        &mut self,
        now: Now,
        part: RequestPart,
        results: &[SubscribeResult],
        fx: &mut impl FrontEffects,
    ) {
        let decided = results.iter().map(|&result| suback_code(result));
        if let Some((packet_id, codes)) = self.answered(now, part, decided, fx) {
            self.send_suback(packet_id, &codes, fx);
        }
    }

    /// A filter that the client has no right to gets a code of its own (v5 section 3.9.3), and the others are served.
    fn check_right(
        &self,
        filter: TopicFilter<'_>,
        fx: &mut impl FrontEffects,
    ) -> Option<ReasonCode> {
        let asked = match filter.shared() {
            Some(shared) => AskedRight::SubscribeShared(shared.filter),
            None => AskedRight::Subscribe(filter.as_str()),
        };
        match fx.may(asked) {
            Permission::Granted => None,
            Permission::Denied => {
                fx.denied(self.client_id(), asked);
                Some(ReasonCode::NotAuthorized)
            }
        }
    }

    fn send_suback(&mut self, packet_id: PacketId, codes: &[u8], fx: &mut impl FrontEffects) {
        if !self.send_suback_codes(packet_id, codes) {
            self.fail(ANSWER_TOO_LARGE, fx);
        }
    }

    pub(super) fn handle_unsubscribe(
        &mut self,
        now: Now,
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
        // Nobody has as many subscriptions: v5 section 3.11.3 has no reason code for it.
        let count = packet.filters.len();
        if count > self.config.unsubscribe_filters_max as usize {
            return Err(Fault {
                reason: ReasonCode::QuotaExceeded,
                text: "UNSUBSCRIBE has more filters than a session may have",
            });
        }
        let filters = Filters::of_unsubscribe(&packet.filters);
        self.request(now, (packet_id, smallvec![ASKED; count]), filters, fx);
        Ok(Flow::Next)
    }

    /// One UNSUBACK, also when nothing was deleted: v3 [MQTT-3.10.4-5], v5 [MQTT-3.10.4-5].
    pub(super) fn handle_unsubscribed(
        &mut self,
        now: Now,
        part: RequestPart,
        existed: &[bool],
        fx: &mut impl FrontEffects,
    ) {
        let decided = existed.iter().map(|&existed| unsuback_code(existed));
        if let Some((packet_id, codes)) = self.answered(now, part, decided, fx) {
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
