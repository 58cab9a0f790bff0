//! Limits of users, roles and domains: data, not configuration. What is not set is the process's own default, which is configuration.

use serde::{Deserialize, Serialize};

/// What a user's clients may use, each by itself unless it is said otherwise. `None`: not limited here; the settings of the process apply
/// in any case. Operators set none to 0; one of an earlier build counts as 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Messages a second that a client may publish, with a burst of one second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub messages_per_second: Option<u32>,
    /// Bytes of topic, properties and payload a second that a client may publish, with a burst of one second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes_per_second: Option<u32>,
    /// Subscriptions of a session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subscriptions: Option<u32>,
    /// Deliveries of QoS 1 and 2 under way to a client.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub in_flight: Option<u32>,
    /// Clients of the user that are connected at once, on this node, by client id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connections: Option<u32>,
    /// Sessions of the user that outlive their connections, on this node, with those that have one now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sessions: Option<u32>,
    /// Messages that may wait for a session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queued_messages: Option<u32>,
    /// Bytes of messages that may wait for a session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queued_bytes: Option<u32>,
    /// Seconds that a message may wait for a session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queued_seconds: Option<u32>,
}

/// What all clients of a domain together may have retained. `None`: as much as the settings of the process allow, which apply in any case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RetainedLimits {
    /// Topics with a retained message. As of [`Limits`], 0 counts as 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub messages: Option<u32>,
    /// Bytes of all of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u32>,
}

impl RetainedLimits {
    /// Whether the domain limits nothing.
    #[must_use]
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

impl Limits {
    /// The smaller of both, each by itself.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        self.with(other, |mine, other| match (mine, other) {
            (Some(mine), Some(other)) => Some(mine.min(other)),
            (mine, other) => mine.or(other),
        })
    }

    /// These, and where there is none the more general one, each by itself.
    #[must_use]
    pub fn or(self, general: Self) -> Self {
        self.with(general, Option::or)
    }

    fn with(self, other: Self, one: fn(Option<u32>, Option<u32>) -> Option<u32>) -> Self {
        Self {
            messages_per_second: one(self.messages_per_second, other.messages_per_second),
            bytes_per_second: one(self.bytes_per_second, other.bytes_per_second),
            subscriptions: one(self.subscriptions, other.subscriptions),
            in_flight: one(self.in_flight, other.in_flight),
            connections: one(self.connections, other.connections),
            sessions: one(self.sessions, other.sessions),
            queued_messages: one(self.queued_messages, other.queued_messages),
            queued_bytes: one(self.queued_bytes, other.queued_bytes),
            queued_seconds: one(self.queued_seconds, other.queued_seconds),
        }
    }
}
