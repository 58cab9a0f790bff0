//! What flags stand under in a help: those of one kind together, the verb's own before them.

/// Settings of the broker.
pub(crate) const SETTINGS: &str = "Settings";
/// Who is asked, and as whom.
pub(crate) const CONNECTION: &str = "Connection";
/// What is around the bytes of MQTT.
pub(crate) const LAYERS: &str = "TLS and WebSocket";
/// What the broker publishes when the connection is lost.
pub(crate) const WILL: &str = "Will";
/// What a message says.
pub(crate) const PAYLOAD: &str = "Message";
/// What it says besides, since MQTT 5.
pub(crate) const PROPERTIES: &str = "Properties of MQTT 5";
/// Which rows.
pub(crate) const LISTING: &str = "Listing";
/// What is printed, and how.
pub(crate) const OUTPUT: &str = "Output";
