//! What is not allowed to cost anything: allocations of a post, memory of a subscription, a cache without bounds.
//! One test only: the counters are the process's.
#![allow(unsafe_code)] // a counting allocator cannot be had without
#![allow(clippy::print_stdout)] // the figures, with --nocapture

use courser_router::{
    Handler, Key, Overflow, RingOptions, Router, RouterOptions, Subscription, SubscriptionRef,
};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

struct Counting;
static LIVE: AtomicUsize = AtomicUsize::new(0);
static CALLS: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call is passed on to the system's allocator unchanged; counting touches no memory of it.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LIVE.fetch_add(layout.size(), Ordering::Relaxed);
        CALLS.fetch_add(1, Ordering::Relaxed);
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

#[test]
fn costs() {
    a_post_allocates_nothing();
    nor_does_one_within_a_post_or_into_a_ring();
    the_cache_is_bounded();
    coming_and_going_takes_no_more_memory();
    a_million_subscriptions_stay_small();
}

fn a_post_allocates_nothing() {
    let router: Router<Cell<u64>> = Router::new();
    let all: Vec<Subscription> = (0..2_000u64)
        .map(|i| {
            let filter = ["a/b/c", "a/+/c", "a/#", "+/b/+", "x/y"][(i % 5) as usize];
            router
                .subscribe(filter, move |_, _, sum: &Cell<u64>| sum.set(sum.get() + i))
                .unwrap()
        })
        .collect();
    let keys: Vec<Key> = (0..1_000)
        .map(|i| router.key(&format!("a/b/{i}")).unwrap())
        .collect();
    let sum = Cell::new(0);
    keys.iter().for_each(|key| router.post(key, &sum));
    let before = CALLS.load(Ordering::Relaxed);
    (0..10).for_each(|_| keys.iter().for_each(|key| router.post(key, &sum)));
    assert_eq!(
        CALLS.load(Ordering::Relaxed) - before,
        0,
        "allocations in 10,000 posts"
    );

    // A subscription more of a filter with many, and one less, do not spoil the plans either.
    let more = router
        .subscribe("a/#", move |_, _, sum: &Cell<u64>| sum.set(sum.get() + 1))
        .unwrap();
    drop(more);
    let stats = router.stats();
    (0..10).for_each(|_| keys.iter().for_each(|key| router.post(key, &sum)));
    assert!(router.stats().cache_misses - stats.cache_misses <= 1_000);
    drop(all);
}

/// Every way a message can go: handlers of other types, posts within a post, rings that have room and rings that overflow,
/// a ring that coalesces, a stream that nobody polls.
fn nor_does_one_within_a_post_or_into_a_ring() {
    let router: Router<u64> = Router::new();
    let keys = ["a/b", "a/c"].map(|text| router.key(text).unwrap());
    let inner = router.key("inner").unwrap();
    let calls = Arc::new(AtomicUsize::new(0));
    let (calls_in, inner_in) = (Arc::clone(&calls), inner.clone());
    let _nests = router
        .subscribe("a/+", move |me, _, message| {
            me.router().post(&inner_in, message);
        })
        .unwrap();
    let boxed: Box<dyn Handler<u64>> = Box::new(Counts(calls_in));
    let _inner = router.subscribe_handler("inner", boxed).unwrap();
    let all = [
        Overflow::DropOldest,
        Overflow::DropNewest,
        Overflow::Coalesce,
    ];
    let full = all.map(|overflow| {
        let options = RingOptions::new(1, overflow);
        router.subscribe_ring("a/#", options).unwrap()
    });
    let stream = router
        .subscribe_stream("#", RingOptions::new(4, Overflow::DropOldest))
        .unwrap();
    let emptied = router
        .subscribe_ring("+/+", RingOptions::new(4, Overflow::Block))
        .unwrap();
    let post = |times: u64| {
        for n in 0..times {
            for key in &keys {
                router.post(key, &n);
                assert_eq!(emptied.try_recv().map(|(_, n)| n), Some(n));
            }
        }
    };
    post(10);
    let before = CALLS.load(Ordering::Relaxed);
    post(1_000);
    assert_eq!(
        CALLS.load(Ordering::Relaxed) - before,
        0,
        "allocations in 4,000 posts"
    );
    assert_eq!(calls.load(Ordering::Relaxed), 2 * 1_010);
    assert!(full.iter().all(|ring| ring.len() == 1));
    assert_eq!(stream.ring().len(), 4);
}

