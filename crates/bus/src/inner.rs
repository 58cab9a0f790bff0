//! The router behind its handles: lists of slots, who may change them, and when memory is used again.
//!
//! What is behind a filter in the trie is the number of a *list*: all subscriptions of one filter with one type
//! of handler. Order of things, all under the lock `state`:
//! - subscribing: handler written → id published → (new list: in the trie, published) → epoch moves → version
//!   moves. A post that starts after `subscribe` returned therefore sees the version, and with it the rest.
//! - unsubscribing: slot killed → a grace period → handler dropped (outside the lock) → slot free for the same
//!   list, unless that would be seen by plans that name it (see `slot`). A list without subscriptions stays in the trie until a scan comes by: out of the trie → epoch and
//!   version move → a grace period → chunks to the pool.
//!
//! No code of the user runs under the lock.
#![allow(unsafe_code)]

mod lists;
mod retire;

use self::lists::{HandlerType, List, SlotChange};
use crate::filter::Filter;
use crate::handler::{Handler, SubscriptionId};
use crate::planner::Planner;
use crate::presence::{Barrier, Grace};
use crate::record::{Limits, Record};
use crate::segments::Segments;
use crate::slot::{Pool, Slot, SlotHead};
use crate::walk::Marks;
use router::{SharedMatcher, Writer};
use std::any::TypeId;
use std::collections::HashMap;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

/// A list that is not in use.
const NO_TYPE: u32 = u32::MAX;

enum Retired {
    Handler {
        slot: NonNull<SlotHead>,
        id: u64,
        ty: u32,
    },
    List(u32),
}

struct State {
    writer: Writer<u32>,
    types: HashMap<TypeId, u32>,
    pools: Vec<Pool>,
    /// Lists that were used and are not.
    free_lists: Vec<u32>,
    lists: u32,
    /// Slots of lists in use whose handlers are dropped.
    holes: HashMap<u32, Vec<NonNull<SlotHead>>>,
    sequence: u32,
    live: usize,
    empty: usize,
    scan_at: u32,
    /// Waiting for a grace period to begin, and for the end of the one under way. In order.
    fresh: Vec<Retired>,
    waiting: Vec<Retired>,
    grace: Option<Grace<Record>>,
    /// A thread is dropping handlers whose time has come.
    collecting: bool,
}

// SAFETY: the pointers are to memory of the pools, which is used from any thread under the lock.
unsafe impl Send for State {}

pub(crate) struct Inner {
    pub(crate) id: u64,
    /// Moves after every change that a plan must know of.
    pub(crate) version: AtomicU64,
    pub(crate) alive: Arc<()>,
    barrier: Barrier,
    limits: Limits,
    /// What plans end with: functions for this router's messages.
    marks: Marks,
    lists: Segments<List>,
    types: Segments<OnceLock<HandlerType>>,
    state: Mutex<State>,
    pub(crate) records: Mutex<Records>,
    /// Panics of handlers outside of posts.
    pub(crate) panics: AtomicU64,
}

/// The records of the threads, and the sums of those that have left.
#[derive(Default)]
pub(crate) struct Records {
    pub(crate) all: Vec<Arc<Record>>,
    pub(crate) past: crate::stats::Sums,
}

/// Numbers that are read under the lock.
pub(crate) struct Sizes {
    pub(crate) subscriptions: usize,
    pub(crate) filters: usize,
    pub(crate) nodes: usize,
    pub(crate) retired: usize,
}

