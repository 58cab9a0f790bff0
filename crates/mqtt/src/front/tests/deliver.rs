//! Deliveries: what a client gets of a message, and what it does not get.

use std::num::NonZeroU32;
use std::sync::Arc;

use bytes::Bytes;
use courser_contract::{
    DeliverFlags, DeliverTo, Delivery, QoS, Record, RecordRef, RecordView, WallMs,
};

use super::support::{Client, Hello, V5, V311, block, lines, to_front, to_group, to_session, view};
use crate::codec::{MqttStr, Property, PropertyScope, ProtocolVersion};
use crate::front::{
    BLOCKED_SHARED_PAYLOAD_BYTES_MIN, Front, Output, Prepared, PreparedScratch,
    SHARED_PAYLOAD_BYTES_MIN, Socket,
};

fn with_packet_max(bytes: u32) -> Client {
    Client::attached_with(
        V5,
        |config| config.limits.packet_bytes_max = u32::MAX,
        &Hello {
            properties: &[Property::MaximumPacketSize(NonZeroU32::new(bytes).unwrap())],
            ..Hello::default()
        },
    )
}

#[test]
fn each_qos_as_granted() {
    // v3 [MQTT-4.3.1-1], v3 [MQTT-4.3.2-1], v3 [MQTT-2.3.1-5]; v5 [MQTT-4.3.1-1], v5 [MQTT-4.3.2-2], v5 [MQTT-4.3.3-2],
    // v5 [MQTT-2.2.1-2], v5 [MQTT-2.2.2-1]
    for version in [V311, V5] {
        let mut client = Client::attached(version);
        client.gets(
            view("a/b", QoS::ExactlyOnce, b"m"),
            &to_front(QoS::AtMostOnce),
        );
        client.gets_stored(
            view("a/b", QoS::ExactlyOnce, b"m"),
            &to_session(4, QoS::AtLeastOnce),
        );
        client.gets_stored(
            view("a/b", QoS::ExactlyOnce, b"m"),
            &to_session(5, QoS::ExactlyOnce),
        );
        assert_eq!(
            client.hears(),
            [
                "PUBLISH \"a/b\" q0 'm'",
                "PUBLISH \"a/b\" q1 id=5 'm'",
                "PUBLISH \"a/b\" q2 id=6 'm'"
            ]
        );
        assert!(client.effects().is_empty());
    }
}

#[test]
fn packet_ids_follow_from_the_stream() {
    // M30; v3 [MQTT-2.3.1-4], v5 [MQTT-2.2.1-4]: never 0, and the groups' range is left alone
    let mut client = Client::attached(V5);
    for (seq, id) in [(32_765, 32_766), (32_766, 32_767), (32_767, 1), (32_768, 2)] {
        client.gets_stored(
            view("t", QoS::AtLeastOnce, b""),
            &to_session(seq, QoS::AtLeastOnce),
        );
        assert_eq!(client.hears(), [format!("PUBLISH \"t\" q1 id={id} ''")]);
    }
}

#[test]
fn dup_and_retain_are_those_of_the_delivery() {
    // v3 [MQTT-3.3.1-1], v3 [MQTT-3.3.1-2], v3 [MQTT-3.3.1-3], v3 [MQTT-4.4.0-1]; v5 [MQTT-3.3.1-1], v5 [MQTT-3.3.1-2],
    // v5 [MQTT-3.3.1-3], v5 [MQTT-4.4.0-1]
    let flags = DeliverFlags {
        retain: true,
        duplicate: true,
        shared: false,
    };
    for version in [V311, V5] {
        let mut client = Client::attached(version);
        for (to, expected) in [
            (
                to_session(0, QoS::AtLeastOnce),
                "PUBLISH \"t\" q1 id=1 dup retain 'm'",
            ),
            (to_front(QoS::AtMostOnce), "PUBLISH \"t\" q0 retain 'm'"),
        ] {
            let message = view("t", QoS::AtLeastOnce, b"m");
            client.gets_stored(message, &DeliverTo { flags, ..to });
            assert_eq!(client.hears(), [expected]);
        }
    }
}

