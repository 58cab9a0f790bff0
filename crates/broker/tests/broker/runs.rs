//! Messages in a row to many receivers are gathered for all of them: what each gets, and in which order, is as if they were not.

use std::net::SocketAddr;
use std::ops::Range;

use crate::support::{Client, Packet, broker, counter, publish, text};

/// Deliveries of a run of the test, so many that runs end by their size too.
const MESSAGES: u32 = 3_000;

fn payload(number: u32, bytes: usize) -> Vec<u8> {
    let mut payload = vec![b'x'; bytes];
    payload[..4].copy_from_slice(&number.to_be_bytes());
    payload
}

/// The bytes of messages of QoS 0.
fn messages(numbers: Range<u32>, bytes: usize) -> Vec<u8> {
    let one = |number| publish("t", 0, 0, &payload(number, bytes));
    numbers.flat_map(one).collect()
}

/// The number of a message of QoS 0, whatever stands between it and the fixed header.
fn number_of(packet: &Packet, version: u8) -> u32 {
    assert_eq!(packet.first, 0x30, "{packet:?}");
    let body = &packet.body;
    let mut start = 2 + usize::from(u16::from_be_bytes([body[0], body[1]]));
    if version == 5 {
        start += 1 + usize::from(body[start]);
    }
    let number = body[start..start + 4].try_into();
    u32::from_be_bytes(number.expect("four bytes"))
}

fn connected(address: SocketAddr, name: &str, count: usize, qos: u8) -> Vec<Client> {
    let subscriber = |number| {
        let mut client = Client::connect(address, &format!("{name}-{number}"));
        client.subscribe("t", qos);
        client
    };
    (0..count).map(subscriber).collect()
}

#[test]
fn order_is_kept_beside_qos_1_and_pings() {
    let broker = broker(1, &["sys.interval=0s"], |_| {});
    let address = broker.addresses()[0];
    let mut subscribers = connected(address, "subscriber", 8, 1);
    let mut publisher = Client::connect(address, "publisher");
    let mut bytes = Vec::new();
    for number in 0..MESSAGES {
        let qos = u8::from(number % 50 == 49);
        let packet_id = (number % 60_000 + 1) as u16;
        bytes.extend(publish("t", qos, packet_id, &payload(number, 60)));
    }
    for (part, client) in bytes.chunks(bytes.len() / 8 + 1).zip(&mut subscribers) {
        publisher.send_raw(part);
        client.send(0xC0, &[]);
    }
    for client in &mut subscribers {
        let (mut stored, mut routed, mut pings) = (Vec::new(), Vec::new(), 0);
        while stored.len() + routed.len() < MESSAGES as usize || pings == 0 {
            let packet = client.receive();
            match packet.first {
                0xD0 => pings += 1,
                0x30 => routed.push(number_of(&packet, 4)),
                0x32 => {
                    client.send(0x40, &packet.body[3..5]);
                    let number = packet.body[5..9].try_into();
                    stored.push(u32::from_be_bytes(number.expect("four bytes")));
                }
                _ => panic!("{packet:?}"),
            }
        }
        let all = 0..MESSAGES;
        assert_eq!(pings, 1);
        assert!(
            stored
                .into_iter()
                .eq(all.clone().filter(|number| number % 50 == 49))
        );
        assert!(
            routed
                .into_iter()
                .eq(all.filter(|number| number % 50 != 49))
        );
    }
    let summary = broker.stop().expect("no shard failed");
    assert!(counter(&summary, "deliveries_gathered") > 0);
    assert_eq!(counter(&summary, "publishes_sent"), 8 * u64::from(MESSAGES));
}

#[test]
fn receivers_of_every_kind_get_their_own_bytes() {
    let broker = broker(2, &["sys.interval=0s"], |_| {});
    let address = broker.addresses()[0];
    let mut clients: Vec<(Client, u8)> = Vec::new();
    for number in 0..24_u8 {
        // v5 with a Topic Alias Maximum, with an identifier of its own, with a Maximum Packet Size; 3.1.1.
        let id = format!("client-{number}");
        let (properties, identifier): (&[u8], &[u8]) = match number % 6 {
            0 => (&[0x22, 0, 1], &[]),
            1 => (&[], &[0x0B, 5 + number]),
            2 => (&[0x27, 0, 0, 1, 0], &[]),
            3 => (&[], &[]),
            _ => {
                let mut client = Client::connect(address, &id);
                client.subscribe("t", 0);
                clients.push((client, 4));
                continue;
            }
        };
        let mut client = Client::connect_with(address, &id, 5, 0x02, properties);
        let mut body = vec![0, 1, identifier.len() as u8];
        body.extend_from_slice(identifier);
        body.extend(text("t"));
        body.push(0);
        client.send(0x82, &body);
        assert_eq!(client.receive().first, 0x90);
        clients.push((client, 5));
    }
    let mut publisher = Client::connect(address, "publisher");
    publisher.send_raw(&messages(0..MESSAGES, 60));
    for (client, version) in &mut clients {
        for expected in 0..MESSAGES {
            assert_eq!(number_of(&client.receive(), *version), expected);
        }
    }
    let summary = broker.stop().expect("no shard failed");
    assert!(counter(&summary, "deliveries_gathered") > 0);
    assert_eq!(
        counter(&summary, "publishes_sent"),
        24 * u64::from(MESSAGES)
    );
}

#[test]
fn who_does_not_read_or_leaves_takes_nothing_from_the_others() {
    let broker = broker(1, &["sys.interval=0s"], |_| {});
    let address = broker.addresses()[0];
    let mut reading = connected(address, "reading", 8, 0);
    let mut stalled = connected(address, "stalled", 2, 0);
    let leaving = connected(address, "leaving", 2, 0);
    let mut publisher = Client::connect(address, "publisher");
    // More than the kernel takes for a socket that nobody reads, with a moment in between at which two leave.
    let mut leaving = Some(leaving);
    for round in 0..120 {
        let numbers = round * 100..(round + 1) * 100;
        publisher.send_raw(&messages(numbers.clone(), 1000));
        if round == 1 {
            leaving.take();
        }
        for client in &mut reading {
            for expected in numbers.clone() {
                assert_eq!(number_of(&client.receive(), 4), expected);
            }
        }
    }
    // What a client that did not read gets in the end is in order and without gaps up to where its output was full.
    for client in &mut stalled {
        for expected in 0..1_000 {
            assert_eq!(number_of(&client.receive(), 4), expected);
        }
    }
    let summary = broker.stop().expect("no shard failed");
    let gathered = counter(&summary, "deliveries_gathered");
    assert!(gathered > 8 * 6_000, "{gathered}");
    assert!(counter(&summary, "dropped_output_full") > 0);
}
