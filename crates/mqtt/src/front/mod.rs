//! The half of a session at the socket: a state machine without I/O, one for both protocol versions.
//!
//! Bytes, messages of homes and moments come in by `handle_*` and [`Front::deliver`]; effects leave by
//! [`FrontEffects`]; bytes for the socket gather in [`Front::output`]. States, in order: waiting for CONNECT, authenticating,
//! attaching, attached, closed.
//!
//! The shell's duties:
//! - it calls [`Front::handle_bytes`] while [`Front::wants_read`], gives the bytes that were not consumed again in front of new ones,
//!   and calls [`Front::handle_read_end`] after each read; when a message or a settled ticket makes `wants_read` true again, it gives
//!   the bytes that waited;
//! - after each turn it looks at [`Front::poll_timeout`] of the fronts that it touched and arms a timer when that is earlier than the
//!   armed one; a timer that fires early costs nothing but the call;
//! - after a write that leaves less than [`Output::LOW_BYTES`], it calls [`Front::handle_output_room`];
//! - before a [`ToFront::TakenOver`] it calls [`Front::handle_last_read`], and gives what waited;
//! - it keeps a front, also one whose socket is gone, until the front calls [`FrontEffects::close`]: while the session is being
//!   attached the front must hear the answer, so that it can let go of what it was given;
//! - effects are called within `deliver`, which a partition may call: messages to partitions are queued, not handled in the call; and
//!   a publish may come back to the front that handles it: a delivery to that front waits until `handle_bytes` has returned;
//! - it fills `open` of [`ToHome::Detach`](courser_contract::ToHome::Detach) and
//!   [`ToHome::Unclaim`](courser_contract::ToHome::Unclaim), which the front leaves empty: the shell numbers appends (M25).
//!
//! An idle front holds no buffer; what only some connections need is boxed and given back when it was idle for a keep-alive.

mod acks;
mod alias;
mod attach;
mod auth;
mod close;
mod config;
mod connack;
mod connect;
mod deliver;
mod glimpse;
mod groups;
mod keepalive;
mod limited;
mod output;
mod planted;
mod prepared;
mod publish;
mod publish_qos2;
mod reasons;
mod received;
mod redirect;
mod requests;
mod run;
mod settle;
mod subscribe;
mod tickets;
mod window;

#[cfg(test)]
mod tests;

use std::rc::Rc;

use compact_str::CompactString;
use courser_contract::{
    ClientHash, Epoch, FrontEffects, FrontId, HomeRef, Now, PartitionId, SessionUid, Tick, ToFront,
    Uptake,
};

use self::auth::ReAuthentication;
use self::close::Fault;
use self::connect::{Connecting, split_first};
use self::deliver::Outbound;
use self::publish::Inbound;
use self::requests::Requests;
use crate::codec::{
    Auth, DecodeError, Disconnect, EncodeError, Frame, PACKET_BYTES_MAX, Packet, PacketType,
    ProtocolVersion, Puback, Pubcomp, Pubrec, Pubrel, ReasonCode, Receiver, Rules, Sender, Split,
};

pub use alias::{AliasLoad, AliasRoom};
pub use auth::{Anonymous, AuthExchange, AuthStep, Authentication, Login, Password};
pub use close::Revocation;
pub use config::{Feature, FrontConfig};
pub use connect::{assigned_bits_of, is_assigned_client_id};
pub use glimpse::{Glimpse, SessionSpan};
pub use output::{Output, OutputPool, Socket};
pub use planted::PlantedFront;
pub use prepared::{
    BLOCKED_SHARED_PAYLOAD_BYTES_MIN, Prepared, PreparedScratch, SHARED_PAYLOAD_BYTES_MIN,
};
pub use received::{PacketNumbers, PacketsReceived};
pub use redirect::{BadReference, Redirect, RedirectKind};
pub use requests::RequestLoad;
pub use run::{Packed, Run, RunBlocks};

/// Whether the shell reads the socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// It reads.
    On,
    /// It does not, for want of credit or memory: the keep-alive stands still (M49).
    Paused,
}

