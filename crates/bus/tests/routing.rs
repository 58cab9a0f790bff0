//! What a post reaches, against a naive matcher and through every kind of change.

use courser_router::{Filter, Handler, Key, Router, RouterOptions, Subscription, SubscriptionRef};
use proptest::prelude::*;
use std::cell::RefCell;
use std::collections::BTreeMap;

/// Messages need not be `Sync`: handlers write their numbers into them.
type Seen = RefCell<Vec<u32>>;

fn post(router: &Router<Seen>, key: &Key) -> Vec<u32> {
    let seen = Seen::default();
    router.post(key, &seen);
    let mut seen = seen.into_inner();
    seen.sort_unstable();
    seen
}

/// Four types of handlers, so that every filter may have several lists: a number, one with padding, one that is
/// dropped with effect, one behind a box.
struct Wide(u32, [u64; 5]);
struct Owned(Box<u32>);
struct Small(u8);

impl Handler<Seen> for Wide {
    fn handle(&self, _: SubscriptionRef<'_, Seen>, _: &Key, seen: &Seen) {
        assert_eq!(self.1, [u64::from(self.0); 5]);
        seen.borrow_mut().push(self.0);
    }
}

impl Handler<Seen> for Owned {
    fn handle(&self, _: SubscriptionRef<'_, Seen>, _: &Key, seen: &Seen) {
        seen.borrow_mut().push(*self.0);
    }
}

impl Handler<Seen> for Small {
    fn handle(&self, _: SubscriptionRef<'_, Seen>, _: &Key, seen: &Seen) {
        seen.borrow_mut().push(u32::from(self.0) << 24);
    }
}

/// Subscribes the handler with number `n`, of a type that `n` decides; returns what it will report.
fn subscribe(router: &Router<Seen>, filter: &str, n: u32) -> (u32, Subscription) {
    let subscribed = match n % 5 {
        0 => router.subscribe_handler(filter, Wide(n, [u64::from(n); 5])),
        1 => router.subscribe_handler(filter, Owned(Box::new(n))),
        2 => router.subscribe_handler(filter, Small(n as u8)),
        3 => {
            let boxed: Box<dyn Handler<Seen>> = Box::new(Owned(Box::new(n)));
            router.subscribe_handler(filter, boxed)
        }
        _ => router.subscribe(filter, move |_, _, seen: &Seen| seen.borrow_mut().push(n)),
    };
    let reported = if n % 5 == 2 {
        u32::from(n as u8) << 24
    } else {
        n
    };
    (reported, subscribed.unwrap())
}

fn level() -> impl Strategy<Value = String> {
    prop::sample::select(vec!["a", "a", "b", "b", "", "$s", "é", "日本"]).prop_map(str::to_owned)
}

fn key() -> impl Strategy<Value = String> {
    prop::collection::vec(level(), 1..5)
        .prop_map(|l| l.join("/"))
        .prop_filter("not empty", |k| !k.is_empty())
}

fn filter() -> impl Strategy<Value = String> {
    let level = prop_oneof![2 => level(), 1 => Just("+".to_owned())];
    (
        prop::collection::vec(level, 0..4),
        prop::bool::weighted(0.3),
    )
        .prop_map(|(mut levels, rest)| {
            if rest || levels.is_empty() {
                levels.push("#".to_owned());
            }
            levels.join("/")
        })
        .prop_filter("not empty", |f| !f.is_empty())
}

fn naive(filter: &str, key: &str) -> bool {
    fn levels(filter: &[&str], key: &[&str]) -> bool {
        match (filter, key) {
            (["#"], _) | ([], []) => true,
            (["+", filter @ ..], [_, key @ ..]) => levels(filter, key),
            ([a, filter @ ..], [b, key @ ..]) => a == b && levels(filter, key),
            _ => false,
        }
    }
    let wild = filter.starts_with('+') || filter.starts_with('#');
    let (filter, levels_of_key): (Vec<_>, Vec<_>) =
        (filter.split('/').collect(), key.split('/').collect());
    !(wild && key.starts_with('$')) && levels(&filter, &levels_of_key)
}

#[derive(Debug, Clone)]
enum Op {
    Subscribe(String, u8),
    Unsubscribe(prop::sample::Index),
    Post(usize),
    PostNew(String),
    Collect,
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => (filter(), 1..30u8).prop_map(|(f, n)| Op::Subscribe(f, n)),
        5 => any::<prop::sample::Index>().prop_map(Op::Unsubscribe),
        6 => (0..8usize).prop_map(Op::Post),
        2 => key().prop_map(Op::PostNew),
        1 => Just(Op::Collect),
    ]
}

