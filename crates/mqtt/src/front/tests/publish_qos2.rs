//! QoS 2 of the client: held by the front (M29) or by the home (M28).

use std::num::NonZero;

use courser_contract::{PartitionId, Refusal, Routed, Settled, Ticket, ToFront};

use super::support::{Client, HOME, Hello, V5, V311, packet_id, publish};
use crate::codec::{self, Packet};
use crate::front::FrontConfig;

fn again(id: u16) -> codec::Publish<'static> {
    let mut packet = publish("t", 2, id);
    packet.delivery = codec::Delivery::ExactlyOnce {
        packet_id: packet_id(id),
        dup: true,
    };
    packet
}

fn received(packet_id: u16, result: Settled, matched: bool) -> ToFront {
    ToFront::Received {
        packet_id,
        result,
        matched,
    }
}

#[test]
fn m29_a_clean_session_holds_the_packet_id_in_memory() {
    // v3 [MQTT-4.3.3-2]; v5 [MQTT-4.3.3-8], v5 [MQTT-4.3.3-10], v5 [MQTT-4.3.3-11], v5 [MQTT-4.3.3-12]
    for version in [V311, V5] {
        let mut client = Client::attached(version);
        client.publishes("t", 2, 1);
        assert_eq!(client.effects(), ["publish t q2 'x' #0"]);
        client.says(&Packet::Publish(again(1)));
        client.publishes("t", 2, 1);
        assert!(client.effects().is_empty(), "published once");
        assert_eq!(client.hears(), ["PUBREC 1", "PUBREC 1", "PUBREC 1"]);
        client.pubrels(1);
        assert_eq!(client.hears(), ["PUBCOMP 1"]);
        client.publishes("t", 2, 1);
        assert_eq!(client.effects().len(), 1, "the id is free again");
    }
}

#[test]
fn pubrec_leaves_when_the_ticket_is_settled() {
    let mut client = Client::attached(V5);
    client.shell.routed.push_back(Routed::Waits);
    client.publishes("t", 2, 1);
    client.publishes("t", 1, 2);
    client.says(&Packet::Publish(again(1)));
    assert!(client.hears().is_empty());
    client
        .front
        .handle_settled(client.now, Ticket(0), Settled::Ok, &mut client.shell);
    assert_eq!(client.hears(), ["PUBREC 1", "PUBACK 2"], "one queue (M10)");
}

#[test]
fn the_handshake_is_finished_even_where_the_message_expired() {
    // v5 [MQTT-4.3.3-13]
    let mut client = Client::attached(V5);
    client.shell.routed.push_back(Routed::Waits);
    let mut packet = publish("t", 2, 1);
    packet.message_expiry_interval = Some(1);
    client.says(&Packet::Publish(packet));
    client.passes(5_000);
    client
        .front
        .handle_settled(client.now, Ticket(0), Settled::Ok, &mut client.shell);
    client.passes(5_000);
    client.pubrels(1);
    assert_eq!(client.hears(), ["PUBREC 1", "PUBCOMP 1"]);
}

#[test]
fn a_refusing_pubrec_frees_the_packet_id() {
    // v5 [MQTT-4.3.3-9], v5 [MQTT-3.5.2-1]
    let mut client = Client::attached(V5);
    client
        .shell
        .routed
        .push_back(Routed::Refused(Refusal::QuotaExceeded));
    client.publishes("t", 2, 1);
    client.says(&Packet::Publish(again(1)));
    assert_eq!(client.hears(), ["PUBREC 1 0x97", "PUBREC 1"]);
    assert_eq!(client.effects().len(), 2, "a new message");
}

#[test]
fn nobody_subscribes_to_qos_2() {
    for (version, answer) in [(V311, "PUBREC 1"), (V5, "PUBREC 1 0x10")] {
        let mut client = Client::attached(version);
        client
            .shell
            .routed
            .push_back(Routed::Done { matched: false });
        client.publishes("t", 2, 1);
        client.pubrels(1);
        assert_eq!(client.hears(), [answer, "PUBCOMP 1"]);
    }
}

