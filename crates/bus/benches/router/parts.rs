//! The parts of the benchmark.

use crate::Options;
use crate::measure::{best_cpu_each, cpu_ns, median};
use crate::twin;
use crate::workload::{
    Bare, Message, Random, Shape, fixed_key, random_keys, router, specs, subscribe,
};
use courser_router::{Key, Router, Subscription};
use std::hint::black_box;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const SIZES: [u64; 5] = [10, 100, 1_000, 10_000, 100_000];
/// At most this share of the twin's time: one type, eight types.
const TARGETS: [(f64, f64); 5] = [
    (1.0 / 4.0, 1.0 / 4.0),
    (1.0 / 3.0, 1.0 / 7.0),
    (1.0 / 2.5, 1.0 / 8.0),
    (0.6, 1.0 / 12.0),
    (0.7, 1.0 / 6.0),
];

impl Options {
    fn sizes(&self) -> &'static [u64] {
        if self.test { &SIZES[..3] } else { &SIZES }
    }

    fn round_ns(&self) -> f64 {
        if self.test { 1e5 } else { 1e8 }
    }
}

/// CPU ns of a post to one key, on this thread.
fn post_ns(options: &Options, router: &Router<Message>, key: &Key) -> f64 {
    let message = Message::default();
    let each = best_cpu_each(options.round_ns(), || router.post(key, black_box(&message)));
    black_box(message.acc.get());
    each
}

/// The first workload: one fixed key.
pub(crate) fn fixed(options: &Options) {
    println!(
        "fixed key: CPU ns a post, one thread, median of {}",
        options.rounds
    );
    println!(
        "{:>11} {:>6} {:>6} {:>10} {:>8} {:>10} {:>10} {:>8} {:>8}",
        "subscribers", "types", "hits", "ours", "a hit", "bare walk", "twin", "ratio", "at most"
    );
    for (at, &n) in options.sizes().iter().enumerate() {
        for (shape, target) in [(Shape::Mono, TARGETS[at].0), (Shape::Mega, TARGETS[at].1)] {
            let specs = specs(n, shape);
            let hits = specs.iter().filter(|spec| spec.hit).count();
            let (bare, router) = (Bare::new(&specs), router(&specs));
            let key = fixed_key(&router);
            let (a, b) = (Message::default(), Message::default());
            router.post(&key, &a);
            assert_eq!(
                router.stats().hits,
                hits as u64,
                "the router hits what the workload says"
            );
            bare.walk(&b);
            let (mut ours, mut floor, mut theirs) = (vec![], vec![], vec![]);
            for _ in 0..options.rounds {
                ours.push(post_ns(options, &router, &key));
                floor.push(best_cpu_each(options.round_ns(), || {
                    black_box(&bare).walk(black_box(&b))
                }));
                theirs.extend(
                    options
                        .twin
                        .as_ref()
                        .map(|classes| twin::cpu_ns(classes, n, shape)),
                );
            }
            let (ours, floor) = (median(ours), median(floor));
            print!(
                "{n:>11} {:>6} {hits:>6} {ours:>10.1} {:>8.2} {floor:>10.1}",
                types(shape),
                ours / hits.max(1) as f64
            );
            match theirs.is_empty() {
                true => println!(),
                false => {
                    let theirs = median(theirs);
                    let ratio = ours / theirs;
                    let verdict = if ratio <= target { "ok" } else { "MISSED" };
                    println!(" {theirs:>10.1} {ratio:>8.3} {target:>8.3} {verdict}");
                }
            }
        }
    }
}

fn types(shape: Shape) -> u32 {
    match shape {
        Shape::Mono => 1,
        Shape::Mega => 8,
    }
}

