//! What a broker allows: what it tells in CONNACK, and what it does when it is tried.
//!
//! Topics are below a name of this probe, client ids begin with it; retained messages and sessions that it makes it takes away again.

use std::time::Instant;

use courser_mqtt::codec::{
    Connack, Frame, Limits, PACKET_BYTES_MAX, Packet, ProtocolVersion, QoS, Rules, Split,
};

use crate::client::Link;
use crate::{Client, ClientError, Filter, Message, Options, VersionChoice, Will, packets};

/// Round trips of which the median is told.
const ROUNDS: usize = 9;
/// Payload of the large message that is tried.
const LARGE_BYTES: usize = 256 * 1024;

/// How something is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known {
    /// The broker tells it.
    Told,
    /// It was tried.
    Tried,
}

/// One line of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What, as a stable word.
    pub what: &'static str,
    /// `yes`, `no`, or a number with its unit; behind it what else there is to say.
    pub found: String,
    /// How it is known.
    pub known: Known,
}

/// Tries a broker. Takes some seconds.
///
/// # Errors
/// When it cannot be reached, or takes no version of MQTT that there is.
pub fn probe(options: &Options, name: &str) -> Result<Vec<Finding>, ClientError> {
    let mut probe = Probe {
        options: options.clone(),
        name: name.to_owned(),
        findings: Vec::new(),
    };
    probe.options.will = None;
    probe.options.clean_start = true;
    let v311 = probe.version(VersionChoice::V311, "mqtt_3.1.1");
    let v5 = probe.version(VersionChoice::V5, "mqtt_5.0");
    probe.options.version = match (&v311, &v5) {
        (_, Ok(())) => VersionChoice::V5,
        (Ok(()), Err(_)) => VersionChoice::V311,
        (Err(_), Err(_)) => return Err(v5.err().or(v311.err()).unwrap_or(ClientError::Closed)),
    };
    if v5.is_ok() {
        probe.told()?;
    }
    probe.try_all();
    Ok(probe.findings)
}

struct Probe {
    options: Options,
    name: String,
    findings: Vec<Finding>,
}

/// What a trial says: behind `yes`.
type Trial = Result<String, ClientError>;

impl Probe {
    fn add(&mut self, known: Known, what: &'static str, found: impl Into<String>) {
        self.findings.push(Finding {
            what,
            found: found.into(),
            known,
        });
    }

    fn version(&mut self, version: VersionChoice, what: &'static str) -> Result<(), ClientError> {
        let options = Options {
            version,
            ..self.as_client("version")
        };
        let connected = Client::connect(&options).and_then(Client::disconnect);
        let found = match &connected {
            Ok(()) => "yes".to_owned(),
            Err(error) => format!("no: {error}"),
        };
        self.add(Known::Tried, what, found);
        connected
    }

    /// As one of the probe's clients.
    fn as_client(&self, role: &str) -> Options {
        Options {
            client_id: format!("{}-{role}", self.name),
            ..self.options.clone()
        }
    }

    fn topic(&self, end: &str) -> String {
        format!("{}/{end}", self.name)
    }

    /// What CONNACK says. A property that is not there has the meaning that the standard gives it.
    fn told(&mut self) -> Result<(), ClientError> {
        let mut told = Vec::new();
        exchange(&self.as_client("told"), |connack| {
            let it = &connack.properties;
            let yes = |value: Option<bool>| match value.unwrap_or(true) {
                true => "yes".to_owned(),
                false => "no".to_owned(),
            };
            let receive = it.receive_maximum().map_or(65_535, |it| it.get());
            let packet = it.maximum_packet_size();
            told = vec![
                ("receive_maximum", format!("{receive} publishes")),
                (
                    "maximum_packet_size",
                    packet.map_or("no limit".to_owned(), |it| format!("{it} bytes")),
                ),
                (
                    "maximum_qos",
                    (it.maximum_qos().unwrap_or(QoS::ExactlyOnce) as u8).to_string(),
                ),
                (
                    "topic_alias_maximum",
                    format!("{} aliases", it.topic_alias_maximum().unwrap_or(0)),
                ),
                ("retain_available", yes(it.retain_available())),
                (
                    "wildcard_subscriptions",
                    yes(it.wildcard_subscription_available()),
                ),
                (
                    "subscription_identifiers",
                    yes(it.subscription_identifier_available()),
                ),
                (
                    "shared_subscriptions",
                    yes(it.shared_subscription_available()),
                ),
                (
                    "keep_alive",
                    it.server_keep_alive()
                        .map_or("as the client wants".to_owned(), |it| format!("{it} s")),
                ),
            ];
        })?;
        for (what, found) in told {
            self.add(Known::Told, what, found);
        }
        Ok(())
    }

