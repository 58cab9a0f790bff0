//! SUBSCRIBE and UNSUBSCRIBE.

use courser_contract::{QoS, RequestPart, SubscribeResult, ToFront};

use super::support::{Client, Hello, V5, V311, packet_id, publish};
use crate::codec::{
    Packet, Pingreq, Properties, Property, QoS as WireQos, RetainHandling, Subscribe,
    SubscriptionId, SubscriptionOptions, SubscriptionsBuilder, TopicFilter, TopicFiltersBuilder,
    Unsubscribe,
};
use crate::front::{Feature, FrontConfig};

pub(super) const QOS0: SubscriptionOptions = SubscriptionOptions::new(WireQos::AtMostOnce);
pub(super) const QOS1: SubscriptionOptions = SubscriptionOptions::new(WireQos::AtLeastOnce);
pub(super) const QOS2: SubscriptionOptions = SubscriptionOptions::new(WireQos::ExactlyOnce);

pub(super) fn subscribed(packet_id: u16, results: &[SubscribeResult]) -> ToFront {
    ToFront::Subscribed {
        part: RequestPart::whole(packet_id),
        results: results.to_vec(),
    }
}

pub(super) fn granted(qos: QoS) -> SubscribeResult {
    SubscribeResult::Granted(qos)
}

pub(super) fn without(
    set: impl FnOnce(&mut FrontConfig),
    version: crate::codec::ProtocolVersion,
) -> Client {
    Client::attached_with(version, set, &Hello::default())
}

#[test]
fn filters_go_home_together_and_come_back_as_one_suback() {
    // v3 [MQTT-3.8.4-1], v3 [MQTT-3.8.4-2], v3 [MQTT-3.8.4-4], v3 [MQTT-3.8.4-5], v3 [MQTT-3.9.3-1], v3 [MQTT-2.3.1-7];
    // v5 [MQTT-3.8.4-1], v5 [MQTT-3.8.4-2], v5 [MQTT-3.8.4-5], v5 [MQTT-3.8.4-6], v5 [MQTT-3.8.4-7], v5 [MQTT-3.9.3-1],
    // v5 [MQTT-2.2.1-6]
    for version in [V311, V5] {
        let mut client = Client::attached(version);
        client.subscribes(
            7,
            &[],
            &[("a/+", QOS2), ("$share/g/b/#", QOS1), ("c", QOS0)],
        );
        assert_eq!(
            client.effects(),
            [
                "volatile: subscribe 7 [a/+ q2 nl=false rap=false Send] [b/# q1 nl=false rap=false Send share=g] \
                 [c q0 nl=false rap=false Send]"
            ]
        );
        assert!(client.hears().is_empty());
        let results = [
            granted(QoS::ExactlyOnce),
            SubscribeResult::NotAuthorized,
            granted(QoS::AtMostOnce),
        ];
        client.told(subscribed(7, &results));
        // v3 [MQTT-3.9.3-2]: 0x80 for every failure
        let heard = match version {
            V311 => "SUBACK 7 02 80 00",
            V5 => "SUBACK 7 02 87 00",
        };
        assert_eq!(client.hears(), [heard]);
        // an answer that nobody waits for is not sent again
        client.told(subscribed(7, &results));
        assert!(client.receives().is_empty());
    }
}

