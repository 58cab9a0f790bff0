//! A client made of bytes: packets of MQTT 3.1.1 and 5.0 written and read by hand, so that a mistake of our codec shows.

#![allow(dead_code, reason = "each file of tests uses a part")]

pub(crate) mod accounts;
pub(crate) mod scram;
pub(crate) mod sessions;

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use courser_broker::{Broker, Config, Status, Summary};
use courser_settings::Sources;
use socket2::{Domain, Socket, Type};

/// How long a test waits for what must come.
const PATIENCE: Duration = Duration::from_secs(20);
/// The same for what a broker has much to do for.
const PATIENCE_LONG: Duration = Duration::from_secs(60);

/// Where connections are served in tests that do not say it: `COURSER_TEST_PLACEMENT`, or where the kernel puts them. Then a session
/// and its connection are often on two shards and say all to each other by rings, where there is more that can go wrong; `cargo xtask
/// test --only placement` has them move.
fn placement() -> String {
    std::env::var("COURSER_TEST_PLACEMENT").unwrap_or_else(|_| "kernel".to_owned())
}

/// What a broker has counted; what is 0 may be left out.
pub(crate) fn counter(summary: &Summary, name: &str) -> u64 {
    let counters = summary.counters();
    let found = counters.iter().find(|(counted, _)| counted == name);
    found.map_or(0, |(_, count)| *count)
}

/// What the stations of a broker's disk have counted so far.
pub(crate) fn disk_counter(broker: &Broker, name: &str) -> u64 {
    let counters = broker.control().disk_counters();
    let found = counters.into_iter().find(|(counted, _)| *counted == name);
    found.expect("it is counted").1
}

