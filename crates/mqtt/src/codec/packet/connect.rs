//! CONNECT and the will in it.

use std::fmt;

use super::publish::MessageProperties;
use crate::codec::encode::{Body, EncodeError, Trim, block_len, check_scope, write_trimmed};
use crate::codec::error::{DecodeError, DecodeErrorKind};
use crate::codec::frame::Frame;
use crate::codec::limits::{Limits, PayloadFormatCheck};
use crate::codec::property::{Passthrough, PayloadFormat, Properties, PropertyScope};
use crate::codec::reader::Reader;
use crate::codec::text::{self, Binary, MqttStr, Secret};
use crate::codec::topic::TopicName;
use crate::codec::types::{PacketType, ProtocolVersion, QoS};

const NAME: &[u8] = b"MQTT";
/// The name of MQTT 3.1, which is answered but not spoken.
const NAME_3_1: &[u8] = b"MQIsdp";

const RESERVED: u8 = 1;
const CLEAN_START: u8 = 1 << 1;
const WILL: u8 = 1 << 2;
const WILL_QOS_SHIFT: u8 = 3;
const WILL_RETAIN: u8 = 1 << 5;
const PASSWORD: u8 = 1 << 6;
const USER_NAME: u8 = 1 << 7;
const WILL_DETAILS: u8 = WILL_RETAIN | 0b11 << WILL_QOS_SHIFT;

/// CONNECT: the first packet of a client, v3 [MQTT-3.1.0-1], v5 [MQTT-3.1.0-1].
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Connect<'a> {
    /// From the protocol level.
    pub version: ProtocolVersion,
    /// Clean Start; in 3.1.1 Clean Session, which also ends the session with the connection.
    pub clean_start: bool,
    /// Seconds; 0 turns the keep-alive off.
    pub keep_alive_seconds: u16,
    /// Empty in 3.1.1.
    pub properties: Properties<'a>,
    /// May be empty: the server then assigns one. In 3.1.1 only with a clean session, v3 [MQTT-3.1.3-7].
    pub client_id: MqttStr<'a>,
    /// The will, if any.
    pub will: Option<Will<'a>>,
    /// User name, if any.
    pub user_name: Option<MqttStr<'a>>,
    /// Password, if any; in 3.1.1 only with a user name, v3 [MQTT-3.1.2-22]. Never shown by `Debug`.
    pub password: Option<Secret<'a>>,
}

/// The message that the server publishes when the connection ends badly.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Will<'a> {
    /// Where to.
    pub topic: TopicName<'a>,
    /// Will Payload; at most 65,535 bytes.
    pub payload: Binary<'a>,
    /// Will QoS.
    pub qos: QoS,
    /// Will Retain.
    pub retain: bool,
    /// Will Delay Interval and message properties; empty in 3.1.1.
    pub properties: Properties<'a>,
}

impl<'a> Will<'a> {
    /// Will Delay Interval in seconds; 0 when absent.
    #[must_use]
    pub fn delay_interval(&self) -> u32 {
        self.properties.will_delay_interval().unwrap_or(0)
    }

    /// The properties that are handed on with the message.
    #[must_use]
    pub fn passthrough(&self) -> Passthrough<'a> {
        MessageProperties::of_checked(self.properties.as_bytes(), PropertyScope::Will).passthrough
    }

    fn read(
        reader: &mut Reader<'a>,
        flags: u8,
        version: ProtocolVersion,
        limits: &Limits,
    ) -> Result<Self, DecodeErrorKind> {
        let qos =
            QoS::from_number(flags >> WILL_QOS_SHIFT & 0b11).ok_or(DecodeErrorKind::WillQos)?;
        let properties = read_properties(reader, version, PropertyScope::Will, limits)?;
        let topic = TopicName::check(reader.binary()?, limits)?;
        let payload = Binary::new(reader.binary()?).ok_or(DecodeErrorKind::Truncated)?;
        if limits.payload_format == PayloadFormatCheck::Verify
            && properties.payload_format_indicator() == Some(PayloadFormat::Utf8)
            && text::utf8(&payload).is_err()
        {
            return Err(DecodeErrorKind::PayloadFormat);
        }
        Ok(Self {
            topic,
            payload,
            qos,
            retain: flags & WILL_RETAIN != 0,
            properties,
        })
    }
}

