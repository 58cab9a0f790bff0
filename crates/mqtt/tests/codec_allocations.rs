//! Decoding allocates nothing at all; writing and preparing nothing once their buffers have grown.

mod codec_support {
    pub(crate) mod generate;
}

use std::alloc::System;

use codec_support::generate::{Choices, with_packet};
use courser_memory::{Counting, thread_snapshot};
use courser_mqtt::codec::{
    Frame, Packet, PacketType, ProtocolVersion, PublishEncoder, Receiver, Rules, Sender, Split,
};

#[global_allocator]
static ALLOCATOR: Counting<System> = Counting::new(System);

fn allocations(run: impl FnOnce()) -> u64 {
    let before = thread_snapshot();
    run();
    thread_snapshot().since(&before).allocated().allocations
}

/// Fixed bytes that differ from packet to packet.
fn seed(number: usize) -> Vec<u8> {
    (0..300)
        .map(|at: usize| (at * 37 + number * 101 + at * at * 7) as u8)
        .collect()
}

fn decode<'a>(bytes: &'a [u8], rules: &Rules) -> Packet<'a> {
    match Frame::split(bytes, u32::MAX) {
        Ok(Split::Whole(frame)) => Packet::decode(&frame, rules).expect("valid"),
        other => panic!("one whole packet, not {other:?}"),
    }
}

#[test]
fn all_packets() {
    // The counter works: a test that cannot fail shows nothing.
    assert_eq!(
        allocations(|| drop(std::hint::black_box(vec![1_u8; 64]))),
        1
    );
    for version in [ProtocolVersion::V311, ProtocolVersion::V5] {
        let receiver = Receiver::new(version);
        for packet_type in PacketType::ALL {
            let sender = if packet_type.sent_by(Sender::Server, version) {
                Sender::Server
            } else {
                Sender::Client
            };
            if !packet_type.sent_by(sender, version) {
                continue;
            }
            let rules = Rules {
                sender,
                ..Rules::from_client(version)
            };
            let mut out = Vec::with_capacity(1 << 16);
            for number in 0..20 {
                with_packet(
                    &mut Choices::new(&seed(number)),
                    packet_type,
                    (version, sender),
                    |packet| {
                        let write = || packet.encode(&receiver, &mut out).map(drop).expect("valid");
                        assert_eq!(allocations(write), 0, "writing {packet_type} {version}");
                    },
                );
                let read = || {
                    std::hint::black_box(decode(&out, &rules));
                };
                assert_eq!(allocations(read), 0, "reading {packet_type} {version}");
                out.clear();
            }
        }
    }
}

#[test]
fn prepared_messages() {
    let mut encoder = PublishEncoder::new();
    let mut out = Vec::with_capacity(1 << 20);
    let mut prepare_and_send = |number: usize| {
        let mut count = 0;
        for version in [ProtocolVersion::V311, ProtocolVersion::V5] {
            let target = (version, Sender::Server);
            with_packet(
                &mut Choices::new(&seed(number)),
                PacketType::Publish,
                target,
                |packet| {
                    let Packet::Publish(publish) = packet else {
                        unreachable!("it is a PUBLISH")
                    };
                    out.clear();
                    count += allocations(|| {
                        let prepared = encoder.prepare(publish, version).expect("valid");
                        for _ in 0..50 {
                            prepared.append(publish.delivery.packet_id(), &mut out);
                        }
                    });
                },
            );
        }
        count
    };
    let _warm_up: u64 = (0..20).map(&mut prepare_and_send).sum();
    assert_eq!((0..20).map(&mut prepare_and_send).sum::<u64>(), 0);
}
