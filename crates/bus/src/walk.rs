//! The inner loop: functions for each handler type, over the matching handlers of that type.
#![allow(unsafe_code)]

use crate::bus::Router;
use crate::handler::{Handler, SubscriptionRef};
use crate::key::Key;
use crate::plan::Word;
use crate::record::{Record, add};
use crate::slot::{Chunk, Slot};
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// What a walk needs to know of the post.
pub(crate) struct Post<'a, M: 'static> {
    pub(crate) router: &'a Router<M>,
    pub(crate) key: &'a Key,
    pub(crate) record: &'a Record,
    /// Calls made: those of slots that are entered one by one are counted before the walk. Dead ones are taken off.
    pub(crate) calls: Cell<u64>,
}

/// Walks one group of a plan, then calls the function of the next one.
///
/// The optimiser makes that last call a jump, so that the groups of a plan are one thread of code through which the
/// message stays in one register. Handlers that write to the message one after another then do so through the
/// same register, and the processor forwards each store to the next load without waiting for it (measured on
/// Zen 4). Without optimisation it is a plain call; there are as many as the plan has groups.
pub(crate) type Walk<M> = unsafe fn(*const Word, &Post<'_, M>, &M);

/// Slots of the groups that are entered one by one, each size with a function that has no loop.
pub(crate) const GROUP_SIZES: [usize; 6] = [1, 2, 3, 4, 5, 8];

/// The functions of a handler type, as words of a plan.
pub(crate) struct Walks {
    /// For a group of slots, by place in [`GROUP_SIZES`].
    pub(crate) singles: [Word; GROUP_SIZES.len()],
    /// For a group of chunks.
    pub(crate) chunks: Word,
}

impl Walks {
    pub(crate) fn of<M: 'static, H: Handler<M>>() -> &'static Walks {
        const {
            &Walks {
                singles: [
                    walk_singles::<M, H, { GROUP_SIZES[0] }> as Walk<M> as Word,
                    walk_singles::<M, H, { GROUP_SIZES[1] }> as Walk<M> as Word,
                    walk_singles::<M, H, { GROUP_SIZES[2] }> as Walk<M> as Word,
                    walk_singles::<M, H, { GROUP_SIZES[3] }> as Walk<M> as Word,
                    walk_singles::<M, H, { GROUP_SIZES[4] }> as Walk<M> as Word,
                    walk_singles::<M, H, { GROUP_SIZES[5] }> as Walk<M> as Word,
                ],
                chunks: walk_chunks::<M, H> as Walk<M> as Word,
            }
        }
    }
}

// SAFETY: functions, under the names of words.
unsafe impl Send for Walks {}
// SAFETY: as above.
unsafe impl Sync for Walks {}

/// The functions of a router that belong to no handler type.
#[derive(Clone, Copy)]
pub(crate) struct Marks {
    /// What every plan ends with: the function that does nothing.
    pub(crate) end: Word,
    /// Goes on with the groups whose address follows.
    pub(crate) go_on: Word,
}

// SAFETY: functions.
unsafe impl Send for Marks {}
// SAFETY: as above.
unsafe impl Sync for Marks {}

impl Marks {
    pub(crate) fn of<M: 'static>() -> Marks {
        let (end, go_on): (Walk<M>, Walk<M>) = (end::<M>, go_on::<M>);
        Marks {
            end: end as Word,
            go_on: go_on as Word,
        }
    }
}