fn run(router: &Router<Seen>, keys: &[String], ops: &[Op]) {
    let keys: Vec<Key> = keys.iter().map(|k| router.key(k).unwrap()).collect();
    let mut live: Vec<(String, u32, Subscription)> = Vec::new();
    let mut next = 0;
    let (mut posts, mut hits) = (0, 0);
    for op in ops {
        match op {
            // Several at once, so that lists get chunks of every size.
            Op::Subscribe(filter, count) => {
                for _ in 0..*count {
                    let (reported, subscription) = subscribe(router, filter, next);
                    live.push((filter.clone(), reported, subscription));
                    next += 1;
                }
            }
            Op::Unsubscribe(_) if live.is_empty() => {}
            Op::Unsubscribe(at) => {
                let at = at.index(live.len());
                live.drain(at..live.len().min(at + 20))
                    .for_each(|(_, _, s)| s.unsubscribe());
            }
            Op::Post(_) | Op::PostNew(_) => {
                let key = match op {
                    Op::Post(at) => keys[at % keys.len()].clone(),
                    Op::PostNew(text) => Key::new(text).unwrap(),
                    Op::Subscribe(..) | Op::Unsubscribe(_) | Op::Collect => unreachable!(),
                };
                let matching = live
                    .iter()
                    .filter(|(filter, _, _)| naive(filter, key.as_str()));
                let mut expected: Vec<u32> = matching.map(|(_, n, _)| *n).collect();
                expected.sort_unstable();
                assert_eq!(post(router, &key), expected, "{key}");
                (posts, hits) = (posts + 1, hits + expected.len() as u64);
            }
            Op::Collect => assert_eq!(router.collect(), 0, "no post is under way"),
        }
    }
    let stats = router.stats();
    assert_eq!((stats.posts, stats.hits, stats.panics), (posts, hits, 0));
    assert_eq!(stats.subscriptions, live.len());
    let mut listed = router.subscriptions();
    listed.sort();
    let mut expected: Vec<_> = live
        .iter()
        .map(|(filter, _, s)| (filter.clone(), s.id()))
        .collect();
    expected.sort();
    assert_eq!(listed, expected);
    drop(live);
    router.collect();
    let stats = router.stats();
    assert_eq!(
        (
            stats.subscriptions,
            stats.filters,
            stats.nodes,
            stats.retired
        ),
        (0, 0, 0, 0)
    );
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// Up to 128 levels, each filter made of a key: levels become wildcards, and the end may become `#`.
    #[test]
    fn deep_keys_agree_with_the_naive_router(
        keys in prop::collection::vec(prop::collection::vec(level(), 1..=128), 1..4),
        shapes in prop::collection::vec(
            (any::<prop::sample::Index>(), prop::collection::vec(prop::bool::weighted(0.3), 128), 1..=129usize),
            1..30,
        ),
    ) {
        let router: Router<Seen> = Router::new();
        let mut live = Vec::new();
        for (n, (of, wild, cut)) in shapes.iter().enumerate() {
            let key = &keys[of.index(keys.len())];
            let mut filter: Vec<&str> = key.iter().zip(wild).map(|(level, wild)| if *wild { "+" } else { level }).collect();
            if *cut <= filter.len() {
                filter.truncate(cut - 1);
                filter.push("#");
            }
            let filter = filter.join("/");
            if !filter.is_empty() {
                let (reported, subscription) = subscribe(&router, &filter, n as u32);
                live.push((filter, reported, subscription));
            }
        }
        for key in keys.iter().map(|levels| levels.join("/")).filter(|key| !key.is_empty()) {
            let mut expected: Vec<u32> =
                live.iter().filter(|(filter, _, _)| naive(filter, &key)).map(|(_, n, _)| *n).collect();
            expected.sort_unstable();
            let key = router.key(&key).unwrap();
            prop_assert_eq!(&post(&router, &key), &expected);
            prop_assert_eq!(&post(&router, &key), &expected, "known by now");
        }
    }

    #[test]
    fn any_sequence_of_operations_agrees_with_the_naive_router(
        keys in prop::collection::vec(key(), 1..8),
        ops in prop::collection::vec(op(), 1..60),
    ) {
        run(&Router::new(), &keys, &ops);
        run(&Router::with_fences(), &keys, &ops);
        // Caches that hold next to nothing must not change what is delivered.
        run(&Router::with_options(RouterOptions { cached_keys: 1, cached_bytes: 0 }), &keys, &ops);
    }
}