impl Inner {
    pub(crate) fn new(barrier: Barrier, limits: Limits, marks: Marks) -> Inner {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let (writer, _reader) = SharedMatcher::new();
        let state = State {
            writer,
            types: HashMap::new(),
            pools: Vec::new(),
            free_lists: Vec::new(),
            lists: 0,
            holes: HashMap::new(),
            sequence: 0,
            live: 0,
            empty: 0,
            scan_at: 0,
            fresh: Vec::new(),
            waiting: Vec::new(),
            grace: None,
            collecting: false,
        };
        Inner {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            version: AtomicU64::new(1),
            alive: Arc::new(()),
            barrier,
            limits,
            marks,
            lists: Segments::new(),
            types: Segments::new(),
            state: Mutex::new(state),
            records: Mutex::default(),
            panics: AtomicU64::new(0),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state
            .lock()
            .expect("no code panics under the router's lock")
    }

    /// Registers the calling thread.
    pub(crate) fn new_record(&self) -> Arc<Record> {
        let reader = self.lock().writer.reader();
        let record = Arc::new(Record::new(self.barrier, reader, self.limits, self.marks));
        let mut records = self.records.lock().expect("no code panics under this lock");
        records.fold_left();
        records.all.push(Arc::clone(&record));
        record
    }

    /// Adds a list to a plan. The caller is present, and found the list in the trie since.
    pub(crate) fn describe(&self, planner: &mut Planner, list: u32) {
        let list = self.lists.get(list).expect("a list in the trie was made");
        let ty = list.ty.load(Ordering::Relaxed);
        let info = self
            .types
            .get(ty)
            .and_then(OnceLock::get)
            .expect("a list in the trie has a type");
        let head = NonNull::new(list.head.load(Ordering::Acquire));
        // SAFETY: the list is of this type, and was not reused since the caller became present.
        unsafe { planner.add(ty, info.walks, head, info.first_slot, info.slot_size) };
    }

    pub(crate) fn subscribe<M: 'static, H: Handler<M>>(
        &self,
        filter: Filter,
        handler: H,
    ) -> (NonNull<SlotHead>, u64) {
        let mut state = self.lock();
        let ty = self.type_of::<M, H>(&mut state);
        let same_type = |list: &&u32| self.list(**list).ty.load(Ordering::Relaxed) == ty;
        let spot = state
            .writer
            .locate(filter.into_text(), std::thread::yield_now);
        let found = state
            .writer
            .subscribers_at(&spot)
            .iter()
            .find(same_type)
            .copied();
        let list = found.unwrap_or_else(|| self.make_list(&mut state, ty));
        let (slot, change) = self.make_slot(&mut state, list);
        let id = state.next_id(list, change);
        // SAFETY: the slot is free, and this is under the lock.
        unsafe { Slot::<H>::write(slot, handler) };
        // SAFETY: memory of slots lives as long as the router.
        unsafe { slot.as_ref() }.publish(id);
        change.show(self, list);
        state.live += 1;
        let live = self.list(list).live.fetch_add(1, Ordering::Relaxed);
        state.empty -= usize::from(live == 0 && found.is_some());
        match (found, change) {
            (None, _) => {
                state.writer.insert_at(spot, list);
                self.version.fetch_add(1, Ordering::SeqCst);
            }
            (Some(_), SlotChange::Plans(_)) => {
                state.writer.touch(spot.filter());
                self.version.fetch_add(1, Ordering::SeqCst);
            }
            (Some(_), SlotChange::Reused | SlotChange::Seen(_)) => {}
        }
        drop(state);
        (slot, id)
    }
    /// All subscriptions, each with its filter.
    pub(crate) fn subscriptions(&self) -> Vec<(String, SubscriptionId)> {
        let state = self.lock();
        let mut all = Vec::with_capacity(state.live);
        state.writer.for_each_filter(|filter, lists| {
            for &list in lists {
                self.for_each_slot(list, |slot| {
                    // SAFETY: memory of slots lives as long as the router.
                    all.extend(
                        unsafe { slot.as_ref() }
                            .live()
                            .map(|id| (filter.to_owned(), SubscriptionId(id))),
                    );
                });
            }
        });
        all
    }

    pub(crate) fn sizes(&self) -> Sizes {
        let state = self.lock();
        Sizes {
            subscriptions: state.live,
            filters: state.writer.filters(),
            nodes: state.writer.nodes(),
            retired: state.retired(),
        }
    }
}

impl Drop for Inner {
    /// No post is under way, since a post borrows the router, and nobody is subscribed by a handle, since
    /// handles hold it: what is left are detached subscriptions, and handlers that waited for a grace period.
    fn drop(&mut self) {
        let mut left = Vec::new();
        let state = self.lock();
        state.writer.for_each_filter(|_, lists| {
            for &list in lists {
                let ty = self.list(list).ty.load(Ordering::Relaxed);
                self.for_each_slot(list, |slot| {
                    // SAFETY: memory of slots lives until the pools are dropped, after this.
                    if let Some(id) = unsafe { slot.as_ref() }.live() {
                        left.push(Retired::Handler { slot, id, ty });
                    }
                });
            }
        });
        drop(state);
        let mut state = self.lock();
        left.append(&mut state.fresh);
        left.append(&mut state.waiting);
        drop(state);
        left.iter().for_each(|retired| self.drop_handler(retired));
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
