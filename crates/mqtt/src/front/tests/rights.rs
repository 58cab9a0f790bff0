//! The gate of a client is asked on every path (I11); what it denies is refused in the words of the version.

use std::num::NonZeroU16;

use courser_contract::{QoS, RequestPart, SubscribeResult, ToFront};

use super::support::{
    Client, DURABLE, Hello, V5, V311, attached, to_front, to_group, to_session, view,
};
use crate::codec::{
    Binary, Properties, Property, ProtocolVersion, QoS as WireQos, SubscriptionOptions, TopicName,
    Will,
};

fn denied(mut client: Client, rights: &[&str]) -> Client {
    client.shell.denied = rights.iter().map(|&right| right.to_owned()).collect();
    client
}

#[test]
fn a_publish_without_the_right_is_refused_and_never_handed_over() {
    // v5: PUBACK and PUBREC 0x87. v3 [MQTT-3.3.5-2]: no acknowledgement that would say it was taken, the connection is closed.
    type Attaches = fn(ProtocolVersion) -> Client;
    let homes: [(Attaches, &[&str]); 2] = [
        (Client::attached, &["dropped Denied 1"]),
        // PUBREC ends the exchange, also what the home may hold of an earlier one (M28).
        (Client::durable, &["dropped Denied 1", "3: release 2"]),
    ];
    for (home, told) in homes {
        let mut client = denied(home(V5), &["publish no"]);
        client.effects();
        client.publishes("no", 0, 0);
        client.publishes("no", 1, 1);
        client.publishes("no", 2, 2);
        assert_eq!(client.effects(), told);
        assert_eq!(client.hears(), ["PUBACK 1 0x87", "PUBREC 2 0x87"]);
        client.publishes("yes", 0, 0);
        assert_eq!(client.effects(), ["publish yes q0 'x'"]);
        for qos in [1, 2] {
            let mut client = denied(home(V311), &["publish no"]);
            client.effects();
            client.publishes("no", 0, 0);
            client.publishes("no", qos, 1);
            client.passes(0);
            assert!(client.hears().is_empty());
            let effects = client.effects();
            assert_eq!(effects[0], "dropped Denied 1");
            assert_eq!(
                effects.last().map(String::as_str),
                Some("close PublishRefused(135)")
            );
            assert!(
                !effects.iter().any(|line| line.contains("publish")),
                "{effects:?}"
            );
        }
    }
}

#[test]
fn who_runs_the_broker_hears_of_each_publish_and_filter_that_is_denied() {
    for (version, home) in [(V5, "kept"), (V5, "own"), (V311, "own")] {
        let client = match home {
            "kept" => Client::durable(version),
            _ => Client::attached(version),
        };
        let mut client = denied(client, &["publish no", "subscribe no/#", "share no"]);
        const QOS0: SubscriptionOptions = SubscriptionOptions::new(WireQos::AtMostOnce);
        client.publishes("yes", 1, 1);
        client.publishes("no", 0, 0);
        let mut told = vec!["c: publish no"];
        if version == V5 {
            client.publishes("no", 1, 2);
            client.publishes("no", 2, 3);
            told.extend(["c: publish no"; 2]);
        }
        let filters = [("no/#", QOS0), ("yes", QOS0), ("$share/g/no", QOS0)];
        client.subscribes(7, &[], &filters);
        told.extend(["c: subscribe no/#", "c: share no"]);
        assert_eq!(client.shell.told, told, "{version:?}, {home}");
    }
    for qos in [1, 2] {
        let mut client = denied(Client::attached(V311), &["publish no"]);
        client.publishes("no", qos, 1);
        assert_eq!(client.shell.told, ["c: publish no"]);
    }
}

#[test]
fn cve_2026_95846_a_will_needs_the_right_to_its_topic() {
    for version in [V311, V5] {
        let mut client = denied(Client::new(version, |_| ()), &["publish no"]);
        client.connects(&Hello {
            will: Some(Will {
                topic: TopicName::new("no").unwrap(),
                payload: Binary::new(b"gone").unwrap(),
                qos: WireQos::AtMostOnce,
                retain: false,
                properties: Properties::EMPTY,
            }),
            ..Hello::default()
        });
        assert_eq!(client.hears(), ["CONNACK 0x87"]);
        assert_eq!(
            client.effects(),
            ["close Refused(135, Will)"],
            "no session was asked for"
        );
    }
}

#[test]
fn a_filter_without_the_right_gets_its_own_code_and_the_others_are_served() {
    // v3 [MQTT-3.9.3-2], v5 section 3.9.3
    const QOS1: SubscriptionOptions = SubscriptionOptions::new(WireQos::AtLeastOnce);
    for (version, code) in [(V311, 0x80), (V5, 0x87)] {
        let mut client = denied(
            Client::attached(version),
            &["subscribe no/#", "share b", "share no/#"],
        );
        let filters = [
            ("no/#", QOS1),
            ("a", QOS1),
            ("$share/g/b", QOS1),
            ("b", QOS1),
        ];
        client.subscribes(7, &[], &filters);
        assert_eq!(
            client.effects(),
            ["volatile: subscribe 7 [a q1 nl=false rap=false Send] [b q1 nl=false rap=false Send]"]
        );
        let granted = SubscribeResult::Granted(QoS::AtLeastOnce);
        client.told(ToFront::Subscribed {
            part: RequestPart::whole(7),
            results: vec![granted, granted],
        });
        let bytes = client.receives();
        assert!(bytes.ends_with(&[code, 1, code, 1]), "{bytes:02x?}");
    }
}

