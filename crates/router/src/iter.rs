//! Walking over everything that is stored.

use crate::node::{NodeId, ROOT};
use crate::trie::Trie;
use std::hash::Hash;

impl<S: Copy + Eq + Hash> Trie<S> {
    /// Calls `found` with each filter and its subscribers, in no order that is promised. The text is built in
    /// one buffer; linear in what is stored.
    pub(crate) fn for_each_filter(&self, mut found: impl FnMut(&str, &[S])) {
        let mut text = String::new();
        let mut path = Vec::new();
        for id in self.nodes.ids().skip(1) {
            let list = self.lists.get(&self.nodes.get(id).subscribers);
            if !list.is_empty() {
                self.spell(id, &mut path, &mut text);
                found(&text, list);
            }
        }
    }

    /// Looks at `count` places from `from` on, and calls `found` with each filter whose subscribers are `wanted`.
    /// Returns where to go on, 0 after the last place. Constant in what is stored.
    pub(crate) fn scan(
        &self,
        from: u32,
        count: u32,
        wanted: impl Fn(&[S]) -> bool,
        mut found: impl FnMut(&str, &[S]),
    ) -> u32 {
        let (mut text, mut path) = (String::new(), Vec::new());
        let end = self.nodes.places().min(from.saturating_add(count));
        for id in (from..end).map(NodeId) {
            let list = self.lists.get(&self.nodes.get(id).subscribers);
            if !list.is_empty() && wanted(list) {
                self.spell(id, &mut path, &mut text);
                found(&text, list);
            }
        }
        if end == self.nodes.places() { 0 } else { end }
    }

    fn spell(&self, mut at: NodeId, path: &mut Vec<NodeId>, text: &mut String) {
        let node = self.nodes.get(at);
        path.clear();
        while at != ROOT {
            path.push(at);
            at = self.nodes.get(at).parent;
        }
        text.clear();
        for (depth, &at) in path.iter().rev().enumerate() {
            if depth != 0 {
                text.push('/');
            }
            text.push_str(self.tokens.text(self.nodes.get(at).token));
        }
        let tail_len = node.links.tail_len();
        if tail_len != 0 {
            for &token in self.tails.get(&node.tail, tail_len) {
                text.push('/');
                text.push_str(self.tokens.text(token));
            }
        }
    }
}
