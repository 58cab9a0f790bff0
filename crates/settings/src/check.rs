//! Rules between settings, checked after every value is within its own range.

use crate::Settings;
use crate::table::{Listener, Mqtt};
use crate::value::{ClientCertificates, Login};

/// What is wrong with values that are each allowed; the key is the one to change.
pub(crate) fn contradictions(settings: &Settings) -> Vec<(&'static str, String)> {
    let mqtt = &settings.mqtt;
    let mut found = size_faults(mqtt);
    found.extend(advertised_fault(mqtt).map(|fault| ("mqtt.advertised", fault)));
    for (at, address) in mqtt.listen.iter().enumerate() {
        // Port 0 asks for any free port, so two of them are not the same.
        if address.port() != 0 && mqtt.listen[..at].contains(address) {
            found.push(("mqtt.listen", format!("mqtt.listen names {address} twice")));
        }
    }
    found.extend(token_faults(settings));
    for door in &settings.doors {
        let faults = door_faults(door, settings).into_iter();
        found.extend(faults.map(|fault| ("listener", fault)));
    }
    found
}

/// Sizes that are larger than others which they are a part of.
fn size_faults(mqtt: &Mqtt) -> Vec<(&'static str, String)> {
    let packet = ("mqtt.packet_bytes_max", mqtt.packet_bytes_max);
    let connect = ("mqtt.connect_bytes_max", mqtt.connect_bytes_max);
    let pairs = [
        (("mqtt.topic_bytes_max", mqtt.topic_bytes_max), packet),
        (connect, packet),
        (
            ("mqtt.client_id_bytes_max", mqtt.client_id_bytes_max),
            connect,
        ),
    ];
    let too_large = pairs
        .into_iter()
        .filter(|((_, part), (_, whole))| part > whole);
    too_large
        .map(|((key, part), (other, whole))| {
            (
                key,
                format!("{key} = {part} is more than {other} = {whole}"),
            )
        })
        .collect()
}

/// What is wrong with the address that clients know.
fn advertised_fault(mqtt: &Mqtt) -> Option<String> {
    let address = mqtt.advertised.as_deref()?;
    if address.is_empty() || address.contains(char::is_whitespace) {
        return Some(format!("advertised = {address:?} is not one HOST[:PORT]"));
    }
    let itself = mqtt.redirect_to.split_whitespace().any(|to| to == address);
    itself.then(|| format!("redirect_to would send clients in a circle: {address} is advertised"))
}

/// What is wrong with `tokens`, where a listener asks for some.
fn token_faults(settings: &Settings) -> Option<(&'static str, String)> {
    let tokens = &settings.tokens;
    let doors = settings.doors.iter().map(|door| door.authentication);
    let asked = doors
        .chain([settings.mqtt.authentication])
        .any(|it| it == Login::Tokens);
    let has_keys =
        tokens.key_set.is_some() || !tokens.public_keys.is_empty() || tokens.secret_file.is_some();
    let fault = if tokens.user_claim.is_empty() {
        ("tokens.user_claim", "tokens.user_claim names no claim")
    } else if asked && !has_keys {
        let fault = "authentication = \"tokens\" needs keys: one of tokens.key_set, tokens.public_keys and tokens.secret_file";
        ("tokens.key_set", fault)
    } else if asked && tokens.audience.is_empty() {
        let fault = "authentication = \"tokens\" needs tokens.audience: a token for somebody else must open nothing here";
        ("tokens.audience", fault)
    } else {
        return None;
    };
    Some((fault.0, fault.1.to_owned()))
}

/// What is wrong with one `[[listener]]`.
fn door_faults(door: &Listener, settings: &Settings) -> Vec<String> {
    let mut faults = place_faults(door, settings);
    let mqtt = settings.mqtt_at(door);
    // What is wrong for all is said once.
    if size_faults(&settings.mqtt).is_empty() {
        faults.extend(size_faults(&mqtt).into_iter().map(|(_, fault)| fault));
    }
    if mqtt.session_expiry_max > settings.mqtt.session_expiry_max {
        faults.push("session_expiry_max is longer than mqtt.session_expiry_max".to_owned());
    }
    faults.extend(advertised_fault(&mqtt));
    let name = &door.name;
    let faults = faults.into_iter();
    faults
        .map(|fault| format!("listener {name:?}: {fault}"))
        .collect()
}

/// What is wrong with where a listener listens, and what is spoken there.
fn place_faults(door: &Listener, settings: &Settings) -> Vec<String> {
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
    let broken = rules.into_iter().filter(|(broken, _)| *broken);
    broken.map(|(_, fault)| fault).collect()
}

#[cfg(test)]
mod tests {
    use crate::Sources;

    #[test]
    fn tokens_need_keys_an_audience_and_a_claim() {
        let asked = "mqtt.authentication=tokens";
        let listener = r#"listener=[{ name = "x", unix = "/tmp/x", authentication = "tokens" }]"#;
        let (keys, audience) = ("tokens.key_set=\"keys.json\"", "tokens.audience=[\"us\"]");
        for (settings, fault) in [
            (&[asked, audience][..], "needs keys"),
            (&[listener, audience], "needs keys"),
            (&[asked, keys], "needs tokens.audience"),
            (&[asked, audience, keys], ""),
            (&[asked, audience, "tokens.secret_file=\"s\""], ""),
            (&[asked, audience, "tokens.public_keys=[\"k\"]"], ""),
            (&[listener, audience, keys], ""),
            (&["tokens.user_claim=\"\""], "names no claim"),
        ] {
            let sources = settings
                .iter()
                .fold(Sources::new(), |all, one| all.set(one));
            let said = sources
                .check()
                .err()
                .map_or_else(String::new, |errors| errors.to_string());
            assert_eq!(said.is_empty(), fault.is_empty(), "{settings:?}: {said}");
            assert!(said.contains(fault), "{settings:?}: {said}");
        }
    }

    #[test]
    fn a_listener_that_cannot_work_is_refused_with_the_reason() {
        let table = [
            (r#"address = "127.0.0.1:1884""#, ""),
            (r#"unix = "/tmp/x""#, ""),
            (r#"activation = "mqtt""#, ""),
            ("", "needs one of address, unix and activation"),
            (r#"protocol = "mqtts""#, "mqtts needs certificate and key"),
            (r#"protocol = "mqtts", certificate = "c", key = "k""#, ""),
            (r#"protocol = "ws""#, ""),
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
            (r#"unix = "/tmp/x", packet_bytes_max = "16KiB""#, ""),
            (
                r#"unix = "/tmp/x", packet_bytes_max = "8KiB""#,
                "mqtt.connect_bytes_max = 16KiB is more than mqtt.packet_bytes_max = 8KiB",
            ),
            (
                r#"unix = "/tmp/x", receive_maximum = 0"#,
                "allowed: 1 to 65535",
            ),
            (
                r#"unix = "/tmp/x", session_expiry_max = "8d""#,
                "longer than mqtt.session_expiry_max",
            ),
            (r#"unix = "/tmp/x", advertised = "a b""#, "is not one HOST"),
            (
                r#"unix = "/tmp/x", advertised = "a:1", redirect_to = "b a:1""#,
                "in a circle",
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
