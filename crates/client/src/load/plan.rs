//! What a load run does: sizes, pattern, pace and end, checked before anything connects.

use std::time::Duration;

use courser_mqtt::codec::{ProtocolVersion, QoS};

use super::stamp;
use crate::{Endpoint, Layers, Options, VersionChoice};

/// How the subscribers divide the topics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pattern {
    /// Each topic has one subscriber, or, with more subscribers than topics, each subscriber one topic.
    #[default]
    Split,
    /// Each subscriber names every topic.
    All,
    /// Each subscriber takes all of them by one filter with a wildcard.
    Wildcard,
}

/// When the next message is sent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pace {
    /// As soon as the windows have room.
    Closed,
    /// Message k is due at start + k / rate, whatever happened to those before it.
    Open {
        /// Messages per second of all publishers together.
        per_second: f64,
        /// What a latency begins with.
        from: Begin,
    },
}

/// With what the latency of a message begins that is due at a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Begin {
    /// With that moment: what a sender waits that cannot wait, a full window and its own delays included.
    #[default]
    Due,
    /// With its sending: what the broker takes.
    Sending,
}

/// When sending ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// After this time, the warm-up not counted.
    After(Duration),
    /// After so many messages; nothing is warm-up.
    Count(u64),
}

/// How the connections are spread over threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Threads {
    /// One for all publishers, one for all subscribers.
    #[default]
    Two,
    /// One for everything, which leaves other cores to the broker.
    One,
}

/// Where the broker is and how to log in.
#[derive(Clone, Debug)]
pub struct Target {
    /// Where it is; a name is looked up for each connection.
    pub endpoint: Endpoint,
    /// What lies between the sockets and MQTT.
    pub layers: Layers,
    /// Version to speak.
    pub version: ProtocolVersion,
    /// User name.
    pub username: Option<String>,
    /// Password.
    pub password: Option<Vec<u8>>,
    /// How long it may take for each answer while a run is prepared. Not zero.
    pub answer_max: Duration,
}

/// As good as none: load connections never send PINGREQ. Some brokers refuse 0.
pub(super) const KEEP_ALIVE_SECONDS: u16 = u16::MAX;

impl Target {
    /// Options of a connection whose session ends with it.
    pub(super) fn options(&self, client_id: String) -> Options {
        Options {
            endpoint: self.endpoint.clone(),
            bind: None,
            layers: self.layers.clone(),
            version: match self.version {
                ProtocolVersion::V311 => VersionChoice::V311,
                ProtocolVersion::V5 => VersionChoice::V5,
            },
            client_id,
            clean_start: true,
            session_expiry: 0,
            keep_alive: KEEP_ALIVE_SECONDS,
            username: self.username.clone(),
            password: self.password.clone(),
            will: None,
            answer_max: self.answer_max,
        }
    }
}

/// A load run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The broker.
    pub target: Target,
    /// First levels of all topics.
    pub prefix: String,
    /// First characters of all client ids.
    pub client_prefix: String,
    /// Connections that publish.
    pub publishers: usize,
    /// Connections that subscribe.
    pub subscribers: usize,
    /// Topics.
    pub topics: usize,
    /// What they are called, each with its number from 1 on in the place of `%i`; none: `PREFIX/0` and so on.
    pub topic: Option<String>,
    /// QoS of publishing.
    pub qos: QoS,
    /// QoS of subscribing.
    pub subscribe_qos: QoS,
    /// Bytes of a payload; from [`stamp::BYTES`] on every message is checked.
    pub payload_bytes: usize,
    /// Messages of QoS > 0 that a publisher has without acknowledgement at most.
    pub window: u16,
    /// Deliveries under way at most over all publishers; 0: no limit.
    pub in_flight_max: u64,
    /// Who subscribes to what.
    pub pattern: Pattern,
    /// Share name: all subscribers are one shared group.
    pub share: Option<String>,
    /// RETAIN of all messages.
    pub retain: bool,
    /// Subscribers' sessions outlive their connections.
    pub persistent_subscribers: bool,
    /// Publishers' sessions do.
    pub persistent_publishers: bool,
    /// When the next message is sent.
    pub pace: Pace,
    /// When sending ends.
    pub stop: Stop,
    /// Time before the measuring begins.
    pub warmup: Duration,
    /// Threads.
    pub threads: Threads,
    /// How long to wait for deliveries after the last one.
    pub drain_idle: Duration,
    /// Whether acknowledgements are noted one by one, with their moments.
    pub timeline: bool,
}

