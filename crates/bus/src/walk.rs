//! The inner loop: functions for each handler type, over the matching handlers of that type.
#![allow(unsafe_code)]

use crate::bus::Router;
use crate::handler::{Handler, SubscriptionRef};
use crate::key::Key;
use crate::plan::Word;
use crate::presence::Visit;
use crate::record::{Record, add};
use crate::slot::{Chunk, Slot};
use std::any::Any;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// What a walk needs to know of the post.
pub(crate) struct Post<'a, M: 'static> {
    pub(crate) router: &'a Router<M>,
    pub(crate) key: &'a Key,
    pub(crate) message: &'a M,
    pub(crate) record: &'a Record,
    /// Ends with the walk.
    pub(crate) visit: Visit,
}

impl<M: 'static> Clone for Post<'_, M> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<M: 'static> Copy for Post<'_, M> {}

/// Walks one group of a plan, then calls the function of the next one. The arguments are the group and the fields of
/// a [`Post`].
///
/// The optimiser makes that last call a jump, so that a post and the groups of its plan are one thread of code,
/// through which all six stay in their registers: small posts are bound by the number of loads and stores, and this
/// way needs none for them. Handlers that write to the message one after another moreover do so through the same
/// register, and the processor forwards each store to the next load without waiting for it (measured on Zen 4).
/// Where it does not, it is a plain call: without optimisation, and for handlers that lend something of their own frame to
/// code that is not inlined. Plans of many groups are therefore cut into parts (see `part`).
pub(crate) type Walk<M> = unsafe fn(*const Word, &Router<M>, &Key, &M, &Record, Visit);

/// Slots of the groups that are entered one by one, each size with a function that has no loop.
pub(crate) const GROUP_SIZES: [usize; 6] = [1, 2, 3, 4, 5, 8];

/// The functions of a handler type, as words of a plan.
pub(crate) struct Walks {
    /// For a group of slots, by place in [`GROUP_SIZES`].
    pub(crate) singles: [Word; GROUP_SIZES.len()],
    /// For a group of a chunk.
    pub(crate) chunk: Word,
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
                chunk: walk_chunk::<M, H> as Walk<M> as Word,
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
    /// Calls for the groups of a part, whose length in words follows, and goes on behind them.
    pub(crate) part: Word,
    /// What a part ends with: returns to `part`.
    pub(crate) pause: Word,
}

// SAFETY: functions.
unsafe impl Send for Marks {}
// SAFETY: as above.
unsafe impl Sync for Marks {}

impl Marks {
    pub(crate) fn of<M: 'static>() -> Marks {
        Marks {
            end: end::<M> as Walk<M> as Word,
            go_on: go_on::<M> as Walk<M> as Word,
            part: part::<M> as Walk<M> as Word,
            pause: pause::<M> as Walk<M> as Word,
        }
    }
}

/// # Safety
/// As for `run`.
unsafe fn end<M>(_: *const Word, _: &Router<M>, _: &Key, _: &M, record: &Record, visit: Visit) {
    record.presence().leave(visit);
}

/// # Safety
/// As for `run`, and the group's function is this one.
unsafe fn go_on<M>(
    group: *const Word,
    router: &Router<M>,
    key: &Key,
    message: &M,
    record: &Record,
    visit: Visit,
) {
    let post = Post {
        router,
        key,
        message,
        record,
        visit,
    };
    // SAFETY: the layout of such a group: the first group of the base, which lives as long as the plan.
    unsafe { run((*group.add(1)).cast(), post) }
}

/// Bounds the stack of a post: whatever the groups of a part have left on it is gone before the next part.
///
/// # Safety
/// As for `run`, and the group's function is this one.
unsafe fn part<M>(
    group: *const Word,
    router: &Router<M>,
    key: &Key,
    message: &M,
    record: &Record,
    visit: Visit,
) {
    let post = Post {
        router,
        key,
        message,
        record,
        visit,
    };
    // SAFETY: the layout of such a group: a number of words, then so many, which end with `pause`. The visit goes on.
    let next = unsafe {
        run(group.add(2), post);
        group.add(2 + (*group.add(1)).addr())
    };
    // SAFETY: passed on from the caller; the next group follows.
    unsafe { run(next, post) }
}

/// # Safety
/// None is needed.
unsafe fn pause<M>(_: *const Word, _: &Router<M>, _: &Key, _: &M, _: &Record, _: Visit) {}

/// Runs a plan from `group` on, and ends the visit; a part only up to its end, and the visit goes on.
///
/// # Safety
/// `group` is a group of a plan of the post's router, or its end; the poster is present by the post's visit, and the
/// plan is not freed before that ends.
#[inline(always)]
pub(crate) unsafe fn run<M>(group: *const Word, post: Post<'_, M>) {
    // SAFETY: the first word of a group is the function for it, made for messages of this router.
    let walk = unsafe { *group.cast::<Walk<M>>() };
    let Post {
        router,
        key,
        message,
        record,
        visit,
    } = post;
    // SAFETY: the group is the function's own; the rest is passed on.
    unsafe { walk(group, router, key, message, record, visit) }
}

