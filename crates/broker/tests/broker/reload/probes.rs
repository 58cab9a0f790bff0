//! For each setting that needs no restart: what a client sees of it.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use crate::support::{Client, Packet, encode, publish, text};

/// A setting, two values of it, and what is seen with each.
pub(crate) struct Row {
    /// Other settings, the same before and after.
    pub(crate) given: &'static [&'static str],
    pub(crate) before: &'static str,
    pub(crate) after: &'static str,
    pub(crate) probe: fn(SocketAddr) -> String,
    pub(crate) seen_before: &'static str,
    pub(crate) seen_after: &'static str,
}

macro_rules! row {
    ($before:literal -> $after:literal, $probe:expr, $seen_before:literal -> $seen_after:literal $(, given $given:expr)?) => {
        Row {
            given: { let given: &[&str] = &[]; $(let given: &[&str] = &{ let _ = given; $given };)? given },
            before: $before,
            after: $after,
            probe: $probe,
            seen_before: $seen_before,
            seen_after: $seen_after,
        }
    };
}

/// How long something is waited for that should not come.
const SILENCE: Duration = Duration::from_millis(400);

pub(crate) const ROWS: &[Row] = &[
    row!("listeners.connections_max=100" -> "listeners.connections_max=1", two_connections, "both" -> "one"),
    row!("limits.messages_per_second=0" -> "limits.messages_per_second=10", after_a_burst, "at once" -> "late"),
    row!("limits.bytes_per_second=0" -> "limits.bytes_per_second=100B", after_a_burst, "at once" -> "late"),
    row!("mqtt.packet_bytes_max=1MiB" -> "mqtt.packet_bytes_max=32KiB", |to| connack(to, 0x27), "00100000" -> "00008000"),
    row!("mqtt.client_id_bytes_max=100" -> "mqtt.client_id_bytes_max=50", long_client_id, "0x00" -> "0x85"),
    row!("mqtt.topic_bytes_max=4096" -> "mqtt.topic_bytes_max=10", |to| subscribed(to, "a/long/topic/filter"), "0x90 0" -> "0xE0 143"),
    row!("mqtt.topic_levels_max=128" -> "mqtt.topic_levels_max=2", |to| subscribed(to, "a/b/c"), "0x90 0" -> "0xE0 143"),
    row!("mqtt.user_properties_max=64" -> "mqtt.user_properties_max=2", three_user_properties, "0x40" -> "0xE0"),
    row!("mqtt.user_properties_bytes_max=16KiB" -> "mqtt.user_properties_bytes_max=8", three_user_properties, "0x40" -> "0xE0"),
    row!("mqtt.topic_alias_max=32" -> "mqtt.topic_alias_max=5", |to| connack(to, 0x22), "0020" -> "0005"),
    row!("mqtt.receive_maximum=1024" -> "mqtt.receive_maximum=7", |to| connack(to, 0x21), "0400" -> "0007"),
    row!("mqtt.outbound_window_max=1024" -> "mqtt.outbound_window_max=2", deliveries_without_acks, "5" -> "2"),
    row!("mqtt.keep_alive_max_seconds=0" -> "mqtt.keep_alive_max_seconds=30", |to| connack(to, 0x13), "none" -> "001e"),
    row!("mqtt.connect_timeout=5m" -> "mqtt.connect_timeout=100ms", silent_socket, "open" -> "closed"),
    row!("mqtt.connect_bytes_max=16KiB" -> "mqtt.connect_bytes_max=64", long_connect, "0x00" -> "closed", given ["mqtt.client_id_bytes_max=23"]),
    row!("mqtt.output_bytes_max=64MiB" -> "mqtt.output_bytes_max=64KiB", late_reader, "all" -> "some"),
    row!("mqtt.subscriptions_max=10000" -> "mqtt.subscriptions_max=2", third_subscription, "0" -> "151"),
    row!("mqtt.shared_subscriptions_max=256" -> "mqtt.shared_subscriptions_max=0", |to| subscribed(to, "$share/g/a"), "0x90 0" -> "0x90 151"),
    row!("mqtt.subscription_bytes_max=1MiB" -> "mqtt.subscription_bytes_max=1KiB", |to| subscribed(to, &"x".repeat(1_500)), "0x90 0" -> "0x90 151"),
    row!("mqtt.session_expiry_max=7d" -> "mqtt.session_expiry_max=1m", |to| connack_of(to, &[0x11, 0, 1, 0, 0], 0x11), "none" -> "0000003c"),
    row!("mqtt.shared_strategy=round_robin" -> "mqtt.shared_strategy=sticky", shares, "2 and 2" -> "4 and 0"),
    row!("mqtt.shared_strategy=round_robin" -> "mqtt.shared_strategy=hash_topic", shares, "2 and 2" -> "4 and 0"),
    row!("mqtt.retain_available=true" -> "mqtt.retain_available=false", |to| connack(to, 0x25), "none" -> "00"),
    row!("mqtt.qos_max=2" -> "mqtt.qos_max=1", |to| connack(to, 0x24), "none" -> "01"),
    row!("mqtt.qos_max=1" -> "mqtt.qos_max=0", |to| connack(to, 0x24), "01" -> "00"),
    row!("mqtt.wildcard_subscriptions_available=true" -> "mqtt.wildcard_subscriptions_available=false", |to| connack(to, 0x28), "none" -> "00"),
    row!("mqtt.subscription_identifiers_available=true" -> "mqtt.subscription_identifiers_available=false", |to| connack(to, 0x29), "none" -> "00"),
    row!("mqtt.shared_subscriptions_available=true" -> "mqtt.shared_subscriptions_available=false", |to| connack(to, 0x2A), "none" -> "00"),
    row!("mqtt.response_information=" -> "mqtt.response_information=a", |to| connack_of(to, &[0x19, 1], 0x1A), "none" -> "000161"),
    row!("mqtt.redirect_to=" -> "mqtt.redirect_to=elsewhere", connack_code, "0x00" -> "0x9C"),
    row!("mqtt.redirect_permanently=false" -> "mqtt.redirect_permanently=true", connack_code, "0x9C" -> "0x9D", given ["mqtt.redirect_to=elsewhere"]),
    row!("session.queue_messages_max=1000" -> "session.queue_messages_max=2", waiting, "1 2 3 4 5" -> "1 2"),
    row!("session.queue_bytes_max=16MiB" -> "session.queue_bytes_max=1KiB", waiting, "1 2 3 4 5" -> "1 2"),
    row!("session.overflow=drop_newest" -> "session.overflow=drop_oldest", waiting, "1 2" -> "4 5", given ["session.queue_messages_max=2"]),
    row!("session.overflow=drop_newest" -> "session.overflow=refuse", third_of_two, "0x00" -> "0x97", given ["session.queue_messages_max=2"]),
    row!("retained.messages_max=1000" -> "retained.messages_max=0", retained, "0x00" -> "0x97"),
    row!("retained.bytes_max=1MiB" -> "retained.bytes_max=0", retained, "0x00" -> "0x97"),
    row!("retained.payload_bytes_max=1MiB" -> "retained.payload_bytes_max=10", retained, "0x00" -> "0x97"),
    row!("sys.interval=0s" -> "sys.interval=100ms", values, "none" -> "some"),
];

