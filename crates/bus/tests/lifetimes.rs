//! When handlers may be called, and when they are dropped.

use courser_router::{Key, Router, Subscription, SubscriptionRef, WithinHandler};
use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Posts when the thread ends, if it is the thread's `LAST`.
struct PostsLast(Router<u64>, Key);

impl Drop for PostsLast {
    fn drop(&mut self) {
        self.0.post(&self.1, &0);
    }
}

thread_local!(static LAST: RefCell<Option<PostsLast>> = const { RefCell::new(None) });

fn count(
    calls: &Arc<AtomicUsize>,
) -> impl Fn(courser_router::SubscriptionRef<'_, u64>, &Key, &u64) + use<> {
    let calls = Arc::clone(calls);
    move |_, _, _| {
        calls.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn a_panicking_handler_does_not_stop_the_others() {
    let router: Router<u64> = Router::new();
    let key = router.key("a").unwrap();
    let calls = Arc::new(AtomicUsize::new(0));
    let mut all = Vec::new();
    // One type each, and enough of both for slots and whole chunks.
    for i in 0..200 {
        all.push(router.subscribe("a", count(&calls)).unwrap());
        let sink = Arc::clone(&calls);
        all.push(
            router
                .subscribe("+", move |_, _, _| {
                    sink.fetch_add(1, Ordering::Relaxed);
                    if i % 3 == 0 {
                        std::panic::panic_any(PanicsAgain);
                    }
                })
                .unwrap(),
        );
    }
    std::panic::set_hook(Box::new(|_| {}));
    router.post(&key, &0);
    router.post(&key, &0);
    let _ = std::panic::take_hook();
    assert_eq!(calls.load(Ordering::Relaxed), 800);
    assert_eq!((router.stats().panics, router.stats().hits), (2 * 67, 800));

    struct PanicsAgain;
    impl Drop for PanicsAgain {
        fn drop(&mut self) {
            panic!("while what was thrown is dropped");
        }
    }
}

#[test]
fn a_handler_may_end_itself_and_others_and_begin_new_ones() {
    let router: Router<u64> = Router::new();
    let key = router.key("a").unwrap();
    let calls = Arc::new(AtomicUsize::new(0));
    // Ends itself at its first call.
    let own = Arc::clone(&calls);
    let once = router.subscribe("a", move |me, _, _| {
        assert!(me.unsubscribe() && !me.unsubscribe());
        own.fetch_add(1, Ordering::Relaxed);
    });
    let once = once.unwrap();
    router.post(&key, &0);
    router.post(&key, &0);
    assert_eq!(calls.swap(0, Ordering::Relaxed), 1);
    assert!(!once.is_live());

    // The first of many of one type ends all others: none of them is called.
    let others: Arc<Mutex<Vec<Subscription>>> = Arc::default();
    for _ in 0..50 {
        let (others_in, calls) = (Arc::clone(&others), Arc::clone(&calls));
        let one = router.subscribe("a", move |me, _, _| {
            calls.fetch_add(1, Ordering::Relaxed);
            others_in
                .lock()
                .unwrap()
                .retain(|other| other.id() == me.id());
        });
        others.lock().unwrap().push(one.unwrap());
    }
    router.post(&key, &0);
    assert_eq!(
        calls.swap(0, Ordering::Relaxed),
        1,
        "no call starts after unsubscribe has returned"
    );
    others.lock().unwrap().clear();

    // Subscribes from within, and posts from within: what was begun is seen by the inner post.
    let (begun, calls_in) = (Arc::new(Mutex::new(Vec::new())), Arc::clone(&calls));
    let begun_in = Arc::clone(&begun);
    let outer = router.subscribe("a", move |me, _, depth| {
        let mut begun = begun_in.lock().unwrap();
        for _ in 0..10 {
            begun.push(me.router().subscribe("b", count(&calls_in)).unwrap());
        }
        drop(begun);
        me.router().post(&me.router().key("b").unwrap(), depth);
    });
    let outer = outer.unwrap();
    for round in 1..=5 {
        router.post(&key, &0);
        assert_eq!(calls.swap(0, Ordering::Relaxed), 10 * round);
    }
    drop(outer);
    assert_eq!(router.stats().subscriptions, 50);
    assert_eq!(router.stats().posts, 3 + 10);
}

/// A post within a handler that changes what the key of the outer post matches, again and again: the outer walk
/// goes on over the plan it began with.
#[test]
fn a_plan_outlives_being_replaced_from_within() {
    let router: Router<u64> = Router::with_options(courser_router::RouterOptions {
        cached_keys: 1,
        cached_bytes: 0,
    });
    let key = router.key("a/b").unwrap();
    let calls = Arc::new(AtomicUsize::new(0));
    let kept: Arc<Mutex<Vec<Subscription>>> = Arc::default();
    let many: Vec<_> = (0..100)
        .map(|_| router.subscribe("a/b", count(&calls)).unwrap())
        .collect();
    let (kept_in, calls_in) = (Arc::clone(&kept), Arc::clone(&calls));
    let nests = router.subscribe("#", move |me, route, &depth| {
        if depth < 5 {
            for filter in ["a/+", "a/b/#", "+/b"] {
                kept_in
                    .lock()
                    .unwrap()
                    .push(me.router().subscribe(filter, count(&calls_in)).unwrap());
            }
            me.router().post(route, &(depth + 1));
            me.router().post(&Key::new("x").unwrap(), &9);
        }
    });
    router.post(&key, &0);
    // Depth d sees the 3 d subscriptions that were there when it began.
    let expected: usize = (0..=5).map(|depth| 100 + 3 * depth).sum();
    assert_eq!(calls.load(Ordering::Relaxed), expected);
    drop((nests, many));
    assert_eq!(kept.lock().unwrap().len(), 15);
}

#[test]
fn handlers_are_dropped_once_and_in_time() {
    struct Counted(Arc<AtomicUsize>);
    impl Drop for Counted {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
    let dropped = Arc::new(AtomicUsize::new(0));
    let router: Router<u64> = Router::new();
    let subscribe = |filter: &str| {
        let counted = Counted(Arc::clone(&dropped));
        router
            .subscribe(filter, move |_, _, _| {
                assert!(Arc::strong_count(&counted.0) > 0)
            })
            .unwrap()
    };
    let key = router.key("a").unwrap();

    subscribe("a").unsubscribe_wait().unwrap();
    assert_eq!(dropped.load(Ordering::SeqCst), 1);

    let all: Vec<_> = (0..100)
        .map(|i| subscribe(["a", "+", "a/#"][i % 3]))
        .collect();
    router.post(&key, &0);
    drop(all);
    assert_eq!(router.stats().retired, 0, "no post is under way");
    router.collect();
    assert_eq!(dropped.load(Ordering::SeqCst), 101);

    // Detached ones live as long as the router, and can be ended by number.
    let ids: Vec<_> = (0..10).map(|_| subscribe("b").detach()).collect();
    assert!(router.unsubscribe(ids[3]) && !router.unsubscribe(ids[3]));
    router.collect();
    assert_eq!(dropped.load(Ordering::SeqCst), 102);
    let kept = subscribe("c");
    drop(router);
    assert_eq!(
        dropped.load(Ordering::SeqCst),
        102,
        "a subscription holds the router"
    );
    drop(kept);
    assert_eq!(dropped.load(Ordering::SeqCst), 112);
}

/// What a handler throws when it is dropped may panic as well: those that wait behind it are dropped all the same.
#[test]
fn what_a_dropped_handler_throws_may_panic_too() {
    struct Throws;
    impl Drop for Throws {
        fn drop(&mut self) {
            std::panic::panic_any(ThrowsAgain);
        }
    }
    struct ThrowsAgain;
    impl Drop for ThrowsAgain {
        fn drop(&mut self) {
            panic!("while what was thrown is dropped");
        }
    }
    let router: Router<u64> = Router::new();
    let throws = Throws;
    let bad = router
        .subscribe("a", move |_, _, _| assert_eq!(size_of_val(&throws), 0))
        .unwrap();
    std::panic::set_hook(Box::new(|_| {}));
    drop(bad);
    let _ = std::panic::take_hook();
    assert_eq!((router.stats().panics, router.stats().retired), (1, 0));
    let held = Arc::new(());
    let held_in = Arc::clone(&held);
    let good = router
        .subscribe("a", move |_, _, _| assert!(Arc::strong_count(&held_in) > 1))
        .unwrap();
    drop(good);
    assert_eq!(Arc::strong_count(&held), 1);
}

/// Retained messages come outside of a post, where a panic is caught as well.
#[test]
fn a_handler_that_panics_at_a_retained_message_stays() {
    let router: Router<u64> = Router::new();
    let keys = ["a/1", "a/2", "a/3"].map(|key| router.key(key).unwrap());
    keys.iter().for_each(|key| router.post_retained(key, 2));
    router.post_retained(&keys[1], 1);
    let calls = Arc::new(AtomicUsize::new(0));
    let calls_in = Arc::clone(&calls);
    std::panic::set_hook(Box::new(|_| {}));
    let subscription = router.subscribe_with_retained("a/+", move |_, message| {
        calls_in.fetch_add(1, Ordering::Relaxed);
        assert_eq!(*message, 2);
    });
    let _ = std::panic::take_hook();
    let subscription = subscription.unwrap();
    assert_eq!(
        (calls.load(Ordering::Relaxed), router.stats().panics),
        (3, 1)
    );
    router.post(&keys[1], &2);
    assert_eq!(
        (calls.load(Ordering::Relaxed), router.stats().panics),
        (4, 1)
    );
    drop(subscription);
}

/// A post is in the middle of its first handler on one thread, while another ends all others: slots that plans name one
/// by one, whole chunks, and several types. None of them is called any more.
#[test]
fn no_call_starts_after_another_thread_has_unsubscribed() {
    for router in [Router::<u64>::new(), Router::with_fences()] {
        for (filters, each) in [
            (&["a"][..], 3),
            (&["a", "+", "a/#", "+/#"], 2),
            (&["a", "#"], 200),
        ] {
            let key = router.key("a").unwrap();
            let (calls, first) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicU64::new(0)));
            let goes_on = Arc::new(AtomicBool::new(false));
            let mut all: Vec<Subscription> = Vec::new();
            for filter in filters
                .iter()
                .flat_map(|filter| std::iter::repeat_n(*filter, each))
            {
                for boxed in [false, true] {
                    let (calls, first) = (Arc::clone(&calls), Arc::clone(&first));
                    let goes_on = Arc::clone(&goes_on);
                    let waits = move |me: SubscriptionRef<'_, u64>, _: &Key, _: &u64| {
                        calls.fetch_add(1, Ordering::SeqCst);
                        first.store(me.id().get(), Ordering::SeqCst);
                        while !goes_on.load(Ordering::SeqCst) {
                            std::thread::yield_now();
                        }
                    };
                    all.push(if boxed {
                        let other_type = Box::new(waits);
                        let waits =
                            move |me: SubscriptionRef<'_, u64>, key: &Key, message: &u64| {
                                other_type(me, key, message);
                            };
                        router.subscribe(filter, waits).unwrap()
                    } else {
                        router.subscribe(filter, waits).unwrap()
                    });
                }
            }
            std::thread::scope(|scope| {
                scope.spawn(|| router.post(&key, &0));
                while first.load(Ordering::SeqCst) == 0 {
                    std::thread::yield_now();
                }
                all.drain(..).for_each(Subscription::unsubscribe);
                goes_on.store(true, Ordering::SeqCst);
            });
            assert_eq!(
                calls.load(Ordering::SeqCst),
                1,
                "{each} each of {filters:?}"
            );
        }
        router.collect();
        assert_eq!(
            (router.stats().subscriptions, router.stats().retired),
            (0, 0)
        );
    }
}

