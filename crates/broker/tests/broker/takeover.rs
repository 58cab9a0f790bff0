//! Connections that want one client id at the same time (M24).

use std::net::SocketAddr;
use std::time::Duration;

use tempfile::TempDir;

use crate::support::{Client, broker, broker_on, publish, text};

/// Shards, so that the connections come in by different ones.
const SHARDS: u16 = 2;
const CLIENTS: usize = 6;
const ROUNDS: usize = 12;
/// What an overtaken one is told is there before another one is answered; this is for its way through the kernel.
const A_MOMENT: Duration = Duration::from_millis(50);

/// CONNECT of 5.0 for a session that outlives its connection.
fn ask(client: &mut Client, flags: u8) {
    let mut body = vec![0, 4, b'M', b'Q', b'T', b'T', 5, flags, 0, 60];
    body.extend([5, 0x11, 0, 0, 0, 100]);
    body.extend(text("one"));
    client.send(0x10, &body);
}

/// Whether a client that was answered is connected still; if not, it was told by whom it lost its client id.
fn remains(client: &mut Client) -> bool {
    let connack = client.receive();
    assert_eq!(connack.first, 0x20, "{connack:?}");
    match connack.body[1] {
        // It was overtaken before its turn came.
        0x89 => assert!(client.is_closed(), "who is refused is closed"),
        reason => {
            assert_eq!(reason, 0, "{connack:?}");
            let Some(disconnect) = client.receive_within(A_MOMENT) else {
                return true;
            };
            assert_eq!((disconnect.first, disconnect.body[0]), (0xE0, 0x8E));
            assert!(client.is_closed(), "who is overtaken is closed");
        }
    }
    false
}

fn many_at_once(address: SocketAddr) {
    let mut watcher = Client::connect(address, "watcher");
    watcher.subscribe("who", 0);
    for round in 0..ROUNDS {
        let mut clients: Vec<Client> = (0..CLIENTS).map(|_| Client::open(address)).collect();
        // Clean start in every second round.
        let flags = if round % 2 == 0 { 0x02 } else { 0 };
        for client in &mut clients {
            ask(client, flags);
        }
        let mut remaining: Vec<&mut Client> = clients
            .iter_mut()
            .filter_map(|it| remains(it).then_some(it))
            .collect();
        assert_eq!(remaining.len(), 1, "round {round}: neither none nor two");
        // And the one that thinks so is connected.
        let mut message = publish("who", 1, 1, &round.to_be_bytes());
        // No properties.
        message[1] += 1;
        message.insert(9, 0);
        remaining[0].send_raw(&message);
        let puback = remaining[0].receive();
        assert_eq!((puback.first, &puback.body[..2]), (0x40, &[0, 1][..]));
        assert_eq!(watcher.receive_publish().1, round.to_be_bytes());
    }
}

#[test]
fn m24_of_many_connects_at_once_one_remains_and_the_others_are_told() {
    let broker = broker(SHARDS, &[], |_| {});
    many_at_once(broker.addresses()[0]);
    broker.stop().expect("no shard failed");
}

#[test]
fn m24_of_many_connects_at_once_one_remains_and_the_others_are_told_on_disk() {
    let folder = TempDir::new().expect("a folder");
    let broker = broker_on(folder.path(), SHARDS, &[]);
    many_at_once(broker.addresses()[0]);
    broker.stop().expect("no shard failed");
}
