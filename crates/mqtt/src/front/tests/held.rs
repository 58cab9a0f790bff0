//! The window towards the client, and what waits for room in it or in the output.

use std::num::NonZeroU16;

use courser_contract::{QoS, ToFront, WallMs};

use super::support::{Client, Hello, V5, V311, to_group, to_session, view};
use crate::codec::{Packet, Pingreq, Property};
use crate::front::Output;

fn with_window(window: u16) -> Client {
    Client::attached_with(
        V5,
        |_| {},
        &Hello {
            properties: &[Property::ReceiveMaximum(NonZeroU16::new(window).unwrap())],
            ..Hello::default()
        },
    )
}

fn ids(lines: &[String]) -> Vec<&str> {
    lines
        .iter()
        .filter_map(|line| line.split("id=").nth(1)?.split(' ').next())
        .collect()
}

#[test]
fn receive_maximum_holds_whatever_home_and_groups_give() {
    // v5 [MQTT-3.3.4-9], v5 [MQTT-4.9.0-1], v5 [MQTT-4.9.0-2], M31
    let mut client = with_window(3);
    client.gets_run(0, 1);
    for seq in [10, 20] {
        client.gets_stored(
            view("s", QoS::AtLeastOnce, b"m"),
            &to_group(seq, QoS::AtLeastOnce),
        );
    }
    client.gets_run(2, 2);
    assert_eq!(ids(&client.hears()), ["1", "2", "32768"]);
    // v5 [MQTT-3.3.4-10], v5 [MQTT-4.9.0-3]: other packets go on
    client.says(&Packet::Pingreq(Pingreq));
    client.publishes("t", 1, 1);
    assert_eq!(client.hears(), ["PINGRESP", "PUBACK 1"]);
    client.effects();
    // v5 [MQTT-4.3.2-3]: room comes with PUBACK; the session's own goes first
    client.pubacks(2);
    assert_eq!(client.effects(), ["volatile: outcome 1..=1 Done"]);
    assert_eq!(ids(&client.hears()), ["3"]);
    client.pubacks(32_768);
    assert_eq!(client.effects(), ["4: group 77 outcome 10..=10 Done"]);
    assert_eq!(ids(&client.hears()), ["32768"], "the id is free again");
}

#[test]
fn qos_2_counts_until_pubcomp() {
    // v5 [MQTT-4.3.3-3], v5 [MQTT-4.3.3-5]
    let mut client = with_window(1);
    client.gets_stored(
        view("t", QoS::ExactlyOnce, b"m"),
        &to_session(0, QoS::ExactlyOnce),
    );
    client.gets_run(1, 1);
    client.hears();
    client.pubrecs(1);
    assert!(client.hears().is_empty());
    client.told(courser_contract::ToFront::Release {
        source: courser_contract::Source::Session,
        seq: courser_contract::Seq(0),
        packet_id: None,
    });
    assert_eq!(client.hears(), ["PUBREL 1"]);
    client.pubcomps(1);
    assert_eq!(ids(&client.hears()), ["2"]);
}

#[test]
fn a_shared_message_not_sent_within_50_ms_goes_back() {
    // M31
    let mut client = with_window(1);
    client.gets_run(0, 0);
    for seq in [10, 11, 13] {
        client.gets_stored(
            view("s", QoS::AtLeastOnce, b"m"),
            &to_group(seq, QoS::AtLeastOnce),
        );
    }
    client.passes(49);
    assert!(client.effects().is_empty());
    client.passes(1);
    assert_eq!(
        client.effects(),
        [
            "4: group 77 outcome 10..=11 Returned",
            "4: group 77 outcome 13..=13 Returned"
        ]
    );
    client.pubacks(1);
    assert_eq!(ids(&client.hears()), ["1"], "nothing of it is sent later");
}

#[test]
fn m23_a_client_that_does_not_read_holds_references() {
    // At most 64 KiB of its own, in order when it reads again
    for version in [V311, V5] {
        let mut client = Client::attached(version);
        let payload = [b'x'; 1000];
        for seq in 0..200 {
            client.gets_stored(
                view("t", QoS::AtLeastOnce, &payload),
                &to_session(seq, QoS::AtLeastOnce),
            );
        }
        let len = client.front.output().len();
        assert!(
            (64 * 1024..66 * 1024).contains(&len),
            "{len} bytes in the output"
        );
        let mut heard = Vec::new();
        while !client.front.output().is_empty() {
            heard.extend(client.hears());
            client
                .front
                .handle_output_room(client.now, &mut client.shell);
        }
        let expected: Vec<String> = (1..=200).map(|id| id.to_string()).collect();
        assert_eq!(ids(&heard), expected);
        assert!(client.effects().is_empty());
        const { assert!(Output::LOW_BYTES < 64 * 1024) };
    }
}

