//! CONNECT: checks and authentication. What follows, to CONNACK, is in `attach`.

use std::fmt::Write;

use compact_str::CompactString;
use courser_contract::{
    Asked, Attach, AttachStage, ClientHash, CloseCause, Epoch, FrontEffects, Now, Permission, QoS,
    SessionLimits, Tick, ToHome, WhyRefused, Will, is_own_topic,
};

use super::auth::{AuthExchange, AuthStep, Login, Password};
use super::close::{End, Fault};
use super::config::{Feature, FrontConfig};
use super::publish::contract_qos;
use super::{Flow, Front, Peer, Phase, PlantedFront, ProblemInformation, SessionEnds};
use crate::codec::{
    Connect, DecodeError, DecodeErrorKind, Frame, PACKET_BYTES_MAX, Packet, PacketType, Properties,
    ProtocolVersion, ReasonCode, Split,
};

/// A connection between CONNECT and CONNACK.
#[derive(Debug)]
pub(super) struct Connecting {
    pub(super) attach: Attach,
    pub(super) step: Step,
    deadline: Tick,
    exchange: Option<Box<dyn AuthExchange>>,
    pub(super) method: Option<Box<str>>,
    pub(super) auth_data: Vec<u8>,
    pub(super) told: Told,
    /// CONNACK refused, or the socket is gone: only the answer is awaited, to let go of what it gives.
    pub(super) doomed: Option<End>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// AUTH of the client.
    ClientAnswers,
    /// [`Front::handle_authenticated`].
    Verdict,
    /// The partition of the client id's slot.
    Claiming,
    /// The volatile partition of this shard, with the epoch of the claim.
    Opening(Epoch),
}

/// What CONNACK has to say because of this CONNECT.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Told {
    pub(super) assigned_client_id: bool,
    pub(super) session_expiry_seconds: Option<u32>,
    pub(super) keep_alive_seconds: Option<u16>,
    pub(super) response_information: bool,
}

impl Connecting {
    pub(super) const fn wants_read(&self) -> bool {
        matches!(self.step, Step::ClientAnswers)
    }

    pub(super) fn deadline(&self) -> Option<Tick> {
        self.doomed.is_none().then_some(self.deadline)
    }

    pub(super) fn client_id(&self) -> &str {
        &self.attach.client_id
    }
}

impl Front {
    pub(super) fn handle_connect(
        &mut self,
        now: Now,
        frame: &Frame<'_>,
        fx: &mut impl FrontEffects,
    ) {
        let connect = match Connect::decode(frame, &self.config.limits) {
            Ok(connect) => connect,
            Err(error) => {
                let text = error.kind().text();
                return self.refuse_unread((error, text), frame.body(), fx);
            }
        };
        self.peer = peer_of(&connect, &self.config);
        if let Err(fault) = self.check_connect(&connect) {
            self.session.client_id = CompactString::new(connect.client_id.as_str());
            return self.refuse_unattached(fault, fx);
        }
        self.begin_login(now, &connect, fx);
    }

    /// No packet begins here. A CONNECT that is too large has told its version nonetheless, unless that has not come yet.
    #[cold]
    pub(super) fn fail_unread(
        &mut self,
        error: DecodeError,
        data: &[u8],
        fx: &mut impl FrontEffects,
    ) {
        match (&self.phase, error.kind(), Frame::begun(data)) {
            (
                Phase::AwaitConnect,
                DecodeErrorKind::PacketTooLarge,
                Some((PacketType::Connect, body)),
            ) => self.refuse_unread((error, ""), body, fx),
            _ => self.fail(error.into(), fx),
        }
    }

    /// A CONNECT that cannot be read, of which `body` has come: CONNACK says why, where the version is known and has one for it.
    fn refuse_unread(
        &mut self,
        (error, text): (DecodeError, &str),
        body: &[u8],
        fx: &mut impl FrontEffects,
    ) {
        if let Some(version) = error.connack_version(Connect::peek_version(body)) {
            self.peer.version = version;
            if let Some(properties) = Connect::peek_properties(body) {
                self.peer.packet_bytes_max = packet_bytes_max_of(&properties);
                self.peer.problem_information = problem_information_of(&properties);
            }
            self.send_connack_refused((error.reason(), text));
        }
        let cause = CloseCause::Fault(error.reason().byte());
        self.close_unattached(cause, fx);
    }