/// What only the server publishes to: a kept session is refused as every other one is, not told that nobody subscribes.
#[test]
fn m28_a_value_of_the_broker_is_refused_to_a_kept_session() {
    let mut client = Client::durable(V5);
    client.shell.destinations = Vec::new();
    client.publishes("$SYS/broker/x", 2, 1);
    assert_eq!(client.hears(), ["PUBREC 1 0x87"]);
    assert_eq!(client.effects(), ["3: release 1"], "no message");
    // v3 [MQTT-3.3.5-2]: nothing that would say it was taken, and the connection ends.
    let mut client = Client::durable(V311);
    client.shell.destinations = Vec::new();
    client.publishes("$SYS/broker/x", 2, 1);
    client.passes(0);
    assert!(client.hears().is_empty());
    assert_eq!(
        client.effects().last().map(String::as_str),
        Some("close PublishRefused(135)")
    );
}

#[test]
fn pubrel_for_an_unknown_packet_id() {
    // v5 [MQTT-3.7.2-1]
    for (version, answer) in [(V311, "PUBCOMP 9"), (V5, "PUBCOMP 9 0x92")] {
        let mut client = Client::attached(version);
        client.pubrels(9);
        assert_eq!(client.hears(), [answer]);
    }
}

#[test]
fn pubrel_before_pubrec_is_a_fault() {
    let mut client = Client::attached(V5);
    client.shell.routed.push_back(Routed::Waits);
    client.publishes("t", 2, 1);
    client.pubrels(1);
    assert!(client.hears()[0].starts_with("DISCONNECT 0x82"));
}

#[test]
fn a_durable_session_stores_at_home_before_pubrec() {
    // M28: the home knows whether its client can be told of a refusal
    for (version, refusal) in [(V311, ", not to be refused"), (V5, "")] {
        let mut client = Client::durable(version);
        client.shell.destinations = vec![PartitionId(1), HOME];
        client.publishes("t", 2, 1);
        let stored = format!("3: publish_qos2 1 t 'x' to [1, 3]{refusal}");
        assert_eq!(client.effects(), [stored]);
        client.says(&Packet::Publish(again(1)));
        assert!(client.effects().is_empty(), "its PUBREC is on the way");
        assert!(client.hears().is_empty());
        client.told(received(1, Settled::Ok, true));
        assert_eq!(client.hears(), ["PUBREC 1"]);
        client.says(&Packet::Publish(again(1)));
        assert_eq!(client.hears(), ["PUBREC 1"]);
        client.pubrels(1);
        client.pubrels(1);
        assert_eq!(client.effects(), ["3: release 1"]);
        assert!(client.hears().is_empty());
        client.told(ToFront::Released {
            packet_id: 1,
            existed: true,
        });
        assert_eq!(client.hears(), ["PUBCOMP 1"]);
    }
}

#[test]
fn packet_ids_of_an_earlier_connection_are_known_at_home() {
    // v5 [MQTT-3.1.2-5], v3 [MQTT-4.4.0-1]
    for (version, unknown, repeat) in [
        (
            V311,
            "PUBCOMP 6",
            "3: publish_qos2 7 t 'x' to [], not to be refused",
        ),
        (V5, "PUBCOMP 6 0x92", "3: publish_qos2 7 t 'x' to []"),
    ] {
        let mut client = Client::durable(version);
        client.pubrels(5);
        client.pubrels(6);
        assert_eq!(client.effects(), ["3: release 5", "3: release 6"]);
        for (packet_id, existed) in [(5, true), (6, false)] {
            client.told(ToFront::Released { packet_id, existed });
        }
        assert_eq!(client.hears(), ["PUBCOMP 5", unknown]);
        // A repeat is asked of the home even where the topic has no destination any more.
        client.shell.destinations.clear();
        client.says(&Packet::Publish(again(7)));
        assert_eq!(client.effects(), [repeat]);
    }
}

#[test]
fn nothing_is_stored_without_a_destination() {
    let mut client = Client::durable(V5);
    client.shell.destinations.clear();
    client.publishes("t", 2, 1);
    assert!(client.effects().is_empty());
    assert_eq!(client.hears(), ["PUBREC 1 0x10"]);
}

