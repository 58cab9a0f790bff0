//! M49 with rings of two slots, and a shard that hangs as long as the test wants.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use courser_contract::ShardId;

use crate::Broker;
use crate::failpoint::{HANG, hanging::Hung};
use crate::shard::support::{Client, asked, broker, encode, publish, text};

/// Payloads of this size: one a read of a socket, and sixteen of them fill a link.
const LARGE: usize = 64 << 10;
/// Of each of three senders: more than a link takes of one alone.
const FLOOD: u16 = 22;
const PINGREQ: [u8; 2] = [0xC0, 0];
const PINGRESP: u8 = 0xD0;

/// The shard of a connection.
fn shard_of(broker: &Broker, client_id: &str) -> ShardId {
    let row = asked(broker.control().client(client_id));
    let row = row.expect("the shards answer").expect("it is connected");
    row.front.shard
}

/// The shard of the partition of a session that is kept.
fn home_of(broker: &Broker, client_id: &str) -> ShardId {
    let row = asked(broker.control().session(client_id));
    let row = row.expect("the shards answer").expect("it is kept");
    broker_places(broker).shard_of(row.at.partition)
}

fn broker_places(broker: &Broker) -> crate::slots::Places {
    let shards = u16::try_from(broker.control().shards().count()).expect("two");
    crate::slots::Places::new(16, shards, crate::slots::Relaxed::None)
}

/// A client whose connection, or kept session, is where the test wants it: the kernel and the hash of its name decide.
fn until(found: impl Fn(&str) -> bool, name: &str, connect: impl Fn(&str) -> Client) -> Client {
    (0..64)
        .find_map(|number| {
            let client_id = format!("{name}-{number}");
            let client = connect(&client_id);
            found(&client_id).then_some(client)
        })
        .expect("one of so many is there")
}

/// CONNECT with this keep-alive in seconds; 5.0 with a Receive Maximum of 1.
fn connect(broker: &Broker, client_id: &str, version: u8, keep_alive: u8) -> Client {
    let mut client = Client::open(broker.addresses()[0]);
    let mut body = vec![0, 4, b'M', b'Q', b'T', b'T', version, 0x02, 0, keep_alive];
    if version == 5 {
        body.extend([3, 0x21, 0, 1]);
    }
    body.extend(text(client_id));
    client.send(0x10, &body);
    let connack = client.receive();
    assert_eq!((connack.first, connack.body[1]), (0x20, 0), "{connack:?}");
    client
}

/// A large PUBLISH of QoS 1 to the partition of the shard that hangs: who sends it, and which one of theirs it is.
fn large(version: u8, sender: u8, packet_id: u16) -> Vec<u8> {
    let mut body = text("t");
    body.extend(packet_id.to_be_bytes());
    if version == 5 {
        body.push(0);
    }
    body.extend([sender, packet_id as u8]);
    body.resize(body.len() + LARGE, b'x');
    encode(0x32, &body)
}

/// What a sender's messages are that came to the subscriber, until the last one of the 5.0 client.
fn arrived(subscriber: &mut Client, last: u8) -> Vec<(u8, u8)> {
    let mut all = Vec::new();
    loop {
        let (_, payload) = subscriber.receive_publish();
        if payload != HANG.as_bytes() {
            all.push((payload[0], payload[1]));
        }
        if all.last() == Some(&(b'5', last)) {
            return all;
        }
    }
}

/// The reason codes of the next PUBACKs, in the order of the publishes.
fn pubacks(client: &mut Client, packet_ids: std::ops::RangeInclusive<u16>) -> Vec<u8> {
    let reason = |packet_id: u16| {
        let puback = client.receive();
        assert_eq!(
            (puback.first, &puback.body[..2]),
            (0x40, &packet_id.to_be_bytes()[..])
        );
        puback.body.get(2).copied().unwrap_or(0)
    };
    packet_ids.map(reason).collect()
}

