//! What the API says, as it goes over the wire. Field names are stable within a major version.

mod accounts;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

pub use accounts::{
    Administration, Decision, Domain, DomainChange, Imported, Limits, NewPassword, NewRole,
    NewUser, Password, Role, RoleChange, Rule, User, UserChange, UserState,
};

/// A page of rows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct List<T> {
    /// The rows; may be none although there is a next page.
    pub items: Vec<T>,
    /// The cursor of the next page; none: that was all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// A broker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Node {
    /// Version of the program.
    pub version: String,
    /// The commit that it is built of, as far as it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// `ready`, or why not.
    pub state: String,
    /// Seconds since operators are served.
    pub uptime_seconds: u64,
    /// Threads that serve connections.
    pub shards: u16,
    /// Connections.
    pub connections: u64,
    /// Sessions, with and without a connection.
    pub sessions: u64,
    /// Subscriptions, shared ones included.
    pub subscriptions: u64,
    /// Retained messages.
    pub retained_messages: u64,
    /// Messages that wait for sessions and groups.
    pub queued_messages: u64,
    /// Publishes received since the start.
    pub messages_received: u64,
    /// Deliveries since the start.
    pub messages_delivered: u64,
    /// Messages since the start that did not reach a receiver which wanted them.
    #[serde(default)]
    pub messages_dropped: u64,
    /// Bytes of MQTT received since the start.
    #[serde(default)]
    pub bytes_received: u64,
    /// Bytes of MQTT sent since the start.
    #[serde(default)]
    pub bytes_sent: u64,
    /// CPU time of the threads that serve connections, since the start.
    #[serde(default)]
    pub cpu_us: u64,
    /// Bytes that the process has allocated.
    pub memory_held_bytes: u64,
    /// Bytes that it may have: `memory.max`.
    pub memory_limit_bytes: u64,
    /// The part of the broker that holds most of them, by an estimate: a `component` of `courser_memory_held_bytes`.
    pub memory_largest: String,
    /// Of the settings that are in force, as `courser config check` prints it.
    pub settings_digest: Option<String>,
}

/// A listener.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Listener {
    /// Its name; `mqtt` is that of `mqtt.listen`.
    pub name: String,
    /// `mqtt`, `mqtts`, `ws` or `wss`.
    pub protocol: String,
    /// Addresses with the ports that were chosen, or paths.
    pub places: Vec<String>,
    /// Where clients find it from outside, if the settings say so.
    pub advertised: Option<String>,
    /// `none`, `accounts` or `tokens`.
    pub authentication: String,
    /// Connections that are open.
    pub connections: u64,
    /// How many there may be.
    pub connections_max: u64,
}

/// A backup that was begun since the start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Backup {
    /// `none`, `running`, `done` or `failed`.
    pub state: String,
    /// Which it is: no other one has it, also after another start of the server. Empty: none was begun.
    #[serde(default)]
    pub id: String,
    /// Where to.
    pub folder: String,
    /// Its number there; 0: it has not begun.
    pub number: u32,
    /// Bytes of segments that it is of.
    pub bytes_total: u64,
    /// Bytes that were read.
    pub bytes_read: u64,
    /// Bytes that were written.
    pub bytes_copied: u64,
    /// Bytes that the backup before has.
    pub bytes_reused: u64,
    /// Damage in what was copied, which the backup has too.
    pub damaged: Vec<String>,
    /// What of the backups before it is not as it should be; this one does not need it.
    pub warnings: Vec<String>,
    /// Why it failed.
    pub error: Option<String>,
    /// Its last entry of each partition, once it is done.
    pub partitions: Vec<BackupPartition>,
}

/// What a backup has of a partition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BackupPartition {
    /// Its number.
    pub partition: u16,
    /// Its last entry.
    pub index: u64,
}