/// One thread changes, and tells another one, which then posts and must find exactly what there is: with keys that it knows,
/// and with new ones.
#[test]
fn changes_are_seen_by_posts_that_other_threads_start_afterwards() {
    const ROUNDS: u64 = 3_000;
    for router in [Router::<u64>::new(), Router::with_fences()] {
        let known = router.key("k/0/x").unwrap();
        let calls = Arc::new(AtomicUsize::new(0));
        // Odd: as many subscriptions as `expected` says, to be checked. Even: checked.
        let (turn, expected) = (AtomicU64::new(0), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for round in 0..2 * ROUNDS {
                    while turn.load(Ordering::Acquire) != 2 * round + 1 {
                        std::hint::spin_loop();
                        std::thread::yield_now();
                    }
                    let expected = expected.load(Ordering::Relaxed);
                    let new = Key::new("k/0/x").unwrap();
                    for key in [&known, &known, &new] {
                        calls.store(0, Ordering::Relaxed);
                        router.post(key, &0);
                        let called = calls.load(Ordering::Relaxed);
                        if called != expected {
                            turn.store(u64::MAX, Ordering::Release);
                            panic!("{called} calls, {expected} subscriptions, round {round}");
                        }
                    }
                    turn.store(2 * round + 2, Ordering::Release);
                }
            });
            let told = |round: u64, live: usize| {
                expected.store(live, Ordering::Relaxed);
                turn.store(2 * round + 1, Ordering::Release);
                loop {
                    match turn.load(Ordering::Acquire) {
                        u64::MAX => return false,
                        checked if checked == 2 * round + 2 => return true,
                        _ => std::thread::yield_now(),
                    }
                }
            };
            let mut live: Vec<Subscription> = Vec::new();
            for round in 0..ROUNDS {
                let filter = ["k/0/x", "k/+/x", "k/#", "+/0/x", "#"][(round % 5) as usize];
                live.push(router.subscribe(filter, count(&calls)).unwrap());
                if !told(2 * round, live.len()) {
                    return;
                }
                // Up to some forty, so that lists have slots of both kinds, then down to none.
                if round / 40 % 2 == 1 {
                    (0..2).for_each(|_| drop(live.pop()));
                }
                if !told(2 * round + 1, live.len()) {
                    return;
                }
            }
        });
    }
}

