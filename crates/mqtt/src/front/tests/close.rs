//! Ends of a connection.

use courser_contract::{CloseReason, ToFront};

use super::support::{Client, Hello, V5, V311};
use crate::codec::{Packet, Pingreq, Property, ReasonCode};
use crate::front::{BadReference, Redirect, RedirectKind};

#[test]
fn a_good_bye_deletes_the_will() {
    // v3 [MQTT-3.14.4-3], v3 [MQTT-3.1.2-10]; v5 [MQTT-3.14.4-3], v5 [MQTT-3.1.2-10]
    for version in [V311, V5] {
        let mut client = Client::attached(version);
        client.disconnects(ReasonCode::NORMAL_DISCONNECTION, &[]);
        assert!(client.receives().is_empty());
        assert_eq!(
            client.effects(),
            [
                "volatile: detach Disconnect expiry=None epoch=7 claim=c",
                "close Disconnect"
            ]
        );
        assert_eq!(client.front.poll_timeout(), None);
        client.front.handle_lost(client.now, &mut client.shell);
        client.told(ToFront::TakenOver);
        assert!(client.effects().is_empty(), "one end only");
    }
}

#[test]
fn any_other_reason_of_the_client_keeps_the_will() {
    // v5 [MQTT-3.1.2-8]
    for reason in [
        ReasonCode::DisconnectWithWillMessage,
        ReasonCode::UnspecifiedError,
        ReasonCode::QuotaExceeded,
    ] {
        let mut client = Client::durable(V5);
        client.disconnects(reason, &[]);
        assert_eq!(
            client.effects(),
            [
                "3: detach DisconnectWithWill expiry=None epoch=2",
                "close Disconnect"
            ]
        );
    }
}

/// Where to connect is for servers to say: the packet is at fault, and its end is no normal one.
#[test]
fn a_good_bye_with_a_server_reference_keeps_the_will() {
    // v5 section 3.14.2.2.5, v5 [MQTT-3.1.2-8], v5 [MQTT-4.13.1-1]
    let mut client = Client::durable(V5);
    client.gives(&[0xE0, 6, 0, 4, 0x1C, 0, 1, b'a']);
    let heard = client.hears();
    assert!(heard[0].starts_with("DISCONNECT 0x82"), "{heard:?}");
    assert_eq!(
        client.effects(),
        ["3: detach Lost expiry=None epoch=2", "close Fault(130)"]
    );
}

#[test]
fn a_disconnect_may_change_the_session_expiry() {
    let mut client = Client::durable(V5);
    let expiry = Property::SessionExpiryInterval(u32::MAX);
    client.disconnects(ReasonCode::NORMAL_DISCONNECTION, &[expiry]);
    assert_eq!(
        client.effects()[0],
        "3: detach Disconnect expiry=Some(604800) epoch=2",
        "as capped as in CONNECT"
    );
    let mut client = Client::attached(V5);
    let none = Property::SessionExpiryInterval(0);
    client.disconnects(ReasonCode::NORMAL_DISCONNECTION, &[none]);
    assert!(client.effects()[0].contains("Disconnect expiry=Some(0)"));
}

#[test]
fn a_session_that_ends_with_its_connection_cannot_be_prolonged() {
    let mut client = Client::attached(V5);
    let expiry = Property::SessionExpiryInterval(10);
    client.disconnects(ReasonCode::NORMAL_DISCONNECTION, &[expiry]);
    assert!(client.hears()[0].starts_with("DISCONNECT 0x82"));
    assert_eq!(
        client.effects()[0],
        "volatile: detach Lost expiry=None epoch=7 claim=c"
    );
}

#[test]
fn a_lost_socket_is_told_to_the_home() {
    let mut client = Client::attached(V5);
    client.gets_run(0, 3);
    client.front.handle_lost(client.now, &mut client.shell);
    assert!(client.front.output().is_empty(), "nobody reads it");
    assert_eq!(
        client.effects(),
        [
            "volatile: detach Lost expiry=None epoch=7 claim=c",
            "close Lost"
        ]
    );
}

#[test]
fn ends_by_the_server_have_their_reason() {
    // v3 [MQTT-3.1.4-2]; v5 [MQTT-3.1.4-3], v5 [MQTT-3.14.2-1], v5 [MQTT-3.14.2-2]
    let cases = [
        (ToFront::TakenOver, 0x8E, "TakenOver", "TakenOver"),
        (
            ToFront::Closed(CloseReason::Administrative),
            0x98,
            "Lost",
            "Administrative",
        ),
        (
            ToFront::Closed(CloseReason::Unfinished),
            0x97,
            "Lost",
            "Unfinished",
        ),
        (
            ToFront::Closed(CloseReason::ServerStops),
            0x8B,
            "ServerStops",
            "ServerStops",
        ),
    ];
    for (message, code, detach, close) in cases {
        for version in [V311, V5] {
            let mut client = Client::durable(version);
            client.told(message.clone());
            let expected = if version == V5 {
                vec![format!("DISCONNECT 0x{code:02X}")]
            } else {
                Vec::new()
            };
            assert_eq!(client.hears(), expected);
            assert_eq!(
                client.effects(),
                [
                    format!("3: detach {detach} expiry=None epoch=2"),
                    format!("close {close}")
                ]
            );
            // v5 [MQTT-3.14.4-1], v5 [MQTT-3.14.4-2]: nothing more is handled or sent
            client.gives(&[0xC0, 0]);
            client.gets_run(0, 0);
            assert!(client.receives().is_empty());
            assert!(client.effects().is_empty());
        }
    }
}

