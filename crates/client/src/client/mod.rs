//! A blocking client for one connection: what a command line needs.

mod again;
mod link;
mod publish;
mod wire;

use std::collections::{HashSet, VecDeque};
use std::io;
use std::time::{Duration, Instant};

use courser_mqtt::codec::{
    Delivery, Disconnect, Frame, Limits, Packet, PacketId, Pingreq, ProtocolVersion, Puback,
    Pubcomp, Publish, Pubrec, QoS, ReasonCode, Receiver, Rules, Split,
};
use courser_transport::Tunnel;

use crate::error::Asked;
use crate::socket::Socket;
use crate::{ClientError, Filter, Meaning, Message, Options, VersionChoice, packets};
pub use again::SessionState;
pub(crate) use link::Link;
pub use link::Stopper;
use publish::UnderWay;
use wire::{Attempt, in_words, is_timeout, refused};

/// Bytes asked of the socket at a time.
const READ_BYTES: usize = 64 * 1024;
/// CONNACK of a broker that has 3.1.1 alone to a CONNECT of 5.0: code 1, v3 [MQTT-3.1.2-2]. One of 5.0 is never so short.
const UNACCEPTABLE_VERSION: [u8; 4] = [0x20, 2, 0, 1];

/// One connection.
///
/// QoS 1 and 2 messages are acknowledged when [`Client::next`] gives them out. A topic alias is never announced, so none arrives.
#[derive(Debug)]
pub struct Client {
    link: Link,
    rules: Rules,
    receiver: Receiver,
    keep_alive: Option<Duration>,
    receive_maximum: u16,
    session: SessionState,
    /// Given by the broker to a client without one.
    assigned_client_id: Option<String>,
    last_sent: Instant,
    /// When a PINGREQ was sent after which nothing has come.
    pinged: Option<Instant>,
    input: Vec<u8>,
    /// Acknowledgements that leave together once all input is handled.
    acknowledgements: Vec<u8>,
    arrived: VecDeque<Message>,
    /// QoS 2 packet ids between PUBLISH and PUBREL.
    held: HashSet<u16>,
    next_packet_id: u16,
    under_way: Option<UnderWay>,
    answer: Option<Answer>,
    /// Why there is nothing more to come behind what has arrived.
    failure: Option<ClientError>,
    /// Nobody hears what is said.
    is_lost: bool,
}

/// What a call waits for; filled in by whoever reads packets.
#[derive(Debug)]
enum Answer {
    Connack {
        reason: ReasonCode,
        text: String,
        session: SessionState,
        assigned_client_id: Option<String>,
        packet_bytes_max: Option<u32>,
        keep_alive: Option<u16>,
        receive_maximum: Option<u16>,
    },
    Puback {
        packet_id: u16,
        reason: ReasonCode,
    },
    Pubrec {
        packet_id: u16,
        reason: ReasonCode,
    },
    Pubcomp {
        packet_id: u16,
        reason: ReasonCode,
    },
    Suback {
        packet_id: u16,
        codes: Vec<ReasonCode>,
    },
    Unsuback {
        packet_id: u16,
    },
}

impl Client {
    /// Connects and waits for CONNACK.
    ///
    /// # Errors
    /// When there is no broker, when it refuses, or when the options cannot be said in MQTT.
    pub fn connect(options: &Options) -> Result<Self, ClientError> {
        match options.version {
            VersionChoice::V5 => Self::connect_as(options, ProtocolVersion::V5),
            VersionChoice::V311 => Self::connect_as(options, ProtocolVersion::V311),
            VersionChoice::Auto => match Self::connect_as(options, ProtocolVersion::V5) {
                Err(Attempt::Version | Attempt::Other(ClientError::Ended { .. })) => {
                    Self::connect_as(options, ProtocolVersion::V311)
                }
                other => other,
            },
        }
        .map_err(Attempt::into_error)
    }

