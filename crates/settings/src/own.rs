//! What a listener says for itself, over what is said for all.

use crate::table::{Listener, Mqtt, Settings};
use crate::value::{ClientIdPattern, Login, quoted};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::num::NonZeroU32;

/// Connections at once from one address, where the settings say nothing: a tenth of what `listeners.connections_max` is by default, so
/// that one address does not keep the others out, and as many as a large site has behind one address translation. Where that maximum is
/// set to fewer, this is to be set too.
pub const ADDRESS_CONNECTIONS_MAX: NonZeroU32 = NonZeroU32::new(10_000).unwrap();
/// New connections a second from one address, where the settings say nothing: all of such a site are back within 20 s, and their
/// handshakes take an eighth of the thread that makes them (a quarter of a millisecond each, docs/performance.md).
pub const ADDRESS_CONNECTS_PER_SECOND: NonZeroU32 = NonZeroU32::new(500).unwrap();

/// The name of a field of a listener, as [`SettingValue::key`](crate::SettingValue::key) has it.
#[must_use]
pub fn listener_key(listener: &str, field: &str) -> String {
    format!("listener[{}].{field}", quoted(listener))
}

/// Whether other machines may reach what listens at an address.
#[must_use]
pub fn is_public(address: &SocketAddr) -> bool {
    !address.ip().to_canonical().is_loopback()
}

/// How much one address may have of something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressLimit {
    /// So much.
    pub most: NonZeroU32,
    /// Whom it is for.
    pub spares: Spares,
}

/// Whom a limit of addresses does not hold for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spares {
    /// It holds for all: somebody has set it.
    Nobody,
    /// Programs of this machine. What they may do to it needs no connection.
    Loopback,
}

impl Spares {
    /// Whether it does not hold for an address.
    #[must_use]
    pub fn spare(self, address: IpAddr) -> bool {
        match self {
            Self::Nobody => false,
            Self::Loopback => address.to_canonical().is_loopback(),
        }
    }
}

impl AddressLimit {
    /// The one that is set (0: none at all), else `default`.
    fn new(set: Option<u32>, default: NonZeroU32) -> Option<Self> {
        let (most, spares) = match set {
            Some(most) => (NonZeroU32::new(most)?, Spares::Nobody),
            None => (default, Spares::Loopback),
        };
        Some(Self { most, spares })
    }
}

impl Settings {
    /// The settings of MQTT at a listener: its own, where it has some, else those of all. Where it listens and how its clients prove
    /// who they are is not among them: see `listener` itself, and [`login_at`](Self::login_at).
    #[must_use]
    pub fn mqtt_at(&self, listener: &Listener) -> Mqtt {
        let mut mqtt = self.mqtt.clone();
        put(&mut mqtt.packet_bytes_max, &listener.packet_bytes_max);
        put(&mut mqtt.connect_bytes_max, &listener.connect_bytes_max);
        put(&mut mqtt.connect_timeout, &listener.connect_timeout);
        put(&mut mqtt.receive_maximum, &listener.receive_maximum);
        put(&mut mqtt.topic_alias_max, &listener.topic_alias_max);
        put(
            &mut mqtt.keep_alive_max_seconds,
            &listener.keep_alive_max_seconds,
        );
        put(&mut mqtt.session_expiry_max, &listener.session_expiry_max);
        put(&mut mqtt.redirect_to, &listener.redirect_to);
        mqtt.advertised.clone_from(&listener.advertised);
        mqtt
    }

    /// How clients of a listener prove who they are: as it says, else as those of `mqtt.listen` do.
    #[must_use]
    pub fn login_at(&self, listener: &Listener) -> Login {
        listener.authentication.unwrap_or(self.mqtt.authentication)
    }

    /// Client ids that users may have at a listener or (none) at `mqtt.listen`. Empty: all.
    #[must_use]
    pub fn client_ids_at<'a>(&'a self, listener: Option<&'a Listener>) -> &'a [ClientIdPattern] {
        let own = listener.map(|listener| &listener.client_ids);
        own.filter(|own| !own.is_empty())
            .unwrap_or(&self.mqtt.client_ids)
    }

    /// How clients prove who they are, at `mqtt.listen` and at each listener.
    pub fn logins(&self) -> impl Iterator<Item = Login> {
        let doors = self.doors.iter().map(|door| self.login_at(door));
        std::iter::once(self.mqtt.authentication).chain(doors)
    }

