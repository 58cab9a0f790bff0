//! CONNECT, the attach in one or two steps, CONNACK.

use courser_contract::{ConnectRefusal, Epoch, QoS, ToFront};

use super::support::{CLEAN, Client, DURABLE, Hello, V5, V311, attached, block, lines};
use crate::codec::{
    Binary, MqttStr, Packet, Pingreq, Property, PropertyScope, QoS as WireQos, ReasonCode,
    TopicName, Will,
};
use crate::front::{Feature, Redirect, RedirectKind, is_assigned_client_id};
use std::num::{NonZeroU16, NonZeroU32};

const LIMITS: &str = "ReceiveMaximum(1024) MaximumPacketSize(1048576) TopicAliasMaximum(32)";

#[test]
fn a_clean_session_is_claimed_at_its_slot_and_opened_on_this_shard() {
    for version in [V311, V5] {
        let mut client = Client::new(version, |_| {});
        client.connects(&Hello::default());
        assert_eq!(
            client.effects(),
            ["3: attach Claim c clean=true expiry=0 max=1024"]
        );
        // v3 [MQTT-3.2.0-1], v5 [MQTT-3.2.0-1]: nothing before CONNACK
        assert!(client.hears().is_empty());
        assert!(!client.front.wants_read(), "bytes wait for the attach");
        client.told(ToFront::Claimed { epoch: Epoch(7) });
        assert_eq!(
            client.effects(),
            ["volatile: attach Open(Epoch(7)) c clean=true expiry=0 max=1024"]
        );
        client.told(attached(CLEAN, 7, false));
        // v3 [MQTT-3.1.4-4], v3 [MQTT-3.2.2-1], v3 [MQTT-3.2.2-3]; v5 [MQTT-3.1.4-5], v5 [MQTT-3.2.2-2], v5 [MQTT-3.2.2-1]
        let expected = if version == V5 {
            format!("CONNACK 0x00 {LIMITS}")
        } else {
            "CONNACK 0x00".to_owned()
        };
        assert_eq!(client.hears(), [expected]);
        assert!(client.front.wants_read());
        assert_eq!(client.front.client_id(), "c");
        assert_eq!(client.front.home(), Some(CLEAN));
        // v5 [MQTT-3.2.0-2]: one CONNACK, whatever a late answer says
        client.told(attached(CLEAN, 7, true));
        assert!(client.hears().is_empty());
    }
}

#[test]
fn a_stored_session_is_taken_up_at_its_slot() {
    // v3 [MQTT-3.1.2-4], v3 [MQTT-3.2.2-2]; v5 [MQTT-3.1.2-5], v5 [MQTT-3.2.2-3]
    for (version, properties, asked) in [
        (V311, &[][..], 7 * 24 * 3600),
        (V5, &[Property::SessionExpiryInterval(60)], 60),
    ] {
        let mut client = Client::new(version, |_| {});
        client.connects(&Hello {
            clean_start: false,
            properties,
            ..Hello::default()
        });
        assert_eq!(
            client.effects(),
            [format!(
                "3: attach Claim c clean=false expiry={asked} max=1024"
            )]
        );
        client.told(attached(DURABLE, 2, true));
        assert!(client.hears()[0].starts_with("CONNACK 0x00 present"));
        assert_eq!(client.front.home(), Some(DURABLE));
    }
}

#[test]
fn session_expiry_is_capped_and_only_v5_is_told() {
    let cap = |config: &mut crate::front::FrontConfig| config.session_expiry_max_seconds = 1000;
    let mut client = Client::new(V5, cap);
    client.connects(&Hello {
        properties: &[Property::SessionExpiryInterval(u32::MAX)],
        ..Hello::default()
    });
    client.told(attached(DURABLE, 1, false));
    assert!(client.effects()[0].contains("expiry=1000"));
    assert_eq!(
        client.hears(),
        [format!("CONNACK 0x00 {LIMITS} SessionExpiryInterval(1000)")]
    );
    let mut client = Client::new(V311, cap);
    client.connects(&Hello {
        clean_start: false,
        ..Hello::default()
    });
    client.told(attached(DURABLE, 1, false));
    assert!(client.effects()[0].contains("expiry=1000"));
    assert_eq!(client.hears(), ["CONNACK 0x00"]);
}

