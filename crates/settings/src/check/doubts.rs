//! What is allowed and hardly meant.

use super::{Fault, View, field};
use crate::own::is_public;
use crate::value::Login;
use std::net::SocketAddr;

/// All of it.
pub(super) fn all(view: &View<'_>) -> Vec<Fault> {
    let mut found = too_large(view);
    found.extend(in_the_clear(view));
    found.extend(forgotten_while_it_waits(view));
    found.extend(longer_than_the_longest(view));
    found.extend(crowded(view));
    found
}

/// Addresses whose logins fail that are remembered at once. While all of them wait, nobody logs in from another one.
pub const LOGIN_ADDRESSES_MAX: u32 = 65_536;
/// From here on a wait is so long that somebody with as many addresses makes all of them wait at once with little work, in seconds: with a
/// guess in some ten milliseconds.
const LONG_WAIT_SECONDS: u64 = 600;

/// Waits so long that who has many addresses keeps everybody else out.
fn crowded(view: &View<'_>) -> Option<Fault> {
    const KEY: &str = "login_failures.wait_max";
    let failures = &view.settings().login_failures;
    let seconds = failures.wait_max.as_secs();
    (failures.address_max > 0 && seconds > LONG_WAIT_SECONDS).then(|| {
        let a_minute = (u64::from(LOGIN_ADDRESSES_MAX) * 60).div_ceil(seconds);
        let given = view.given(KEY);
        Fault {
            keys: vec![KEY.to_owned()],
            message: format!(
                "{given}: no more than {LOGIN_ADDRESSES_MAX} addresses wait at once, and {a_minute} wrong passwords a minute from as many, which \
                 anybody with a /48 of IPv6 has, keep all of those waiting: no other address can log in then"
            ),
        }
    })
}

/// Waits that end after what they are for has been forgotten: behind each of these an address has free failures again.
fn forgotten_while_it_waits(view: &View<'_>) -> Option<Fault> {
    const KEYS: [&str; 2] = ["login_failures.forget_after", "login_failures.wait_max"];
    let failures = &view.settings().login_failures;
    (failures.forget_after < failures.wait_max).then(|| {
        let [forget, wait] = KEYS.map(|key| view.given(key));
        Fault {
            keys: KEYS.map(str::to_owned).into(),
            message: format!(
                "{forget} is less than {wait}: an address that has waited for longer may guess as often as a new one"
            ),
        }
    })
}

/// A first wait above the longest: all waits are as long as that one, and the first is shorter than it says.
fn longer_than_the_longest(view: &View<'_>) -> Option<Fault> {
    const KEYS: [&str; 2] = ["login_failures.wait_first", "login_failures.wait_max"];
    let failures = &view.settings().login_failures;
    (failures.wait_first > failures.wait_max).then(|| {
        let [first, longest] = KEYS.map(|key| view.given(key));
        Fault {
            keys: KEYS.map(str::to_owned).into(),
            message: format!(
                "{first} is more than {longest}: no wait is longer than that, also not the first"
            ),
        }
    })
}

/// Packets that no session's queue takes, so that their publishers are told that all is well and nobody gets them.
fn too_large(view: &View<'_>) -> Vec<Fault> {
    const QUEUE: &str = "session.queue_bytes_max";
    let settings = view.settings();
    let most = settings.session.queue_bytes_max;
    let of_all = (
        "mqtt.packet_bytes_max".to_owned(),
        Some(settings.mqtt.packet_bytes_max),
    );
    let of_doors = settings
        .doors
        .iter()
        .map(|door| (field(door, "packet_bytes_max"), door.packet_bytes_max));
    let too_large = std::iter::once(of_all)
        .chain(of_doors)
        .filter(|(_, packet)| packet.is_some_and(|packet| packet > most));
    too_large
        .map(|(key, _)| {
            let [packet, queue] = [key.as_str(), QUEUE].map(|key| view.given(key));
            Fault {
                keys: vec![key, QUEUE.to_owned()],
                message: format!(
                    "{packet} is more than {queue}: a larger message of QoS 1 or 2 is acknowledged, and no subscriber gets it"
                ),
            }
        })
        .collect()
}

/// Addresses that other machines reach, where clients or operators show what they log in with and nothing encrypts it. Behind proxies TLS
/// may end at these. The address of a socket that systemd has opened is not among the settings.
fn in_the_clear(view: &View<'_>) -> Vec<Fault> {
    let settings = view.settings();
    let mut found = Vec::new();
    if let Some(what) = shown(settings.mqtt.authentication) {
        let remedy = "let clients in by a [[listener]] with protocol = \"mqtts\", and keep this on loopback addresses";
        found.extend(clear(
            view,
            "mqtt.listen",
            &settings.mqtt.listen,
            what,
            remedy,
        ));
    }
    for door in &settings.doors {
        let is_plain = !door.protocol.is_secure() && door.proxies.is_empty();
        let Some(what) = shown(settings.login_at(door)).filter(|_| is_plain) else {
            continue;
        };
        let secure = match door.protocol.is_web() {
            true => "wss",
            false => "mqtts",
        };
        let remedy = format!(
            "give it protocol = \"{secure}\", certificate and key, or a loopback address and a proxy with TLS before it"
        );
        let key = field(door, "address");
        found.extend(clear(view, &key, &door.address, what, &remedy));
    }
    let remedy = "give it a loopback address and a reverse proxy with TLS before it";
    let what = "the token and the passwords of operators";
    found.extend(clear(
        view,
        "http.listen",
        &settings.http.listen,
        what,
        remedy,
    ));
    found
}

/// What clients show that prove who they are in this way.
const fn shown(login: Login) -> Option<&'static str> {
    match login {
        Login::None => None,
        Login::Accounts => Some("passwords"),
        Login::Tokens => Some("tokens"),
    }
}

/// The doubt about the first of the addresses that other machines reach.
fn clear(
    view: &View<'_>,
    key: &str,
    addresses: &[SocketAddr],
    what: &str,
    remedy: &str,
) -> Option<Fault> {
    let address = addresses.iter().find(|address| is_public(address))?;
    let address = view.part(key, address);
    let doubt = format!(
        "{address} can be reached from other machines without TLS, where whoever is on the way reads {what}: {remedy}"
    );
    Some(Fault::of(key, &doubt))
}