struct Counts(Arc<AtomicUsize>);

impl Handler<u64> for Counts {
    fn handle(&self, _: SubscriptionRef<'_, u64>, _: &Key, _: &u64) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// Slots that plans name one by one are used once, so what comes and goes beside one who stays must find other places.
fn coming_and_going_takes_no_more_memory() {
    let router: Router<Cell<u64>> = Router::new();
    let count =
        |_: SubscriptionRef<'_, Cell<u64>>, _: &Key, sum: &Cell<u64>| sum.set(sum.get() + 1);
    let _stays = router.subscribe("a/+", count).unwrap();
    let (key, sum) = (router.key("a/b").unwrap(), Cell::new(0));
    let come_and_go = |times: u64| {
        sum.set(0);
        for _ in 0..times {
            let comes = router.subscribe("a/+", count).unwrap();
            router.post(&key, &sum);
            drop(comes);
            router.post(&key, &sum);
        }
        assert_eq!(sum.get(), 3 * times, "two, then one");
    };
    come_and_go(1_000);
    let before = live();
    come_and_go(10_000);
    let after = live();
    assert!(after <= before + 1_024, "{before} bytes, then {after}");
}

fn the_cache_is_bounded() {
    let router: Router<Cell<u64>> = Router::with_options(RouterOptions {
        cached_keys: 1_000,
        cached_bytes: 64 << 10,
    });
    let all: Vec<Subscription> = (0..1_000u64)
        .map(|i| {
            router
                .subscribe(&format!("k/{i}/#"), move |_, _, sum: &Cell<u64>| sum.set(i))
                .unwrap()
        })
        .collect();
    let before = live();
    let sum = Cell::new(0);
    for i in 0..100_000u64 {
        router.post(&Key::new(&format!("k/{}/{i}", i % 1_000)).unwrap(), &sum);
        assert_eq!(sum.get(), i % 1_000);
    }
    let grown = live() - before;
    println!("cache after 100,000 keys: {grown} bytes");
    assert!(router.stats().cached_bytes <= 64 << 10);
    assert!(grown <= 1 << 20, "{grown} bytes for 100,000 keys");
    drop(all);
}

/// The same, and a handler of 8 bytes, which is part of the figure, as is the handle.
fn a_million_subscriptions_stay_small() {
    let n: u64 = if cfg!(debug_assertions) {
        150_000
    } else {
        1_000_000
    };
    type Shape = (&'static str, fn(u64) -> String);
    let shapes: [Shape; 3] = [
        ("a tree of 10 x 20 x 50 x 100", |i| {
            format!(
                "org/r{}/s{}/l{}/d{}",
                i % 10,
                i / 10 % 20,
                i / 200 % 50,
                i / 10_000
            )
        }),
        ("wildcards in the middle", |i| {
            format!("org/+/s{}/+/d{}", i % 1_000, i / 1_000)
        }),
        ("100,000 filters with 10 each", |i| {
            format!("org/r{}/s{}/l{}/d", i % 10, i / 10 % 100, i / 1_000 % 100)
        }),
    ];
    // One shape without optimisation, where all would take a minute.
    let count = if cfg!(debug_assertions) {
        1
    } else {
        shapes.len()
    };
    for (name, filter) in shapes.into_iter().take(count) {
        let router: Router<Cell<u64>> = Router::new();
        let before = live();
        let mut all: Vec<Subscription> = Vec::with_capacity(n as usize);
        for i in 0..n {
            all.push(
                router
                    .subscribe(&filter(i), move |_, _, sum: &Cell<u64>| sum.set(i))
                    .unwrap(),
            );
        }
        let bytes = (live() - before) as f64 / n as f64;
        println!("{name}: {bytes:.1} bytes each, the handler's 8 and the handle's 24 included");
        assert!(bytes <= 160.0, "{name}: {bytes:.1} bytes each");
        let sum = Cell::new(0);
        router.post(&Key::new(&filter(n - 1).replace('+', "x")).unwrap(), &sum);
        assert_eq!(sum.get(), n - 1);
    }
}