#[test]
fn connack_tells_every_limit_that_is_not_the_default() {
    let mut client = Client::new(V5, |config| {
        config.receive_maximum = NonZeroU16::new(20).unwrap();
        config.maximum_qos = QoS::AtLeastOnce;
        config.retain = Feature::Off;
        config.wildcards = Feature::Off;
        config.subscription_identifiers = Feature::Off;
        config.shared_subscriptions = Feature::Off;
        config.topic_alias_maximum = 0;
        config.limits.packet_bytes_max = 5000;
        config.keep_alive_max = NonZeroU16::new(60);
        config.response_information = Some("answers/".into());
    });
    client.connects(&Hello {
        client_id: "",
        keep_alive_seconds: 100,
        properties: &[Property::RequestResponseInformation(true)],
        ..Hello::default()
    });
    client.told(ToFront::Claimed { epoch: Epoch(7) });
    client.told(attached(CLEAN, 7, false));
    let id = client.front.client_id().to_owned();
    // v5 [MQTT-3.2.2-9], v5 [MQTT-3.2.2-16], v5 [MQTT-3.1.3-7]
    assert_eq!(
        client.hears(),
        [format!(
            "CONNACK 0x00 ReceiveMaximum(20) MaximumQos(AtLeastOnce) RetainAvailable(false) MaximumPacketSize(5000) \
             WildcardSubscriptionAvailable(false) SubscriptionIdentifierAvailable(false) \
             SharedSubscriptionAvailable(false) AssignedClientIdentifier({id:?}) ServerKeepAlive(60) \
             ResponseInformation(\"answers/\")"
        )]
    );
}

#[test]
fn response_information_only_when_asked_for() {
    // v5 [MQTT-3.1.2-28]
    for properties in [&[][..], &[Property::RequestResponseInformation(false)]] {
        let mut client = Client::new(V5, |config| {
            config.response_information = Some("answers/".into());
        });
        client.connects(&Hello {
            properties,
            ..Hello::default()
        });
        client.told(attached(DURABLE, 7, false));
        assert_eq!(client.hears(), [format!("CONNACK 0x00 {LIMITS}")]);
    }
}

#[test]
fn server_keep_alive_only_when_changed() {
    // v5 [MQTT-3.2.2-22]: without it the client's own applies
    for (asked, told) in [(0, true), (59, false), (60, false), (61, true)] {
        let mut client = Client::new(V5, |config| config.keep_alive_max = NonZeroU16::new(60));
        client.connects(&Hello {
            keep_alive_seconds: asked,
            ..Hello::default()
        });
        client.told(attached(DURABLE, 7, false));
        let heard = client.hears().remove(0);
        assert_eq!(heard.contains("ServerKeepAlive(60)"), told, "{asked}");
    }
}

#[test]
fn an_empty_client_id_gets_one_of_its_own() {
    // v3 [MQTT-3.1.3-6], v5 [MQTT-3.1.3-6]
    let mut ids = std::collections::BTreeSet::new();
    for version in [V311, V5] {
        let mut client = Client::new(version, |_| {});
        for _ in 0..version.level() {
            courser_contract::FrontEffects::assigned_bits(&mut client.shell);
        }
        client.connects(&Hello {
            client_id: "",
            ..Hello::default()
        });
        client.told(ToFront::Claimed { epoch: Epoch(7) });
        client.told(attached(CLEAN, 7, false));
        let told = client.hears()[0].contains("AssignedClientIdentifier");
        assert_eq!(told, version == V5);
        assert!(ids.insert(client.front.client_id().to_owned()));
    }
    assert!(ids.iter().all(|id| id.len() > 20));
    assert!(ids.iter().all(|id| is_assigned_client_id(id)));
    let digits = "0123456789abcdef".repeat(2);
    let others = ["", "auto-", "c1", &digits].map(String::from);
    let longer = [format!("auto-{digits}0"), format!("auto-{}G", &digits[1..])];
    for id in others.iter().chain(&longer) {
        assert!(!is_assigned_client_id(id), "{id}");
    }
}