unsafe fn end<M>(_: *const Word, _: &Post<'_, M>, _: &M) {}

/// # Safety
/// As for `run`, and the group's function is this one.
unsafe fn go_on<M>(group: *const Word, post: &Post<'_, M>, message: &M) {
    // SAFETY: the layout of such a group: the first group of the base, which lives as long as the plan.
    unsafe { run((*group.add(1)).cast(), post, message) }
}

/// Runs a plan from `group` on.
///
/// # Safety
/// `group` is a group of a plan of the post's router, or its end; the poster is present, and the plan is not freed
/// before this returns.
#[inline(always)]
pub(crate) unsafe fn run<M>(group: *const Word, post: &Post<'_, M>, message: &M) {
    // SAFETY: the first word of a group is the function for it, made for messages of this router.
    let walk = unsafe { *group.cast::<Walk<M>>() };
    // SAFETY: the group is the function's own; the rest is passed on.
    unsafe { walk(group, post, message) }
}

/// A group of `N` slots: their addresses follow.
///
/// # Safety
/// As for `run`, and the group's function is this one.
unsafe fn walk_singles<M, H: Handler<M>, const N: usize>(
    group: *const Word,
    post: &Post<'_, M>,
    message: &M,
) {
    // SAFETY: the layout of such a group: so many slots of this handler type.
    let slots = unsafe { &*group.add(1).cast::<[*const Slot<H>; N]>() };
    // Copied out: a handler writes to memory, after which the compiler would have to read `post` again.
    let (router, key) = (post.router, post.key);
    let mut at = 0; // always past the handler that is being called
    while let Err(payload) = catch_unwind(AssertUnwindSafe(|| {
        while at < N {
            // SAFETY: a slot of the group; its memory lives as long as the router.
            let slot = unsafe { &*slots[at] };
            at += 1;
            call(slot, post, router, key, message);
        }
    })) {
        caught(post, payload);
    }
    // SAFETY: passed on from the caller; the next group follows.
    unsafe { run(group.add(1 + N), post, message) }
}

#[inline(always)]
fn call<M, H: Handler<M>>(
    slot: &Slot<H>,
    post: &Post<'_, M>,
    router: &Router<M>,
    key: &Key,
    message: &M,
) {
    match slot.head.live() {
        Some(id) => {
            // SAFETY: it is live, and whoever walks is present.
            let handler = unsafe { slot.handler() };
            handler.handle(SubscriptionRef::new(router, &slot.head, id), key, message);
        }
        None => miss(post),
    }
}

#[cold]
fn caught<M>(post: &Post<'_, M>, payload: Box<dyn std::any::Any + Send>) {
    add(&post.record.counters.panics, 1);
    // What was thrown may panic when it is dropped, and what that throws in turn: some tries, then it is leaked.
    let mut payload = payload;
    for _ in 0..DROP_TRIES {
        match catch_unwind(AssertUnwindSafe(|| drop(payload))) {
            Ok(()) => return,
            Err(again) => payload = again,
        }
    }
    std::mem::forget(payload);
}

/// How often what a panic left behind is tried to be dropped.
const DROP_TRIES: usize = 4;

/// Where a walk is; kept outside of the part that may unwind, always past the handler that is being called.
struct Cursor<H> {
    run: *const *const Chunk,
    runs_end: *const *const Chunk,
    slot: *const Slot<H>,
    slots_end: *const Slot<H>,
}

/// A group of chunks: the distance in bytes from the group's first word to its end follows, then their addresses.
///
/// # Safety
/// As for `run`, and the group's function is this one.
unsafe fn walk_chunks<M, H: Handler<M>>(group: *const Word, post: &Post<'_, M>, message: &M) {
    // SAFETY: the layout of a group, see `plan`.
    let (first, end) = unsafe { (group.add(2), group.byte_add((*group.add(1)).addr())) };
    let mut cursor = Cursor::<H> {
        run: first.cast(),
        runs_end: end.cast(),
        slot: std::ptr::null(),
        slots_end: std::ptr::null(),
    };
    // A handler that cannot panic leaves nothing of this but the loop.
    while let Err(payload) = catch_unwind(AssertUnwindSafe(|| {
        // SAFETY: passed on from the caller.
        unsafe { advance(&mut cursor, post, message) }
    })) {
        caught(post, payload);
    }
    // SAFETY: passed on from the caller; `end` is where the next group begins, or the end mark.
    unsafe { run(end, post, message) }
}

/// # Safety
/// As for `walk_chunks`; the cursor's pointers are those of the group.
#[inline]
unsafe fn advance<M, H: Handler<M>>(cursor: &mut Cursor<H>, post: &Post<'_, M>, message: &M) {
    // Copied out: a handler writes to memory, after which the compiler would have to read `post` again.
    let (router, key) = (post.router, post.key);
    // Slots are left in the cursor only if a handler of this chunk has panicked.
    while cursor.slot != cursor.slots_end || cursor.run != cursor.runs_end {
        if cursor.slot == cursor.slots_end {
            // SAFETY: a word of the group, which is a chunk of slots of this handler type.
            let slots = unsafe { Chunk::slots::<H>(*cursor.run) };
            let calls = post.calls.get().wrapping_add(slots.len() as u64); // see `miss`
            post.calls.set(calls);
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
            call(slot, post, router, key, message);
        }
    }
}

#[cold]
fn miss<M>(post: &Post<'_, M>) {
    post.calls.set(post.calls.get().wrapping_sub(1));
}
