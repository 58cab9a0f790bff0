//! The router behind its handles: lists of slots, who may change them, and when memory is used again.
//!
//! What is behind a filter in the trie is the number of a *list*: all subscriptions of one filter with one type
//! of handler. Order of things, all under the lock `state`:
//! - subscribing: handler written → id published → (new list: in the trie, published) → epoch moves → version
//!   moves. A post that starts after `subscribe` returned therefore sees the version, and with it the rest.
//! - unsubscribing: slot killed → a grace period → handler dropped (outside the lock) → slot free for the same
//!   list. A list without subscriptions stays in the trie until a scan comes by: out of the trie → epoch and
//!   version move → a grace period → chunks to the pool.
//!
//! No code of the user runs under the lock.
#![allow(unsafe_code)]

use crate::filter::Filter;
use crate::handler::{Handler, SubscriptionId};
use crate::local;
use crate::planner::Planner;
use crate::presence::{Barrier, Grace};
use crate::record::{Limits, Record};
use crate::segments::Segments;
use crate::slot::{Chunk, EXPANDED, Pool, Slot, SlotHead, SlotLayout};
use crate::walk::{Marks, Walks};
use router::{SharedMatcher, Writer};
use std::any::TypeId;
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

/// Unsubscribed slots whose handlers own nothing that may wait before a grace period is begun for them.
const RETIRED_MAX: usize = 32;
/// Places of the trie that an unsubscription looks at for empty lists.
const SCAN: u32 = 16;
/// A list that is not in use.
const NO_TYPE: u32 = u32::MAX;

pub(crate) struct List {
    /// The chunk filled last.
    head: AtomicPtr<Chunk>,
    ty: AtomicU32,
    live: AtomicU32,
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
struct HandlerType {
    walks: &'static Walks,
    drop: unsafe fn(NonNull<SlotHead>),
    needs_drop: bool,
    layout: SlotLayout,
    first_slot: usize,
    slot_size: usize,
}

enum Retired {
    Handler {
        slot: NonNull<SlotHead>,
        list: u32,
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
    pub(crate) drop_panics: AtomicU64,
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
            drop_panics: AtomicU64::new(0),
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
        state.sequence = state.sequence.wrapping_add(1);
        let id = u64::from(list) << 32 | u64::from(state.sequence) | u64::from(state.sequence == 0);
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

    /// Ends a subscription; `false` if the slot is no longer its own.
    pub(crate) fn unsubscribe(&self, slot: NonNull<SlotHead>, id: u64) -> bool {
        let mut state = self.lock();
        // SAFETY: memory of slots lives as long as the router.
        let head = unsafe { slot.as_ref() };
        if head.live() != Some(id) {
            return false;
        }
        head.kill();
        let index = (id >> 32) as u32;
        let list = self.list(index);
        let ty = list.ty.load(Ordering::Relaxed);
        state.fresh.push(Retired::Handler {
            slot,
            list: index,
            ty,
        });
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
            let index = (id.0 >> 32) as u32;
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

    fn drop_handler(&self, retired: &Retired) {
        match retired {
            Retired::Handler { slot, ty, .. } => {
                let drop = self.handler_type(*ty).drop;
                // SAFETY: the slot was killed before the grace period that has passed; only the one collector
                // drops, and each retired slot is listed once.
                let dropped = catch_unwind(AssertUnwindSafe(|| unsafe { drop(*slot) }));
                if dropped.is_err() {
                    self.drop_panics.fetch_add(1, Ordering::Relaxed);
                }
            }
            Retired::List(_) => {}
        }
    }

    fn reuse(&self, state: &mut State, retired: Retired) {
        match retired {
            Retired::Handler { slot, list, .. } => state.holes.entry(list).or_default().push(slot),
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

    fn list(&self, index: u32) -> &List {
        self.lists
            .get(index)
            .expect("a list that is named was made")
    }

    fn handler_type(&self, ty: u32) -> &HandlerType {
        self.types
            .get(ty)
            .and_then(OnceLock::get)
            .expect("a type that is named was entered")
    }

    fn type_of<M: 'static, H: Handler<M>>(&self, state: &mut State) -> u32 {
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

    fn make_list(&self, state: &mut State, ty: u32) -> u32 {
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
    fn make_slot(&self, state: &mut State, index: u32) -> (NonNull<SlotHead>, SlotChange) {
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

    fn for_each_slot(&self, index: u32, mut found: impl FnMut(NonNull<SlotHead>)) {
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

impl State {
    fn retired(&self) -> usize {
        let handlers = |all: &[Retired]| {
            all.iter()
                .filter(|r| matches!(r, Retired::Handler { .. }))
                .count()
        };
        handlers(&self.fresh) + handlers(&self.waiting)
    }
}

/// How a new slot comes to be seen.
#[derive(Clone, Copy)]
enum SlotChange {
    /// It was there before, and is where plans already look.
    Reused,
    /// It is the next one of a chunk that plans look at as a whole.
    Seen(NonNull<Chunk>),
    /// Plans must be made anew: the chunk is new, or small.
    Plans(NonNull<Chunk>),
}

impl SlotChange {
    /// Lets posts find the slot, which is filled.
    fn show(self, inner: &Inner, list: u32) {
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
                    if unsafe { slot.as_ref() }.live().is_some() {
                        left.push(Retired::Handler { slot, list, ty });
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
