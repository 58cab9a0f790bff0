//! Trees that have become empty.

use std::collections::{BTreeMap, BTreeSet};

/// A tree that has had something keeps the memory of its last leaf, eleven entries, until it is dropped.
pub(crate) trait Emptied {
    /// Gives that back if nothing is in it.
    fn give_back_if_empty(&mut self);
}

impl<K, V> Emptied for BTreeMap<K, V> {
    fn give_back_if_empty(&mut self) {
        if self.is_empty() {
            *self = Self::new();
        }
    }
}

impl<T> Emptied for BTreeSet<T> {
    fn give_back_if_empty(&mut self) {
        if self.is_empty() {
            *self = Self::new();
        }
    }
}