/// What cannot be run.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum PlanError {
    /// No publisher or no topic.
    #[error("a load run needs at least one publisher and one topic")]
    Nothing,
    /// The rate is not a number above zero.
    #[error("--rate must be above zero")]
    Rate,
    /// The window is empty.
    #[error("--window must be 1 to 32767")]
    Window,
    /// A topic is longer than MQTT allows.
    #[error("the topic prefix is longer than 60000 bytes")]
    Prefix,
    /// A topic that cannot be published to.
    #[error("--topic must be a topic of at most 60000 bytes, without + and #")]
    Topic,
    /// Several topics would have the same name.
    #[error("--topic must have {NUMBER} in it, which stands for the number of each topic")]
    Same,
    /// No filter takes exactly these topics.
    #[error("--pattern wildcard needs a --topic in which {NUMBER} is a level of its own")]
    NoWildcard,
}

/// What stands for the number of a topic in its name.
const NUMBER: &str = "%i";

/// Bytes of the longest name of topics before their numbers are in it.
const NAME_BYTES_MAX: usize = 60_000;

impl Plan {
    /// # Errors
    /// When no message could be sent.
    pub fn check(&self) -> Result<(), PlanError> {
        if self.publishers == 0 || self.topics == 0 {
            return Err(PlanError::Nothing);
        }
        if matches!(self.pace, Pace::Open { per_second, .. } if !(per_second.is_finite() && per_second > 0.0))
        {
            return Err(PlanError::Rate);
        }
        if self.window == 0 || self.window > 32_767 {
            return Err(PlanError::Window);
        }
        if self.prefix.len() > NAME_BYTES_MAX {
            return Err(PlanError::Prefix);
        }
        self.topic
            .as_ref()
            .map_or(Ok(()), |topic| self.check_topic(topic))
    }

    fn check_topic(&self, topic: &str) -> Result<(), PlanError> {
        if topic.is_empty() || topic.len() > NAME_BYTES_MAX || topic.contains(['+', '#', '\0']) {
            return Err(PlanError::Topic);
        }
        if self.topics > 1 && !topic.contains(NUMBER) {
            return Err(PlanError::Same);
        }
        let is_whole = |level: &str| level == NUMBER || !level.contains(NUMBER);
        if self.pattern == Pattern::Wildcard && !topic.split('/').all(is_whole) {
            return Err(PlanError::NoWildcard);
        }
        Ok(())
    }

    /// Name of topic `k`.
    #[must_use]
    pub fn topic(&self, k: usize) -> String {
        match &self.topic {
            Some(topic) => topic.replace(NUMBER, &(k + 1).to_string()),
            None => format!("{}/{k}", self.prefix),
        }
    }

    /// A filter that takes all topics.
    fn wildcard(&self) -> String {
        match &self.topic {
            Some(topic) => topic.replace(NUMBER, "+"),
            None => format!("{}/#", self.prefix),
        }
    }

    /// A stream is one publisher on one topic: what order and loss are checked by.
    #[must_use]
    pub fn streams(&self) -> usize {
        self.topics.max(self.publishers)
    }

    /// Topic of a stream.
    #[must_use]
    pub fn topic_of(&self, stream: usize) -> usize {
        stream % self.topics
    }

    /// Streams of publisher `i`.
    pub fn streams_of(&self, i: usize) -> impl Iterator<Item = usize> + use<> {
        (i..self.streams()).step_by(self.publishers)
    }

    /// Filters of subscriber `j`.
    #[must_use]
    pub fn filters_of(&self, j: usize) -> Vec<String> {
        let share = self
            .share
            .as_ref()
            .map_or(String::new(), |name| format!("$share/{name}/"));
        let named = |k: usize| format!("{share}{}", self.topic(k));
        match self.pattern {
            Pattern::Wildcard => vec![format!("{share}{}", self.wildcard())],
            Pattern::All => (0..self.topics).map(named).collect(),
            Pattern::Split if self.share.is_some() => (0..self.topics).map(named).collect(),
            Pattern::Split => (0..self.topics)
                .filter(|&k| self.splits(j, k))
                .map(named)
                .collect(),
        }
    }

    /// Whether subscriber `j` gets all of topic `k`; never so in a shared group.
    #[must_use]
    pub fn gets(&self, j: usize, k: usize) -> bool {
        match self.pattern {
            Pattern::Wildcard | Pattern::All => true,
            Pattern::Split => self.splits(j, k),
        }
    }

    fn splits(&self, j: usize, k: usize) -> bool {
        if self.subscribers > self.topics {
            j % self.topics == k
        } else {
            k % self.subscribers == j
        }
    }

    /// Deliveries of one message on topic `k`.
    #[must_use]
    pub fn fan_out(&self, k: usize) -> u64 {
        if self.subscribers == 0 {
            return 0;
        }
        if self.share.is_some() {
            return 1;
        }
        (0..self.subscribers).filter(|&j| self.gets(j, k)).count() as u64
    }

    /// Whether payloads have room for a stamp.
    #[must_use]
    pub const fn is_checked(&self) -> bool {
        self.payload_bytes >= stamp::BYTES
    }
}

#[cfg(test)]
pub(super) mod tests;