#[test]
fn an_empty_client_id_of_a_kept_v3_session_is_refused() {
    // v3 [MQTT-3.1.3-8], v3 [MQTT-3.1.3-9], v3 [MQTT-3.2.2-4], v3 [MQTT-3.2.2-5]
    let mut client = Client::new(V311, |_| {});
    client.gives(b"\x10\x0C\x00\x04MQTT\x04\x00\x00\x00\x00\x00");
    assert_eq!(client.receives(), [0x20, 2, 0, 2]);
    assert_eq!(client.effects(), ["close Fault(133)"]);
}

#[test]
fn a_client_id_that_is_too_long_is_refused() {
    // v3 [MQTT-3.1.3-9], v5 [MQTT-3.1.3-8]
    for (version, code) in [(V311, 0x02), (V5, 0x85)] {
        let mut client = Client::new(version, |config| config.limits.client_id_bytes_max = 4);
        client.connects(&Hello {
            client_id: "12345",
            ..Hello::default()
        });
        assert_eq!(client.receives()[3], code);
        assert_eq!(client.effects(), ["close Fault(133)"]);
    }
}

#[test]
fn unsupported_versions_are_answered_in_a_version_that_they_may_know() {
    // v3 [MQTT-3.1.2-2]
    let mut client = Client::new(V311, |_| {});
    client.gives(b"\x10\x0D\x00\x04MQTT\x03\x02\x00\x00\x00\x01c");
    assert_eq!(client.receives(), [0x20, 2, 0, 1]);
    assert_eq!(client.effects(), ["close Fault(132)"]);
    // v5 [MQTT-3.1.2-2]
    let mut client = Client::new(V5, |_| {});
    client.gives(b"\x10\x0D\x00\x04MQTT\x06\x02\x00\x00\x00\x01c");
    assert_eq!(client.hears(), ["CONNACK 0x84"]);
    assert_eq!(client.effects(), ["close Fault(132)"]);
    // v3 [MQTT-3.1.2-1], v5 [MQTT-3.1.2-1]
    let mut client = Client::new(V311, |_| {});
    client.gives(b"\x10\x0D\x00\x04HTTP\x04\x02\x00\x00\x00\x01c");
    assert!(client.receives().is_empty());
    assert_eq!(client.effects(), ["close Fault(132)"]);
}

#[test]
fn a_malformed_connect_closes_and_v3_gets_no_connack() {
    // v3 [MQTT-3.1.4-1], v3 [MQTT-3.1.2-3]; v5 [MQTT-3.1.4-1], v5 [MQTT-3.1.2-3]
    let mut client = Client::new(V311, |_| {});
    client.gives(b"\x10\x0D\x00\x04MQTT\x04\x03\x00\x00\x00\x01c");
    assert!(client.receives().is_empty());
    assert_eq!(client.effects(), ["close Fault(129)"]);
    let mut client = Client::new(V5, |_| {});
    client.gives(b"\x10\x0E\x00\x04MQTT\x05\x03\x00\x00\x00\x00\x01c");
    assert_eq!(client.hears(), ["CONNACK 0x81"]);
    assert_eq!(client.effects(), ["close Fault(129)"]);
}

#[test]
fn the_first_packet_is_connect_and_short() {
    let mut client = Client::new(V5, |_| {});
    client.says(&Packet::Pingreq(Pingreq));
    assert!(client.receives().is_empty());
    assert_eq!(client.effects(), ["close Fault(130)"]);
    // 16 KiB before login
    let mut client = Client::new(V5, |_| {});
    client.gives(&[0x10, 0xFF, 0xFF, 0x03]);
    assert!(client.receives().is_empty());
    assert_eq!(client.effects(), ["close Fault(149)"]);
}

