//! The match: one pass over the nodes whose path agrees with the beginning of the topic.
//!
//! A node is entered from its only parent, so at most once; each entered node puts at most two others on the
//! stack, one level deeper. The stack therefore never holds more than one node a level and one more, and the
//! number of entered nodes at depth `l` is at most `min(2^l, nodes at depth l)`.

use crate::filter::{SplitLevels, split_levels};
use crate::node::{NodeId, ROOT};
use crate::token::{ANY, REST, TokenId, UNKNOWN};
use crate::trie::{Levels, Trie};
use smallvec::SmallVec;
use std::hash::Hash;

/// How many nodes a match has entered: its cost in units of some tens of nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Visited(pub u64);

impl<S: Copy + Eq + Hash> Trie<S> {
    /// Calls `found` with the subscribers of each matching filter, none of them empty, in no order that is
    /// promised.
    #[inline]
    pub(crate) fn for_each_list<'a>(
        &'a self,
        topic: &str,
        mut found: impl FnMut(&'a [S]),
    ) -> Visited {
        let mut names = Names {
            trie: self,
            rest: split_levels(topic),
            known: Levels::new(),
        };
        let mut stack: SmallVec<[(NodeId, u32); 24]> = SmallVec::new();
        stack.push((ROOT, 0));
        let mut visited = 0;
        while let Some((at, depth)) = stack.pop() {
            visited += 1;
            let node = self.nodes.get(at);
            let depth_here = depth as usize;
            let tail_len = node.links.tail_len();
            if tail_len != 0 {
                if names.match_tail(self.tails.get(&node.tail, tail_len), depth_here) {
                    found(self.lists.get(&node.subscribers));
                }
                continue;
            }
            let wildcards = depth != 0 || !topic.starts_with('$');
            if node.links.has_rest() && wildcards {
                visited += 1;
                self.emit(self.nodes.child(at, REST), &mut found);
            }
            let Some(name) = names.get(depth_here) else {
                self.emit(Some(at), &mut found);
                continue;
            };
            if node.links.has_any() && wildcards {
                stack.extend(self.nodes.child(at, ANY).map(|child| (child, depth + 1)));
            }
            if node.links.has_literal() && name != UNKNOWN {
                stack.extend(self.nodes.child(at, name).map(|child| (child, depth + 1)));
            }
        }
        Visited(visited)
    }

    #[inline]
    fn emit<'a>(&'a self, at: Option<NodeId>, found: &mut impl FnMut(&'a [S])) {
        let Some(at) = at else { return };
        let list = self.lists.get(&self.nodes.get(at).subscribers);
        if !list.is_empty() {
            found(list);
        }
    }
}

/// The levels of the topic, numbered no further than the walk has come.
struct Names<'a, S> {
    trie: &'a Trie<S>,
    rest: SplitLevels<'a>,
    known: Levels,
}

impl<S> Names<'_, S> {
    /// The number of the level at `depth`; `None` at the end of the topic.
    #[inline]
    fn get(&mut self, depth: usize) -> Option<TokenId> {
        while self.known.len() <= depth {
            let level = self.rest.next()?;
            self.known.push(self.trie.tokens.find(level));
        }
        Some(self.known[depth])
    }

    fn match_tail(&mut self, tail: &[TokenId], depth: usize) -> bool {
        for (at, &token) in tail.iter().enumerate() {
            if token == REST {
                return true; // the last of the tail: it matches its parent and all below
            }
            match self.get(depth + at) {
                Some(name) if token == ANY || token == name => {}
                _ => return false,
            }
        }
        self.get(depth + tail.len()).is_none()
    }
}