    fn try_all(&mut self) {
        type Try = fn(&Probe) -> Trial;
        let all: [(&'static str, Try); 11] = [
            ("qos_0", |it| it.round_trips(QoS::AtMostOnce)),
            ("qos_1", |it| it.round_trips(QoS::AtLeastOnce)),
            ("qos_2", |it| it.round_trips(QoS::ExactlyOnce)),
            ("wildcards", Self::wildcards),
            ("retained", Self::retained),
            ("shared", Self::shared),
            ("identifiers", Self::identifiers),
            ("large_message", Self::large),
            ("will", Self::will),
            ("kept_session", Self::kept_session),
            ("sys_version", Self::sys_version),
        ];
        for (what, attempt) in all {
            let found = match attempt(self) {
                Ok(more) if more.is_empty() => "yes".to_owned(),
                Ok(more) => format!("yes, {more}"),
                Err(error) => format!("no: {error}"),
            };
            self.add(Known::Tried, what, found);
        }
    }

    fn round_trips(&self, qos: QoS) -> Trial {
        let topic = self.topic("round");
        let mut client = Client::connect(&self.as_client("round"))?;
        client.subscribe(&[filter(&topic, qos)], None)?;
        let mut took = Vec::new();
        for _ in 0..ROUNDS {
            let began = Instant::now();
            client.publish(&message(&topic, qos, b"probe"))?;
            arrived(&mut client)?;
            took.push(began.elapsed());
        }
        client.disconnect()?;
        took.sort_unstable();
        Ok(format!(
            "{} us there and back",
            took[ROUNDS / 2].as_micros()
        ))
    }

    fn wildcards(&self) -> Trial {
        let mut client = Client::connect(&self.as_client("wildcards"))?;
        client.subscribe(&[filter(&self.topic("+/w/#"), QoS::AtMostOnce)], None)?;
        client.publish(&message(&self.topic("a/w/b/c"), QoS::AtMostOnce, b"probe"))?;
        arrived(&mut client)?;
        client.disconnect()?;
        Ok(String::new())
    }

    fn retained(&self) -> Trial {
        let topic = self.topic("retained");
        let mut client = Client::connect(&self.as_client("retained"))?;
        let mut kept = message(&topic, QoS::AtLeastOnce, b"probe");
        kept.retain = true;
        client.publish(&kept)?;
        client.subscribe(&[filter(&topic, QoS::AtMostOnce)], None)?;
        let came = arrived(&mut client);
        kept.payload.clear();
        client.publish(&kept)?;
        client.disconnect()?;
        came.map(|_| String::new())
    }

    fn shared(&self) -> Trial {
        let topic = self.topic("shared");
        let mut client = Client::connect(&self.as_client("shared"))?;
        let share = format!("$share/{}/{topic}", self.name);
        client.subscribe(&[filter(&share, QoS::AtLeastOnce)], None)?;
        client.publish(&message(&topic, QoS::AtLeastOnce, b"probe"))?;
        arrived(&mut client)?;
        client.disconnect()?;
        Ok(String::new())
    }

    fn identifiers(&self) -> Trial {
        if self.options.version != VersionChoice::V5 {
            return Err(ClientError::Options("only MQTT 5.0 has them".to_owned()));
        }
        let topic = self.topic("identifiers");
        let mut client = Client::connect(&self.as_client("identifiers"))?;
        client.subscribe(&[filter(&topic, QoS::AtMostOnce)], Some(7))?;
        client.publish(&message(&topic, QoS::AtMostOnce, b"probe"))?;
        let came = arrived(&mut client)?;
        client.disconnect()?;
        let told = crate::MessageProperty::SubscriptionId(7);
        if came.properties.contains(&told) {
            return Ok(String::new());
        }
        let what = "the message came without its identifier";
        Err(ClientError::Protocol(what.to_owned()))
    }

    fn large(&self) -> Trial {
        let topic = self.topic("large");
        let mut client = Client::connect(&self.as_client("large"))?;
        client.subscribe(&[filter(&topic, QoS::AtLeastOnce)], None)?;
        client.publish(&message(&topic, QoS::AtLeastOnce, &vec![0; LARGE_BYTES]))?;
        arrived(&mut client)?;
        client.disconnect()?;
        Ok(format!("{LARGE_BYTES} bytes"))
    }

    fn will(&self) -> Trial {
        let topic = self.topic("will");
        let mut client = Client::connect(&self.as_client("heir"))?;
        client.subscribe(&[filter(&topic, QoS::AtLeastOnce)], None)?;
        let mortal = Client::connect(&Options {
            will: Some(Will {
                topic,
                payload: b"probe".to_vec(),
                qos: QoS::AtLeastOnce,
                retain: false,
            }),
            ..self.as_client("mortal")
        })?;
        // Without a good-bye.
        drop(mortal);
        arrived(&mut client)?;
        client.disconnect()?;
        Ok(String::new())
    }

    fn kept_session(&self) -> Trial {
        let topic = self.topic("kept");
        let away = Options {
            clean_start: false,
            session_expiry: 60,
            ..self.as_client("kept")
        };
        let mut client = Client::connect(&away)?;
        client.subscribe(&[filter(&topic, QoS::AtLeastOnce)], None)?;
        client.disconnect()?;
        let mut other = Client::connect(&self.as_client("other"))?;
        other.publish(&message(&topic, QoS::AtLeastOnce, b"probe"))?;
        other.disconnect()?;
        let mut client = Client::connect(&away)?;
        let came = arrived(&mut client);
        client.disconnect()?;
        // What was kept for the probe goes.
        Client::connect(&self.as_client("kept"))?.disconnect()?;
        came.map(|_| String::new())
    }

    fn sys_version(&self) -> Trial {
        let mut client = Client::connect(&self.as_client("sys"))?;
        client.subscribe(&[filter("$SYS/broker/version", QoS::AtMostOnce)], None)?;
        let told = arrived(&mut client)?;
        client.disconnect()?;
        Ok(String::from_utf8_lossy(&told.payload).into_owned())
    }
}

fn filter(filter: &str, qos: QoS) -> Filter {
    Filter {
        filter: filter.to_owned(),
        qos,
        no_local: false,
        retain_as_published: false,
    }
}

fn message(topic: &str, qos: QoS, payload: &[u8]) -> Message {
    Message {
        topic: topic.to_owned(),
        payload: payload.to_vec(),
        qos,
        retain: false,
        duplicate: false,
        packet_id: None,
        properties: Vec::new(),
    }
}

fn arrived(client: &mut Client) -> Result<Message, ClientError> {
    let deadline = Instant::now() + client.answer_max();
    let message = client.next(Some(deadline))?;
    message.ok_or_else(|| client.timed_out())
}

/// Connects with 5.0 and looks at CONNACK.
fn exchange(options: &Options, look: impl FnOnce(&Connack<'_>)) -> Result<(), ClientError> {
    let bad = |error: courser_mqtt::codec::DecodeError| ClientError::Protocol(error.to_string());
    let mut link = Link::open(options)?;
    let mut out = Vec::new();
    packets::connect(options, ProtocolVersion::V5, &mut out)?;
    link.send(&out)?;
    let deadline = Instant::now() + options.answer_max;
    let rules = Rules::from_server(ProtocolVersion::V5).with_limits(Limits::STANDARD);
    let (mut input, mut some) = (Vec::new(), [0; 1024]);
    loop {
        if let Split::Whole(frame) = Frame::split(&input, PACKET_BYTES_MAX).map_err(bad)? {
            let Packet::Connack(connack) = Packet::decode(&frame, &rules).map_err(bad)? else {
                let what = format!("{} before CONNACK", frame.packet_type());
                return Err(ClientError::Protocol(what));
            };
            look(&connack);
            // DISCONNECT; a broker that is gone already has said what it had to say.
            let _ = link.send(&[0xE0, 0]);
            return Ok(());
        }
        match link.read_before(deadline, &mut some)? {
            0 => return Err(ClientError::Closed),
            count => input.extend_from_slice(&some[..count]),
        }
    }
}
