//! Flags of the bench verbs, and the plans made of them.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use courser_client::load::{Begin, Pace, Pattern, Plan, Storm, Target, Threads};
use courser_client::{ClientError, Options, ProtocolVersion};

use crate::cli::exit::{Exit, fail, usage};
use crate::cli::format::qos;
use crate::cli::headings;
use crate::cli::place::Place;
use crate::cli::units;

/// How long all connections of a storm may take.
const STORM_MAX: Duration = Duration::from_secs(60);
/// Messages a second where nobody says it: what a small machine takes without a queue.
const RATE: f64 = 5_000.0;

/// Where the broker is.
#[derive(Args, Clone, Debug)]
pub(crate) struct Broker {
    #[command(flatten)]
    place: Place,
    /// MQTT version
    #[arg(
        short = 'V',
        long,
        value_enum,
        default_value = "5",
        value_name = "VERSION"
    )]
    pub(crate) protocol_version: BenchVersion,
    /// How long the broker may take for each answer while a run is prepared; of bench connect, for all of them to connect. A number
    /// alone is seconds [default: 30s, of bench connect 60s]
    #[arg(short = 'W', long, value_name = "DURATION", value_parser = units::wait)]
    timeout: Option<Duration>,
    /// Process id of the broker on this machine, as often as it has processes: its CPU time and memory are reported
    #[arg(long, value_name = "PID")]
    pub(crate) pid: Vec<u32>,
    /// Copied into the result
    #[arg(long, value_name = "TEXT")]
    pub(crate) label: Option<String>,
    /// First levels of all topics
    #[arg(long, default_value = "courser/bench")]
    pub(crate) prefix: String,
}

/// A version; a load run does not try.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum BenchVersion {
    /// 5.0
    #[value(name = "5", aliases = ["mqttv5", "v5", "5.0"])]
    V5,
    /// 3.1.1
    #[value(name = "311", aliases = ["mqttv311", "v311", "3.1.1", "4"])]
    V311,
}

/// Why a run does not begin.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// The call is wrong.
    Usage(String),
    /// There is no such host.
    Client(ClientError),
}

impl From<String> for Refusal {
    fn from(message: String) -> Self {
        Self::Usage(message)
    }
}

impl Refusal {
    /// Says it, and gives the code for it.
    pub(super) fn exit(&self) -> Exit {
        match self {
            Self::Usage(message) => usage(message),
            Self::Client(error) => fail(error),
        }
    }
}

impl Broker {
    pub(crate) fn target(&self) -> Result<Target, Refusal> {
        let found = self.place.find(None)?;
        let endpoint = found.endpoint.resolved().map_err(Refusal::Client)?;
        let version = match self.protocol_version {
            BenchVersion::V5 => ProtocolVersion::V5,
            BenchVersion::V311 => ProtocolVersion::V311,
        };
        Ok(Target {
            endpoint,
            layers: found.layers,
            version,
            username: found.username,
            password: found.password,
            answer_max: self.timeout.unwrap_or(Options::default().answer_max),
        })
    }

    /// Names that differ from run to run, so that two runs do not take each other's messages.
    fn names(&self) -> (String, String) {
        let run = std::process::id();
        (format!("{}/{run}", self.prefix), format!("cb{run}"))
    }
}

/// How the result is shown.
#[derive(Args, Clone, Debug)]
pub(crate) struct Report {
    /// Form of the result
    #[arg(short = 'o', long, value_enum, default_value = "table", help_heading = headings::OUTPUT)]
    pub(crate) output: Output,
    /// Append the result to a CSV file, with a header if the file is new
    #[arg(long, value_name = "FILE", help_heading = headings::OUTPUT)]
    pub(crate) csv: Option<std::path::PathBuf>,
    /// No progress
    #[arg(long, help_heading = headings::OUTPUT)]
    pub(crate) quiet: bool,
}

/// Form of a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    /// For people
    Table,
    /// One JSON document
    Json,
    /// One JSON document on one line
    Jsonl,
}

/// Who subscribes to what.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum SubscribePattern {
    /// Topics are divided among the subscribers; more subscribers than topics: fan-out
    Split,
    /// Every subscriber names every topic
    All,
    /// Every subscriber takes PREFIX/#, or --topic with + in the place of %i
    Wildcard,
}