#[test]
fn many_filters_go_home_in_parts_and_are_answered_by_one_packet() {
    // v5 [MQTT-3.8.4-5], v5 [MQTT-3.8.4-6], v5 [MQTT-3.9.3-1], v5 [MQTT-3.11.3-1]
    let mut client = Client::attached(V5);
    client.shell.denied = vec!["subscribe no".to_owned()];
    let mut filters = vec![("a", QOS0); 80];
    filters[0].0 = "no";
    filters[40].0 = "no";
    client.subscribes(7, &[], &filters);
    let parts = client.effects();
    let sizes: Vec<_> = parts.iter().map(|part| part.matches('[').count()).collect();
    assert_eq!(sizes, [32, 32, 14]);
    let starts = [
        "subscribe 7 [",
        "subscribe 7 from 33 [",
        "subscribe 7 from 66 [",
    ];
    for (part, start) in parts.iter().zip(starts) {
        assert!(part.contains(start), "{part} begins with {start}");
    }
    // Groups may let a later part be answered first.
    let part = |first| RequestPart {
        packet_id: 7,
        first,
    };
    for (first, count, qos) in [
        (66, 14, QoS::ExactlyOnce),
        (0, 32, QoS::AtMostOnce),
        (33, 32, QoS::AtLeastOnce),
    ] {
        assert!(client.hears().is_empty());
        client.told(ToFront::Subscribed {
            part: part(first),
            results: vec![granted(qos); count],
        });
    }
    let mut codes = vec!["87"];
    codes.extend(["00"; 32]);
    codes.extend(["01"; 7]);
    codes.push("87");
    codes.extend(["01"; 25]);
    codes.extend(["02"; 14]);
    assert_eq!(client.hears(), [format!("SUBACK 7 {}", codes.join(" "))]);
    assert!(client.front.requests.is_none());

    client.unsubscribes(8, &["a"; 40]);
    assert_eq!(client.effects().len(), 2);
    for (first, count) in [(0, 32), (32, 8)] {
        assert!(client.hears().is_empty());
        client.told(ToFront::Unsubscribed {
            part: RequestPart {
                packet_id: 8,
                first,
            },
            existed: vec![first == 0; count],
        });
    }
    let codes = [["00"; 32].join(" "), ["11"; 8].join(" ")];
    assert_eq!(client.hears(), [format!("UNSUBACK 8 {}", codes.join(" "))]);
}

#[test]
fn every_result_has_its_code() {
    // v5 [MQTT-3.9.3-2]
    let mut client = Client::attached(V5);
    client.subscribes(1, &[], &[("a", QOS1); 7]);
    client.told(subscribed(
        1,
        &[
            granted(QoS::AtMostOnce),
            granted(QoS::AtLeastOnce),
            granted(QoS::ExactlyOnce),
            SubscribeResult::QuotaExceeded,
            SubscribeResult::NotAuthorized,
            SubscribeResult::Unsupported,
            SubscribeResult::Failed,
        ],
    ));
    assert_eq!(client.hears(), ["SUBACK 1 00 01 02 97 87 83 80"]);
}

#[test]
fn options_and_identifier_of_v5() {
    let mut client = Client::attached(V5);
    let options = SubscriptionOptions {
        qos: WireQos::AtLeastOnce,
        no_local: true,
        retain_as_published: true,
        retain_handling: RetainHandling::SendIfNew,
    };
    let other = SubscriptionOptions {
        retain_handling: RetainHandling::DoNotSend,
        ..QOS0
    };
    let id = Property::SubscriptionIdentifier(SubscriptionId::new(300).unwrap());
    client.subscribes(1, &[id], &[("a", options), ("b", other)]);
    assert_eq!(
        client.effects(),
        [
            "volatile: subscribe 1 [a q1 nl=true rap=true SendIfNew id=300] [b q0 nl=false rap=false DoNotSend id=300]"
        ]
    );
}

#[test]
fn several_subscribes_may_be_under_way() {
    let mut client = Client::attached(V5);
    for id in 1..=3 {
        client.subscribes(id, &[], &[("a", QOS0)]);
    }
    client.unsubscribes(4, &["a"]);
    assert_eq!(client.effects().len(), 4);
    client.told(subscribed(2, &[granted(QoS::AtMostOnce)]));
    client.told(subscribed(1, &[SubscribeResult::Failed]));
    client.told(ToFront::Unsubscribed {
        part: RequestPart::whole(4),
        existed: vec![true],
    });
    client.told(subscribed(3, &[granted(QoS::AtMostOnce)]));
    assert_eq!(
        client.hears(),
        ["SUBACK 2 00", "SUBACK 1 80", "UNSUBACK 4 00", "SUBACK 3 00"]
    );
}

