//! Finds the record of the current thread for a router.
#![allow(unsafe_code)]

use crate::record::Record;
use std::cell::{Cell, RefCell};
use std::sync::{Arc, Weak};

thread_local! {
    /// The record that was used last, by the number of its router; numbers are never used twice, so an entry
    /// of a router that is gone is never asked for. Without a destructor: reading it is one load.
    static LAST: Cell<(u64, *const Record)> = const { Cell::new((0, std::ptr::null())) };
    /// The innermost post that is under way on this thread with a record for it alone. Without a destructor: it is needed
    /// when those of the thread run.
    static PASSING: Cell<*const Passing> = const { Cell::new(std::ptr::null()) };
    static RECORDS: RefCell<Records> = const { RefCell::new(Records(Vec::new())) };
}

/// All records of the thread. The routers hold the records as well; `Weak` tells when one is gone.
struct Records(Vec<(u64, Weak<()>, Arc<Record>)>);

impl Drop for Records {
    fn drop(&mut self) {
        LAST.set((0, std::ptr::null()));
        self.0
            .iter()
            .for_each(|(_, _, record)| record.leave_for_good());
    }
}

/// A post of a thread that is ending, on the stack of `with_record`.
struct Passing {
    router: u64,
    record: Arc<Record>,
    /// The one within whose handler this one was begun, if any.
    outer: *const Passing,
}

impl Drop for Passing {
    fn drop(&mut self) {
        PASSING.set(self.outer);
        self.record.leave_for_good();
    }
}

/// This thread's record for the router with number `router`, if it is the one that was used last.
///
/// It is held by this thread as long as the router lives; the caller holds the router.
#[inline(always)]
pub(crate) fn last(router: u64) -> Option<*const Record> {
    let (last, record) = LAST.get();
    (last == router).then_some(record)
}

/// Runs `use_it` with this thread's record for the router with number `router`, which is made if need be;
/// `alive` tells that the router still is.
#[cold]
pub(crate) fn with_record<R>(
    router: u64,
    alive: &Arc<()>,
    make: impl FnOnce() -> Arc<Record>,
    use_it: impl FnOnce(&Record) -> R,
) -> R {
    let (record, is_kept) = find(router, alive, make);
    if is_kept {
        return use_it(&record);
    }
    let passing = Passing {
        router,
        record,
        outer: PASSING.get(),
    };
    PASSING.set(&raw const passing); // it stays in its place until it is dropped, at the end of this
    use_it(&passing.record)
}

/// Whether this thread is within a post of the router with number `router`.
pub(crate) fn is_inside(router: u64) -> bool {
    let inside = |records: &RefCell<Records>| {
        let records = records.borrow();
        records
            .0
            .iter()
            .any(|(id, _, record)| *id == router && record.presence().inside())
    };
    RECORDS.try_with(inside).unwrap_or(false) || is_passing(router)
}

/// The same for posts whose record is for them alone: all that the thread is in the middle of.
fn is_passing(router: u64) -> bool {
    let mut next = PASSING.get();
    // SAFETY: each is on this thread's stack, further out than the caller, and is taken out of the chain when it goes.
    while let Some(passing) = unsafe { next.as_ref() } {
        if passing.router == router {
            return true;
        }
        next = passing.outer;
    }
    false
}

/// The record, and whether it is kept for the next time.
fn find(router: u64, alive: &Arc<()>, make: impl FnOnce() -> Arc<Record>) -> (Arc<Record>, bool) {
    let mut make = Some(make);
    let found = RECORDS.try_with(|records| {
        let mut records = records.borrow_mut();
        let record = match records.0.iter().find(|(id, _, _)| *id == router) {
            Some((_, _, record)) => Arc::clone(record),
            None => {
                records.0.retain(|(_, alive, _)| alive.strong_count() != 0);
                let record = make.take().expect("it is called once")();
                records
                    .0
                    .push((router, Arc::downgrade(alive), Arc::clone(&record)));
                record
            }
        };
        LAST.set((router, Arc::as_ptr(&record)));
        (record, true)
    });
    // Else the thread is ending and its records are gone: one for this post only.
    found.unwrap_or_else(|_| {
        (
            make.take().expect("the access failed before it was called")(),
            false,
        )
    })
}
