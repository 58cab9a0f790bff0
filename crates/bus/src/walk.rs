//! The inner loop: one function for each handler type, over all matching handlers of that type.
#![allow(unsafe_code)]

use crate::bus::Router;
use crate::handler::{Handler, SubscriptionRef};
use crate::key::Key;
use crate::plan::Word;
use crate::slot::{Chunk, Slot};
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// What a walk needs to know of the post.
pub(crate) struct Post<'a, M: 'static> {
    pub(crate) router: &'a Router<M>,
    pub(crate) key: &'a Key,
    pub(crate) message: &'a M,
    /// Calls made for chunks; slots that are entered one by one are counted by the plan. Dead ones are taken off.
    pub(crate) calls: Cell<u64>,
    pub(crate) panics: Cell<u64>,
}

/// Walks one group of a plan and returns where the next one begins.
pub(crate) type Walk<M> = unsafe fn(*const Word, &Post<'_, M>) -> *const Word;

/// Where a walk is; kept outside of the part that may unwind, always past the handler that is being called.
struct Cursor<H> {
    single: *const *const Slot<H>,
    singles_end: *const *const Slot<H>,
    run: *const *const Chunk,
    runs_end: *const *const Chunk,
    slot: *const Slot<H>,
    slots_end: *const Slot<H>,
}

/// # Safety
/// `group` points to a group of a plan whose `walk` is this function, the poster is present, and the router of
/// the plan lives.
pub(crate) unsafe fn walk<M, H: Handler<M>>(group: *const Word, post: &Post<'_, M>) -> *const Word {
    // SAFETY: the layout of a group, see `plan`.
    let (first, runs_at, end) = unsafe {
        (
            group.add(3),
            group.byte_add((*group.add(1)).addr()),
            group.byte_add((*group.add(2)).addr()),
        )
    };
    let mut cursor = Cursor::<H> {
        single: first.cast(),
        singles_end: runs_at.cast(),
        run: runs_at.cast(),
        runs_end: end.cast(),
        slot: std::ptr::null(),
        slots_end: std::ptr::null(),
    };
    // A handler that cannot panic leaves nothing of this but the loop.
    while let Err(payload) = catch_unwind(AssertUnwindSafe(|| {
        // SAFETY: passed on from the caller.
        unsafe { advance(&mut cursor, post) }
    })) {
        post.panics.set(post.panics.get() + 1);
        // What was thrown may panic when it is dropped; once is enough.
        let _ = catch_unwind(AssertUnwindSafe(|| drop(payload)));
    }
    end
}

/// # Safety
/// As for `walk`; the cursor's pointers are those of the group.
#[inline]
unsafe fn advance<M, H: Handler<M>>(cursor: &mut Cursor<H>, post: &Post<'_, M>) {
    // Copied out: a handler writes to memory, after which the compiler would have to read `post` again.
    let (router, key, message) = (post.router, post.key, post.message);
    let call = |slot: &Slot<H>| match slot.head.live() {
        Some(id) => {
            // SAFETY: it is live, and the poster is present.
            let handler = unsafe { slot.handler() };
            handler.handle(SubscriptionRef::new(router, &slot.head, id), key, message);
        }
        None => miss(post),
    };
    while cursor.single != cursor.singles_end {
        // SAFETY: a word of the group, which is a slot of this handler type.
        let slot = unsafe { &**cursor.single };
        // SAFETY: not past the end.
        cursor.single = unsafe { cursor.single.add(1) };
        call(slot);
    }
    // Slots are left in the cursor only if a handler of this chunk has panicked.
    while cursor.slot != cursor.slots_end || cursor.run != cursor.runs_end {
        if cursor.slot == cursor.slots_end {
            // SAFETY: a word of the group, which is a chunk of slots of this handler type.
            let slots = unsafe { Chunk::slots::<H>(*cursor.run) };
            post.calls
                .set(post.calls.get().wrapping_add(slots.len() as u64)); // see `miss`
            let range = slots.as_ptr_range();
            (cursor.slot, cursor.slots_end) = (range.start, range.end);
            // SAFETY: not past the end.
            cursor.run = unsafe { cursor.run.add(1) };
        }
        while cursor.slot != cursor.slots_end {
            // SAFETY: a slot of the chunk, which lives as long as the router.
            let slot = unsafe { &*cursor.slot };
            // SAFETY: not past the end.
            cursor.slot = unsafe { cursor.slot.add(1) };
            call(slot);
        }
    }
}

#[cold]
fn miss<M>(post: &Post<'_, M>) {
    post.calls.set(post.calls.get().wrapping_sub(1));
}