/// The front of one connection. See the module's text.
#[derive(Debug)]
pub struct Front {
    config: Rc<FrontConfig>,
    output: Output,
    phase: Phase,
    /// When the client was last heard; before CONNECT, when the socket was accepted.
    heard: Tick,
    /// How much of the packet that has not ended was there then.
    heard_bytes: u32,
    session: Session,
    id: FrontId,
    peer: Peer,
    reading: Reading,
    inbound: Option<Box<Inbound>>,
    outbound: Option<Box<Outbound>>,
    requests: Option<Box<Requests>>,
    reauthentication: Option<Box<ReAuthentication>>,
}

#[derive(Debug)]
enum Phase {
    AwaitConnect,
    Connecting(Box<Connecting>),
    Attached,
    Closed,
}

/// Which session this is, once it is attached.
#[derive(Debug)]
struct Session {
    client_id: CompactString,
    /// What its messages carry of it.
    publisher: ClientHash,
    home: HomeRef,
    epoch: Epoch,
    /// Where packet ids of groups begin on this connection.
    group_ids_from: u16,
    claim: Claim,
    /// Its home waits to hear that the client has taken what it was sent of retained messages.
    owes_page: bool,
    /// What its home was told last.
    uptake: Uptake,
}

impl Session {
    /// Whether it may outlive its connection: its home has it under its client id, and keeps what QoS 2 needs (M28, M29).
    fn is_kept(&self) -> bool {
        self.claim == Claim::ByHome
    }
}

/// Who must be told when the session ends (M23).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Claim {
    /// The home only: it is the partition of the client id's slot.
    ByHome,
    /// Also the partition that gave the claim: the session is in the volatile partition of this shard.
    Apart,
}

/// What the client said of itself in CONNECT.
#[derive(Clone, Copy, Debug)]
struct Peer {
    packet_bytes_max: u32,
    /// The client's Session Expiry Interval was 0: it may not be raised later (v5 section 3.14.2.2.2).
    session_ends: SessionEnds,
    /// Lower of the client's Receive Maximum and our own bound.
    window: u16,
    /// Lower of the client's maximum and our own bound.
    topic_alias_max: u16,
    /// What the client was told that it may use.
    topic_alias_in_max: u16,
    /// 0: none.
    keep_alive_seconds: u16,
    version: ProtocolVersion,
    problem_information: ProblemInformation,
}

/// When a session ends by what its client asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SessionEnds {
    WithConnection,
    Later,
}

/// Whether the client wants Reason Strings: v5 [MQTT-3.1.2-29].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ProblemInformation {
    Wanted,
    Unwanted,
}

/// What to do after a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flow {
    /// Go on with the next one.
    Next,
    /// It was not taken: give it again when the front wants to read again.
    Wait,
}

/// So much more of a packet that has not ended counts as life: one large packet may take longer than the keep-alive, and no PINGREQ
/// can pass it. Less does not, or a byte now and then would hold a connection for as long as a packet can be made to last.
const PROGRESS_BYTES: usize = 1000;

impl Front {
    /// A front for a socket that was just accepted.
    #[must_use]
    pub fn new(id: FrontId, config: Rc<FrontConfig>, now: Now) -> Self {
        Self {
            output: Output::new(config.output_pool.clone()),
            config,
            phase: Phase::AwaitConnect,
            heard: now.tick,
            heard_bytes: 0,
            session: Session {
                client_id: CompactString::default(),
                publisher: ClientHash::default(),
                home: HomeRef {
                    partition: PartitionId::METADATA,
                    session: SessionUid(0),
                },
                epoch: Epoch(0),
                group_ids_from: 0,
                claim: Claim::ByHome,
                owes_page: false,
                uptake: Uptake::Prompt,
            },
            id,
            peer: Peer {
                packet_bytes_max: PACKET_BYTES_MAX,
                session_ends: SessionEnds::WithConnection,
                window: 1,
                topic_alias_max: 0,
                topic_alias_in_max: 0,
                keep_alive_seconds: 0,
                version: ProtocolVersion::V311,
                problem_information: ProblemInformation::Wanted,
            },
            reading: Reading::On,
            inbound: None,
            outbound: None,
            requests: None,
            reauthentication: None,
        }
    }

