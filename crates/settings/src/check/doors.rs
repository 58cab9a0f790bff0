//! One `[[listener]]`: where it listens, what is spoken there, and its own limits.

use std::path::{Component, Path, PathBuf};

use super::{Fault, View, advertised_fault, client_ids_fault, field, item, size_faults};
use crate::table::Listener;
use crate::value::{ClientCertificates, Keep};

/// What is wrong with it.
pub(super) fn faults(view: &View<'_>, door: &Listener) -> Vec<Fault> {
    let mut found = Vec::new();
    found.extend(name_fault(view, door));
    found.extend(place_fault(view, door));
    found.extend(protocol_fault(view, door));
    found.extend(tls_faults(view, door));
    found.extend(client_certificate_faults(view, door));
    found.extend(path_faults(view, door));
    found.extend(socket_fault(view, door));
    found.extend(client_ids_fault(view, Some(door)));
    let mqtt = view.settings().mqtt_at(door);
    found.extend(size_faults(view, Some(door), &mqtt));
    found.extend(expiry_fault(view, door));
    found.extend(advertised_fault(view, Some(door), &mqtt));
    found
}

fn name_fault(view: &View<'_>, door: &Listener) -> Option<Fault> {
    let key = field(door, "name");
    if view.resolved.is_drawn(&key) {
        let fault = format!(
            "found {}; expected a name that is written here: it is shown wherever the listener is meant, and what is drawn is not to be",
            view.said(&key)
        );
        return Some(Fault::of(&key, &fault));
    }
    (door.name == "mqtt").then(|| {
        let fault = format!(
            "{} is the name of mqtt.listen; expected another one",
            view.said(&key)
        );
        Fault::of(&key, &fault)
    })
}

/// It is in one place. Where none is named and its protocol has a usual port, it has got that already.
fn place_fault(view: &View<'_>, door: &Listener) -> Option<Fault> {
    let given = ["address", "unix", "activation"]
        .map(|name| field(door, name))
        .into_iter()
        .filter(|key| !matches!(view.said(key), "" | "[]"));
    let mut given: Vec<String> = given.collect();
    match given.len() {
        0 => Some(Fault::of(
            &item(door),
            "needs one of address, unix and activation",
        )),
        1 => None,
        _ => {
            let last = given.pop().unwrap_or_default();
            let fault = format!(
                "found {} beside {}; needs one of address, unix and activation",
                view.said(&last),
                view.given(&given[0])
            );
            Some(Fault::of(&last, &fault))
        }
    }
}

/// What TLS cannot do without.
fn protocol_fault(view: &View<'_>, door: &Listener) -> Option<Fault> {
    let missing = [
        ("certificate", door.certificate.is_none()),
        ("key", door.key.is_none()),
    ];
    let missing: Vec<&str> = missing
        .into_iter()
        .filter_map(|(name, is_missing)| is_missing.then_some(name))
        .collect();
    let key = field(door, "protocol");
    (door.protocol.is_secure() && !missing.is_empty()).then(|| {
        let fault = format!(
            "{} needs certificate and key; not set: {}",
            view.said(&key),
            missing.join(", ")
        );
        Fault::of(&key, &fault)
    })
}

/// What is for TLS only.
fn tls_faults(view: &View<'_>, door: &Listener) -> Vec<Fault> {
    if door.protocol.is_secure() {
        return Vec::new();
    }
    let given = [
        ("certificate", door.certificate.is_some()),
        ("key", door.key.is_some()),
        (
            "client_certificates",
            door.client_certificates != ClientCertificates::Off,
        ),
    ];
    let given = given.into_iter().filter(|(_, is_given)| *is_given);
    let fault = |(name, _)| {
        let key = field(door, name);
        let fault = format!(
            "found {}, which is for protocol = \"mqtts\" and \"wss\"; here it is \"{}\"",
            view.said(&key),
            door.protocol.name()
        );
        Fault::of(&key, &fault)
    };
    given.map(fault).collect()
}

