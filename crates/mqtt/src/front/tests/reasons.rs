//! What refusals say in words, and to whom.

use std::num::NonZeroU32;

use super::subscribe::{QOS1, QOS2, subscribed};
use super::support::*;
use crate::codec::{self, Binary, Properties, Property, ProtocolVersion, TopicName};
use crate::front::{Redirect, RedirectKind};
use courser_contract::{ConnectRefusal, Refusal, Routed, SubscribeResult, ToFront};

const V311: ProtocolVersion = ProtocolVersion::V311;
const V5: ProtocolVersion = ProtocolVersion::V5;

/// A client that says this of itself.
fn hello<'a>(properties: &'a [Property<'a>]) -> Hello<'a> {
    Hello {
        properties,
        ..Hello::default()
    }
}

/// Two of them, sent to another server: while it connects, and later.
fn sent_elsewhere(properties: &[Property<'_>]) -> Vec<Option<String>> {
    let moved = Redirect::new(RedirectKind::Permanent, "b.example").unwrap();
    let mut client = Client::new(V5, |config| config.redirect = Some(moved));
    client.connects(&hello(properties));
    let mut told = texts(&client.receives(), V5);
    let mut client = Client::attached_with(V5, |_| {}, &hello(properties));
    client.hears();
    let elsewhere = Redirect::new(RedirectKind::Temporary, "b.example").unwrap();
    client
        .front
        .handle_redirect(client.now, &elsewhere, &mut client.shell);
    told.extend(texts(&client.receives(), V5));
    told
}

/// What it is told with each kind of refusal: CONNACK, PUBACK, PUBREC, SUBACK, UNSUBACK.
fn refusals(version: ProtocolVersion, hello: &Hello<'_>) -> Vec<Option<String>> {
    let mut told = Vec::new();
    let mut client = Client::new(version, |_| {});
    client.connects(hello);
    client.told(ToFront::ConnectRefused(ConnectRefusal::NotAuthorized));
    told.extend(texts(&client.receives(), version));
    for qos in [1, 2] {
        let mut client = Client::attached_with(version, |_| {}, hello);
        client.hears();
        let refused = Routed::Refused(Refusal::QuotaExceeded);
        client.shell.routed.push_back(refused);
        client.publishes("t", qos, 1);
        told.extend(texts(&client.receives(), version));
    }
    let mut client = Client::attached_with(version, |_| {}, hello);
    client.hears();
    client.subscribes(7, &[], &[("a", QOS2), ("b", QOS1)]);
    let results = [
        SubscribeResult::Granted(courser_contract::QoS::ExactlyOnce),
        SubscribeResult::QuotaExceeded,
    ];
    client.told(subscribed(7, &results));
    told.extend(texts(&client.receives(), version));
    // The second one with the same packet identifier.
    client.unsubscribes(8, &["a"]);
    client.unsubscribes(8, &["a"]);
    told.extend(texts(&client.receives(), version));
    told
}

#[test]
fn each_refusal_says_why() {
    let told = refusals(V5, &Hello::default());
    let expected = [
        "the client may not connect here",
        "no room: a limit of what may wait or be retained, of memory or of the disk",
        "no room: a limit of what may wait or be retained, of memory or of the disk",
        "as many subscriptions as the session may have",
        "Packet Identifier in use",
    ];
    assert_eq!(told, expected.map(|text| Some(text.to_owned())));
}

#[test]
fn who_does_not_want_to_hear_it_gets_the_code_alone() {
    // v5 [MQTT-3.1.2-29]
    let quiet = [Property::RequestProblemInformation(false)];
    assert_eq!(refusals(V5, &hello(&quiet)), vec![None; 5]);
    // 3.1.1 has no such thing: CONNACK and SUBACK have their codes, a refused publish ends the connection, UNSUBACK has none.
    assert!(
        refusals(V311, &Hello::default())
            .iter()
            .all(Option::is_none)
    );
}

#[test]
fn a_text_never_makes_a_packet_too_large() {
    // v5 [MQTT-3.2.2-19], v5 [MQTT-3.4.2-2], v5 [MQTT-3.5.2-2], v5 [MQTT-3.9.2-1], v5 [MQTT-3.11.2-1]
    let small = [Property::MaximumPacketSize(NonZeroU32::new(24).unwrap())];
    assert_eq!(refusals(V5, &hello(&small)), vec![None; 5]);
}

/// A CONNECT of 5.0 with these properties; `rest` follows them.
fn raw_connect(flags: u8, properties: &[u8], rest: &[u8]) -> Vec<u8> {
    let mut body = b"\x00\x04MQTT\x05".to_vec();
    body.extend([flags, 0, 0, properties.len() as u8]);
    body.extend(properties);
    body.extend(rest);
    let mut bytes = vec![0x10, body.len() as u8];
    bytes.extend(body);
    bytes
}

/// What a client hears whose first packet is this.
fn refusal_of(bytes: &[u8]) -> Vec<Option<String>> {
    let mut client = Client::new(V5, |config| config.limits.client_id_bytes_max = 8);
    client.gives(bytes);
    texts(&client.receives(), V5)
}

/// CONNECT that cannot be taken: flags, properties, what follows, and the fault that CONNACK names.
const BAD_CONNECTS: [(u8, &[u8], &[u8], &str); 5] = [
    (3, &[], b"\x00\x01c", "the reserved CONNECT flag is set"),
    (
        2,
        &[],
        b"\x00\x01",
        "a field reaches beyond the end of the packet",
    ),
    (2, &[], b"\x00\x01\xFF", "a string is not valid UTF-8"),
    (
        2,
        &[0x21, 0, 0],
        b"\x00\x01c",
        "a property has a value that the standard forbids",
    ),
    (
        2,
        &[],
        b"\x00\x09123456789",
        "the client identifier is longer than the limit",
    ),
];

#[test]
fn a_connect_that_cannot_be_taken_hears_what_is_wrong_with_it() {
    for (flags, properties, rest, text) in BAD_CONNECTS {
        let told = refusal_of(&raw_connect(flags, properties, rest));
        assert_eq!(told, [Some(text.to_owned())]);
    }
}

#[test]
fn a_connect_that_cannot_be_taken_is_answered_as_it_asks() {
    // v5 [MQTT-3.1.2-29], v5 [MQTT-3.2.2-19]: no problem information, or at most 24 bytes.
    for asked in [&[0x17, 0][..], &[0x27, 0, 0, 0, 24]] {
        for (flags, properties, rest, text) in BAD_CONNECTS {
            let all = [properties, asked].concat();
            let told = refusal_of(&raw_connect(flags, &all, rest));
            // What it asks for is not known where its properties cannot be read.
            let expected = (!properties.is_empty()).then(|| text.to_owned());
            assert_eq!(told, [expected], "{text}");
        }
    }
}

#[test]
fn a_will_that_may_not_be_left_is_named_as_the_reason() {
    let will = |topic, retain| codec::Will {
        topic: TopicName::new(topic).unwrap(),
        payload: Binary::new(b"gone").unwrap(),
        qos: codec::QoS::AtMostOnce,
        retain,
        properties: Properties::EMPTY,
    };
    for (will, text) in [
        (
            will("$SYS/x", false),
            "only the server publishes to the topic of the will",
        ),
        (
            will("t", true),
            "the will is larger than what may be retained",
        ),
        (
            will("no", false),
            "the client may not publish to the topic of its will",
        ),
    ] {
        let mut client = Client::new(V5, |config| config.retained_payload_bytes_max = 3);
        client.shell.denied.push("publish no".to_owned());
        client.connects(&Hello {
            will: Some(will),
            ..Hello::default()
        });
        assert_eq!(texts(&client.receives(), V5), [Some(text.to_owned())]);
    }
}

#[test]
fn a_will_that_is_not_paid_for_is_refused_with_its_connect_in_both_versions() {
    let will = codec::Will {
        topic: TopicName::new("t").unwrap(),
        payload: Binary::new(b"gone").unwrap(),
        qos: codec::QoS::AtMostOnce,
        retain: false,
        properties: Properties::EMPTY,
    };
    for (version, code) in [(V5, 0x97), (V311, 3)] {
        let mut client = Client::new(version, |_| {});
        client.shell.owes = true;
        client.connects(&Hello {
            will: Some(will),
            ..Hello::default()
        });
        let answer = client.receives();
        assert_eq!(answer[3], code, "{answer:?}");
        let text = "the client has published more than it may, and its will counts as a publish";
        let expected = (version == V5).then(|| text.to_owned());
        assert_eq!(texts(&answer, version), [expected]);
        assert_eq!(client.shell.told, ["c: will t"]);
    }
    let mut without = Client::new(V5, |_| {});
    without.shell.owes = true;
    without.connects(&Hello::default());
    assert!(without.shell.told.is_empty(), "it leaves nothing");
}

#[test]
fn each_end_says_why() {
    type End = fn(&mut Client);
    let ends: [(&str, End); 4] = [
        ("the server is being stopped; try again later", |it| {
            it.front.handle_stop(it.now, &mut it.shell);
        }),
        (
            "another connection has come with this client identifier",
            |it| {
                it.told(ToFront::TakenOver);
            },
        ),
        (
            "no packet came for one and a half times the keep-alive",
            |it| {
                it.passes(200_000);
            },
        ),
        ("bytes follow the last field", |it| it.gives(&[0xC0, 1, 0])),
    ];
    for (text, end) in ends {
        let hello = Hello {
            keep_alive_seconds: 60,
            ..Hello::default()
        };
        let mut client = Client::attached_with(V5, |_| {}, &hello);
        client.hears();
        end(&mut client);
        assert_eq!(texts(&client.receives(), V5), [Some(text.to_owned())]);
    }
}

#[test]
fn who_is_sent_elsewhere_hears_why() {
    let expected = [
        "the server that is named here has taken the place of this one",
        "for now the server that is named here takes the place of this one",
    ];
    let expected = expected.map(|text| Some(text.to_owned()));
    assert_eq!(sent_elsewhere(&[]), expected);
    // Without room for it, or the wish to hear it, the packet comes without.
    let small = Property::MaximumPacketSize(NonZeroU32::new(24).unwrap());
    for unexplained in [small, Property::RequestProblemInformation(false)] {
        assert_eq!(sent_elsewhere(&[unexplained]), [None, None]);
    }
}

#[test]
fn what_is_granted_says_nothing() {
    let mut client = Client::attached(V5);
    client.hears();
    client.subscribes(7, &[], &[("a", QOS1)]);
    let granted = SubscribeResult::Granted(courser_contract::QoS::AtLeastOnce);
    client.told(subscribed(7, &[granted]));
    client.publishes("t", 1, 1);
    assert_eq!(texts(&client.receives(), V5)[..1], [None]);
}