    fn check_connect(&self, connect: &Connect<'_>) -> Result<(), Fault> {
        let Some(will) = &connect.will else {
            return Ok(());
        };
        let fault = |reason, text| Err(Fault { reason, text });
        // v5 [MQTT-3.2.2-13], v5 [MQTT-3.2.2-12]
        if will.retain && self.config.retain == Feature::Off {
            return fault(ReasonCode::RetainNotSupported, "");
        }
        // Refused here, because nobody could be told when the will is due.
        if will.retain && self.is_too_large_to_retain(will.payload.as_bytes()) {
            let text = "the will is larger than what may be retained";
            return fault(ReasonCode::QuotaExceeded, text);
        }
        if contract_qos(will.qos) > self.config.maximum_qos {
            return fault(ReasonCode::QosNotSupported, "");
        }
        if is_own_topic(will.topic.as_str()) {
            let text = "only the server publishes to the topic of the will";
            return fault(ReasonCode::NotAuthorized, text);
        }
        Ok(())
    }

    fn begin_login(&mut self, now: Now, connect: &Connect<'_>, fx: &mut impl FrontEffects) {
        let connecting = self.connecting_of(connect, fx);
        if let Some(redirect) = self.config.clone().redirect.as_ref() {
            self.phase = Phase::Connecting(Box::new(connecting));
            return self.refuse_with_redirect(redirect, fx);
        }
        let data = connect.properties.authentication_data();
        let login = Login {
            front: self.id,
            client_id: &connecting.attach.client_id,
            user_name: connect.user_name.map(|name| name.as_str()),
            password: connect.password.map(|password| Password(password.reveal())),
            method: connecting.method.as_deref(),
            data: data.map_or(&[], |data| data.reveal()),
            until: Some(connecting.deadline),
        };
        let (step, exchange) = self.config.authentication.begin(&login);
        self.phase = Phase::Connecting(Box::new(Connecting {
            exchange,
            ..connecting
        }));
        self.apply_login_step(now, step, fx);
    }

    fn connecting_of(&mut self, connect: &Connect<'_>, fx: &mut impl FrontEffects) -> Connecting {
        let properties = &connect.properties;
        let mut told = Told {
            response_information: properties.request_response_information() == Some(true),
            keep_alive_seconds: (self.peer.keep_alive_seconds != connect.keep_alive_seconds)
                .then_some(self.peer.keep_alive_seconds),
            ..Told::default()
        };
        let client_id = if connect.client_id.is_empty() {
            told.assigned_client_id = true;
            assigned_client_id(fx)
        } else {
            CompactString::new(connect.client_id.as_str())
        };
        let asked = expiry_asked(connect, &self.config);
        let expiry_seconds = asked.min(self.config.session_expiry_max_seconds);
        told.session_expiry_seconds = (expiry_seconds != asked).then_some(expiry_seconds);
        Connecting {
            attach: Attach {
                front: self.id,
                publisher: ClientHash::of(&client_id),
                client_id,
                stage: AttachStage::Claim,
                clean_start: connect.clean_start,
                expiry_seconds,
                receive_maximum: self.peer.window,
                delivery_bytes_max: self.peer.packet_bytes_max,
                will: connect.will.as_ref().map(|will| Box::new(will_of(will))),
                // The shell knows who has logged in, and what that user may use.
                owner: None,
                limits: SessionLimits::NONE,
                user_sessions_max: u32::MAX,
            },
            step: Step::Verdict,
            deadline: self
                .heard
                .after_ms(u64::from(self.config.connect_timeout_ms)),
            exchange: None,
            method: properties
                .authentication_method()
                .map(|method| method.as_str().into()),
            auth_data: Vec::new(),
            told,
            doomed: None,
        }
    }

    fn apply_login_step(&mut self, now: Now, step: AuthStep, fx: &mut impl FrontEffects) {
        let Phase::Connecting(connecting) = &mut self.phase else {
            return;
        };
        match step {
            AuthStep::Accepted(data) => {
                if let Err((fault, why)) = leave_will(&connecting.attach, fx) {
                    let cause = CloseCause::Refused(fault.reason.byte(), why);
                    return self.refuse((fault.reason, fault.text), cause, fx);
                }
                connecting.auth_data = data;
                connecting.exchange = None;
                connecting.step = Step::Claiming;
                connecting.deadline = now.tick.after_ms(u64::from(self.config.attach_timeout_ms));
                let attach = connecting.attach.clone();
                let partition = fx.home_partition(&attach.client_id);
                fx.send_home(partition, ToHome::Attach(Box::new(attach)));
            }
            AuthStep::Continue(data) => {
                connecting.step = Step::ClientAnswers;
                let method = connecting.method.clone();
                let sent = self.send_auth_step(
                    ReasonCode::ContinueAuthentication,
                    method.as_deref(),
                    &data,
                );
                if let Err(fault) = sent {
                    self.fail(fault, fx);
                }
            }
            AuthStep::Refused(reason, why) => {
                self.refuse((reason, ""), CloseCause::Refused(reason.byte(), why), fx);
            }
            AuthStep::Pending => connecting.step = Step::Verdict,
        }
    }