    /// Gives listeners that say nothing of where they listen the usual port of their protocol, on this machine only.
    pub(crate) fn place_listeners(&mut self) {
        for door in &mut self.doors {
            if door.address.is_empty()
                && door.unix.is_none()
                && door.activation.is_none()
                && let Some(port) = door.protocol.usual_port()
            {
                door.address = vec![
                    SocketAddr::from((Ipv4Addr::LOCALHOST, port)),
                    SocketAddr::from((Ipv6Addr::LOCALHOST, port)),
                ];
            }
        }
    }

    /// Connections at once from one address, at a listener or (none) at `mqtt.listen`.
    #[must_use]
    pub fn address_connections_max_at(&self, listener: Option<&Listener>) -> Option<AddressLimit> {
        let own = listener.and_then(|it| it.address_connections_max);
        let set = own.or(self.listeners.address_connections_max);
        AddressLimit::new(set, ADDRESS_CONNECTIONS_MAX)
    }

    /// New connections a second from one address, likewise.
    #[must_use]
    pub fn address_connects_per_second_at(
        &self,
        listener: Option<&Listener>,
    ) -> Option<AddressLimit> {
        let own = listener.and_then(|it| it.address_connects_per_second);
        let set = own.or(self.listeners.address_connects_per_second);
        AddressLimit::new(set, ADDRESS_CONNECTS_PER_SECOND)
    }

    /// New connections a second from all addresses together, likewise.
    #[must_use]
    pub fn connects_per_second_at(&self, listener: Option<&Listener>) -> Option<NonZeroU32> {
        let own = listener.and_then(|it| it.connects_per_second);
        NonZeroU32::new(own.unwrap_or(self.listeners.connects_per_second))
    }
}

