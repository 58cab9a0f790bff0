//! The atomics of the protocol modules: the standard ones, or loom's in its model.

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicU64, Ordering, fence};
#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{AtomicU64, Ordering, compiler_fence, fence};

/// Loom knows no compiler fence; in the model the full fence is used anyway.
#[cfg(loom)]
pub(crate) fn compiler_fence(order: Ordering) {
    fence(order);
}
