//! Clients that do not read for a while, and what is then written to them.

use std::time::{Duration, Instant};

use crate::support::accounts::publishes;
use crate::support::{Client, broker, counter, publish, text};

/// More than the kernel takes for a socket that nobody reads: 4 MiB on the broker's side by `net.ipv4.tcp_wmem`.
const BYTES: usize = 10 * 1024 * 1024;
/// Within the broker's outbound window: these clients acknowledge nothing.
const MESSAGES: u32 = 900;

/// Publishes in windows that are acknowledged, so that each has gone to all subscribers before the next.
fn publish_all(publisher: &mut Client) {
    for window in (0..MESSAGES).collect::<Vec<_>>().chunks(50) {
        for &number in window {
            let mut payload = vec![b'x'; BYTES / MESSAGES as usize];
            payload[..4].copy_from_slice(&number.to_be_bytes());
            publisher.send_raw(&publish("flood", 1, number as u16 + 1, &payload));
        }
        for _ in window {
            assert_eq!(publisher.receive().first, 0x40);
        }
    }
}

#[test]
fn m23_a_client_that_reads_again_gets_what_waited_in_order() {
    // A socket that was full is written to when it wakes, as often as it fills again.
    let broker = broker(2, &[], |_| {});
    let address = broker.addresses()[0];
    let mut stalled: Vec<Client> = (0..4)
        .map(|number| {
            let mut client = Client::connect(address, &format!("stalled-{number}"));
            client.subscribe("flood", 1);
            client
        })
        .collect();
    let mut publisher = Client::connect(address, "publisher");
    publish_all(&mut publisher);
    for client in &mut stalled {
        for expected in 0..MESSAGES {
            let (_, payload) = client.receive_publish();
            assert_eq!(payload[..4], expected.to_be_bytes(), "in order, none lost");
        }
    }
    // No socket stays marked as full.
    publisher.send_raw(&publish("flood", 0, 0, b"last"));
    for client in &mut stalled {
        assert_eq!(client.receive_publish().1, b"last");
    }
}

/// v5 PUBLISH with QoS 2, and the exchange behind it: the code of its PUBREC.
fn publishes_qos2(client: &mut Client, topic: &str, payload: &str) -> u8 {
    let mut body = text(topic);
    body.extend([0, 7, 0]);
    body.extend_from_slice(payload.as_bytes());
    client.send(0x34, &body);
    let pubrec = client.receive();
    assert_eq!(pubrec.first, 0x50, "{pubrec:?}");
    let code = pubrec.body.get(2).copied().unwrap_or(0);
    if code < 0x80 {
        client.send(0x62, &[0, 7]);
        assert_eq!(client.receive().first, 0x70);
    }
    code
}

/// M12, M13: where full sessions refuse, one that ends with its connection does, too. Who is told that all is well knows that it comes.
#[test]
fn a_clean_session_without_room_refuses_its_publisher_where_that_is_the_policy() {
    const ROOM: usize = 10;
    const REFUSED: u8 = 0x97;
    for shards in [1, 2] {
        let room = format!("session.queue_messages_max={ROOM}");
        let broker = broker(shards, &["session.overflow=refuse", &room], |_| {});
        let address = broker.addresses()[0];
        let mut stalled = Client::connect(address, "stalled");
        stalled.subscribe("t", 2);
        let mut publisher = Client::connect_with(address, "publisher", 5, 2, &[]);
        let mut codes = Vec::new();
        for number in 0..ROOM + 4 {
            let payload = number.to_string();
            codes.push(match number % 2 {
                0 => publishes(&mut publisher, "t", false, &payload),
                _ => publishes_qos2(&mut publisher, "t", &payload),
            });
        }
        let (taken, refused) = codes.split_at(ROOM);
        assert_eq!((taken, refused), (&[0; ROOM][..], &[REFUSED; 4][..]));
        // What was taken comes, and nothing else.
        for number in 0..ROOM {
            let (_, payload) = stalled.receive_publish();
            assert_eq!(payload, number.to_string().into_bytes());
        }
        let mut refused = 4;
        let deadline = Instant::now() + Duration::from_secs(20);
        // PUBRECs of QoS 2 are answered with the next message.
        while publishes(&mut publisher, "t", false, "later") == REFUSED {
            assert!(Instant::now() < deadline, "there is room again");
            refused += 1;
        }
        assert_eq!(stalled.receive_publish().1, b"later");
        let summary = broker.stop().expect("nothing failed");
        assert_eq!(counter(&summary, "dropped_quota"), refused);
        assert_eq!(counter(&summary, "dropped_queue_full"), 0);
    }
}
