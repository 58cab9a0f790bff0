//! Lists of slots, and the types of handlers that are in them.
#![allow(unsafe_code)]

use super::{Inner, NO_TYPE, State};
use crate::handler::Handler;
use crate::slot::{Chunk, EXPANDED, Pool, Slot, SlotHead, SlotLayout};
use crate::walk::Walks;
use std::any::TypeId;
use std::ptr::NonNull;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

pub(super) struct List {
    /// The chunk filled last.
    pub(super) head: AtomicPtr<Chunk>,
    pub(super) ty: AtomicU32,
    pub(super) live: AtomicU32,
}

impl Default for List {
    fn default() -> Self {
        List {
            head: AtomicPtr::default(),
            ty: AtomicU32::new(NO_TYPE),
            live: AtomicU32::new(0),
        }
    }
}

/// What is known of a type of handlers.
pub(super) struct HandlerType {
    pub(super) walks: &'static Walks,
    pub(super) drop: unsafe fn(NonNull<SlotHead>),
    pub(super) needs_drop: bool,
    pub(super) layout: SlotLayout,
    pub(super) first_slot: usize,
    pub(super) slot_size: usize,
}

impl Inner {
    pub(super) fn list(&self, index: u32) -> &List {
        self.lists
            .get(index)
            .expect("a list that is named was made")
    }

    pub(super) fn handler_type(&self, ty: u32) -> &HandlerType {
        self.types
            .get(ty)
            .and_then(OnceLock::get)
            .expect("a type that is named was entered")
    }

    pub(super) fn type_of<M: 'static, H: Handler<M>>(&self, state: &mut State) -> u32 {
        let next = state.pools.len() as u32;
        let ty = *state.types.entry(TypeId::of::<H>()).or_insert(next);
        if ty == next {
            let layout = const { SlotLayout::of::<H>() };
            let info = HandlerType {
                walks: Walks::of::<M, H>(),
                drop: Slot::<H>::drop_handler,
                needs_drop: std::mem::needs_drop::<H>(),
                layout,
                first_slot: layout.first_slot(),
                slot_size: size_of::<Slot<H>>(),
            };
            assert!(
                self.types.get_or_grow(ty).set(info).is_ok(),
                "a type is entered once"
            );
            state.pools.push(Pool::new(layout));
        }
        ty
    }

    pub(super) fn make_list(&self, state: &mut State, ty: u32) -> u32 {
        let index = state.free_lists.pop().unwrap_or_else(|| {
            state.lists += 1;
            // The number is the upper half of ids, whose top bit means that a slot is gone.
            assert!(state.lists < 1 << 31, "fewer than 2^31 lists fit in memory");
            state.lists
        });
        self.lists
            .get_or_grow(index)
            .ty
            .store(ty, Ordering::Relaxed);
        index
    }

    /// A free slot of a list, not yet to be seen.
    pub(super) fn make_slot(
        &self,
        state: &mut State,
        index: u32,
    ) -> (NonNull<SlotHead>, SlotChange) {
        if let Some(holes) = state.holes.get_mut(&index) {
            if let Some(slot) = holes.pop() {
                return (slot, SlotChange::Reused);
            }
            state.holes.remove(&index);
        }
        let list = self.list(index);
        let ty = list.ty.load(Ordering::Relaxed);
        let layout = self.handler_type(ty).layout;
        let head = NonNull::new(list.head.load(Ordering::Relaxed));
        // SAFETY: chunks live as long as the router.
        let last = head.map(|head| (head, unsafe { head.as_ref() }));
        match last {
            Some((chunk, header)) if header.len() < header.capacity() => {
                // SAFETY: below the capacity of a chunk of this type.
                let slot = unsafe { Chunk::slot(chunk, layout, header.len()) };
                let expanded = header.capacity() <= EXPANDED;
                (
                    slot,
                    if expanded {
                        SlotChange::Plans(chunk)
                    } else {
                        SlotChange::Seen(chunk)
                    },
                )
            }
            _ => {
                let chunk =
                    state.pools[ty as usize].take(last.map(|(_, header)| header.capacity()));
                // SAFETY: chunks live as long as the router.
                unsafe { chunk.as_ref() }.set_next(head);
                // SAFETY: every capacity is at least 1.
                (
                    unsafe { Chunk::slot(chunk, layout, 0) },
                    SlotChange::Plans(chunk),
                )
            }
        }
    }

    pub(super) fn for_each_slot(&self, index: u32, mut found: impl FnMut(NonNull<SlotHead>)) {
        let list = self.list(index);
        let ty = list.ty.load(Ordering::Relaxed);
        let mut next = NonNull::new(list.head.load(Ordering::Relaxed));
        while let Some(chunk) = next {
            // SAFETY: chunks live as long as the router.
            let header = unsafe { chunk.as_ref() };
            for at in 0..header.len() {
                // SAFETY: below the length, in a chunk of this type.
                found(unsafe { Chunk::slot(chunk, self.handler_type(ty).layout, at) });
            }
            next = header.next();
        }
    }
}

impl State {
    /// The number of the next subscription in `list`, in a slot that came to be like this: the list, a sequence, and
    /// whether the slot may be used again.
    pub(super) fn next_id(&mut self, list: u32, change: SlotChange) -> u64 {
        self.sequence = self.sequence.wrapping_add(2);
        u64::from(list) << 32 | u64::from(self.sequence) | u64::from(change.is_reusable())
    }
}

/// The list of a subscription.
pub(super) fn list_of(id: u64) -> u32 {
    (id >> 32) as u32
}

/// Whether another subscription may get the slot of this one.
pub(super) fn is_reusable(id: u64) -> bool {
    id & 1 == 1
}

/// How a new slot comes to be seen.
#[derive(Clone, Copy)]
pub(super) enum SlotChange {
    /// It was there before, and is where plans already look.
    Reused,
    /// It is the next one of a chunk that plans look at as a whole.
    Seen(NonNull<Chunk>),
    /// Plans must be made anew: the chunk is new, or small.
    Plans(NonNull<Chunk>),
}

impl SlotChange {
    /// Slots that plans name one by one are used once.
    fn is_reusable(self) -> bool {
        match self {
            SlotChange::Reused | SlotChange::Seen(_) => true,
            // SAFETY: chunks live as long as the router.
            SlotChange::Plans(chunk) => unsafe { chunk.as_ref() }.capacity() > EXPANDED,
        }
    }

    /// Lets posts find the slot, which is filled.
    pub(super) fn show(self, inner: &Inner, list: u32) {
        match self {
            SlotChange::Reused => {}
            SlotChange::Seen(chunk) | SlotChange::Plans(chunk) => {
                // SAFETY: chunks live as long as the router.
                let header = unsafe { chunk.as_ref() };
                header.set_len(header.len() + 1);
                inner
                    .list(list)
                    .head
                    .store(chunk.as_ptr(), Ordering::Release);
            }
        }
    }
}
