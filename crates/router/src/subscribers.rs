//! The subscribers of one filter: mostly one, sometimes a hundred thousand.

use foldhash::fast::RandomState;
use hashbrown::HashTable;
use std::hash::{BuildHasher, Hash};

/// From this length on a list has an index, so that removing stays constant: 10,000 sessions that leave one
/// filter at once must not cost the square of it. Below, a scan of a few cache lines is cheaper and smaller.
const INDEX_FROM: usize = 48;

/// What a node knows of its subscribers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Subscribers<S> {
    None,
    One(S),
    Many(u32),
}

#[derive(Clone)]
struct List<S> {
    items: Vec<S>,
    index: Option<Box<HashTable<u32>>>,
}

#[derive(Clone)]
pub(crate) struct Lists<S> {
    lists: Vec<List<S>>,
    free: Vec<u32>,
    hasher: RandomState,
}

impl<S> Default for Lists<S> {
    fn default() -> Self {
        Lists {
            lists: Vec::new(),
            free: Vec::new(),
            hasher: RandomState::default(),
        }
    }
}

impl<S: Copy + Eq + Hash> Lists<S> {
    #[inline]
    pub(crate) fn get<'a>(&'a self, of: &'a Subscribers<S>) -> &'a [S] {
        match of {
            Subscribers::None => &[],
            Subscribers::One(one) => std::slice::from_ref(one),
            Subscribers::Many(list) => &self.lists[*list as usize].items,
        }
    }

    /// Adds `s`; the equal one that was there before is replaced and returned.
    pub(crate) fn add(&mut self, to: &mut Subscribers<S>, s: S) -> Option<S> {
        match *to {
            Subscribers::None => {
                *to = Subscribers::One(s);
                None
            }
            Subscribers::One(old) if old == s => {
                *to = Subscribers::One(s);
                Some(old)
            }
            Subscribers::One(old) => {
                *to = Subscribers::Many(self.start(old, s));
                None
            }
            Subscribers::Many(list) => self.lists[list as usize].add(s, &self.hasher),
        }
    }

    /// Removes what equals `s`.
    pub(crate) fn remove(&mut self, from: &mut Subscribers<S>, s: &S) -> Option<S> {
        match *from {
            Subscribers::None => None,
            Subscribers::One(one) if one == *s => {
                *from = Subscribers::None;
                Some(one)
            }
            Subscribers::One(_) => None,
            Subscribers::Many(at) => {
                let list = &mut self.lists[at as usize];
                let removed = list.remove(s, &self.hasher)?;
                if let [last] = list.items[..] {
                    list.items = Vec::new();
                    list.index = None;
                    self.free.push(at);
                    *from = Subscribers::One(last);
                }
                Some(removed)
            }
        }
    }

    fn start(&mut self, first: S, second: S) -> u32 {
        let list = List {
            items: vec![first, second],
            index: None,
        };
        if let Some(at) = self.free.pop() {
            self.lists[at as usize] = list;
            return at;
        }
        crate::node::reserve_one(&mut self.lists);
        self.lists.push(list);
        u32::try_from(self.lists.len() - 1).expect("fewer than 2^32 lists fit in memory")
    }
}

impl<S: Copy + Eq + Hash> List<S> {
    fn find(&self, s: &S, hasher: &RandomState) -> Option<usize> {
        match &self.index {
            None => self.items.iter().position(|other| other == s),
            Some(index) => index
                .find(hasher.hash_one(s), |&at| self.items[at as usize] == *s)
                .map(|&at| at as usize),
        }
    }

    fn add(&mut self, s: S, hasher: &RandomState) -> Option<S> {
        if let Some(at) = self.find(&s, hasher) {
            return Some(std::mem::replace(&mut self.items[at], s));
        }
        let at = self.items.len() as u32;
        self.items.push(s);
        let items = &self.items;
        match &mut self.index {
            Some(index) => {
                index.insert_unique(hasher.hash_one(s), at, |&at| {
                    hasher.hash_one(items[at as usize])
                });
            }
            None if items.len() >= INDEX_FROM => {
                let mut index = HashTable::with_capacity(items.len());
                for (at, item) in items.iter().enumerate() {
                    index.insert_unique(hasher.hash_one(item), at as u32, |&at| {
                        hasher.hash_one(items[at as usize])
                    });
                }
                self.index = Some(Box::new(index));
            }
            None => {}
        }
        None
    }

    fn remove(&mut self, s: &S, hasher: &RandomState) -> Option<S> {
        let at = self.find(s, hasher)?;
        let last = self.items.len() - 1;
        if let Some(index) = &mut self.index {
            let gone = hasher.hash_one(self.items[at]);
            index
                .find_entry(gone, |&i| i as usize == at)
                .expect("the index has every item")
                .remove();
            if at != last {
                let moved = hasher.hash_one(self.items[last]);
                *index
                    .find_mut(moved, |&i| i as usize == last)
                    .expect("the index has every item") = at as u32;
            }
            if last < INDEX_FROM / 2 {
                self.index = None;
            }
        }
        let removed = self.items.swap_remove(at);
        if self.items.capacity() > 4 * self.items.len() + 16 {
            self.items.shrink_to(2 * self.items.len());
        }
        Some(removed)
    }
}
