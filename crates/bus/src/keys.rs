//! The keys of a router: one identity for one text.

use crate::key::{Key, KeyError, Text};
use foldhash::fast::RandomState;
use hashbrown::HashTable;
use std::hash::BuildHasher;
use std::sync::Arc;

#[derive(Default)]
pub(crate) struct Keys {
    by_text: HashTable<(u64, Text)>,
    hasher: RandomState,
    sweep_at: usize,
}

const SWEEP_MIN: usize = 1024;

impl Keys {
    pub(crate) fn get(&mut self, text: &str) -> Result<Key, KeyError> {
        let hash = self.hasher.hash_one(text);
        if let Some((id, text)) = self.by_text.find(hash, |(_, other)| ***other == *text) {
            return Ok(Key::from_parts(*id, Arc::clone(text)));
        }
        let key = Key::new(text)?;
        if self.by_text.len() >= self.sweep_at.max(SWEEP_MIN) {
            // Keys that nobody else holds; doubling keeps the cost of this constant for each new key.
            self.by_text.retain(|(_, text)| Arc::strong_count(text) > 1);
            self.sweep_at = 2 * self.by_text.len();
        }
        let hasher = &self.hasher;
        self.by_text
            .insert_unique(hash, (key.id(), Arc::clone(key.text())), |(_, text)| {
                hasher.hash_one(&***text)
            });
        Ok(key)
    }

    pub(crate) fn live(&self) -> Vec<Key> {
        let live = self
            .by_text
            .iter()
            .filter(|(_, text)| Arc::strong_count(text) > 1);
        live.map(|(id, text)| Key::from_parts(*id, Arc::clone(text)))
            .collect()
    }
}