impl fmt::Debug for Will<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Will")
            .field("topic", &self.topic)
            .field("payload_bytes", &self.payload.len())
            .field("qos", &self.qos)
            .field("retain", &self.retain)
            .field("properties", &self.properties)
            .finish()
    }
}

impl<'a> Connect<'a> {
    /// The version that a CONNECT asks for, even if the rest of its body is wrong or missing; `None` for names and levels that are not
    /// spoken.
    #[must_use]
    pub fn peek_version(body: &[u8]) -> Option<ProtocolVersion> {
        read_version(&mut Reader::new(body)).ok()
    }

    /// Its properties, even if what follows them is wrong or missing, or if there are more than a limit of ours; `None` where they are
    /// wrong or missing themselves. They say how a refusal may look.
    #[must_use]
    pub fn peek_properties(body: &'a [u8]) -> Option<Properties<'a>> {
        let mut reader = Reader::new(body);
        let version = read_version(&mut reader).ok()?;
        // Flags and the keep-alive.
        reader.bytes(3).ok()?;
        read_properties(
            &mut reader,
            version,
            PropertyScope::Connect,
            &Limits::STANDARD,
        )
        .ok()
    }

    /// Reads CONNECT by the level that it carries.
    ///
    /// # Errors
    /// [`DecodeErrorKind::WrongDirection`] for other packets, and what is wrong with this one; see
    /// [`DecodeError::connack_version`] for how to answer.
    pub fn decode(frame: &Frame<'a>, limits: &Limits) -> Result<Self, DecodeError> {
        if frame.packet_type() != PacketType::Connect {
            return Err(DecodeErrorKind::WrongDirection.into());
        }
        Ok(Self::read(frame.body(), limits)?)
    }

    fn read(body: &'a [u8], limits: &Limits) -> Result<Self, DecodeErrorKind> {
        let mut reader = Reader::new(body);
        let version = read_version(&mut reader)?;
        let flags = reader.u8()?;
        check_flags(flags, version)?;
        let keep_alive_seconds = reader.u16()?;
        let properties = read_properties(&mut reader, version, PropertyScope::Connect, limits)?;
        let client_id = reader.text()?;
        let will = if flags & WILL == 0 {
            None
        } else {
            Some(Will::read(&mut reader, flags, version, limits)?)
        };
        let user_name = if flags & USER_NAME == 0 {
            None
        } else {
            Some(reader.text()?)
        };
        let password = if flags & PASSWORD == 0 {
            None
        } else {
            Some(Secret::new(reader.binary()?).ok_or(DecodeErrorKind::Truncated)?)
        };
        reader.finish()?;
        let connect = Self {
            version,
            clean_start: flags & CLEAN_START != 0,
            keep_alive_seconds,
            properties,
            client_id,
            will,
            user_name,
            password,
        };
        connect.check_client_id(limits)?;
        Ok(connect)
    }

    /// Looked at last, so that a malformed CONNECT is not answered as a refused client identifier.
    fn check_client_id(&self, limits: &Limits) -> Result<(), DecodeErrorKind> {
        if self.client_id.len() > usize::from(limits.client_id_bytes_max) {
            return Err(DecodeErrorKind::ClientIdTooLong);
        }
        if self.version == ProtocolVersion::V311 && self.client_id.is_empty() && !self.clean_start {
            return Err(DecodeErrorKind::ClientIdEmpty);
        }
        Ok(())
    }

    fn flags(&self) -> u8 {
        let mut flags = 0;
        if self.clean_start {
            flags |= CLEAN_START;
        }
        if let Some(will) = &self.will {
            flags |= WILL | will.qos.number() << WILL_QOS_SHIFT;
            if will.retain {
                flags |= WILL_RETAIN;
            }
        }
        if self.user_name.is_some() {
            flags |= USER_NAME;
        }
        if self.password.is_some() {
            flags |= PASSWORD;
        }
        flags
    }
}

fn read_version(reader: &mut Reader<'_>) -> Result<ProtocolVersion, DecodeErrorKind> {
    let name = reader.binary()?;
    let level = reader.u8()?;
    match (name, level) {
        (NAME, 4) => Ok(ProtocolVersion::V311),
        (NAME, 5) => Ok(ProtocolVersion::V5),
        (NAME_3_1, 3) | (NAME, 0..=3 | 0x80..) => Err(DecodeErrorKind::ProtocolLevelOld),
        (NAME, _) => Err(DecodeErrorKind::ProtocolLevelNew),
        _ => Err(DecodeErrorKind::ProtocolName),
    }
}

fn check_flags(flags: u8, version: ProtocolVersion) -> Result<(), DecodeErrorKind> {
    if flags & RESERVED != 0 {
        return Err(DecodeErrorKind::ConnectFlagReserved);
    }
    if flags & WILL == 0 && flags & WILL_DETAILS != 0 {
        return Err(DecodeErrorKind::WillFlags);
    }
    if flags >> WILL_QOS_SHIFT & 0b11 == 0b11 {
        return Err(DecodeErrorKind::WillQos);
    }
    if version == ProtocolVersion::V311 && flags & PASSWORD != 0 && flags & USER_NAME == 0 {
        return Err(DecodeErrorKind::PasswordWithoutUserName);
    }
    Ok(())
}

fn read_properties<'a>(
    reader: &mut Reader<'a>,
    version: ProtocolVersion,
    scope: PropertyScope,
    limits: &Limits,
) -> Result<Properties<'a>, DecodeErrorKind> {
    match version {
        ProtocolVersion::V311 => Ok(Properties::EMPTY),
        ProtocolVersion::V5 => Ok(Properties::read(reader, scope, limits)?.0),
    }
}

