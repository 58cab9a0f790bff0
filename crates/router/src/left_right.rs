//! Two copies of a value: readers look at one while the writer changes the other.
//!
//! Protocol. Each reader has a counter on a cache line of its own: odd while it looks. It makes the counter odd,
//! then reads which copy is active, then looks at that copy, then makes the counter even. The writer changes
//! the inactive copy, makes it the active one, and notes the counters; it may touch the copy that was active
//! before only when every counter that was odd has changed since. Invariants:
//! - the inactive copy has no readers once `drained` returned true: a reader that is odd now either was noted
//!   odd and has changed since, or became odd after the switch; in both cases its load of `active` comes after
//!   its counter went odd, and in the single order of the `SeqCst` operations after the switch;
//! - only the one writer switches, so `active` is stable under `&mut self`.
#![allow(unsafe_code)]

#[cfg(loom)]
use loom::{
    cell::UnsafeCell,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, AtomicUsize, Ordering, fence},
    },
};
#[cfg(not(loom))]
use std::sync::{
    Arc, Mutex,
    atomic::{AtomicU64, AtomicUsize, Ordering, fence},
};

/// Same interface as loom's cell, which checks every access in the model.
#[cfg(not(loom))]
struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

#[cfg(not(loom))]
impl<T> UnsafeCell<T> {
    fn new(value: T) -> Self {
        UnsafeCell(std::cell::UnsafeCell::new(value))
    }

    fn with<R>(&self, f: impl FnOnce(*const T) -> R) -> R {
        f(self.0.get())
    }

    fn with_mut<R>(&self, f: impl FnOnce(*mut T) -> R) -> R {
        f(self.0.get())
    }
}

/// Counter of one reader, alone on its cache lines (two: neighbours are fetched in pairs).
#[repr(align(128))]
struct Count(AtomicU64);

struct Both<T> {
    active: AtomicUsize,
    copies: [UnsafeCell<T>; 2],
    /// Lock: only for registering and for noting the counters; never taken by a reader that looks.
    readers: Mutex<Vec<Arc<Count>>>,
}

// SAFETY: the copies are shared as `&T` by readers on any thread (`T: Sync`), changed through `&mut T` by the
// writer on any one thread (`T: Send`), and the protocol above keeps both apart.
unsafe impl<T: Send + Sync> Sync for Both<T> {}
// SAFETY: nothing in it is tied to a thread.
unsafe impl<T: Send> Send for Both<T> {}

/// The side that changes. There is one.
pub(crate) struct WriteSide<T> {
    both: Arc<Both<T>>,
    /// Readers that were looking when the copies were last switched, with the counter that they then had.
    awaited: Vec<(Arc<Count>, u64)>,
}

/// A side that looks.
pub(crate) struct ReadSide<T> {
    both: Arc<Both<T>>,
    count: Arc<Count>,
    /// The counter is written by its owner only: shared between threads, two could be counted as none.
    _not_sync: std::marker::PhantomData<std::cell::Cell<()>>,
}

pub(crate) fn left_right<T>(first: T, second: T) -> (WriteSide<T>, ReadSide<T>) {
    let copies = [UnsafeCell::new(first), UnsafeCell::new(second)];
    let both = Arc::new(Both {
        active: AtomicUsize::new(0),
        copies,
        readers: Mutex::new(Vec::new()),
    });
    let reader = ReadSide::register(Arc::clone(&both));
    (
        WriteSide {
            both,
            awaited: Vec::new(),
        },
        reader,
    )
}

impl<T> ReadSide<T> {
    fn register(both: Arc<Both<T>>) -> Self {
        let count = Arc::new(Count(AtomicU64::new(0)));
        both.readers
            .lock()
            .expect("no code panics under this lock")
            .push(Arc::clone(&count));
        ReadSide {
            both,
            count,
            _not_sync: std::marker::PhantomData,
        }
    }

