//! The counting allocator as the global allocator of a process with several threads.
//!
//! Other tests of this binary allocate at the same time, so every test reads either its own thread's counters, or a
//! component that no other test uses, or amounts far above what the others allocate.

use courser_memory::{Component, Counting, Scope, fold, snapshot, thread_snapshot};
use std::alloc::System;
use std::cell::RefCell;
use std::hint::black_box;
use std::sync::mpsc;
use std::thread;

#[global_allocator]
static ALLOCATOR: Counting<System> = Counting::new(System);

const MIB: usize = 1024 * 1024;

#[test]
fn counts_by_the_scope_of_the_allocation() {
    let before = thread_snapshot();
    let outside = black_box(vec![0_u8; 10]);
    let (router, records, router_again);
    {
        let _router = Scope::enter(Component::Router);
        router = black_box(vec![0_u8; 100]);
        {
            let _output = Scope::enter(Component::Output);
            records = black_box(vec![0_u8; 1000]);
        }
        router_again = black_box(vec![0_u8; 7]);
        drop(outside);
    }
    let span = thread_snapshot().since(&before);
    assert_eq!(
        (
            span.of(Component::Router).allocations,
            span.of(Component::Router).bytes
        ),
        (2, 107)
    );
    assert_eq!(
        (
            span.of(Component::Output).allocations,
            span.of(Component::Output).bytes
        ),
        (1, 1000)
    );
    assert_eq!(
        (
            span.of(Component::Other).allocations,
            span.of(Component::Other).bytes
        ),
        (1, 10)
    );
    assert_eq!(
        (span.freed().allocations, span.freed().bytes),
        (1, 10),
        "freed in another scope, counted once"
    );
    assert_eq!(span.live_bytes(), 1107);
    drop((router, records, router_again));
    assert_eq!(thread_snapshot().since(&before).live_bytes(), 0);
}

#[test]
fn counting_itself_does_not_allocate() {
    let before = thread_snapshot();
    for component in Component::ALL {
        let _scope = Scope::enter(component);
        black_box(snapshot());
        fold();
    }
    assert_eq!(thread_snapshot().since(&before).allocated().allocations, 0);
}

#[test]
fn growing_a_vector_counts_each_realloc() {
    let mut bytes: Vec<u8> = Vec::with_capacity(64);
    let before = thread_snapshot();
    bytes.reserve_exact(128);
    black_box(&bytes);
    bytes.shrink_to(64);
    black_box(&bytes);
    let span = thread_snapshot().since(&before);
    assert_eq!(
        (span.allocated().allocations, span.allocated().bytes),
        (2, 128 + 64)
    );
    assert_eq!(
        (span.freed().allocations, span.freed().bytes),
        (2, 64 + 128)
    );
    assert_eq!(span.live_bytes(), 0);
}

#[test]
fn zeroed_memory_is_counted_and_zero() {
    let before = thread_snapshot();
    let zeroed = black_box(vec![0_u64; 1000]);
    assert_eq!(thread_snapshot().since(&before).allocated().bytes, 8000);
    assert!(zeroed.iter().all(|&word| word == 0));
}

#[test]
fn memory_freed_on_another_thread_leaves_nothing_live() {
    let before = snapshot();
    let (send, receive) = mpsc::channel::<Vec<u8>>();
    let freeing = thread::spawn(move || {
        let start = thread_snapshot();
        let mut freed = 0;
        for block in receive {
            freed += block.len();
        }
        (freed, thread_snapshot().since(&start).live_bytes_signed())
    });
    {
        let _scope = Scope::enter(Component::Log);
        for _ in 0..64 {
            send.send(black_box(vec![1; MIB]))
                .expect("the other thread receives");
        }
    }
    drop(send);
    let (freed, live_there) = freeing.join().expect("the other thread ends");
    assert_eq!(freed, 64 * MIB);
    let mib = i64::try_from(MIB).expect("fits");
    assert!(
        live_there <= -63 * mib,
        "that thread freed what it never allocated: {live_there}"
    );
    let span = snapshot().since(&before);
    assert!(span.of(Component::Log).bytes >= 64 * MIB as u64);
    let live = span.live_bytes_signed();
    assert!(live.abs() < 8 * mib, "all of it is free again: {live}");
}

#[test]
fn a_thread_that_ends_loses_no_count() {
    let before = snapshot();
    for _ in 0..8 {
        thread::spawn(|| {
            let _scope = Scope::enter(Component::Rings);
            for size in 1..=1000_usize {
                black_box(vec![0_u8; size]);
            }
        })
        .join()
        .expect("the thread ends");
    }
    let rings = snapshot().since(&before).of(Component::Rings);
    assert_eq!((rings.allocations, rings.bytes), (8 * 1000, 8 * 500_500));
}

/// Allocates when it is dropped, that is while its thread's thread-locals are destroyed.
struct AllocatesAtTheEnd;

impl Drop for AllocatesAtTheEnd {
    fn drop(&mut self) {
        let _scope = Scope::enter(Component::Control);
        black_box(vec![0_u8; 12_345]);
        assert_eq!(snapshot().of(Component::Control).bytes % 12_345, 0);
    }
}

thread_local! {
    static EARLY: RefCell<Option<AllocatesAtTheEnd>> = const { RefCell::new(None) };
    static LATE: RefCell<Option<AllocatesAtTheEnd>> = const { RefCell::new(None) };
}

#[test]
fn the_end_of_a_thread_is_counted() {
    let before = snapshot();
    thread::Builder::new()
        .spawn(|| {
            // One is dropped before the counters of the thread and one after them, whichever way the order goes:
            // the first is registered before anything in this closure allocates.
            EARLY.with_borrow_mut(|slot| *slot = Some(AllocatesAtTheEnd));
            black_box(vec![0_u8; 10]);
            LATE.with_borrow_mut(|slot| *slot = Some(AllocatesAtTheEnd));
        })
        .expect("a thread")
        .join()
        .expect("no destructor panics");
    let control = snapshot().since(&before).of(Component::Control);
    assert_eq!((control.allocations, control.bytes), (2, 2 * 12_345));
}

#[test]
fn scopes_end_also_when_unwinding() {
    let unwound = std::panic::catch_unwind(|| {
        let _scope = Scope::enter(Component::Partitions);
        std::panic::resume_unwind(Box::new(()));
    });
    assert!(unwound.is_err());
    let before = thread_snapshot();
    black_box(vec![0_u8; 33]);
    let span = thread_snapshot().since(&before);
    assert_eq!(span.of(Component::Partitions).allocations, 0);
    assert_eq!(span.of(Component::Other).bytes, 33);
}

#[test]
fn a_warm_pool_does_not_allocate() {
    let pool = courser_memory::ReceivePool::new(courser_memory::PoolLimits::default());
    let turn = |rest: Option<courser_memory::Buffer>| {
        let mut buffer = pool.resume(rest);
        buffer.room_mut()[..1000].fill(7);
        buffer.advance(1000);
        buffer.consume(900);
        buffer.settle()
    };
    let mut rest = None;
    let mut turns = |count: usize| {
        for _ in 0..count {
            rest = turn(rest.take());
            if let Some(full) = rest.as_mut().filter(|rest| rest.bytes().len() > 3000) {
                full.consume(3000);
            }
        }
    };
    turns(100);
    let before = thread_snapshot();
    turns(1000);
    assert_eq!(thread_snapshot().since(&before).allocated().allocations, 0);
}
