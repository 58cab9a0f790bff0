//! Rules between settings, checked after every value is within its own range.

use crate::Settings;

/// What is wrong with values that are each allowed; the key is the one to change.
pub(crate) fn contradictions(settings: &Settings) -> Vec<(&'static str, String)> {
    let mqtt = &settings.mqtt;
    let mut found = Vec::new();
    let mut at_most =
        |key: &'static str, value: crate::ByteSize, other: &str, limit: crate::ByteSize| {
            if value > limit {
                found.push((
                    key,
                    format!("{key} = {value} is more than {other} = {limit}"),
                ));
            }
        };
    at_most(
        "mqtt.topic_bytes_max",
        mqtt.topic_bytes_max,
        "mqtt.packet_bytes_max",
        mqtt.packet_bytes_max,
    );
    at_most(
        "mqtt.connect_bytes_max",
        mqtt.connect_bytes_max,
        "mqtt.packet_bytes_max",
        mqtt.packet_bytes_max,
    );
    at_most(
        "mqtt.client_id_bytes_max",
        mqtt.client_id_bytes_max,
        "mqtt.connect_bytes_max",
        mqtt.connect_bytes_max,
    );
    for (at, address) in mqtt.listen.iter().enumerate() {
        // Port 0 asks for any free port, so two of them are not the same.
        if address.port() != 0 && mqtt.listen[..at].contains(address) {
            found.push(("mqtt.listen", format!("mqtt.listen names {address} twice")));
        }
    }
    found
}