/// A client that lost its state used a packet id of an exchange that its home still held, for a topic without subscribers; the home did not
/// hear of PUBREL and took the next message with that packet id for a repeat of the first: acknowledged, and lost.
#[test]
fn m28_the_end_of_an_exchange_for_nobody_is_told_to_the_home() {
    // v5 [MQTT-4.3.3-12]
    for (version, pubrec) in [(V311, "PUBREC 1"), (V5, "PUBREC 1 0x10")] {
        for existed in [false, true] {
            let mut client = Client::durable(version);
            client.shell.destinations.clear();
            client.publishes("t", 2, 1);
            client.says(&Packet::Publish(again(1)));
            client.pubrels(1);
            client.pubrels(1);
            assert_eq!(client.effects(), ["3: release 1"]);
            let hears = client.hears();
            assert_eq!(hears, [pubrec, "PUBREC 1"], "PUBCOMP waits for the home");
            client.told(ToFront::Released {
                packet_id: 1,
                existed,
            });
            assert_eq!(client.hears(), ["PUBCOMP 1"], "its PUBREC was here");
        }
    }
}

/// The same by a refusal: v5 [MQTT-4.3.3-9]. 3.1.1 has no PUBREC that refuses, so no exchange ends.
#[test]
fn m28_a_refusal_ends_an_exchange_that_the_home_may_still_hold() {
    type Refuses = fn(&mut Client);
    let reasons: [(Refuses, &str); 3] = [
        (
            |client| client.shell.denied = vec!["publish t".to_owned()],
            "PUBREC 1 0x87",
        ),
        (|client| client.shell.refuses = true, "PUBREC 1 0x97"),
        (|client| client.shell.destinations.clear(), "PUBREC 1 0x10"),
    ];
    for (refuses, pubrec) in reasons {
        let mut client = Client::durable(V5);
        refuses(&mut client);
        client.publishes("t", 2, 1);
        assert_eq!(client.hears(), [pubrec]);
        if pubrec.ends_with("10") {
            client.pubrels(1);
        }
        assert_eq!(client.effects(), ["3: release 1"], "{pubrec}");
        let mut client = Client::durable(V311);
        refuses(&mut client);
        client.publishes("t", 2, 1);
        let effects = client.effects();
        assert!(
            effects.iter().all(|it| !it.contains("release")),
            "{effects:?}"
        );
    }
}

#[test]
fn a_refusal_of_the_home_ends_the_hold_in_v5() {
    let mut client = Client::durable(V5);
    client.publishes("t", 2, 1);
    client.effects();
    client.told(received(1, Settled::Refused(Refusal::QuotaExceeded), true));
    assert_eq!(client.hears(), ["PUBREC 1 0x97"]);
    client.publishes("t", 2, 1);
    assert_eq!(client.effects(), ["3: publish_qos2 1 t 'x' to [3]"]);
}

#[test]
fn a_packet_id_between_pubrel_and_pubcomp_is_in_use() {
    let mut client = Client::durable(V5);
    client.pubrels(1);
    client.publishes("t", 2, 1);
    assert_eq!(client.hears(), ["PUBREC 1 0x91"]);
    let mut client = Client::durable(V311);
    client.pubrels(1);
    client.publishes("t", 2, 1);
    assert_eq!(client.effects().last().unwrap(), "close Fault(130)");
}

#[test]
fn a_retain_publish_that_goes_another_way_waits_for_the_earlier_one() {
    // M28, last sentence
    let mut client = Client::durable(V5);
    let retained = |topic, qos, id| {
        let mut packet = publish(topic, qos, id);
        packet.retain = true;
        packet
    };
    client.says(&Packet::Publish(retained("t", 2, 1)));
    client.effects();
    client.says(&Packet::Publish(retained("other", 1, 2)));
    assert_eq!(client.effects(), ["publish other q1 retain 'x' #1"]);
    client.says(&Packet::Publish(retained("t", 2, 3)));
    assert_eq!(client.effects().len(), 1, "the same way does not wait");
    client.says(&Packet::Publish(retained("t", 0, 0)));
    assert!(client.effects().is_empty());
    assert!(!client.front.wants_read());
    client.told(received(1, Settled::Ok, true));
    assert!(client.effects().is_empty(), "the other QoS 2 still waits");
    client.told(received(3, Settled::Ok, true));
    assert_eq!(client.effects(), ["publish t q0 retain 'x'"]);
    // and the other way round
    client.shell.routed.push_back(Routed::Waits);
    client.says(&Packet::Publish(retained("t", 1, 4)));
    client.effects();
    client.says(&Packet::Publish(retained("t", 2, 5)));
    assert!(client.effects().is_empty());
    client
        .front
        .handle_settled(client.now, Ticket(3), Settled::Ok, &mut client.shell);
    client.gives(&[]);
    assert_eq!(client.effects(), ["3: publish_qos2 5 t 'x' to [3]"]);
}