/// Waits until something is so.
pub(crate) fn wait(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE_LONG;
    while !is_so() {
        assert!(Instant::now() < deadline, "{what}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// A broker on a free port of the loopback address.
pub(crate) fn broker(shards: u16, settings: &[&str], change: impl FnOnce(&mut Config)) -> Broker {
    let mut sources = Sources::new()
        .set("mqtt.listen=127.0.0.1:0")
        .set("data.store=memory")
        .set(&format!("server.placement={}", placement()));
    for setting in settings {
        sources = sources.set(setting);
    }
    let mut config = Config::new(sources.check().expect("the settings of a test are right"));
    config.shards = shards;
    change(&mut config);
    Broker::start(config).expect("a free port can be bound")
}

/// What the shards answer to a question of an operator.
pub(crate) fn asked<T>(answer: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    runtime.expect("a runtime").block_on(answer)
}

/// The same with a data folder; it serves when this returns.
pub(crate) fn broker_on(folder: &Path, shards: u16, settings: &[&str]) -> Broker {
    broker_on_with(folder, shards, settings, |_| {})
}

/// The same with a change of what no setting says.
pub(crate) fn broker_on_with(
    folder: &Path,
    shards: u16,
    settings: &[&str],
    change: impl FnOnce(&mut Config),
) -> Broker {
    let path = format!("data.path={}", folder.display());
    let mine = ["data.store=disk", "log.segment_bytes=1MiB", path.as_str()];
    let broker = broker(shards, &[&mine, settings].concat(), change);
    let deadline = Instant::now() + PATIENCE;
    loop {
        match broker.status() {
            Status::Serving => return broker,
            Status::Reading | Status::Recovering => {}
            Status::Failed(failure) => panic!("the disk failed: {failure}"),
        }
        assert!(Instant::now() < deadline, "the broker does not serve");
        thread::sleep(Duration::from_millis(1));
    }
}

/// A packet: its first byte and its body.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Packet {
    pub(crate) first: u8,
    pub(crate) body: Vec<u8>,
}

/// A socket that speaks whole packets.
pub(crate) struct Client {
    stream: TcpStream,
    /// Deliveries that came before the SUBACK of their subscription, as they may (v5 section 3.8.4).
    early: VecDeque<Packet>,
}

impl Client {
    /// Connects the socket only.
    pub(crate) fn open(address: SocketAddr) -> Self {
        Self::of(TcpStream::connect(address).expect("the broker listens"))
    }

    /// The same from an address of 127.0.0.0/8.
    pub(crate) fn open_from(from: [u8; 4], address: SocketAddr) -> Self {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
        let from = SocketAddr::from((from, 0));
        socket.bind(&from.into()).expect("an address of loopback");
        socket.connect(&address.into()).expect("the broker listens");
        Self::of(socket.into())
    }

    fn of(stream: TcpStream) -> Self {
        stream
            .set_read_timeout(Some(PATIENCE))
            .expect("a timeout can be set");
        stream
            .set_nodelay(true)
            .expect("a TCP socket has this option");
        Self {
            stream,
            early: VecDeque::new(),
        }
    }

    /// CONNECT of 3.1.1 with CleanSession and its CONNACK.
    pub(crate) fn connect(address: SocketAddr, client_id: &str) -> Self {
        Self::connect_with(address, client_id, 4, 0x02, &[])
    }

    /// CONNECT with these flags (and, for 5.0, these properties); the CONNACK must accept.
    pub(crate) fn connect_with(
        address: SocketAddr,
        client_id: &str,
        version: u8,
        flags: u8,
        properties: &[u8],
    ) -> Self {
        Self::session(address, client_id, version, flags, properties).0
    }

    /// The same, with whether a session was there.
    pub(crate) fn session(
        address: SocketAddr,
        client_id: &str,
        version: u8,
        flags: u8,
        properties: &[u8],
    ) -> (Self, bool) {
        Self::open_session(address, client_id, version, flags, properties, &[])
    }

    /// The same; `payload` follows the client id: will properties, topic and payload.
    pub(crate) fn open_session(
        address: SocketAddr,
        client_id: &str,
        version: u8,
        flags: u8,
        properties: &[u8],
        payload: &[u8],
    ) -> (Self, bool) {
        let mut client = Self::open(address);
        let mut body = vec![0, 4, b'M', b'Q', b'T', b'T', version, flags, 0, 60];
        if version == 5 {
            body.push(properties.len() as u8);
            body.extend_from_slice(properties);
        }
        body.extend(text(client_id));
        body.extend_from_slice(payload);
        client.send(0x10, &body);
        let connack = client.receive();
        assert_eq!((connack.first, connack.body[1]), (0x20, 0), "{connack:?}");
        (client, connack.body[0] == 1)
    }

    /// Sends a packet.
    pub(crate) fn send(&mut self, first: u8, body: &[u8]) {
        self.stream
            .write_all(&encode(first, body))
            .expect("the broker takes what it is sent");
    }

    /// Sends bytes as they are.
    pub(crate) fn send_raw(&mut self, bytes: &[u8]) {
        self.stream
            .write_all(bytes)
            .expect("the broker takes what it is sent");
    }

    /// Subscribes to one filter and waits for the answer.
    pub(crate) fn subscribe(&mut self, filter: &str, qos: u8) {
        let mut body = vec![0, 1];
        body.extend(text(filter));
        body.push(qos);
        self.send(0x82, &body);
        let mut suback = self.read();
        while suback.first & 0xF0 == 0x30 {
            self.early.push_back(suback);
            suback = self.read();
        }
        assert_eq!(
            suback,
            Packet {
                first: 0x90,
                body: vec![0, 1, qos]
            }
        );
    }

    /// The next packet.
    pub(crate) fn receive(&mut self) -> Packet {
        match self.early.pop_front() {
            Some(packet) => packet,
            None => self.read(),
        }
    }

    fn read(&mut self) -> Packet {
        let mut first = [0];
        self.stream
            .read_exact(&mut first)
            .expect("a packet must come");
        let (mut length, mut shift) = (0_usize, 0);
        loop {
            let mut byte = [0];
            self.stream
                .read_exact(&mut byte)
                .expect("a packet has a length");
            length |= usize::from(byte[0] & 0x7F) << shift;
            shift += 7;
            if byte[0] < 0x80 {
                break;
            }
        }
        let mut body = vec![0; length];
        self.stream
            .read_exact(&mut body)
            .expect("a packet is whole");
        Packet {
            first: first[0],
            body,
        }
    }

    /// The next packet, which must be a PUBLISH: topic, packet id (0 for QoS 0), payload. It is answered, and so are PUBRELs before it.
    pub(crate) fn receive_publish(&mut self) -> (String, Vec<u8>) {
        let mut packet = self.receive();
        while packet.first == 0x62 {
            self.send(0x70, &packet.body);
            packet = self.receive();
        }
        assert_eq!(packet.first & 0xF0, 0x30, "{packet:?}");
        let qos = packet.first >> 1 & 3;
        let topic_end = 2 + usize::from(u16::from_be_bytes([packet.body[0], packet.body[1]]));
        let topic =
            String::from_utf8(packet.body[2..topic_end].to_vec()).expect("a topic is UTF-8");
        let payload_start = if qos > 0 { topic_end + 2 } else { topic_end };
        if qos > 0 {
            let answer = [0x40, 0x50][usize::from(qos) - 1];
            self.send(answer, &packet.body[topic_end..payload_start]);
        }
        (topic, packet.body[payload_start..].to_vec())
    }

    /// Takes the answers to publishes with so many packet ids from `first` on: PUBACK; or PUBREC, and PUBCOMP for each PUBREL. Each kind comes in
    /// order; the first PUBCOMP may come before the last PUBREC.
    pub(crate) fn settle(&mut self, qos: u8, first: u16, count: u32) {
        let kinds: &[u8] = [&[][..], &[0x40], &[0x50, 0x70]][usize::from(qos)];
        let mut next = [first; 2];
        for _ in 0..count as usize * kinds.len() {
            let answer = self.receive();
            let kind = kinds.iter().position(|first| *first == answer.first);
            let kind = kind.expect("an answer of this QoS");
            let packet_id = next[kind].to_be_bytes();
            assert_eq!(answer.body, packet_id, "{:#x} in order", answer.first);
            next[kind] += 1;
            if answer.first == 0x50 {
                self.send(0x62, &packet_id);
            }
        }
    }

    /// The next packet; none when the broker closes the connection, or says nothing for so long.
    pub(crate) fn receive_within(&mut self, patience: Duration) -> Option<Packet> {
        let timeout = |stream: &TcpStream, of| {
            stream
                .set_read_timeout(Some(of))
                .expect("a timeout can be set");
        };
        timeout(&self.stream, patience);
        let comes = self.stream.peek(&mut [0]);
        timeout(&self.stream, PATIENCE);
        matches!(comes, Ok(1)).then(|| self.receive())
    }

    /// Whether the broker has closed the connection, after at most one packet of its own.
    pub(crate) fn is_closed(&mut self) -> bool {
        let mut rest = Vec::new();
        self.stream.read_to_end(&mut rest).is_ok()
    }
}

/// A packet's bytes.
pub(crate) fn encode(first: u8, body: &[u8]) -> Vec<u8> {
    let mut bytes = vec![first];
    bytes.extend(counted(body));
    bytes
}

/// Bytes behind their number, as packets and properties have them.
pub(crate) fn counted(body: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut length = body.len();
    loop {
        let low = (length & 0x7F) as u8;
        length >>= 7;
        bytes.push(if length > 0 { low | 0x80 } else { low });
        if length == 0 {
            break;
        }
    }
    bytes.extend_from_slice(body);
    bytes
}

/// A PUBLISH of 3.1.1.
pub(crate) fn publish(topic: &str, qos: u8, packet_id: u16, payload: &[u8]) -> Vec<u8> {
    let mut body = text(topic);
    if qos > 0 {
        body.extend(packet_id.to_be_bytes());
    }
    body.extend_from_slice(payload);
    encode(0x30 | qos << 1, &body)
}

/// A string of MQTT.
pub(crate) fn text(text: &str) -> Vec<u8> {
    let mut bytes = (text.len() as u16).to_be_bytes().to_vec();
    bytes.extend_from_slice(text.as_bytes());
    bytes
}
