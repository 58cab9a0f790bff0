//! The fixed workload: the same topics, in the same order, as the twin on the JVM makes from the same seed.

use courser_router::{Handler, Key, Router, Subscription, SubscriptionRef};
use std::cell::Cell;

/// xorshift64*.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new() -> Self {
        Random(0xcc62_3af8_7833_54e7)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    pub(crate) fn below(&mut self, n: u64) -> u64 {
        (self.next() >> 11) % n
    }
}

/// What is posted; handlers add to it, each type in its own way.
#[derive(Default)]
pub(crate) struct Message {
    pub(crate) acc: Cell<u64>,
}

/// One handler type or eight, mixed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Shape {
    Mono,
    Mega,
}

impl Shape {
    pub(crate) fn types(self) -> u32 {
        match self {
            Shape::Mono => 1,
            Shape::Mega => 8,
        }
    }
}

macro_rules! listeners {
    ($($name:ident $acc:ident $id:ident $do:expr;)*) => {$(
        pub(crate) struct $name(pub(crate) u64);

        impl Handler<Message> for $name {
            #[inline]
            fn handle(&self, _: SubscriptionRef<'_, Message>, _: &Key, message: &Message) {
                self.bare(message);
            }
        }

        impl Listener for $name {
            #[inline(always)]
            fn bare(&self, message: &Message) {
                let ($acc, $id) = (message.acc.get(), self.0);
                message.acc.set($do);
            }
        }
    )*};
}

/// The same work without a router.
pub(crate) trait Listener {
    fn bare(&self, message: &Message);
}

listeners! {
    L0 acc id acc.wrapping_add(id);
    L1 acc id acc ^ id;
    L2 acc id acc.wrapping_add(id << 1);
    L3 acc id acc.wrapping_sub(id);
    L4 acc id acc ^ (id << 2);
    L5 acc id acc.wrapping_add(id ^ 5);
    L6 acc id acc.wrapping_sub(id ^ 6);
    L7 acc id acc ^ id.wrapping_add(7);
}

/// A subscription of the workload.
pub(crate) struct Spec {
    pub(crate) filter: String,
    pub(crate) kind: u64,
    pub(crate) id: u64,
    /// Whether the fixed key hits it.
    pub(crate) hit: bool,
}

/// Specs of `n` subscribers: tokens 2 and 3 are wildcards in 240 of 1,000 cases.
pub(crate) fn specs(n: u64, shape: Shape) -> Vec<Spec> {
    let mut random = Random::new();
    let token = |random: &mut Random, letter: char, values: u64| match random.below(1000) {
        0..240 => "+".to_owned(),
        _ => format!("{letter}{}", random.below(values)),
    };
    (0..n)
        .map(|id| {
            let three = random.below(2) == 1;
            let b = token(&mut random, 'b', 64);
            let c = token(&mut random, 'c', 200);
            let kind = random.below(8);
            let hit = (b == "+" || b == "b1") && (!three || c == "+" || c == "c1");
            let filter = if three {
                format!("root/{b}/{c}/#")
            } else {
                format!("root/{b}/#")
            };
            Spec {
                filter,
                kind: if shape == Shape::Mono { 0 } else { kind },
                id,
                hit,
            }
        })
        .collect()
}

pub(crate) fn subscribe(router: &Router<Message>, spec: &Spec) -> Subscription {
    let (filter, id) = (&spec.filter, spec.id);
    match spec.kind {
        0 => router.subscribe_handler(filter, L0(id)),
        1 => router.subscribe_handler(filter, L1(id)),
        2 => router.subscribe_handler(filter, L2(id)),
        3 => router.subscribe_handler(filter, L3(id)),
        4 => router.subscribe_handler(filter, L4(id)),
        5 => router.subscribe_handler(filter, L5(id)),
        6 => router.subscribe_handler(filter, L6(id)),
        _ => router.subscribe_handler(filter, L7(id)),
    }
    .expect("the workload's filters are valid")
}

/// A router with the workload's subscribers, who live as long as it.
pub(crate) fn router(specs: &[Spec]) -> Router<Message> {
    let router = Router::new();
    for spec in specs {
        subscribe(&router, spec).detach();
    }
    router
}

/// The floor: the matching handlers' state, by type, and a walk over it.
#[derive(Default)]
pub(crate) struct Bare(
    Vec<L0>,
    Vec<L1>,
    Vec<L2>,
    Vec<L3>,
    Vec<L4>,
    Vec<L5>,
    Vec<L6>,
    Vec<L7>,
);

impl Bare {
    pub(crate) fn new(specs: &[Spec]) -> Bare {
        let mut bare = Bare::default();
        for spec in specs.iter().filter(|spec| spec.hit) {
            match spec.kind {
                0 => bare.0.push(L0(spec.id)),
                1 => bare.1.push(L1(spec.id)),
                2 => bare.2.push(L2(spec.id)),
                3 => bare.3.push(L3(spec.id)),
                4 => bare.4.push(L4(spec.id)),
                5 => bare.5.push(L5(spec.id)),
                6 => bare.6.push(L6(spec.id)),
                _ => bare.7.push(L7(spec.id)),
            }
        }
        bare
    }

    #[inline(never)]
    pub(crate) fn walk(&self, message: &Message) {
        fn all<L: Listener>(listeners: &[L], message: &Message) {
            listeners.iter().for_each(|listener| listener.bare(message));
        }
        all(&self.0, message);
        all(&self.1, message);
        all(&self.2, message);
        all(&self.3, message);
        all(&self.4, message);
        all(&self.5, message);
        all(&self.6, message);
        all(&self.7, message);
    }
}

/// The posted key of the first workload.
pub(crate) fn fixed_key(router: &Router<Message>) -> Key {
    router.key("root/b1/c1").expect("a valid key")
}

/// 320 x 320 keys of the second workload, of which 64 x 200 have tokens that filters name.
pub(crate) fn random_keys(router: &Router<Message>, side: u64) -> Vec<Key> {
    let key = |i: u64| {
        router
            .key(&format!("root/b{}/c{}", i / side, i % side))
            .expect("a valid key")
    };
    (0..side * side).map(key).collect()
}
