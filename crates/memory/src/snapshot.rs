//! What the counters said at one moment.

use crate::Component;

/// Allocations of one component.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// How often memory was asked for. A `realloc` is one, whether the block moved or not.
    pub allocations: u64,
    /// Bytes that were asked for, before the allocator rounds up. A `realloc` counts its whole new size.
    pub bytes: u64,
}

impl Counts {
    const ZERO: Self = Self {
        allocations: 0,
        bytes: 0,
    };

    fn since(self, earlier: Self) -> Self {
        Self {
            allocations: self.allocations.wrapping_sub(earlier.allocations),
            bytes: self.bytes.wrapping_sub(earlier.bytes),
        }
    }
}

/// The counters at one moment.
///
/// What the figures mean:
/// - [`of`](Self::of) is what was *allocated* while a component's [`Scope`](crate::Scope) was entered. It only grows.
/// - Freed memory is counted only in all, not by component: a block may be freed on another thread and in another
///   scope than it was allocated in, and blocks carry no header that could tell. [`held`](crate::held()) estimates it.
/// - Sizes are those asked for; what the allocator keeps on top of them is not known here.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Snapshot {
    pub(crate) allocated: [Counts; Component::COUNT],
    pub(crate) freed: Counts,
}

impl Snapshot {
    pub(crate) const ZERO: Self = Self {
        allocated: [Counts::ZERO; Component::COUNT],
        freed: Counts::ZERO,
    };

    /// What was allocated for `component`.
    #[must_use]
    pub fn of(&self, component: Component) -> Counts {
        self.allocated[component.index()]
    }

    /// What was allocated in all.
    #[must_use]
    pub fn allocated(&self) -> Counts {
        self.allocated.iter().fold(Counts::ZERO, |sum, one| Counts {
            allocations: sum.allocations.wrapping_add(one.allocations),
            bytes: sum.bytes.wrapping_add(one.bytes),
        })
    }

    /// What was freed in all. A `realloc` frees its old size.
    #[must_use]
    pub fn freed(&self) -> Counts {
        self.freed
    }

    /// Bytes allocated and not freed.
    ///
    /// Zero instead of a negative figure, which a snapshot of one thread has when that thread frees what others
    /// allocated, and one of the process can have for an instant while threads fold.
    #[must_use]
    pub fn live_bytes(&self) -> u64 {
        self.live_bytes_signed().max(0).unsigned_abs()
    }

    /// Bytes allocated minus bytes freed, below zero for a thread (or a span of time) that freed more.
    #[must_use]
    pub fn live_bytes_signed(&self) -> i64 {
        self.allocated()
            .bytes
            .wrapping_sub(self.freed.bytes)
            .cast_signed()
    }

    /// What happened between `earlier` and this snapshot.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let mut span = Self {
            allocated: self.allocated,
            freed: self.freed.since(earlier.freed),
        };
        for (now, then) in span.allocated.iter_mut().zip(earlier.allocated) {
            *now = now.since(then);
        }
        span
    }
}
