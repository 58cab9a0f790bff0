//! `/metrics/detailed`: figures of single clients, sessions and listeners, for who asks for them by name; never part of `/metrics`.
//!
//! Names that clients choose stand in labels here, so each is escaped by the encoder, and a page has at most as many rows as a listing.

use std::collections::{BTreeMap, HashSet};
use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;

use super::{Kind, Of, encode_number};
use crate::api::{Client, Session};

/// One number of a row.
pub(super) struct Figure {
    /// Without `courser_` and unit.
    pub(super) name: &'static str,
    pub(super) of: Of,
    pub(super) help: &'static str,
}

/// A kind of rows.
pub(super) struct Shape {
    /// As in `family=`.
    pub(super) family: &'static str,
    pub(super) labels: &'static [&'static str],
    pub(super) figures: &'static [Figure],
}

const fn figure(name: &'static str, of: Of, help: &'static str) -> Figure {
    Figure { name, of, help }
}

const CLIENTS: Shape = Shape {
    family: "clients",
    labels: &["client_id", "user", "listener"],
    figures: &[
        figure(
            "client_output",
            Of::Bytes,
            "Bytes that wait to be written to the client",
        ),
        figure(
            "client_unsettled_publishes",
            Of::Things,
            "Its publishes that wait for their destinations",
        ),
        figure("client_keep_alive", Of::Seconds, "Its keep-alive; 0: none"),
    ],
};

const SESSIONS: Shape = Shape {
    family: "sessions",
    labels: &["client_id", "user"],
    figures: &[
        figure(
            "session_connected",
            Of::Things,
            "Whether the session has a connection",
        ),
        figure("session_subscriptions", Of::Things, "Its subscriptions"),
        figure(
            "session_queued_messages",
            Of::Things,
            "Messages that wait for it, those under way included",
        ),
        figure("session_queued", Of::Bytes, "Their encoded bytes"),
        figure(
            "session_in_flight_messages",
            Of::Things,
            "Messages under way to its client",
        ),
    ],
};

const LISTENERS: Shape = Shape {
    family: "listeners",
    labels: &["listener"],
    figures: &[
        figure(
            "listener_connections",
            Of::Things,
            "Connections that the listener let in and that are open; one without any is left out",
        ),
        figure(
            "listener_output",
            Of::Bytes,
            "Bytes that wait to be written to them",
        ),
        figure(
            "listener_unsettled_publishes",
            Of::Things,
            "Their publishes that wait for their destinations",
        ),
    ],
};

/// All that can be asked for.
pub(super) const SHAPES: [&Shape; 3] = [&CLIENTS, &SESSIONS, &LISTENERS];

/// Rows of one family: values of the labels, and the numbers.
pub(crate) struct Detailed {
    shape: &'static Shape,
    rows: Vec<(Vec<String>, Vec<f64>)>,
    is_whole: bool,
}

impl fmt::Debug for Detailed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Detailed({} {})", self.rows.len(), self.shape.family)
    }
}

impl Detailed {
    /// Two rows with the same labels would be one number twice: a client id that is just being taken over counts once, and
    /// connections before their CONNECT have none.
    fn new(shape: &'static Shape, rows: impl Iterator<Item = (Vec<String>, Vec<f64>)>) -> Self {
        let mut seen = HashSet::new();
        let named = rows.filter(|(labels, _)| !labels[0].is_empty());
        Self {
            shape,
            rows: named
                .filter(|(labels, _)| seen.insert(labels.clone()))
                .collect(),
            is_whole: true,
        }
    }

    /// Of connections.
    pub(crate) fn clients(clients: Vec<Client>) -> Self {
        let rows = clients.into_iter().map(|client| {
            let numbers = vec![
                client.output_bytes as f64,
                client.unsettled_publishes.into(),
                client.keep_alive_seconds.into(),
            ];
            let user = client.user.unwrap_or_default();
            (vec![client.client_id, user, client.listener], numbers)
        });
        Self::new(&CLIENTS, rows)
    }