#[test]
fn subscription_identifiers_are_all_given_to_v5() {
    // v5 [MQTT-3.3.4-3], v5 [MQTT-3.3.4-4], v5 [MQTT-3.3.4-5]
    let to = |ids: &[u32], seq| DeliverTo {
        identifiers: Some(Arc::from(ids)),
        ..to_session(seq, QoS::AtLeastOnce)
    };
    let mut client = Client::attached(V5);
    client.gets_stored(view("t", QoS::AtLeastOnce, b"m"), &to(&[1, 268_435_455], 0));
    client.gets_stored(view("t", QoS::AtLeastOnce, b"m"), &to(&[200], 1));
    assert_eq!(
        client.hears(),
        [
            "PUBLISH \"t\" q1 id=1 sub=1 sub=268435455 'm'",
            "PUBLISH \"t\" q1 id=2 sub=200 'm'"
        ]
    );
    let mut client = Client::attached(V311);
    client.gets_stored(view("t", QoS::AtLeastOnce, b"m"), &to(&[1], 0));
    assert_eq!(client.hears(), ["PUBLISH \"t\" q1 id=1 'm'"]);
}

#[test]
fn properties_go_on_unchanged_and_not_to_v3() {
    // v5 [MQTT-3.3.2-4], v5 [MQTT-3.3.2-17], v5 [MQTT-3.3.2-18], v5 [MQTT-3.3.2-20]
    let text = |text| MqttStr::new(text).unwrap();
    let properties = block(
        PropertyScope::Publish,
        &[
            Property::UserProperty(text("z"), text("1")),
            Property::ContentType(text("c")),
            Property::UserProperty(text("a"), text("2")),
        ],
    );
    let message = RecordView {
        properties: properties.properties().as_bytes(),
        ..view("t", QoS::AtMostOnce, b"m")
    };
    let mut client = Client::attached(V5);
    client.gets(message, &to_front(QoS::AtMostOnce));
    assert_eq!(
        client.hears(),
        [
            "PUBLISH \"t\" q0 UserProperty(\"z\", \"1\") ContentType(\"c\") UserProperty(\"a\", \"2\") 'm'"
        ]
    );
    let mut client = Client::attached(V311);
    client.gets(message, &to_front(QoS::AtMostOnce));
    assert_eq!(client.hears(), ["PUBLISH \"t\" q0 'm'"]);
}

#[test]
fn message_expiry_is_what_is_left_of_it() {
    // v5 [MQTT-3.3.2-6], and never more than was set: the clock of another shard may have been read a little earlier.
    let mut client = Client::attached(V5);
    let at = |ms: u64| RecordView {
        expires_at: Some(WallMs(50_000_000 + ms)),
        ..view("t", QoS::AtLeastOnce, b"m")
    };
    for (ms, left) in [
        (10_020, 10),
        (10_000, 10),
        (9_500, 10),
        (9_499, 9),
        (499, 1),
        (1, 1),
    ] {
        client.gets(at(ms), &to_front(QoS::AtMostOnce));
        assert_eq!(
            client.hears(),
            [format!("PUBLISH \"t\" q0 expiry={left} 'm'")]
        );
    }
}

#[test]
fn an_expired_message_is_skipped_unless_it_was_sent_before() {
    // v5 [MQTT-3.3.2-5], v5 [MQTT-4.3.3-7], M30
    let mut client = Client::attached(V5);
    let over = RecordView {
        expires_at: Some(WallMs(50_000_000)),
        ..view("t", QoS::AtLeastOnce, b"m")
    };
    client.gets(over, &to_front(QoS::AtMostOnce));
    client.gets_stored(over, &to_session(3, QoS::AtLeastOnce));
    assert!(client.receives().is_empty());
    assert_eq!(
        client.effects(),
        [
            "dropped Expired 1",
            "dropped Expired 1",
            "volatile: outcome 3..=3 Skipped"
        ]
    );
    let mut to = to_session(2, QoS::ExactlyOnce);
    to.flags.duplicate = true;
    client.gets_stored(over, &to);
    assert_eq!(client.hears(), ["PUBLISH \"t\" q2 id=3 dup expiry=0 'm'"]);
}

