//! Connections that go to the shard of their session: whatever is promised holds around the move.
//!
//! Each test has many connections, so that some of them move: that none does happens once in 2^16 runs, where the kernel puts all of
//! them on their shards by chance.

use std::net::SocketAddr;
use std::time::Duration;

use crate::support::{Client, Packet, broker, counter, encode, publish, text};
use courser_broker::Broker;

const CLIENTS: usize = 16;
const SHARDS: u16 = 2;
/// Flags of CONNECT: CleanSession 0 and 1.
const KEPT: u8 = 0;
const CLEAN: u8 = 0x02;

fn by_home(settings: &[&str], connections_max: usize) -> Broker {
    placed("home", settings, connections_max)
}

fn placed(placement: &str, settings: &[&str], connections_max: usize) -> Broker {
    let placement = format!("server.placement={placement}");
    let settings = [&[placement.as_str()], settings].concat();
    broker(SHARDS, &settings, |config| {
        config.connections_max = connections_max
    })
}

fn names() -> impl Iterator<Item = String> {
    (0..CLIENTS).map(|number| format!("client-{number}"))
}

/// Connections that a broker gave to another shard, which ends it.
fn moved(broker: Broker) -> u64 {
    counter(&broker.stop().expect("no shard failed"), "sockets_moved")
}

/// CONNECT of 3.1.1.
fn connect(client_id: &str, flags: u8, keep_alive_seconds: u16) -> Vec<u8> {
    let mut body = vec![0, 4, b'M', b'Q', b'T', b'T', 4, flags];
    body.extend(keep_alive_seconds.to_be_bytes());
    body.extend(text(client_id));
    encode(0x10, &body)
}

fn packet(first: u8, body: &[u8]) -> Packet {
    Packet {
        first,
        body: body.to_vec(),
    }
}

#[test]
fn what_follows_connect_at_once_is_handled_after_it() {
    let broker = by_home(&[], 1_000);
    let address = broker.addresses()[0];
    let mut watcher = Client::connect(address, "watcher");
    watcher.subscribe("#", 0);
    for name in names() {
        let mut client = Client::open(address);
        let all = [
            connect(&name, KEPT, 60),
            publish(&name, 1, 2, b"first"),
            publish(&name, 1, 3, b"second"),
        ];
        client.send_raw(&all.concat());
        let answers = [client.receive(), client.receive(), client.receive()];
        let expected = [
            packet(0x20, &[0, 0]),
            packet(0x40, &[0, 2]),
            packet(0x40, &[0, 3]),
        ];
        assert_eq!(answers, expected);
        for payload in [&b"first"[..], b"second"] {
            assert_eq!(watcher.receive_publish(), (name.clone(), payload.to_vec()));
        }
    }
    let summary = broker.stop().expect("no shard failed");
    assert!(counter(&summary, "sockets_moved") > 0, "{summary:?}");
    let sockets = counter(&summary, "sockets");
    assert_eq!(sockets, CLIENTS as u64 + 1, "each counts once");
}

#[test]
fn a_connect_in_two_pieces_goes_as_a_whole() {
    let broker = by_home(&[], 1_000);
    let address = broker.addresses()[0];
    for name in names() {
        let mut client = Client::open(address);
        let bytes = connect(&name, KEPT, 60);
        let (first, rest) = bytes.split_at(bytes.len() - 3);
        client.send_raw(first);
        // Both ways are right if the pieces come together after all.
        std::thread::sleep(Duration::from_millis(2));
        client.send_raw(rest);
        assert_eq!(client.receive(), packet(0x20, &[0, 0]));
    }
    assert!(moved(broker) > 0);
}

#[test]
fn clean_sessions_stay_where_they_were_accepted() {
    let broker = by_home(&[], 1_000);
    let address = broker.addresses()[0];
    let _clients: Vec<_> = names()
        .map(|name| Client::connect_with(address, &name, 4, CLEAN, &[]))
        .collect();
    assert_eq!(moved(broker), 0);
}

