//! Limits on what a peer may send, and the rules under which bytes are judged.

use super::types::{ProtocolVersion, Sender};

/// Limits that the receiver sets; the standard's own limits hold anyway.
///
/// [`Limits::DEFAULT`] is for peers that have logged in. Before CONNECT pass [`BEFORE_CONNECT_BYTES_MAX`] to
/// [`Frame::split`](super::Frame::split).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Largest whole packet in bytes, fixed header included. Default 1 MiB.
    pub packet_bytes_max: u32,
    /// Longest client identifier in bytes. Default 1,024.
    pub client_id_bytes_max: u16,
    /// Longest topic name or topic filter in bytes. Default 4,096.
    pub topic_bytes_max: u16,
    /// Most levels of a topic name or topic filter. Default 128.
    pub topic_levels_max: u16,
    /// Most user properties in one property block. Default 64.
    pub user_properties_max: u16,
    /// Most bytes of encoded user properties in one property block. Default 16 KiB.
    pub user_property_bytes_max: u32,
    /// Whether payloads that claim to be text are looked at. Default: no.
    pub payload_format: PayloadFormatCheck,
}

/// What to do with a payload whose Payload Format Indicator says UTF-8.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PayloadFormatCheck {
    /// Pass it on unseen; v5 section 3.3.2.3.2 leaves the check to the receiver.
    Ignore,
    /// Refuse payloads that are not UTF-8 with 0x99.
    Verify,
}

/// Largest packet accepted before a client has sent CONNECT: 16 KiB.
pub const BEFORE_CONNECT_BYTES_MAX: u32 = 16 * 1024;

/// Largest packet that MQTT can express: 268,435,455 bytes behind a fixed header of 5.
pub const PACKET_BYTES_MAX: u32 = 268_435_455 + 5;

impl Limits {
    /// The defaults named at the fields.
    pub const DEFAULT: Self = Self {
        packet_bytes_max: 1024 * 1024,
        client_id_bytes_max: 1024,
        topic_bytes_max: 4096,
        topic_levels_max: 128,
        user_properties_max: 64,
        user_property_bytes_max: 16 * 1024,
        payload_format: PayloadFormatCheck::Ignore,
    };

    /// Only what the standard itself limits.
    pub const STANDARD: Self = Self {
        packet_bytes_max: PACKET_BYTES_MAX,
        client_id_bytes_max: u16::MAX,
        topic_bytes_max: u16::MAX,
        topic_levels_max: u16::MAX,
        user_properties_max: u16::MAX,
        user_property_bytes_max: PACKET_BYTES_MAX,
        payload_format: PayloadFormatCheck::Ignore,
    };
}

impl Default for Limits {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// Under which rules packets of one connection and direction are judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// The version that CONNECT fixed. CONNECT itself is judged by the level that it carries.
    pub version: ProtocolVersion,
    /// Who sent the packets.
    pub sender: Sender,
    /// The receiver's limits.
    pub limits: Limits,
}

impl Rules {
    /// Packets that a server receives, default limits.
    #[must_use]
    pub const fn from_client(version: ProtocolVersion) -> Self {
        Self {
            version,
            sender: Sender::Client,
            limits: Limits::DEFAULT,
        }
    }

    /// Packets that a client receives, default limits.
    #[must_use]
    pub const fn from_server(version: ProtocolVersion) -> Self {
        Self {
            version,
            sender: Sender::Server,
            limits: Limits::DEFAULT,
        }
    }

    /// The same with other limits.
    #[must_use]
    pub const fn with_limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }
}