#[test]
fn nothing_above_the_clients_maximum_packet_size() {
    // v5 [MQTT-3.1.2-24], v5 [MQTT-3.1.2-25]
    let message = |payload| view("topic", QoS::AtLeastOnce, payload);
    let mut client = with_packet_max(60);
    // 2 fixed header, 7 topic, 2 packet id, 1 properties
    client.gets_stored(message(&[b'x'; 48]), &to_session(0, QoS::AtLeastOnce));
    assert_eq!(client.receives().len(), 60);
    client.gets_stored(message(&[b'x'; 49]), &to_session(1, QoS::AtLeastOnce));
    client.gets_stored(message(&[b'x'; 51]), &to_front(QoS::AtMostOnce));
    client.gets_stored(message(&[b'x'; 60]), &to_session(2, QoS::AtLeastOnce));
    assert!(client.receives().is_empty());
    assert_eq!(
        client.effects(),
        [
            "dropped TooLarge 1",
            "volatile: outcome 1..=1 Skipped",
            "dropped TooLarge 1",
            "dropped TooLarge 1",
            "volatile: outcome 2..=2 Skipped"
        ]
    );
    // What a group gave is for who takes it.
    client.gets_stored(message(&[b'x'; 49]), &to_group(7, QoS::AtLeastOnce));
    client.gets_stored(message(&[b'x'; 51]), &to_group(9, QoS::AtMostOnce));
    assert_eq!(
        client.effects(),
        [
            "4: group 77 outcome 7..=7 TooLarge",
            "4: group 77 outcome 9..=9 TooLarge"
        ]
    );
    // A skipped one takes no place in the window.
    client.gets_stored(message(b"y"), &to_session(3, QoS::AtLeastOnce));
    assert_eq!(client.hears(), ["PUBLISH \"topic\" q1 id=4 'y'"]);
}

/// What a group goes by when it looks for a member that takes a message.
#[test]
fn no_delivery_has_more_bytes_than_its_message_says_m35() {
    let mut client = Client::attached_with(
        V5,
        |_| {},
        &Hello {
            properties: &[Property::TopicAliasMaximum(10)],
            ..Hello::default()
        },
    );
    let properties = [&[0x08, 0, 200][..], &[b'r'; 200]].concat();
    let payloads = [0, 1, 100, 127, 16_000, 16_400].map(|len| vec![b'x'; len]);
    for (seq, payload) in (0..).zip(&payloads) {
        let mut message = view("topic", QoS::AtLeastOnce, payload);
        message.properties = &properties;
        message.expires_at = Some(WallMs(client.now.wall.0 + 5_000));
        let to = DeliverTo {
            identifiers: Some([268_435_455].into()),
            ..to_session(seq, QoS::AtLeastOnce)
        };
        client.gets_stored(message, &to);
        let len = client.receives().len();
        let most = message.delivery_bytes_most();
        assert!((most - 26..=most).contains(&len), "{len} of {most}");
    }
}

/// M35: its home hears of it when half of what QoS 0 may take is taken, and when the output is out.
#[test]
fn groups_hear_that_a_member_does_not_read() {
    let shared = DeliverTo {
        flags: DeliverFlags {
            shared: true,
            ..DeliverFlags::default()
        },
        ..to_front(QoS::AtMostOnce)
    };
    for (to, told) in [(&shared, true), (&to_front(QoS::AtMostOnce), false)] {
        let mut client = Client::attached_with(
            V311,
            |config| config.output_bytes_max = 200,
            &Hello::default(),
        );
        let message = view("t", QoS::AtMostOnce, &[b'x'; 45]);
        let lines = |client: &mut Client, line: &str| {
            let expected: &[&str] = if told { &[line] } else { &[] };
            assert_eq!(client.effects(), expected);
        };
        client.gets(message, to);
        client.gets(message, to);
        assert_eq!(client.effects(), [""; 0], "one half was free");
        client.gets(message, to);
        client.gets(message, to);
        lines(&mut client, "volatile: uptake Behind");
        assert_eq!(client.hears().len(), 4, "once, and it gets what comes");
        for _ in 0..2 {
            client
                .front
                .handle_output_room(client.now, &mut client.shell);
        }
        lines(&mut client, "volatile: uptake Prompt");
    }
}

