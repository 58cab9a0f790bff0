//! How a client connects.

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use courser_mqtt::codec::QoS;

use crate::{ClientError, Layers, socket};

/// Where a broker listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// TCP.
    Tcp {
        /// Name or address.
        host: String,
        /// Port.
        port: u16,
    },
    /// A Unix socket of this machine.
    Unix(PathBuf),
}

impl Endpoint {
    /// The same with the first address of its host, for who connects often.
    ///
    /// # Errors
    /// When the host has none.
    pub fn resolved(self) -> Result<Self, ClientError> {
        match self {
            Self::Tcp { host, port } => {
                let found = socket::resolve(&host, port)?.next();
                let address = found.ok_or_else(|| socket::nowhere(&host))?;
                let host = address.ip().to_string();
                Ok(Self::Tcp { host, port })
            }
            Self::Unix(path) => Ok(Self::Unix(path)),
        }
    }
}

/// As people write it.
impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp { host, port } if host.contains(':') => write!(f, "[{host}]:{port}"),
            Self::Tcp { host, port } => write!(f, "{host}:{port}"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// Which version of MQTT to speak.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum VersionChoice {
    /// 5.0; with a broker that refuses the version or hangs up on it 3.1.1.
    #[default]
    Auto,
    /// 5.0 only.
    V5,
    /// 3.1.1 only.
    V311,
}

/// Where to connect and as whom.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where.
    pub endpoint: Endpoint,
    /// Address of this machine to connect from; none: the system chooses.
    pub bind: Option<IpAddr>,
    /// What lies between the socket and MQTT.
    pub layers: Layers,
    /// Version.
    pub version: VersionChoice,
    /// Client id; empty: the broker assigns one.
    pub client_id: String,
    /// Forget a stored session.
    pub clean_start: bool,
    /// Seconds that the session outlives the connection (5.0).
    pub session_expiry: u32,
    /// Seconds, 0: none. A client that waits in [`Client::next`](crate::Client::next) sends PINGREQ in time.
    pub keep_alive: u16,
    /// User name.
    pub username: Option<String>,
    /// Password.
    pub password: Option<Vec<u8>>,
    /// Will.
    pub will: Option<Will>,
    /// How long the broker may take for each answer, and for taking what is sent. Not zero.
    pub answer_max: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            endpoint: Endpoint::Tcp {
                host: "127.0.0.1".into(),
                port: 1883,
            },
            bind: None,
            layers: Layers::default(),
            version: VersionChoice::Auto,
            client_id: String::new(),
            clean_start: true,
            session_expiry: 0,
            keep_alive: 60,
            username: None,
            password: None,
            will: None,
            answer_max: Duration::from_secs(30),
        }
    }
}

/// Message that the broker publishes when the connection is lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Will {
    /// Topic name.
    pub topic: String,
    /// Application message.
    pub payload: Vec<u8>,
    /// QoS.
    pub qos: QoS,
    /// Whether it becomes the topic's retained message.
    pub retain: bool,
}