impl fmt::Debug for Connect<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connect")
            .field("version", &self.version)
            .field("clean_start", &self.clean_start)
            .field("keep_alive_seconds", &self.keep_alive_seconds)
            .field("properties", &self.properties)
            .field("client_id", &self.client_id)
            .field("will", &self.will)
            .field("user_name", &self.user_name)
            .field("password", &self.password)
            .finish()
    }
}

impl Body for Connect<'_> {
    const PACKET_TYPE: PacketType = PacketType::Connect;
    const TRIMS: bool = false;

    fn check(&self, _: ProtocolVersion) -> Result<(), EncodeError> {
        check_flags(Self::flags(self), self.version).map_err(EncodeError::Refused)?;
        self.check_client_id(&Limits::STANDARD)
            .map_err(EncodeError::Refused)?;
        check_scope(&self.properties, PropertyScope::Connect)?;
        match &self.will {
            Some(will) => check_scope(&will.properties, PropertyScope::Will),
            None => Ok(()),
        }
    }

    fn body_len(&self, _: ProtocolVersion, _: Trim) -> usize {
        let properties_len = |properties: &Properties<'_>| match self.version {
            ProtocolVersion::V311 => 0,
            ProtocolVersion::V5 => block_len(properties.as_bytes().len()),
        };
        let will = self.will.as_ref().map_or(0, |will| {
            properties_len(&will.properties)
                + will.topic.text().wire_len()
                + will.payload.wire_len()
        });
        2 + NAME.len()
            + 4
            + properties_len(&self.properties)
            + self.client_id.wire_len()
            + will
            + self.user_name.map_or(0, MqttStr::wire_len)
            + self
                .password
                .map_or(0, |password| password.binary().wire_len())
    }

    /// Order of the fields: v3 [MQTT-3.1.3-1], v5 [MQTT-3.1.3-1].
    fn write_body(&self, _: ProtocolVersion, trim: Trim, out: &mut Vec<u8>) {
        text::write_binary(NAME, out);
        out.push(self.version.level());
        out.push(Self::flags(self));
        out.extend_from_slice(&self.keep_alive_seconds.to_be_bytes());
        let v5 = self.version == ProtocolVersion::V5;
        if v5 {
            write_trimmed(&self.properties, trim, out);
        }
        self.client_id.write(out);
        if let Some(will) = &self.will {
            if v5 {
                write_trimmed(&will.properties, trim, out);
            }
            will.topic.text().write(out);
            will.payload.write(out);
        }
        if let Some(user_name) = self.user_name {
            user_name.write(out);
        }
        if let Some(password) = self.password {
            password.binary().write(out);
        }
    }
}
