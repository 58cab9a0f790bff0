//! The first workload: one fixed key.

use crate::Options;
use crate::measure::{mean_cpu_each, median};
use crate::table::{Table, verdict};
use crate::twin;
use crate::wall::{Load, Wall};
use crate::workload::{Bare, Message, fixed_key, router, specs};
use courser_router::{Key, Router};
use std::hint::black_box;

/// At most this share of the twin's time: one type, eight types.
const TARGETS: [[f64; 2]; 5] = [
    [1.0 / 4.0, 1.0 / 4.0],
    [1.0 / 3.0, 1.0 / 7.0],
    [1.0 / 2.5, 1.0 / 8.0],
    [0.6, 1.0 / 12.0],
    [0.7, 1.0 / 6.0],
];

/// CPU ns of a post to one key, on this thread.
pub(crate) fn post_ns(total_ns: f64, router: &Router<Message>, key: &Key) -> f64 {
    let message = Message::default();
    let each = mean_cpu_each(total_ns, || router.post(key, black_box(&message)));
    black_box(message.acc.get());
    each
}

pub(crate) fn run(options: &Options) {
    let title = format!(
        "fixed key: CPU ns a post, one thread, median of {}",
        options.rounds
    );
    let columns = [
        "subscribers",
        "types",
        "hits",
        "ours",
        "a hit",
        "bare walk",
        "twin",
        "ratio",
        "at most",
        "",
    ];
    let (mut cpu, mut wall) = (Table::new(title, &columns), Wall::new("fixed key"));
    for (at, n, shape) in options.rows() {
        let specs = specs(n, shape);
        let hits = specs.iter().filter(|spec| spec.hit).count();
        let (bare, router) = (Bare::new(&specs), router(&specs));
        let key = fixed_key(&router);
        let message = Message::default();
        router.post(&key, &message);
        assert_eq!(
            router.stats().hits,
            hits as u64,
            "the router hits what the workload says"
        );
        let (mut ours, mut floor, mut theirs) = (vec![], vec![], vec![]);
        for _ in 0..options.rounds {
            ours.push(post_ns(options.round_ns(), &router, &key));
            floor.push(mean_cpu_each(options.round_ns(), || {
                black_box(&bare).walk(black_box(&message))
            }));
            let twin = options.twin.as_ref();
            theirs.extend(twin.map(|classes| twin::cpu_ns(classes, n, shape)));
        }
        let (ours, floor) = (median(ours), median(floor));
        let mut row = vec![
            n.to_string(),
            shape.types().to_string(),
            hits.to_string(),
            format!("{ours:.1}"),
            format!("{:.2}", ours / hits.max(1) as f64),
            format!("{floor:.1}"),
        ];
        let target = TARGETS[at][usize::from(shape.types() != 1)];
        row.extend(match theirs.is_empty() {
            true => [const { String::new() }; 4],
            false => {
                let theirs = median(theirs);
                let ratio = ours / theirs;
                [
                    format!("{theirs:.1}"),
                    format!("{ratio:.3}"),
                    format!("{target:.3}"),
                    verdict(ratio <= target),
                ]
            }
        });
        cpu.row(row);
        let load = Load {
            post: |message: &Message, _| router.post(&key, message),
            walk: |message: &Message, _| black_box(&bare).walk(message),
            warm_up: 1_000,
            aside: None,
        };
        wall.row(options, (n, shape), &load);
    }
    cpu.print();
    wall.print();
}