/// A packet whose rest never comes would hold the connection until its CONNECT was due.
#[test]
fn what_begins_with_another_packet_than_connect_is_refused_at_its_first_byte() {
    let (protocol, malformed) = ("close Fault(130)", "close Fault(129)");
    for (bytes, end) in [
        // PUBREC with 82 bytes, as far as that goes: a PROXY header.
        (&b"P"[..], protocol),
        (b"PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\n", protocol),
        (b"\x30", protocol),
        (b"\xC0", protocol),
        (b"GET / HTTP/1.1\r\n", malformed),
        (b"\x16\x03\x01", malformed),
        (b"\r\n\r\n\0\r\nQUIT\n", malformed),
        (b"\x11", malformed),
    ] {
        let mut client = Client::new(V5, |_| {});
        client.gives(bytes);
        assert!(client.receives().is_empty());
        assert_eq!(client.effects(), [end], "{bytes:02x?}");
    }
    let mut client = Client::new(V5, |_| {});
    client.gives(b"\x10");
    assert!(client.effects().is_empty());
}

#[test]
fn nothing_behind_a_refused_connect_is_handled() {
    // v3 [MQTT-3.1.4-5], v5 [MQTT-3.1.4-6]
    let mut client = Client::new(V5, |config| config.retain = Feature::Off);
    let will = Will {
        topic: TopicName::new("w").unwrap(),
        payload: Binary::new(b"gone").unwrap(),
        qos: WireQos::AtMostOnce,
        retain: true,
        properties: crate::codec::Properties::EMPTY,
    };
    let mut bytes = client.encoded(&Packet::Connect(crate::codec::Connect {
        version: V5,
        clean_start: true,
        keep_alive_seconds: 0,
        properties: crate::codec::Properties::EMPTY,
        client_id: MqttStr::new("c").unwrap(),
        will: Some(will),
        user_name: None,
        password: None,
    }));
    bytes.extend(client.encoded(&Packet::Publish(super::support::publish("t", 0, 0))));
    client.gives(&bytes);
    // v5 [MQTT-3.2.2-13], v5 [MQTT-3.2.2-6], v5 [MQTT-3.2.2-7], v5 [MQTT-3.1.4-2]
    assert_eq!(client.hears(), ["CONNACK 0x9A"]);
    assert_eq!(client.effects(), ["close Refused(154, ByReason)"]);
    assert!(!client.front.wants_read());
}

#[test]
fn a_will_above_the_maximum_qos_is_refused() {
    // v5 [MQTT-3.2.2-12]; 3.1.1 has no return code for it: v3 [MQTT-3.2.2-6]
    for (version, answer) in [(V5, &["CONNACK 0x9B"][..]), (V311, &[])] {
        let mut client = Client::new(version, |config| config.maximum_qos = QoS::AtLeastOnce);
        client.connects(&Hello {
            will: Some(Will {
                topic: TopicName::new("w").unwrap(),
                payload: Binary::new(b"").unwrap(),
                qos: WireQos::ExactlyOnce,
                retain: false,
                properties: crate::codec::Properties::EMPTY,
            }),
            ..Hello::default()
        });
        assert_eq!(client.hears(), answer);
        assert_eq!(client.effects(), ["close Refused(155, ByReason)"]);
    }
}

