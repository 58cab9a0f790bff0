//! Clients that are sent to another server: all of them in CONNACK, or one whenever somebody says so (v5 section 4.11).

use crate::codec::{MqttStr, PropertiesBuilder, Property, ReasonCode};

/// Bytes of a Server Reference: about forty names, which is more than any client tries.
const REFERENCE_BYTES_MAX: usize = 1_024;

/// Where clients are sent instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redirect {
    /// For how long.
    pub kind: RedirectKind,
    /// Server Reference: host names with optional ports, separated by spaces (v5 section 4.11). At most 1,024 bytes.
    pub reference: Box<str>,
}

/// For how long a client should use another server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RedirectKind {
    /// 0x9C: for this time.
    Temporary,
    /// 0x9D: for good.
    Permanent,
}

/// Why a text is no Server Reference.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadReference {
    /// There is no name in it.
    #[error("expected HOST or HOST:PORT, several with one space between")]
    Empty,
    /// Above 1,024 bytes.
    #[error("a Server Reference has at most {REFERENCE_BYTES_MAX} bytes")]
    TooLong,
    /// No client could make a host and a port of one of its parts.
    #[error(
        "part {position}{}: expected HOST or HOST:PORT with a port from 1 to 65535, and brackets around an IPv6 address",
        text.as_ref().map_or_else(String::new, |text| format!(", {text:?}"))
    )]
    Part {
        /// Which, from 1.
        position: usize,
        /// What it says; none: it is not to be shown.
        text: Option<Box<str>>,
    },
}

impl BadReference {
    /// The same without the text that it is about.
    #[must_use]
    pub fn without_text(self) -> Self {
        match self {
            Self::Part { position, .. } => Self::Part {
                position,
                text: None,
            },
            Self::Empty | Self::TooLong => self,
        }
    }
}

impl Redirect {
    /// Checked: names with optional ports (`b.example`, `b.example:1883`, `[::1]:1883`), one space between.
    ///
    /// # Errors
    /// [`BadReference`].
    pub fn new(kind: RedirectKind, reference: &str) -> Result<Self, BadReference> {
        if reference.is_empty() {
            return Err(BadReference::Empty);
        }
        if reference.len() > REFERENCE_BYTES_MAX {
            return Err(BadReference::TooLong);
        }
        let mut parts = reference.split(' ').zip(1..);
        match parts.find(|(part, _)| !is_place(part)) {
            Some((part, position)) => Err(BadReference::Part {
                position,
                text: Some(part.into()),
            }),
            None => Ok(Self {
                kind,
                reference: reference.into(),
            }),
        }
    }

    pub(super) const fn reason(&self) -> ReasonCode {
        match self.kind {
            RedirectKind::Temporary => ReasonCode::UseAnotherServer,
            RedirectKind::Permanent => ReasonCode::ServerMoved,
        }
    }

    pub(super) fn name_in(&self, builder: &mut PropertiesBuilder) {
        if let Ok(reference) = MqttStr::new(&self.reference) {
            let added = builder.push(Property::ServerReference(reference));
            debug_assert!(added.is_ok(), "both packets have a Server Reference");
        }
    }
}

/// Whether a client can make a host and a port of it.
fn is_place(part: &str) -> bool {
    let (host, port) = match part.strip_prefix('[') {
        Some(rest) => match rest.split_once(']') {
            Some((host, "")) => (host, None),
            Some((host, port)) => (host, Some(port.strip_prefix(':').unwrap_or_default())),
            None => return false,
        },
        None => match part.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (part, None),
        },
    };
    let printable = |letter: char| !letter.is_control() && !letter.is_whitespace();
    let is_port = |port: &str| {
        port.bytes().all(|digit| digit.is_ascii_digit())
            && port.parse::<u16>().is_ok_and(|port| port > 0)
    };
    !host.is_empty() && host.chars().all(printable) && port.is_none_or(is_port)
}
