//! What needs the private parts; the allocator at work is tested in `tests/counting.rs`.

use super::{Event, record, snapshot, thread_snapshot};
use crate::{Component, Scope, Snapshot};
use std::cell::RefCell;
use std::thread;

/// Records an allocation when it is dropped.
struct RecordsAtTheEnd;

impl Drop for RecordsAtTheEnd {
    fn drop(&mut self) {
        assert_eq!(
            thread_snapshot(),
            Snapshot::ZERO,
            "this runs after the thread's counters are gone"
        );
        let _scope = Scope::enter(Component::Rings);
        record(Event::Allocated(77));
        record(Event::Freed(5));
    }
}

thread_local! {
    static FIRST: RefCell<Option<RecordsAtTheEnd>> = const { RefCell::new(None) };
}

/// Thread-locals are dropped in reverse order of their first use, so what is used before the counters outlives them.
#[test]
fn events_after_the_end_of_the_counters_go_to_the_totals() {
    let before = snapshot();
    thread::spawn(|| {
        FIRST.with_borrow_mut(|slot| *slot = Some(RecordsAtTheEnd));
        let _scope = Scope::enter(Component::Rings);
        record(Event::Allocated(1000));
    })
    .join()
    .expect("the destructor finds the counters gone");
    let span = snapshot().since(&before);
    assert_eq!(
        (
            span.of(Component::Rings).allocations,
            span.of(Component::Rings).bytes
        ),
        (2, 1077)
    );
    assert_eq!((span.freed().allocations, span.freed().bytes), (1, 5));
}

#[test]
fn a_thread_folds_after_its_batch_and_not_before() {
    thread::spawn(|| {
        let seen = |events: u32, size: usize| {
            let before = super::TOTALS.get().of(Component::Partitions);
            let _scope = Scope::enter(Component::Partitions);
            for _ in 0..events {
                record(Event::Allocated(size));
            }
            super::TOTALS.get().of(Component::Partitions).allocations - before.allocations
        };
        assert_eq!(seen(super::FOLD_EVENTS - 1, 1), 0);
        assert_eq!(seen(1, 1), u64::from(super::FOLD_EVENTS));
        assert_eq!(seen(1, 60 * 1024), 0);
        assert_eq!(seen(1, 60 * 1024), 2);
    })
    .join()
    .expect("the thread ends");
}
