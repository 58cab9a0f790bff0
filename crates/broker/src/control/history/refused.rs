//! The last end of each connection that came with a client id and never got its session.
//!
//! Anybody who can open a socket makes one, with a client id as long as it likes. So none is kept: a client id is known by its hash, under
//! a key of this process, that nobody finds two of the same for, and each costs the same few bytes. They are forgotten after minutes, and
//! all at once when memory is short.

use std::collections::hash_map::RandomState;
use std::collections::{BTreeMap, HashMap};
use std::hash::BuildHasher;

use courser_contract::WallMs;

use super::PastEvent;
use super::past::Past;

/// After so long one is forgotten, in milliseconds.
pub(super) const FORGET_MS: u64 = 600_000;
/// What one takes at most, in both tables as empty as they become by growing.
pub(super) const EACH_BYTES: usize = 224;

/// See the module.
#[derive(Debug)]
pub(super) struct Refused {
    /// How many there may be.
    most: usize,
    keys: RandomState,
    /// By the hash of the client id.
    last: HashMap<u64, (u64, Past)>,
    /// These hashes by the number of the event.
    order: BTreeMap<u64, u64>,
}

impl Refused {
    pub(super) fn new(most: usize) -> Self {
        Self {
            most,
            keys: RandomState::new(),
            last: HashMap::new(),
            order: BTreeMap::new(),
        }
    }

    pub(super) fn note(&mut self, number: u64, event: &PastEvent) {
        let hash = self.keys.hash_one(&*event.client_id);
        if let Some((before, _)) = self.last.insert(hash, (number, Past::of(event))) {
            self.order.remove(&before);
        }
        self.order.insert(number, hash);
        if self.order.len() > self.most {
            self.forget_first();
        }
    }

    /// Forgets what is too old.
    pub(super) fn expire(&mut self, now: WallMs) {
        while let Some((_, hash)) = self.order.first_key_value()
            && let Some((_, past)) = self.last.get(hash)
            && now.0.saturating_sub(past.at.0) >= FORGET_MS
        {
            self.forget_first();
        }
    }

    fn forget_first(&mut self) {
        if let Some((_, hash)) = self.order.pop_first() {
            self.last.remove(&hash);
        }
        if self.order.is_empty() {
            self.clear();
        }
    }

    /// Forgets all, and gives back what they took.
    pub(super) fn clear(&mut self) {
        self.last = HashMap::new();
        self.order = BTreeMap::new();
    }

    /// That of a client id, with its number.
    pub(super) fn of_client(&self, client_id: &str) -> Option<(u64, Past)> {
        self.last.get(&self.keys.hash_one(client_id)).copied()
    }

    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        assert_eq!(self.last.len(), self.order.len(), "each has its place");
        self.last.len() * EACH_BYTES
    }
}

const _: () = assert!(
    // A table of hashes doubles when it is full to 7/8, a node of the order is half full at least.
    EACH_BYTES >= (size_of::<(u64, (u64, Past))>() + 1) * 16 / 7 + size_of::<(u64, u64)>() * 2 + 8
);