/// `courser bench mqtt`.
#[derive(Args, Debug)]
pub(crate) struct Mqtt {
    #[command(flatten)]
    pub(crate) broker: Broker,
    #[command(flatten)]
    pub(crate) report: Report,
    /// So many publishers, each with a subscriber and a topic of its own
    #[arg(long, value_name = "COUNT", conflicts_with_all = ["publishers", "subscribers", "topics"])]
    clients: Option<usize>,
    /// Connections that publish
    #[arg(long, default_value_t = 1)]
    publishers: usize,
    /// Connections that subscribe
    #[arg(long, default_value_t = 1)]
    subscribers: usize,
    /// Topics
    #[arg(long, default_value_t = 1)]
    topics: usize,
    /// Name of the topics instead of those below --prefix; %i stands for the number of each, from 1 on. Two runs at once take each
    /// other's messages then
    #[arg(short = 't', long, value_name = "TOPIC", conflicts_with = "prefix")]
    topic: Option<String>,
    /// QoS of publishing
    #[arg(short = 'q', long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(0..=2))]
    qos: u8,
    /// QoS of subscribing; the same as --qos if it is not given
    #[arg(long, value_parser = clap::value_parser!(u8).range(0..=2))]
    subscribe_qos: Option<u8>,
    /// Payload bytes, or a size such as 1KiB; from 24 bytes on every message is checked
    #[arg(short = 's', long, default_value = "128", value_name = "SIZE", value_parser = units::bytes)]
    size: usize,
    /// Messages of QoS 1 and 2 that a publisher has without acknowledgement at most: in a closed loop the next one is sent when there is
    /// room
    #[arg(short = 'w', long, default_value_t = 100)]
    window: u16,
    /// Deliveries under way at most, over all publishers; 0: no limit
    #[arg(long, default_value_t = 0, value_name = "COUNT")]
    in_flight_max: u64,
    /// Who subscribes to what
    #[arg(long, value_enum, default_value = "split")]
    pattern: SubscribePattern,
    /// All subscribers are one shared group of this name
    #[arg(long, value_name = "NAME")]
    share: Option<String>,
    /// RETAIN of all messages
    #[arg(short = 'r', long)]
    retain: bool,
    /// Subscribers' sessions outlive their connections
    #[arg(long)]
    persistent: bool,
    /// Publishers' sessions do
    #[arg(long)]
    persistent_publishers: bool,
    /// Messages a second of all publishers. The loop is open: each is due at its time, whatever became of those before it, and latency
    /// counts from then
    #[arg(long, value_name = "PER-SECOND", default_value_t = RATE)]
    rate: f64,
    /// A closed loop instead, as fast as the windows allow: the broker decides when the next message is sent, and latency counts from then
    #[arg(long, conflicts_with = "rate")]
    closed: bool,
    /// At a --rate, latency counts from when a message was sent, which waits for the window, and not from when it was due
    #[arg(long, conflicts_with = "closed")]
    from_sending: bool,
    /// Time of sending, after the warm-up; a number alone is seconds
    #[arg(short = 'd', long, default_value = "5s", value_name = "DURATION", value_parser = units::duration)]
    duration: Duration,
    /// Time before the measuring begins; a number alone is seconds
    #[arg(long, default_value = "1s", value_name = "DURATION", value_parser = units::duration)]
    warmup: Duration,
    /// Send so many messages instead
    #[arg(short = 'n', long)]
    count: Option<u64>,
    /// One thread for everything instead of one for publishers and one for subscribers
    #[arg(long)]
    one_thread: bool,
    /// Time without a delivery after which the rest counts as lost; how many of them are behind the last that came is told
    #[arg(long, default_value = "2s", value_name = "DURATION", value_parser = units::duration)]
    drain: Duration,
    /// Write each acknowledgement into this file, a line of CSV: when it came in nanoseconds since 1970, and how many it took
    #[arg(long, value_name = "FILE")]
    pub(super) timeline: Option<PathBuf>,
}

impl Mqtt {
    /// Half of the tour: as fast as it goes, or at the usual rate.
    pub(super) fn tour(broker: Broker, report: Report, closed: bool) -> Self {
        Self {
            broker,
            report,
            clients: None,
            publishers: 1,
            subscribers: 1,
            topics: 1,
            topic: None,
            qos: 1,
            subscribe_qos: None,
            size: 128,
            window: 100,
            in_flight_max: 0,
            pattern: SubscribePattern::Split,
            share: None,
            retain: false,
            persistent: false,
            persistent_publishers: false,
            rate: RATE,
            closed,
            from_sending: false,
            duration: Duration::from_secs(4),
            warmup: Duration::from_secs(1),
            count: None,
            one_thread: false,
            drain: Duration::from_secs(2),
            timeline: None,
        }
    }

    fn pace(&self) -> Pace {
        if self.closed {
            return Pace::Closed;
        }
        Pace::Open {
            per_second: self.rate,
            from: match self.from_sending {
                true => Begin::Sending,
                false => Begin::Due,
            },
        }
    }

