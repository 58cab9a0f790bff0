//! A whole broker of two shards, driven by bytes over sockets.
//!
//! The kernel shares connections out among the shards; with eight publishers and eight subscribers all of them are on one
//! shard once in 2^15 runs.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::thread;

use crate::support::{Client, broker, counter, encode, publish, text};

const CLIENTS: usize = 8;

/// Every subscriber gets every message of every publisher, in the order of each publisher.
fn all_reach_all(address: SocketAddr, qos: u8, messages: u32, clean_session: bool) {
    let flags = if clean_session { 0x02 } else { 0 };
    let mut subscribers: Vec<Client> = (0..CLIENTS)
        .map(|number| Client::connect_with(address, &format!("sub-{qos}-{number}"), 4, flags, &[]))
        .collect();
    for subscriber in &mut subscribers {
        subscriber.subscribe("data/+", qos);
    }
    let publishers: Vec<_> = (0..CLIENTS)
        .map(|number| thread::spawn(move || publish_all(address, number, qos, messages)))
        .collect();
    let readers: Vec<_> = subscribers
        .into_iter()
        .map(|mut subscriber| {
            thread::spawn(move || {
                let mut next: HashMap<String, u32> = HashMap::new();
                for _ in 0..messages * CLIENTS as u32 {
                    let (topic, payload) = subscriber.receive_publish();
                    let number =
                        u32::from_be_bytes(payload[..4].try_into().expect("a number was sent"));
                    let expected = next.entry(topic).or_default();
                    assert_eq!(number, *expected, "in the order of the publisher");
                    *expected += 1;
                }
                next.len()
            })
        })
        .collect();
    for publisher in publishers {
        publisher.join().expect("a publisher ends");
    }
    for reader in readers {
        assert_eq!(reader.join().expect("a subscriber got all"), CLIENTS);
    }
}

/// Sends in windows of 50; above QoS 0 each window is acknowledged, each kind of answer in order, before the next.
fn publish_all(address: SocketAddr, number: usize, qos: u8, messages: u32) {
    let mut client = Client::connect(address, &format!("pub-{qos}-{number}"));
    let topic = format!("data/{number}");
    let mut sent = 0;
    while sent < messages {
        let window = 50.min(messages - sent);
        let mut bytes = Vec::new();
        for message in sent..sent + window {
            bytes.extend(publish(
                &topic,
                qos,
                message as u16 + 1,
                &message.to_be_bytes(),
            ));
        }
        client.send_raw(&bytes);
        client.settle(qos, sent as u16 + 1, window);
        sent += window;
    }
}

#[test]
fn qos_0_reaches_every_subscriber_across_shards_in_order() {
    let broker = broker(2, &[], |_| {});
    all_reach_all(broker.addresses()[0], 0, 1_000, true);
    broker.stop().expect("no shard failed");
}

#[test]
fn qos_1_reaches_every_subscriber_across_shards_in_order() {
    let broker = broker(2, &[], |_| {});
    all_reach_all(broker.addresses()[0], 1, 1_000, true);
    broker.stop().expect("no shard failed");
}

/// Durable homes are spread over both shards, so that publishes, deliveries, outcomes and answers all go over rings.
#[test]
fn qos_1_to_durable_sessions_reaches_all_across_shards_in_order() {
    let broker = broker(2, &[], |_| {});
    all_reach_all(broker.addresses()[0], 1, 500, false);
    broker.stop().expect("no shard failed");
}

#[test]
fn qos_2_reaches_all_once_across_shards_in_order() {
    let broker = broker(2, &[], |_| {});
    all_reach_all(broker.addresses()[0], 2, 300, true);
    all_reach_all(broker.addresses()[0], 2, 200, false);
    broker.stop().expect("no shard failed");
}

/// M48: rings of one and of two slots are full all the time; nothing is lost, nobody waits for ever.
#[test]
fn m48_rings_of_few_slots_carry_the_same() {
    for slots in [1, 2] {
        let broker = broker(3, &[], |config| config.ring_slots = slots);
        all_reach_all(broker.addresses()[0], 0, 1_000, true);
        all_reach_all(broker.addresses()[0], 1, 500, false);
        broker.stop().expect("no shard failed");
    }
}

#[test]
fn a_publisher_that_subscribes_gets_its_own_messages_in_order() {
    let broker = broker(2, &[], |_| {});
    let mut client = Client::connect(broker.addresses()[0], "self");
    client.subscribe("mine", 1);
    let mut bytes = Vec::new();
    for number in 0..100_u32 {
        bytes.extend(publish("mine", 0, 0, &number.to_be_bytes()));
    }
    client.send_raw(&bytes);
    for number in 0..100_u32 {
        assert_eq!(
            client.receive_publish(),
            ("mine".to_owned(), number.to_be_bytes().to_vec())
        );
    }
    broker.stop().expect("no shard failed");
}

