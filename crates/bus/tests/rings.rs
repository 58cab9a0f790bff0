//! Delivery to rings and streams.

use courser_router::{
    Delivered, MessageStream, Overflow, Ring, RingOptions, Router, WithinHandler,
};
use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

fn drain(ring: &Ring<u32>) -> Vec<(String, u32)> {
    std::iter::from_fn(|| ring.try_recv())
        .map(|(key, n)| (key.to_string(), n))
        .collect()
}

/// Posts 0 to 9 to "a" and "b" in turn into a ring of four; what is left, and how many were dropped.
#[test]
fn each_policy_keeps_what_it_says() {
    let expect = |overflow, left: &[(&str, u32)], dropped| {
        let router: Router<u32> = Router::new();
        let ring = router
            .subscribe_ring("+", RingOptions::new(4, overflow))
            .unwrap();
        let keys = ["a", "b"].map(|key| router.key(key).unwrap());
        (0..10).for_each(|n| router.post(&keys[n as usize % 2], &n));
        assert_eq!(ring.len(), left.len());
        let left: Vec<_> = left.iter().map(|&(key, n)| (key.to_owned(), n)).collect();
        assert_eq!(
            (drain(&ring), ring.dropped()),
            (left, dropped),
            "{overflow:?}"
        );
        assert!(ring.is_empty());
    };
    expect(
        Overflow::DropOldest,
        &[("a", 6), ("b", 7), ("a", 8), ("b", 9)],
        6,
    );
    expect(
        Overflow::DropNewest,
        &[("a", 0), ("b", 1), ("a", 2), ("b", 3)],
        6,
    );
    expect(Overflow::Coalesce, &[("a", 8), ("b", 9)], 0);
}

#[test]
fn coalescing_keeps_places_and_drops_the_oldest_of_too_many_keys() {
    let router: Router<u32> = Router::new();
    let ring = router
        .subscribe_ring("#", RingOptions::new(3, Overflow::Coalesce))
        .unwrap();
    for (key, n) in [("a", 1), ("b", 2), ("c", 3), ("a", 4), ("d", 5), ("b", 6)] {
        router.post(&router.key(key).unwrap(), &n);
    }
    let expected = [("b", 6), ("c", 3), ("d", 5)].map(|(key, n)| (key.to_owned(), n));
    assert_eq!((drain(&ring), ring.dropped()), (expected.to_vec(), 1));
    router.post(&router.key("b").unwrap(), &7);
    assert_eq!(drain(&ring), [("b".to_owned(), 7)]);
}

/// Several posters into a small ring that blocks: everything arrives, in the order of each poster.
#[test]
fn a_blocking_ring_loses_nothing() {
    let router: Router<u32> = Router::new();
    let ring = router
        .subscribe_ring("n/+", RingOptions::new(2, Overflow::Block))
        .unwrap();
    std::thread::scope(|scope| {
        for thread in 0..3 {
            let router = &router;
            scope.spawn(move || {
                let key = router.key(&format!("n/{thread}")).unwrap();
                (0..2_000).for_each(|n| router.post(&key, &n));
            });
        }
        let mut next = [0; 3];
        for _ in 0..6_000 {
            let (key, n) = ring.recv();
            let thread: usize = key.token(1).unwrap().parse().unwrap();
            assert_eq!(n, next[thread], "in the order of the poster");
            next[thread] += 1;
        }
    });
    assert_eq!((ring.try_recv(), ring.dropped()), (None, 0));
}

/// A poster that waits for room is let go when the ring is dropped, and when it is closed.
#[test]
fn ending_a_ring_lets_posters_go() {
    for close in [false, true] {
        let router: Router<u32> = Router::new();
        let ring = router
            .subscribe_ring("a", RingOptions::new(1, Overflow::Block))
            .unwrap();
        let key = router.key("a").unwrap();
        let (started, done) = (AtomicBool::new(false), Arc::new(AtomicBool::new(false)));
        std::thread::scope(|scope| {
            let done_in = Arc::clone(&done);
            let (router, key, started) = (&router, &key, &started);
            let poster = scope.spawn(move || {
                router.post(key, &1);
                started.store(true, Ordering::SeqCst);
                router.post(key, &2);
                done_in.store(true, Ordering::SeqCst);
            });
            while !started.load(Ordering::SeqCst) {
                std::thread::yield_now();
            }
            std::thread::sleep(Duration::from_millis(20));
            assert!(!done.load(Ordering::SeqCst), "the second post waits");
            if close {
                let left: Vec<u32> = ring.close().unwrap().into_iter().map(|(_, n)| n).collect();
                assert_eq!(left, [1]);
            } else {
                drop(ring);
            }
            poster.join().unwrap();
        });
        router.post(&key, &3);
        assert_eq!(router.stats().subscriptions, 0);
    }
}