#[test]
fn m49_a_full_link_stops_reading_for_a_while_and_then_refuses() {
    let broker = broker(2, &[], |config| config.ring_slots = 2);
    let mut five = connect(&broker, "five", 5, 60);
    let here = shard_of(&broker, "five");
    let on_here = |client_id: &str| shard_of(&broker, client_id) == here;
    let mut three = until(on_here, "three", |id| connect(&broker, id, 4, 60));
    let mut other = until(on_here, "other", |id| connect(&broker, id, 4, 60));
    let elsewhere = |client_id: &str| home_of(&broker, client_id) != here;
    let mut subscriber = until(elsewhere, "subscriber", |id| {
        Client::connect_with(broker.addresses()[0], id, 4, 0, &[])
    });
    subscriber.subscribe("t", 1);
    five.send(0x82, &[0, 1, 0, 0, 1, b'x', 1]);
    assert_eq!(five.receive().first, 0x90);
    other.send_raw(&publish("x", 1, 1, b"one"));
    assert_eq!(other.receive().first, 0x40);
    let one = five.receive();
    assert_eq!(one.first, 0x32);
    let mut short = until(on_here, "short", |id| connect(&broker, id, 4, 3));

    other.send_raw(&publish("t", 0, 0, HANG.as_bytes()));
    let hung = Hung::wait();
    let begun = Instant::now();
    for packet_id in 1..=FLOOD {
        five.send_raw(&large(5, b'5', packet_id));
    }
    five.send(0x40, &one.body[3..5]);
    five.send_raw(&PINGREQ);
    for (client, sender) in [(&mut three, b'3'), (&mut short, b's')] {
        for packet_id in 1..=FLOOD {
            client.send_raw(&large(4, sender, packet_id));
        }
        client.send_raw(&PINGREQ);
    }
    other.send_raw(&publish("x", 1, 2, b"two"));
    assert_eq!(
        other.receive().first,
        0x40,
        "what is for nobody there goes on"
    );
    // The acknowledgement behind the flood gets through, and lets the next delivery come, while the other shard still hangs.
    let firsts: BTreeSet<u8> = [five.receive().first, five.receive().first].into();
    assert_eq!(firsts, BTreeSet::from([0x32, PINGRESP]));
    assert!(begun.elapsed() >= Duration::from_secs(4), "it was not read");
    // The keep-alive of this one was over before it was read again.
    assert_eq!(short.receive().first, PINGRESP);
    assert_eq!(three.receive().first, PINGRESP);
    drop(hung);

    let codes = pubacks(&mut five, 1..=FLOOD);
    let taken = codes.iter().take_while(|code| **code == 0).count();
    assert!(0 < taken && taken < codes.len(), "{codes:?}");
    assert!(codes[taken..].iter().all(|code| *code == 0x97), "{codes:?}");
    // 3.1.1 has no word for it: nothing is stored or acknowledged any more, and the rest is still read.
    three.send_raw(&large(4, b'3', FLOOD + 1));
    three.send_raw(&PINGREQ);
    let mut acknowledged = 0;
    let mut next = three.receive();
    while next.first == 0x40 {
        acknowledged += 1;
        next = three.receive();
    }
    assert_eq!(next.first, PINGRESP);
    five.send_raw(&large(5, b'5', FLOOD + 1));
    assert_eq!(pubacks(&mut five, FLOOD + 1..=FLOOD + 1), [0]);

    let all = arrived(&mut subscriber, FLOOD as u8 + 1);
    let of = |sender: u8| all.iter().filter(move |it| it.0 == sender).map(|it| it.1);
    let stored: Vec<u8> = of(b'5').collect();
    let expected: Vec<u8> = (1..=taken as u8).chain([FLOOD as u8 + 1]).collect();
    assert_eq!(stored, expected, "what was refused is stored for nobody");
    let stored: Vec<u8> = of(b'3').collect();
    assert!(stored.len() < usize::from(FLOOD), "{stored:?}");
    assert!(stored.iter().copied().eq(1..=stored.len() as u8));
    while acknowledged < stored.len() {
        assert_eq!(three.receive().first, 0x40);
        acknowledged += 1;
    }
    assert_eq!(three.receive_within(Duration::from_millis(200)), None);
    drop(subscriber);
    broker.stop().expect("no shard failed");
}