#[test]
fn qos_0_beyond_the_bound_of_the_output_is_dropped() {
    let mut client = Client::attached_with(
        V311,
        |config| config.output_bytes_max = 101,
        &Hello::default(),
    );
    let message = view("t", QoS::AtMostOnce, &[b'x'; 45]);
    for _ in 0..3 {
        client.gets(message, &to_front(QoS::AtMostOnce));
    }
    assert_eq!(client.effects(), [""; 0]);
    client.gets(message, &to_front(QoS::AtMostOnce));
    assert_eq!(client.effects(), ["dropped OutputFull 1"]);
    assert_eq!(client.hears().len(), 3);
    client.gets(message, &to_front(QoS::AtMostOnce));
    assert_eq!(client.hears().len(), 1);
}

/// Gives one message that is stored nowhere to several clients.
fn fan_out(clients: &mut [Client], payload: &[u8]) {
    let message = view("t", QoS::AtMostOnce, payload);
    let mut scratch = PreparedScratch::default();
    let delivery = Delivery {
        view: &message,
        record: None,
    };
    let mut prepared = Prepared::new(&delivery, clients[0].now, &mut scratch);
    for client in clients {
        let to = to_front(QoS::AtMostOnce);
        client
            .front
            .deliver(client.now, &mut prepared, &to, &mut client.shell);
        client.front.check();
    }
}

#[test]
fn m23_clients_that_do_not_read_share_what_they_do_not_read() {
    for (len, shared) in [(255, false), (256, true)] {
        let mut clients: Vec<Client> = (0..3).map(|_| Client::attached(V311)).collect();
        for client in &mut clients[1..] {
            client.front.output().set_socket(Socket::Full);
        }
        fan_out(&mut clients, &vec![b'x'; len]);
        let places: Vec<_> = clients
            .iter_mut()
            .map(|client| {
                let slices: Vec<_> = client.front.output().slices().collect();
                let payload = slices.last().expect("a packet was given");
                payload.as_ptr() as usize + payload.len()
            })
            .collect();
        assert_ne!(places[0], places[1], "who reads has a copy");
        assert_eq!(places[1] == places[2], shared, "{len} bytes");
        for client in &mut clients {
            assert_eq!(client.hears().len(), 1);
        }
    }
}

#[test]
fn m23_a_client_that_does_not_read_has_64_kib_of_its_own() {
    for (len, kept_min) in [(20, 64 * 1024 / 30), (1_000, 600)] {
        let mut clients = vec![Client::attached(V311)];
        clients[0].front.output().set_socket(Socket::Full);
        for _ in 0..5_000 {
            fan_out(&mut clients, &vec![b'x'; len]);
        }
        let output = clients[0].front.output();
        assert!(output.own_bytes() <= Output::OWN_BYTES_MAX);
        assert!(output.len() <= 1024 * 1024 + 1_100, "the other bound holds");
        let dropped = clients[0].effects().len();
        output_reads_again(&mut clients[0], 5_000 - dropped, kept_min);
    }
}

/// All that was not dropped comes once it reads, and then it gets more.
fn output_reads_again(client: &mut Client, kept: usize, kept_min: usize) {
    assert!(kept >= kept_min, "{kept} packets");
    assert_eq!(client.hears().len(), kept);
    client.front.output().set_socket(Socket::Open);
    fan_out(std::slice::from_mut(client), b"more");
    assert_eq!(client.hears().len(), 1);
}

#[test]
fn a_client_that_reads_no_answers_is_not_read() {
    let mut client = Client::attached_with(
        V311,
        |config| config.output_bytes_max = 100,
        &Hello::default(),
    );
    client.gives(&[0xC0, 0].repeat(1000));
    assert!(!client.front.wants_read());
    assert_eq!(client.receives().len(), 200);
    assert_eq!(client.rest.len(), 2 * 900);
    assert!(client.front.wants_read());
}

#[test]
fn nothing_is_delivered_before_connack_or_after_the_end() {
    let mut client = Client::new(V5, |_| {});
    client.connects(&Hello::default());
    client.effects();
    client.gets(view("t", QoS::AtMostOnce, b"m"), &to_front(QoS::AtMostOnce));
    assert!(client.receives().is_empty());
    let mut client = Client::attached(V5);
    client.front.handle_stop(client.now, &mut client.shell);
    client.receives();
    client.gets_run(0, 1);
    assert!(client.receives().is_empty());
}