    /// Handles all whole packets in `data` and says how many bytes they took. It stops early when the connection is closed, then the
    /// rest is of no use, or when later packets must wait; [`Front::wants_read`] is false then. It also stops behind the packet with which
    /// the turn's work is done ([`FrontEffects::is_spent`]): what is left is given to it again.
    pub fn handle_bytes(&mut self, now: Now, data: &[u8], fx: &mut impl FrontEffects) -> usize {
        let mut consumed = 0;
        let mut heard = false;
        let mut packets = 0;
        let mut unfinished = 0;
        while self.wants_read() {
            match self.split(&data[consumed..]) {
                Ok(Split::Whole(frame)) => match self.handle_frame(now, &frame, fx) {
                    Ok(Flow::Next) => {
                        heard = true;
                        packets += self.count(&frame);
                        consumed += frame.len();
                        if fx.is_spent() {
                            break;
                        }
                    }
                    Ok(Flow::Wait) => break,
                    Err(fault) => {
                        packets += self.count(&frame);
                        consumed += frame.len();
                        self.fail(fault, fx);
                    }
                },
                Ok(Split::Need(_)) => {
                    unfinished = data.len() - consumed;
                    heard |= unfinished >= self.heard_bytes as usize + PROGRESS_BYTES;
                    break;
                }
                Err(error) => self.fail_unread(error, &data[consumed..], fx),
            }
        }
        if heard && !matches!(self.phase, Phase::AwaitConnect) {
            self.heard = now.tick;
            // Below the largest packet, which is below 2^28.
            self.heard_bytes = unfinished as u32;
        }
        self.config.packets_received.add(self.peer.version, packets);
        consumed
    }

    /// One packet, and what it is if it is no PUBLISH.
    #[inline]
    fn count(&self, frame: &Frame<'_>) -> u64 {
        let packet = frame.packet_type();
        if packet != PacketType::Publish {
            self.config
                .packets_received
                .add_other(self.peer.version, packet);
        }
        1
    }

    /// After the last `handle_bytes` of a read: coalesced outcomes leave, and what waited for room in the window.
    pub fn handle_read_end(&mut self, now: Now, fx: &mut impl FrontEffects) {
        if self.outbound.is_some() {
            self.flush_outcomes(fx);
            self.send_held(now, fx);
        }
    }