fn put<T: Clone>(value: &mut T, own: &Option<T>) {
    if let Some(own) = own {
        value.clone_from(own);
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;
    use std::num::NonZeroU32;
    use std::time::Duration;

    use super::{
        ADDRESS_CONNECTIONS_MAX, ADDRESS_CONNECTS_PER_SECOND, AddressLimit, Spares, is_public,
    };
    use crate::{ByteSize, Login, Settings, Sources};

    #[test]
    fn only_loopback_is_out_of_reach() {
        let public = |text: &str| is_public(&text.parse().expect("an address"));
        for here in [
            "127.0.0.1:1",
            "127.9.9.9:1",
            "[::1]:1",
            "[::ffff:127.0.0.1]:1",
        ] {
            assert!(!public(here), "{here}");
        }
        for there in ["0.0.0.0:1", "[::]:1", "10.0.0.1:1", "[::ffff:10.0.0.1]:1"] {
            assert!(public(there), "{there}");
        }
    }

    #[test]
    fn a_listener_without_an_address_is_on_this_machine_at_the_port_of_its_protocol() {
        let placed = |protocol: &str, more: &str| {
            let tls = match protocol {
                "mqtts" | "wss" => r#", certificate = "/c", key = "/k""#,
                _ => "",
            };
            let listener =
                format!(r#"listener=[{{ name = "x", protocol = "{protocol}"{tls}{more} }}]"#);
            let settings = Sources::new().set(&listener).check();
            settings.map(|it| it.doors[0].address.clone())
        };
        for (protocol, port) in [("mqtts", 8883), ("ws", 8083), ("wss", 8084)] {
            let both = ["127.0.0.1", "[::1]"].map(|host| format!("{host}:{port}"));
            let both = both.map(|text| text.parse().expect("an address"));
            assert_eq!(
                placed(protocol, "").expect("it has a port"),
                both,
                "{protocol}"
            );
            for place in [r#", unix = "/x""#, r#", activation = "x""#] {
                let elsewhere = placed(protocol, place).expect("it has a place");
                assert!(elsewhere.is_empty(), "{protocol}{place}");
            }
            let own = placed(protocol, r#", address = "127.0.0.1:9""#).expect("it has a place");
            assert_eq!(own, ["127.0.0.1:9".parse().expect("an address")]);
        }
        let error = placed("mqtt", "").expect_err("its usual port is that of mqtt.listen");
        assert!(
            error
                .to_string()
                .contains("needs one of address, unix and activation"),
            "{error}"
        );
    }

    fn set_to(most: u32) -> AddressLimit {
        AddressLimit {
            most: NonZeroU32::new(most).expect("a limit"),
            spares: Spares::Nobody,
        }
    }

    fn settings(own: &str) -> Settings {
        let listener = format!(r#"listener=[{{ name = "x", unix = "/tmp/x"{own} }}]"#);
        let sources = Sources::new()
            .set("mqtt.topic_alias_max=3")
            .set("mqtt.redirect_to=elsewhere")
            .set("mqtt.advertised=mqtt.example.org")
            .set("listeners.address_connections_max=9")
            .set("listeners.address_connects_per_second=8")
            .set("listeners.connects_per_second=7")
            .set(&listener);
        sources.check().expect("the settings are right")
    }

    #[test]
    fn a_listener_without_own_values_has_those_of_all() {
        let all = settings("");
        let mut expected = all.mqtt.clone();
        expected.advertised = None;
        assert_eq!(all.mqtt_at(&all.doors[0]), expected, "but for its address");
        for listener in [None, Some(&all.doors[0])] {
            assert_eq!(all.address_connections_max_at(listener), Some(set_to(9)));
            assert_eq!(
                all.address_connects_per_second_at(listener),
                Some(set_to(8))
            );
            assert_eq!(all.connects_per_second_at(listener), NonZeroU32::new(7));
        }
    }

    #[test]
    fn a_listener_asks_for_what_mqtt_asks_for_unless_it_says_otherwise() {
        let logins = |all: &str| {
            let listeners = r#"listener=[
                { name = "omitted", unix = "/a" },
                { name = "open", unix = "/b", authentication = "none" },
                { name = "accounts", unix = "/c", authentication = "accounts" },
            ]"#;
            let set = format!("mqtt.authentication={all}");
            let settings = Sources::new().set(&set).set(listeners).check();
            settings.expect("the settings are right").logins().collect()
        };
        let (none, accounts) = (Login::None, Login::Accounts);
        let of_accounts: Vec<_> = logins("accounts");
        assert_eq!(of_accounts, [accounts, accounts, none, accounts]);
        assert_eq!(logins("none"), [none, none, none, accounts]);
    }

    #[test]
    fn own_values_win_and_leave_the_others() {
        let all = settings(
            r#", packet_bytes_max = "8KiB", connect_bytes_max = "2KiB", connect_timeout = "1s", receive_maximum = 7,
                 topic_alias_max = 0, keep_alive_max_seconds = 30, session_expiry_max = "1h", redirect_to = "",
                 advertised = "x.example.org:8883", address_connections_max = 0, address_connects_per_second = 0, connects_per_second = 0"#,
        );
        let mqtt = all.mqtt_at(&all.doors[0]);
        let mut expected = all.mqtt.clone();
        expected.packet_bytes_max = ByteSize::kib(8);
        expected.connect_bytes_max = ByteSize::kib(2);
        expected.connect_timeout = Duration::from_secs(1);
        expected.receive_maximum = 7;
        expected.topic_alias_max = 0;
        expected.keep_alive_max_seconds = 30;
        expected.session_expiry_max = Duration::from_secs(3_600);
        expected.redirect_to = String::new();
        expected.advertised = Some("x.example.org:8883".to_owned());
        assert_eq!(mqtt, expected);
        let own = Some(&all.doors[0]);
        assert_eq!(all.address_connections_max_at(own), None);
        assert_eq!(all.address_connects_per_second_at(own), None);
        assert_eq!(all.connects_per_second_at(own), None);
        assert_eq!(all.connects_per_second_at(None), NonZeroU32::new(7));
    }

    #[test]
    fn addresses_of_other_machines_have_limits_that_nobody_has_set() {
        let all = Settings::default();
        let limits = [
            (
                all.address_connections_max_at(None),
                ADDRESS_CONNECTIONS_MAX,
            ),
            (
                all.address_connects_per_second_at(None),
                ADDRESS_CONNECTS_PER_SECOND,
            ),
        ];
        for (limit, most) in limits {
            let limit = limit.expect("a limit");
            assert_eq!(limit.most, most);
            let holds = |text: &str| !limit.spares.spare(text.parse().expect("an address"));
            assert!(holds("192.0.2.1") && holds("2001:db8::1") && holds("10.0.0.1"));
            assert!(!holds("127.0.0.1") && !holds("127.9.9.9") && !holds("::1"));
            assert!(!holds("::ffff:127.0.0.1"), "the same by IPv6");
        }
        assert!(!set_to(1).spares.spare(IpAddr::from([127, 0, 0, 1])));
        assert_eq!(all.connects_per_second_at(None), None);
    }
}
