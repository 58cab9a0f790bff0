//! Where handlers live: slots in chunks, one chain of chunks for each (filter, handler type).
//!
//! A slot holds one handler by value next to the number of its subscription, so that a post walks memory in
//! order. Life of a slot, all changes made under the router's lock:
//!
//! ```text
//! EMPTY ──write handler──▶ id (live) ──unsubscribe──▶ GONE ──grace period──▶ handler dropped ──▶ id ...
//! ```
//! Invariants:
//! - a handler is written before its id (release) and called only after its id was read (acquire);
//! - a handler is dropped, or its place written again, only a grace period after its slot became `GONE`;
//! - a slot of a small chunk (up to [`EXPANDED`]) is used once as long as its list is in the trie. Plans name such
//!   slots one by one, those that live when the plan is made. When the list is taken out, first the epoch of every topic
//!   that its filter matches moves, then the router's version, and only then a grace period begins, after which
//!   another list may use the slot. A post that is not waited for then sees the version, by it looks at the epoch, and
//!   makes its plan anew. So a post finds in such a slot the handler of which its plan was made, or none;
//! - memory of chunks is given back to the allocator only when the router is dropped; until then a chunk that
//!   is not used waits in the pool of its type, a grace period after its list was taken out of the trie. So the
//!   id of a slot may be read through any pointer ever handed out, as long as the router lives.
#![allow(unsafe_code)]

use crate::sync::{AtomicU64, Ordering};
use std::alloc::Layout;
use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicPtr, AtomicU32};

/// No handler yet.
const EMPTY: u64 = 0;
/// Unsubscribed; a running call may still use the handler.
const GONE: u64 = 1 << 63;

/// The part of a slot that does not depend on the handler's type.
#[repr(C)]
pub(crate) struct SlotHead {
    id: AtomicU64,
}

impl SlotHead {
    /// An empty one, outside of a chunk.
    #[cfg(all(test, loom))]
    pub(crate) fn empty() -> SlotHead {
        SlotHead {
            id: AtomicU64::new(EMPTY),
        }
    }

    /// The id of the live subscription, if there is one.
    #[inline]
    pub(crate) fn live(&self) -> Option<u64> {
        live(self.id.load(Ordering::Acquire))
    }

    /// Like `live`, for a slot in a chunk that plans name slot by slot, from a thread that saw its id by `live` when
    /// it made the plan.
    ///
    /// The plan must have been found to hold, by the version or by the epoch, since the thread became present: then
    /// the slot was not used again (see the module), and this is the id that was seen, or the slot is gone: nothing is
    /// to be acquired.
    /// It is what lets the compiler keep in registers what one handler left there for the next.
    #[inline]
    pub(crate) fn still_live(&self) -> Option<u64> {
        live(self.id.load(Ordering::Relaxed))
    }

    pub(crate) fn kill(&self) {
        self.id.store(GONE, Ordering::SeqCst);
    }

    fn clear(&self) {
        self.id.store(EMPTY, Ordering::Relaxed);
    }

    /// Makes the handler, which is in its place, callable.
    pub(crate) fn publish(&self, id: u64) {
        self.id.store(id, Ordering::Release);
    }
}

#[inline]
fn live(id: u64) -> Option<u64> {
    // One signed comparison: EMPTY is 0, GONE is negative.
    ((id as i64) > 0).then_some(id)
}

#[repr(C)]
pub(crate) struct Slot<H> {
    pub(crate) head: SlotHead,
    handler: UnsafeCell<MaybeUninit<H>>,
}

impl<H> Slot<H> {
    /// # Safety
    /// The caller is present, and since it became so `live` returned an id, or `still_live` one for a plan that it found
    /// to hold.
    #[inline]
    pub(crate) unsafe fn handler(&self) -> &H {
        // SAFETY: by the invariants the handler was written before the id that the caller saw by `live`, now or when
        // it made its plan, and stays until a grace period after the slot was killed; the caller has been present
        // since before it saw the slot live, so that period has not ended.
        unsafe { (*self.handler.get()).assume_init_ref() }
    }