#[test]
fn what_a_group_has_stored_is_not_dropped_at_qos_0_m35() {
    for version in [V311, V5] {
        let mut client = Client::attached_with(
            version,
            |config| config.output_bytes_max = 70 * 1024,
            &Hello::default(),
        );
        let payload = [b'x'; 10 * 1024];
        let message = view("t", QoS::AtLeastOnce, &payload);
        for seq in 0..9 {
            client.gets_stored(message, &to_group(seq, QoS::AtMostOnce));
        }
        assert_eq!(client.effects(), [""; 0], "nothing is written yet");
        assert_eq!(client.hears().len(), 7, "what the output has room for");
        client
            .front
            .handle_output_room(client.now, &mut client.shell);
        assert_eq!(client.effects(), ["4: group 77 outcome 0..=8 Done"]);
        assert_eq!(client.hears().len(), 2);
    }
}

#[test]
fn what_a_group_has_stored_goes_back_at_qos_0_m31() {
    let mut client = Client::attached(V5);
    let payload = [b'x'; 65 * 1024];
    client.gets(
        view("t", QoS::AtMostOnce, &payload),
        &super::support::to_front(QoS::AtMostOnce),
    );
    client.gets_stored(
        view("s", QoS::AtLeastOnce, b"m"),
        &to_group(10, QoS::AtMostOnce),
    );
    client.passes(50);
    assert_eq!(client.effects(), ["4: group 77 outcome 10..=10 Returned"]);
    assert_eq!(client.hears().len(), 1);
}

/// M34: the home waits with more retained messages of QoS 0 until these are written.
#[test]
fn a_page_of_retained_messages_is_taken_once_it_is_written() {
    let page_taken = |client: &mut Client| {
        let told = client.effects();
        told.iter().filter(|it| it.contains("PageTaken")).count()
    };
    let mut client = Client::attached(V5);
    client.told(ToFront::RetainedPage);
    assert_eq!(page_taken(&mut client), 1, "at once: nothing waits");
    let payload = [b'x'; 40_000];
    client.gets(
        view("t", QoS::AtMostOnce, &payload),
        &super::support::to_front(QoS::AtMostOnce),
    );
    client.told(ToFront::RetainedPage);
    assert_eq!(page_taken(&mut client), 0, "the output has it");
    client.hears();
    for expected in [1, 0] {
        client
            .front
            .handle_output_room(client.now, &mut client.shell);
        assert_eq!(page_taken(&mut client), expected);
    }
}

#[test]
fn qos_0_may_pass_what_is_held() {
    let mut client = with_window(1);
    client.gets_run(0, 1);
    client.gets(
        view("t", QoS::AtMostOnce, b"fast"),
        &super::support::to_front(QoS::AtMostOnce),
    );
    assert_eq!(
        client.hears(),
        ["PUBLISH \"t\" q1 id=1 '0'", "PUBLISH \"t\" q0 'fast'"]
    );
}

#[test]
fn the_lifetime_is_counted_when_a_held_message_leaves() {
    // v5 [MQTT-3.3.2-6], v5 [MQTT-3.3.2-5]
    let mut client = with_window(1);
    client.gets_run(0, 0);
    for (seq, ms) in [(1, 5_000), (2, 2_000), (3, 9_000)] {
        let mut message = view("t", QoS::AtLeastOnce, b"m");
        message.expires_at = Some(WallMs(client.now.wall.0 + ms));
        client.gets_stored(message, &to_session(seq, QoS::AtLeastOnce));
    }
    client.hears();
    client.passes(3_000);
    client.pubacks(1);
    assert_eq!(client.hears(), ["PUBLISH \"t\" q1 id=2 expiry=2 'm'"]);
    client.effects();
    client.pubacks(2);
    assert_eq!(
        client.effects(),
        [
            "volatile: outcome 1..=1 Done",
            "dropped Expired 1",
            "volatile: outcome 2..=2 Skipped"
        ]
    );
    assert_eq!(client.hears(), ["PUBLISH \"t\" q1 id=4 expiry=6 'm'"]);
}
