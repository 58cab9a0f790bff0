//! Wall time of the data path, by hand: `cargo bench -p courser-mqtt --bench codec_time`. Best of 15 rounds of 200,000.
#![allow(clippy::print_stdout)] // its output is its purpose

mod codec_support;

use std::hint::black_box;
use std::time::Instant;

use codec_support::{message, parse, qos1, wire, with_alias, with_properties};
use courser_mqtt::codec::{
    Delivery, Packet, PacketId, ProtocolVersion, PublishEncoder, Receiver, Rules,
};

use ProtocolVersion::{V5, V311};

const ROUNDS: usize = 15;
const PER_ROUND: u32 = 200_000;

fn measure(name: &str, mut run: impl FnMut()) {
    let best = (0..ROUNDS)
        .map(|_| {
            let start = Instant::now();
            for _ in 0..PER_ROUND {
                run();
            }
            start.elapsed()
        })
        .min()
        .expect("there are rounds");
    let nanoseconds = best.as_secs_f64() * 1e9 / f64::from(PER_ROUND);
    println!("{name:32} {nanoseconds:6.1} ns");
}

fn main() {
    let cases = [
        ("parse v3 QoS 0", message(Delivery::AtMostOnce), V311),
        ("parse v3 QoS 1", message(qos1()), V311),
        ("parse v5 QoS 0", message(Delivery::AtMostOnce), V5),
        ("parse v5 QoS 1", message(qos1()), V5),
        ("parse v5 QoS 1, alias only", with_alias(qos1()), V5),
        ("parse v5 QoS 1, 2 properties", with_properties(qos1()), V5),
    ];
    for (name, publish, version) in cases {
        let (bytes, rules) = (wire(&publish, version), Rules::from_client(version));
        measure(name, || {
            black_box(parse(black_box(&bytes), black_box(&rules)));
        });
    }
    let mut out = Vec::with_capacity(4096);
    for (name, publish, version) in [
        ("encode v3 QoS 1", message(qos1()), V311),
        ("encode v5 QoS 1, 2 properties", with_properties(qos1()), V5),
    ] {
        let packet = Packet::Publish(publish);
        measure(name, || {
            out.clear();
            let _written = black_box(black_box(&packet).encode(&Receiver::new(version), &mut out));
        });
    }
    let mut encoder = PublishEncoder::new();
    let publish = message(qos1());
    measure("prepare v3 QoS 1", || {
        black_box(encoder.prepare(black_box(&publish), V311)).expect("valid");
    });
    let prepared = encoder.prepare(&publish, V311).expect("valid");
    let id = PacketId::new(7);
    measure("fan-out entry v3 QoS 1", || {
        out.clear();
        black_box(&prepared).append(black_box(id), &mut out);
        black_box(&out);
    });
}
