//! Messages and filters as a user of the client has them.

use courser_mqtt::codec::QoS;

/// An application message, sent or received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Topic name.
    pub topic: String,
    /// Application message.
    pub payload: Vec<u8>,
    /// QoS of the publish or of the delivery.
    pub qos: QoS,
    /// RETAIN.
    pub retain: bool,
    /// DUP; of received ones.
    pub duplicate: bool,
    /// Packet id; of received ones with QoS > 0.
    pub packet_id: Option<u16>,
    /// Properties of MQTT 5, user properties in their order.
    pub properties: Vec<MessageProperty>,
}

/// One property of a message, v5 section 3.3.2.3.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MessageProperty {
    /// Payload Format Indicator: whether the payload is UTF-8 text.
    PayloadIsText(bool),
    /// Message Expiry Interval in seconds.
    MessageExpiry(u32),
    /// Content Type.
    ContentType(String),
    /// Response Topic.
    ResponseTopic(String),
    /// Correlation Data.
    CorrelationData(Vec<u8>),
    /// Subscription Identifier; of received ones.
    SubscriptionId(u32),
    /// Topic Alias; of received ones.
    TopicAlias(u16),
    /// User Property.
    User(String, String),
}

/// One filter of a subscription.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter {
    /// Topic filter, `$share/…` included.
    pub filter: String,
    /// Highest QoS of deliveries.
    pub qos: QoS,
    /// Not the own messages (5.0).
    pub no_local: bool,
    /// Keep the publisher's RETAIN (5.0).
    pub retain_as_published: bool,
}