    /// Of sessions.
    pub(crate) fn sessions(sessions: Vec<Session>) -> Self {
        let rows = sessions.into_iter().map(|session| {
            let numbers = vec![
                f64::from(u8::from(session.connected)),
                session.subscriptions as f64,
                session.queued_messages.into(),
                session.queued_bytes as f64,
                session.in_flight.into(),
            ];
            let user = session.user.unwrap_or_default();
            (vec![session.client_id, user], numbers)
        });
        Self::new(&SESSIONS, rows)
    }

    /// Says that there are more rows than these.
    pub(crate) fn cut(mut self) -> Self {
        self.is_whole = false;
        self
    }

    /// OpenMetrics text.
    pub(crate) fn encode(self) -> String {
        let mut registry = Registry::with_prefix("courser");
        registry.register_collector(Box::new(self));
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry)
            .expect("a string takes everything");
        text
    }
}

impl Collector for Detailed {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        for (at, figure) in self.shape.figures.iter().enumerate() {
            let unit = figure.of.unit();
            let mut family = encoder.encode_descriptor(
                figure.name,
                figure.help,
                unit.as_ref(),
                MetricType::Gauge,
            )?;
            for (values, numbers) in &self.rows {
                let names = self.shape.labels.iter().copied();
                let labels: Vec<(&str, &str)> =
                    names.zip(values.iter().map(String::as_str)).collect();
                encode_number(
                    &mut family.encode_family(&labels)?,
                    Kind::Gauge,
                    numbers[at],
                )?;
            }
        }
        let help =
            "1 if the answer has all that was asked for; else its header Link names the next page";
        let mut whole =
            encoder.encode_descriptor("detailed_whole", help, None, MetricType::Gauge)?;
        encode_number(&mut whole, Kind::Gauge, f64::from(u8::from(self.is_whole)))
    }
}

/// Connections added up by listener.
#[derive(Debug, Default)]
pub(crate) struct ByListener(BTreeMap<String, [f64; 3]>);

impl ByListener {
    /// Adds some.
    pub(crate) fn add(&mut self, clients: Vec<Client>) {
        for client in clients {
            let [connections, output, unsettled] = self.0.entry(client.listener).or_default();
            *connections += 1.0;
            *output += client.output_bytes as f64;
            *unsettled += f64::from(client.unsettled_publishes);
        }
    }

    /// All of them.
    pub(crate) fn detailed(self) -> Detailed {
        let rows = self.0.into_iter();
        Detailed::new(
            &LISTENERS,
            rows.map(|(listener, numbers)| (vec![listener], numbers.to_vec())),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(client_id: &str, queued_messages: u32) -> Session {
        Session {
            client_id: client_id.to_owned(),
            user: None,
            connected: true,
            durable: true,
            expiry_seconds: None,
            ends_at: None,
            subscriptions: 2,
            queued_messages,
            queued_bytes: 10,
            in_flight: 0,
            will: false,
            place: "1/1".to_owned(),
        }
    }

    #[test]
    fn names_cannot_end_their_label() {
        let evil = "a\"} 1\ncourser_session_queued_messages{client_id=\"b\\";
        let text = Detailed::sessions(vec![session(evil, 7), session("plain", 3)]).encode();
        let escaped =
            r#"client_id="a\"} 1\ncourser_session_queued_messages{client_id=\"b\\",user="""#;
        let line = format!("courser_session_queued_messages{{{escaped}}} 7.0\n");
        assert!(text.contains(&line), "{text}");
        let samples = text
            .lines()
            .filter(|line| line.starts_with("courser_session_queued_messages{"));
        assert_eq!(samples.count(), 2, "{text}");
    }

    #[test]
    fn nothing_is_said_twice_and_the_nameless_are_left_out() {
        let rows = vec![session("a", 1), session("a", 2), session("", 3)];
        let text = Detailed::sessions(rows).cut().encode();
        let samples = text
            .lines()
            .filter(|line| line.starts_with("courser_session_connected{"));
        assert_eq!(samples.count(), 1, "{text}");
        assert!(
            text.contains("courser_detailed_whole 0.0\n") && text.ends_with("# EOF\n"),
            "{text}"
        );
    }
}
