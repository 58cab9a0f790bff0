//! The nodes of the wheel: one slab, and doubly linked lists through it.

use super::slots::{DEADLINE_BITS, NONE, Place};
use std::num::NonZeroU32;

const PLACE_BITS: u32 = 64 - DEADLINE_BITS;
const DEADLINE_MAX: u64 = (1 << DEADLINE_BITS) - 1;

/// Names an armed timer. The key of one that has fired or was cancelled names nothing, also when its place in memory is
/// used again (2^32 - 1 times, then a key kept that long would be mistaken).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct TimerKey {
    index: u32,
    generation: NonZeroU32,
}

/// An armed timer, or a free node.
#[derive(Debug, Clone, Copy)]
struct Node<T> {
    /// The deadline above the code of the place.
    deadline_and_place: u64,
    previous: u32,
    next: u32,
    generation: NonZeroU32,
    value: T,
}

const _: () = assert!(size_of::<Node<u32>>() == 24);

fn pack(deadline: u64, place: Place) -> u64 {
    deadline << PLACE_BITS | u64::from(place.code())
}

/// The slab.
#[derive(Debug)]
pub(super) struct Nodes<T> {
    nodes: Vec<Node<T>>,
    /// First free node, linked by `next`.
    free: u32,
}

impl<T: Copy> Nodes<T> {
    pub(super) fn new() -> Self {
        Self {
            nodes: Vec::new(),
            free: NONE,
        }
    }

    /// A node in no list.
    pub(super) fn allocate(&mut self, deadline: u64, value: T) -> u32 {
        let deadline_and_place = pack(deadline.min(DEADLINE_MAX), Place::FREE);
        if self.free != NONE {
            let index = self.free;
            let node = self.at_mut(index);
            node.deadline_and_place = deadline_and_place;
            node.value = value;
            self.free = node.next;
            return index;
        }
        let index = self.nodes.len() as u32;
        assert!(
            self.nodes.len() < NONE as usize,
            "the index of a timer fits 32 bits"
        );
        let generation = NonZeroU32::MIN;
        self.nodes.push(Node {
            deadline_and_place,
            previous: NONE,
            next: NONE,
            generation,
            value,
        });
        index
    }

    /// Makes a node free that is in no list; its keys name nothing from now on.
    pub(super) fn release(&mut self, index: u32) -> T {
        let free = self.free;
        let node = self.at_mut(index);
        node.generation = node.generation.checked_add(1).unwrap_or(NonZeroU32::MIN);
        node.deadline_and_place = pack(0, Place::FREE);
        node.next = free;
        let value = node.value;
        self.free = index;
        value
    }

    pub(super) fn key(&self, index: u32) -> TimerKey {
        TimerKey {
            index,
            generation: self.at(index).generation,
        }
    }

    /// The armed timer that a key names.
    pub(super) fn find(&self, key: TimerKey) -> Option<u32> {
        let node = self.nodes.get(key.index as usize)?;
        (node.generation == key.generation).then_some(key.index)
    }

    pub(super) fn deadline(&self, index: u32) -> u64 {
        self.at(index).deadline_and_place >> PLACE_BITS
    }

    pub(super) fn place(&self, index: u32) -> Place {
        Place::from_code((self.at(index).deadline_and_place & ((1 << PLACE_BITS) - 1)) as u16)
    }

    pub(super) fn set_deadline(&mut self, index: u32, deadline: u64) {
        let place = self.place(index);
        self.at_mut(index).deadline_and_place = pack(deadline.min(DEADLINE_MAX), place);
    }

    /// Puts a node in front of `head`, the first one of the list `place`.
    pub(super) fn link(&mut self, index: u32, place: Place, head: u32) {
        let deadline = self.deadline(index);
        let node = self.at_mut(index);
        node.deadline_and_place = pack(deadline, place);
        node.previous = NONE;
        node.next = head;
        if head != NONE {
            self.at_mut(head).previous = index;
        }
    }

    /// Takes a node out of its list; returns the one behind it.
    pub(super) fn unlink(&mut self, index: u32) -> u32 {
        let Node { previous, next, .. } = *self.at(index);
        if previous != NONE {
            self.at_mut(previous).next = next;
        }
        if next != NONE {
            self.at_mut(next).previous = previous;
        }
        next
    }

    fn at(&self, index: u32) -> &Node<T> {
        &self.nodes[index as usize]
    }

    fn at_mut(&mut self, index: u32) -> &mut Node<T> {
        &mut self.nodes[index as usize]
    }

    /// The nodes of a list from its head, after comparing the links both ways.
    #[cfg(test)]
    pub(super) fn list(&self, head: u32) -> Vec<u32> {
        let mut list = Vec::new();
        let (mut previous, mut index) = (NONE, head);
        while index != NONE {
            assert_eq!(self.at(index).previous, previous, "links agree both ways");
            assert!(list.len() < self.nodes.len(), "a list has an end");
            list.push(index);
            (previous, index) = (index, self.at(index).next);
        }
        list
    }

    /// How many nodes are free, after comparing the free list with them.
    #[cfg(test)]
    pub(super) fn free_count(&self) -> usize {
        let mut count = 0;
        let mut index = self.free;
        while index != NONE {
            assert_eq!(
                self.place(index),
                Place::FREE,
                "a free node is in no other list"
            );
            count += 1;
            assert!(count <= self.nodes.len(), "the free list has an end");
            index = self.at(index).next;
        }
        count
    }

    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        self.nodes.len()
    }
}
