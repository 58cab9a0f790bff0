//! What user properties of a PUBLISH cost is linear in their number, and bounded by the limits: by the fields that are read, which are as many on
//! every machine.

use super::support::{Client, Hello, V5};
use crate::codec::fields_read;
use crate::front::FrontConfig;

/// Of one pair: what it is, and length and bytes of name and value.
const FIELDS: u64 = 5;
/// Of what stands around them.
const FIELDS_BESIDE: u64 = 10;
const PAIR: &[u8] = b"\x26\0\x01k\0\x01v";
/// As many as settings may allow (`mqtt.user_properties_max`).
const MOST: usize = 10_000;

/// How the pairs stand in the packet.
#[derive(Clone, Copy, Debug)]
enum Order {
    /// Side by side: they are passed on where they are.
    Alone,
    /// With the expiry interval in their middle: they are gathered.
    Parted,
}

fn varint(mut value: usize, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// QoS 1, topic "t", payload "x".
fn publish(pairs: usize, order: Order) -> Vec<u8> {
    let mut block = PAIR.repeat(pairs / 2);
    if let Order::Parted = order {
        block.extend_from_slice(b"\x02\0\0\x0E\x10");
    }
    block.extend_from_slice(&PAIR.repeat(pairs - pairs / 2));
    let mut body = b"\0\x01t\0\x01".to_vec();
    varint(block.len(), &mut body);
    body.extend_from_slice(&block);
    body.push(b'x');
    let mut packet = vec![0x32];
    varint(body.len(), &mut packet);
    packet.extend_from_slice(&body);
    packet
}

fn allow(pairs: usize) -> impl FnOnce(&mut FrontConfig) {
    move |config| {
        config.limits.user_properties_max = pairs as u16;
        config.limits.user_property_bytes_max = 1 << 20;
    }
}

fn with(set: impl FnOnce(&mut FrontConfig)) -> Client {
    Client::attached_with(V5, set, &Hello::default())
}

/// Fields that are read of a packet which comes in parts of so many bytes.
fn read_of(client: &mut Client, packet: &[u8], reads_of: usize) -> u64 {
    let before = fields_read();
    for part in packet.chunks(reads_of) {
        client.gives(part);
    }
    fields_read() - before
}

#[test]
fn cve_the_cost_of_many_user_properties_of_a_publish_is_linear() {
    for order in [Order::Alone, Order::Parted] {
        for reads_of in [usize::MAX, 512] {
            let mut client = with(allow(MOST));
            let mut cost = |pairs| {
                let packet = publish(pairs, order);
                let read = read_of(&mut client, &packet, reads_of);
                let effects = client.effects();
                assert!(effects[0].starts_with("publish t q1") && effects.len() == 1);
                assert_eq!(client.hears(), ["PUBACK 1"]);
                // Once to check them, once more where they are gathered.
                assert!(
                    read <= 2 * FIELDS * pairs as u64 + FIELDS_BESIDE,
                    "{read} fields of {pairs} pairs, {order:?} in reads of {reads_of}"
                );
                read
            };
            let (half, whole) = (cost(MOST / 2), cost(MOST));
            assert!(whole > half, "they are read");
            assert!(
                whole <= 2 * half + half / 100,
                "{half}, then {whole}, {order:?} in reads of {reads_of}"
            );
        }
    }
}

#[test]
fn cve_user_properties_beyond_the_limits_are_not_read() {
    let limits = |count: u16, bytes: u32| {
        move |config: &mut FrontConfig| {
            config.limits.user_properties_max = count;
            config.limits.user_property_bytes_max = bytes;
        }
    };
    // The defaults, and the limit of bytes.
    for (count, bytes, read_pairs) in [(64, 16 << 10, 65), (10_000, 700, 101)] {
        for pairs in [3_000, 30_000] {
            let mut client = with(limits(count, bytes));
            let read = read_of(&mut client, &publish(pairs, Order::Alone), usize::MAX);
            assert!(client.effects().iter().all(|it| !it.starts_with("publish")));
            let heard = client.hears();
            assert!(heard[0].starts_with("DISCONNECT 0x97"), "{heard:?}");
            assert!(
                read <= FIELDS * read_pairs + FIELDS_BESIDE,
                "{read} fields of {pairs} pairs are read"
            );
        }
    }
}
