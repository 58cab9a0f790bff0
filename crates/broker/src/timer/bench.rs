//! Speed of the wheel. The normal test run takes few timers, so that this cannot rot; for figures:
//!
//! ```text
//! COURSER_BENCH=1000000 cargo test --release -p courser-broker timer::bench -- --nocapture
//! ```

use super::{Advanced, TimerKey, Wheel};
use courser_contract::Tick;
use std::hint::black_box;
use std::time::Instant;

/// A repeatable sequence that is spread well enough for deadlines (Knuth's multiplier).
fn spread(at: u64, over: u64) -> u64 {
    (at.wrapping_mul(6_364_136_223_846_793_005) >> 33) % over
}

fn timed<R>(what: &str, times: u64, run: impl FnOnce() -> R) -> R {
    let start = Instant::now();
    let result = black_box(run());
    let nanos = start.elapsed().as_nanos() as f64 / times as f64;
    eprintln!("{what:<44} {nanos:>8.1} ns each");
    result
}

#[test]
fn a_million_timers() {
    let count: u64 = std::env::var("COURSER_BENCH")
        .ok()
        .and_then(|count| count.parse().ok())
        .unwrap_or(10_000);
    let mut wheel = Wheel::new(Tick(0));
    let minutes = 600_000;

    let keys: Vec<TimerKey> = timed("insert, within 10 minutes", count, || {
        (0..count)
            .map(|at| wheel.insert(Tick(1 + spread(at, minutes)), at as u32))
            .collect()
    });
    timed("re-arm later, as keep-alive does", count, || {
        for (at, &key) in (0..).zip(&keys) {
            assert!(wheel.rearm(key, Tick(minutes + 1 + spread(at, minutes))));
        }
    });
    timed("re-arm later, the same one", count, || {
        for at in 0..count {
            assert!(wheel.rearm(keys[0], Tick(2 * minutes + at)));
        }
    });
    timed("advance over all slots, each timer moved", count, || {
        assert_eq!(
            wheel.advance(Tick(minutes), usize::MAX, |_| panic!("none is due")),
            Advanced::Whole
        );
    });
    let half = keys.len() / 2;
    timed("cancel", count / 2, || {
        for &key in &keys[..half] {
            assert!(wheel.cancel(key).is_some());
        }
    });
    let mut fired = 0;
    timed(
        "advance by 1 ms until all fired, each timer",
        count - count / 2,
        || {
            let mut now = minutes;
            while wheel.next_deadline().is_some() {
                now += 1;
                assert_eq!(
                    wheel.advance(Tick(now), usize::MAX, |_| fired += 1),
                    Advanced::Whole
                );
            }
        },
    );
    assert_eq!(fired, count - count / 2);
    timed("advance with nothing due, each call", count, || {
        wheel.insert(Tick(u64::MAX), 0);
        for at in 0..count {
            assert_eq!(
                wheel.advance(Tick(3 * minutes + at), usize::MAX, |_| ()),
                Advanced::Whole
            );
        }
    });
}