/// The second workload: random concrete keys.
pub(crate) fn random(options: &Options) {
    println!(
        "\nrandom keys out of 320 x 320: CPU ns a post, one thread, median of {}",
        options.rounds
    );
    println!(
        "{:>11} {:>6} {:>10} {:>10} {:>10} {:>9} {:>12} {:>12}",
        "subscribers",
        "types",
        "fixed key",
        "random",
        "hits each",
        "hit rate",
        "match lists",
        "their bytes"
    );
    let side = if options.test { 20 } else { 320 };
    for &n in options.sizes() {
        for shape in [Shape::Mono, Shape::Mega] {
            let router = router(&specs(n, shape));
            let fixed = median(
                (0..options.rounds)
                    .map(|_| post_ns(options, &router, &fixed_key(&router)))
                    .collect(),
            );
            let keys = random_keys(&router, side);
            let message = Message::default();
            let mut rng = Random::new();
            let order: Vec<u32> = (0..1 << 16)
                .map(|_| rng.below(side * side) as u32)
                .collect();
            keys.iter().for_each(|key| router.post(key, &message));
            let before = router.stats();
            let mut at = 0;
            let mut post = || {
                router.post(&keys[order[at & 0xffff] as usize], black_box(&message));
                at += 1;
            };
            let each = (0..options.rounds)
                .map(|_| best_cpu_each(options.round_ns(), &mut post))
                .collect();
            let after = router.stats();
            let posts = after.posts - before.posts;
            println!(
                "{n:>11} {:>6} {fixed:>10.1} {:>10.1} {:>10.1} {:>9.4} {:>12} {:>12}",
                types(shape),
                median(each),
                (after.hits - before.hits) as f64 / posts as f64,
                1.0 - (after.cache_misses - before.cache_misses) as f64 / posts as f64,
                after.cached_lists,
                after.cached_bytes
            );
        }
    }
}

/// The third workload: 100 subscribe/unsubscribe pairs a second while posts go on.
pub(crate) fn churn(options: &Options) {
    println!(
        "\nfixed key with 100 subscribe/unsubscribe pairs a second: CPU ns a post, and without"
    );
    println!(
        "{:>11} {:>6} {:>10} {:>10} {:>16}",
        "subscribers", "types", "quiet", "churn", "CPU us a pair"
    );
    for &n in options.sizes() {
        for shape in [Shape::Mono, Shape::Mega] {
            let specs = specs(n, shape);
            let router = router(&specs);
            let key = fixed_key(&router);
            let quiet = median(
                (0..options.rounds)
                    .map(|_| post_ns(options, &router, &key))
                    .collect(),
            );
            let stop = AtomicBool::new(false);
            let (churn, pair) = std::thread::scope(|scope| {
                let churner = scope.spawn(|| churn_until(&router, &specs, &stop));
                let churn = median(
                    (0..options.rounds)
                        .map(|_| post_ns(options, &router, &key))
                        .collect(),
                );
                stop.store(true, Ordering::Relaxed);
                (churn, churner.join().expect("the churner runs"))
            });
            println!(
                "{n:>11} {:>6} {quiet:>10.1} {churn:>10.1} {:>16.2}",
                types(shape),
                pair / 1e3
            );
        }
    }
}

/// CPU ns of a pair.
fn churn_until(
    router: &Router<Message>,
    specs: &[crate::workload::Spec],
    stop: &AtomicBool,
) -> f64 {
    let mut random = Random::new();
    let (mut spent, mut pairs) = (0.0, 0);
    while !stop.load(Ordering::Relaxed) {
        let spec = &specs[random.below(specs.len() as u64) as usize];
        let start = cpu_ns();
        drop(subscribe(router, spec));
        spent += cpu_ns() - start;
        pairs += 1;
        std::thread::sleep(Duration::from_millis(10));
    }
    spent / f64::from(pairs.max(1))
}

/// Posts a second on one thread and on two, beside the bare walk's.
pub(crate) fn threads(options: &Options) {
    println!(
        "\nfixed key on 1 and 2 threads: posts/s of all, wall time, median of {}",
        options.rounds
    );
    println!(
        "{:>11} {:>6} {:>12} {:>12} {:>8} {:>14}",
        "subscribers", "types", "1 thread", "2 threads", "scaling", "bare scaling"
    );
    let wall = if options.test {
        Duration::from_millis(5)
    } else {
        Duration::from_millis(400)
    };
    for &n in options.sizes() {
        for shape in [Shape::Mono, Shape::Mega] {
            let specs = specs(n, shape);
            let (bare, router) = (Bare::new(&specs), router(&specs));
            let key = fixed_key(&router);
            let post = |message: &Message| router.post(&key, message);
            let walk = |message: &Message| black_box(&bare).walk(message);
            let mut rates = [vec![], vec![], vec![], vec![]];
            for _ in 0..options.rounds {
                rates[0].push(rate(1, wall, &post));
                rates[1].push(rate(2, wall, &post));
                rates[2].push(rate(1, wall, &walk));
                rates[3].push(rate(2, wall, &walk));
            }
            let [one, two, bare_one, bare_two] = rates.map(median);
            println!(
                "{n:>11} {:>6} {one:>12.0} {two:>12.0} {:>8.2} {:>14.2}",
                types(shape),
                two / one,
                bare_two / bare_one
            );
        }
    }
}

