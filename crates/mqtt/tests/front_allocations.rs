//! No allocation per message after warm-up, and none kept by an idle front: counted, not hoped for.

#[path = "../benches/front_support/mod.rs"]
mod front_support;

use std::alloc::System;

use courser_contract::QoS;
use courser_memory::{Counting, thread_snapshot};
use front_support::Bench;

#[global_allocator]
static ALLOCATOR: Counting<System> = Counting::new(System);

/// Allocations of this thread while `turns` run, after two turns to warm up.
fn allocations(mut turn: impl FnMut()) -> u64 {
    turn();
    turn();
    let before = thread_snapshot();
    for _ in 0..20 {
        turn();
    }
    thread_snapshot().since(&before).allocated().allocations
}

#[test]
fn publishes_and_their_acknowledgements_allocate_nothing() {
    for qos in [QoS::AtMostOnce, QoS::AtLeastOnce, QoS::ExactlyOnce] {
        let mut bench = Bench::new(1, qos);
        assert_eq!(allocations(|| bench.publish_turn()), 0, "{qos:?}");
    }
}

#[test]
fn deliveries_and_their_outcomes_allocate_nothing() {
    for receivers in [1, 50] {
        for qos in [QoS::AtMostOnce, QoS::AtLeastOnce] {
            let mut bench = Bench::new(receivers, qos);
            let turn = || {
                bench.deliver_turn();
                if qos == QoS::AtLeastOnce {
                    bench.puback_turn();
                }
            };
            assert_eq!(allocations(turn), 0, "{qos:?} to {receivers}");
        }
    }
}
