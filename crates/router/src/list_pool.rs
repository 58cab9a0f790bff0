//! Equal lists, held once.

use foldhash::fast::RandomState;
use hashbrown::HashTable;
use std::hash::{BuildHasher, Hash};
use std::sync::Arc;

/// Shares equal lists: a hundred thousand topics with the same subscribers then hold one list.
///
/// Lists that only the pool still holds are let go whenever the number of lists has doubled since the last
/// time, so the pool is at most twice as large as what is in use (and 64 lists).
#[derive(Debug, Default)]
pub struct ListPool<T> {
    lists: HashTable<Arc<[T]>>,
    sweep_at: usize,
    hasher: RandomState,
}

const SWEEP_MIN: usize = 64;

impl<T: Copy + Eq + Hash> ListPool<T> {
    /// An empty pool.
    #[must_use]
    pub fn new() -> Self {
        ListPool {
            lists: HashTable::new(),
            sweep_at: SWEEP_MIN,
            hasher: RandomState::default(),
        }
    }

    /// The shared list that equals `list`. Order counts: sort what is a set. Linear in the list.
    pub fn share(&mut self, list: &[T]) -> Arc<[T]> {
        let hash = self.hasher.hash_one(list);
        if let Some(shared) = self.lists.find(hash, |other| &other[..] == list) {
            return Arc::clone(shared);
        }
        if self.lists.len() >= self.sweep_at.max(SWEEP_MIN) {
            self.sweep();
        }
        let shared: Arc<[T]> = Arc::from(list);
        let hasher = &self.hasher;
        self.lists
            .insert_unique(hash, Arc::clone(&shared), |list| hasher.hash_one(&list[..]));
        shared
    }

    /// Lets go of every list that nobody else holds. Linear in the number of lists.
    pub fn sweep(&mut self) {
        self.lists.retain(|list| Arc::strong_count(list) > 1);
        self.sweep_at = 2 * self.lists.len();
    }

    /// Lists that the pool holds.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lists.len()
    }

    /// Whether it holds none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.lists.is_empty()
    }
}