#[test]
fn a_handler_whose_drop_uses_the_router_or_panics() {
    struct Ends(Option<Subscription>, bool);
    impl Drop for Ends {
        fn drop(&mut self) {
            drop(self.0.take());
            assert!(!self.1, "on purpose");
        }
    }
    let router: Router<u64> = Router::new();
    for panics in [false, true] {
        let held = router.subscribe("a", |_, _, _| {}).unwrap();
        let ends = Ends(Some(held), panics);
        let outer = router
            .subscribe("b", move |_, _, _| assert!(ends.0.is_some()))
            .unwrap();
        assert_eq!(router.stats().subscriptions, 2);
        std::panic::set_hook(Box::new(|_| {}));
        outer.unsubscribe_wait().unwrap();
        let _ = std::panic::take_hook();
        assert_eq!(router.stats().subscriptions, 0);
        assert_eq!(router.stats().panics, u64::from(panics));
    }
}

#[test]
fn waiting_within_a_handler_is_an_error() {
    let router: Router<u64> = Router::new();
    let key = router.key("a").unwrap();
    let other = Mutex::new(Some(router.subscribe("b", |_, _, _| {}).unwrap()));
    let result = Arc::new(Mutex::new(None));
    let result_in = Arc::clone(&result);
    let _waits = router.subscribe("a", move |_, _, _| {
        if let Some(other) = other.lock().unwrap().take() {
            *result_in.lock().unwrap() = Some(other.unsubscribe_wait());
        }
    });
    router.post(&key, &0);
    assert_eq!(*result.lock().unwrap(), Some(Err(WithinHandler)));
    assert_eq!(router.stats().subscriptions, 1, "it has ended all the same");
}

