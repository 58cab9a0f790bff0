//! The last message of keys for which that was chosen.

use crate::filter::Filter;
use crate::key::{Key, Text};
use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

/// Ordered by text, so that only keys that begin like a filter are looked at.
pub(crate) struct Retained<M>(BTreeMap<ByText, (Key, Arc<M>)>);

/// A key's text as the key of the map, to be found by any text.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct ByText(Text);

impl Borrow<str> for ByText {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl<M> Default for Retained<M> {
    fn default() -> Self {
        Retained(BTreeMap::new())
    }
}

impl<M> Retained<M> {
    pub(crate) fn set(&mut self, key: &Key, message: Arc<M>) -> Option<Arc<M>> {
        self.0
            .insert(ByText(Arc::clone(key.text())), (key.clone(), message))
            .map(|(_, old)| old)
    }

    pub(crate) fn get(&self, key: &Key) -> Option<Arc<M>> {
        self.0
            .get(key.as_str())
            .map(|(_, message)| Arc::clone(message))
    }

    pub(crate) fn clear(&mut self, key: &Key) -> Option<Arc<M>> {
        self.0.remove(key.as_str()).map(|(_, message)| message)
    }

    /// All that a filter matches, ordered by key.
    pub(crate) fn matching(&self, filter: &Filter) -> Vec<(Key, Arc<M>)> {
        let text = filter.as_str();
        // Up to the first wildcard all keys are literally the filter; "a/#" also matches "a", which is before.
        let prefix = text
            .find(['+', '#'])
            .map_or(text, |at| text[..at].trim_end_matches('/'));
        let range = self
            .0
            .range::<str, _>((Bound::Included(prefix), Bound::Unbounded));
        range
            .take_while(|(text, _)| text.0.starts_with(prefix))
            .filter(|(text, _)| filter.matches(&text.0))
            .map(|(_, (key, message))| (key.clone(), Arc::clone(message)))
            .collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}
