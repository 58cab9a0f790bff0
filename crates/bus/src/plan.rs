//! What a post does for a key: for each handler type static calls, over the slots of all matching filters.
//!
//! A plan is one block of words, read from front to back:
//!
//! ```text
//! [references][words][singles in all][base]  then groups:  [walk][slot ..]  or  [walk][chunk]
//! then [end], or [go on][groups of the base]
//! ```
//! Where there are many groups, those of each part but the last are wrapped: `[part][words] groups [pause]`.
//!
//! `walk` is the function made for the handler type (and for so many slots); it handles its group and goes on with
//! the function of the next one. Slots and chunks lie in the order of their addresses, so that equal match lists are
//! equal words, and a thread keeps each plan once however many keys share it.
//!
//! What most keys of a kind match (the filters with many subscribers) is a plan of its own, the *base*, on which
//! the plans of these keys go on. Thousands of different plans are then a cache line or two each, and the base, where
//! most of the handlers are, stays in the first cache.
#![allow(unsafe_code)]

use crate::planner::Planner;
use foldhash::fast::RandomState;
use hashbrown::HashTable;
use std::hash::BuildHasher;
use std::ptr::NonNull;

/// Pointers and numbers alike; numbers are pointers without provenance.
pub(crate) type Word = *const ();

pub(crate) const HEADER: usize = 4;
const REFERENCES: usize = 0;
pub(crate) const WORDS: usize = 1;
pub(crate) const SINGLES: usize = 2;
pub(crate) const BASE: usize = 3;

/// Plans are allocated by the cache line, so that a small one is a single miss.
#[repr(C, align(64))]
#[derive(Clone, Copy)]
struct Line([Word; LINE]);

const LINE: usize = 8;
const _: () = assert!(size_of::<Line>() == 64, "a line has no padding");

pub(crate) fn number(n: usize) -> Word {
    std::ptr::without_provenance(n)
}

/// A plan of a pool: alive until the pool's `release` was called as often as its `share`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PlanRef(NonNull<Word>);

impl PlanRef {
    /// The first group.
    #[inline]
    pub(crate) fn groups(self) -> *const Word {
        // SAFETY: a plan has a header and an end mark.
        unsafe { self.0.as_ptr().add(HEADER) }
    }

    /// Slots that are entered one by one, those of the base included.
    #[inline]
    pub(crate) fn singles(self) -> usize {
        self.header(SINGLES).addr()
    }

    /// As the word of another plan's header.
    pub(crate) fn word(self) -> Word {
        self.0.as_ptr().cast_const().cast()
    }

    fn base(self) -> Option<PlanRef> {
        NonNull::new(self.header(BASE).cast_mut().cast()).map(PlanRef)
    }

    fn words(self) -> usize {
        self.header(WORDS).addr()
    }

    fn references(self) -> usize {
        self.header(REFERENCES).addr()
    }

    #[inline]
    fn header(self, at: usize) -> Word {
        debug_assert!(at < HEADER, "{at} is no place of the header");
        // SAFETY: a plan has a header.
        unsafe { *self.0.as_ptr().add(at) }
    }

    fn set_references(self, references: usize) {
        // SAFETY: a plan has a header, and only the thread that owns the pool counts.
        unsafe { *self.0.as_ptr().add(REFERENCES) = number(references) };
    }

    /// What makes plans equal: all but the count of references.
    fn content<'a>(self) -> &'a [Word] {
        // SAFETY: as long as its words say, and not changed after it was made; callers drop the slice before
        // they release the plan.
        unsafe { std::slice::from_raw_parts(self.0.as_ptr().add(1), self.words() - 1) }
    }

    fn bytes(self) -> usize {
        self.words().div_ceil(LINE) * size_of::<Line>()
    }
}

/// The plans of one thread, each kept once.
#[derive(Default)]
pub(crate) struct PlanPool {
    plans: HashTable<PlanRef>,
    hasher: RandomState,
    bytes: usize,
}

impl PlanPool {
    /// The plan for what the planner has gathered, with one reference more.
    pub(crate) fn share(&mut self, planner: &mut Planner) -> PlanRef {
        let base = planner.split().then(|| self.share_words(planner.base()));
        self.share_words(planner.whole(base))
    }

    fn share_words(&mut self, words: &[Word]) -> PlanRef {
        let hash = hash(&self.hasher, &words[1..]);
        if let Some(&plan) = self.plans.find(hash, |plan| plan.content() == &words[1..]) {
            plan.set_references(plan.references() + 1);
            if let Some(base) = plan.base() {
                self.release(base); // the plan that was there has its own reference
            }
            return plan;
        }
        let plan = allocate(words);
        plan.set_references(1);
        self.bytes += plan.bytes();
        let hasher = &self.hasher;
        self.plans
            .insert_unique(hash, plan, |plan| self::hash(hasher, plan.content()));
        plan
    }

    /// Gives back one reference; the last frees the plan, so nobody may be walking it.
    pub(crate) fn release(&mut self, plan: PlanRef) {
        let references = plan.references() - 1;
        plan.set_references(references);
        if references == 0 {
            let hash = hash(&self.hasher, plan.content());
            self.plans
                .find_entry(hash, |&other| other == plan)
                .expect("a plan is in its pool")
                .remove();
            self.bytes -= plan.bytes();
            let base = plan.base();
            free(plan);
            if let Some(base) = base {
                self.release(base); // once: a base has none
            }
        }
    }

    /// Bytes of all plans.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Number of plans.
    pub(crate) fn len(&self) -> usize {
        self.plans.len()
    }
}

impl Drop for PlanPool {
    fn drop(&mut self) {
        self.plans.drain().for_each(free);
    }
}

fn allocate(words: &[Word]) -> PlanRef {
    let line = |words: &[Word]| {
        let mut line = Line([number(0); LINE]);
        line.0[..words.len()].copy_from_slice(words);
        line
    };
    let lines: Box<[Line]> = words.chunks(LINE).map(line).collect();
    PlanRef(NonNull::from(Box::leak(lines)).cast())
}

fn free(plan: PlanRef) {
    let lines = plan.words().div_ceil(LINE);
    let first = plan.0.as_ptr().cast::<Line>();
    // SAFETY: made from a box of so many lines in `allocate`, and not in the pool any more.
    drop(unsafe { Box::from_raw(std::ptr::slice_from_raw_parts_mut(first, lines)) });
}

fn hash(hasher: &RandomState, words: &[Word]) -> u64 {
    hasher.hash_one(words)
}