/// Also in a destructor of a thread local, where the thread has no record any more; and a post to another router in between
/// hides nothing.
#[test]
fn waiting_within_a_handler_is_an_error_while_the_thread_ends() {
    let (router, between): (Router<u64>, Router<u64>) = (Router::new(), Router::new());
    let ended = Mutex::new(vec![
        router.subscribe("b", |_, _, _| {}).unwrap(),
        router.subscribe("b", |_, _, _| {}).unwrap(),
    ]);
    let (results, result) = std::sync::mpsc::channel();
    let wait = move || {
        let one = ended.lock().unwrap().pop().expect("two are waited for");
        results.send(one.unsubscribe_wait()).unwrap();
    };
    let wait = Arc::new(wait);
    let wait_in = Arc::clone(&wait);
    let _inner = between.subscribe("a", move |_, _, _| wait_in()).unwrap();
    let (between_in, key) = (between.clone(), between.key("a").unwrap());
    let _outer = router
        .subscribe("a", move |_, _, _| {
            between_in.post(&key, &0);
            wait();
        })
        .unwrap();
    let (router_in, key) = (router.clone(), router.key("a").unwrap());
    std::thread::spawn(move || {
        // First, so that it is destroyed after what the router keeps for the thread, which the post brings about.
        LAST.set(Some(PostsLast(router_in.clone(), key)));
        router_in.post(&router_in.key("of nobody").unwrap(), &0);
    });
    for _ in 0..2 {
        let result = result.recv_timeout(Duration::from_secs(20));
        assert_eq!(result, Ok(Err(WithinHandler)));
    }
}

