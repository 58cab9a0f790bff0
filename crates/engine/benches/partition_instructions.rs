//! Instruction counts of a partition: `cargo xtask instructions`.
//!
//! A case is one turn of [`TURN`] publishes with their outcomes. The hashes of a process are seeded anew, and what
//! two that look alike cost more is lost among so many.
#![allow(missing_docs)] // the macros make undocumented items

mod volatile_support;

use courser_contract::QoS;
use gungraun::prelude::*;
use volatile_support::{TURN, Volatile};

const PAYLOAD: [u8; 128] = [7; 128];

/// A partition that has been through some turns: what it keeps has its size.
fn warm(sessions: u32, qos: QoS) -> (Volatile, QoS) {
    let mut volatile = Volatile::new(sessions, qos);
    for _ in 0..10 {
        volatile.turn(qos, &PAYLOAD);
    }
    let delivered = volatile.delivered();
    volatile.turn(qos, &PAYLOAD);
    assert_eq!(
        volatile.delivered() - delivered,
        TURN as u64 * u64::from(sessions),
        "everything is delivered"
    );
    (volatile, qos)
}

#[library_benchmark]
#[bench::qos0_to_1(warm(1, QoS::AtMostOnce))]
#[bench::qos0_to_50(warm(50, QoS::AtMostOnce))]
#[bench::qos1_to_1(warm(1, QoS::AtLeastOnce))]
#[bench::qos1_to_50(warm(50, QoS::AtLeastOnce))]
fn publish_turn((mut volatile, qos): (Volatile, QoS)) -> Volatile {
    volatile.turn(qos, &PAYLOAD);
    // Handed back, so that freeing it is not counted.
    volatile
}

library_benchmark_group!(name = partition, benchmarks = [publish_turn]);
main!(library_benchmark_groups = partition);
