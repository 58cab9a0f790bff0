//! Ending subscriptions, and what must wait until nobody looks at it any more.
#![allow(unsafe_code)]

use super::lists::{is_reusable, list_of};
use super::{Inner, NO_TYPE, Retired, State};
use crate::handler::SubscriptionId;
use crate::local;
use crate::presence::Grace;
use crate::record::Record;
use crate::slot::SlotHead;
use crate::walk::discard;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::sync::atomic::Ordering;

/// Unsubscribed slots whose handlers own nothing that may wait before a grace period is begun for them.
const RETIRED_MAX: usize = 32;
/// Places of the trie that an unsubscription looks at for empty lists.
const SCAN: u32 = 16;

impl Inner {
    /// Ends a subscription; `false` if the slot is no longer its own.
    pub(crate) fn unsubscribe(&self, slot: NonNull<SlotHead>, id: u64) -> bool {
        let mut state = self.lock();
        // SAFETY: memory of slots lives as long as the router.
        let head = unsafe { slot.as_ref() };
        if head.live() != Some(id) {
            return false;
        }
        head.kill();
        let list = self.list(list_of(id));
        let ty = list.ty.load(Ordering::Relaxed);
        state.fresh.push(Retired::Handler { slot, id, ty });
        state.live -= 1;
        state.empty += usize::from(list.live.fetch_sub(1, Ordering::Relaxed) == 1);
        self.scan(&mut state, SCAN);
        // What a handler owns is let go at once where that is possible: it may be what keeps this router alive.
        let owns = self.handler_type(ty).needs_drop && !local::is_inside(self.id);
        let full = state.fresh.len() >= RETIRED_MAX;
        drop(state);
        if full || owns {
            self.collect();
        }
        true
    }

    /// Finds a subscription by its number, and ends it.
    pub(crate) fn unsubscribe_by_id(&self, id: SubscriptionId) -> bool {
        let mut found = None;
        {
            let _state = self.lock();
            let index = list_of(id.0);
            if self
                .lists
                .get(index)
                .is_some_and(|list| list.ty.load(Ordering::Relaxed) != NO_TYPE)
            {
                self.for_each_slot(index, |slot| {
                    // SAFETY: memory of slots lives as long as the router.
                    if unsafe { slot.as_ref() }.live() == Some(id.0) {
                        found = Some(slot);
                    }
                });
            }
        }
        found.is_some_and(|slot| self.unsubscribe(slot, id.0))
    }

    /// Takes empty lists out of the trie, among the next `count` of its places.
    fn scan(&self, state: &mut State, count: u32) {
        if state.empty == 0 {
            return;
        }
        let is_empty = |list: &u32| self.list(*list).live.load(Ordering::Relaxed) == 0;
        let mut found = Vec::new();
        let wanted = |lists: &[u32]| lists.iter().any(is_empty);
        state.scan_at = state
            .writer
            .scan(state.scan_at, count, wanted, |filter, lists| {
                found.extend(
                    lists
                        .iter()
                        .filter(|list| is_empty(list))
                        .map(|&list| (filter.to_owned(), list)),
                );
            });
        if found.is_empty() {
            return;
        }
        for (filter, list) in found {
            state.writer.remove(&filter, &list);
            state.empty -= 1;
            state.fresh.push(Retired::List(list));
        }
        state.writer.publish(std::thread::yield_now);
        self.version.fetch_add(1, Ordering::SeqCst);
    }

    /// Drops handlers whose subscriptions have ended and which nobody runs any more, as far as that is known
    /// without waiting, and begins a grace period for the rest. Returns how many wait still.
    pub(crate) fn collect(&self) -> usize {
        let mut state = self.lock();
        if state.collecting {
            return state.retired();
        }
        state.collecting = true;
        for _ in 0..2 {
            self.begin_grace(&mut state);
            if !state.grace.as_mut().is_some_and(Grace::passed) {
                break;
            }
            state.grace = None;
            let ripe = std::mem::take(&mut state.waiting);
            drop(state);
            ripe.iter().for_each(|retired| self.drop_handler(retired));
            state = self.lock();
            ripe.into_iter()
                .for_each(|retired| self.reuse(&mut state, retired));
        }
        state.collecting = false;
        state.retired()
    }

    /// Takes all empty lists out of the trie, then collects.
    pub(crate) fn collect_all(&self) -> usize {
        {
            let mut state = self.lock();
            state.scan_at = 0;
            self.scan(&mut state, u32::MAX);
        }
        self.collect()
    }

    fn begin_grace(&self, state: &mut State) {
        if state.grace.is_none() && !state.fresh.is_empty() {
            let records = self.records.lock().expect("no code panics under this lock");
            state.grace = Some(Grace::begin(self.barrier, records.all.iter()));
            drop(records);
            state.waiting = std::mem::take(&mut state.fresh);
        }
    }

    /// A grace period of its own for the caller, who has made something unreachable.
    pub(crate) fn grace(&self) -> Grace<Record> {
        let records = self.records.lock().expect("no code panics under this lock");
        Grace::begin(self.barrier, records.all.iter())
    }

    pub(super) fn drop_handler(&self, retired: &Retired) {
        match retired {
            Retired::Handler { slot, ty, .. } => {
                let drop = self.handler_type(*ty).drop;
                // SAFETY: the slot was killed before the grace period that has passed; only the one collector
                // drops, and each retired slot is listed once.
                self.guard(|| unsafe { drop(*slot) });
            }
            Retired::List(_) => {}
        }
    }

    /// Runs what a user wrote outside of a post. A panic is counted and goes no further.
    pub(crate) fn guard(&self, run: impl FnOnce()) {
        if let Err(payload) = catch_unwind(AssertUnwindSafe(run)) {
            self.panics.fetch_add(1, Ordering::Relaxed);
            discard(payload);
        }
    }

    fn reuse(&self, state: &mut State, retired: Retired) {
        match retired {
            Retired::Handler { slot, id, .. } if is_reusable(id) => {
                state.holes.entry(list_of(id)).or_default().push(slot);
            }
            Retired::Handler { .. } => {}
            Retired::List(index) => {
                // Its handlers were retired before it, so they are dropped.
                let list = self.list(index);
                let ty = list.ty.swap(NO_TYPE, Ordering::Relaxed);
                let mut next =
                    NonNull::new(list.head.swap(std::ptr::null_mut(), Ordering::Relaxed));
                while let Some(chunk) = next {
                    // SAFETY: chunks live as long as the router.
                    next = unsafe { chunk.as_ref() }.next();
                    state.pools[ty as usize].put(chunk);
                }
                state.holes.remove(&index);
                state.free_lists.push(index);
            }
        }
    }
}

impl State {
    pub(super) fn retired(&self) -> usize {
        let handlers = |all: &[Retired]| {
            all.iter()
                .filter(|r| matches!(r, Retired::Handler { .. }))
                .count()
        };
        handlers(&self.fresh) + handlers(&self.waiting)
    }
}