#[test]
fn packets_arrive_whole_however_they_are_cut() {
    let broker = broker(2, &[], |_| {});
    let address = broker.addresses()[0];
    let mut subscriber = Client::connect(address, "sub");
    subscriber.subscribe("cut", 0);
    let mut publisher = Client::connect(address, "pub");
    let large = vec![7; 300_000];
    let mut bytes = publish("cut", 0, 0, b"small");
    bytes.extend(publish("cut", 0, 0, &large));
    bytes.extend(publish("cut", 0, 0, b"end"));
    let (head, tail) = bytes.split_at(9);
    for byte in head {
        publisher.send_raw(&[*byte]);
    }
    for piece in tail.chunks(10_007) {
        publisher.send_raw(piece);
    }
    for expected in [&b"small"[..], &large, b"end"] {
        assert!(
            subscriber.receive_publish().1 == expected,
            "{} bytes",
            expected.len()
        );
    }
    broker.stop().expect("no shard failed");
}

#[test]
fn a_malformed_packet_ends_its_connection_only() {
    let broker = broker(2, &[], |_| {});
    let address = broker.addresses()[0];
    let mut good = Client::connect(address, "good");
    good.subscribe("t", 0);
    let mut bad = Client::connect_with(address, "bad", 5, 0x02, &[]);
    // PUBLISH with both QoS bits set.
    bad.send_raw(&encode(0x36, &[0, 1, b't', 0, 1, 0]));
    let disconnect = bad.receive();
    assert_eq!((disconnect.first, disconnect.body[0]), (0xE0, 0x81));
    assert!(bad.is_closed());
    good.send_raw(&publish("t", 0, 0, b"still here"));
    assert_eq!(good.receive_publish().1, b"still here");
    let summary = broker.stop().expect("no shard failed");
    for name in ["closed_fault", "closed_with_0x81"] {
        let one = (name.to_owned(), 1);
        assert!(summary.counters().contains(&one), "{name}: {summary:?}");
    }
}

#[test]
fn a_stop_says_good_bye_to_clients_of_mqtt_5() {
    let broker = broker(2, &[], |_| {});
    let address = broker.addresses()[0];
    let mut clients: Vec<Client> = (0..CLIENTS)
        .map(|number| Client::connect_with(address, &format!("c-{number}"), 5, 0x02, &[]))
        .collect();
    let summary = broker.stop().expect("no shard failed");
    for client in &mut clients {
        let disconnect = client.receive();
        assert_eq!((disconnect.first, disconnect.body[0]), (0xE0, 0x8B));
        assert!(client.is_closed());
    }
    assert!(
        summary
            .counters()
            .contains(&("closed_server_stops".to_owned(), CLIENTS as u64)),
        "{summary:?}"
    );
}

#[test]
fn m26_a_stop_sends_wills_before_it_closes_the_others() {
    let broker = broker(2, &[], |_| {});
    let address = broker.addresses()[0];
    let mut watchers: Vec<Client> = (0..CLIENTS)
        .map(|number| {
            let mut client = Client::connect(address, &format!("watcher-{number}"));
            client.subscribe("will", 1);
            client
        })
        .collect();
    // A will without properties, QoS 0: flags Clean Session and Will.
    let mut dying = Client::open(address);
    let mut body = vec![0, 4, b'M', b'Q', b'T', b'T', 4, 0x06, 0, 60, 0, 1, b'd'];
    body.extend([0, 4, b'w', b'i', b'l', b'l', 0, 3, b'b', b'y', b'e']);
    dying.send(0x10, &body);
    assert_eq!(dying.receive().body, [0, 0]);
    broker.stop().expect("no shard failed");
    for watcher in &mut watchers {
        assert_eq!(watcher.receive_publish().1, b"bye");
    }
}

#[test]
fn values_of_the_broker_are_retained_under_sys() {
    let broker = broker(2, &["sys.interval=1s"], |_| {});
    let mut client = Client::connect(broker.addresses()[0], "watcher");
    client.subscribe("$SYS/broker/version", 0);
    let (topic, payload) = client.receive_publish();
    assert_eq!(topic, "$SYS/broker/version");
    assert!(payload.starts_with(b"courser version "), "{payload:?}");
    let mut other = Client::connect(broker.addresses()[0], "other");
    other.subscribe("$SYS/broker/clients/connected", 0);
    while other.receive_publish().1 != b"2" {}
    broker.stop().expect("no shard failed");
}

