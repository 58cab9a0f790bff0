//! What the API says, as it goes over the wire. Field names are stable within a major version.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A broker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Node {
    /// Version of the program.
    pub version: String,
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
}
