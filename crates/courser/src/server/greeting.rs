//! What a server says of itself at its start: to people as text on standard output, to programs as lines of the log.

mod reach;

use std::io::{self, Write as _};
use std::path::PathBuf;
use std::time::Instant;

use courser_admin::api::{SetAside, StoppedStream};
use courser_broker::{Accepted, Authentication, Broker};
use courser_settings::{ListenerProtocol, LogFormat, Settings};
use serde_json::{Map, Value, json};

use self::reach::Place;
use crate::logging::FACTS;
use crate::operators::Operators;

/// Streams that are named at a start.
const DAMAGE_TOLD: usize = 20;

/// A closed standard output is no reason not to serve.
fn say(text: &str) {
    let mut out = io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

/// One line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Said {
    event: &'static str,
    text: String,
    /// What it says, for programs.
    facts: Value,
}

impl Said {
    /// `event` is its key in the log.
    pub(crate) fn new(event: &'static str, text: impl Into<String>) -> Self {
        Self {
            event,
            text: text.into(),
            facts: Value::Object(Map::new()),
        }
    }

    /// The same with fields, where the line is one of the log.
    pub(crate) fn with(self, facts: Value) -> Self {
        Self { facts, ..self }
    }
}

/// What a started broker says.
pub(super) struct Greeting<'a> {
    pub(super) broker: &'a Broker,
    pub(super) operators: &'a Operators,
    pub(super) shards: u16,
    /// Bytes that the process may have allocated.
    pub(super) memory_max: u64,
    /// None where nothing is kept.
    pub(super) data: Option<PathBuf>,
    pub(super) settings: &'a Settings,
    /// Connections that the limit of descriptors allows, where the settings would allow more.
    pub(super) capped: Option<usize>,
    /// For whom it is said.
    pub(super) format: LogFormat,
    /// When the start of the broker began.
    pub(super) began: Instant,
}

