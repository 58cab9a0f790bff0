//! What refusals say in words, and to whom.

use std::num::NonZeroU32;

use super::subscribe::{QOS1, QOS2, subscribed};
use super::support::*;
use crate::codec::{Property, ProtocolVersion};
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