    /// # Safety
    /// The slot has no handler, and the caller is the only one who writes (the router's lock).
    pub(crate) unsafe fn write(at: NonNull<SlotHead>, handler: H) {
        // SAFETY: the slot is part of a chunk made with this type's layout.
        let slot = unsafe { at.cast::<Slot<H>>().as_ref() };
        // SAFETY: nobody reads the place while the slot is not live, and only the caller writes.
        unsafe { (*slot.handler.get()).write(handler) };
    }

    /// # Safety
    /// The slot has a handler, and nobody calls it any more.
    pub(crate) unsafe fn drop_handler(at: NonNull<SlotHead>) {
        // SAFETY: as in `write`.
        let slot = unsafe { at.cast::<Slot<H>>().as_ref() };
        // SAFETY: the handler is there and nobody else looks at it.
        unsafe { (*slot.handler.get()).assume_init_drop() };
    }
}

/// How the slots of one handler type lie in a chunk.
#[derive(Clone, Copy)]
pub(crate) struct SlotLayout {
    size: u32,
    first: u32,
    align: usize,
}

impl SlotLayout {
    pub(crate) const fn of<H>() -> SlotLayout {
        let slot = Layout::new::<Slot<H>>();
        let header = size_of::<Chunk>();
        let first = header.div_ceil(slot.align()) * slot.align();
        assert!(
            slot.size() < u32::MAX as usize && first < u32::MAX as usize,
            "a handler is smaller than 4 GiB"
        );
        let align = if slot.align() > align_of::<Chunk>() {
            slot.align()
        } else {
            align_of::<Chunk>()
        };
        SlotLayout {
            size: slot.size() as u32,
            first: first as u32,
            align,
        }
    }

    /// Distance from a chunk to its first slot.
    pub(crate) const fn first_slot(self) -> usize {
        self.first as usize
    }

    /// Layout of a chunk; its size is a multiple of its alignment, so chunks can stand in a row.
    fn chunk(self, capacity: u32) -> Layout {
        let size = self.first as usize + self.size as usize * capacity as usize;
        Layout::from_size_align(size, self.align)
            .expect("a chunk fits the address space")
            .pad_to_align()
    }
}

/// Header of a chunk; its slots follow.
#[repr(C)]
pub(crate) struct Chunk {
    /// The chunk of the same list that was filled before this one.
    next: AtomicPtr<Chunk>,
    /// Slots that were ever used; only those are looked at. Grows under the router's lock.
    len: AtomicU32,
    capacity: u32,
}

/// Capacities of the chunks of a list, in the order in which it grows; the last is repeated.
pub(crate) const CAPACITIES: [u32; 6] = [1, 4, 16, 64, 256, 1024];

/// Chunks up to this capacity are entered into plans slot by slot; larger ones as a whole, so that a subscriber
/// more changes no plan.
pub(crate) const EXPANDED: u32 = 4;

impl Chunk {
    #[inline]
    pub(crate) fn len(&self) -> u32 {
        self.len.load(std::sync::atomic::Ordering::Acquire)
    }

    pub(crate) fn set_len(&self, len: u32) {
        self.len.store(len, std::sync::atomic::Ordering::Release);
    }

    pub(crate) fn capacity(&self) -> u32 {
        self.capacity
    }

    pub(crate) fn next(&self) -> Option<NonNull<Chunk>> {
        NonNull::new(self.next.load(std::sync::atomic::Ordering::Acquire))
    }

    pub(crate) fn set_next(&self, next: Option<NonNull<Chunk>>) {
        let next = next.map_or(std::ptr::null_mut(), NonNull::as_ptr);
        self.next.store(next, std::sync::atomic::Ordering::Release);
    }

    /// # Safety
    /// `chunk` was made with `layout`, and `at` is below its capacity.
    pub(crate) unsafe fn slot(
        chunk: NonNull<Chunk>,
        layout: SlotLayout,
        at: u32,
    ) -> NonNull<SlotHead> {
        let offset = layout.first as usize + at as usize * layout.size as usize;
        // SAFETY: within the allocation, by what the caller promises.
        unsafe { chunk.byte_add(offset).cast() }
    }