impl Greeting<'_> {
    /// Says some lines.
    pub(super) fn tell(&self, lines: Vec<Said>) {
        for Said { event, text, facts } in lines {
            match self.format {
                LogFormat::Text => say(&format!("{text}\n")),
                LogFormat::Json => tracing::info!(event, { FACTS } = facts.to_string(), "{text}"),
            }
        }
    }

    /// Once it listens.
    pub(super) fn beginning(&self) -> Vec<Said> {
        let version = env!("CARGO_PKG_VERSION");
        let text = format!("courser {version}, {} shards", self.shards);
        let facts = json!({"version": version, "shards": self.shards});
        let mut lines = vec![Said::new("started", text).with(facts)];
        lines.extend(self.listening());
        lines.extend(self.operators.greeting());
        let text = match &self.data {
            Some(data) => format!("data: {}", data.display()),
            None => "data: in memory, nothing survives a stop".to_owned(),
        };
        let path = self.data.as_ref().map(|data| data.display().to_string());
        lines.push(Said::new("data", text).with(json!({"path": path})));
        let places = self.places();
        let access = Said::new("access", reach::who_may_connect(&places));
        lines.push(access.with(reach::facts(&places)));
        let memory = format!("memory: at most {} MiB", self.memory_max >> 20);
        lines.push(Said::new("memory", memory).with(json!({"max_bytes": self.memory_max})));
        lines.extend(self.capped.map(|connections| {
            let text = format!(
                "at most {connections} connections: the limit of open descriptors (ulimit -n, LimitNOFILE)"
            );
            Said::new("connections", text).with(json!({"connections_max": connections}))
        }));
        lines
    }

    /// Where anybody can connect to, for MQTT or as an operator.
    fn places(&self) -> Vec<Place> {
        let listeners = self.broker.control().listeners();
        let doors = &self.settings.doors;
        let mqtt = listeners.iter().flat_map(|listener| {
            let own = doors.iter().find(|door| door.name == listener.name);
            let behind_proxies = own.is_some_and(|door| !door.proxies.is_empty());
            let is_open = listener.authentication == Authentication::None;
            let places = listener.places.iter();
            places.map(move |place| Place::mqtt(place, behind_proxies, is_open))
        });
        let operators = self.operators.addresses().iter();
        mqtt.chain(operators.map(Place::operators)).collect()
    }

    /// Where it listens, and where clients find that.
    fn listening(&self) -> Vec<Said> {
        let mut lines = Vec::new();
        for listener in self.broker.control().listeners() {
            let below = match listener.protocol {
                ListenerProtocol::Mqtt => "",
                ListenerProtocol::Mqtts => " over TLS",
                ListenerProtocol::Ws => " over WebSocket",
                ListenerProtocol::Wss => " over WebSocket and TLS",
            };
            let name = match &*listener.name {
                "mqtt" => String::new(),
                name => format!(" ({name})"),
            };
            let found_at = listener.advertised.as_ref();
            let found =
                found_at.map_or_else(String::new, |at| format!(", clients find it at {at}"));
            lines.extend(listener.places.iter().map(|place| {
                let text = format!("MQTT 3.1.1 and 5.0{below} on {place}{name}{found}");
                Said::new("listening", text).with(json!({
                    "listener": &*listener.name,
                    "protocol": listener.protocol.name(),
                    "address": place.to_string(),
                    "advertised": found_at,
                }))
            }));
        }
        lines
    }

    /// Once it serves.
    pub(super) fn end(&self) -> Vec<Said> {
        let mut lines = Vec::new();
        lines.extend(self.broker.recovered().map(|found| {
            let took = self.began.elapsed().as_millis();
            let text = format!("recovered: {found}; all in {took} ms");
            let took = u64::try_from(took).unwrap_or(u64::MAX);
            let mut facts = counted(found.counters());
            facts["took_ms"] = took.into();
            Said::new("recovered", text).with(facts)
        }));
        self.damage(&mut lines);
        lines.push(Said::new("ready", "ready"));
        lines
    }

    /// What does not serve, and what was given up.
    fn damage(&self, lines: &mut Vec<Said>) {
        let state = self.broker.state();
        for accepted in state.accepted.iter().take(DAMAGE_TOLD) {
            let text = format!("LOST, as ordered: {accepted}");
            lines.push(Said::new("lost_as_ordered", text).with(lost(accepted)));
        }
        for aside in &state.set_aside {
            let facts = json!(SetAside::from(aside));
            lines.push(Said::new("damaged", format!("DAMAGED: {aside}")).with(facts));
        }
        for stopped in state.stopped.iter().take(DAMAGE_TOLD) {
            let facts = json!(StoppedStream::from(stopped));
            lines.push(Said::new("damaged", format!("DAMAGED: {stopped}")).with(facts));
        }
        if state.set_aside.is_empty() && state.stopped.is_empty() {
            return;
        }
        if let Some(data) = &self.data {
            let text = format!(
                "DAMAGED: {} partitions are set aside, {} messages are lost where they are needed; stop, and see: courser repair {}",
                state.set_aside.len(),
                state.stopped_places,
                data.display()
            );
            let facts = json!({"partitions_set_aside": state.set_aside.len(), "messages_lost": state.stopped_places});
            lines.push(Said::new("damaged", text).with(facts));
        }
    }
}

/// Numbers with their names.
pub(super) fn counted(counters: Vec<(impl Into<String>, u64)>) -> Value {
    counters.into_iter().collect()
}

/// A loss that was accepted, for programs.
fn lost(accepted: &Accepted) -> Value {
    match accepted {
        Accepted::Entries(partition, what) => {
            json!({"partition": partition.0, "lost": "entries", "what": what})
        }
        Accepted::State(partition, behind) => {
            json!({"partition": partition.0, "lost": "state", "index": behind.0})
        }
        Accepted::Skipped(partition, index) => {
            json!({"partition": partition.0, "lost": "entry", "index": index.0})
        }
        Accepted::Records(partition, stream, records) => {
            json!({"partition": partition.0, "lost": "records", "stream": stream.to_string(), "records": records})
        }
    }
}
