//! Keep-alive and PINGREQ.

use std::num::NonZeroU16;

use courser_contract::{Routed, Settled, Tick, Ticket};

use super::support::{Client, Hello, V5, V311, publish};
use crate::codec::{Packet, Pingreq, ProtocolVersion};
use crate::front::Reading;

fn with_keep_alive(version: ProtocolVersion, seconds: u16) -> Client {
    let hello = Hello {
        keep_alive_seconds: seconds,
        ..Hello::default()
    };
    Client::attached_with(version, |_| {}, &hello)
}

#[test]
fn pingreq_is_answered() {
    // v3 [MQTT-3.12.4-1], v5 [MQTT-3.12.4-1]
    for version in [V311, V5] {
        let mut client = Client::attached(version);
        client.says(&Packet::Pingreq(Pingreq));
        assert_eq!(client.hears(), ["PINGRESP"]);
        assert!(client.effects().is_empty());
    }
}

#[test]
fn a_client_silent_for_one_and_a_half_intervals_is_cut() {
    // v3 [MQTT-3.1.2-24], v5 [MQTT-3.1.2-22]
    for (version, heard) in [(V311, &[][..]), (V5, &["DISCONNECT 0x8D"])] {
        let mut client = with_keep_alive(version, 10);
        client.passes(10_000);
        client.says(&Packet::Pingreq(Pingreq));
        client.hears();
        client.passes(14_999);
        assert!(client.effects().is_empty());
        client.passes(1);
        assert_eq!(client.hears(), heard);
        assert_eq!(
            client.effects(),
            [
                "volatile: detach Lost expiry=None epoch=7 claim=c",
                "close KeepAlive"
            ]
        );
    }
}

#[test]
fn each_packet_counts_and_no_timer_is_needed_for_it() {
    let mut client = with_keep_alive(V311, 10);
    let due = client.front.poll_timeout().unwrap();
    client.passes(6_000);
    client.says(&Packet::Publish(publish("t", 0, 0)));
    assert_eq!(client.front.poll_timeout(), Some(Tick(due.0 + 6_000)));
    // A timer that was armed before fires early and does nothing.
    client.front.handle_timeout(client.now, &mut client.shell);
    assert_eq!(client.effects().len(), 1);
}

#[test]
fn a_part_of_a_packet_is_no_life_but_progress_of_a_large_one_is() {
    let mut client = with_keep_alive(V311, 10);
    client.passes(10_000);
    client.gives(&[0x30]);
    client.passes(5_000);
    assert_eq!(client.effects().last().unwrap(), "close KeepAlive");

    let mut client = with_keep_alive(V311, 10);
    let mut large = publish("t", 0, 0);
    let payload = vec![0; 100_000];
    large.payload = &payload;
    for part in client.encoded(&Packet::Publish(large)).chunks(20_000) {
        client.passes(12_000);
        client.gives(part);
    }
    assert_eq!(client.effects().len(), 1, "published");
}

#[test]
fn a_large_packet_must_come_on() {
    // v3 [MQTT-3.1.2-24], v5 [MQTT-3.1.2-22]: 1,000 bytes more of it in one and a half times the keep-alive.
    const LEAST: usize = 1000;
    let mut large = publish("t", 0, 0);
    let payload = vec![0; 5 * LEAST];
    large.payload = &payload;
    for version in [V311, V5] {
        let mut client = with_keep_alive(version, 1);
        let bytes = client.encoded(&Packet::Publish(large));
        client.gives(&bytes[..LEAST + LEAST / 2]);
        for byte in bytes[LEAST + LEAST / 2..].chunks(1).take(2) {
            client.passes(1_000);
            client.gives(byte);
        }
        assert_eq!(client.effects().last().unwrap(), "close KeepAlive");

        let mut client = with_keep_alive(version, 1);
        for half in bytes.chunks(LEAST / 2) {
            client.gives(half);
            client.passes(700);
        }
        assert_eq!(client.effects().len(), 1, "published");
    }
}

#[test]
fn what_came_of_the_next_packet_behind_one_that_counts_does_not_count_again() {
    let mut large = publish("t", 0, 0);
    let payload = [0; 5_000];
    large.payload = &payload;
    let mut client = with_keep_alive(V5, 10);
    let mut bytes = client.encoded(&Packet::Pingreq(Pingreq));
    bytes.extend(client.encoded(&Packet::Publish(large)));
    client.gives(&bytes[..2_000]);
    client.passes(14_000);
    client.gives(&bytes[2_000..2_999]);
    client.passes(1_000);
    assert_eq!(client.effects().last().unwrap(), "close KeepAlive");
}

#[test]
fn no_keep_alive_is_no_timer() {
    let mut client = with_keep_alive(V5, 0);
    assert_eq!(client.front.poll_timeout(), None);
    client.passes(1_000_000_000);
    assert!(client.effects().is_empty());
}

#[test]
fn the_servers_keep_alive_holds_for_v5_only() {
    // v5 [MQTT-3.2.2-22]; 3.1.1 clients cannot be told
    for (version, closes) in [(V5, true), (V311, false)] {
        let mut client = Client::attached_with(
            version,
            |config| config.keep_alive_max = NonZeroU16::new(10),
            &Hello {
                keep_alive_seconds: 100,
                ..Hello::default()
            },
        );
        client.passes(15_000);
        assert_eq!(!client.effects().is_empty(), closes);
    }
}

#[test]
fn it_stands_still_while_the_shell_does_not_read() {
    // M49
    let mut client = with_keep_alive(V5, 10);
    client.front.handle_reading(client.now, Reading::Paused);
    client.passes(100_000);
    assert!(client.effects().is_empty());
    client.front.handle_reading(client.now, Reading::On);
    client.passes(14_999);
    assert!(client.effects().is_empty());
    client.passes(1);
    assert_eq!(client.effects().last().unwrap(), "close KeepAlive");
}

#[test]
fn it_does_not_cut_a_client_that_is_not_read_because_a_publish_waits() {
    let mut client = Client::attached_with(
        V311,
        |config| config.receive_maximum = NonZeroU16::MIN,
        &Hello {
            keep_alive_seconds: 1,
            ..Hello::default()
        },
    );
    client.shell.routed.push_back(Routed::Waits);
    client.publishes("t", 1, 1);
    client.publishes("t", 1, 2);
    assert!(!client.front.wants_read());
    client.effects();
    client.passes(9_000);
    assert!(client.effects().is_empty());
    client
        .front
        .handle_settled(client.now, Ticket(0), Settled::Ok, &mut client.shell);
    client.gives(&[]);
    assert_eq!(client.hears(), ["PUBACK 1", "PUBACK 2"]);
}