/// CONNECT of 5.0 and what is answered.
fn open(to: SocketAddr, client_id: &str, properties: &[u8]) -> (Client, Option<Packet>) {
    let mut client = Client::open(to);
    let mut body = vec![0, 4, b'M', b'Q', b'T', b'T', 5, 2, 0, 60];
    body.push(properties.len() as u8);
    body.extend_from_slice(properties);
    body.extend(text(client_id));
    client.send(0x10, &body);
    let connack = client.receive_within(Duration::from_secs(10));
    (client, connack)
}

fn client(to: SocketAddr, client_id: &str) -> Client {
    Client::connect_with(to, client_id, 5, 2, &[])
}

fn code(packet: Option<&Packet>) -> String {
    packet.map_or_else(|| "closed".to_owned(), |it| format!("{:#04X}", it.body[1]))
}

fn connack_code(to: SocketAddr) -> String {
    code(open(to, "", &[]).1.as_ref())
}

fn connack(to: SocketAddr, property: u8) -> String {
    connack_of(to, &[], property)
}

/// The value of a property of the CONNACK.
fn connack_of(to: SocketAddr, properties: &[u8], property: u8) -> String {
    let (_client, connack) = open(to, "someone", properties);
    let body = connack.expect("an answer").body;
    let mut at = 3;
    while let Some(&id) = body.get(at) {
        let length = match id {
            0x24 | 0x25 | 0x28..=0x2A => 1,
            0x13 | 0x21 | 0x22 => 2,
            0x11 | 0x27 => 4,
            _ => 2 + usize::from(u16::from_be_bytes([body[at + 1], body[at + 2]])),
        };
        let value = &body[at + 1..at + 1 + length];
        if id == property {
            return value.iter().map(|byte| format!("{byte:02x}")).collect();
        }
        at += 1 + length;
    }
    "none".to_owned()
}

