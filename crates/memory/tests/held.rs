//! Who holds what is not freed, with the counting allocator as that of the process: one test, since all of it is read.

use courser_memory::{Component, Counting, Held, Scope, held, snapshot};
use std::alloc::System;
use std::hint::black_box;
use std::sync::{Arc, Barrier};
use std::thread;

#[global_allocator]
static ALLOCATOR: Counting<System> = Counting::new(System);

const MIB: u64 = 1 << 20;

fn blocks(component: Component, bytes: u64, size: u64) -> Vec<Vec<u8>> {
    let _scope = Scope::enter(component);
    (0..bytes / size)
        .map(|_| black_box(Vec::with_capacity(size as usize)))
        .collect()
}

#[track_caller]
fn near(held: &Held, component: Component, expected: u64) {
    let off = held.of(component) as f64 / expected as f64 - 1.0;
    assert!(
        off.abs() < 0.15,
        "{component}: {} of {expected}, {held:?}",
        held.of(component)
    );
}

#[test]
fn who_holds_what_is_told_whoever_frees() {
    let sessions = blocks(Component::Connections, 24 * MIB, 600);
    let output = blocks(Component::Output, 12 * MIB, 4_096);
    let large = blocks(Component::Log, 40 * MIB, MIB);
    let now = held();
    near(&now, Component::Connections, 24 * MIB);
    near(&now, Component::Output, 12 * MIB);
    near(&now, Component::Log, 40 * MIB);
    assert_eq!(now.largest().0, Component::Log);
    assert_eq!(now.total(), snapshot().live_bytes());

    // Elsewhere, in another scope, and while other threads get the same addresses.
    let together = Arc::new(Barrier::new(2));
    let other = Arc::clone(&together);
    let freeing = thread::spawn(move || {
        let _scope = Scope::enter(Component::Access);
        other.wait();
        drop(sessions);
        drop(large);
    });
    together.wait();
    let router = blocks(Component::Router, 24 * MIB, 600);
    freeing.join().expect("the thread ends");
    let now = held();
    near(&now, Component::Router, 24 * MIB);
    near(&now, Component::Output, 12 * MIB);
    for component in [Component::Connections, Component::Log, Component::Access] {
        assert!(now.of(component) < MIB, "{component}: {now:?}");
    }

    // A block that grows is whose who made it grow.
    let mut grown = output;
    {
        let _scope = Scope::enter(Component::Partitions);
        for block in &mut grown {
            block.reserve_exact(8_192);
        }
    }
    near(&held(), Component::Partitions, 24 * MIB);
    assert!(held().of(Component::Output) < MIB);
    drop((grown, router));
    let now = held();
    assert!(now.total() < MIB, "{now:?}");
}