    /// The answer to [`AuthStep::Pending`].
    pub fn handle_authenticated(&mut self, now: Now, step: AuthStep, fx: &mut impl FrontEffects) {
        match &self.phase {
            Phase::Connecting(connecting) if connecting.step == Step::Verdict => {
                self.apply_login_step(now, step, fx);
            }
            Phase::Attached => self.apply_reauthentication_verdict(step, fx),
            Phase::Connecting(_) | Phase::AwaitConnect | Phase::Closed => {}
        }
    }

    /// Only the exchange of AUTH is read here.
    pub(super) fn handle_frame_while_connecting(
        &mut self,
        now: Now,
        frame: &Frame<'_>,
        fx: &mut impl FrontEffects,
    ) -> Result<Flow, Fault> {
        let rules = self.rules();
        let Phase::Connecting(connecting) = &mut self.phase else {
            return Ok(Flow::Next);
        };
        let step = match Packet::decode(frame, &rules)? {
            Packet::Auth(auth)
                if auth.reason == ReasonCode::ContinueAuthentication
                    && auth.properties.authentication_method().as_deref()
                        == connecting.method.as_deref() =>
            {
                let data = auth.properties.authentication_data();
                match &mut connecting.exchange {
                    Some(exchange) => exchange.answer(data.map_or(&[], |data| data.reveal())),
                    None => AuthStep::Refused(ReasonCode::UnspecifiedError, WhyRefused::ByReason),
                }
            }
            Packet::Disconnect(_) => {
                self.close_unattached(CloseCause::Disconnect, fx);
                return Ok(Flow::Next);
            }
            _ => {
                return Err(Fault::protocol(
                    "only AUTH and DISCONNECT may be sent during authentication",
                ));
            }
        };
        self.apply_login_step(now, step, fx);
        Ok(Flow::Next)
    }

    fn refuse_unattached(&mut self, fault: Fault, fx: &mut impl FrontEffects) {
        self.send_connack_refused((fault.reason, fault.text));
        let cause = CloseCause::Refused(fault.reason.byte(), WhyRefused::ByReason);
        self.close_unattached(cause, fx);
    }
}

/// The first packet is a CONNECT: v3 [MQTT-3.1.0-1], v5 [MQTT-3.1.0-1]. What begins with anything else is refused by its first byte: the letters
/// of another protocol may announce a packet whose rest never comes.
#[inline(never)]
pub(super) fn split_first(data: &[u8], packet_bytes_max: u32) -> Result<Split<'_>, DecodeError> {
    let found = Frame::split(data, packet_bytes_max)?;
    match data.first() {
        Some(&first) if PacketType::from_first_byte(first) != Some(PacketType::Connect) => {
            Err(DecodeErrorKind::WrongDirection.into())
        }
        Some(_) | None => Ok(found),
    }
}

/// Seconds for which the session is to outlive its connection, as the client says; the configured maximum is above it.
pub(super) fn expiry_asked(connect: &Connect<'_>, config: &FrontConfig) -> u32 {
    match connect.version {
        // CleanSession 0 has no end of its own in 3.1.1: it gets ours.
        ProtocolVersion::V311 if connect.clean_start => 0,
        ProtocolVersion::V311 => config.session_expiry_max_seconds,
        ProtocolVersion::V5 => connect.properties.session_expiry_interval().unwrap_or(0),
    }
}

fn peer_of(connect: &Connect<'_>, config: &FrontConfig) -> Peer {
    let properties = &connect.properties;
    let receive_maximum = properties
        .receive_maximum()
        .filter(|_| !config.is_planted(PlantedFront::WindowIgnored));
    let ends = connect.version == ProtocolVersion::V5
        && properties.session_expiry_interval().unwrap_or(0) == 0;
    Peer {
        packet_bytes_max: packet_bytes_max_of(properties),
        session_ends: if ends {
            SessionEnds::WithConnection
        } else {
            SessionEnds::Later
        },
        window: receive_maximum
            .map_or(config.window_max, |maximum| maximum.min(config.window_max))
            .get()
            .min(WINDOW_MAX),
        topic_alias_max: properties
            .topic_alias_maximum()
            .unwrap_or(0)
            .min(config.topic_alias_out_max),
        topic_alias_in_max: config.alias_load.announced(config.topic_alias_maximum),
        keep_alive_seconds: keep_alive_of(connect, config),
        version: connect.version,
        problem_information: problem_information_of(properties),
    }
}