#[test]
fn the_will_goes_to_the_home_with_all_that_it_has() {
    // v3 [MQTT-3.1.2-8], v5 [MQTT-3.1.2-7], v5 [MQTT-3.1.3-10]
    let properties = block(
        PropertyScope::Will,
        &[
            Property::WillDelayInterval(30),
            Property::UserProperty(MqttStr::new("k").unwrap(), MqttStr::new("2").unwrap()),
            Property::MessageExpiryInterval(40),
            Property::UserProperty(MqttStr::new("k").unwrap(), MqttStr::new("1").unwrap()),
        ],
    );
    let mut client = Client::new(V5, |_| {});
    client.connects(&Hello {
        will: Some(Will {
            topic: TopicName::new("w/t").unwrap(),
            payload: Binary::new(b"gone").unwrap(),
            qos: WireQos::AtLeastOnce,
            retain: true,
            properties: properties.properties(),
        }),
        ..Hello::default()
    });
    assert_eq!(
        client.effects(),
        [
            "3: attach Claim c clean=true expiry=0 max=1024 will=w/t q1 retain=true delay=30 expiry=Some(40) \
             [26, 00, 01, 6b, 00, 01, 32, 26, 00, 01, 6b, 00, 01, 31] 'gone'"
        ]
    );
}

#[test]
fn receive_maximum_of_the_client_and_ours_bound_the_window() {
    for (asked, expected) in [(10, 10), (65_535, 1024)] {
        let mut client = Client::new(V5, |_| {});
        client.connects(&Hello {
            properties: &[Property::ReceiveMaximum(NonZeroU16::new(asked).unwrap())],
            ..Hello::default()
        });
        let attach = client.effects().remove(0);
        assert!(attach.ends_with(&format!("max={expected}")), "{attach}");
    }
}

#[test]
fn a_refused_attach_is_told() {
    let cases = [
        (
            ConnectRefusal::Unavailable,
            0x88,
            3,
            "Refused(136, NotServed)",
        ),
        (
            ConnectRefusal::NotAuthorized,
            0x87,
            5,
            "Refused(135, OtherOwner)",
        ),
        (
            ConnectRefusal::QuotaExceeded,
            0x97,
            3,
            "Refused(151, Sessions)",
        ),
        (
            ConnectRefusal::UserSessions,
            0x97,
            3,
            "Refused(151, UserSessions)",
        ),
        (ConnectRefusal::NoMemory, 0x97, 3, "Refused(151, Memory)"),
        (ConnectRefusal::NoDisk, 0x97, 3, "Refused(151, Disk)"),
        (ConnectRefusal::TakenOver, 0x89, 3, "TakenOver"),
    ];
    for (refusal, code, return_code, cause) in cases {
        let mut client = Client::new(V5, |_| {});
        client.connects(&Hello::default());
        client.effects();
        client.told(ToFront::ConnectRefused(refusal));
        assert_eq!(client.hears(), [format!("CONNACK 0x{code:02X}")]);
        assert_eq!(client.effects(), [format!("close {cause}")]);
        let mut client = Client::new(V311, |_| {});
        client.connects(&Hello::default());
        client.told(ToFront::ConnectRefused(refusal));
        assert_eq!(client.receives(), [0x20, 2, 0, return_code]);
    }
}

#[test]
fn a_claim_is_let_go_when_the_session_cannot_be_opened() {
    let mut client = Client::new(V5, |_| {});
    client.connects(&Hello::default());
    client.told(ToFront::Claimed { epoch: Epoch(7) });
    client.effects();
    client.told(ToFront::ConnectRefused(ConnectRefusal::QuotaExceeded));
    assert_eq!(
        client.effects(),
        ["3: unclaim c epoch=7", "close Refused(151, Sessions)"]
    );
}

#[test]
fn a_home_that_does_not_answer_in_time_makes_the_server_unavailable() {
    let mut client = Client::new(V5, |_| {});
    client.connects(&Hello::default());
    client.effects();
    client.passes(9_999);
    assert!(client.hears().is_empty());
    client.passes(1);
    assert_eq!(client.hears(), ["CONNACK 0x88"]);
    assert!(client.effects().is_empty(), "the answer is still awaited");
    // What comes later is let go, without its will: the connection was never accepted.
    client.told(attached(DURABLE, 4, false));
    assert_eq!(
        client.effects(),
        [
            "3: detach Disconnect expiry=None epoch=4",
            "close Refused(136, NoAnswer)"
        ]
    );
    assert!(client.hears().is_empty());
}

