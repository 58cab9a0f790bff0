//! The third workload: 100 subscribe/unsubscribe pairs a second while posts to one key go on.

use crate::Options;
use crate::fixed::post_ns;
use crate::measure::{cpu_ns, median};
use crate::table::Table;
use crate::wall::Wall;
use crate::workload::{Bare, Message, Random, Spec, fixed_key, router, specs, subscribe};
use courser_router::Router;
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

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
            let rounds = (0..options.rounds).map(|_| post_ns(options, &router, &key));
            median(rounds.collect())
        };
        let quiet = post_ns();
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let churner = scope.spawn(|| churn_until(&router, &specs, &stop));
            let churn = post_ns();
            wall.row(
                options,
                (n, shape),
                &|message, _| router.post(&key, message),
                &|message, _| black_box(&bare).walk(message),
            );
            stop.store(true, Ordering::Relaxed);
            let pair = churner.join().expect("the churner runs");
            cpu.row(vec![
                n.to_string(),
                shape.types().to_string(),
                hits.to_string(),
                format!("{quiet:.1}"),
                format!("{churn:.1}"),
                format!("{:.2}", churn / hits.max(1) as f64),
                format!("{:.1}", pair / 1e3),
            ]);
        });
    }
    cpu.print();
    wall.print();
}

/// CPU ns of a pair.
fn churn_until(router: &Router<Message>, specs: &[Spec], stop: &AtomicBool) -> f64 {
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