#[test]
fn waiting_has_a_limit() {
    let router: Router<u32> = Router::new();
    let ring = router
        .subscribe_ring("a", RingOptions::new(1, Overflow::DropOldest))
        .unwrap();
    let start = Instant::now();
    assert_eq!(ring.recv_timeout(Duration::from_millis(20)), None);
    assert!(start.elapsed() >= Duration::from_millis(20));
    let key = router.key("a").unwrap();
    router.post(&key, &7);
    assert_eq!(ring.recv_timeout(Duration::ZERO), Some((key.clone(), 7)));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(10));
            router.post(&key, &8);
        });
        assert_eq!(
            ring.recv_timeout(Duration::from_secs(20)),
            Some((key.clone(), 8))
        );
    });
}

#[test]
fn closing_within_a_handler_is_an_error() {
    let router: Router<u32> = Router::new();
    let ring = router
        .subscribe_ring("other", RingOptions::new(1, Overflow::DropOldest))
        .unwrap();
    let ring = Mutex::new(Some(ring));
    let result = Arc::new(Mutex::new(None));
    let result_in = Arc::clone(&result);
    let _closes = router.subscribe("a", move |_, _, _| {
        let ring = ring.lock().unwrap().take();
        *result_in.lock().unwrap() = ring.map(|ring| ring.close().map(|left| left.len()));
    });
    router.post(&router.key("a").unwrap(), &0);
    assert_eq!(*result.lock().unwrap(), Some(Err(WithinHandler)));
}

/// The smallest executor: one future on this thread.
fn block_on<F: Future>(future: F) -> F::Output {
    struct Unpark(std::thread::Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => std::thread::park(),
        }
    }
}

#[test]
fn a_stream_is_woken_for_every_message() {
    for overflow in [
        Overflow::Block,
        Overflow::DropOldest,
        Overflow::DropNewest,
        Overflow::Coalesce,
    ] {
        let router: Router<u32> = Router::new();
        // Room for all but where the poster is to wait.
        let capacity = if overflow == Overflow::Block {
            3
        } else {
            10_000
        };
        let mut stream: MessageStream<u32> = router
            .subscribe_stream("n/#", RingOptions::new(capacity, overflow))
            .unwrap();
        let poster = router.clone();
        let thread = std::thread::spawn(move || {
            for n in 0..3_000 {
                poster.post(&poster.key(&format!("n/{n}")).unwrap(), &n);
            }
        });
        block_on(async {
            for n in 0..3_000 {
                let (key, got): Delivered<u32> = stream.recv().await;
                assert_eq!((got, key.as_str()), (n, format!("n/{n}").as_str()));
            }
        });
        thread.join().unwrap();
        assert_eq!((stream.ring().len(), stream.ring().dropped()), (0, 0));
    }
}

#[test]
fn a_stream_is_a_stream() {
    use futures_core::Stream;
    let router: Router<u32> = Router::new();
    let mut stream = router
        .subscribe_stream("a", RingOptions::new(4, Overflow::DropNewest))
        .unwrap();
    let waker = Waker::noop();
    let mut context = Context::from_waker(waker);
    assert!(
        pin!(&mut stream)
            .as_mut()
            .poll_next(&mut context)
            .is_pending()
    );
    let key = router.key("a").unwrap();
    router.post(&key, &1);
    router.post(&key, &2);
    assert_eq!(stream.size_hint().0, 2);
    assert_eq!(
        pin!(&mut stream).as_mut().poll_next(&mut context),
        Poll::Ready(Some((key.clone(), 1)))
    );
    drop(stream);
    assert_eq!(router.stats().subscriptions, 0);
}