#[test]
fn a_client_that_leaves_during_the_attach_is_let_go_when_it_is_answered() {
    let mut client = Client::new(V5, |_| {});
    client.connects(&Hello::default());
    client.effects();
    client.front.handle_lost(client.now, &mut client.shell);
    assert!(client.effects().is_empty());
    client.told(ToFront::Claimed { epoch: Epoch(7) });
    assert_eq!(client.effects(), ["3: unclaim c epoch=7", "close Lost"]);

    let mut client = Client::new(V5, |_| {});
    client.connects(&Hello::default());
    client.told(ToFront::Claimed { epoch: Epoch(7) });
    client.effects();
    client.front.handle_lost(client.now, &mut client.shell);
    client.told(attached(CLEAN, 7, false));
    assert_eq!(
        client.effects(),
        [
            "volatile: detach Lost expiry=None epoch=7 claim=c",
            "close Lost"
        ]
    );
    assert!(client.hears().is_empty());
}

#[test]
fn a_newer_connection_may_win_before_this_one_is_attached() {
    let mut client = Client::new(V5, |_| {});
    client.connects(&Hello::default());
    client.told(ToFront::Claimed { epoch: Epoch(7) });
    client.effects();
    client.told(ToFront::TakenOver);
    assert_eq!(client.hears(), ["CONNACK 0x89"]);
    client.told(attached(CLEAN, 7, false));
    assert_eq!(
        client.effects(),
        [
            "volatile: detach Disconnect expiry=None epoch=7 claim=c",
            "close TakenOver"
        ]
    );
}

#[test]
fn bytes_behind_connect_wait_for_connack() {
    let mut client = Client::new(V311, |_| {});
    client.gives(b"\x10\x0D\x00\x04MQTT\x04\x02\x00\x00\x00\x01c\xC0\x00");
    assert_eq!(client.rest, [0xC0, 0]);
    client.told(attached(DURABLE, 1, false));
    assert_eq!(client.hears(), ["CONNACK 0x00", "PINGRESP"]);
    assert!(client.rest.is_empty());
}

#[test]
fn a_second_connect_is_a_fault() {
    // v3 [MQTT-3.1.0-2], v5 [MQTT-3.1.0-2]
    for (version, answer) in [(V311, 0), (V5, 1)] {
        let mut client = Client::attached(version);
        client.connects(&Hello::default());
        let heard = client.hears();
        assert_eq!(heard.len(), answer);
        assert!(heard.iter().all(|line| line.starts_with("DISCONNECT 0x82")));
        assert_eq!(client.effects().last().unwrap(), "close Fault(130)");
    }
}

#[test]
fn a_connack_that_is_too_large_for_the_client_closes() {
    // v5 [MQTT-3.1.2-24]
    let mut client = Client::new(V5, |_| {});
    client.connects(&Hello {
        properties: &[Property::MaximumPacketSize(NonZeroU32::new(8).unwrap())],
        ..Hello::default()
    });
    client.effects();
    client.told(attached(DURABLE, 7, false));
    assert!(client.receives().is_empty());
    assert_eq!(
        client.effects(),
        [
            "3: detach Disconnect expiry=None epoch=7",
            "close Fault(149)"
        ]
    );
}

