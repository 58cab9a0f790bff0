//! How a client connects.

use std::time::Duration;

use courser_mqtt::codec::QoS;

use crate::Layers;

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
    /// Host name or address.
    pub host: String,
    /// TCP port.
    pub port: u16,
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

impl Options {
    /// Host and port as people write them.
    pub(crate) fn address(&self) -> String {
        let Self { host, port, .. } = self;
        match host.contains(':') {
            true => format!("[{host}]:{port}"),
            false => format!("{host}:{port}"),
        }
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            host: "127.0.0.1".into(),
            port: 1883,
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
