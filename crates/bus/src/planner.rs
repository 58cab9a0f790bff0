//! From match lists to the words of plans.
#![allow(unsafe_code)]

use crate::plan::{BASE, HEADER, PlanRef, SINGLES, WORDS, Word, number};
use crate::slot::{Chunk, EXPANDED, SlotHead};
use crate::walk::{GROUP_SIZES, Marks, Walks};
use std::ptr::NonNull;

/// From this many parts on a plan is made of two, if it can be.
const SPLIT_FROM: usize = 16;
/// A list goes into the base if it has at least this many slots ...
const COMMON_MIN: usize = 3;
/// ... and at least one in this many of all that match.
const COMMON_SHARE: usize = 64;

/// Groups that may call each other in turn, each with a frame of its own: some 100 bytes, and what handlers that are inlined
/// keep on the stack. Measured: 8,192 groups of a handler that formats a line took more than 1 MiB.
const PART_MAX: usize = 128;

/// A match that goes into a plan.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
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

#[derive(Clone, Copy)]
struct Item {
    ty: u32,
    walks: &'static Walks,
    part: Part,
    /// Slots of the list that it is of.
    of: usize,
}

/// Collects what a key matches, and makes the words of its plan.
pub(crate) struct Planner {
    items: Vec<Item>,
    /// Slots of all lists.
    slots: usize,
    /// Items that are the key's own; those behind are common. All, if the plan is not split.
    own: usize,
    words: Vec<Word>,
    marks: Marks,
}

impl Planner {
    pub(crate) fn new(marks: Marks) -> Self {
        Planner {
            items: Vec::new(),
            slots: 0,
            own: 0,
            words: Vec::new(),
            marks,
        }
    }

    /// Adds all chunks of one list.
    ///
    /// # Safety
    /// `head` is a list of slots of the type that `walks` were made for, and the caller is present.
    pub(crate) unsafe fn add(
        &mut self,
        ty: u32,
        walks: &'static Walks,
        head: Option<NonNull<Chunk>>,
        first_slot: usize,
        size: usize,
    ) {
        let from = self.items.len();
        let mut of = 0;
        let mut item = |part| {
            let of = 0;
            self.items.push(Item {
                ty,
                walks,
                part,
                of,
            });
        };
        let mut next = head;
        while let Some(chunk) = next {
            // SAFETY: chunks of a list that is in the trie are initialised, and the caller is present.
            let header = unsafe { chunk.as_ref() };
            let len = header.len() as usize;
            of += len;
            if header.capacity() <= EXPANDED {
                let first = chunk
                    .as_ptr()
                    .cast_const()
                    .wrapping_byte_add(first_slot)
                    .cast::<SlotHead>();
                let slots = (0..len).map(|at| first.wrapping_byte_add(at * size));
                // SAFETY: below the length, so it is initialised; chunks live as long as the router.
                let lives = |slot: &*const SlotHead| unsafe { &**slot }.live().is_some();
                slots.filter(lives).for_each(|slot| item(Part::Slot(slot)));
            } else {
                item(Part::Chunk(chunk.as_ptr()));
            }
            next = header.next();
        }
        self.slots += of;
        self.items[from..].iter_mut().for_each(|item| item.of = of);
    }

    /// Brings what was added into the one order of equal plans. `true` if a part of it is common to many keys.
    pub(crate) fn split(&mut self) -> bool {
        let common_from = if self.items.len() < SPLIT_FROM {
            usize::MAX
        } else {
            COMMON_MIN.max(self.slots / COMMON_SHARE)
        };
        let is_common = |item: &Item| item.of >= common_from;
        self.items
            .sort_unstable_by_key(|item| (is_common(item), item.ty, item.part));
        self.own = self.items.partition_point(|item| !is_common(item));
        if self.own == 0 {
            self.own = self.items.len(); // nothing but the common part: that is the plan
        }
        self.own != self.items.len()
    }

    /// The words of the common part.
    pub(crate) fn base(&mut self) -> &[Word] {
        let own = self.own;
        self.begin(None);
        let singles = self.groups(own..self.items.len());
        self.words.push(self.marks.end);
        self.end(singles)
    }

    /// The words of the plan, which goes on with `base`; nothing is gathered after this.
    pub(crate) fn whole(&mut self, base: Option<PlanRef>) -> &[Word] {
        self.begin(base);
        let mut singles = self.groups(0..self.own);
        match base {
            None => self.words.push(self.marks.end),
            Some(base) => {
                singles += base.singles();
                self.words.extend([self.marks.go_on, base.groups().cast()]);
            }
        }
        self.items.clear();
        self.slots = 0;
        self.end(singles)
    }

    fn begin(&mut self, base: Option<PlanRef>) {
        self.words.clear();
        self.words.resize(HEADER, number(0));
        self.words[BASE] = base.map_or(number(0), PlanRef::word);
    }

    fn end(&mut self, singles: usize) -> &[Word] {
        self.words[WORDS] = number(self.words.len());
        self.words[SINGLES] = number(singles);
        &self.words
    }

    /// Groups of a range of items; returns how many slots are entered one by one.
    fn groups(&mut self, items: std::ops::Range<usize>) -> usize {
        let mut in_all = 0;
        let mut groups = Groups::behind(&mut self.words, self.marks);
        for group in self.items[items].chunk_by(|a, b| a.ty == b.ty) {
            let walks = group[0].walks;
            let singles = group.partition_point(|item| matches!(item.part, Part::Slot(_)));
            in_all += singles;
            let (mut singles, chunks) = group.split_at(singles);
            while !singles.is_empty() {
                let size = GROUP_SIZES.partition_point(|&size| size <= singles.len()) - 1;
                let (here, rest) = singles.split_at(GROUP_SIZES[size]);
                groups.add(walks.singles[size], here);
                singles = rest;
            }
            for chunk in chunks.chunks(1) {
                groups.add(walks.chunk, chunk);
            }
        }
        in_all
    }
}

/// Groups that are put behind the words of a plan, and cut into parts where they are many.
struct Groups<'a> {
    words: &'a mut Vec<Word>,
    marks: Marks,
    /// Where the last part begins, and how many groups it has.
    part: usize,
    count: usize,
}

impl<'a> Groups<'a> {
    fn behind(words: &'a mut Vec<Word>, marks: Marks) -> Self {
        Groups {
            part: words.len(),
            words,
            marks,
            count: 0,
        }
    }

    fn add(&mut self, walk: Word, items: &[Item]) {
        if self.count == PART_MAX {
            self.words.push(self.marks.pause);
            let wrapped = number(self.words.len() - self.part);
            self.words
                .splice(self.part..self.part, [self.marks.part, wrapped]);
            (self.part, self.count) = (self.words.len(), 0);
        }
        self.count += 1;
        self.words.push(walk);
        self.words.extend(items.iter().map(|item| item.part.word()));
    }
}

#[cfg(test)]
mod tests;
