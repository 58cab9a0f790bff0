//! Delivery to rings and streams.

use courser_router::{
    Delivered, Key, MessageStream, Overflow, Ring, RingOptions, Router, SubscriptionRef,
    WithinHandler,
};
use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
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
    // A key is its text, whoever made it.
    router.post(&Key::new("b").unwrap(), &8);
    assert_eq!(drain(&ring), [("b".to_owned(), 8)]);
}

/// A message whose end is a post, as long as there are some left.
struct PostsAtEnd(Router<PostsAtEnd>, Arc<AtomicUsize>);

impl Clone for PostsAtEnd {
    fn clone(&self) -> Self {
        PostsAtEnd(self.0.clone(), Arc::clone(&self.1))
    }
}

impl Drop for PostsAtEnd {
    fn drop(&mut self) {
        let took = |left: usize| left.checked_sub(1);
        if self
            .1
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, took)
            .is_ok()
        {
            let key = self.0.key("a").unwrap();
            self.0.post(&key, self);
        }
    }
}

/// What a full ring lets go of may post to the same ring: it is not dropped under a lock.
#[test]
fn a_message_may_post_when_it_goes() {
    for overflow in [
        Overflow::DropOldest,
        Overflow::DropNewest,
        Overflow::Coalesce,
    ] {
        for filter in ["a", "+"] {
            let (done, is_done) = std::sync::mpsc::channel();
            std::thread::spawn(move || {
                let router: Router<PostsAtEnd> = Router::new();
                let ring = router
                    .subscribe_ring(filter, RingOptions::new(1, overflow))
                    .unwrap();
                let left = Arc::new(AtomicUsize::new(0));
                let message = PostsAtEnd(router.clone(), Arc::clone(&left));
                router.post(&router.key("b").unwrap(), &message);
                for _ in 0..3 {
                    router.post(&router.key("a").unwrap(), &message);
                }
                left.store(3, Ordering::SeqCst);
                router.post(&router.key("a").unwrap(), &message);
                assert_eq!(
                    left.load(Ordering::SeqCst),
                    0,
                    "{overflow:?}: three went and posted"
                );
                assert_eq!(ring.len(), 1);
                done.send(()).unwrap();
            });
            let is_done = is_done.recv_timeout(Duration::from_secs(20));
            assert_eq!(is_done, Ok(()), "{overflow:?} of {filter}");
        }
    }
}

/// A copy that cannot be made is a handler that panics: counted, and the others get the message.
#[test]
fn a_message_whose_copy_panics_stops_nobody() {
    struct Copied(bool);
    impl Clone for Copied {
        fn clone(&self) -> Self {
            assert!(!self.0, "on purpose");
            Copied(self.0)
        }
    }
    let router: Router<Copied> = Router::new();
    let key = router.key("a").unwrap();
    let all = [
        Overflow::Block,
        Overflow::DropOldest,
        Overflow::DropNewest,
        Overflow::Coalesce,
    ];
    let rings = all.map(|overflow| {
        let options = RingOptions::new(4, overflow);
        router.subscribe_ring("a", options).unwrap()
    });
    let streams = all.map(|overflow| {
        let options = RingOptions::new(4, overflow);
        router.subscribe_stream("+", options).unwrap()
    });
    let calls = Arc::new(AtomicUsize::new(0));
    let calls_in = Arc::clone(&calls);
    let count = move |_: SubscriptionRef<'_, Copied>, _: &Key, _: &Copied| {
        calls_in.fetch_add(1, Ordering::SeqCst);
    };
    let _plain = ["a", "+"].map(|filter| router.subscribe(filter, count.clone()).unwrap());
    std::panic::set_hook(Box::new(|_| {}));
    router.post(&key, &Copied(true));
    let _ = std::panic::take_hook();
    assert_eq!(
        (router.stats().panics, calls.load(Ordering::SeqCst)),
        (8, 2)
    );
    router.post(&key, &Copied(false));
    assert_eq!(
        (router.stats().panics, calls.load(Ordering::SeqCst)),
        (8, 4)
    );
    assert!(
        rings
            .iter()
            .chain(streams.iter().map(MessageStream::ring))
            .all(|ring| ring.len() == 1)
    );
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

/// The waker of the last poll is called, once for each time that it waits; after the stream is dropped nobody keeps it.
#[test]
fn the_last_waker_is_called_and_let_go() {
    use futures_core::Stream;
    #[derive(Default)]
    struct Counts(AtomicUsize);
    impl Wake for Counts {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
    let router: Router<u32> = Router::new();
    let key = router.key("a").unwrap();
    let options = RingOptions::new(4, Overflow::DropNewest);
    let mut stream = router.subscribe_stream("a", options).unwrap();
    let counts = [Arc::new(Counts::default()), Arc::new(Counts::default())];
    let wakers = [0, 1].map(|at: usize| Waker::from(Arc::clone(&counts[at])));
    let woken = || [0, 1].map(|at: usize| counts[at].0.load(Ordering::SeqCst));
    let mut poll = |waker: &Waker| pin!(&mut stream).poll_next(&mut Context::from_waker(waker));

    assert!(poll(&wakers[0]).is_pending() && poll(&wakers[1]).is_pending());
    router.post(&key, &1);
    router.post(&key, &2);
    assert_eq!(woken(), [0, 1], "the last one, and once");
    assert_eq!(poll(&wakers[0]), Poll::Ready(Some((key.clone(), 1))));
    assert_eq!(poll(&wakers[0]), Poll::Ready(Some((key.clone(), 2))));
    assert!(poll(&wakers[0]).is_pending());
    router.post(&key, &3);
    assert_eq!(woken(), [1, 1]);
    assert_eq!(poll(&wakers[0]), Poll::Ready(Some((key.clone(), 3))));

    assert!(poll(&wakers[0]).is_pending());
    drop(stream);
    drop(wakers);
    router.post(&key, &4);
    assert_eq!(woken(), [1, 1]);
    assert_eq!(counts.each_ref().map(Arc::strong_count), [1, 1]);
}

/// A task that gives up waiting has taken nothing.
#[test]
fn a_receive_that_is_dropped_loses_nothing() {
    let router: Router<u32> = Router::new();
    let options = RingOptions::new(4, Overflow::Block);
    let mut stream = router.subscribe_stream("a", options).unwrap();
    {
        let mut gives_up = pin!(stream.recv());
        let mut context = Context::from_waker(Waker::noop());
        assert!(gives_up.as_mut().poll(&mut context).is_pending());
        router.post(&router.key("a").unwrap(), &1);
    }
    assert_eq!(block_on(stream.recv()).1, 1);
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
