//! Sequences of operations on the in-process router: subscribing handlers of several types, unsubscribing from
//! outside and from within, posting and posting from within, against a list of what is subscribed. Run by the fuzz
//! target `router_ops`, and for what it has kept by `corpus.rs`.

use courser_router::{Filter, Handler, Key, Router, RouterOptions, Subscription, SubscriptionRef};
use std::cell::RefCell;

type Seen = RefCell<Vec<u16>>;

struct Plain(u16);
struct Owned(Box<u16>);
/// Ends itself at its first call.
struct Once(u16);
/// Posts once more, to a key that nothing but `+` and `#` match.
struct Nests(u16, Key);

impl Handler<Seen> for Plain {
    fn handle(&self, _: SubscriptionRef<'_, Seen>, _: &Key, seen: &Seen) {
        seen.borrow_mut().push(self.0);
    }
}

impl Handler<Seen> for Owned {
    fn handle(&self, _: SubscriptionRef<'_, Seen>, _: &Key, seen: &Seen) {
        seen.borrow_mut().push(*self.0);
    }
}

impl Handler<Seen> for Once {
    fn handle(&self, me: SubscriptionRef<'_, Seen>, _: &Key, seen: &Seen) {
        assert!(me.unsubscribe(), "it is called once");
        seen.borrow_mut().push(self.0);
    }
}

impl Handler<Seen> for Nests {
    fn handle(&self, me: SubscriptionRef<'_, Seen>, route: &Key, seen: &Seen) {
        seen.borrow_mut().push(self.0);
        if route != &self.1 {
            me.router().post(&self.1, &Seen::default());
        }
    }
}

struct Live {
    filter: Filter,
    number: u16,
    kind: u8,
    subscription: Subscription,
}

fn text(bytes: &mut impl Iterator<Item = u8>, levels: &[&str]) -> Option<String> {
    let count = bytes.next()? % 4 + 1;
    let chosen: Option<Vec<&str>> = (0..count)
        .map(|_| Some(levels[bytes.next()? as usize % levels.len()]))
        .collect();
    Some(chosen?.join("/"))
}

/// Runs the operations that the bytes stand for.
///
/// # Panics
/// When the router does other than the list says.
pub fn operations(data: &[u8]) {
    let mut bytes = data.iter().copied();
    let small = RouterOptions {
        cached_keys: 2,
        cached_bytes: 256,
    };
    let router: Router<Seen> = match bytes.next() {
        Some(0..128) => Router::with_options(small),
        _ => Router::new(),
    };
    let nested = Key::new("nested").expect("a valid key");
    let mut live: Vec<Live> = Vec::new();
    let mut number = 0;
    while let Some(op) = bytes.next() {
        match op % 8 {
            0..4 => {
                let Some(filter) = text(&mut bytes, &["a", "b", "+", "#", ""]) else {
                    break;
                };
                let Ok(filter) = Filter::new(&filter) else {
                    continue;
                };
                for _ in 0..op / 32 + 1 {
                    number += 1;
                    let subscription = match op % 4 {
                        0 => router.subscribe_handler(&filter, Plain(number)),
                        1 => router.subscribe_handler(&filter, Owned(Box::new(number))),
                        2 => router.subscribe_handler(&filter, Once(number)),
                        _ => router.subscribe_handler(&filter, Nests(number, nested.clone())),
                    };
                    let subscription = subscription.expect("a valid filter");
                    live.push(Live {
                        filter: filter.clone(),
                        number,
                        kind: op % 4,
                        subscription,
                    });
                }
            }
            4 if !live.is_empty() => {
                let at = bytes.next().unwrap_or(0) as usize % live.len();
                let gone: Vec<Live> = live
                    .drain(at..live.len().min(at + 1 + op as usize / 8))
                    .collect();
                gone.into_iter().for_each(|one| match op / 128 {
                    0 => one.subscription.unsubscribe(),
                    _ => one
                        .subscription
                        .unsubscribe_wait()
                        .expect("this is no handler"),
                });
            }
            4 => {}
            5 => drop(router.collect()),
            _ => {
                let Some(key) = text(&mut bytes, &["a", "b", "$c", ""]) else {
                    break;
                };
                let Ok(key) = router.key(&key) else { continue };
                let matching = |one: &&Live| one.filter.matches(key.as_str());
                let mut expected: Vec<u16> =
                    live.iter().filter(matching).map(|one| one.number).collect();
                // A nested post may call, and so end, a handler before the outer one would have.
                let nests = live.iter().filter(matching).any(|one| one.kind == 3);
                let may_miss = |one: &Live| nests && one.kind == 2 && one.filter.matches("nested");
                let optional: Vec<u16> = live
                    .iter()
                    .filter(|one| may_miss(one))
                    .map(|one| one.number)
                    .collect();
                let seen = Seen::default();
                router.post(&key, &seen);
                let mut seen = seen.into_inner();
                seen.retain(|n| !optional.contains(n));
                expected.retain(|n| !optional.contains(n));
                seen.sort_unstable();
                assert_eq!(seen, expected);
                live.retain(|one| one.subscription.is_live());
            }
        }
    }
    assert_eq!(router.stats().subscriptions, live.len());
    drop(live);
    assert_eq!(router.collect(), 0);
    let stats = router.stats();
    assert_eq!(
        (
            stats.subscriptions,
            stats.filters,
            stats.retired,
            stats.panics
        ),
        (0, 0, 0, 0)
    );
}
