//! PUBLISH of QoS 0 and 1, topic aliases of the client, the order of acknowledgements.

use std::num::NonZeroU16;

use courser_contract::{QoS, Refusal, Routed, Settled, Ticket};

use super::support::{Client, Hello, V5, V311, aliased, block, packet_id, publish};
use crate::codec::{self, Binary, Limits, MqttStr, Packet, Passthrough, Property, PropertyScope};
use crate::front::Feature;

fn settle(client: &mut Client, ticket: u32, result: Settled) {
    client
        .front
        .handle_settled(client.now, Ticket(ticket), result, &mut client.shell);
    client.front.check();
}

#[test]
fn qos_0_is_published_and_never_answered() {
    // v3 [MQTT-3.3.4-1], v5 [MQTT-3.3.4-1]
    for version in [V311, V5] {
        let mut client = Client::attached(version);
        client.publishes("a/b", 0, 0);
        assert_eq!(client.effects(), ["publish a/b q0 'x'"]);
        assert!(client.hears().is_empty());
    }
}

#[test]
fn qos_1_is_acknowledged_with_its_packet_id() {
    // v3 [MQTT-4.3.2-2], v3 [MQTT-2.3.1-6]; v5 [MQTT-4.3.2-4], v5 [MQTT-2.2.1-5]
    for version in [V311, V5] {
        let mut client = Client::attached(version);
        client.publishes("a/b", 1, 513);
        assert_eq!(client.effects(), ["publish a/b q1 'x' #0"]);
        assert_eq!(client.hears(), ["PUBACK 513"]);
        // v5 [MQTT-4.3.2-5]: afterwards the same id is a new message, whatever DUP says
        let mut again = publish("a/b", 1, 513);
        again.delivery = codec::Delivery::AtLeastOnce {
            packet_id: packet_id(513),
            dup: true,
        };
        client.says(&Packet::Publish(again));
        assert_eq!(client.effects(), ["publish a/b q1 'x' #0"]);
        assert_eq!(client.hears(), ["PUBACK 513"]);
    }
}

#[test]
fn v5_hears_that_nobody_subscribes() {
    for (version, answer) in [(V311, "PUBACK 1"), (V5, "PUBACK 1 0x10")] {
        let mut client = Client::attached(version);
        client
            .shell
            .routed
            .push_back(Routed::Done { matched: false });
        client.publishes("t", 1, 1);
        assert_eq!(client.hears(), [answer]);
    }
}

#[test]
fn acknowledgements_leave_in_the_order_of_the_publishes() {
    // M10; v3 [MQTT-4.6.0-6], v5 [MQTT-4.6.0-5]
    for version in [V311, V5] {
        let mut client = Client::attached(version);
        client
            .shell
            .routed
            .extend([Routed::Waits, Routed::Done { matched: true }, Routed::Waits]);
        for id in [7, 8, 9] {
            client.publishes("t", 1, id);
        }
        assert_eq!(
            client.effects(),
            [
                "publish t q1 'x' #0",
                "publish t q1 'x' #1",
                "publish t q1 'x' #2"
            ]
        );
        settle(&mut client, 2, Settled::Ok);
        assert!(client.hears().is_empty(), "the first one waits");
        settle(&mut client, 0, Settled::Ok);
        assert_eq!(client.hears(), ["PUBACK 7", "PUBACK 8", "PUBACK 9"]);
        client.publishes("t", 1, 10);
        assert_eq!(client.effects(), ["publish t q1 'x' #3"]);
        assert_eq!(client.hears(), ["PUBACK 10"]);
    }
}

#[test]
fn a_ticket_is_settled_once() {
    let mut client = Client::attached(V5);
    client.shell.routed.extend([Routed::Waits, Routed::Waits]);
    client.publishes("t", 1, 1);
    client.publishes("t", 1, 2);
    settle(&mut client, 1, Settled::Ok);
    settle(&mut client, 1, Settled::Refused(Refusal::QuotaExceeded));
    settle(&mut client, 9, Settled::Ok);
    settle(&mut client, 0, Settled::Ok);
    assert_eq!(client.hears(), ["PUBACK 1", "PUBACK 2"]);
    settle(&mut client, 0, Settled::Ok);
    assert!(client.hears().is_empty());
}

#[test]
fn m11_refusals_have_their_reason_in_v5() {
    // v5 [MQTT-3.4.2-1]
    let cases = [
        (Refusal::QuotaExceeded, "0x97"),
        (Refusal::NotAuthorized, "0x87"),
        (Refusal::TooLarge, "0x97"),
        (Refusal::Unavailable, "0x83"),
        (Refusal::Unspecified, "0x80"),
    ];
    for (refusal, code) in cases {
        let mut client = Client::attached(V5);
        client
            .shell
            .routed
            .extend([Routed::Refused(refusal), Routed::Waits]);
        client.publishes("t", 1, 1);
        assert_eq!(client.hears(), [format!("PUBACK 1 {code}")]);
        client.publishes("t", 1, 2);
        settle(&mut client, 1, Settled::Refused(refusal));
        assert_eq!(client.hears(), [format!("PUBACK 2 {code}")]);
        client.publishes("t", 1, 3);
        assert_eq!(client.hears(), ["PUBACK 3"]);
    }
}