#[test]
fn m28_what_was_not_acknowledged_comes_again_after_a_takeover() {
    let broker = by_home(&[], 1_000);
    let address = broker.addresses()[0];
    let mut publisher = Client::connect(address, "publisher");
    for name in names() {
        let mut first = Client::connect_with(address, &name, 4, KEPT, &[]);
        first.subscribe(&name, 1);
        publisher.send_raw(&publish(&name, 1, 7, b"once"));
        assert_eq!(publisher.receive(), packet(0x40, &[0, 7]));
        let delivered = first.receive();
        assert_eq!(delivered.first, 0x32, "QoS 1, not sent before");

        let (mut second, present) = Client::session(address, &name, 4, KEPT, &[]);
        assert!(present && first.is_closed(), "the first is taken over");
        let again = second.receive();
        assert_eq!((again.first, again.body), (0x3A, delivered.body), "DUP");
    }
    assert!(moved(broker) > 0);
}

#[test]
fn keep_alive_counts_for_those_that_moved() {
    let broker = by_home(&[], 1_000);
    let address = broker.addresses()[0];
    let mut clients: Vec<_> = names()
        .map(|name| {
            let mut client = Client::open(address);
            client.send_raw(&connect(&name, KEPT, 1));
            assert_eq!(client.receive(), packet(0x20, &[0, 0]));
            client
        })
        .collect();
    assert!(clients.iter_mut().all(Client::is_closed));
    let counters = broker.stop().expect("no shard failed").counters();
    let ended = ("closed_keep_alive".to_owned(), CLIENTS as u64);
    assert!(counters.contains(&ended), "{counters:?}");
}

/// Connects until one is refused; how many were not.
fn fill(address: SocketAddr, clients: &mut Vec<Client>) -> usize {
    for number in clients.len().. {
        let mut client = Client::open(address);
        client.send_raw(&connect(&format!("client-{number}"), KEPT, 60));
        if client.receive_within(Duration::from_secs(20)).is_none() {
            break;
        }
        clients.push(client);
    }
    clients.len()
}

/// As many as may be, then all of them go and as many come again: nothing is counted twice or never given back.
fn holds(address: SocketAddr, most: usize) {
    let mut clients = Vec::new();
    assert_eq!(fill(address, &mut clients), most);
    for round in 0..3 {
        let mut gone = std::mem::take(&mut clients);
        for client in &mut gone {
            client.send(0xE0, &[]);
            assert!(client.is_closed());
        }
        // The broker ends the socket before it forgets the connection.
        while clients.len() < most {
            assert!(fill(address, &mut clients) <= most, "round {round}");
        }
    }
}

#[test]
fn the_limit_of_connections_holds_to_the_number() {
    let broker = by_home(&[], CLIENTS);
    holds(broker.addresses()[0], CLIENTS);
    assert!(moved(broker) > 0);
}

#[test]
fn the_limit_of_an_address_goes_with_the_connection() {
    let listener = r#"listener=[{ name = "few", protocol = "mqtt", address = "127.0.0.1:0", address_connections_max = 8 }]"#;
    let broker = by_home(&[listener], 1_000);
    let address = *broker.addresses().last().expect("the listener has one");
    holds(address, 8);
    assert!(moved(broker) > 0);
}

/// Also those of sessions that are not kept move to one shard, as long as they are few; what is published goes in order.
#[test]
fn few_connections_are_gathered() {
    let broker = placed("gather", &[], 1_000);
    let address = broker.addresses()[0];
    let mut watcher = Client::connect_with(address, "watcher", 4, CLEAN, &[]);
    watcher.subscribe("#", 1);
    let mut clients: Vec<_> = names()
        .map(|name| Client::connect_with(address, &name, 4, CLEAN, &[]))
        .collect();
    for number in 0..20 {
        let payload = format!("{number}").into_bytes();
        for (client, name) in clients.iter_mut().zip(names()) {
            client.send_raw(&publish(&name, 1, 7, &payload));
            assert_eq!(client.receive(), packet(0x40, &[0, 7]));
            assert_eq!(watcher.receive_publish(), (name, payload.clone()));
        }
    }
    assert!(moved(broker) > 0);
}
