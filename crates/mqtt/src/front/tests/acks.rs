//! Acknowledgements of the client and the outcomes that they become.

use courser_contract::{QoS, RequestPart, Seq, Source, ToFront};

use super::support::{
    Client, DURABLE, GROUP, Hello, V5, V311, attached, packet_id, to_group, to_session, view,
};
use crate::codec::{Packet, Property, Puback, Pubcomp, Pubrec, ReasonCode};

fn release(source: Source, seq: u64, packet_id: Option<u16>) -> ToFront {
    ToFront::Release {
        source,
        seq: Seq(seq),
        packet_id,
    }
}

fn qos2(client: &mut Client, seq: u64) {
    client.gets_stored(
        view("t", QoS::ExactlyOnce, b"m"),
        &to_session(seq, QoS::ExactlyOnce),
    );
}

#[test]
fn acknowledgements_of_a_read_are_told_as_ranges() {
    // M18; v3 [MQTT-4.3.2-1], v5 [MQTT-4.3.2-1]
    for version in [V311, V5] {
        let mut client = Client::attached(version);
        client.gets_run(0, 9);
        client.hears();
        let bytes: Vec<u8> = [1, 2, 3, 5, 6, 9, 4]
            .iter()
            .flat_map(|&id| client.encoded(&Packet::Puback(Puback::new(packet_id(id)))))
            .collect();
        client.gives(&bytes);
        assert_eq!(
            client.effects(),
            [
                "volatile: outcome 0..=2 Done",
                "volatile: outcome 4..=5 Done",
                "volatile: outcome 8..=8 Done",
                "volatile: outcome 3..=3 Done"
            ]
        );
    }
}

#[test]
fn an_acknowledgement_counts_once() {
    let mut client = Client::attached(V5);
    client.gets_run(0, 0);
    client.pubacks(1);
    client.effects();
    client.pubacks(1);
    client.pubacks(2);
    client.pubacks(40_000);
    client.pubcomps(1);
    client.gets_run(1, 1);
    client.pubcomps(2);
    assert!(client.effects().is_empty());
    // the packet ids of the stream come round
    client.pubacks(2);
    client.gets_run(32_767, 32_767);
    assert_eq!(
        client.hears().last().unwrap(),
        "PUBLISH \"t\" q1 id=1 '32767'"
    );
    client.effects();
    client.pubacks(1);
    assert_eq!(client.effects(), ["volatile: outcome 32767..=32767 Done"]);
}

#[test]
fn pubrel_leaves_only_when_received_is_stored() {
    // M32; v3 [MQTT-4.3.3-1]; v5 [MQTT-4.3.3-4], v5 [MQTT-4.3.3-1]
    for version in [V311, V5] {
        let mut client = Client::attached(version);
        qos2(&mut client, 0);
        client.hears();
        client.pubrecs(1);
        client.pubrecs(1);
        assert_eq!(client.effects(), ["volatile: outcome 0..=0 Received"]);
        assert!(client.hears().is_empty());
        client.told(release(Source::Session, 0, None));
        assert_eq!(client.hears(), ["PUBREL 1"]);
        // v5 [MQTT-4.3.3-6]: PUBREC again gets PUBREL again, never the PUBLISH
        client.pubrecs(1);
        assert_eq!(client.hears(), ["PUBREL 1"]);
        client.pubcomps(1);
        client.pubcomps(1);
        assert_eq!(client.effects(), ["volatile: outcome 0..=0 Done"]);
    }
}

#[test]
fn errors_of_the_client_settle_the_message() {
    // v5 [MQTT-4.4.0-2], v5 [MQTT-4.8.2-6]
    let mut client = Client::attached(V5);
    client.gets_run(0, 0);
    qos2(&mut client, 1);
    client.gets_stored(
        view("s", QoS::AtLeastOnce, b"m"),
        &to_group(8, QoS::AtLeastOnce),
    );
    client.says(&Packet::Puback(Puback::with_reason(
        packet_id(1),
        ReasonCode::QuotaExceeded,
    )));
    client.says(&Packet::Pubrec(Pubrec::with_reason(
        packet_id(2),
        ReasonCode::UnspecifiedError,
    )));
    client.says(&Packet::Puback(Puback::with_reason(
        packet_id(32_768),
        ReasonCode::NotAuthorized,
    )));
    assert_eq!(
        client.effects(),
        [
            "volatile: outcome 0..=0 Rejected",
            "volatile: outcome 1..=1 Rejected",
            "4: group 77 outcome 8..=8 Rejected"
        ]
    );
    client.hears();
    client.says(&Packet::Pubrec(Pubrec::new(packet_id(2))));
    assert_eq!(client.hears(), ["PUBREL 2 0x92"], "no longer under way");
}