    pub(super) fn plan(&self) -> Result<Plan, Refusal> {
        let (prefix, client_prefix) = self.broker.names();
        let counts = (self.publishers, self.subscribers, self.topics);
        let (publishers, subscribers, topics) =
            self.clients.map_or(counts, |pairs| (pairs, pairs, pairs));
        Ok(Plan {
            target: self.broker.target()?,
            prefix,
            client_prefix,
            publishers,
            subscribers,
            topics,
            topic: self.topic.clone(),
            qos: qos(self.qos),
            subscribe_qos: qos(self.subscribe_qos.unwrap_or(self.qos)),
            payload_bytes: self.size,
            window: self.window,
            in_flight_max: if subscribers == 0 {
                0
            } else {
                self.in_flight_max
            },
            pattern: match self.pattern {
                SubscribePattern::Split => Pattern::Split,
                SubscribePattern::All => Pattern::All,
                SubscribePattern::Wildcard => Pattern::Wildcard,
            },
            share: self.share.clone(),
            retain: self.retain,
            persistent_subscribers: self.persistent,
            persistent_publishers: self.persistent_publishers,
            pace: self.pace(),
            stop: super::stop(self.count, self.duration),
            warmup: self.warmup,
            threads: if self.one_thread {
                Threads::One
            } else {
                Threads::Two
            },
            drain_idle: self.drain,
            timeline: self.timeline.is_some(),
        })
    }
}

/// `courser bench connect`.
#[derive(Args, Debug)]
pub(crate) struct Connect {
    #[command(flatten)]
    pub(crate) broker: Broker,
    #[command(flatten)]
    pub(crate) report: Report,
    /// Connections in all
    #[arg(short = 'n', long, default_value_t = 10_000)]
    connections: usize,
    /// Connections that are being made at once
    #[arg(long, default_value_t = 200)]
    concurrency: usize,
    /// Connections that are begun a second at most; none: as fast as --concurrency allows
    #[arg(long, value_name = "PER-SECOND")]
    rate: Option<f64>,
    /// Subscriptions of each, to topics of its own
    #[arg(long, default_value_t = 0)]
    subscriptions: usize,
    /// Time that they stay idle before memory is read; a number alone is seconds
    #[arg(long, default_value = "2s", value_name = "DURATION", value_parser = units::duration)]
    hold: Duration,
}

impl Connect {
    pub(super) fn storm(&self, target: Target) -> Storm {
        let (prefix, client_prefix) = self.broker.names();
        Storm {
            target,
            client_prefix,
            prefix,
            connections: self.connections,
            concurrency: self.concurrency.max(1),
            per_second: self.rate.filter(|rate| *rate > 0.0 && rate.is_finite()),
            subscriptions: self.subscriptions,
            hold: self.hold,
            time_max: self.broker.timeout.unwrap_or(STORM_MAX),
        }
    }
}

/// `courser bench retained` and `courser bench absent`.
#[derive(Args, Debug)]
pub(crate) struct Stored {
    #[command(flatten)]
    pub(crate) broker: Broker,
    #[command(flatten)]
    pub(crate) report: Report,
    /// Topics; of retained messages one each
    #[arg(long, default_value_t = 10_000)]
    topics: usize,
    /// Messages for the session that is away
    #[arg(short = 'n', long, default_value_t = 50_000)]
    count: u64,
    /// QoS
    #[arg(short = 'q', long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(0..=2))]
    qos: u8,
    /// Payload bytes, or a size such as 1KiB
    #[arg(short = 's', long, default_value = "64", value_name = "SIZE", value_parser = units::bytes)]
    size: usize,
    /// Messages without acknowledgement at most
    #[arg(short = 'w', long, default_value_t = 100)]
    window: u16,
}

impl Stored {
    pub(super) fn plan(&self) -> Result<Plan, Refusal> {
        let (prefix, client_prefix) = self.broker.names();
        Ok(Plan {
            target: self.broker.target()?,
            prefix,
            client_prefix,
            publishers: 1,
            subscribers: 1,
            topics: self.topics,
            topic: None,
            qos: qos(self.qos),
            subscribe_qos: qos(self.qos),
            payload_bytes: self.size,
            window: self.window,
            in_flight_max: 0,
            pattern: Pattern::Wildcard,
            share: None,
            retain: false,
            persistent_subscribers: false,
            persistent_publishers: false,
            pace: Pace::Closed,
            stop: super::stop(Some(self.count), Duration::ZERO),
            warmup: Duration::ZERO,
            threads: Threads::Two,
            drain_idle: Duration::from_secs(5),
            timeline: false,
        })
    }
}