#[test]
fn cve_2018_12546_cve_2021_34434_what_the_right_was_revoked_for_is_not_delivered() {
    // Live, retained or replayed: all come this way.
    let mut client = denied(Client::durable(V5), &["receive no"]);
    client.effects();
    let (qos0, qos1) = (QoS::AtMostOnce, QoS::AtLeastOnce);
    client.gets(view("no", qos0, b"live"), &to_front(qos0));
    assert_eq!(client.effects(), ["dropped Denied 1"]);
    client.gets_stored(view("no", qos1, b"queued"), &to_session(1, qos1));
    let effects = client.effects();
    assert_eq!(effects[0], "dropped Denied 1");
    assert!(effects[1].contains("outcome 1..=1 Skipped"), "{effects:?}");
    assert!(client.hears().is_empty());
    client.gets_stored(view("yes", qos1, b"queued"), &to_session(2, qos1));
    assert_eq!(client.hears().len(), 1);
}

#[test]
fn what_was_held_back_is_not_delivered_either() {
    let mut client = Client::attached_with(
        V5,
        |_| (),
        &Hello {
            properties: &[Property::ReceiveMaximum(NonZeroU16::MIN)],
            ..Hello::default()
        },
    );
    let qos1 = QoS::AtLeastOnce;
    client.gets_stored(view("a", qos1, b"1"), &to_session(1, qos1));
    client.gets_stored(view("no", qos1, b"2"), &to_session(2, qos1));
    client.gets_stored(view("a", qos1, b"3"), &to_session(3, qos1));
    assert_eq!(client.hears().len(), 1);
    client.effects();
    let mut client = denied(client, &["receive no"]);
    client.pubacks(2);
    assert!(client.effects().contains(&"dropped Denied 1".to_owned()));
    let heard = client.hears();
    assert_eq!(heard.len(), 1);
    assert!(heard[0].starts_with("PUBLISH \"a\""), "{heard:?}");
}

#[test]
fn a_member_without_the_right_leaves_its_group_the_message() {
    let mut client = denied(Client::durable(V5), &["receive no"]);
    client.effects();
    client.gets_stored(
        view("no", QoS::AtLeastOnce, b"1"),
        &to_group(1, QoS::AtLeastOnce),
    );
    assert!(client.hears()[0].starts_with("DISCONNECT 0x87"));
    let effects = client.effects();
    assert!(
        !effects.iter().any(|line| line.contains("Skipped")),
        "{effects:?}"
    );
    assert_eq!(
        effects.last().map(String::as_str),
        Some("close ShareRevoked")
    );
}

/// I11: with QoS 0 as with the others, or the group would go on giving it what it may not have, and each would be lost.
#[test]
fn i11_a_member_without_the_right_leaves_its_group_at_qos_0_too() {
    for version in [V311, V5] {
        let mut client = denied(Client::durable(version), &["receive no"]);
        client.effects();
        let mut to = to_front(QoS::AtMostOnce);
        to.flags.shared = true;
        client.gets(view("yes", QoS::AtMostOnce, b"1"), &to);
        assert_eq!(client.hears().len(), 1);
        client.gets(view("no", QoS::AtMostOnce, b"2"), &to);
        let effects = client.effects();
        assert_eq!(effects[0], "dropped Denied 1");
        assert_eq!(
            effects.last().map(String::as_str),
            Some("close ShareRevoked")
        );
        let heard = client.hears();
        match version {
            V5 => assert!(heard[0].starts_with("DISCONNECT 0x87"), "{heard:?}"),
            V311 => assert!(heard.is_empty(), "{heard:?}"),
        }
    }
}

#[test]
fn a_resumed_session_is_not_asked_before_it_is_there() {
    let mut client = denied(Client::new(V5, |_| ()), &["receive no"]);
    client.connects(&Hello::default());
    client.effects();
    client.told(attached(DURABLE, 7, true));
    client.hears();
    client.gets_stored(
        view("no", QoS::AtLeastOnce, b"queued"),
        &to_session(1, QoS::AtLeastOnce),
    );
    assert!(client.hears().is_empty());
}

#[test]
fn a_removed_user_loses_its_connection_and_its_session() {
    use crate::front::Revocation::{DeletesWill, EndsSession, Expires, SendsWill};
    for (how, detach, reason) in [
        (
            EndsSession,
            "3: detach Disconnect expiry=Some(0) epoch=2",
            0x87,
        ),
        (
            DeletesWill,
            "3: detach Disconnect expiry=None epoch=2",
            0x87,
        ),
        (SendsWill, "3: detach Lost expiry=None epoch=2", 0x87),
        (Expires, "3: detach Lost expiry=None epoch=2", 0xa0),
    ] {
        for (version, heard) in [(V5, 1), (V311, 0)] {
            let mut client = Client::durable(version);
            client.effects();
            client
                .front
                .handle_revoked(client.now, how, &mut client.shell);
            let close = format!("close Revoked({reason})");
            assert_eq!(client.effects(), [detach, &*close]);
            let lines = client.hears();
            assert_eq!(lines.len(), heard);
            let said = format!("DISCONNECT {reason:#04x}");
            let says = |line: &String| line.to_lowercase().starts_with(&said.to_lowercase());
            assert!(lines.iter().all(says), "{lines:?}");
        }
    }
    let mut client = Client::new(V5, |_| ());
    client.connects(&Hello::default());
    client.effects();
    client
        .front
        .handle_revoked(client.now, EndsSession, &mut client.shell);
    assert_eq!(client.hears(), ["CONNACK 0x87"]);
}
