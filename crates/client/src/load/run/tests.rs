use std::cell::Cell;

use super::super::plan::tests::plan;
use super::*;

/// A publisher whose window is empty at the moment when time is up may have its next window half way out: not yet in the
/// counters, or in one of them.
#[test]
fn a_run_is_not_over_while_a_thread_may_still_send() {
    let totals = Totals::of(1);
    let step = Cell::new(0);
    drain(&plan(), &totals, || {
        step.set(step.get() + 1);
        match step.get() {
            1 => _ = totals.expected.fetch_add(100, Ordering::Relaxed),
            2 => _ = totals.sent.fetch_add(100, Ordering::Relaxed),
            3 => _ = totals.sending.fetch_sub(1, Ordering::Release),
            4 => _ = totals.received.fetch_add(100, Ordering::Relaxed),
            5 => _ = totals.acknowledged.fetch_add(100, Ordering::Relaxed),
            _ => panic!("all that was sent has come"),
        }
    });
    assert_eq!(step.get(), 5);
}

#[test]
fn a_run_ends_when_nothing_comes_any_more() {
    let totals = Totals::of(0);
    totals.sent.store(1, Ordering::Relaxed);
    let plan = Plan {
        drain_idle: Duration::from_millis(1),
        ..plan()
    };
    drain(&plan, &totals, || thread::sleep(Duration::from_millis(1)));
    assert_eq!(totals.received.load(Ordering::Relaxed), 0);
}