/// What of the data is damaged, and what that concerns.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Damage {
    /// Partitions that do not serve.
    pub set_aside: Vec<SetAside>,
    /// Streams that have stopped at a record which the disk has lost: the first thousand.
    pub stopped: Vec<StoppedStream>,
    /// How many places need such a record.
    pub stopped_places: u64,
    /// What was accepted with `courser repair` and done at this start, in words.
    pub accepted: Vec<String>,
    /// Damage that the scrub has found since the start in segments that still hold something.
    pub rotten: Vec<RottenPlace>,
    /// Checkpoints that count, their manifests, and files beside them, that the scrub has found damaged since the start.
    pub rotten_files: Vec<RottenFile>,
}

/// A file of the data folder that is damaged. What it says is in memory; a start would need it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RottenFile {
    /// Its path within the data folder.
    pub file: String,
    /// The partition whose checkpoint it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partition: Option<u16>,
    /// What is known of it.
    pub what: String,
    /// What ends it.
    pub ends_by: String,
}

/// Damage in a segment that is in use. What it concerns is served from memory; a start would stop there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RottenPlace {
    /// Number of the segment.
    pub segment: u64,
    /// Byte of its file.
    pub offset: u64,
    /// What is known of it.
    pub what: String,
    /// Messages in it that still wait, each once for each that waits for it.
    pub messages: u64,
    /// Whose they are, in words: the first thousand.
    pub streams: Vec<String>,
}

/// A partition that is set aside.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SetAside {
    /// Its number.
    pub partition: u16,
    /// Why.
    pub why: String,
    /// The last entry that it has.
    pub applied: u64,
    /// `matching publishes`, `all publishes` or `no publishes`.
    pub refuses: String,
    /// Sessions that are not let in; none: it is not known how many, as for the next two.
    pub sessions: Option<u64>,
    /// Messages that wait in it.
    pub queued_messages: Option<u64>,
    /// Retained messages that are not found.
    pub retained_messages: Option<u64>,
    /// The order of `courser repair` that ends it.
    pub ends_by: String,
}

/// A stream that has stopped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StoppedStream {
    /// Partition that has it.
    pub partition: u16,
    /// Whose it is, in words.
    pub stream: String,
    /// The position at which it has stopped.
    pub position: u64,
    /// Records of it that are lost.
    pub records: u64,
}

/// A connection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Client {
    /// Client id; empty before CONNECT.
    pub client_id: String,
    /// `3.1.1` or `5.0`; none before CONNECT.
    pub version: Option<String>,
    /// The other end.
    pub address: Option<String>,
    /// The listener that let it in.
    pub listener: String,
    /// Who its certificate says it is.
    pub identity: Option<String>,
    /// The user that it has logged in as.
    pub user: Option<String>,
    /// When it was accepted, RFC 3339.
    pub connected_at: String,
    /// 0: none.
    pub keep_alive_seconds: u16,
    /// Where its session is, `partition/number`.
    pub session: Option<String>,
    /// Whether it gave a will.
    pub will: bool,
    /// Bytes that wait to be written to it.
    pub output_bytes: u64,
    /// Its publishes that wait for their destinations.
    pub unsettled_publishes: u32,
}

/// A connection, or that there is none; and what happened to the client id of late.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ClientDetail {
    /// The connection.
    pub client: Option<Client>,
    /// The session that is kept for it.
    pub session: Option<Session>,
    /// The last events, oldest first.
    pub events: Vec<Event>,
}

/// Something that happened to a client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Event {
    /// When, RFC 3339.
    pub at: String,
    /// `connected`, `disconnected`, or `denied`: it asked for what it has no right to. Of the last kind a client has one, the last.
    pub event: String,
    /// Client id; empty before CONNECT.
    pub client_id: String,
    /// The other end.
    pub address: Option<String>,
    /// Why it was disconnected, or what it was denied, in words.
    pub cause: Option<String>,
    /// The reason code that it was told, as in MQTT 5.0.
    pub reason_code: Option<u8>,
    /// What it was denied: `publish`, `subscribe`, or `subscribe_shared`.
    pub action: Option<String>,
    /// Of what it was denied: the topic name or filter, behind a share name; the first 512 bytes and `…` where it is longer.
    pub topic: Option<String>,
}

/// Events, and where to go on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Events {
    /// The events, by time.
    pub items: Vec<Event>,
    /// `after` of the next question.
    pub next: String,
}