/// Certificates of clients and who signs them go together.
fn client_certificate_faults(view: &View<'_>, door: &Listener) -> Vec<Fault> {
    let shows = door.client_certificates != ClientCertificates::Off;
    if shows {
        let key = field(door, "client_certificates");
        let lacks = door.protocol.is_secure() && door.client_authorities.is_none();
        let fault = || format!("{} needs client_authorities", view.said(&key));
        return lacks
            .then(|| Fault::of(&key, &fault()))
            .into_iter()
            .collect();
    }
    let given = [
        ("client_authorities", door.client_authorities.is_some()),
        ("client_revocations", door.client_revocations.is_some()),
    ];
    let given = given.into_iter().filter(|(_, is_given)| *is_given);
    let fault = |(name, _)| {
        let key = field(door, name);
        let fault = format!(
            "{} needs client_certificates = \"asked\" or \"required\"; here it is \"off\"",
            view.said(&key)
        );
        Fault::of(&key, &fault)
    };
    given.map(fault).collect()
}

/// What the program keeps in its data folder, or looks for there.
const OWN_FILES: [&str; 11] = [
    "LOCK",
    "admin.sock",
    "admin.token",
    "bootstrap",
    "checkpoints",
    "crash",
    "log",
    "node",
    "node.new",
    "repair",
    "scrub",
];
/// Longest path of a Unix socket: `sun_path` of Linux, less the zero behind it.
const SOCKET_PATH_BYTES_MAX: usize = 107;

/// A path in full, without `.` and with `..` taken for the folder above, whatever is there.
fn in_full(path: &Path) -> PathBuf {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let mut full = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                full.pop();
            }
            Component::CurDir => {}
            part => full.push(part),
        }
    }
    full
}

/// A socket where none can be made, or where the program has something of its own: it would be gone without a word.
fn socket_fault(view: &View<'_>, door: &Listener) -> Option<Fault> {
    let path = door.unix.as_ref()?;
    let key = field(door, "unix");
    let bytes = path.as_os_str().len();
    if bytes > SOCKET_PATH_BYTES_MAX {
        let fault = format!(
            "expected a path of at most {SOCKET_PATH_BYTES_MAX} bytes, which is what the system takes for a socket; found {bytes} bytes: {}",
            view.said(&key)
        );
        return Some(Fault::of(&key, &fault));
    }
    let data = &view.settings().data;
    if data.store != Keep::Disk {
        return None;
    }
    let path = in_full(path);
    let inside = path.strip_prefix(in_full(&data.path)).ok()?;
    let own = match inside.components().next() {
        None => true,
        Some(first) => OWN_FILES.iter().any(|own| first.as_os_str() == *own),
    };
    own.then(|| {
        let fault = format!(
            "expected a path that the program does not use itself in its data folder (data.path); found {}",
            view.said(&key)
        );
        Fault::of(&key, &fault)
    })
}

/// Paths, rights, and who passes connections on.
fn path_faults(view: &View<'_>, door: &Listener) -> Vec<Fault> {
    let mut found = Vec::new();
    let mut expect = |name: &str, expected: &str| {
        let key = field(door, name);
        let fault = format!("expected {expected}, found {}", view.said(&key));
        found.push(Fault::of(&key, &fault));
    };
    if !u32::from_str_radix(&door.unix_mode, 8).is_ok_and(|mode| mode <= 0o777) {
        expect("unix_mode", "three octal digits such as \"660\"");
    }
    if !door.path.starts_with('/') {
        expect("path", "a path that begins with \"/\"");
    }
    if !door.proxies.is_empty() && door.unix.is_some() {
        expect(
            "proxies",
            "none: they are told apart by address, and clients of a Unix socket have none",
        );
    }
    found
}

fn expiry_fault(view: &View<'_>, door: &Listener) -> Option<Fault> {
    const OF_ALL: &str = "mqtt.session_expiry_max";
    let key = field(door, "session_expiry_max");
    let longer = door
        .session_expiry_max
        .is_some_and(|own| own > view.settings().mqtt.session_expiry_max);
    longer.then(|| {
        let fault = format!("{} is longer than {}", view.said(&key), view.given(OF_ALL));
        Fault::of(&key, &fault)
    })
}