fn two_connections(to: SocketAddr) -> String {
    // Connections of the question before may still count.
    let deadline = Instant::now() + Duration::from_secs(10);
    let first = loop {
        match open(to, "first", &[]) {
            (first, Some(_)) => break first,
            (_, None) if Instant::now() < deadline => thread::sleep(Duration::from_millis(10)),
            (_, None) => return "none".to_owned(),
        }
    };
    let mut second = Client::open(to);
    second.send(0x10, b"\0\x04MQTT\x05\x02\0\x3C\0\0\x01b");
    let both = second.receive_within(Duration::from_secs(5)).is_some();
    drop(first);
    if both { "both" } else { "one" }.to_owned()
}

fn long_client_id(to: SocketAddr) -> String {
    code(open(to, &"x".repeat(70), &[]).1.as_ref())
}

/// With a will of 500 bytes.
fn long_connect(to: SocketAddr) -> String {
    let mut client = Client::open(to);
    let mut body = vec![0, 4, b'M', b'Q', b'T', b'T', 4, 6, 0, 60];
    body.extend(text("a"));
    body.extend(text("will"));
    body.extend(text(&"x".repeat(500)));
    client.send(0x10, &body);
    let connack = client.receive_within(Duration::from_secs(10));
    let accepted = connack.filter(|it| it.first == 0x20 && it.body[1] == 0);
    code(accepted.as_ref())
}

fn silent_socket(to: SocketAddr) -> String {
    let mut client = Client::open(to);
    let silent = client.receive_within(Duration::from_millis(700)).is_none();
    assert!(silent, "nobody has said anything");
    // A socket that is closed gives its end at once.
    let start = Instant::now();
    client.receive_within(SILENCE);
    let closed = start.elapsed() < SILENCE / 2;
    if closed { "closed" } else { "open" }.to_owned()
}

/// When somebody is answered who has published 60 messages of 10 bytes at once: a rate of 10 messages is five seconds behind.
fn after_a_burst(to: SocketAddr) -> String {
    let mut fast = client(to, "");
    let burst: Vec<u8> = (0..60)
        .flat_map(|_| publish_v5("t", b"0123456789"))
        .collect();
    fast.send_raw(&burst);
    // The burst is read by then: what was sent in one read is taken as a whole.
    thread::sleep(Duration::from_millis(200));
    fast.send(0xC0, &[]);
    let answer = fast.receive_within(Duration::from_secs(2));
    if answer.is_some() { "at once" } else { "late" }.to_owned()
}

/// Of QoS 0.
fn publish_v5(topic: &str, payload: &[u8]) -> Vec<u8> {
    let mut body = text(topic);
    body.push(0);
    body.extend_from_slice(payload);
    encode(0x30, &body)
}

/// The code of the last filter, behind the properties.
fn last(suback: &[u8]) -> u8 {
    suback[suback.len() - 1]
}

fn subscribed(to: SocketAddr, filter: &str) -> String {
    let mut client = client(to, "subscriber");
    let mut body = vec![0, 1, 0];
    body.extend(text(filter));
    body.push(0);
    client.send(0x82, &body);
    match client.receive_within(Duration::from_secs(5)) {
        Some(it) if it.first == 0x90 => format!("0x90 {}", last(&it.body)),
        Some(it) => format!("{:#04X} {}", it.first, it.body[0]),
        None => "closed".to_owned(),
    }
}

fn three_user_properties(to: SocketAddr) -> String {
    let mut client = client(to, "publisher");
    let mut body = text("a");
    body.extend([0, 1, 21]);
    for _ in 0..3 {
        body.extend([0x26, 0, 1, b'k', 0, 1, b'v']);
    }
    client.send(0x32, &body);
    let answer = client.receive_within(Duration::from_secs(5));
    format!("{:#04X}", answer.expect("an answer").first)
}

/// Deliveries of five of QoS 1 that are not acknowledged.
fn deliveries_without_acks(to: SocketAddr) -> String {
    let mut receiver = Client::connect(to, "receiver");
    receiver.subscribe("t", 1);
    let mut publisher = Client::connect(to, "publisher");
    for id in 1..=5 {
        publisher.send_raw(&publish("t", 1, id, b"x"));
        assert_eq!(publisher.receive().first, 0x40);
    }
    let mut count = 0;
    while receiver.receive_within(SILENCE).is_some() {
        count += 1;
    }
    count.to_string()
}