#[test]
fn the_server_stops() {
    let mut client = Client::attached(V5);
    client.front.handle_stop(client.now, &mut client.shell);
    assert_eq!(client.hears(), ["DISCONNECT 0x8B"]);
    assert!(client.effects()[0].contains("detach ServerStops"));
    let mut client = Client::new(V5, |_| {});
    client.front.handle_stop(client.now, &mut client.shell);
    assert_eq!(client.effects(), ["close ServerStops"]);
    // v5 [MQTT-3.14.0-1]: no DISCONNECT before CONNACK
    let mut client = Client::new(V5, |_| {});
    client.connects(&Hello::default());
    client.front.handle_stop(client.now, &mut client.shell);
    assert_eq!(client.hears(), ["CONNACK 0x88"]);
}

#[test]
fn a_client_can_be_sent_elsewhere() {
    let redirect = Redirect {
        kind: RedirectKind::Temporary,
        reference: "b.example".into(),
    };
    let mut client = Client::attached(V5);
    client
        .front
        .handle_redirect(client.now, &redirect, &mut client.shell);
    assert_eq!(
        client.hears(),
        ["DISCONNECT 0x9C ServerReference(\"b.example\")"]
    );
    assert_eq!(
        client.effects().last().unwrap(),
        "close Refused(156, ByReason)"
    );
    let mut client = Client::attached(V311);
    client
        .front
        .handle_redirect(client.now, &redirect, &mut client.shell);
    assert!(client.receives().is_empty());
    assert_eq!(
        client.effects().last().unwrap(),
        "close Refused(156, ByReason)"
    );
}

#[test]
fn reasons_are_spelled_out_only_for_those_who_want_it() {
    // v5 [MQTT-3.1.2-29]
    for (properties, heard) in [
        (
            &[][..],
            "DISCONNECT 0x81 ReasonString(\"bytes follow the last field\")",
        ),
        (
            &[Property::RequestProblemInformation(false)],
            "DISCONNECT 0x81",
        ),
    ] {
        let hello = Hello {
            properties,
            ..Hello::default()
        };
        let mut client = Client::attached_with(V5, |_| {}, &hello);
        client.gives(&[0xC0, 1, 0]);
        assert_eq!(client.hears(), [heard]);
        assert_eq!(client.effects().last().unwrap(), "close Fault(129)");
    }
}

#[test]
fn a_fault_ends_the_connection_with_its_reason() {
    // v3 [MQTT-4.8.0-1], v3 [MQTT-2.2.2-2]; v5 [MQTT-4.13.1-1], v5 [MQTT-4.13.2-1], v5 [MQTT-3.8.1-1], v5 [MQTT-3.14.1-1]
    let cases: [(&[u8], u8); 8] = [
        (&[0xC1, 0], 0x81),                         // PINGREQ with flags
        (&[0x80, 5, 0, 1, 0, 0, 0], 0x81),          // SUBSCRIBE with wrong flags
        (&[0xE1, 0], 0x81),                         // DISCONNECT with flags
        (&[0x20, 3, 0, 0, 0], 0x82),                // CONNACK from a client
        (&[0x36, 5, 0, 1, b't', 0, 1], 0x81),       // QoS 3
        (&[0x30, 0xFF, 0xFF, 0xFF, 0x7F], 0x95),    // larger than announced
        (&[0x30, 0xFF, 0xFF, 0xFF, 0xFF, 1], 0x81), // length of five bytes
        (&[0x82, 3, 0, 0, 0], 0x82),                // packet id 0
    ];
    for (bytes, code) in cases {
        for version in [V311, V5] {
            let mut client = Client::attached(version);
            client.gives(bytes);
            let heard = client.hears();
            match version {
                V311 => assert!(heard.is_empty()),
                V5 => assert!(
                    heard[0].starts_with(&format!("DISCONNECT 0x{code:02X}")),
                    "{heard:?}"
                ),
            }
            let effects = client.effects();
            assert_eq!(
                effects[0],
                "volatile: detach Lost expiry=None epoch=7 claim=c"
            );
            assert_eq!(effects[1], format!("close Fault({code})"), "{bytes:02x?}");
        }
    }
}

#[test]
fn packets_before_a_fault_are_handled() {
    let mut client = Client::attached(V5);
    let mut bytes = client.encoded(&Packet::Pingreq(Pingreq));
    bytes.extend([0xC1, 0, 0xC0, 0]);
    client.gives(&bytes);
    let heard = client.hears();
    assert_eq!(heard[0], "PINGRESP");
    assert!(heard[1].starts_with("DISCONNECT 0x81"));
    assert_eq!(heard.len(), 2);
}

#[test]
fn a_server_reference_is_names_with_ports() {
    let check = |reference: &str| Redirect::new(RedirectKind::Temporary, reference).map(drop);
    for good in [
        "b",
        "b.example:1883",
        "b.example:1883 c.example",
        "[::1] [2001:db8::1]:8883",
        "müller.example:65535",
        &"x".repeat(1_024),
    ] {
        assert_eq!(check(good), Ok(()), "{good}");
    }
    assert_eq!(check(""), Err(BadReference::Empty));
    assert_eq!(check(&"x".repeat(1_025)), Err(BadReference::TooLong));
    for (bad, part) in [
        (" ", 1),
        ("b  c", 2),
        ("b ", 2),
        (":1883", 1),
        ("b:", 1),
        ("b:0", 1),
        ("b:65536", 1),
        ("b:+1", 1),
        ("b:1:2", 1),
        ("::1", 1),
        ("[::1", 1),
        ("[]:1", 1),
        ("[::1]1883", 1),
        ("a b\tc", 2),
        ("a\0", 1),
    ] {
        let text = bad.split(' ').nth(part - 1).map(Box::from);
        let expected = BadReference::Part {
            position: part,
            text,
        };
        assert_eq!(check(bad), Err(expected), "{bad:?}");
    }
}