    /// The next packet of what there is.
    #[inline]
    fn split<'a>(&self, data: &'a [u8]) -> Result<Split<'a>, DecodeError> {
        match self.phase {
            Phase::AwaitConnect => split_first(data, self.config.connect_bytes_max),
            // Nobody has logged in yet: what is read now is AUTH of the exchange, or wrong.
            Phase::Connecting(_) => Frame::split(data, self.config.connect_bytes_max),
            Phase::Attached | Phase::Closed => {
                Frame::split(data, self.config.limits.packet_bytes_max)
            }
        }
    }

    fn rules(&self) -> Rules {
        Rules {
            version: self.peer.version,
            sender: Sender::Client,
            limits: self.config.limits,
        }
    }

    #[inline]
    fn handle_frame(
        &mut self,
        now: Now,
        frame: &Frame<'_>,
        fx: &mut impl FrontEffects,
    ) -> Result<Flow, Fault> {
        match self.phase {
            Phase::Attached => self.handle_attached_frame(now, frame, fx),
            Phase::AwaitConnect => {
                self.handle_connect(now, frame, fx);
                Ok(Flow::Next)
            }
            Phase::Connecting(_) => self.handle_frame_while_connecting(now, frame, fx),
            Phase::Closed => Ok(Flow::Next),
        }
    }

    #[inline]
    fn handle_attached_frame(
        &mut self,
        now: Now,
        frame: &Frame<'_>,
        fx: &mut impl FrontEffects,
    ) -> Result<Flow, Fault> {
        match frame.packet_type() {
            PacketType::Publish => return self.handle_publish(now, frame, fx),
            PacketType::Puback => {
                let ack = Puback::read(frame, &self.rules())?;
                self.handle_puback(ack.packet_id.get(), ack.reason, fx);
            }
            PacketType::Pubrec => {
                let ack = Pubrec::read(frame, &self.rules())?;
                self.handle_pubrec(ack.packet_id.get(), ack.reason, fx);
            }
            PacketType::Pubrel => {
                let ack = Pubrel::read(frame, &self.rules())?;
                self.handle_pubrel(ack.packet_id.get(), fx)?;
            }
            PacketType::Pubcomp => {
                let ack = Pubcomp::read(frame, &self.rules())?;
                self.handle_pubcomp(ack.packet_id.get(), fx);
            }
            // A second one is a fault whatever it says: v3 [MQTT-3.1.0-2], v5 [MQTT-3.1.0-2].
            PacketType::Connect => {
                return Err(Fault::protocol("CONNECT was sent a second time"));
            }
            PacketType::Connack
            | PacketType::Subscribe
            | PacketType::Suback
            | PacketType::Unsubscribe
            | PacketType::Unsuback
            | PacketType::Pingreq
            | PacketType::Pingresp
            | PacketType::Disconnect
            | PacketType::Auth => return self.handle_control_frame(now, frame, fx),
        }
        Ok(Flow::Next)
    }

    #[inline(never)]
    fn handle_control_frame(
        &mut self,
        now: Now,
        frame: &Frame<'_>,
        fx: &mut impl FrontEffects,
    ) -> Result<Flow, Fault> {
        match Packet::decode(frame, &self.rules())? {
            Packet::Subscribe(subscribe) => self.handle_subscribe(now, &subscribe, fx),
            Packet::Unsubscribe(unsubscribe) => self.handle_unsubscribe(now, &unsubscribe, fx),
            Packet::Pingreq(_) => {
                self.output.buffer(2).extend_from_slice(&PINGRESP);
                Ok(Flow::Next)
            }
            Packet::Disconnect(disconnect) => self.handle_disconnect(&disconnect, fx),
            Packet::Auth(auth) => self.handle_reauthentication(now, &auth, fx),
            Packet::Connect(_)
            | Packet::Connack(_)
            | Packet::Publish(_)
            | Packet::Puback(_)
            | Packet::Pubrec(_)
            | Packet::Pubrel(_)
            | Packet::Pubcomp(_)
            | Packet::Suback(_)
            | Packet::Unsuback(_)
            | Packet::Pingresp(_) => Err(Fault::protocol("this packet may not be sent here")),
        }
    }

    /// A message of a partition.
    pub fn handle_message(&mut self, now: Now, message: ToFront, fx: &mut impl FrontEffects) {
        match self.phase {
            Phase::Connecting(_) => self.handle_message_while_connecting(now, message, fx),
            Phase::Attached => self.handle_message_attached(now, message, fx),
            Phase::AwaitConnect | Phase::Closed => {}
        }
    }

    fn handle_message_attached(&mut self, now: Now, message: ToFront, fx: &mut impl FrontEffects) {
        match message {
            ToFront::TakenOver => self.close_taken_over(fx),
            ToFront::Closed(reason) => self.close_for(reason, fx),
            ToFront::Subscribed { part, results } => {
                self.handle_subscribed(now, part, &results, fx);
            }
            ToFront::Unsubscribed { part, existed } => {
                self.handle_unsubscribed(now, part, &existed, fx);
            }
            ToFront::Received {
                packet_id,
                result,
                matched,
            } => self.handle_received(now, packet_id, (result, matched)),
            ToFront::Released { packet_id, existed } => self.handle_released(packet_id, existed),
            ToFront::Release {
                source,
                seq,
                packet_id,
            } => self.handle_release((source, seq), packet_id, fx),
            ToFront::Name { group, seq } => self.handle_name(now, (group, seq), fx),
            ToFront::Withheld {
                group,
                seq,
                packet_id,
            } => self.handle_withheld((group, seq), packet_id, fx),
            ToFront::Owed { group, name } => self.handle_owed(now, (group, name), fx),
            ToFront::NothingOwed { name } => self.handle_nothing_owed(now, name, fx),
            ToFront::Void { group, seq } => self.handle_void(now, (group, seq), fx),
            ToFront::Finished { group, seq } => self.handle_finished(now, (group, seq), fx),
            ToFront::RetainedPage => self.handle_retained_page(fx),
            // Answers of an attach that is long over.
            ToFront::Attached(_) | ToFront::Claimed { .. } | ToFront::ConnectRefused(_) => {}
        }
    }

    /// Whether bytes may be given to `handle_bytes`.
    #[must_use]
    #[inline]
    pub fn wants_read(&self) -> bool {
        match &self.phase {
            Phase::Attached => !self.is_blocked(),
            Phase::AwaitConnect => true,
            Phase::Connecting(connecting) => connecting.wants_read(),
            Phase::Closed => false,
        }
    }

    /// Answers that a client does not read may not fill the memory: QoS 0 stops at the bound itself, so only they get here.
    #[inline]
    fn is_blocked(&self) -> bool {
        self.output.len() >= self.config.output_bytes_max.saturating_mul(2)
            || self
                .inbound
                .as_ref()
                .is_some_and(|inbound| inbound.is_blocked())
            || self
                .requests
                .as_ref()
                .is_some_and(|requests| requests.is_blocked())
    }

    /// Bytes for the socket.
    pub fn output(&mut self) -> &mut Output {
        &mut self.output
    }

    /// The version that CONNECT fixed; `None` before.
    #[must_use]
    pub fn version(&self) -> Option<ProtocolVersion> {
        match self.phase {
            Phase::AwaitConnect => None,
            Phase::Connecting(_) | Phase::Attached | Phase::Closed => Some(self.peer.version),
        }
    }

    /// The client id, also of a client that was refused; empty before a CONNECT that can be read.
    #[must_use]
    pub fn client_id(&self) -> &str {
        match &self.phase {
            Phase::Connecting(connecting) => connecting.client_id(),
            Phase::AwaitConnect | Phase::Attached | Phase::Closed => &self.session.client_id,
        }
    }

    /// Keep-alive that holds for this connection; 0: none.
    #[must_use]
    pub const fn keep_alive_seconds(&self) -> u16 {
        self.peer.keep_alive_seconds
    }

    /// The session; `None` unless it is attached.
    #[must_use]
    pub fn home(&self) -> Option<HomeRef> {
        matches!(self.phase, Phase::Attached).then_some(self.session.home)
    }

    /// Appends a packet, or says why it cannot be sent to this client.
    fn send(&mut self, packet: &Packet<'_>) -> Result<(), EncodeError> {
        let receiver =
            Receiver::new(self.peer.version).with_packet_bytes_max(self.peer.packet_bytes_max);
        let len = packet.encoded_len(&receiver)?;
        packet.encode(&receiver, self.output.buffer(len))?;
        Ok(())
    }

    fn send_disconnect(&mut self, disconnect: Disconnect<'_>) {
        if self.peer.version == ProtocolVersion::V5 {
            // One that is too large for the client is not sent: the connection closes all the same, v5 [MQTT-4.13.2-1].
            let _ = self.send(&Packet::Disconnect(disconnect));
        }
    }

    fn send_auth(&mut self, auth: Auth<'_>) -> Result<(), Fault> {
        self.send(&Packet::Auth(auth)).map_err(|_| Fault {
            reason: ReasonCode::PacketTooLarge,
            text: "an AUTH is larger than the client takes",
        })
    }

    #[cfg(test)]
    fn check(&self) {
        self.output.check();
        if let Some(outbound) = &self.outbound {
            outbound.check();
        }
        if let Some(requests) = &self.requests {
            requests.check();
        }
    }
}

const PINGRESP: [u8; 2] = [0xD0, 0];
