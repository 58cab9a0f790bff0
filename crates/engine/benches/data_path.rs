//! Cost of a message in a partition: nanoseconds, allocations and bytes of entries a message, after warm-up.
//!
//! `cargo bench -p courser-engine --bench data_path`; under `cargo test` it runs once with few messages.

#[allow(dead_code, reason = "each benchmark uses its part of it")]
mod support;

use std::alloc::System;

use courser_contract::{Class, QoS, RetainHandling};
use courser_memory::{Counting, thread_snapshot};
use support::{Bench, Receivers, TURN};

#[global_allocator]
static ALLOCATOR: Counting<System> = Counting::new(System);

/// Turns before anything is counted, also in a short run: tables grow to their size in them.
const WARM_UP: usize = 100;

const PAYLOAD: [u8; 128] = [7; 128];

/// Bytes of entries that a stored message of [`PAYLOAD`] for one stream may take within a batch.
const ENTRY_BYTES_MAX: f64 = 200.0;

/// Allocations of a QoS 2 publish of a stored session, those of its message and its record included.
const HOLD_ALLOCATIONS_MAX: f64 = 3.0;

/// Nanoseconds that this thread has run: the machine may be busy with other things.
fn on_cpu() -> f64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux tells it");
    let first = stat.split(' ').next().expect("three numbers");
    first.parse().expect("nanoseconds")
}

/// A row of the table.
struct Row {
    name: &'static str,
    class: Class,
    receivers: Receivers,
    rounds: usize,
}

impl Row {
    fn run(&self) {
        let Receivers { sessions, qos, .. } = self.receivers;
        let mut bench = Bench::new(self.class, self.receivers);
        for _ in 0..WARM_UP {
            bench.turn(qos, &PAYLOAD);
        }
        let (delivered, entry_bytes) = (bench.delivered(), bench.entry_bytes());
        let start = on_cpu();
        // Within the times: reading them allocates.
        let before = thread_snapshot();
        for _ in 0..self.rounds {
            bench.turn(qos, &PAYLOAD);
        }
        let counted = thread_snapshot().since(&before).allocated();
        let elapsed = on_cpu() - start;
        let messages = (self.rounds * TURN) as f64;
        let each = match self.receivers.share {
            Some(_) => 1,
            None => sessions,
        };
        assert_eq!(
            bench.delivered() - delivered,
            (self.rounds * TURN) as u64 * u64::from(each),
            "everything is delivered"
        );
        let allocations = counted.allocations as f64 / messages;
        let entry_bytes = (bench.entry_bytes() - entry_bytes) as f64 / messages;
        eprintln!(
            "{:<24} {:>8.1} ns/message {:>8.1} ns/delivery {allocations:>8.4} allocations/message {entry_bytes:>6.1} B/message",
            self.name,
            elapsed / messages,
            elapsed / messages / f64::from(each),
        );
        assert!(
            allocations <= 0.01 * f64::from(each),
            "allocations per message"
        );
        assert!(entry_bytes <= ENTRY_BYTES_MAX, "bytes of entries");
    }
}

/// Retained messages of 1,000 topics.
fn retained(receivers: Receivers) -> Bench {
    let mut bench = Bench::new(Class::Durable, receivers);
    for turn in 0..10 {
        bench.retain(turn * TURN, &PAYLOAD);
    }
    bench
}

/// A scan of 1,000 retained messages: nanoseconds for each.
fn replay(rounds: usize) {
    let receivers = Receivers {
        sessions: 1,
        qos: QoS::AtLeastOnce,
        share: None,
    };
    let mut bench = retained(receivers);
    let start = on_cpu();
    for _ in 0..rounds {
        bench.subscribe(0, receivers, RetainHandling::Send);
        bench.acknowledge(QoS::AtLeastOnce);
    }
    assert_eq!(
        bench.delivered(),
        1_000 * rounds as u64,
        "everything is found"
    );
    let each = (on_cpu() - start) / (1_000 * rounds) as f64;
    eprintln!("{:<24} {each:>8.1} ns/message", "retained-replay");
}

/// Retained messages of 1,000 topics, each set again and again: nanoseconds for each.
fn retain(rounds: usize) {
    let mut bench = retained(Receivers {
        sessions: 0,
        qos: QoS::AtLeastOnce,
        share: None,
    });
    let start = on_cpu();
    for turn in 0..rounds {
        bench.retain(turn % 10 * TURN, &PAYLOAD);
    }
    let each = (on_cpu() - start) / (TURN * rounds) as f64;
    eprintln!("{:<24} {each:>8.1} ns/message", "retain-known");
}

/// QoS 2 publishes of a stored session, to itself: nanoseconds and allocations for each, from PUBLISH to PUBCOMP. What the
/// front brings is allocated here, as it is there: a message and its record.
fn hold(rounds: usize) {
    let mut bench = Bench::new(
        Class::Durable,
        Receivers {
            sessions: 1,
            qos: QoS::ExactlyOnce,
            share: None,
        },
    );
    for _ in 0..WARM_UP {
        bench.hold(&PAYLOAD);
    }
    let delivered = bench.delivered();
    let start = on_cpu();
    let before = thread_snapshot();
    for _ in 0..rounds {
        bench.hold(&PAYLOAD);
    }
    let counted = thread_snapshot().since(&before).allocated();
    let messages = (rounds * TURN) as f64;
    let each = (on_cpu() - start) / messages;
    assert_eq!(
        bench.delivered() - delivered,
        (rounds * TURN) as u64,
        "everything is delivered"
    );
    let allocations = counted.allocations as f64 / messages;
    eprintln!(
        "{:<24} {each:>8.1} ns/message {allocations:>8.4} allocations/message",
        "hold-1"
    );
    assert!(
        allocations <= HOLD_ALLOCATIONS_MAX,
        "allocations per held message"
    );
}

fn main() {
    let full = std::env::args().any(|arg| arg == "--bench");
    let only = std::env::args().skip(1).find(|arg| !arg.starts_with('-'));
    let rounds = if full { 20_000 } else { 3 };
    let (volatile, durable) = (Class::Volatile, Class::Durable);
    let one = QoS::AtLeastOnce;
    let row = |name, class, sessions, qos| Row {
        name,
        class,
        receivers: Receivers {
            sessions,
            qos,
            share: None,
        },
        rounds: match sessions {
            50 => rounds / 20 + 1,
            _ => rounds,
        },
    };
    let mut shared = row("shared-4", volatile, 4, one);
    shared.receivers.share = Some("group");
    let rows = [
        row("qos0-1", volatile, 1, QoS::AtMostOnce),
        row("qos1-1", volatile, 1, one),
        row("qos2-1", volatile, 1, QoS::ExactlyOnce),
        row("qos0-50", volatile, 50, QoS::AtMostOnce),
        row("qos1-50", volatile, 50, one),
        row("durable-1", durable, 1, one),
        shared,
    ];
    let wanted = |name| only.as_deref().is_none_or(|only| only == name);
    for row in rows.iter().filter(|row| wanted(row.name)) {
        row.run();
    }
    if wanted("retained-replay") {
        replay(if full { 100 } else { 1 });
    }
    if wanted("hold-1") {
        hold(rounds);
    }
    if wanted("retain-known") {
        retain(rounds);
    }
}
