//! Words of `[[listener]]`.

use super::{Mismatch, Raw, Value};

choice! {
    /// What is spoken below MQTT.
    ListenerProtocol {
        /// Nothing: MQTT over the connection itself.
        Mqtt = "mqtt",
        /// TLS.
        Mqtts = "mqtts",
        /// WebSocket.
        Ws = "ws",
        /// WebSocket over TLS.
        Wss = "wss",
    }
}

impl ListenerProtocol {
    /// Whether there is TLS below.
    #[must_use]
    pub const fn is_secure(self) -> bool {
        match self {
            Self::Mqtt | Self::Ws => false,
            Self::Mqtts | Self::Wss => true,
        }
    }

    /// The port where no address is named. Plain MQTT has none: its usual one is that of `mqtt.listen`.
    #[must_use]
    pub const fn usual_port(self) -> Option<u16> {
        match self {
            Self::Mqtt => None,
            Self::Mqtts => Some(8883),
            Self::Ws => Some(8083),
            Self::Wss => Some(8084),
        }
    }

    /// Whether there is WebSocket below.
    #[must_use]
    pub const fn is_web(self) -> bool {
        match self {
            Self::Mqtt | Self::Mqtts => false,
            Self::Ws | Self::Wss => true,
        }
    }
}

choice! {
    /// Whether clients show certificates.
    ClientCertificates {
        /// They are not asked.
        Off = "off",
        /// They are asked, and may have none.
        Asked = "asked",
        /// Without one they are not let in.
        Required = "required",
    }
}

choice! {
    /// Which name in a client certificate says who the client is. The whole value counts, and it must be there exactly once.
    IdentityFrom {
        /// The common name of the subject.
        CommonName = "common_name",
        /// The alternative name that is a DNS name.
        DnsName = "dns_name",
        /// The alternative name that is an e-mail address.
        Email = "email",
        /// The alternative name that is a URI.
        Uri = "uri",
        /// SHA-256 of the whole certificate in hexadecimal digits.
        Fingerprint = "fingerprint",
    }
}

choice! {
    /// The lowest version of TLS.
    TlsVersion {
        /// 1.2 and 1.3.
        V12 = "1.2",
        /// 1.3 only.
        V13 = "1.3",
    }
}
