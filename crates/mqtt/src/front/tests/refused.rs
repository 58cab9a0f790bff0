//! Publishes that are refused, or not answered in time (M11, M49).

use courser_contract::{Refusal, Routed, Settled, Ticket, ToFront};

use super::support::{Client, Hello, V5, V311, publish, to_session, view};
use crate::codec::{Binary, Packet, Properties, TopicName, Will};
use courser_contract::QoS;

const REFUSED: Routed = Routed::Refused(Refusal::QuotaExceeded);

#[test]
fn from_the_first_refusal_on_a_v3_client_gets_nothing_acknowledged() {
    // M49; v3 [MQTT-4.8.0-2]
    let mut client = Client::attached(V311);
    client.gets_run(1, 1);
    client.shell.routed.extend([Routed::Waits, REFUSED]);
    client.publishes("t", 1, 1);
    client.publishes("t", 1, 2);
    client.effects();
    client.publishes("t", 1, 3);
    client.publishes("t", 2, 4);
    client.publishes("t", 0, 0);
    assert_eq!(client.effects(), ["dropped Rejected 1"], "none is stored");
    client.hears();
    // What was taken before is acknowledged, what comes behind is not.
    client
        .front
        .handle_settled(client.now, Ticket(0), Settled::Ok, &mut client.shell);
    assert_eq!(client.hears(), ["PUBACK 1"]);
    // Its own acknowledgements are still taken.
    client.pubacks(2);
    assert_eq!(client.effects(), ["volatile: outcome 1..=1 Done"]);
    client.passes(29_999);
    assert!(client.effects().is_empty());
    client.passes(1);
    assert!(client.receives().is_empty());
    assert_eq!(
        client.effects(),
        [
            "volatile: detach Lost expiry=None epoch=7 claim=c",
            "close PublishRefused(151)"
        ]
    );
}

#[test]
fn m11_a_publish_without_an_answer_ends_the_connection_after_10_seconds() {
    for (version, heard) in [(V311, &[][..]), (V5, &["DISCONNECT 0x89"])] {
        let mut client = Client::attached(version);
        client.shell.routed.extend([Routed::Waits, Routed::Waits]);
        client.publishes("t", 1, 1);
        client.passes(3_000);
        client.publishes("t", 1, 2);
        client
            .front
            .handle_settled(client.now, Ticket(0), Settled::Ok, &mut client.shell);
        client.effects();
        client.passes(9_999);
        assert_eq!(client.hears(), ["PUBACK 1"]);
        client.passes(1);
        assert_eq!(client.hears(), heard);
        assert_eq!(client.effects().last().unwrap(), "close PublishTimeout");
    }
}

#[test]
fn a_refused_qos_2_publish_of_a_durable_v3_session_closes_after_10_seconds() {
    // M28: the hold stays at home, a resent PUBLISH waits again
    let mut client = Client::durable(V311);
    client.publishes("t", 2, 1);
    client.told(ToFront::Received {
        packet_id: 1,
        result: Settled::Refused(Refusal::QuotaExceeded),
        matched: true,
    });
    client.effects();
    client.passes(9_999);
    assert!(client.receives().is_empty());
    assert!(client.effects().is_empty());
    client.passes(1);
    assert_eq!(
        client.effects(),
        [
            "3: detach Lost expiry=None epoch=2",
            "close PublishRefused(151)"
        ]
    );
}

#[test]
fn a_publish_that_is_not_allowed_is_never_acknowledged_as_if_it_were() {
    // v3 [MQTT-3.3.5-2]: of the two ways that 3.1.1 leaves, the connection is closed
    let mut client = Client::attached(V311);
    client
        .shell
        .routed
        .push_back(Routed::Refused(Refusal::NotAuthorized));
    client.publishes("t", 1, 1);
    client.passes(0);
    assert!(client.receives().is_empty());
    assert_eq!(
        client.effects().last().unwrap(),
        "close PublishRefused(135)"
    );
}

#[test]
fn v5_goes_on_after_a_refusal() {
    let mut client = Client::attached(V5);
    client.shell.routed.push_back(REFUSED);
    client.publishes("t", 1, 1);
    client.publishes("t", 1, 2);
    assert_eq!(client.hears(), ["PUBACK 1 0x97", "PUBACK 2"]);
    client.passes(60_000);
    client.gets(
        view("t", QoS::AtMostOnce, b"y"),
        &to_session(1, QoS::AtLeastOnce),
    );
    assert_eq!(client.hears(), ["PUBLISH \"t\" q1 id=2 'y'"]);
}

/// A client, with a clean session or a durable one, that may have payloads of no byte retained.
fn that_retains_nothing(version: crate::codec::ProtocolVersion, durable: bool) -> Client {
    let mut client = match durable {
        true => Client::durable(version),
        false => Client::attached(version),
    };
    std::rc::Rc::get_mut(&mut client.front.config)
        .expect("no other front has it")
        .retained_payload_bytes_max = 0;
    client
}

#[test]
fn a_payload_above_what_is_retained_is_refused() {
    for durable in [false, true] {
        let mut client = that_retains_nothing(V5, durable);
        for (qos, id) in [(0, 0), (1, 1), (2, 2)] {
            let mut packet = publish("t", qos, id);
            packet.retain = true;
            client.says(&Packet::Publish(packet));
        }
        let mut effects = vec!["dropped Rejected 1"];
        // PUBREC ends the exchange, also what the home may hold of an earlier one (M28).
        effects.extend(durable.then_some("3: release 2"));
        assert_eq!(client.effects(), effects, "none is stored");
        assert_eq!(client.hears(), ["PUBACK 1 0x97", "PUBREC 2 0x97"]);
        // Clearing a topic and publishing without RETAIN go on; the packet ids are free.
        let mut clearing = publish("t", 1, 1);
        (clearing.retain, clearing.payload) = (true, b"");
        client.says(&Packet::Publish(clearing));
        client.publishes("t", 1, 2);
        assert_eq!(client.hears(), ["PUBACK 1", "PUBACK 2"]);
    }
}

#[test]
fn a_v3_client_that_has_too_much_retained_is_closed_at_once() {
    let mut client = that_retains_nothing(V311, false);
    let mut packet = publish("t", 1, 1);
    packet.retain = true;
    client.says(&Packet::Publish(packet));
    client.passes(0);
    assert!(client.receives().is_empty());
    assert_eq!(
        client.effects().last().unwrap(),
        "close PublishRefused(151)"
    );
}

#[test]
fn a_will_above_what_is_retained_is_refused_with_its_connect() {
    let will = |payload: &'static [u8]| Hello {
        will: Some(Will {
            topic: TopicName::new("w").unwrap(),
            payload: Binary::new(payload).unwrap(),
            qos: crate::codec::QoS::AtMostOnce,
            retain: true,
            properties: Properties::EMPTY,
        }),
        ..Hello::default()
    };
    let mut client = Client::new(V5, |config| config.retained_payload_bytes_max = 3);
    client.connects(&will(b"four"));
    assert_eq!(client.hears(), ["CONNACK 0x97"]);
    assert_eq!(client.effects(), ["close Refused(151, ByReason)"]);
    let mut client = Client::new(V5, |config| config.retained_payload_bytes_max = 3);
    client.connects(&will(b"two"));
    assert!(client.hears().is_empty(), "it waits for its home");
}