#[test]
fn clients_cannot_write_values_of_the_broker() {
    let broker = broker(2, &["sys.interval=0s"], |_| {});
    let address = broker.addresses()[0];
    let mut client = Client::connect_with(address, "c", 5, 0x02, &[]);
    client.send(
        0x82,
        &[0, 1, 0, 0, 6, b'$', b'S', b'Y', b'S', b'/', b'#', 0],
    );
    assert_eq!(client.receive().body, [0, 1, 0, 0]);
    // QoS 0 is dropped, and counted as everything is that a client has no right to. QoS 1 is answered with Not authorized (0x87); each PUBLISH has no properties.
    for (qos, packet_id) in [(0_u8, &[][..]), (1, &[0, 9])] {
        let mut body = vec![0, 6];
        body.extend(b"$SYS/x");
        body.extend(packet_id);
        body.push(0);
        client.send(0x30 | qos << 1, &body);
    }
    let puback = client.receive();
    assert_eq!((puback.first, &puback.body[..3]), (0x40, &[0, 9, 0x87][..]));
    // QoS 2 too, of a clean session and of one that is kept, which goes by another way (M28): its Session Expiry Interval is 60 s.
    let kept = &[0x11, 0, 0, 0, 60];
    for mut client in [client, Client::connect_with(address, "kept", 5, 0x02, kept)] {
        let mut body = vec![0, 6];
        body.extend(b"$SYS/x");
        body.extend([0, 10, 0]);
        client.send(0x34, &body);
        let pubrec = client.receive();
        let expected = (0x50, &[0, 10, 0x87][..]);
        assert_eq!((pubrec.first, &pubrec.body[..3]), expected);
    }
    let summary = broker.stop().expect("no shard failed");
    assert_eq!(counter(&summary, "dropped_denied"), 1);
    assert_eq!(counter(&summary, "dropped_rejected"), 0);
}

#[test]
fn connections_above_the_limit_are_closed_at_once() {
    let broker = broker(2, &[], |config| config.connections_max = 2);
    let address = broker.addresses()[0];
    let _first = Client::connect(address, "1");
    let _second = Client::connect(address, "2");
    assert!(Client::open(address).is_closed());
    let summary = broker.stop().expect("no shard failed");
    assert!(
        summary
            .counters()
            .contains(&("connections_over_limit".to_owned(), 1)),
        "{summary:?}"
    );
}

#[test]
fn what_was_sent_before_a_takeover_is_published() {
    const MESSAGES: u32 = 300;
    let broker = broker(2, &[], |_| {});
    let address = broker.addresses()[0];
    let mut watcher = Client::connect(address, "watcher");
    watcher.subscribe("t", 0);
    let mut last = None;
    for number in 0..MESSAGES {
        // One client id again and again: the socket of the last publish is often still unread when the next CONNECT comes.
        let mut client = Client::connect(address, "script");
        let mut body = vec![0, 1, b't'];
        body.extend(number.to_be_bytes());
        client.send(0x30, &body);
        last = Some(client);
    }
    for number in 0..MESSAGES {
        assert_eq!(watcher.receive_publish().1, number.to_be_bytes());
    }
    drop(last);
    broker.stop().expect("no shard failed");
}

/// SUBSCRIBE (0x82) or UNSUBSCRIBE (0xA2) of 3.1.1 for so many filters.
fn about_many(first: u8, filters: std::ops::Range<usize>) -> Vec<u8> {
    let mut body = vec![0, 1];
    for number in filters {
        body.extend(text(&format!("many/{number}")));
        if first == 0x82 {
            body.push(1);
        }
    }
    encode(first, &body)
}

/// Turns of the shards while a client subscribes to so many filters with one packet.
fn turns_for(filters: usize) -> u64 {
    let broker = broker(1, &["sys.interval=0s"], |_| {});
    let mut client = Client::connect(broker.addresses()[0], "many");
    client.send_raw(&about_many(0x82, 0..filters));
    assert_eq!(
        client.receive().body[2..],
        vec![1; filters],
        "all are granted"
    );
    let summary = broker.stop().expect("no shard failed");
    let turns = summary
        .counters()
        .into_iter()
        .find(|(name, _)| name == "turns");
    turns.expect("turns are counted").1
}

/// A SUBSCRIBE of many filters holds nobody up: at most four of its parts of 32 filters are done in a turn, between which the others are
/// served.
#[test]
fn a_subscribe_of_many_filters_takes_many_turns() {
    let (one, many) = (turns_for(1), turns_for(1_000));
    assert!(many >= one + 20, "{many} turns, and {one} for one filter");
}

/// A connection that is lost between two parts leaves nothing that takes room of its session: all that it may have is there for the next.
#[test]
fn a_subscribe_whose_connection_is_lost_takes_no_room() {
    const ROOM: usize = 1_000;
    let settings = ["sys.interval=0s", "mqtt.subscriptions_max=1000"];
    let broker = broker(2, &settings, |_| {});
    let address = broker.addresses()[0];
    for _ in 0..20 {
        let mut client = Client::connect_with(address, "many", 4, 0, &[]);
        client.send_raw(&about_many(0x82, 0..ROOM));
        drop(client);
        let mut client = Client::connect_with(address, "many", 4, 0, &[]);
        client.send_raw(&about_many(0xA2, 0..ROOM));
        assert_eq!(client.receive().first, 0xB0);
        client.send_raw(&about_many(0x82, ROOM..2 * ROOM));
        let suback = client.receive();
        assert_eq!(suback.body[2..], [1; ROOM], "nothing is refused");
        client.send_raw(&about_many(0xA2, ROOM..2 * ROOM));
        assert_eq!(client.receive().first, 0xB0);
    }
    broker.stop().expect("no shard failed");
}