    /// Runs `look` on the active copy. Wait-free; two stores to the reader's own cache line, one of them
    /// sequentially consistent. `look` should be short: the writer cannot reuse the copy before it returns.
    #[inline]
    pub(crate) fn read<R>(&self, look: impl FnOnce(&T) -> R) -> R {
        let count = &self.count.0;
        let idle = count.load(Ordering::Relaxed);
        if idle & 1 == 1 {
            // Called from within `look`: the outer call keeps the copy that is active for it, which may by now
            // be the inactive one; the newly active one is protected as well, because the counter is odd and
            // stays the same until the outer call ends.
            return self.look(look);
        }
        let guard = Looking { count, idle };
        count.store(idle + 1, Ordering::SeqCst);
        fence(Ordering::SeqCst); // for the model, which orders SeqCst accesses by fences only
        let result = self.look(look);
        drop(guard);
        result
    }

    fn look<R>(&self, look: impl FnOnce(&T) -> R) -> R {
        let active = self.both.active.load(Ordering::SeqCst);
        // SAFETY: this reader's counter is odd, so by the protocol the writer does not change this copy until
        // the counter moves, which happens after `look` has returned or unwound.
        self.both.copies[active].with(|copy| look(unsafe { &*copy }))
    }
}

/// Makes the counter even again, also when `look` panics.
struct Looking<'a> {
    count: &'a AtomicU64,
    idle: u64,
}

impl Drop for Looking<'_> {
    fn drop(&mut self) {
        self.count.store(self.idle + 2, Ordering::Release);
    }
}

impl<T> Clone for ReadSide<T> {
    fn clone(&self) -> Self {
        ReadSide::register(Arc::clone(&self.both))
    }
}

impl<T> Drop for ReadSide<T> {
    fn drop(&mut self) {
        let mut readers = self
            .both
            .readers
            .lock()
            .expect("no code panics under this lock");
        readers.retain(|count| !Arc::ptr_eq(count, &self.count));
    }
}

impl<T> WriteSide<T> {
    /// A reader more.
    pub(crate) fn reader(&self) -> ReadSide<T> {
        ReadSide::register(Arc::clone(&self.both))
    }

    /// The copy that readers see. The writer itself needs no counter: only it switches and changes.
    pub(crate) fn active(&self) -> &T {
        let active = self.both.active.load(Ordering::Relaxed);
        // SAFETY: the active copy changes only after a switch, which takes `&mut self`.
        self.both.copies[active].with(|copy| unsafe { &*copy })
    }

    /// The copy that the writer changes next.
    pub(crate) fn inactive(&self) -> &T {
        let inactive = 1 - self.both.active.load(Ordering::Relaxed);
        // SAFETY: copies change only under `&mut self` of the one writer.
        self.both.copies[inactive].with(|copy| unsafe { &*copy })
    }

    /// Changes the inactive copy without making it the active one.
    ///
    /// # Panics
    /// As for [`switch`](Self::switch).
    pub(crate) fn prepare<R>(&mut self, change: impl FnOnce(&mut T) -> R) -> R {
        assert!(self.awaited.is_empty(), "the inactive copy has readers");
        let inactive = 1 - self.both.active.load(Ordering::Relaxed);
        // SAFETY: no reader looks at the inactive copy (asserted above), none can start to before a switch, and
        // `&mut self` of the only writer excludes every other change.
        self.both.copies[inactive].with_mut(|copy| change(unsafe { &mut *copy }))
    }

    /// Whether no reader looks at the inactive copy any more; never waits.
    pub(crate) fn drained(&mut self) -> bool {
        self.awaited
            .retain(|(count, then)| count.0.load(Ordering::Acquire) == *then);
        self.awaited.is_empty()
    }

    /// Changes the inactive copy and makes it the active one.
    ///
    /// # Panics
    /// If [`drained`](Self::drained) has not said that the inactive copy is free.
    pub(crate) fn switch(&mut self, change: impl FnOnce(&mut T)) {
        self.prepare(change);
        let inactive = 1 - self.both.active.load(Ordering::Relaxed);
        self.both.active.store(inactive, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        let readers = self
            .both
            .readers
            .lock()
            .expect("no code panics under this lock");
        for count in &*readers {
            let now = count.0.load(Ordering::SeqCst);
            if now & 1 == 1 {
                self.awaited.push((Arc::clone(count), now));
            }
        }
    }
}

#[cfg(all(test, loom))]
mod tests;