/// A group of `N` slots: their addresses follow.
///
/// # Safety
/// As for `run`, and the group's function is this one.
unsafe fn walk_singles<M, H: Handler<M>, const N: usize>(
    group: *const Word,
    router: &Router<M>,
    key: &Key,
    message: &M,
    record: &Record,
    visit: Visit,
) {
    let post = Post {
        router,
        key,
        message,
        record,
        visit,
    };
    // SAFETY: the layout of such a group: so many slots of this handler type.
    let slots = unsafe { &*group.add(1).cast::<[*const Slot<H>; N]>() };
    let mut at = 0; // always past the handler that is being called
    let walked = catch_unwind(AssertUnwindSafe(|| {
        while at < N {
            // SAFETY: a slot of the group; its memory lives as long as the router.
            let slot = unsafe { &*slots[at] };
            at += 1;
            if !call(slot, slot.head.still_live(), post) {
                return false;
            }
        }
        true
    }));
    // SAFETY: one past the group, where the next one follows.
    let next = unsafe { group.add(1 + N) };
    match walked {
        // SAFETY: passed on from the caller.
        Ok(true) => return unsafe { run(next, post) },
        Ok(false) => miss(record),
        Err(payload) => caught(record, payload),
    }
    let left = next.wrapping_byte_add(N - at);
    // SAFETY: passed on from the caller; so many slots before the next group are still to be called.
    unsafe { walk_rest::<M, H>(left, router, key, message, record, visit) }
}

/// The rest of a group of slots after a dead one or a panic: not the way back into the code above, which then has but
/// one way through. What a handler leaves in registers for the next can stay there.
///
/// `left` is the next group's address, and in its lowest bits how many slots before it are left: as a seventh
/// argument that would go over the stack, and cost the usual way a frame.
///
/// # Safety
/// As for `run`; the slots are of this handler type.
#[cold]
#[inline(never)]
unsafe fn walk_rest<M, H: Handler<M>>(
    left: *const Word,
    router: &Router<M>,
    key: &Key,
    message: &M,
    record: &Record,
    visit: Visit,
) {
    let post = Post {
        router,
        key,
        message,
        record,
        visit,
    };
    let count = left.addr() % align_of::<Word>();
    let next = left.wrapping_byte_sub(count);
    // SAFETY: by what the caller promises.
    let mut slots = unsafe { std::slice::from_raw_parts(next.sub(count), count) }.iter();
    while let Err(payload) = catch_unwind(AssertUnwindSafe(|| {
        for slot in slots.by_ref() {
            // SAFETY: a slot of the group; its memory lives as long as the router.
            let slot = unsafe { &*slot.cast::<Slot<H>>() };
            if !call(slot, slot.head.still_live(), post) {
                miss(record);
            }
        }
    })) {
        caught(record, payload);
    }
    // SAFETY: passed on from the caller.
    unsafe { run(next, post) }
}

const _: () = assert!(
    GROUP_SIZES[GROUP_SIZES.len() - 1] <= align_of::<Word>(),
    "what is left of a group fits the lowest bits of an address"
);

/// Calls the handler if the slot was just found to be live by that id. `false` if it was not.
#[inline(always)]
fn call<M, H: Handler<M>>(slot: &Slot<H>, live: Option<u64>, post: Post<'_, M>) -> bool {
    let Some(id) = live else { return false };
    // SAFETY: it is live, and whoever walks is present.
    let handler = unsafe { slot.handler() };
    let subscription = SubscriptionRef::new(post.router, &slot.head, id);
    handler.handle(subscription, post.key, post.message);
    true
}

#[cold]
fn caught(record: &Record, payload: Box<dyn Any + Send>) {
    add(&record.counters.panics, 1);
    discard(payload);
}

/// Drops what a panic has thrown. That may panic, and what it throws in turn: some tries, then it is leaked.
#[cold]
pub(crate) fn discard(mut payload: Box<dyn Any + Send>) {
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

/// A group of one chunk, whose address follows.
///
/// One and not several, so that all that the loop needs fits the registers that the arguments leave: what has to be
/// saved first costs more than the jump to the next chunk's group.
///
/// # Safety
/// As for `run`, and the group's function is this one.
unsafe fn walk_chunk<M, H: Handler<M>>(
    group: *const Word,
    router: &Router<M>,
    key: &Key,
    message: &M,
    record: &Record,
    visit: Visit,
) {
    let post = Post {
        router,
        key,
        message,
        record,
        visit,
    };
    // SAFETY: the layout of such a group: a chunk of slots of this handler type.
    let slots = unsafe { Chunk::slots::<H>((*group.add(1)).cast()) };
    add(&record.counters.hits, slots.len() as u64); // see `miss`
    let Range { start, end } = slots.as_ptr_range();
    let mut at = start; // always past the handler that is being called
    // A handler that cannot panic leaves nothing of this but the loop.
    while let Err(payload) = catch_unwind(AssertUnwindSafe(|| {
        let next = |at: &mut *const Slot<H>| {
            // SAFETY: a slot of the chunk, which lives as long as the router.
            let slot = unsafe { &**at };
            // SAFETY: not past the end.
            *at = unsafe { at.add(1) };
            if !call(slot, slot.head.live(), post) {
                keep_rolled();
                miss(record);
            }
        };
        // SAFETY: both are of the chunk.
        let left = unsafe { end.offset_from_unsigned(at) };
        if left % 2 == 1 {
            next(&mut at);
        }
        for _ in 0..left / 2 {
            next(&mut at);
            next(&mut at);
        }
    })) {
        caught(record, payload);
    }
    // SAFETY: passed on from the caller; the next group follows.
    unsafe { run(group.add(2), post) }
}

/// Keeps the optimiser from unrolling the loop that this is in: it is unrolled by hand, in a way that needs no more
/// registers than are free. Elsewhere than on these processors the loop is the optimiser's.
#[inline(always)]
fn keep_rolled() {
    #[cfg(all(any(target_arch = "x86_64", target_arch = "aarch64"), not(miri)))]
    // SAFETY: there is nothing in it.
    unsafe {
        std::arch::asm!("", options(nomem, nostack, preserves_flags));
    }
}

/// Slots are counted as hits before they are looked at: those entered one by one at the start of the post, others by
/// the chunk. This takes one off that was dead.
#[cold]
fn miss(record: &Record) {
    add(&record.counters.hits, 1u64.wrapping_neg());
}