    fn connect_as(options: &Options, version: ProtocolVersion) -> Result<Self, Attempt> {
        let mut client = Self {
            link: Link::open(options)?,
            rules: Rules::from_server(version).with_limits(Limits::STANDARD),
            receiver: Receiver::new(version),
            keep_alive: None,
            receive_maximum: u16::MAX,
            session: SessionState::New,
            assigned_client_id: None,
            last_sent: Instant::now(),
            pinged: None,
            input: Vec::new(),
            acknowledgements: Vec::new(),
            arrived: VecDeque::new(),
            held: HashSet::new(),
            next_packet_id: 0,
            under_way: None,
            answer: None,
            failure: None,
            is_lost: false,
        };
        let mut out = Vec::new();
        packets::connect(options, version, &mut out)?;
        client.send(&out)?;
        let answered = client.wait(|answer| matches!(answer, Answer::Connack { .. }));
        if answered.is_err()
            && version == ProtocolVersion::V5
            && client.input.starts_with(&UNACCEPTABLE_VERSION)
        {
            return Err(Attempt::Version);
        }
        let answer = answered.map_err(|error| client.link.not_connected(error, &client.input))?;
        let Answer::Connack {
            reason,
            text,
            session,
            assigned_client_id,
            packet_bytes_max,
            keep_alive,
            receive_maximum,
        } = answer
        else {
            return Err(Attempt::Other(client.link.timed_out()));
        };
        if reason == ReasonCode::UnsupportedProtocolVersion {
            return Err(Attempt::Version);
        }
        if reason != ReasonCode::Success {
            return Err(refused(Asked::Connection, reason, &text).into());
        }
        if let Some(bytes) = packet_bytes_max {
            client.receiver = client.receiver.with_packet_bytes_max(bytes);
        }
        client.session = session;
        client.assigned_client_id = assigned_client_id;
        client.receive_maximum = receive_maximum.unwrap_or(u16::MAX);
        let seconds = keep_alive.unwrap_or(options.keep_alive);
        client.keep_alive = (seconds > 0).then(|| Duration::from_secs(seconds.into()));
        Ok(client)
    }

    /// Version in use.
    #[must_use]
    pub const fn version(&self) -> ProtocolVersion {
        self.rules.version
    }

    /// How long the broker may take for an answer.
    pub(crate) const fn answer_max(&self) -> Duration {
        self.link.answer_max()
    }

    /// That it took longer.
    pub(crate) fn timed_out(&self) -> ClientError {
        self.link.timed_out()
    }

    /// Messages of QoS > 0 that the broker takes without having acknowledged them.
    #[must_use]
    pub const fn receive_maximum(&self) -> u16 {
        self.receive_maximum
    }

    /// Subscribes and waits for the answer.
    ///
    /// # Errors
    /// When a filter is not allowed in MQTT or the broker refuses one.
    pub fn subscribe(
        &mut self,
        filters: &[Filter],
        identifier: Option<u32>,
    ) -> Result<(), ClientError> {
        let packet_id = self.packet_id();
        let id = packet_id.get();
        let mut out = Vec::new();
        packets::subscribe(filters, identifier, packet_id, &self.receiver, &mut out)?;
        self.send(&out)?;
        match self
            .wait(|answer| matches!(answer, Answer::Suback { packet_id, .. } if *packet_id == id))?
        {
            Answer::Suback { codes, .. } => match codes.into_iter().find(|code| code.is_error()) {
                Some(code) => Err(refused(Asked::Subscription, code, "")),
                None => Ok(()),
            },
            _ => Err(self.link.timed_out()),
        }
    }

    /// Unsubscribes and waits for the answer.
    ///
    /// # Errors
    /// When a filter is not allowed in MQTT or the connection fails.
    pub fn unsubscribe(&mut self, filters: &[String]) -> Result<(), ClientError> {
        let packet_id = self.packet_id();
        let id = packet_id.get();
        let mut out = Vec::new();
        packets::unsubscribe(filters, packet_id, &self.receiver, &mut out)?;
        self.send(&out)?;
        self.wait(|answer| matches!(answer, Answer::Unsuback { packet_id } if *packet_id == id))?;
        Ok(())
    }