/// Handlers of any size and alignment, in slots that plans name one by one and in whole chunks.
#[test]
fn handlers_of_any_layout() {
    #[repr(align(256))]
    struct Aligned(u32, usize);
    struct Large([u32; 3_000]);
    struct Nothing;
    impl Handler<Seen> for Aligned {
        fn handle(&self, _: SubscriptionRef<'_, Seen>, _: &Key, seen: &Seen) {
            assert_eq!((&raw const *self).addr() % 256, 0);
            assert_eq!(self.1, self.0 as usize);
            seen.borrow_mut().push(self.0);
        }
    }
    impl Handler<Seen> for Large {
        fn handle(&self, _: SubscriptionRef<'_, Seen>, _: &Key, seen: &Seen) {
            assert!(self.0.iter().all(|&n| n == self.0[0]));
            seen.borrow_mut().push(self.0[0]);
        }
    }
    impl Handler<Seen> for Nothing {
        fn handle(&self, _: SubscriptionRef<'_, Seen>, _: &Key, seen: &Seen) {
            seen.borrow_mut().push(0);
        }
    }
    let router: Router<Seen> = Router::new();
    let key = router.key("a").unwrap();
    let (mut all, mut expected) = (Vec::new(), Vec::new());
    for n in 0..100 {
        all.push(
            router
                .subscribe_handler("a", Aligned(n, n as usize))
                .unwrap(),
        );
        all.push(router.subscribe_handler("+", Large([n; 3_000])).unwrap());
        all.push(router.subscribe_handler("#", Nothing).unwrap());
        expected.extend([n, n, 0]);
        expected.sort_unstable();
        assert_eq!(post(&router, &key), expected);
    }
}

/// A key that matches thousands of filters, of handlers that keep something on the stack and of some that panic, posted to
/// on a thread with little of it: each is called once.
#[test]
fn a_key_of_many_filters_needs_little_stack() {
    const LEVELS: u32 = 14;
    const STACK: usize = 512 << 10;
    struct Writes(u32);
    impl Handler<Seen> for Writes {
        fn handle(&self, _: SubscriptionRef<'_, Seen>, key: &Key, seen: &Seen) {
            let text = format!("{key}: {}", self.0);
            seen.borrow_mut().push(self.0);
            assert!(!text.ends_with("77"), "on purpose");
        }
    }
    let router: Router<Seen> = Router::new();
    let mut all = Vec::new();
    for bits in 0..1 << LEVELS {
        let level = |level| if bits >> level & 1 == 1 { "+" } else { "a" };
        let filter: Vec<&str> = (0..LEVELS).map(level).collect();
        all.push(
            router
                .subscribe_handler(&filter.join("/"), Writes(bits))
                .unwrap(),
        );
    }
    // What many keys have in common is cut as well.
    let common = (1 << LEVELS)..(1 << LEVELS) + 1_000;
    all.extend(common.map(|n| router.subscribe_handler("#", Writes(n)).unwrap()));
    let key = router.key(&["a"; LEVELS as usize].join("/")).unwrap();
    std::panic::set_hook(Box::new(|_| {}));
    let post = || post(&router, &key);
    let seen = std::thread::scope(|scope| {
        let small = std::thread::Builder::new().stack_size(STACK);
        let poster = small.spawn_scoped(scope, || [post(), post()]).unwrap();
        poster.join().unwrap()
    });
    let _ = std::panic::take_hook();
    let expected: Vec<u32> = (0..all.len() as u32).collect();
    assert_eq!(seen, [expected.clone(), expected]);
    let panics = (0..all.len())
        .filter(|n| n.to_string().ends_with("77"))
        .count() as u64;
    let stats = router.stats();
    assert_eq!(
        (stats.hits, stats.panics),
        (2 * all.len() as u64, 2 * panics)
    );
}

#[test]
fn both_spellings_are_one_filter() {
    use courser_router::Token::{Any, Is, Rest};
    let router: Router<Seen> = Router::new();
    let _mqtt = router
        .subscribe("shop/+/orders/#", |_, _, seen: &Seen| {
            seen.borrow_mut().push(1)
        })
        .unwrap();
    let tokens = [Is("shop"), Any, Is("orders"), Rest];
    let _tokens = router
        .subscribe(tokens, |_, _, seen: &Seen| seen.borrow_mut().push(2))
        .unwrap();
    let filter = Filter::from_tokens(&tokens).unwrap();
    let _filter = router
        .subscribe(&filter, |_, _, seen: &Seen| seen.borrow_mut().push(3))
        .unwrap();
    assert_eq!(filter.as_str(), "shop/+/orders/#");
    for (key, expected) in [
        ("shop/1/orders", true),
        ("shop/1/orders/2/3", true),
        ("shop/orders", false),
        ("shop/1/order", false),
    ] {
        let expected = if expected { vec![1, 2, 3] } else { vec![] };
        assert_eq!(post(&router, &router.key(key).unwrap()), expected, "{key}");
    }
}

