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
    /// Calls made for chunks; slots that are entered one by one are counted by the plan. Dead ones are taken off.
    pub(crate) calls: Cell<u64>,
    pub(crate) panics: Cell<u64>,
}

/// Walks one group of a plan, then calls the function of the next one.
///
/// The optimiser makes that last call a jump, so that the groups of a plan are one thread of code through which the
/// message stays in one register. Handlers that write to the message one after another then do so through the
/// same register, and the processor forwards each store to the next load without waiting for it (measured on
/// Zen 4). Without optimisation it is a plain call; there are as many as the plan has groups.
pub(crate) type Walk<M> = unsafe fn(*const Word, &Post<'_, M>, &M);

/// The functions of a handler type, as words of a plan: for a group, and for a single slot.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Walks {
    pub(crate) group: Word,
    pub(crate) one: Word,
}

impl Walks {
    pub(crate) fn of<M: 'static, H: Handler<M>>() -> Walks {
        let (group, one): (Walk<M>, Walk<M>) = (walk::<M, H>, walk_one::<M, H>);
        Walks {
            group: group as Word,
            one: one as Word,
        }
    }
}

// SAFETY: functions, under the names of words.
unsafe impl Send for Walks {}
// SAFETY: as above.
unsafe impl Sync for Walks {}

/// What every plan ends with: the function that does nothing.
#[derive(Clone, Copy)]
pub(crate) struct End(pub(crate) Word);

// SAFETY: a function.
unsafe impl Send for End {}
// SAFETY: as above.
unsafe impl Sync for End {}

pub(crate) fn end<M: 'static>() -> End {
    unsafe fn nothing<M>(_: *const Word, _: &Post<'_, M>, _: &M) {}
    let end: Walk<M> = nothing::<M>;
    End(end as Word)
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

/// A group of one slot: its address follows.
///
/// # Safety
/// As for `run`, and the group's function is this one.
unsafe fn walk_one<M, H: Handler<M>>(group: *const Word, post: &Post<'_, M>, message: &M) {
    // SAFETY: the layout of such a group: a slot of this handler type.
    let slot = unsafe { &**group.add(1).cast::<*const Slot<H>>() };
    if let Err(payload) = catch_unwind(AssertUnwindSafe(|| {
        call(slot, post, post.router, post.key, message)
    })) {
        caught(post, payload);
    }
    // SAFETY: passed on from the caller; the next group follows.
    unsafe { run(group.add(2), post, message) }
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
    post.panics.set(post.panics.get() + 1);
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
unsafe fn walk<M, H: Handler<M>>(group: *const Word, post: &Post<'_, M>, message: &M) {
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
        unsafe { advance(&mut cursor, post, message) }
    })) {
        caught(post, payload);
    }
    // SAFETY: passed on from the caller; `end` is where the next group begins, or the end mark.
    unsafe { run(end, post, message) }
}

/// # Safety
/// As for `walk`; the cursor's pointers are those of the group.
#[inline]
unsafe fn advance<M, H: Handler<M>>(cursor: &mut Cursor<H>, post: &Post<'_, M>, message: &M) {
    // Copied out: a handler writes to memory, after which the compiler would have to read `post` again.
    let (router, key) = (post.router, post.key);
    let call = |slot| call::<M, H>(slot, post, router, key, message);
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