fn rate(threads: usize, wall: Duration, call: &(impl Fn(&Message) + Sync)) -> f64 {
    let start = Barrier::new(threads);
    std::thread::scope(|scope| {
        let run = || {
            let message = Message::default();
            (0..1_000).for_each(|_| call(&message));
            start.wait();
            let began = Instant::now();
            let mut calls = 0u64;
            while began.elapsed() < wall {
                (0..256).for_each(|_| call(black_box(&message)));
                calls += 256;
            }
            calls as f64 / began.elapsed().as_secs_f64()
        };
        let all: Vec<_> = (0..threads).map(|_| scope.spawn(run)).collect();
        all.into_iter()
            .map(|thread| thread.join().expect("the poster runs"))
            .sum()
    })
}

/// Time of single posts, as a clock around each sees it.
pub(crate) fn latency(options: &Options) {
    println!("\nfixed key, single posts: wall ns, the clock's own ~20 ns included");
    println!(
        "{:>11} {:>6} {:>9} {:>9} {:>9} {:>9}",
        "subscribers", "types", "p50", "p99", "p99.9", "max"
    );
    for &n in options.sizes() {
        for shape in [Shape::Mono, Shape::Mega] {
            let router = router(&specs(n, shape));
            let (key, message) = (fixed_key(&router), Message::default());
            let count = if options.test {
                1_000
            } else {
                2_000_000 / (1 + n as usize / 200)
            };
            let mut times: Vec<u64> = (0..count)
                .map(|_| {
                    let start = Instant::now();
                    router.post(&key, &message);
                    start.elapsed().as_nanos() as u64
                })
                .collect();
            times.sort_unstable();
            let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize];
            println!(
                "{n:>11} {:>6} {:>9} {:>9} {:>9} {:>9}",
                types(shape),
                at(0.5),
                at(0.99),
                at(0.999),
                at(1.0)
            );
        }
    }
}

/// A million subscriptions of five tokens.
pub(crate) fn million(options: &Options) {
    let n: u32 = if options.test { 1_000 } else { 1_000_000 };
    let text = |i: u32| {
        format!(
            "org/r{}/s{}/l{}/d{}",
            i % 10,
            i / 10 % 20,
            i / 200 % 50,
            i / 10_000
        )
    };
    println!("\n{n} subscriptions of 5 tokens, one hit each");
    let filters: Vec<String> = (0..n)
        .map(|i| text(i) + if i % 2 == 0 { "" } else { "/#" })
        .collect();
    let router: Router<Message> = Router::new();
    let start = cpu_ns();
    let all: Vec<Subscription> = filters
        .iter()
        .map(|filter| {
            let subscribed = router.subscribe(filter, |_, _, message: &Message| message.acc.set(1));
            subscribed.expect("a valid filter")
        })
        .collect();
    println!(
        "subscribe: {:.0} CPU ns each",
        (cpu_ns() - start) / f64::from(n)
    );
    let mut random = Random::new();
    let count = 100_000.min(u64::from(n));
    let keys: Vec<Key> = (0..count)
        .map(|_| Key::new(&text(random.below(u64::from(n)) as u32)).expect("a key"))
        .collect();
    let message = Message::default();
    for name in ["first post to a key (match, plan, call)", "next post to it"] {
        let start = cpu_ns();
        keys.iter().for_each(|key| router.post(key, &message));
        println!("{name}: {:.0} CPU ns", (cpu_ns() - start) / count as f64);
    }
    assert_eq!(router.stats().hits, 2 * count);
    let start = cpu_ns();
    drop(all);
    println!(
        "unsubscribe: {:.0} CPU ns each",
        (cpu_ns() - start) / f64::from(n)
    );
}
