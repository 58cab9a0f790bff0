//! Instruction counts of the data path: `cargo bench -p courser-mqtt --bench codec_instructions` (needs valgrind and gungraun-runner).
#![allow(missing_docs)] // the macros make undocumented items

mod codec_support;

use std::hint::black_box;

use codec_support::{message, parse, qos1, wire, with_alias, with_properties};
use courser_mqtt::codec::{
    Delivery, Packet, PacketId, PreparedPublish, ProtocolVersion, Publish, PublishEncoder,
    Receiver, Rules,
};
use gungraun::prelude::*;

use ProtocolVersion::{V5, V311};

/// Bytes that have been read before: the first call looks for CPU features and binds symbols.
fn warm_wire(publish: &Publish<'_>, version: ProtocolVersion) -> Vec<u8> {
    let bytes = wire(publish, version);
    parse(&bytes, &Rules::from_client(version));
    bytes
}

/// A message that has been written before.
fn warm_message(publish: Publish<'static>) -> Publish<'static> {
    wire(&publish, V5);
    publish
}

#[library_benchmark]
#[bench::v3_qos0(warm_wire(&message(Delivery::AtMostOnce), V311), V311)]
#[bench::v3_qos1(warm_wire(&message(qos1()), V311), V311)]
#[bench::v5_qos0(warm_wire(&message(Delivery::AtMostOnce), V5), V5)]
#[bench::v5_qos1(warm_wire(&message(qos1()), V5), V5)]
#[bench::v5_alias(warm_wire(&with_alias(qos1()), V5), V5)]
#[bench::v5_properties(warm_wire(&with_properties(qos1()), V5), V5)]
fn parse_publish(bytes: Vec<u8>, version: ProtocolVersion) -> (usize, Vec<u8>) {
    let rules = Rules::from_client(version);
    let seen = black_box(parse(black_box(&bytes), &rules));
    // Handed back, so that freeing it is not counted.
    (seen, bytes)
}

fn output() -> Vec<u8> {
    Vec::with_capacity(4096)
}

#[library_benchmark]
#[bench::v3_qos1(warm_message(message(qos1())), V311, output())]
#[bench::v5_qos1(warm_message(message(qos1())), V5, output())]
#[bench::v5_properties(warm_message(with_properties(qos1())), V5, output())]
fn encode_publish(
    publish: Publish<'static>,
    version: ProtocolVersion,
    mut out: Vec<u8>,
) -> Vec<u8> {
    let packet = Packet::Publish(black_box(publish));
    let _written = black_box(packet.encode(&Receiver::new(version), &mut out));
    out
}

fn warm() -> PublishEncoder {
    let mut encoder = PublishEncoder::new();
    encoder
        .prepare(&with_properties(qos1()), V5)
        .expect("valid");
    encoder
}

#[library_benchmark]
#[bench::v3_qos1(warm_message(message(qos1())), V311, warm())]
#[bench::v5_properties(warm_message(with_properties(qos1())), V5, warm())]
fn prepare(
    publish: Publish<'static>,
    version: ProtocolVersion,
    mut encoder: PublishEncoder,
) -> (usize, PublishEncoder) {
    let len = black_box(encoder.prepare(black_box(&publish), version))
        .expect("valid")
        .packet_len();
    (len, encoder)
}

fn prepared(publish: Publish<'static>, version: ProtocolVersion) -> PreparedPublish<'static> {
    // One encoder a process and case: the bench ends with it.
    let encoder = Box::leak(Box::new(PublishEncoder::new()));
    let publish: &'static Publish<'static> = Box::leak(Box::new(publish));
    let prepared = encoder.prepare(publish, version).expect("valid");
    prepared.append(publish.delivery.packet_id(), &mut Vec::new());
    prepared
}

#[library_benchmark]
#[bench::v3_qos0(prepared(message(Delivery::AtMostOnce), V311), None, output())]
#[bench::v3_qos1(prepared(message(qos1()), V311), PacketId::new(77), output())]
#[bench::v5_qos1(prepared(message(qos1()), V5), PacketId::new(77), output())]
fn fan_out_entry(
    prepared: PreparedPublish<'static>,
    packet_id: Option<PacketId>,
    mut out: Vec<u8>,
) -> Vec<u8> {
    black_box(&prepared).append(black_box(packet_id), &mut out);
    out
}

library_benchmark_group!(
    name = codec,
    benchmarks = [parse_publish, encode_publish, prepare, fan_out_entry]
);
main!(library_benchmark_groups = codec);
