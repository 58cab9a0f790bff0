//! What needs the clock on the wall: posts a second of one and two threads, and the times of single posts.

use crate::Options;
use crate::measure::median;
use crate::table::{Table, verdict};
use crate::workload::{Message, Shape};
use std::hint::black_box;
use std::sync::Barrier;
use std::time::{Duration, Instant};

/// Two threads do so much more than one, or nearly what they do for a bare walk.
const SCALING: f64 = 1.9;
const OF_BARE: f64 = 0.95;
const BATCH: usize = 256;

/// The table of these figures for one workload.
pub(crate) struct Wall(Table);

impl Wall {
    pub(crate) fn new(workload: &str) -> Wall {
        let title = format!(
            "{workload}: posts/s of all threads, and single posts in wall ns (the clock's own ~20 ns included)"
        );
        let columns = [
            "subscribers",
            "types",
            "1 thread",
            "2 threads",
            "scaling",
            "bare walk's",
            "",
            "p50",
            "p99",
            "p99.9",
            "max",
        ];
        Wall(Table::new(title, &columns))
    }

    /// Measures a row. `post` is the post of the workload, given the message and how many the thread has made
    /// before; `walk` is the bare walk.
    pub(crate) fn row(
        &mut self,
        options: &Options,
        of: (u64, Shape),
        post: &(impl Fn(&Message, usize) + Sync),
        walk: &(impl Fn(&Message, usize) + Sync),
    ) {
        let mut rates = [vec![], vec![], vec![], vec![]];
        for _ in 0..options.rounds {
            let wall = options.round_wall();
            rates[0].push(rate(1, wall, post));
            rates[1].push(rate(2, wall, post));
            rates[2].push(rate(1, wall, walk));
            rates[3].push(rate(2, wall, walk));
        }
        let [one, two, bare_one, bare_two] = rates.map(median);
        let (ours, bare) = (two / one, bare_two / bare_one);
        let mut row = vec![
            of.0.to_string(),
            of.1.types().to_string(),
            format!("{one:.0}"),
            format!("{two:.0}"),
            format!("{ours:.2}"),
            format!("{bare:.2}"),
            verdict(ours >= SCALING || ours >= OF_BARE * bare),
        ];
        let count = if options.test {
            1_000
        } else {
            1_000_000 / (1 + of.0 as usize / 200)
        };
        row.extend(percentiles(count, post).map(|ns| ns.to_string()));
        self.0.row(row);
    }

    pub(crate) fn print(&self) {
        self.0.print();
    }
}

fn rate(threads: usize, wall: Duration, call: &(impl Fn(&Message, usize) + Sync)) -> f64 {
    let start = Barrier::new(threads);
    std::thread::scope(|scope| {
        let run = || {
            let message = Message::default();
            (0..1_000).for_each(|at| call(&message, at));
            start.wait();
            let began = Instant::now();
            let mut calls = 0;
            while began.elapsed() < wall {
                (calls..calls + BATCH).for_each(|at| call(black_box(&message), at));
                calls += BATCH;
            }
            calls as f64 / began.elapsed().as_secs_f64()
        };
        let all: Vec<_> = (0..threads).map(|_| scope.spawn(run)).collect();
        all.into_iter()
            .map(|thread| thread.join().expect("the poster runs"))
            .sum()
    })
}

/// Times of single posts, as a clock around each sees them: p50, p99, p99.9, max.
fn percentiles(count: usize, post: &impl Fn(&Message, usize)) -> [u64; 4] {
    let message = Message::default();
    let mut times: Vec<u64> = (0..count)
        .map(|at| {
            let start = Instant::now();
            post(&message, at);
            start.elapsed().as_nanos() as u64
        })
        .collect();
    times.sort_unstable();
    [0.5, 0.99, 0.999, 1.0].map(|share| times[((times.len() - 1) as f64 * share) as usize])
}