fn packet_bytes_max_of(properties: &Properties<'_>) -> u32 {
    properties
        .maximum_packet_size()
        .map_or(PACKET_BYTES_MAX, |size| size.get())
}

fn problem_information_of(properties: &Properties<'_>) -> ProblemInformation {
    if properties.request_problem_information() == Some(false) {
        ProblemInformation::Unwanted
    } else {
        ProblemInformation::Wanted
    }
}

/// Half of the packet ids: those of a session's own stream (M30).
const WINDOW_MAX: u16 = 32_767;

/// 3.1.1 clients cannot be told another keep-alive, so they keep theirs.
fn keep_alive_of(connect: &Connect<'_>, config: &FrontConfig) -> u16 {
    let asked = connect.keep_alive_seconds;
    match (connect.version, config.keep_alive_max) {
        (ProtocolVersion::V5, Some(max)) if asked == 0 || asked > max.get() => max.get(),
        (ProtocolVersion::V5 | ProtocolVersion::V311, _) => asked,
    }
}

/// What client ids that the server assigns begin with.
const ASSIGNED_PREFIX: &str = "auto-";
const ASSIGNED_DIGITS: usize = 32;

/// Whether the server has assigned this client id, or a client took one that looks like it.
#[must_use]
pub fn is_assigned_client_id(client_id: &str) -> bool {
    assigned_bits_of(client_id).is_some()
}

/// What [`FrontEffects::assigned_bits`] gave for this client id, if the server has assigned it; also what a client made up that looks like one.
#[must_use]
pub fn assigned_bits_of(client_id: &str) -> Option<[u64; 2]> {
    let digits = client_id.strip_prefix(ASSIGNED_PREFIX)?;
    let is_digit = |digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f');
    if digits.len() != ASSIGNED_DIGITS || !digits.bytes().all(is_digit) {
        return None;
    }
    let (first, second) = digits.split_at(ASSIGNED_DIGITS / 2);
    let bits = |digits| u64::from_str_radix(digits, 16).ok();
    Some([bits(first)?, bits(second)?])
}

/// v3 [MQTT-3.1.3-6], v5 [MQTT-3.1.3-6]: 128 bits in 37 characters.
fn assigned_client_id(fx: &mut impl FrontEffects) -> CompactString {
    let mut id = CompactString::const_new(ASSIGNED_PREFIX);
    for bits in fx.assigned_bits() {
        // Writing to a string cannot fail.
        let _ = write!(id, "{bits:016x}");
    }
    id
}

fn will_of(will: &crate::codec::Will<'_>) -> Will {
    let mut properties = Vec::new();
    will.passthrough().copy_to(&mut properties);
    Will {
        topic: will.topic.as_str().into(),
        properties: properties.into(),
        payload: will.payload.as_bytes().into(),
        qos: contract_qos(will.qos),
        retain: will.retain,
        delay_seconds: will.delay_interval(),
        expiry_seconds: will.properties.message_expiry_interval(),
    }
}

/// A will is a publish that is made when nobody is there to be refused, so the right to it is asked for now, and it is paid for now.
fn leave_will(attach: &Attach, fx: &mut impl FrontEffects) -> Result<(), (Fault, WhyRefused)> {
    let Some(will) = &attach.will else {
        return Ok(());
    };
    let refuse = |reason, text, why| Err((Fault { reason, text }, why));
    if fx.may(Asked::Publish(&will.topic)) == Permission::Denied {
        let text = "the client may not publish to the topic of its will";
        return refuse(ReasonCode::NotAuthorized, text, WhyRefused::Will);
    }
    if fx.charge_will(&attach.client_id, will) == Permission::Denied {
        let text = "the client has published more than it may, and its will counts as a publish";
        return refuse(ReasonCode::QuotaExceeded, text, WhyRefused::WillRate);
    }
    Ok(())
}

/// Whether the highest QoS must be announced.
pub(super) const fn announced_qos(qos: QoS) -> Option<crate::codec::QoS> {
    match qos {
        QoS::AtMostOnce => Some(crate::codec::QoS::AtMostOnce),
        QoS::AtLeastOnce => Some(crate::codec::QoS::AtLeastOnce),
        QoS::ExactlyOnce => None,
    }
}