/// Whether a client that reads late gets all of some 24 MB. The payloads are of a size that is shared, not copied, so
/// that nothing but `mqtt.output_bytes_max` drops them.
fn late_reader(to: SocketAddr) -> String {
    const COUNT: usize = 360;
    let mut reader = Client::connect(to, "reader");
    reader.subscribe("big", 0);
    let mut publisher = Client::connect(to, "publisher");
    for _ in 0..COUNT {
        publisher.send_raw(&publish("big", 0, 0, &[7; 66_000]));
    }
    publisher.send(0xC0, &[]);
    assert_eq!(publisher.receive().first, 0xD0, "all of it was taken");
    let mut count = 0;
    while reader.receive_within(SILENCE).is_some() {
        count += 1;
    }
    if count == COUNT { "all" } else { "some" }.to_owned()
}

fn third_subscription(to: SocketAddr) -> String {
    let mut client = client(to, "subscriber");
    let mut body = vec![0, 1, 0];
    for filter in ["a", "b", "c"] {
        body.extend(text(filter));
        body.push(0);
    }
    client.send(0x82, &body);
    last(&client.receive().body).to_string()
}

/// How many of four messages each of two members of a new group gets.
fn shares(to: SocketAddr) -> String {
    static GROUPS: AtomicU32 = AtomicU32::new(0);
    let group = GROUPS.fetch_add(1, Relaxed);
    let mut members = ["one", "two"].map(|name| {
        let mut member = Client::connect(to, name);
        member.subscribe(&format!("$share/g{group}/s/{group}"), 0);
        member
    });
    let mut publisher = Client::connect(to, "publisher");
    for _ in 0..4 {
        publisher.send_raw(&publish(&format!("s/{group}"), 0, 0, b"x"));
        publisher.send(0xC0, &[]);
        assert_eq!(publisher.receive().first, 0xD0);
    }
    let mut counts = members.each_mut().map(|member| {
        let mut count = 0;
        while member.receive_within(SILENCE).is_some() {
            count += 1;
        }
        count
    });
    counts.sort_unstable();
    format!("{} and {}", counts[1], counts[0])
}

/// Which of five messages of 400 bytes wait for a session that was away.
fn waiting(to: SocketAddr) -> String {
    let connect = || Client::session(to, "absent", 4, 0, &[]);
    let (mut client, _) = connect();
    client.subscribe("w", 1);
    client.send(0xE0, &[]);
    assert!(client.is_closed());
    let mut publisher = Client::connect(to, "publisher");
    for id in 1..=5_u16 {
        let mut payload = [0; 400];
        payload[0] = id as u8;
        publisher.send_raw(&publish("w", 1, id, &payload));
        assert_eq!(publisher.receive().first, 0x40);
    }
    let (mut client, present) = connect();
    assert!(present, "the session was kept");
    let mut seen = Vec::new();
    while let Some(packet) = client.receive_within(SILENCE) {
        seen.push(packet.body[5].to_string());
        client.send(0x40, &packet.body[3..5]);
    }
    // The next look begins with a new session.
    drop(Client::connect(to, "absent"));
    thread::sleep(Duration::from_millis(20));
    seen.join(" ")
}

/// The answer to the third message for a connected session that has two and acknowledges none.
fn third_of_two(to: SocketAddr) -> String {
    let mut receiver = Client::connect(to, "receiver");
    receiver.subscribe("full", 1);
    let mut publisher = client(to, "publisher");
    let mut answer = String::new();
    for packet_id in 1..=3 {
        let mut body = text("full");
        body.extend([0, packet_id, 0]);
        publisher.send(0x32, &body);
        let puback = publisher.receive();
        assert_eq!(puback.first, 0x40, "{puback:?}");
        answer = format!("{:#04X}", puback.body.get(2).copied().unwrap_or(0));
    }
    answer
}

/// The answer to a message that is to be retained, each time of another topic.
fn retained(to: SocketAddr) -> String {
    static TOPICS: AtomicU32 = AtomicU32::new(0);
    let mut client = client(to, "publisher");
    let mut body = text(&format!("kept/{}", TOPICS.fetch_add(1, Relaxed)));
    body.extend([0, 1, 0]);
    body.extend([7; 100]);
    client.send_raw(&encode(0x33, &body));
    match client.receive_within(Duration::from_secs(5)) {
        Some(it) if it.first == 0x40 => {
            format!("{:#04X}", it.body.get(2).copied().unwrap_or(0))
        }
        Some(it) => format!("{:#04X}", it.body[0]),
        None => "closed".to_owned(),
    }
}

fn values(to: SocketAddr) -> String {
    let mut client = Client::connect(to, "watcher");
    client.subscribe("$SYS/broker/uptime", 0);
    let some = client.receive_within(Duration::from_millis(500)).is_some();
    if some { "some" } else { "none" }.to_owned()
}