#[test]
fn all_clients_can_be_sent_elsewhere() {
    let redirect = |config: &mut crate::front::FrontConfig| {
        config.redirect = Some(Redirect {
            kind: RedirectKind::Permanent,
            reference: "b.example:1883".into(),
        });
    };
    let mut client = Client::new(V5, redirect);
    client.connects(&Hello::default());
    assert_eq!(
        client.hears(),
        ["CONNACK 0x9D ServerReference(\"b.example:1883\")"]
    );
    assert_eq!(client.effects(), ["close Refused(157, ByReason)"]);
    // v5 section 3.2.2.3.16: the server may leave the reference out.
    let mut client = Client::new(V5, redirect);
    client.connects(&Hello {
        properties: &[Property::MaximumPacketSize(NonZeroU32::new(12).unwrap())],
        ..Hello::default()
    });
    assert_eq!(client.hears(), ["CONNACK 0x9D"]);
    let mut client = Client::new(V311, redirect);
    client.connects(&Hello::default());
    assert_eq!(client.receives(), [0x20, 2, 0, 3]);
}

#[test]
fn a_connect_above_its_own_limit_closes() {
    let limit = |config: &mut crate::front::FrontConfig| config.connect_bytes_max = 64;
    for (announced, effects) in [(62, &[][..]), (63, &["close Fault(149)"])] {
        let mut client = Client::new(V5, limit);
        client.gives(&[0x10, announced]);
        assert_eq!(client.effects(), effects, "{announced}");
    }
}

#[test]
fn a_connect_above_its_own_limit_is_told_so_in_5_0() {
    // v5 section 3.2.2.2, 0x95; 3.1.1 has no such return code: v3 [MQTT-3.2.2-6]
    let limit = |config: &mut crate::front::FrontConfig| config.connect_bytes_max = 64;
    let too_large = |version: u8, properties: &[u8]| {
        let mut bytes = b"\x10\xC8\x01\x00\x04MQTT".to_vec();
        bytes.extend([version, 2, 0, 60, properties.len() as u8]);
        bytes.extend(properties);
        bytes
    };
    let text = Some("CONNECT is larger than it may be before a login".to_owned());
    for (version, properties, texts) in [
        (5, &[][..], &[text][..]),
        // No problem information, at most 24 bytes.
        (5, &[0x17, 0], &[None]),
        (5, &[0x27, 0, 0, 0, 24], &[None]),
        (4, &[], &[]),
        (3, &[], &[]),
    ] {
        let mut client = Client::new(V5, limit);
        client.gives(&too_large(version, properties));
        let bytes = client.receives();
        assert_eq!(super::support::texts(&bytes, V5), texts, "{version}");
        let connacks = lines(&bytes, V5);
        assert!(connacks.iter().all(|line| line == "CONNACK 0x95"));
        assert_eq!(client.effects(), ["close Fault(149)"]);
    }
    // Only CONNECT may be the first packet, and only its version decides.
    for other in [
        &b"\x30\xC8\x01\x00\x04MQTT\x05"[..],
        b"\x10\xC8\x01\x00\x04MQTT",
    ] {
        let mut client = Client::new(V5, limit);
        client.gives(other);
        assert!(client.receives().is_empty());
        assert_eq!(client.effects(), ["close Fault(149)"]);
    }
}

#[test]
fn no_connect_in_time_closes() {
    let mut client = Client::new(V5, |_| {});
    client.gives(b"\x10\x0D\x00\x04MQ");
    client.passes(4_999);
    assert!(client.effects().is_empty());
    client.passes(1);
    assert_eq!(client.effects(), ["close ConnectTimeout"]);
    assert!(client.receives().is_empty());
}

#[test]
fn reasons_without_a_v3_return_code_are_not_answered() {
    // v3 [MQTT-3.2.2-6]
    assert_eq!(ReasonCode::RetainNotSupported.connack_return_code(), None);
    let mut client = Client::new(V311, |config| config.retain = Feature::Off);
    client.connects(&Hello {
        will: Some(Will {
            topic: TopicName::new("w").unwrap(),
            payload: Binary::new(b"").unwrap(),
            qos: WireQos::AtMostOnce,
            retain: true,
            properties: crate::codec::Properties::EMPTY,
        }),
        ..Hello::default()
    });
    assert_eq!(lines(&client.receives(), V311), [""; 0]);
    assert_eq!(client.effects(), ["close Refused(154, ByReason)"]);
}