#[test]
fn no_matching_subscribers_is_no_error() {
    let mut client = Client::attached(V5);
    client.gets_run(0, 0);
    client.says(&Packet::Puback(Puback::with_reason(
        packet_id(1),
        ReasonCode::NoMatchingSubscribers,
    )));
    assert_eq!(client.effects(), ["volatile: outcome 0..=0 Done"]);
}

#[test]
fn pubrec_for_an_unknown_packet_id() {
    // v5 [MQTT-3.6.2-1]
    for (version, answer) in [(V311, "PUBREL 9"), (V5, "PUBREL 9 0x92")] {
        let mut client = Client::attached(version);
        client.pubrecs(9);
        assert_eq!(client.hears(), [answer]);
        assert!(client.effects().is_empty());
    }
}

#[test]
fn what_was_owed_before_a_reconnect_is_finished_with_its_packet_id() {
    // M30; v3 [MQTT-4.4.0-1], v5 [MQTT-4.4.0-1], v5 [MQTT-4.8.2-4]
    for version in [V311, V5] {
        let mut client = Client::durable(version);
        client.told(release(Source::Session, 40_000, None));
        client.told(release(Source::Group(GROUP), 8, Some(32_770)));
        assert_eq!(client.hears(), ["PUBREL 7234", "PUBREL 32770"]);
        client.pubcomps(7234);
        client.says(&Packet::Pubcomp(Pubcomp::with_reason(
            packet_id(32_770),
            if version == V5 {
                ReasonCode::PacketIdentifierNotFound
            } else {
                ReasonCode::Success
            },
        )));
        assert_eq!(
            client.effects(),
            [
                "3: outcome 40000..=40000 Done",
                "4: group 77 outcome 8..=8 Done"
            ]
        );
    }
}

#[test]
fn packet_ids_that_are_owed_are_not_given_to_others() {
    // v3 [MQTT-2.3.1-4], v5 [MQTT-2.2.1-4]; of epoch 0 ids of groups begin at 32,768
    let mut client = Client::new(V5, |_| {});
    client.connects(&Hello {
        clean_start: false,
        properties: &[Property::SessionExpiryInterval(100)],
        ..Hello::default()
    });
    client.told(attached(DURABLE, 0, true));
    client.hears();
    client.told(release(Source::Group(GROUP), 8, Some(32_769)));
    for seq in 20..23 {
        client.gets_stored(
            view("s", QoS::AtLeastOnce, b"m"),
            &to_group(seq, QoS::AtLeastOnce),
        );
    }
    assert_eq!(
        client.hears(),
        [
            "PUBREL 32769",
            "PUBLISH \"s\" q1 id=32768 'm'",
            "PUBLISH \"s\" q1 id=32770 'm'",
            "PUBLISH \"s\" q1 id=32771 'm'"
        ]
    );
}

#[test]
fn deliveries_that_have_begun_are_finished_after_unsubscribing() {
    // v3 [MQTT-3.10.4-3], v5 [MQTT-3.10.4-3]
    for version in [V311, V5] {
        let mut client = Client::attached(version);
        client.gets_run(0, 0);
        qos2(&mut client, 1);
        client.unsubscribes(1, &["t"]);
        client.told(ToFront::Unsubscribed {
            part: RequestPart::whole(1),
            existed: vec![true],
        });
        client.effects();
        client.pubacks(1);
        client.pubrecs(2);
        client.told(release(Source::Session, 1, None));
        client.pubcomps(2);
        assert_eq!(client.hears().last().unwrap(), "PUBREL 2");
        assert_eq!(
            client.effects(),
            [
                "volatile: outcome 0..=0 Done",
                "volatile: outcome 1..=1 Received",
                "volatile: outcome 1..=1 Done"
            ]
        );
    }
}

#[test]
fn acknowledgements_that_end_a_connection_are_told_before_it_is_let_go() {
    let mut client = Client::attached(V5);
    client.gets_run(0, 1);
    let mut bytes = client.encoded(&Packet::Puback(Puback::new(packet_id(1))));
    bytes.extend([0xE0, 0]);
    client.gives(&bytes);
    assert_eq!(
        client.effects()[..2],
        [
            "volatile: outcome 0..=0 Done",
            "volatile: detach Disconnect expiry=None epoch=7 claim=c"
        ]
    );
}