#[test]
fn refused_qos_0_is_dropped_and_counted() {
    let mut client = Client::attached(V5);
    client
        .shell
        .routed
        .push_back(Routed::Refused(Refusal::QuotaExceeded));
    client.publishes("t", 0, 0);
    assert_eq!(client.effects()[1..], ["dropped Rejected 1"]);
    assert!(client.front.wants_read());
}

#[test]
fn what_travels_with_a_message_travels_unchanged() {
    // v5 [MQTT-3.3.2-4], v5 [MQTT-3.3.2-15], v5 [MQTT-3.3.2-16], v5 [MQTT-3.3.2-17], v5 [MQTT-3.3.2-18], v5 [MQTT-3.3.2-20]
    let text = |text| MqttStr::new(text).unwrap();
    let properties = block(
        PropertyScope::Publish,
        &[
            Property::UserProperty(text("b"), text("1")),
            Property::PayloadFormatIndicator(codec::PayloadFormat::Utf8),
            Property::ResponseTopic(codec::TopicName::new("r").unwrap()),
            Property::CorrelationData(Binary::new(&[7]).unwrap()),
            Property::UserProperty(text("a"), text("2")),
            Property::ContentType(text("c")),
        ],
    );
    let passing = properties.properties().as_bytes().to_vec();
    let mut client = Client::attached(V5);
    let mut packet = publish("t", 0, 0);
    packet.passthrough = Passthrough::new(&passing, &Limits::DEFAULT).unwrap();
    packet.retain = true;
    packet.message_expiry_interval = Some(3);
    client.says(&Packet::Publish(packet));
    let expected = format!("publish t q0 retain expires=50003000 {passing:02x?} 'x'");
    assert_eq!(client.effects(), [&*expected]);
    // An alias and an expiry between the others are taken out.
    let mut body = b"\x00\x01t".to_vec();
    let (front, back) = passing.split_at(7);
    let mut mixed = front.to_vec();
    mixed.extend([0x02, 0, 0, 0, 3, 0x23, 0, 1]);
    mixed.extend(back);
    body.push(mixed.len() as u8);
    body.extend(mixed);
    body.push(b'x');
    let mut bytes = vec![0x31, body.len() as u8];
    bytes.extend(body);
    client.gives(&bytes);
    assert_eq!(client.effects(), [&*expected]);
}

#[test]
fn topic_aliases_of_the_client() {
    // v5 [MQTT-3.3.2-12]: every alias up to the announced maximum
    let mut client = Client::attached(V5);
    for alias in 1..=32 {
        let topic = format!("topic/{alias}");
        let mut packet = publish("t", 1, 1);
        packet.topic = aliased(Some(&topic), alias);
        client.says(&Packet::Publish(packet));
    }
    client.effects();
    for alias in (1..=32).rev() {
        let mut packet = publish("t", 0, 1);
        packet.topic = aliased(None, alias);
        client.says(&Packet::Publish(packet));
        assert_eq!(client.effects(), [format!("publish topic/{alias} q0 'x'")]);
    }
    // bound anew
    let mut packet = publish("t", 0, 1);
    packet.topic = aliased(Some("other"), 5);
    client.says(&Packet::Publish(packet));
    packet.topic = aliased(None, 5);
    client.says(&Packet::Publish(packet));
    assert_eq!(
        client.effects(),
        ["publish other q0 'x'", "publish other q0 'x'"]
    );
}

#[test]
fn topic_aliases_beyond_the_rules_are_faults() {
    // v5 [MQTT-3.3.2-7]: none is carried over from an earlier connection, so an unbound one is a fault
    let mut client = Client::attached(V5);
    let mut packet = publish("t", 0, 1);
    packet.topic = aliased(None, 1);
    client.says(&Packet::Publish(packet));
    assert!(client.hears()[0].starts_with("DISCONNECT 0x82"));
    assert_eq!(client.effects().last().unwrap(), "close Fault(130)");
    // above the maximum
    let mut client = Client::attached(V5);
    packet.topic = aliased(Some("t"), 33);
    client.says(&Packet::Publish(packet));
    assert!(client.hears()[0].starts_with("DISCONNECT 0x94"));
    // v5 [MQTT-3.3.2-8]
    let mut client = Client::attached(V5);
    client.gives(b"\x30\x07\x00\x01t\x03\x23\x00\x00");
    assert!(client.hears()[0].starts_with("DISCONNECT 0x94"));
    assert!(!client.effects().iter().any(|line| line.contains("publish")));
}