#[test]
fn wrong_keys_and_filters_are_errors() {
    use courser_router::Token::{Any, Is, Rest};
    let router: Router<u32> = Router::new();
    for key in ["", "a/+", "#", "a#", "+", "a\0b"] {
        router.key(key).unwrap_err();
        Key::new(key).unwrap_err();
    }
    for filter in ["", "a#", "a/#/b", "a+/b", "\0"] {
        router.subscribe(filter, |_, _, _| {}).unwrap_err();
    }
    for tokens in [
        &[][..],
        &[Rest, Any],
        &[Is("a/b")],
        &[Is("+")],
        &[Is("#")],
        &[Is("a+")],
        &[Is("")],
    ] {
        Filter::from_tokens(tokens).unwrap_err();
    }
    assert_eq!(router.stats().subscriptions, 0);
}

#[test]
fn keys_have_one_identity_and_are_forgotten() {
    let router: Router<Seen> = Router::new();
    let (a, b) = (router.key("a/b").unwrap(), router.key("a/b").unwrap());
    assert_eq!(a, b);
    assert_eq!(a, Key::new("a/b").unwrap(), "equal by text");
    assert_eq!(router.keys(), std::slice::from_ref(&a));
    assert_eq!((a.token(1), a.token(2)), (Some("b"), None));
    drop((a, b));
    assert_eq!(router.keys(), []);
    for i in 0..100_000 {
        router.key(&format!("k/{i}")).unwrap();
    }
    assert_eq!(router.keys(), [], "nobody holds them");
}

/// One key with two routers, each with its own filters.
#[test]
fn a_key_may_be_used_with_any_router() {
    let (one, two): (Router<Seen>, Router<Seen>) = (Router::new(), Router::new());
    let key = one.key("a").unwrap();
    let _one = subscribe(&one, "a", 1);
    let _two = (subscribe(&two, "+", 4), subscribe(&two, "#", 9));
    for _ in 0..3 {
        assert_eq!(post(&one, &key), [1]);
        assert_eq!(post(&two, &key), [4, 9]);
    }
}

#[test]
fn retained_messages() {
    let router: Router<u32> = Router::new();
    let keys: Vec<Key> = ["a", "a/b", "a/b/c", "ab", "$x/y"]
        .iter()
        .map(|k| router.key(k).unwrap())
        .collect();
    for (at, key) in keys.iter().enumerate() {
        router.post_retained(key, 100);
        router.post_retained(key, at as u32);
    }
    for (filter, expected) in [
        ("a/#", vec![0, 1, 2]),
        ("a/+", vec![1]),
        ("#", vec![0, 1, 2, 3]),
        ("+", vec![0, 3]),
        ("a/b", vec![1]),
        ("$x/#", vec![4]),
        ("z/#", vec![]),
        ("a/+/c", vec![2]),
    ] {
        let found: Vec<u32> = router
            .retained_matching(filter)
            .unwrap()
            .iter()
            .map(|(_, m)| **m)
            .collect();
        assert_eq!(found, expected, "{filter}");
        let seen = std::sync::Arc::new(std::sync::Mutex::new(BTreeMap::new()));
        let sink = std::sync::Arc::clone(&seen);
        let _subscription = router
            .subscribe_with_retained(filter, move |key, message| {
                sink.lock().unwrap().insert(key.to_string(), *message);
            })
            .unwrap();
        assert_eq!(seen.lock().unwrap().len(), expected.len());
        router.post(&keys[1], &7);
        let hears = naive(filter, "a/b");
        assert_eq!(
            seen.lock().unwrap().get("a/b") == Some(&7),
            hears,
            "{filter}"
        );
    }
    assert_eq!(router.clear_retained(&keys[0]).as_deref(), Some(&0));
    assert_eq!(
        (router.retained(&keys[0]), router.retained_len()),
        (None, 4)
    );
    assert_eq!(
        router.retained(&keys[1]).as_deref(),
        Some(&1),
        "a plain post is not kept"
    );
}
