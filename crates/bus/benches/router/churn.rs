//! The third workload: 100 subscribe/unsubscribe pairs a second while posts to one key go on.

use crate::Options;
use crate::fixed::post_ns;
use crate::measure::{cpu_each, median};
use crate::table::Table;
use crate::wall::{Load, PAUSE, Wall};
use crate::workload::{Bare, Message, Random, fixed_key, router, specs, subscribe};
use std::hint::black_box;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

pub(crate) fn run(options: &Options) {
    let name = "fixed key with 100 subscribe/unsubscribe pairs a second";
    let title = format!(
        "{name}: CPU ns a post, one thread, median of {}, and without pairs",
        options.rounds
    );
    let columns = [
        "subscribers",
        "types",
        "hits",
        "quiet",
        "churn",
        "a hit",
        "CPU us a pair",
    ];
    let (mut cpu, mut wall) = (Table::new(title, &columns), Wall::new(name));
    for (_, n, shape) in options.rows() {
        let specs = specs(n, shape);
        let hits = specs.iter().filter(|spec| spec.hit).count();
        let (bare, router) = (Bare::new(&specs), router(&specs));
        let key = fixed_key(&router);
        let post_ns = || {
            let rounds = (0..options.rounds).map(|_| post_ns(options.round_ns(), &router, &key));
            median(rounds.collect())
        };
        let quiet = post_ns();
        let random = Mutex::new(Random::new());
        let pair = || {
            let of = random.lock().expect("drawing does not panic").below(n);
            drop(subscribe(&router, &specs[of as usize]));
        };
        let stop = AtomicBool::new(false);
        let churn = std::thread::scope(|scope| {
            let churner = scope.spawn(|| churn_until(&stop, &pair));
            let churn = post_ns();
            stop.store(true, Ordering::Relaxed);
            (churn, churner.join().expect("the churner runs"))
        });
        cpu.row(vec![
            n.to_string(),
            shape.types().to_string(),
            hits.to_string(),
            format!("{quiet:.1}"),
            format!("{:.1}", churn.0),
            format!("{:.2}", churn.0 / hits.max(1) as f64),
            format!("{:.1}", churn.1 / 1e3),
        ]);
        let load = Load {
            post: |message: &Message, _| router.post(&key, message),
            walk: |message: &Message, _| black_box(&bare).walk(message),
            warm_up: 1_000,
            aside: Some(&pair),
        };
        wall.row(options, (n, shape), &load);
    }
    cpu.print();
    wall.print();
}

/// A hundred pairs a second; returns the CPU ns of one.
fn churn_until(stop: &AtomicBool, pair: &impl Fn()) -> f64 {
    let (mut spent, mut pairs) = (0.0, 0);
    while !stop.load(Ordering::Relaxed) {
        spent += cpu_each(1, pair);
        pairs += 1;
        std::thread::sleep(PAUSE);
    }
    spent / f64::from(pairs.max(1))
}