    /// The slots that were ever used.
    ///
    /// # Safety
    /// `chunk` points to a chunk of slots of `H` whose router lives.
    #[inline]
    pub(crate) unsafe fn slots<'a, H>(chunk: *const Chunk) -> &'a [Slot<H>] {
        let layout = const { SlotLayout::of::<H>() };
        // SAFETY: the chunk is initialised up to its capacity with slots of `H` (an empty one is all zeros
        // before its handler, which is `MaybeUninit`), and lives as long as the router.
        unsafe {
            let len = (*chunk).len();
            std::slice::from_raw_parts(chunk.byte_add(layout.first as usize).cast(), len as usize)
        }
    }
}

/// Chunks of one handler type that no list uses, and the memory of all of them.
pub(crate) struct Pool {
    layout: SlotLayout,
    free: [Vec<NonNull<Chunk>>; CAPACITIES.len()],
    blocks: Vec<(NonNull<u8>, Layout)>,
}

// SAFETY: it owns what it points to; the lists' use of it is under the router's lock.
unsafe impl Send for Pool {}

/// Small chunks are allocated in blocks of up to this many bytes, at first of one chunk, then doubling.
const BLOCK_MAX: usize = 64 << 10;

impl Pool {
    pub(crate) fn new(layout: SlotLayout) -> Pool {
        Pool {
            layout,
            free: Default::default(),
            blocks: Vec::new(),
        }
    }

    /// A chunk without used slots, of the capacity that follows `after`.
    pub(crate) fn take(&mut self, after: Option<u32>) -> NonNull<Chunk> {
        let class = after.map_or(0, |capacity| {
            (class_of(capacity) + 1).min(CAPACITIES.len() - 1)
        });
        if self.free[class].is_empty() {
            self.allocate(class);
        }
        self.free[class].pop().expect("chunks were just made")
    }

    /// Takes back a chunk that nobody looks at and whose handlers are dropped.
    pub(crate) fn put(&mut self, chunk: NonNull<Chunk>) {
        // SAFETY: chunks in use are initialised, and live as long as the pool.
        let header = unsafe { chunk.as_ref() };
        for at in 0..header.len() {
            // SAFETY: below the length, in a chunk of this layout.
            unsafe { Chunk::slot(chunk, self.layout, at).as_ref() }.clear();
        }
        header.set_len(0);
        header.set_next(None);
        self.free[class_of(header.capacity)].push(chunk);
    }

    fn allocate(&mut self, class: usize) {
        let one = self.layout.chunk(CAPACITIES[class]);
        let count = (1usize << self.blocks.len().min(16))
            .min(BLOCK_MAX / one.size())
            .max(1);
        let whole =
            Layout::from_size_align(one.size() * count, one.align()).expect("a block is small");
        // SAFETY: the size is not 0: a chunk has a header.
        let Some(block) = NonNull::new(unsafe { std::alloc::alloc_zeroed(whole) }) else {
            std::alloc::handle_alloc_error(whole);
        };
        self.blocks.push((block, whole));
        for at in (0..count).rev() {
            // SAFETY: within the block. Zeros are an empty chunk: no next, length 0, every slot EMPTY; only the
            // capacity is to be written.
            let chunk = unsafe { block.add(at * one.size()).cast::<Chunk>() };
            // SAFETY: as above; nobody else knows the block yet.
            unsafe { (*chunk.as_ptr()).capacity = CAPACITIES[class] };
            self.free[class].push(chunk);
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        for (block, layout) in self.blocks.drain(..) {
            // SAFETY: allocated with this layout. Handlers were dropped by the router, which is the only one
            // who drops a pool, and only when no post can be under way.
            unsafe { std::alloc::dealloc(block.as_ptr(), layout) };
        }
    }
}

fn class_of(capacity: u32) -> usize {
    CAPACITIES
        .iter()
        .position(|&c| c == capacity)
        .expect("chunks have one of the capacities")
}
