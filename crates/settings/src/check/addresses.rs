//! Places that two listeners cannot both have.

use super::{Fault, View, field};
use crate::table::Listener;
use std::net::SocketAddr;

/// Addresses, Unix sockets and sockets of systemd that are named a second time.
pub(super) fn faults(view: &View<'_>) -> Vec<Fault> {
    let settings = view.settings();
    let mut found = Vec::new();
    let mqtt = with_key("mqtt.listen", &settings.mqtt.listen);
    let http = with_key("http.listen", &settings.http.listen);
    let mut addresses: Vec<(String, SocketAddr)> = mqtt.chain(http).collect();
    for door in &settings.doors {
        addresses.extend(with_key(&field(door, "address"), &door.address));
    }
    // Port 0 asks for any free port, so two of them are not the same.
    addresses.retain(|(_, address)| address.port() != 0);
    for (at, (key, address)) in addresses.iter().enumerate() {
        let mut before = addresses[..at].iter();
        let Some((other, theirs)) = before.find(|(_, other)| overlap(*other, *address)) else {
            continue;
        };
        let same = theirs == address;
        let address = view.part(key, address);
        let fault = match (same, other == key) {
            (true, true) => format!("names {address} twice"),
            (true, false) => format!("{address} is in {other} already"),
            (false, _) => {
                let theirs = view.part(other, theirs);
                format!(
                    "{address} and {theirs} of {other} have one port: 0.0.0.0 and [::] are all addresses of this machine"
                )
            }
        };
        // Of an address that nobody has set the place is that of the other one, or of the item.
        found.push(Fault::of(key, &fault).or_at(other.clone()));
    }
    found.extend(twice(view, "unix", |door| door.unix.clone()));
    found.extend(twice(view, "activation", |door| door.activation.clone()));
    found
}

/// Whether only one of them can be listened on. A socket of IPv6 is for IPv6 alone.
fn overlap(one: SocketAddr, other: SocketAddr) -> bool {
    let all = one.ip().is_unspecified() || other.ip().is_unspecified();
    let same_family = one.is_ipv4() == other.is_ipv4();
    one == other || (all && same_family && one.port() == other.port())
}

fn with_key(key: &str, addresses: &[SocketAddr]) -> impl Iterator<Item = (String, SocketAddr)> {
    addresses
        .iter()
        .map(move |&address| (key.to_owned(), address))
}

/// A field that no two listeners have the same of.
fn twice<T: PartialEq>(
    view: &View<'_>,
    name: &str,
    value: impl Fn(&Listener) -> Option<T>,
) -> Vec<Fault> {
    let doors = &view.settings().doors;
    let mut found = Vec::new();
    for (at, door) in doors.iter().enumerate() {
        let Some(mine) = value(door) else { continue };
        let mut before = doors[..at].iter();
        if let Some(other) = before.find(|other| value(other).as_ref() == Some(&mine)) {
            let key = field(door, name);
            let fault = format!("{} is {} already", view.said(&key), field(other, name));
            found.push(Fault::of(&key, &fault));
        }
    }
    found
}
