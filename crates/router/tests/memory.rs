//! Memory per subscription, counted by the allocator: a million subscriptions of five-level filters in several
//! shapes. One test only: the counter is the process's.
#![allow(unsafe_code)] // a counting allocator cannot be had without
#![allow(clippy::print_stdout)] // the figures, with --nocapture

use router::{Matcher, SharedMatcher};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

struct Counting;
static LIVE: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call is passed on to the system's allocator unchanged; counting touches no memory of it.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LIVE.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

fn live() -> usize {
    LIVE.load(Ordering::Relaxed)
}

/// Fewer without optimisation, where inserting a million would take a minute.
const SUBSCRIPTIONS: u32 = if cfg!(debug_assertions) {
    100_000
} else {
    1_000_000
};

/// Any permutation of the numbers: an odd factor, modulo 2^32.
fn mixed(i: u32) -> u32 {
    i.wrapping_mul(0x9E37_79B1)
}

/// Name, filter by number, bytes allowed each in a `Matcher`.
type Shape = (&'static str, fn(u32) -> String, usize);

const SHAPES: [Shape; 5] = [
    (
        "a tree of 10 x 20 x 50 x 100",
        |i| {
            format!(
                "org/r{}/s{}/l{}/d{}",
                i % 10,
                i / 10 % 20,
                i / 200 % 50,
                i / 10_000
            )
        },
        60,
    ),
    (
        "levels drawn out of 1,000",
        |i| {
            let x = mixed(i);
            format!(
                "t{}/u{}/v{}/w{}/x{}",
                x % 1_000,
                x / 7 % 1_000,
                x / 77 % 1_000,
                i % 1_000,
                i / 1_000
            )
        },
        100,
    ),
    (
        "a device name of its own",
        |i| format!("fleet/eu/car-{i:07}/+/state"),
        100,
    ),
    (
        "wildcards in the middle",
        |i| format!("org/+/s{}/+/d{}", i % 1_000, i / 1_000),
        60,
    ),
    (
        "2,000 filters with 500 each",
        |i| format!("org/r{}/s{}/l/#", i % 40, i / 40 % 50),
        100,
    ),
];

#[test]
fn a_million_subscriptions_stay_small() {
    for (name, filter, allowed) in SHAPES {
        let before = live();
        let mut matcher = Matcher::new();
        for i in 0..SUBSCRIPTIONS {
            matcher.insert(&filter(i), i);
        }
        let bytes = (live() - before) as f64 / f64::from(SUBSCRIPTIONS);
        println!(
            "{name}: {bytes:.1} bytes each, {} nodes, {} filters",
            matcher.nodes(),
            matcher.filters()
        );
        assert_eq!(matcher.len(), SUBSCRIPTIONS as usize);
        assert!(
            bytes <= allowed as f64,
            "{name}: {bytes:.1} bytes each, {allowed} allowed"
        );

        for i in 0..SUBSCRIPTIONS {
            assert_eq!(matcher.remove(&filter(i), &i), Some(i));
        }
        assert_eq!(matcher.nodes(), 0);
        drop(matcher);
        // The test's own captured output is the only thing that may have grown.
        assert!(live() < before + 65_536, "{name}: everything is given back");
    }
    shared_is_twice_as_large();
}

fn shared_is_twice_as_large() {
    let (name, filter, allowed) = SHAPES[0];
    let before = live();
    let (mut writer, reader) = SharedMatcher::new();
    for i in 0..SUBSCRIPTIONS {
        writer.insert(&filter(i), i);
        if writer.pending() == 10_000 {
            writer.publish(|| unreachable!("nobody looks"));
        }
    }
    writer.publish(|| unreachable!("nobody looks"));
    writer.try_settle().expect("nobody looks");
    let bytes = (live() - before) as f64 / f64::from(SUBSCRIPTIONS);
    println!("{name}, shared: {bytes:.1} bytes each");
    assert_eq!(reader.filters(), SUBSCRIPTIONS as usize);
    assert!(
        bytes <= 2.0 * allowed as f64,
        "{name}, shared: {bytes:.1} bytes each"
    );
}