#[test]
fn receive_maximum_bounds_what_a_v5_client_has_under_way() {
    let mut client = Client::attached_with(
        V5,
        |config| config.receive_maximum = NonZeroU16::new(2).unwrap(),
        &Hello::default(),
    );
    client.shell.routed.extend([Routed::Waits, Routed::Waits]);
    client.publishes("t", 1, 1);
    client.publishes("t", 2, 2);
    settle(&mut client, 0, Settled::Ok);
    settle(&mut client, 1, Settled::Ok);
    client.publishes("t", 1, 3);
    // QoS 2 counts until PUBCOMP: v5 section 4.9
    assert_eq!(client.hears(), ["PUBACK 1", "PUBREC 2", "PUBACK 3"]);
    client.publishes("t", 2, 4);
    client.publishes("t", 0, 0);
    assert_eq!(client.hears(), ["PUBREC 4"]);
    client.pubrels(2);
    client.publishes("t", 1, 5);
    assert_eq!(client.hears(), ["PUBCOMP 2", "PUBACK 5"]);
    client.publishes("t", 2, 6);
    client.effects();
    client.publishes("t", 1, 7);
    assert_eq!(
        client.hears(),
        [
            "PUBREC 6",
            "DISCONNECT 0x93 ReasonString(\"more publishes under way than Receive Maximum\")"
        ]
    );
    assert_eq!(client.effects().last().unwrap(), "close Fault(147)");
}

#[test]
fn a_v3_client_is_read_no_further_while_too_much_waits() {
    let mut client = Client::attached_with(
        V311,
        |config| config.receive_maximum = NonZeroU16::new(2).unwrap(),
        &Hello::default(),
    );
    client.shell.routed.extend([Routed::Waits, Routed::Waits]);
    for id in 1..=3 {
        client.publishes("t", 1, id);
    }
    assert_eq!(client.effects().len(), 2);
    assert!(!client.front.wants_read());
    assert!(!client.rest.is_empty());
    settle(&mut client, 0, Settled::Ok);
    assert!(client.front.wants_read());
    client.gives(&[]);
    settle(&mut client, 1, Settled::Ok);
    assert_eq!(client.hears(), ["PUBACK 1", "PUBACK 2", "PUBACK 3"]);
}

#[test]
fn what_is_not_offered_is_a_fault() {
    let mut packet = publish("t", 0, 0);
    packet.retain = true;
    let mut client =
        Client::attached_with(V5, |config| config.retain = Feature::Off, &Hello::default());
    client.says(&Packet::Publish(packet));
    assert!(client.hears()[0].starts_with("DISCONNECT 0x9A"));
    assert_eq!(client.effects().last().unwrap(), "close Fault(154)");
    let mut client = Client::attached_with(
        V5,
        |config| config.maximum_qos = QoS::AtLeastOnce,
        &Hello::default(),
    );
    client.publishes("t", 2, 1);
    assert!(client.hears()[0].starts_with("DISCONNECT 0x9B"));
}

#[test]
fn wildcards_in_a_topic_name_end_the_connection() {
    // v3 [MQTT-3.3.2-2], v5 [MQTT-3.3.2-2]
    let mut client = Client::attached(V5);
    client.gives(b"\x30\x06\x00\x03a/#\x00");
    assert!(client.hears()[0].starts_with("DISCONNECT 0x90"));
    // v3 [MQTT-4.8.0-1]
    let mut client = Client::attached(V311);
    client.gives(b"\x30\x05\x00\x03a/#");
    assert!(client.receives().is_empty());
    assert_eq!(client.effects().last().unwrap(), "close Fault(144)");
}

/// Publishes that are dear to match would keep all others from their turn for as long as one read of them takes.
#[test]
fn a_front_stops_behind_the_packet_with_which_the_turn_is_spent() {
    for version in [V311, V5] {
        let mut client = Client::attached(version);
        let one = client.encoded(&Packet::Publish(publish("a/b", 0, 0)));
        let bytes = one.repeat(3);
        client.shell.spent_after = Some(0);
        let mut given = 0;
        for _ in 0..3 {
            let (now, rest) = (client.now, &bytes[given..]);
            given += client.front.handle_bytes(now, rest, &mut client.shell);
            assert_eq!(client.effects(), ["publish a/b q0 'x'"], "one more");
        }
        assert_eq!(given, bytes.len());
        client.shell.spent_after = Some(2);
        let now = client.now;
        let used = client.front.handle_bytes(now, &bytes, &mut client.shell);
        assert_eq!(used, 2 * one.len());
    }
}