#[test]
fn a_packet_id_in_use_is_refused() {
    // v5 [MQTT-3.9.3-2], v5 [MQTT-3.11.3-2]
    let mut client = Client::attached(V5);
    client.subscribes(1, &[], &[("a", QOS0)]);
    client.effects();
    client.subscribes(1, &[], &[("b", QOS0), ("c", QOS0)]);
    client.unsubscribes(1, &["a"]);
    assert!(client.effects().is_empty());
    assert_eq!(client.hears(), ["SUBACK 1 91 91", "UNSUBACK 1 91"]);
    let mut client = Client::attached(V311);
    client.subscribes(1, &[], &[("a", QOS0)]);
    client.subscribes(1, &[], &[("b", QOS0)]);
    assert_eq!(client.effects().last().unwrap(), "close Fault(130)");
}

#[test]
fn no_local_on_a_shared_subscription_is_a_fault() {
    // v5 [MQTT-3.8.3-4]
    let mut client = Client::attached(V5);
    client.gives(b"\x82\x10\x00\x01\x00\x00\x0A$share/g/a\x04");
    assert!(client.hears()[0].starts_with("DISCONNECT 0x82"));
    assert!(
        !client
            .effects()
            .iter()
            .any(|line| line.contains("subscribe"))
    );
}

#[test]
fn a_subscription_identifier_of_zero_is_a_fault() {
    let mut client = Client::attached(V5);
    client.gives(b"\x82\x09\x00\x01\x02\x0B\x00\x00\x01a\x00");
    assert!(client.hears()[0].starts_with("DISCONNECT 0x82"));
}

#[test]
fn a_lower_maximum_qos_lowers_subscriptions() {
    // v5 [MQTT-3.2.2-10], v3 [MQTT-3.8.4-6], v5 [MQTT-3.8.4-8]
    for version in [V311, V5] {
        let mut client = without(|config| config.maximum_qos = QoS::AtLeastOnce, version);
        client.subscribes(1, &[], &[("a", QOS0), ("b", QOS1), ("c", QOS2)]);
        let sent = client.effects().remove(0);
        assert!(sent.contains("[a q0") && sent.contains("[b q1") && sent.contains("[c q1"));
    }
}

#[test]
fn wildcards_that_are_switched_off() {
    // v3 [MQTT-3.8.3-2]
    let mut client = without(|config| config.wildcards = Feature::Off, V311);
    client.subscribes(1, &[], &[("a/#", QOS0), ("b", QOS1), ("+", QOS0)]);
    assert_eq!(
        client.effects(),
        ["volatile: subscribe 1 [b q1 nl=false rap=false Send]"]
    );
    client.told(subscribed(1, &[granted(QoS::AtLeastOnce)]));
    assert_eq!(client.hears(), ["SUBACK 1 80 01 80"]);
    client.subscribes(2, &[], &[("#", QOS0)]);
    assert!(client.effects().is_empty());
    assert_eq!(client.hears(), ["SUBACK 2 80"]);
    let mut client = without(|config| config.wildcards = Feature::Off, V5);
    client.subscribes(1, &[], &[("b", QOS0), ("a/#", QOS0)]);
    assert!(client.hears()[0].starts_with("DISCONNECT 0xA2"));
}

#[test]
fn other_kinds_that_are_switched_off() {
    let off = |config: &mut FrontConfig| {
        config.shared_subscriptions = Feature::Off;
        config.subscription_identifiers = Feature::Off;
    };
    let mut client = without(off, V5);
    client.subscribes(1, &[], &[("$share/g/a", QOS0)]);
    assert!(client.hears()[0].starts_with("DISCONNECT 0x9E"));
    let mut client = without(off, V311);
    client.subscribes(1, &[], &[("$share/g/a", QOS0)]);
    assert_eq!(client.hears(), ["SUBACK 1 80"]);
    let mut client = without(off, V5);
    let id = Property::SubscriptionIdentifier(SubscriptionId::new(1).unwrap());
    client.subscribes(1, &[id], &[("a", QOS0)]);
    assert!(client.hears()[0].starts_with("DISCONNECT 0xA1"));
}

