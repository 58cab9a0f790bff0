//! Instruction counts of a partition: `cargo xtask instructions`.
//!
//! A case is one turn of [`TURN`] publishes with their outcomes. The hashes of a process are seeded anew, and what
//! two that look alike cost more is lost among so many.
#![allow(missing_docs)] // the macros make undocumented items

#[allow(dead_code, reason = "each benchmark uses its part of it")]
mod support;

use courser_contract::{Class, QoS, RetainHandling};
use gungraun::prelude::*;
use support::{Bench, Receivers, TURN};

const PAYLOAD: [u8; 128] = [7; 128];

const fn receivers(sessions: u32, qos: QoS) -> Receivers {
    Receivers {
        sessions,
        qos,
        share: None,
    }
}

/// A partition that has been through some turns: what it keeps has its size.
fn warm(class: Class, receivers: Receivers) -> (Bench, QoS) {
    let qos = receivers.qos;
    let mut bench = Bench::new(class, receivers);
    for _ in 0..10 {
        bench.turn(qos, &PAYLOAD);
    }
    let delivered = bench.delivered();
    bench.turn(qos, &PAYLOAD);
    let each = match receivers.share {
        Some(_) => 1,
        None => receivers.sessions,
    };
    assert_eq!(
        bench.delivered() - delivered,
        TURN as u64 * u64::from(each),
        "everything is delivered"
    );
    (bench, qos)
}

fn volatile(sessions: u32, qos: QoS) -> (Bench, QoS) {
    warm(Class::Volatile, receivers(sessions, qos))
}

fn durable(sessions: u32, qos: QoS) -> (Bench, QoS) {
    warm(Class::Durable, receivers(sessions, qos))
}

fn shared(class: Class) -> (Bench, QoS) {
    let share = Some("group");
    let receivers = receivers(4, QoS::AtLeastOnce);
    warm(class, Receivers { share, ..receivers })
}

fn absent() -> (Bench, QoS) {
    let (mut bench, qos) = durable(1, QoS::AtLeastOnce);
    bench.detach(0);
    for _ in 0..10 {
        bench.turn(qos, &PAYLOAD);
    }
    (bench, qos)
}

#[library_benchmark]
#[bench::qos0_to_1(volatile(1, QoS::AtMostOnce))]
#[bench::qos0_to_50(volatile(50, QoS::AtMostOnce))]
#[bench::qos1_to_1(volatile(1, QoS::AtLeastOnce))]
#[bench::qos1_to_50(volatile(50, QoS::AtLeastOnce))]
#[bench::qos2_to_1(volatile(1, QoS::ExactlyOnce))]
#[bench::shared_to_4(shared(Class::Volatile))]
#[bench::durable_qos1_to_1(durable(1, QoS::AtLeastOnce))]
#[bench::durable_shared_to_4(shared(Class::Durable))]
#[bench::durable_to_absent(absent())]
fn publish_turn((mut bench, qos): (Bench, QoS)) -> Bench {
    bench.turn(qos, &PAYLOAD);
    // Handed back, so that freeing it is not counted.
    bench
}

/// Retained messages of 1,000 topics.
fn retained() -> Bench {
    let mut bench = Bench::new(Class::Durable, receivers(1, QoS::AtLeastOnce));
    for turn in 0..10 {
        bench.retain(turn * TURN, &PAYLOAD);
    }
    bench
}

#[library_benchmark]
#[bench::new_topics(retained(), 10 * TURN)]
#[bench::known_topics(retained(), 5 * TURN)]
fn retain_turn(mut bench: Bench, first: usize) -> Bench {
    bench.retain(first, &PAYLOAD);
    bench
}

#[library_benchmark]
#[bench::of_1000(retained())]
fn replay_retained(mut bench: Bench) -> Bench {
    let receivers = receivers(1, QoS::AtLeastOnce);
    bench.subscribe(0, receivers, RetainHandling::Send);
    bench.acknowledge(QoS::AtLeastOnce);
    assert_eq!(bench.delivered(), 1_000, "everything is found");
    bench
}

library_benchmark_group!(
    name = partition,
    benchmarks = [publish_turn, retain_turn, replay_retained]
);
main!(library_benchmark_groups = partition);
