//! Cost of a message in a volatile partition: nanoseconds and allocations a message, after warm-up.
//!
//! `cargo bench -p courser-engine --bench data_path`; under `cargo test` it runs once with few messages.

mod volatile_support;

use std::alloc::System;

use courser_contract::QoS;
use courser_memory::{Counting, thread_snapshot};
use volatile_support::{TURN, Volatile};

#[global_allocator]
static ALLOCATOR: Counting<System> = Counting::new(System);

/// Turns before anything is counted, also in a short run: tables grow to their size in them.
const WARM_UP: usize = 100;

/// Nanoseconds that this thread has run: the machine may be busy with other things.
fn on_cpu() -> f64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux tells it");
    let first = stat.split(' ').next().expect("three numbers");
    first.parse().expect("nanoseconds")
}

fn run(name: &str, sessions: u32, qos: QoS, rounds: usize) {
    let mut volatile = Volatile::new(sessions, qos);
    let payload = [7; 128];
    for _ in 0..WARM_UP {
        volatile.turn(qos, &payload);
    }
    let delivered = volatile.delivered();
    let start = on_cpu();
    // Within the times: reading them allocates.
    let before = thread_snapshot();
    for _ in 0..rounds {
        volatile.turn(qos, &payload);
    }
    let counted = thread_snapshot().since(&before).allocated();
    let elapsed = on_cpu() - start;
    let messages = (rounds * TURN) as f64;
    assert_eq!(
        volatile.delivered() - delivered,
        (rounds * TURN) as u64 * u64::from(sessions),
        "everything is delivered"
    );
    let allocations = counted.allocations as f64 / messages;
    eprintln!(
        "{name:<24} {:>8.1} ns/message {:>8.1} ns/delivery {allocations:>8.4} allocations/message",
        elapsed / messages,
        elapsed / messages / f64::from(sessions),
    );
    assert!(
        allocations <= 0.01 * f64::from(sessions.max(1)),
        "allocations per message"
    );
}

fn main() {
    let full = std::env::args().any(|arg| arg == "--bench");
    let only = std::env::args().skip(1).find(|arg| !arg.starts_with('-'));
    let rounds = if full { 20_000 } else { 3 };
    let rows = [
        ("qos0-1", 1, QoS::AtMostOnce, rounds),
        ("qos1-1", 1, QoS::AtLeastOnce, rounds),
        ("qos0-50", 50, QoS::AtMostOnce, rounds / 20 + 1),
        ("qos1-50", 50, QoS::AtLeastOnce, rounds / 20 + 1),
    ];
    for (name, sessions, qos, rounds) in rows {
        if only.as_deref().is_none_or(|only| only == name) {
            run(name, sessions, qos, rounds);
        }
    }
}