#[test]
fn filters_beyond_the_limit_get_quota_exceeded() {
    let mut client = without(|config| config.filters_max = 2, V5);
    client.subscribes(
        1,
        &[],
        &[("a", QOS0), ("b", QOS0), ("c", QOS0), ("d", QOS0)],
    );
    client.told(subscribed(
        1,
        &[granted(QoS::AtMostOnce), granted(QoS::AtLeastOnce)],
    ));
    assert_eq!(client.hears(), ["SUBACK 1 00 01 97 97"]);
}

#[test]
fn unsuback_comes_also_when_nothing_was_deleted() {
    // v3 [MQTT-3.10.4-4], v3 [MQTT-3.10.4-5], v3 [MQTT-3.10.4-6]; v5 [MQTT-3.10.4-4], v5 [MQTT-3.10.4-5],
    // v5 [MQTT-3.10.4-6], v5 [MQTT-3.11.3-1], v5 [MQTT-3.11.3-2]
    for (version, expected) in [(V311, "UNSUBACK 9"), (V5, "UNSUBACK 9 00 11 00")] {
        let mut client = Client::attached(version);
        client.unsubscribes(9, &["a/+", "b", "$share/g/c"]);
        assert_eq!(
            client.effects(),
            ["volatile: unsubscribe 9 [(None, \"a/+\"), (None, \"b\"), (Some(\"g\"), \"c\")]"]
        );
        client.told(ToFront::Unsubscribed {
            part: RequestPart::whole(9),
            existed: vec![true, false, true],
        });
        assert_eq!(client.hears(), [expected]);
    }
}

#[test]
fn an_answer_that_is_too_large_for_the_client_ends_the_connection() {
    // v5 [MQTT-3.1.2-24]
    let mut client = Client::attached_with(
        V5,
        |_| {},
        &Hello {
            properties: &[Property::MaximumPacketSize(
                std::num::NonZeroU32::new(35).unwrap(),
            )],
            ..Hello::default()
        },
    );
    client.subscribes(1, &[], &[("a", QOS0); 31]);
    client.told(subscribed(1, &[granted(QoS::AtMostOnce); 31]));
    assert_eq!(
        client.hears(),
        ["DISCONNECT 0x95"],
        "without its Reason String"
    );
}

#[test]
fn requests_without_answer_are_bounded() {
    let mut client = Client::attached(V311);
    for id in 1..=300 {
        client.subscribes(id, &[], &[("a", QOS0)]);
    }
    assert_eq!(client.effects().len(), 256);
    assert!(!client.front.wants_read());
    client.told(subscribed(1, &[granted(QoS::AtMostOnce)]));
    assert_eq!(client.effects().len(), 1, "the next one is taken");
}

#[test]
fn requests_that_are_answered_hold_no_memory() {
    let mut client = Client::attached(V311);
    client.subscribes(1, &[], &[("a", QOS0)]);
    client.subscribes(2, &[], &[("b", QOS0)]);
    client.told(subscribed(1, &[granted(QoS::AtMostOnce)]));
    assert!(client.front.requests.is_some(), "one waits");
    client.told(subscribed(2, &[granted(QoS::AtMostOnce)]));
    assert!(client.front.requests.is_none());

    client.unsubscribes(3, &["a"]);
    assert!(client.front.requests.is_some());
    client.told(ToFront::Unsubscribed {
        part: RequestPart::whole(3),
        existed: vec![true],
    });
    assert!(client.front.requests.is_none());
}

fn both_answered(client: &mut Client) {
    client.told(subscribed(1, &[granted(QoS::AtLeastOnce)]));
    client.told(ToFront::Unsubscribed {
        part: RequestPart::whole(2),
        existed: vec![true],
    });
}