#[test]
fn an_exchange_of_an_earlier_connection_takes_nothing_of_receive_maximum() {
    // v5 section 4.9: it began anew with the connection, and PUBREL takes nothing of it.
    let mut client = Client::durable_with(V5, |config| {
        config.receive_maximum = std::num::NonZeroU16::new(2).unwrap();
    });
    client.pubrels(9);
    client.publishes("t", 2, 1);
    client.publishes("t", 2, 2);
    assert_eq!(client.effects().len(), 3, "all have gone home");
    assert!(client.hears().is_empty());
    client.told(ToFront::Released {
        packet_id: 9,
        existed: true,
    });
    assert_eq!(client.hears(), ["PUBCOMP 9"]);
    client.publishes("t", 2, 3);
    assert!(client.hears()[0].starts_with("DISCONNECT 0x93"));
}

#[test]
fn a_repeat_that_is_refused_ends_its_exchange_at_home_m28() {
    let mut client = Client::durable(V5);
    client.shell.denied = vec!["publish t".to_owned()];
    client.says(&Packet::Publish(again(5)));
    assert_eq!(client.effects(), ["3: release 5"]);
    assert_eq!(client.hears(), ["PUBREC 5 0x87"]);
    // The packet id is free; what the home says of the old exchange is not about the new one.
    client.shell.denied.clear();
    client.publishes("t", 2, 5);
    assert_eq!(client.effects().len(), 1);
    client.told(ToFront::Released {
        packet_id: 5,
        existed: true,
    });
    assert!(client.hears().is_empty());
    client.told(received(5, Settled::Ok, true));
    assert_eq!(client.hears(), ["PUBREC 5"]);
}

#[test]
fn i9_each_publish_counts_once_whatever_becomes_of_it() {
    for version in [V311, V5] {
        for mut client in [Client::attached(version), Client::durable(version)] {
            for qos in 0..=2 {
                client.publishes("t", qos, 1 + u16::from(qos));
            }
            client.says(&Packet::Publish(again(3)));
            assert_eq!(client.shell.received, [1, 1, 2], "a repeat is sent, too");
            client.shell.denied.push("publish t".to_owned());
            client.publishes("t", 0, 0);
            client.publishes("t", 2, 4);
            assert_eq!(client.shell.received, [2, 1, 3], "so is what is denied");
        }
    }
}

#[test]
fn m49_what_the_shell_refuses_is_not_sent_to_a_home() {
    let mut client = Client::durable(V5);
    client.shell.refuses = true;
    client.publishes("t", 2, 1);
    assert_eq!(client.hears(), ["PUBREC 1 0x97"]);
    assert_eq!(client.effects(), ["3: release 1"], "no message");
    // Perhaps it is held already.
    client.says(&Packet::Publish(again(2)));
    assert_eq!(client.effects().len(), 1);
    let mut client = Client::durable(V311);
    client.shell.refuses = true;
    client.publishes("t", 2, 1);
    assert!(client.hears().is_empty() && client.effects().is_empty());
}

#[test]
fn i9_repeats_wait_once_many_answers_do() {
    for version in [V311, V5] {
        let four = |config: &mut FrontConfig| config.receive_maximum = NonZero::new(4).unwrap();
        let mut client = Client::attached_with(version, four, &Hello::default());
        client.publishes("t", 2, 1);
        client.hears();
        // The head of the queue.
        client.shell.routed.push_back(Routed::Waits);
        client.publishes("t", 1, 2);
        for _ in 0..10 {
            client.says(&Packet::Publish(again(1)));
        }
        assert!(!client.front.wants_read(), "{version:?}");
        assert!(client.hears().is_empty());
        let settled = Ticket(1);
        client
            .front
            .handle_settled(client.now, settled, Settled::Ok, &mut client.shell);
        for _ in 0..10 {
            client.gives(&[]);
        }
        let heard = client.hears();
        assert_eq!(heard.len(), 11, "each is answered: {heard:?}");
    }
}
