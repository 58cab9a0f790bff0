//! What needs the clock on the wall: posts a second of one and two threads, and the times of single posts.

use crate::Options;
use crate::measure::median;
use crate::table::{Table, verdict};
use crate::workload::{Message, Shape};
use std::cell::Cell;
use std::hint::black_box;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
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
            "of it",
            "",
            "p50",
            "p99",
            "p99.9",
            "max",
        ];
        Wall(Table::new(title, &columns))
    }

    /// Measures a row.
    pub(crate) fn row(
        &mut self,
        options: &Options,
        of: (u64, Shape),
        load: &Load<'_, impl Fn(&Message, usize) + Sync, impl Fn(&Message, usize) + Sync>,
    ) {
        let turns = rates(options, load);
        let of_turns = |figure: fn(&Turn) -> f64| median(turns.iter().map(figure).collect());
        let (ours, bare) = (of_turns(Turn::scaling), of_turns(Turn::bare_scaling));
        let of_bare = of_turns(|turn| turn.scaling() / turn.bare_scaling());
        let mut row = vec![
            of.0.to_string(),
            of.1.types().to_string(),
            format!("{:.0}", of_turns(|turn| turn.one)),
            format!("{:.0}", of_turns(|turn| turn.two)),
            format!("{ours:.2}"),
            format!("{bare:.2}"),
            format!("{of_bare:.2}"),
            verdict(ours >= SCALING || of_bare >= OF_BARE),
        ];
        let count = if options.test {
            1_000
        } else {
            1_000_000 / (1 + of.0 as usize / 200)
        };
        let times = beside(load.aside, || percentiles(count, &load.post));
        row.extend(times.map(|ns| ns.to_string()));
        self.0.row(row);
    }

    pub(crate) fn print(&self) {
        self.0.print();
    }
}

/// What posting threads do.
pub(crate) struct Load<'a, P, W> {
    /// The post of the workload, given the message and how many the thread has made before.
    pub(crate) post: P,
    /// The bare walk in its place.
    pub(crate) walk: W,
    /// Posts of each thread before the clock starts: until its cache knows all keys.
    pub(crate) warm_up: usize,
    /// What is done every [`PAUSE`] besides: by the first thread where all post, also among bare walks, for a third
    /// one on two cores would take turns with them; by a thread of its own where single posts are timed.
    pub(crate) aside: Option<&'a (dyn Fn() + Sync)>,
}

/// A hundred times a second.
pub(crate) const PAUSE: Duration = Duration::from_millis(10);

const THREADS: usize = 2;

/// Turns of a round. They are short, so that a host that takes a core away for a while takes it from all four kinds alike, and
/// what is compared is of one turn: the medians over all turns are those of a machine with two cores.
const TURNS: usize = 30;

/// Calls a second in one turn: posts of one thread and of two, and bare walks of one and of two.
struct Turn {
    one: f64,
    two: f64,
    bare_one: f64,
    bare_two: f64,
}

impl Turn {
    fn scaling(&self) -> f64 {
        self.two / self.one
    }

    fn bare_scaling(&self) -> f64 {
        self.bare_two / self.bare_one
    }
}

/// The turns of all rounds. The threads are the same in all of them, so that they have to warm up once.
fn rates(
    options: &Options,
    load: &Load<'_, impl Fn(&Message, usize) + Sync, impl Fn(&Message, usize) + Sync>,
) -> Vec<Turn> {
    let turns = options.rounds * TURNS;
    let (turn, wall) = (Barrier::new(THREADS), options.round_wall() / TURNS as u32);
    let poster = |thread: usize| {
        let message = Message::default();
        (0..load.warm_up).for_each(|at| (load.post)(&message, at));
        let aside = load.aside.filter(|_| thread == 0);
        // Each turn goes on where the last one ended, through all keys.
        let (posted, walked) = (Cell::new(0), Cell::new(0));
        let with = |threads, call: &dyn Fn() -> f64| {
            turn.wait();
            if thread >= threads {
                return 0.0;
            }
            // The caches have what the turns before this one left.
            call();
            call()
        };
        let posts = || {
            rate(
                wall,
                &posted,
                |at| (load.post)(black_box(&message), at),
                aside,
            )
        };
        let walks = || {
            rate(
                wall,
                &walked,
                |at| (load.walk)(black_box(&message), at),
                aside,
            )
        };
        let four = |_| {
            [
                with(1, &posts),
                with(THREADS, &posts),
                with(1, &walks),
                with(THREADS, &walks),
            ]
        };
        (0..turns).map(four).collect()
    };
    let all: Vec<Vec<[f64; 4]>> = std::thread::scope(|scope| {
        let spawn = |thread| scope.spawn(move || poster(thread));
        let posters: Vec<_> = (0..THREADS).map(spawn).collect();
        let join = |thread: std::thread::ScopedJoinHandle<'_, _>| thread.join();
        posters
            .into_iter()
            .map(|thread| join(thread).expect("the poster runs"))
            .collect()
    });
    let of_turn = |turn: usize| {
        let of_kind = |kind: usize| all.iter().map(|thread| thread[turn][kind]).sum();
        let [one, two, bare_one, bare_two] = std::array::from_fn(of_kind);
        Turn {
            one,
            two,
            bare_one,
            bare_two,
        }
    };
    (0..turns).map(of_turn).collect()
}

/// Calls a second of this thread, over so long; `made` counts them.
fn rate(
    wall: Duration,
    made: &Cell<usize>,
    call: impl Fn(usize),
    aside: Option<&(dyn Fn() + Sync)>,
) -> f64 {
    let (began, first, mut pauses) = (Instant::now(), made.get(), 0);
    loop {
        let elapsed = began.elapsed();
        if elapsed >= wall {
            return (made.get() - first) as f64 / elapsed.as_secs_f64();
        }
        if let Some(aside) = aside.filter(|_| elapsed >= PAUSE * pauses) {
            aside();
            pauses += 1;
        }
        let calls = made.get();
        (calls..calls + BATCH).for_each(&call);
        made.set(calls + BATCH);
    }
}

/// Runs `timed` while another thread does `aside`.
fn beside<R>(aside: Option<&(dyn Fn() + Sync)>, timed: impl FnOnce() -> R) -> R {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        if let Some(aside) = aside {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    aside();
                    std::thread::sleep(PAUSE);
                }
            });
        }
        let result = timed();
        stop.store(true, Ordering::Relaxed);
        result
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
