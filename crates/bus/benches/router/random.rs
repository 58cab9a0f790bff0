//! The second workload: random concrete keys.
//!
//! Who posts has the key at hand: keys are drawn beforehand, in the order of the posts, so that looking them up in an array of all, which
//! waits for memory as often as the router does, is not taken for a part of the post. What it costs with that is a column of its own.

use crate::Options;
use crate::fixed::post_ns;
use crate::measure::{mean_cpu_each, median};
use crate::table::{Table, verdict};
use crate::wall::{Load, Wall};
use crate::workload::{Bare, Message, Random, fixed_key, random_keys, router, specs};
use courser_router::Key;
use std::hint::black_box;

/// Draws before they repeat: an order that no predictor learns.
const ORDER: usize = 1 << 16;

/// Turns of a round, of the fixed key and of random ones alternately. These wait for memory that this machine shares with others,
/// whose bursts are longer than a turn and shorter than a round.
const TURNS: usize = 10;

/// What a post may cost, by what one to the fixed key costs.
fn at_most(subscribers: u64, fixed: f64) -> Option<f64> {
    match subscribers {
        0..=100 => Some(fixed + 60.0),
        101..=1_000 => Some(2.0 * fixed),
        _ => None,
    }
}

pub(crate) fn run(options: &Options) {
    let side = if options.test { 20 } else { 320 };
    let title = format!(
        "random keys out of {side} x {side}: CPU ns a post, one thread, median of {}",
        options.rounds * TURNS
    );
    let columns = [
        "subscribers",
        "types",
        "fixed key",
        "random",
        "at most",
        "",
        "key looked up too",
        "hits each",
        "a hit",
        "hit rate",
        "match lists",
        "their bytes",
    ];
    let (mut cpu, mut wall) = (Table::new(title, &columns), Wall::new("random keys"));
    for (_, n, shape) in options.rows() {
        let specs = specs(n, shape);
        let (bare, router) = (Bare::new(&specs), router(&specs));
        let (fixed_key, keys) = (fixed_key(&router), random_keys(&router, side));
        let mut random = Random::new();
        let order: Vec<u32> = (0..ORDER)
            .map(|_| random.below(side * side) as u32)
            .collect();
        let find = |at: usize| &keys[order[at % ORDER] as usize];
        let drawn: Vec<Key> = (0..ORDER).map(|at| find(at).clone()).collect();
        let post = |message: &Message, at: usize| router.post(&drawn[at % ORDER], message);
        let message = Message::default();
        keys.iter().for_each(|key| router.post(key, &message));
        let before = router.stats();
        let (mut fixed, mut each, mut looked_up, mut at) = (vec![], vec![], vec![], 0);
        let turn_ns = options.round_ns() / TURNS as f64;
        for _ in 0..options.rounds * TURNS {
            fixed.push(post_ns(turn_ns, &router, &fixed_key));
            (0..ORDER).for_each(|at| post(&message, at)); // what the turn before pushed out comes back
            each.push(mean_cpu_each(turn_ns, || {
                post(black_box(&message), at);
                at += 1;
            }));
            looked_up.push(mean_cpu_each(turn_ns, || {
                router.post(find(at), black_box(&message));
                at += 1;
            }));
        }
        let (fixed, each, looked_up) = (median(fixed), median(each), median(looked_up));
        // Those of random keys alone.
        let start = router.stats();
        (0..ORDER).for_each(|at| post(&message, at));
        let after = router.stats();
        let hits = (after.hits - start.hits) as f64 / ORDER as f64;
        let (posts, misses) = (
            after.posts - before.posts,
            after.cache_misses - before.cache_misses,
        );
        let limit = at_most(n, fixed);
        cpu.row(vec![
            n.to_string(),
            shape.types().to_string(),
            format!("{fixed:.1}"),
            format!("{each:.1}"),
            limit.map_or_else(String::new, |limit| format!("{limit:.1}")),
            limit.map_or_else(String::new, |limit| verdict(each <= limit)),
            format!("{looked_up:.1}"),
            format!("{hits:.1}"),
            format!("{:.2}", each / hits),
            format!("{:.4}", 1.0 - misses as f64 / posts as f64),
            after.cached_lists.to_string(),
            after.cached_bytes.to_string(),
        ]);
        let load = Load {
            post,
            walk: |message: &Message, _| black_box(&bare).walk(message),
            warm_up: ORDER,
            aside: None,
        };
        wall.row(options, (n, shape), &load);
    }
    cpu.print();
    wall.print();
}
