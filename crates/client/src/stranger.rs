//! What answers at a port where no MQTT is spoken.

use std::fmt;

/// What it speaks instead, as far as its first bytes tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Speaks {
    /// An alert or a handshake of TLS.
    Tls,
    /// An answer of HTTP, as of WebSocket before the upgrade.
    Http,
    /// Something else: what is wrong with it as MQTT.
    Unknown(String),
}

impl Speaks {
    /// By the first bytes that came: a record of TLS begins with its type and the major version 3 (RFC 8446, 5.1), HTTP with its name
    /// (RFC 9112, 4). No packet that a client may be sent begins so. `fault` is what is wrong with them as MQTT.
    pub(crate) fn of(answer: &[u8], fault: String) -> Self {
        const TLS_ALERT: u8 = 0x15;
        const TLS_HANDSHAKE: u8 = 0x16;
        match answer {
            [TLS_ALERT | TLS_HANDSHAKE, 3, ..] => Self::Tls,
            _ if answer.starts_with(b"HTTP/") => Self::Http,
            _ => Self::Unknown(fault),
        }
    }
}

/// What it does, and what to try.
impl fmt::Display for Speaks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tls => f.write_str("answers TLS, not MQTT: add --tls"),
            Self::Http => f.write_str(
                "answers HTTP, not MQTT: add --ws where it is WebSocket, or name the port of MQTT with -p",
            ),
            Self::Unknown(fault) => write!(
                f,
                "does not answer as MQTT does: name the port of MQTT with -p ({fault})"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_bytes_tell_what_is_spoken() {
        let unknown = || Speaks::Unknown("no packet".to_owned());
        for (answer, expected) in [
            (&[0x15, 3, 3, 0, 2, 2, 50][..], Speaks::Tls),
            (&[0x15, 3, 1, 0, 2, 2, 10], Speaks::Tls),
            (&[0x16, 3, 3, 0, 40], Speaks::Tls),
            (b"HTTP/1.1 400 Bad Request\r\n", Speaks::Http),
            (b"SSH-2.0-OpenSSH_9.2\r\n", unknown()),
            (&[0x15, 2, 0, 0], unknown()),
            (&[0x15], unknown()),
            (&[], unknown()),
        ] {
            let found = Speaks::of(answer, "no packet".to_owned());
            assert_eq!(found, expected, "{answer:?}");
        }
    }
}
