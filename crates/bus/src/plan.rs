//! What a post does for a key: for each handler type one static call, over the slots of all matching filters.
//!
//! A plan is one block of words, read from front to back:
//!
//! ```text
//! [references][words][singles in all]  then for each type  [walk][to chunks][to end][slot ..][chunk ..]  then [end]
//! ```
//! `walk` is the function made for the handler type; it handles its group and goes on with the function of the next
//! one. After it come the distances in bytes from the group's first word to its chunks and to its end. A type
//! with no chunks and few slots has for each slot a group `[walk_one][slot]` instead, which has no loop.
//! Slots and chunks lie in the order of their addresses, so that equal match lists are equal words, and a
//! thread keeps each plan once however many keys share it.
#![allow(unsafe_code)]

use crate::slot::{Chunk, EXPANDED, SlotHead};
use crate::walk::{End, Walks};
use foldhash::fast::RandomState;
use hashbrown::HashTable;
use std::hash::{BuildHasher, Hash};
use std::ptr::NonNull;

/// Pointers and numbers alike; numbers are pointers without provenance.
pub(crate) type Word = *const ();

const HEADER: usize = 3;
const GROUP_HEADER: usize = 3;
/// So many slots of a type, without chunks, are each a group: the loop's set-up costs more than their jumps.
const ONES: usize = 4;

/// A match that goes into a plan.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Part {
    Slot(*const SlotHead),
    Chunk(*const Chunk),
}

impl Part {
    fn word(self) -> Word {
        match self {
            Part::Slot(slot) => slot.cast(),
            Part::Chunk(chunk) => chunk.cast(),
        }
    }
}

/// Collects the parts of a plan.
pub(crate) struct PlanBuilder {
    /// Type of the handlers, the functions that walk them, the part.
    parts: Vec<(u32, Walks, Part)>,
    words: Vec<Word>,
    end: End,
}

impl PlanBuilder {
    /// A builder of plans that end with `end`.
    pub(crate) fn new(end: End) -> Self {
        PlanBuilder {
            parts: Vec::new(),
            words: Vec::new(),
            end,
        }
    }

    /// Adds all chunks of one list.
    ///
    /// # Safety
    /// `head` is a list of slots of the type that `walks` were made for, and the caller is present.
    pub(crate) unsafe fn add(
        &mut self,
        ty: u32,
        walks: Walks,
        head: Option<NonNull<Chunk>>,
        first_slot: usize,
        size: usize,
    ) {
        let mut next = head;
        while let Some(chunk) = next {
            // SAFETY: chunks of a list that is in the trie are initialised, and the caller is present.
            let header = unsafe { chunk.as_ref() };
            if header.capacity() <= EXPANDED {
                for at in 0..header.len() as usize {
                    let slot = chunk
                        .as_ptr()
                        .cast_const()
                        .wrapping_byte_add(first_slot + at * size)
                        .cast();
                    self.parts.push((ty, walks, Part::Slot(slot)));
                }
            } else {
                self.parts.push((ty, walks, Part::Chunk(chunk.as_ptr())));
            }
            next = header.next();
        }
    }

    /// The words of the plan, in their one order.
    fn finish(&mut self) -> &[Word] {
        self.parts.sort_unstable();
        self.words.clear();
        self.words.extend([number(0), number(0), number(0)]);
        let mut singles_in_all = 0;
        for group in self.parts.chunk_by(|a, b| a.0 == b.0) {
            let singles = group
                .iter()
                .take_while(|(_, _, part)| matches!(part, Part::Slot(_)))
                .count();
            singles_in_all += singles;
            let (_, walks, _) = group[0];
            if singles == group.len() && singles <= ONES {
                self.words.extend(
                    group
                        .iter()
                        .flat_map(|(_, _, part)| [walks.one, part.word()]),
                );
                continue;
            }
            let distance = |words: usize| number((GROUP_HEADER + words) * size_of::<Word>());
            self.words
                .extend([walks.group, distance(singles), distance(group.len())]);
            self.words
                .extend(group.iter().map(|(_, _, part)| part.word()));
        }
        self.words.push(self.end.0);
        self.words[1] = number(self.words.len());
        self.words[2] = number(singles_in_all);
        self.parts.clear();
        &self.words
    }
}

fn number(n: usize) -> Word {
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

    /// Slots that are entered one by one.
    #[inline]
    pub(crate) fn singles(self) -> usize {
        // SAFETY: a plan has a header.
        unsafe { *self.0.as_ptr().add(2) }.addr()
    }

    fn words(self) -> usize {
        // SAFETY: a plan has a header.
        unsafe { *self.0.as_ptr().add(1) }.addr()
    }

    fn references(self) -> usize {
        // SAFETY: a plan has a header.
        unsafe { *self.0.as_ptr() }.addr()
    }

    fn set_references(self, references: usize) {
        // SAFETY: a plan has a header, and only the thread that owns the pool counts.
        unsafe { *self.0.as_ptr() = number(references) };
    }

    /// What makes plans equal: all but the count of references.
    fn content<'a>(self) -> &'a [Word] {
        // SAFETY: as long as its words say, and not changed after it was made; callers drop the slice before
        // they release the plan.
        unsafe { std::slice::from_raw_parts(self.0.as_ptr().add(1), self.words() - 1) }
    }

    fn bytes(self) -> usize {
        self.words() * size_of::<Word>()
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
    /// The plan for what the builder has gathered, with one reference more.
    pub(crate) fn share(&mut self, builder: &mut PlanBuilder) -> PlanRef {
        let words = builder.finish();
        let hash = hash(&self.hasher, &words[1..]);
        if let Some(&plan) = self.plans.find(hash, |plan| plan.content() == &words[1..]) {
            plan.set_references(plan.references() + 1);
            return plan;
        }
        let block: Box<[Word]> = words.into();
        let plan = PlanRef(NonNull::from(Box::leak(block)).cast());
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
            free(plan);
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

fn free(plan: PlanRef) {
    let words = plan.words();
    // SAFETY: made from a box of so many words in `share`, and not in the pool any more.
    drop(unsafe { Box::from_raw(std::ptr::slice_from_raw_parts_mut(plan.0.as_ptr(), words)) });
}

fn hash(hasher: &RandomState, words: &[Word]) -> u64 {
    let mut state = hasher.build_hasher();
    words.hash(&mut state);
    std::hash::Hasher::finish(&state)
}
