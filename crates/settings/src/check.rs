//! Rules between settings, checked after every value is within its own range.

use crate::Settings;
use crate::table::Listener;
use crate::value::ClientCertificates;

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
    for door in &settings.doors {
        found.extend(door_faults(door, settings).map(|fault| ("listener", fault)));
    }
    found
}

/// What is wrong with one `[[listener]]`.
fn door_faults(door: &Listener, settings: &Settings) -> impl Iterator<Item = String> {
    let name = &door.name;
    let places = usize::from(!door.address.is_empty())
        + usize::from(door.unix.is_some())
        + usize::from(door.activation.is_some());
    let secure = door.protocol.is_secure();
    let shows = door.client_certificates != ClientCertificates::Off;
    let octal = u32::from_str_radix(&door.unix_mode, 8).is_ok_and(|mode| mode <= 0o777);
    let taken = door
        .address
        .iter()
        .find(|address| address.port() != 0 && settings.mqtt.listen.contains(address));
    let rules = [
        (name == "mqtt", "\"mqtt\" is the name of mqtt.listen".to_owned()),
        (places != 1, "needs one of address, unix and activation".to_owned()),
        (
            secure && (door.certificate.is_none() || door.key.is_none()),
            format!("{} needs certificate and key", door.protocol.name()),
        ),
        (
            !secure && (door.certificate.is_some() || door.key.is_some()),
            format!("{} has no TLS: certificate and key are for mqtts and wss", door.protocol.name()),
        ),
        (
            shows && !secure,
            "client_certificates are for mqtts and wss".to_owned(),
        ),
        (
            secure && shows && door.client_authorities.is_none(),
            "client_certificates needs client_authorities".to_owned(),
        ),
        (
            !shows && (door.client_authorities.is_some() || door.client_revocations.is_some()),
            "client_authorities and client_revocations need client_certificates = \"asked\" or \"required\"".to_owned(),
        ),
        (!octal, "unix_mode is three octal digits such as \"660\"".to_owned()),
        (!door.path.starts_with('/'), "path begins with \"/\"".to_owned()),
        (
            !door.proxies.is_empty() && door.unix.is_some(),
            "proxies are named by address, which a Unix socket has none of".to_owned(),
        ),
        (
            taken.is_some(),
            taken.map_or_else(String::new, |address| format!("mqtt.listen has {address} already")),
        ),
    ];
    let faults = rules.into_iter().filter(|(broken, _)| *broken);
    let name = name.clone();
    faults.map(move |(_, fault)| format!("listener {name:?}: {fault}"))
}

#[cfg(test)]
mod tests {
    use crate::Sources;

    #[test]
    fn a_listener_that_cannot_work_is_refused_with_the_reason() {
        let table = [
            (r#"address = "127.0.0.1:1884""#, ""),
            (r#"unix = "/tmp/x""#, ""),
            (r#"activation = "mqtt""#, ""),
            ("", "needs one of address, unix and activation"),
            (r#"unix = "/tmp/x", activation = "mqtt""#, "needs one of"),
            (
                r#"address = "127.0.0.1:1", protocol = "mqtts""#,
                "mqtts needs certificate and key",
            ),
            (
                r#"address = "127.0.0.1:1", protocol = "wss", certificate = "c", key = "k""#,
                "",
            ),
            (
                r#"address = "127.0.0.1:1", certificate = "c", key = "k""#,
                "mqtt has no TLS",
            ),
            (
                r#"address = "127.0.0.1:1", client_certificates = "asked""#,
                "are for mqtts and wss",
            ),
            (
                r#"address = "127.0.0.1:1", protocol = "mqtts", certificate = "c", key = "k", client_certificates = "asked""#,
                "needs client_authorities",
            ),
            (
                r#"address = "127.0.0.1:1", protocol = "mqtts", certificate = "c", key = "k", client_authorities = "a""#,
                "need client_certificates",
            ),
            (r#"unix = "/tmp/x", unix_mode = "999""#, "octal"),
            (r#"address = "127.0.0.1:1", path = "mqtt""#, "path begins"),
            (
                r#"unix = "/tmp/x", proxies = "10.0.0.1""#,
                "named by address",
            ),
            (
                r#"address = "127.0.0.1:1883""#,
                "mqtt.listen has 127.0.0.1:1883 already",
            ),
            (
                r#"address = "127.0.0.1:1", proxies = "10.0.0.0/33""#,
                "list of addresses or networks",
            ),
        ];
        for (fields, fault) in table {
            let comma = if fields.is_empty() { "" } else { ", " };
            let text = format!(r#"listener=[{{ name = "x"{comma}{fields} }}]"#);
            match Sources::new().set(&text).check() {
                Ok(_) => assert_eq!(fault, "", "{fields}"),
                Err(errors) => {
                    let errors = errors.to_string();
                    assert!(
                        !fault.is_empty() && errors.contains(fault),
                        "{fields}: {errors}"
                    );
                }
            }
        }
    }
}