/// Fronts of both versions get one message in many shapes: each gets what it would get alone.
#[test]
fn receivers_of_one_message_do_not_disturb_each_other() {
    let payloads = [
        20,
        BLOCKED_SHARED_PAYLOAD_BYTES_MIN,
        SHARED_PAYLOAD_BYTES_MIN,
        70_000,
    ];
    for (payload_len, stored) in payloads
        .into_iter()
        .flat_map(|len| [(len, false), (len, true)])
    {
        let payload = vec![b'p'; payload_len];
        let message = RecordView {
            expires_at: Some(WallMs(50_010_000)),
            ..view("topic/of/some/length", QoS::ExactlyOnce, &payload)
        };
        let shapes: Vec<(ProtocolVersion, DeliverTo)> = (0..60)
            .map(|n: u64| {
                let version = if n.is_multiple_of(3) { V311 } else { V5 };
                let mut to = match n % 4 {
                    0 => to_front(QoS::AtMostOnce),
                    1 => to_session(n, QoS::AtLeastOnce),
                    2 => to_session(n, QoS::ExactlyOnce),
                    _ => to_group(n, QoS::AtLeastOnce),
                };
                to.flags.retain = n.is_multiple_of(5);
                if n.is_multiple_of(7) {
                    to.identifiers = Some(Arc::from([n as u32 + 1, 300]));
                }
                (version, to)
            })
            .collect();
        // A client uses aliases or not.
        let alias = [Property::TopicAliasMaximum(2)];
        let hello = |index: usize| Hello {
            properties: if index.is_multiple_of(2) { &alias } else { &[] },
            ..Hello::default()
        };
        let attach = |index: usize, version| {
            let hello = if version == V5 {
                hello(index)
            } else {
                Hello::default()
            };
            let mut client = Client::attached_with(version, |_| {}, &hello);
            // From the second time on a topic has an alias.
            for _ in 0..index / 2 % 4 {
                client.gets(message, &to_front(QoS::AtMostOnce));
            }
            client.receives();
            client
        };
        let mut together: Vec<Client> = (0..60).map(|n| attach(n, shapes[n].0)).collect();
        let now = together[0].now;
        let record = Record::copy_of(&message);
        let mut scratch = PreparedScratch::default();
        let delivery = Delivery {
            view: &record.view(),
            record: stored.then(|| record.as_ref()),
        };
        let mut prepared = Prepared::new(&delivery, now, &mut scratch);
        for (n, (client, (_, to))) in together.iter_mut().zip(&shapes).enumerate() {
            if n % 3 == 0 {
                client.front.output().set_socket(Socket::Full);
            }
            client
                .front
                .deliver(now, &mut prepared, to, &mut client.shell);
        }
        for (n, (version, to)) in shapes.iter().enumerate() {
            let mut alone = attach(n, *version);
            alone.gets(message, to);
            let heard = alone.hears();
            assert_eq!(together[n].hears(), heard, "receiver {n}");
            assert_eq!(heard.len(), 1);
        }
    }
}

#[test]
fn large_stored_payloads_are_referenced_where_they_are() {
    let payload = vec![b'p'; SHARED_PAYLOAD_BYTES_MIN];
    let mut encoded = vec![0; 8];
    view("t", QoS::AtMostOnce, &payload).encode(&mut encoded);
    let block = Bytes::from(encoded);
    let record = RecordRef::parse(&block, 8).unwrap();
    let mut client = Client::attached(V311);
    let mut scratch = PreparedScratch::default();
    let delivery = Delivery {
        view: &record.view(),
        record: Some(record),
    };
    let mut prepared = Prepared::new(&delivery, client.now, &mut scratch);
    for _ in 0..2 {
        let to = to_front(QoS::AtMostOnce);
        let front: &mut Front = &mut client.front;
        front.deliver(client.now, &mut prepared, &to, &mut client.shell);
    }
    let within = block.as_ptr_range();
    let shared = client
        .front
        .output()
        .slices()
        .filter(|slice| within.contains(&slice.as_ptr()))
        .count();
    assert_eq!(shared, 2);
    assert_eq!(
        lines(&client.receives(), V311),
        ["PUBLISH \"t\" q0 2048 bytes", "PUBLISH \"t\" q0 2048 bytes"]
    );
}