/// One line of what a client sends and gets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TraceLine {
    /// When, RFC 3339.
    pub at: String,
    /// `received` from the client, `sent` to it, or `connection`.
    pub direction: String,
    /// The packet in words; never a payload or a password.
    pub what: String,
}

/// Lines of a trace, and where to go on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Trace {
    /// The lines, by time.
    pub items: Vec<TraceLine>,
    /// `after` of the next question. The trace ends 10 s after the last one.
    pub next: String,
    /// Lines that were not kept until this question came.
    pub lost: u64,
}

/// A session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Session {
    /// Client id.
    pub client_id: String,
    /// The user to whom it belongs.
    pub user: Option<String>,
    /// Whether it has a connection.
    pub connected: bool,
    /// Whether it outlives the process.
    pub durable: bool,
    /// Seconds that it outlives its connection; none: for ever.
    pub expiry_seconds: Option<u32>,
    /// When it ends, RFC 3339; none while it has a connection.
    pub ends_at: Option<String>,
    /// Subscriptions.
    pub subscriptions: u64,
    /// Messages that wait, those under way included.
    pub queued_messages: u32,
    /// Their encoded bytes.
    pub queued_bytes: u64,
    /// Messages under way to the client.
    pub in_flight: u32,
    /// Whether it has a will.
    pub will: bool,
    /// Where it is, `partition/number`.
    pub place: String,
}

/// A subscription.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Subscription {
    /// Whose.
    pub client_id: String,
    /// Topic filter.
    pub filter: String,
    /// Share name of a shared one.
    pub share: Option<String>,
    /// Highest QoS.
    pub qos: u8,
    /// Not its own messages.
    pub no_local: bool,
    /// Deliveries keep the publisher's RETAIN.
    pub retain_as_published: bool,
    /// Retain Handling, as in MQTT 5.0.
    pub retain_handling: u8,
    /// Subscription identifier.
    pub identifier: Option<u32>,
}

/// A retained message without its payload.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Retained {
    /// Its topic.
    pub topic: String,
    /// QoS of the publish.
    pub qos: u8,
    /// Bytes of the payload.
    pub payload_bytes: u64,
    /// When it expires, RFC 3339.
    pub expires_at: Option<String>,
    /// The disk has lost it: nothing else than its topic is known. Nobody gets it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub damaged: bool,
}

/// A retained message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RetainedDetail {
    /// Its topic.
    pub topic: String,
    /// QoS of the publish.
    pub qos: u8,
    /// Bytes of the payload.
    pub payload_bytes: u64,
    /// When it expires, RFC 3339.
    pub expires_at: Option<String>,
    /// The payload as text; none: it is not UTF-8.
    pub payload: Option<String>,
    /// The payload in hexadecimal digits, where it is no text.
    pub payload_hex: Option<String>,
    /// Whether only the first 64 KiB of the payload are here.
    pub cut: bool,
}

/// Where a client is sent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Elsewhere {
    /// Server Reference: `HOST` or `HOST:PORT`, several with one space between.
    pub to: String,
    /// Whether it should stay there (0x9D) rather than come again later (0x9C).
    #[serde(default)]
    pub permanent: bool,
}

/// What was done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Done {
    /// `kicked`, `redirected`, `deleted`, `added`, `changed` or `removed`; in a dry run `would kick`, and so on.
    pub done: String,
    /// What it was done to.
    pub what: String,
}

/// What became of something that was there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Changed {
    /// `changed`, or `unchanged`; in a dry run `would change`, or `unchanged`.
    pub done: String,
    /// What it was done to.
    pub what: String,
    /// In a dry run: how it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub before: Option<Value>,
    /// In a dry run: how it would be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub after: Option<Value>,
}

/// What was done to all that a filter finds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DoneToMany {
    /// `deleted`, or `would delete`.
    pub done: String,
    /// The filter.
    pub what: String,
    /// To how many.
    pub count: u64,
    /// The cursor of those behind them; none: those were all.
    pub next: Option<String>,
}
