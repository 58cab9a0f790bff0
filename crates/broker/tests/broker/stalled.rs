//! Clients that do not read for a while, and what is then written to them.

use crate::support::{Client, broker, publish};

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
fn a_client_that_reads_again_gets_what_waited_in_order() {
    // M23; a socket that was full is written to when it wakes, as often as it fills again.
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