/// `unsubscribe_wait` returns only after the handler that is running has ended.
#[test]
fn unsubscribe_wait_waits() {
    for router in [Router::<u64>::new(), Router::with_fences()] {
        let key = router.key("a").unwrap();
        let (started, finished) = (
            Arc::new(AtomicBool::new(false)),
            Arc::new(AtomicBool::new(false)),
        );
        let (started_in, finished_in) = (Arc::clone(&started), Arc::clone(&finished));
        let slow = router.subscribe("a", move |_, _, _| {
            started_in.store(true, Ordering::SeqCst);
            std::thread::sleep(Duration::from_millis(50));
            finished_in.store(true, Ordering::SeqCst);
        });
        let slow = slow.unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| router.post(&key, &0));
            while !started.load(Ordering::SeqCst) {
                std::thread::yield_now();
            }
            assert!(
                !finished.load(Ordering::SeqCst),
                "the test's machine is too slow to tell"
            );
            slow.unsubscribe_wait().unwrap();
            assert!(
                finished.load(Ordering::SeqCst),
                "the running call has ended"
            );
        });
    }
}

/// Posters on several threads while others subscribe and unsubscribe: no call after `unsubscribe_wait`, a post
/// after `subscribe` reaches it, no call of a dropped handler.
#[test]
fn threads_post_subscribe_and_unsubscribe() {
    struct Canary(Arc<AtomicBool>);
    impl Drop for Canary {
        fn drop(&mut self) {
            self.0.store(true, Ordering::SeqCst);
        }
    }
    /// Stops the posters, also when the test has failed.
    struct Stops<'a>(&'a AtomicBool);
    impl Drop for Stops<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    for router in [Router::<u64>::new(), Router::with_fences()] {
        let stop = AtomicBool::new(false);
        let posted = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for thread in 0..2 {
                let (router, stop, posted) = (&router, &stop, &posted);
                scope.spawn(move || {
                    let keys: Vec<Key> = (0..20)
                        .map(|i| router.key(&format!("k/{i}/{thread}")).unwrap())
                        .collect();
                    while !stop.load(Ordering::Relaxed) {
                        keys.iter().for_each(|key| router.post(key, &1));
                        posted.fetch_add(20, Ordering::Relaxed);
                    }
                });
            }
            for churner in 0..2u64 {
                let (router, stop) = (&router, &stop);
                scope.spawn(move || {
                    let _stops = (churner == 0).then(|| Stops(stop));
                    let mine = router.key(&format!("k/{churner}/0")).unwrap();
                    for round in 0..1_500u64 {
                        let ended = Arc::new(AtomicBool::new(false));
                        let dropped = Arc::new(AtomicBool::new(false));
                        let calls = Arc::new(AtomicUsize::new(0));
                        let (ended_in, calls_in) = (Arc::clone(&ended), Arc::clone(&calls));
                        let canary = Canary(Arc::clone(&dropped));
                        let filter =
                            ["k/#", "k/+/0", "k/0/+", "+/1/0", "k/+/+"][(round % 5) as usize];
                        let one = router.subscribe(filter, move |_, _, _| {
                            assert!(!canary.0.load(Ordering::SeqCst), "the handler is dropped");
                            assert!(
                                !ended_in.load(Ordering::SeqCst),
                                "called after unsubscribe_wait"
                            );
                            calls_in.fetch_add(1, Ordering::Relaxed);
                        });
                        let one = one.unwrap();
                        let hears =
                            round % 5 < 2 || (round % 5 == 4) || (round % 5 == 2) == (churner == 0);
                        router.post(&mine, &2);
                        assert!(
                            calls.load(Ordering::Relaxed) > 0 || !hears,
                            "{filter} on {mine}"
                        );
                        if round % 2 == 0 {
                            one.unsubscribe_wait().unwrap();
                            ended.store(true, Ordering::SeqCst);
                        } else {
                            one.unsubscribe();
                        }
                    }
                });
            }
        });
        assert!(posted.load(Ordering::Relaxed) > 0);
        assert_eq!(router.collect(), 0);
        // A scope ends before the thread locals of its threads do.
        while router.stats().threads != 0 {
            std::thread::yield_now();
        }
        let stats = router.stats();
        assert_eq!(
            (stats.subscriptions, stats.filters, stats.panics),
            (0, 0, 0)
        );
        assert!(
            stats.posts >= posted.load(Ordering::Relaxed) + 3_000,
            "ended threads are still counted"
        );
    }
}