/// `SUBSCRIBE`, `UNSUBSCRIBE` and a PUBLISH in one read.
fn publishes_behind_requests(client: &mut Client, qos: u8) {
    let mut bytes = client.encoded(&Packet::Subscribe(Subscribe {
        packet_id: packet_id(1),
        properties: Properties::EMPTY,
        subscriptions: filter_a().subscriptions(),
    }));
    let mut filters = TopicFiltersBuilder::new();
    filters.push(TopicFilter::new("b").unwrap());
    bytes.extend(client.encoded(&Packet::Unsubscribe(Unsubscribe {
        packet_id: packet_id(2),
        properties: Properties::EMPTY,
        filters: filters.filters(),
    })));
    bytes.extend(client.encoded(&Packet::Publish(publish("a", qos, 7))));
    bytes.extend(client.encoded(&Packet::Pingreq(Pingreq)));
    client.gives(&bytes);
}

fn filter_a() -> SubscriptionsBuilder {
    let mut filters = SubscriptionsBuilder::new();
    filters.push(TopicFilter::new("a").unwrap(), QOS1);
    filters
}

#[test]
fn a_publish_does_not_overtake_the_subscribe_and_the_unsubscribe_before_it() {
    // v3 [MQTT-3.10.4-2], v5 [MQTT-3.10.4-2]; M38
    for version in [V311, V5] {
        for (qos, durable) in [(0, false), (1, false), (2, false), (1, true), (2, true)] {
            let mut client = match durable {
                true => Client::durable(version),
                false => Client::attached(version),
            };
            publishes_behind_requests(&mut client, qos);
            assert_eq!(client.effects().len(), 2, "the requests");
            assert!(client.hears().is_empty(), "nothing passes the PUBLISH");
            assert!(!client.front.wants_read());
            client.told(subscribed(1, &[granted(QoS::AtLeastOnce)]));
            assert!(client.effects().is_empty(), "one is not answered");
            assert!(!client.front.wants_read());
            client.told(ToFront::Unsubscribed {
                part: RequestPart::whole(2),
                existed: vec![true],
            });
            assert!(!client.effects().is_empty(), "published");
            let heard = client.hears();
            assert!(heard[0].starts_with("SUBACK 1"), "{heard:?}");
            assert!(heard[1].starts_with("UNSUBACK 2"), "{heard:?}");
            assert_eq!(heard.last().unwrap(), "PINGRESP");
            assert!(client.front.wants_read() && client.front.requests.is_none());
        }
    }
}

#[test]
fn what_is_no_publish_passes_requests() {
    let mut client = Client::attached(V5);
    client.gets_run(0, 1);
    client.hears();
    client.subscribes(1, &[], &[("a", QOS0)]);
    client.pubacks(1);
    client.says(&Packet::Pingreq(Pingreq));
    let effects = client.effects();
    assert!(
        effects.iter().any(|it| it.contains("outcome")),
        "{effects:?}"
    );
    assert_eq!(client.hears(), ["PINGRESP"]);
    client.disconnects(crate::codec::ReasonCode::NORMAL_DISCONNECTION, &[]);
    assert_eq!(client.effects().last().unwrap(), "close Disconnect");
}

#[test]
fn a_publish_waits_five_seconds_for_a_home_that_does_not_answer() {
    // M49
    let hello = Hello {
        keep_alive_seconds: 1,
        ..Hello::default()
    };
    for version in [V311, V5] {
        let mut client = Client::attached_with(version, |_| {}, &hello);
        publishes_behind_requests(&mut client, 0);
        client.effects();
        client.passes(4_999);
        assert!(client.effects().is_empty(), "neither published nor cut");
        client.passes(1);
        assert!(client.front.wants_read());
        client.gives(&[]);
        assert_eq!(client.effects().len(), 1, "published");
        // Those behind it do not wait for what says nothing.
        client.publishes("a", 0, 0);
        assert_eq!(client.effects().len(), 1);
        both_answered(&mut client);
        client.subscribes(3, &[], &[("c", QOS0)]);
        client.effects();
        client.publishes("c", 0, 0);
        assert!(client.effects().is_empty(), "the next one waits again");
    }
}

#[test]
fn a_publish_that_waits_is_taken_before_another_connection_takes_over() {
    let mut client = Client::attached(V5);
    publishes_behind_requests(&mut client, 0);
    client.effects();
    client.front.handle_last_read();
    assert!(client.front.wants_read());
    client.gives(&[]);
    assert_eq!(client.effects().len(), 1, "published");
}
