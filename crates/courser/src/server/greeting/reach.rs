//! Who may connect, by all that a server listens on.

use std::net::SocketAddr;

use courser_settings::is_public;
use serde_json::{Value, json};

/// Somewhere to connect to.
#[derive(Debug)]
pub(super) struct Place {
    /// Address, path or URL.
    name: String,
    /// Whether it is for MQTT.
    is_mqtt: bool,
    /// Whether other machines may reach it.
    is_public: bool,
    /// Whether clients prove nothing there.
    is_open: bool,
}

impl Place {
    /// One where MQTT is spoken. What is no address is the path of a Unix socket.
    pub(super) fn mqtt(name: &str, behind_proxies: bool, is_open: bool) -> Self {
        let address = name.parse::<SocketAddr>();
        Self {
            name: name.to_owned(),
            is_mqtt: true,
            is_public: behind_proxies || address.as_ref().is_ok_and(is_public),
            is_open,
        }
    }

    /// One of operators, who have a token.
    pub(super) fn operators(address: &SocketAddr) -> Self {
        Self {
            name: format!("http://{address}"),
            is_mqtt: false,
            is_public: is_public(address),
            is_open: false,
        }
    }
}

/// In words.
pub(super) fn who_may_connect(places: &[Place]) -> String {
    let names = |wanted: &dyn Fn(&Place) -> bool| {
        let found = places.iter().filter(|it| wanted(it));
        let names: Vec<&str> = found.map(|it| it.name.as_str()).collect();
        names.join(", ")
    };
    let open = names(&|it| it.is_open);
    let open_to_all = names(&|it| it.is_open && it.is_public);
    let public = names(&|it| it.is_public);
    if open.is_empty() {
        "accounts: clients log in".to_owned()
    } else if places.iter().all(|it| it.is_open || !it.is_mqtt) && !open_to_all.is_empty() {
        "anonymous: anyone who reaches these addresses may connect".to_owned()
    } else if !open_to_all.is_empty() {
        format!("anonymous: anyone who reaches {open} may connect; elsewhere clients log in")
    } else if !public.is_empty() {
        format!(
            "anonymous on loopback: anyone on this machine may connect to {open}; other machines reach {public}"
        )
    } else if places.iter().any(|it| it.is_mqtt && !it.is_open) {
        format!(
            "anonymous on loopback: anyone on this machine may connect to {open}; elsewhere clients log in"
        )
    } else {
        "loopback only: anyone on this machine may connect".to_owned()
    }
}

/// For programs: where nobody logs in, and what other machines reach.
pub(super) fn facts(places: &[Place]) -> Value {
    let names = |wanted: fn(&Place) -> bool| {
        let found = places.iter().filter(|it| wanted(it));
        found.map(|it| it.name.as_str()).collect::<Vec<_>>()
    };
    json!({"anonymous": names(|it| it.is_open), "public": names(|it| it.is_public)})
}

#[cfg(test)]
mod tests {
    use super::*;

    const PUBLIC: &str = "0.0.0.0:1883";
    const HERE: &str = "127.0.0.1:1883";

    fn open(name: &str) -> Place {
        Place::mqtt(name, false, true)
    }

    fn asks(name: &str) -> Place {
        Place::mqtt(name, false, false)
    }

    fn http(address: &str) -> Place {
        Place::operators(&address.parse().expect("an address"))
    }

    fn check(places: &[Place], expected: &str) {
        assert_eq!(who_may_connect(places), expected, "{places:?}");
    }

    #[test]
    fn loopback_only_is_said_where_nothing_else_is_there() {
        let expected = "loopback only: anyone on this machine may connect";
        check(&[open(HERE), http("127.0.0.1:18080")], expected);
        check(&[open("[::1]:1883"), http("[::1]:18080")], expected);
    }

    #[test]
    fn an_open_door_beside_ones_where_clients_log_in_is_named() {
        check(
            &[asks(HERE), open("/run/mqtt.sock"), http("127.0.0.1:18080")],
            "anonymous on loopback: anyone on this machine may connect to /run/mqtt.sock; elsewhere clients log in",
        );
    }

    #[test]
    fn what_other_machines_reach_is_named() {
        check(
            &[open(HERE), http("0.0.0.0:18080")],
            "anonymous on loopback: anyone on this machine may connect to 127.0.0.1:1883; other machines reach http://0.0.0.0:18080",
        );
        check(
            &[open(HERE), asks("0.0.0.0:8883"), http("[::]:18080")],
            "anonymous on loopback: anyone on this machine may connect to 127.0.0.1:1883; other machines reach 0.0.0.0:8883, \
             http://[::]:18080",
        );
    }

    #[test]
    fn who_logs_in_and_who_does_not() {
        let anyone = "anonymous: anyone who reaches these addresses may connect";
        check(&[open(PUBLIC), http("127.0.0.1:18080")], anyone);
        check(&[Place::mqtt(HERE, true, true)], anyone);
        check(
            &[open(PUBLIC), asks(HERE)],
            "anonymous: anyone who reaches 0.0.0.0:1883 may connect; elsewhere clients log in",
        );
        let accounts = "accounts: clients log in";
        check(&[asks(PUBLIC), http("0.0.0.0:18080")], accounts);
    }
}