/// Routers come and go on one thread, and threads on one router; posts from destructors of thread locals work.
#[test]
fn records_of_threads_and_routers() {
    for round in 0..200 {
        let router: Router<u64> = Router::new();
        let calls = Arc::new(AtomicUsize::new(0));
        let _one = router.subscribe("a", count(&calls)).unwrap();
        let key = router.key("a").unwrap();
        router.post(&key, &0);
        if round % 50 == 0 {
            std::thread::scope(|scope| {
                scope.spawn(|| router.post(&key, &0));
            });
        }
        assert_eq!(
            calls.load(Ordering::Relaxed),
            1 + usize::from(round % 50 == 0)
        );
    }

    let router: Router<u64> = Router::new();
    let key = router.key("a").unwrap();
    let calls = Arc::new(AtomicUsize::new(0));
    let _one = router.subscribe("a", count(&calls)).unwrap();
    let (router_in, key_in) = (router.clone(), key.clone());
    std::thread::spawn(move || {
        // First, so that it is destroyed after what the router keeps for the thread, or before: either works.
        LAST.set(Some(PostsLast(router_in.clone(), key_in.clone())));
        router_in.post(&key_in, &0);
    })
    .join()
    .unwrap();
    assert_eq!(calls.load(Ordering::Relaxed), 2);
    assert_eq!((router.stats().posts, router.stats().threads), (2, 0));
}
