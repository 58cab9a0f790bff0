//! The protocol of slots and presences under loom, which runs every interleaving of every order that the memory
//! model allows: `RUSTFLAGS="--cfg loom" cargo test -p courser-router --lib --release loom`.
//!
//! Handlers are loom's cells: it reports any call while a handler is written or dropped.
#![allow(unsafe_code)]

use crate::presence::{Barrier, Grace, Presence};
use crate::slot::SlotHead;
use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;
use std::sync::Arc;

struct Model {
    version: AtomicU64,
    head: SlotHead,
    handler: UnsafeCell<u64>,
    presences: [Arc<Presence>; 2],
}

impl Model {
    fn new() -> Arc<Model> {
        let presence = || Arc::new(Presence::new(Barrier::Fence));
        Arc::new(Model {
            version: AtomicU64::new(0),
            head: SlotHead::empty(),
            handler: UnsafeCell::new(0),
            presences: [presence(), presence()],
        })
    }

    /// What `subscribe` does; the handler is its own number.
    fn subscribe(&self, id: u64) {
        // SAFETY: loom checks that nobody else looks.
        self.handler.with_mut(|handler| unsafe { *handler = id });
        self.head.publish(id);
        self.version.fetch_add(1, Ordering::SeqCst);
    }

    /// A post of the thread with that presence: the id that was called.
    fn post(&self, thread: usize) -> Option<u64> {
        self.post_if(thread, |head, _| head.live())
    }

    /// One by a plan that names the slot, which the thread has found live before.
    fn post_by_plan(&self, thread: usize) -> Option<u64> {
        self.post_if(thread, |head, _| head.still_live())
    }

    /// One that makes its plan if none holds: the version with which it was made, and the id of the slot that it names.
    fn post_planned(&self, thread: usize, plan: &mut Option<(u64, u64)>) {
        self.post_if(thread, |head, version| match *plan {
            Some((made_at, id)) if made_at == version => {
                let live = head.still_live();
                assert!(live.is_none_or(|live| live == id), "{id} became {live:?}");
                live
            }
            Some(_) | None => {
                let live = head.live();
                *plan = live.map(|id| (version, id));
                live
            }
        });
    }

    fn post_if(
        &self,
        thread: usize,
        live: impl FnOnce(&SlotHead, u64) -> Option<u64>,
    ) -> Option<u64> {
        let visit = self.presences[thread].enter();
        let version = self.version.load(Ordering::Acquire);
        let called = live(&self.head, version).inspect(|&id| {
            // SAFETY: loom checks that nobody writes.
            let handler = self.handler.with(|handler| unsafe { *handler });
            assert_eq!(handler, id, "the handler is that of the subscription");
        });
        if let Some(visit) = visit {
            self.presences[thread].leave(visit);
        }
        called
    }

    /// What unsubscribing does, up to the moment when the handler is dropped.
    fn unsubscribe_wait(&self) {
        self.head.kill();
        self.wait_and_drop();
    }

    /// The same for the last one of a list, which is taken out of the trie: no plan that names the slot holds any more.
    fn unsubscribe_list_wait(&self) {
        self.head.kill();
        self.version.fetch_add(1, Ordering::SeqCst);
        self.wait_and_drop();
    }

    fn wait_and_drop(&self) {
        let mut grace: Grace<Presence> = Grace::begin(Barrier::Fence, self.presences.iter());
        while !grace.passed() {
            thread::yield_now();
        }
        // SAFETY: loom checks that nobody looks.
        self.handler
            .with_mut(|handler| unsafe { *handler = u64::MAX });
    }
}

#[test]
fn loom_no_call_of_a_dropped_handler() {
    loom::model(|| {
        let model = Model::new();
        model.subscribe(1);
        let other = Arc::clone(&model);
        let poster = thread::spawn(move || {
            other.post(0);
            other.post(0);
        });
        model.unsubscribe_wait();
        poster.join().unwrap();
        assert_eq!(model.post(1), None);
    });
}

#[test]
fn loom_no_call_of_a_dropped_handler_by_a_plan() {
    loom::model(|| {
        let model = Model::new();
        let other = Arc::clone(&model);
        let poster = thread::spawn(move || match other.post(0) {
            Some(1) => assert!(matches!(other.post_by_plan(0), None | Some(1))),
            called => assert_eq!(called, None), // and no plan names the slot
        });
        model.subscribe(1);
        model.unsubscribe_wait();
        poster.join().unwrap();
        assert_eq!(model.post(1), None);
    });
}

#[test]
fn loom_a_slot_is_used_again_after_its_grace_period() {
    loom::model(|| {
        let model = Model::new();
        model.subscribe(1);
        let other = Arc::clone(&model);
        let poster = thread::spawn(move || other.post(0));
        model.unsubscribe_wait();
        model.subscribe(2);
        assert!(matches!(poster.join().unwrap(), None | Some(1 | 2)));
        assert_eq!(model.post(1), Some(2));
    });
}

#[test]
fn loom_a_plan_that_holds_names_no_slot_that_is_used_again() {
    loom::model(|| {
        let model = Model::new();
        model.subscribe(1);
        let other = Arc::clone(&model);
        let poster = thread::spawn(move || {
            let mut plan = None;
            other.post_planned(0, &mut plan);
            other.post_planned(0, &mut plan);
        });
        model.unsubscribe_list_wait();
        model.subscribe(2);
        poster.join().unwrap();
        assert_eq!(model.post(1), Some(2));
    });
}

#[test]
fn loom_posters_do_not_wait_for_each_other() {
    loom::model(|| {
        let model = Model::new();
        model.subscribe(1);
        let (a, b) = (Arc::clone(&model), Arc::clone(&model));
        let first = thread::spawn(move || a.post(0));
        let second = thread::spawn(move || b.post(1));
        model.unsubscribe_wait();
        first.join().unwrap();
        second.join().unwrap();
    });
}

#[test]
fn loom_what_was_subscribed_is_seen_with_its_version() {
    loom::model(|| {
        let model = Model::new();
        let other = Arc::clone(&model);
        let poster = thread::spawn(move || {
            let seen = other.version.load(Ordering::Acquire);
            let called = other.post(0);
            assert!(
                seen == 0 || called == Some(1),
                "version {seen}, called {called:?}"
            );
        });
        model.subscribe(1);
        poster.join().unwrap();
        assert_eq!(model.post(1), Some(1));
    });
}
