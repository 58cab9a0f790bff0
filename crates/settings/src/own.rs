//! What a listener says for itself, over what is said for all.

use crate::table::{Listener, Mqtt, Settings};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

impl Settings {
    /// The settings of MQTT at a listener: its own, where it has some, else those of all. Where it listens and how its clients prove
    /// who they are is not among them: that is in `listener` itself.
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

    /// Connections at once from one address at a listener; 0: no limit.
    #[must_use]
    pub fn address_connections_max_at(&self, listener: &Listener) -> u32 {
        let own = listener.address_connections_max;
        own.unwrap_or(self.listeners.address_connections_max)
    }
}

fn put<T: Clone>(value: &mut T, own: &Option<T>) {
    if let Some(own) = own {
        value.clone_from(own);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use crate::{ByteSize, Settings, Sources};

    fn settings(own: &str) -> Settings {
        let listener = format!(r#"listener=[{{ name = "x", unix = "/tmp/x"{own} }}]"#);
        let sources = Sources::new()
            .set("mqtt.topic_alias_max=3")
            .set("mqtt.redirect_to=elsewhere")
            .set("mqtt.advertised=mqtt.example.org")
            .set("listeners.address_connections_max=9")
            .set(&listener);
        sources.check().expect("the settings are right")
    }

    #[test]
    fn a_listener_without_own_values_has_those_of_all() {
        let all = settings("");
        let mut expected = all.mqtt.clone();
        expected.advertised = None;
        assert_eq!(all.mqtt_at(&all.doors[0]), expected, "but for its address");
        assert_eq!(all.address_connections_max_at(&all.doors[0]), 9);
    }

    #[test]
    fn own_values_win_and_leave_the_others() {
        let all = settings(
            r#", packet_bytes_max = "8KiB", connect_bytes_max = "2KiB", connect_timeout = "1s", receive_maximum = 7,
                 topic_alias_max = 0, keep_alive_max_seconds = 30, session_expiry_max = "1h", redirect_to = "",
                 advertised = "x.example.org:8883", address_connections_max = 0"#,
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
        assert_eq!(all.address_connections_max_at(&all.doors[0]), 0);
    }
}
