//! Parts of a session that both halves name: subscriptions, wills, reasons to leave.

use crate::QoS;

/// One filter of a SUBSCRIBE.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subscription {
    /// Topic filter as the client wrote it; of a shared subscription without `$share/NAME/`.
    pub filter: Box<str>,
    /// Share name of a shared subscription.
    pub share: Option<Box<str>>,
    /// What the client chose.
    pub options: SubscriptionOptions,
    /// Subscription identifier, 1 to 268,435,455.
    pub identifier: Option<u32>,
}

/// Options of a subscription, v5 section 3.8.3.1. MQTT 3.1.1 has only the QoS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct SubscriptionOptions {
    /// Highest QoS of deliveries.
    pub qos: QoS,
    /// Not what the same client published.
    pub no_local: bool,
    /// Deliveries keep the publisher's RETAIN.
    pub retain_as_published: bool,
    /// Which retained messages come at subscribing.
    pub retain_handling: RetainHandling,
}

/// Which retained messages come when a subscription is made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum RetainHandling {
    /// All that match.
    #[default]
    Send = 0,
    /// All that match, if the subscription did not exist.
    SendIfNew = 1,
    /// None.
    DoNotSend = 2,
}

/// What became of one filter of a SUBSCRIBE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubscribeResult {
    /// Granted with this highest QoS.
    Granted(QoS),
    /// The session has as many subscriptions as it may have.
    QuotaExceeded,
    /// Not allowed to this client.
    NotAuthorized,
    /// Kind of subscription that is switched off here.
    Unsupported,
    /// Nothing of the above.
    Failed,
}

/// How members of a shared group take turns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum SharedStrategy {
    /// One after the other, while many messages wait in runs of up to 16.
    #[default]
    RoundRobin = 0,
    /// One member as long as it is there and has room.
    Sticky = 1,
    /// By a hash of the topic: a topic stays with a member as long as the members stay.
    HashTopic = 2,
    /// Who has the fewest messages under way.
    LeastOutstanding = 3,
}

/// A will, kept by the home until it is due or deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Will {
    /// Topic name.
    pub topic: Box<str>,
    /// As in [`crate::Publish::properties`].
    pub properties: Box<[u8]>,
    /// Application message.
    pub payload: Box<[u8]>,
    /// Quality of service.
    pub qos: QoS,
    /// Whether it becomes the topic's retained message.
    pub retain: bool,
    /// Seconds between the loss of the connection and the will.
    pub delay_seconds: u32,
    /// Lifetime in seconds once it is published.
    pub expiry_seconds: Option<u32>,
}

/// Why a front lets go of its session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DetachCause {
    /// The client said good-bye: the will is deleted.
    Disconnect,
    /// The client said good-bye and asked for its will, v5 DISCONNECT 0x04.
    DisconnectWithWill,
    /// The connection was lost, closed for a fault, or timed out.
    Lost,
    /// Another connection took the client id.
    TakenOver,
    /// The server stops.
    ServerStops,
}