    /// The next message; `None` when `deadline` passes first. Keeps the connection alive while it waits.
    ///
    /// # Errors
    /// When the broker says good-bye or the connection fails.
    pub fn next(&mut self, deadline: Option<Instant>) -> Result<Option<Message>, ClientError> {
        loop {
            if let Some(message) = self.arrived.pop_front() {
                self.acknowledge_message(&message)?;
                return Ok(Some(message));
            }
            if let Some(failure) = self.failure.take() {
                return Err(failure);
            }
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                return Ok(None);
            }
            // What came before the end has come.
            self.failure = self.read_until(deadline).err();
            self.is_lost |= self.failure.is_some();
        }
    }

    /// Looks what has come while there is nothing to send, and keeps the connection alive. To be called more often than once in an eighth of
    /// the keep-alive time.
    ///
    /// # Errors
    /// As [`Client::next`].
    pub fn look(&mut self) -> Result<(), ClientError> {
        self.read_until(Some(Instant::now()))
    }

    /// What ends a wait of this client from another thread.
    ///
    /// # Errors
    /// When the system has no descriptor left.
    pub fn stopper(&self) -> Result<Stopper, ClientError> {
        self.link.stopper().map_err(ClientError::Io)
    }

    /// Says good-bye and closes. After [`Client::next`] has failed there is nobody to say it to.
    ///
    /// # Errors
    /// When that cannot be sent.
    pub fn disconnect(mut self) -> Result<(), ClientError> {
        if self.is_lost {
            return Ok(());
        }
        self.send_acknowledgements()?;
        self.send_packet(&Packet::Disconnect(Disconnect::new(
            ReasonCode::NORMAL_DISCONNECTION,
        )))?;
        self.link.close();
        Ok(())
    }

    /// The socket with its layers, for a caller that goes on by itself, and what has been read from it but not handled.
    pub(crate) fn into_parts(self) -> (Socket, Option<Box<Tunnel>>, Vec<u8>) {
        let (stream, tunnel) = self.link.into_parts();
        (stream, tunnel, self.input)
    }

    fn packet_id(&mut self) -> PacketId {
        self.next_packet_id = self.next_packet_id.checked_add(1).unwrap_or(1);
        PacketId::new(self.next_packet_id).unwrap_or(PacketId::MIN)
    }

    fn send(&mut self, bytes: &[u8]) -> Result<(), ClientError> {
        self.last_sent = Instant::now();
        self.link.send(bytes)
    }

    fn send_packet(&mut self, packet: &Packet<'_>) -> Result<(), ClientError> {
        let mut out = Vec::new();
        packet.encode(&self.receiver, &mut out)?;
        self.send(&out)
    }

    /// A message is acknowledged when its user has it, not when it arrives: one that is not asked for any more comes again.
    fn acknowledge_message(&mut self, message: &Message) -> Result<(), ClientError> {
        let Some(packet_id) = message.packet_id.and_then(PacketId::new) else {
            return Ok(());
        };
        match message.qos {
            QoS::AtMostOnce => Ok(()),
            QoS::AtLeastOnce => self.acknowledge(&Packet::Puback(Puback::new(packet_id))),
            QoS::ExactlyOnce => self.acknowledge(&Packet::Pubrec(Pubrec::new(packet_id))),
        }
    }

    fn acknowledge(&mut self, packet: &Packet<'_>) -> Result<(), ClientError> {
        packet.encode(&self.receiver, &mut self.acknowledgements)?;
        Ok(())
    }

    fn send_acknowledgements(&mut self) -> Result<(), ClientError> {
        if self.acknowledgements.is_empty() {
            return Ok(());
        }
        let mut bytes = std::mem::take(&mut self.acknowledgements);
        self.send(&bytes)?;
        bytes.clear();
        self.acknowledgements = bytes;
        Ok(())
    }

    fn wait(&mut self, is_it: impl Fn(&Answer) -> bool) -> Result<Answer, ClientError> {
        let deadline = Instant::now() + self.answer_max();
        loop {
            if let Some(answer) = self.answer.take_if(|answer| is_it(answer)) {
                return Ok(answer);
            }
            if Instant::now() >= deadline {
                return Err(self.link.timed_out());
            }
            self.read_until(Some(deadline))?;
        }
    }

    /// Handles what is there; else waits for bytes, for the deadline or for the time to send PINGREQ.
    fn read_until(&mut self, deadline: Option<Instant>) -> Result<(), ClientError> {
        let arrived = self.arrived.len();
        self.handle_input()?;
        self.send_acknowledgements()?;
        if self.answer.is_some() || self.arrived.len() > arrived {
            return Ok(());
        }
        let ping_at = self
            .keep_alive
            .map(|interval| self.last_sent + interval.mul_f32(0.75));
        let pong_max = self.keep_alive.map_or(self.answer_max(), |interval| {
            interval.min(self.answer_max())
        });
        let lost_at = self.pinged.map(|at| at + pong_max);
        let wake_at = [deadline, ping_at, lost_at].into_iter().flatten().min();
        let timeout = wake_at.map(|at| {
            at.saturating_duration_since(Instant::now())
                .max(Duration::from_millis(1))
        });
        self.link
            .set_read_timeout(timeout)
            .map_err(ClientError::Io)?;
        let old = self.input.len();
        self.input.resize(old + READ_BYTES, 0);
        let read = self.link.read(&mut self.input[old..]);
        self.input.truncate(old + *read.as_ref().unwrap_or(&0));
        match read {
            Ok(0) => return Err(ClientError::Closed),
            Ok(_) => self.pinged = None,
            // v5 section 3.1.2.10: a client closes when no PINGRESP comes within a reasonable time.
            Err(error) if is_timeout(&error) => {
                if lost_at.is_some_and(|at| Instant::now() >= at) {
                    return Err(self.link.silent_for(pong_max));
                }
            }
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => {
                return Err(ClientError::Closed);
            }
            Err(error) => return Err(ClientError::Io(error)),
        }
        if ping_at.is_some_and(|at| Instant::now() >= at) {
            self.send_packet(&Packet::Pingreq(Pingreq))?;
            self.pinged.get_or_insert(self.last_sent);
        }
        Ok(())
    }

    /// Handles the whole packets of the input, up to an answer that somebody waits for. A packet that is wrong stays in it.
    fn handle_input(&mut self) -> Result<(), ClientError> {
        let mut input = std::mem::take(&mut self.input);
        let mut handled = 0;
        let done = self.handle_packets(&input, &mut handled);
        input.drain(..handled);
        self.input = input;
        done
    }

    fn handle_packets(&mut self, input: &[u8], handled: &mut usize) -> Result<(), ClientError> {
        let bad =
            |error: courser_mqtt::codec::DecodeError| ClientError::Protocol(error.to_string());
        while self.answer.is_none() {
            let split = Frame::split(&input[*handled..], courser_mqtt::codec::PACKET_BYTES_MAX);
            let Split::Whole(frame) = split.map_err(bad)? else {
                break;
            };
            self.handle(&Packet::decode(&frame, &self.rules).map_err(bad)?)?;
            *handled += frame.len();
        }
        Ok(())
    }

    fn handle(&mut self, packet: &Packet<'_>) -> Result<(), ClientError> {
        match packet {
            Packet::Publish(publish) => return self.handle_publish(publish),
            Packet::Pubrel(pubrel) => {
                self.held.remove(&pubrel.packet_id.get());
                self.acknowledge(&Packet::Pubcomp(Pubcomp::new(pubrel.packet_id)))?;
            }
            Packet::Connack(connack) => {
                let reason_string = connack.properties.reason_string();
                self.answer = Some(Answer::Connack {
                    reason: connack.reason,
                    text: reason_string.map_or(String::new(), |text| text.as_str().into()),
                    session: SessionState::of(connack.session_present),
                    assigned_client_id: connack
                        .properties
                        .assigned_client_identifier()
                        .map(|id| id.as_str().into()),
                    packet_bytes_max: connack
                        .properties
                        .maximum_packet_size()
                        .map(std::num::NonZero::get),
                    keep_alive: connack.properties.server_keep_alive(),
                    receive_maximum: connack
                        .properties
                        .receive_maximum()
                        .map(std::num::NonZero::get),
                });
            }
            Packet::Puback(ack) => {
                self.answer = Some(Answer::Puback {
                    packet_id: ack.packet_id.get(),
                    reason: ack.reason,
                });
            }
            Packet::Pubrec(ack) => {
                self.answer = Some(Answer::Pubrec {
                    packet_id: ack.packet_id.get(),
                    reason: ack.reason,
                });
            }
            Packet::Pubcomp(ack) => {
                self.answer = Some(Answer::Pubcomp {
                    packet_id: ack.packet_id.get(),
                    reason: ack.reason,
                });
            }
            Packet::Suback(ack) => {
                let codes = ack.codes.iter().collect();
                self.answer = Some(Answer::Suback {
                    packet_id: ack.packet_id.get(),
                    codes,
                });
            }
            Packet::Unsuback(ack) => {
                self.answer = Some(Answer::Unsuback {
                    packet_id: ack.packet_id.get(),
                })
            }
            Packet::Disconnect(disconnect) => {
                let text = disconnect.properties.reason_string();
                let reason = in_words(disconnect.reason, text.map_or("", |text| text.as_str()));
                let meaning = Meaning::of(disconnect.reason);
                return Err(ClientError::Disconnected { reason, meaning });
            }
            Packet::Pingresp(_) => {}
            Packet::Connect(_)
            | Packet::Subscribe(_)
            | Packet::Unsubscribe(_)
            | Packet::Pingreq(_)
            | Packet::Auth(_) => {
                return Err(ClientError::Protocol(format!(
                    "{} from a server",
                    packet.packet_type()
                )));
            }
        }
        Ok(())
    }

    fn handle_publish(&mut self, publish: &Publish<'_>) -> Result<(), ClientError> {
        let Some(topic) = publish.topic.name() else {
            return Err(ClientError::Protocol(
                "a topic alias that was never allowed".into(),
            ));
        };
        if let Delivery::ExactlyOnce { packet_id, .. } = publish.delivery
            && !self.held.insert(packet_id.get())
        {
            return self.acknowledge(&Packet::Pubrec(Pubrec::new(packet_id)));
        }
        self.arrived
            .push_back(packets::message(publish, topic.as_str()));
        Ok(())
    }
}
