//! The trie: filters in, filters out. Matching is in `walk`, iteration in `iter`.
//!
//! Invariants (`check`, run after every operation in tests):
//! - those of `node`;
//! - every node has subscribers, or children;
//! - a text has one reference for each node and each level of a tail that uses it.

use crate::filter::split_levels;
use crate::node::{Links, Node, NodeId, Nodes, ROOT};
use crate::subscribers::{Lists, Subscribers};
use crate::tail::{Tail, Tails};
use crate::token::{ANY, REST, TokenId, Tokens, UNKNOWN};
use smallvec::SmallVec;
use std::hash::Hash;

/// Levels that are kept on the stack; longer filters and topics use the heap once.
pub(crate) const INLINE_LEVELS: usize = 16;

pub(crate) type Levels = SmallVec<[TokenId; INLINE_LEVELS]>;

#[derive(Clone)]
pub(crate) struct Trie<S> {
    pub(crate) tokens: Tokens,
    pub(crate) nodes: Nodes<S>,
    pub(crate) tails: Tails,
    pub(crate) lists: Lists<S>,
    filters: usize,
    subscriptions: usize,
}

impl<S> Default for Trie<S> {
    fn default() -> Self {
        Trie {
            tokens: Tokens::default(),
            nodes: Nodes::default(),
            tails: Tails::default(),
            lists: Lists::default(),
            filters: 0,
            subscriptions: 0,
        }
    }
}

/// Where a filter ends.
enum Place {
    At(NodeId),
    /// So many levels are there, and the last of their nodes has neither a tail nor a child for the next.
    Below(NodeId, usize),
}

/// How far a filter is known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Known {
    pub(crate) node: NodeId,
    /// Levels above the node.
    depth: usize,
    /// The filter ends at the node, or with its tail.
    pub(crate) whole: bool,
}

const NOTHING: Known = Known {
    node: ROOT,
    depth: 0,
    whole: false,
};

impl<S: Copy + Eq + Hash> Trie<S> {
    pub(crate) fn insert(&mut self, filter: &str, s: S) -> Option<S> {
        let levels = parse(filter, |text| self.tokens.acquire(text));
        self.insert_levels(&levels, NOTHING, s)
    }

    /// The numbers of a filter's levels, [`UNKNOWN`] for texts that no filter has, and how far it is known.
    pub(crate) fn locate(&self, filter: &str) -> (Levels, Known) {
        let levels = parse(filter, |text| self.tokens.find(text));
        let known = self.descend(&levels);
        (levels, known)
    }

    /// Inserts a filter that was located since the last change, in this trie or in another one that had the same
    /// changes: numbers of texts and nodes depend on nothing else. Completes the levels.
    pub(crate) fn insert_located(
        &mut self,
        filter: &str,
        levels: &mut Levels,
        known: Known,
        s: S,
    ) -> Option<S> {
        debug_assert_eq!(self.locate(filter).1, known, "both tries are the same");
        self.acquire_located(filter, levels);
        self.insert_levels(levels, known, s)
    }

    /// Takes a reference for each level; nothing is hashed but texts that are new.
    fn acquire_located(&mut self, filter: &str, levels: &mut Levels) {
        for (level, text) in levels.iter_mut().zip(split_levels(filter)) {
            if *level == UNKNOWN || !self.tokens.retain(*level) {
                *level = self.tokens.acquire(text);
            }
            debug_assert_eq!(self.tokens.text(*level), text, "numbers agree");
        }
    }

    /// Inserts a filter for whose levels references were taken, from where it is known on.
    fn insert_levels(&mut self, levels: &[TokenId], known: Known, s: S) -> Option<S> {
        let replaced = match self.place(levels, known) {
            Place::At(node) => {
                levels.iter().for_each(|&token| self.tokens.release(token));
                self.subscribe(node, s)
            }
            Place::Below(parent, depth) => {
                levels[..depth]
                    .iter()
                    .for_each(|&token| self.tokens.release(token));
                let tail = &levels[depth + 1..];
                let node = Node {
                    parent,
                    token: levels[depth],
                    tail: self.tails.store(tail),
                    links: Links::tail(tail.len()),
                    subscribers: Subscribers::One(s),
                };
                self.nodes.add(node);
                self.filters += 1;
                None
            }
        };
        self.subscriptions += usize::from(replaced.is_none());
        replaced
    }

    fn subscribe(&mut self, node: NodeId, s: S) -> Option<S> {
        let subscribers = &mut self.nodes.get_mut(node).subscribers;
        self.filters += usize::from(*subscribers == Subscribers::None);
        self.lists.add(subscribers, s)
    }

    /// Goes as far as the filter is known, turning a tail that ends elsewhere into nodes on the way.
    fn place(&mut self, levels: &[TokenId], known: Known) -> Place {
        let (mut at, mut depth) = (known.node, known.depth);
        loop {
            let node = self.nodes.get(at);
            let tail_len = node.links.tail_len();
            if tail_len != 0 {
                if self.tails.get(&node.tail, tail_len) == &levels[depth..] {
                    return Place::At(at);
                }
                self.split(at, &levels[depth..]);
            }
            if depth == levels.len() {
                return Place::At(at);
            }
            match self.nodes.child(at, levels[depth]) {
                Some(child) => at = child,
                None => return Place::Below(at, depth),
            }
            depth += 1;
        }
    }

    /// Turns the tail of `at` into nodes as far as it agrees with `levels`, and one more, at which both part
    /// (or at which the tail ends). Linear in the tail.
    fn split(&mut self, at: NodeId, levels: &[TokenId]) {
        let node = self.nodes.get(at);
        let (tail, len) = (node.tail, node.links.tail_len());
        let tail_levels: Levels = SmallVec::from_slice(self.tails.get(&tail, len));
        self.tails.free(tail, len);
        let common = tail_levels
            .iter()
            .zip(levels)
            .take_while(|(a, b)| a == b)
            .count();
        let (chain, rest) = tail_levels.split_at(len.min(common + 1));
        let node = self.nodes.get_mut(at);
        node.links = Links::default();
        let mut last = at;
        let subscribers = std::mem::replace(&mut node.subscribers, Subscribers::None);
        for &token in chain {
            let (links, subscribers) = (Links::default(), Subscribers::None);
            last = self.nodes.add(Node {
                parent: last,
                token,
                tail: Tail::NONE,
                links,
                subscribers,
            });
        }
        let tail = self.tails.store(rest);
        let last = self.nodes.get_mut(last);
        (last.tail, last.links, last.subscribers) = (tail, Links::tail(rest.len()), subscribers);
    }

    pub(crate) fn remove(&mut self, filter: &str, s: &S) -> Option<S> {
        let (_, known) = self.locate(filter);
        self.remove_located(known, s)
    }

    /// Like `remove`, of a filter that was located as for `insert_located`.
    pub(crate) fn remove_located(&mut self, known: Known, s: &S) -> Option<S> {
        if !known.whole {
            return None;
        }
        let at = known.node;
        let subscribers = &mut self.nodes.get_mut(at).subscribers;
        let removed = self.lists.remove(subscribers, s)?;
        self.subscriptions -= 1;
        if *subscribers == Subscribers::None {
            self.filters -= 1;
            self.prune(at);
        }
        Some(removed)
    }

    /// Takes out `at` and every node above it that nothing needs any more.
    fn prune(&mut self, mut at: NodeId) {
        while at != ROOT {
            let node = self.nodes.get(at);
            if node.subscribers != Subscribers::None || node.links.has_children() {
                return;
            }
            let (token, tail, len) = (node.token, node.tail, node.links.tail_len());
            if len != 0 {
                let levels: Levels = SmallVec::from_slice(self.tails.get(&tail, len));
                levels.iter().for_each(|&token| self.tokens.release(token));
                self.tails.free(tail, len);
            }
            at = self.nodes.remove(at);
            self.tokens.release(token);
        }
    }

    /// Goes as far as the levels are known.
    fn descend(&self, levels: &[TokenId]) -> Known {
        let mut known = NOTHING;
        loop {
            let node = self.nodes.get(known.node);
            let (rest, tail_len) = (&levels[known.depth..], node.links.tail_len());
            if tail_len != 0 {
                known.whole = self.tails.get(&node.tail, tail_len) == rest;
                return known;
            }
            let Some(&level) = rest.first() else {
                known.whole = true;
                return known;
            };
            match self.nodes.child(known.node, level) {
                Some(child) => known.node = child,
                None => return known,
            }
            known.depth += 1;
        }
    }

    pub(crate) fn subscribers(&self, filter: &str) -> &[S] {
        let (_, known) = self.locate(filter);
        self.subscribers_of(known)
    }

    pub(crate) fn subscribers_of(&self, known: Known) -> &[S] {
        if known.whole {
            self.lists.get(&self.nodes.get(known.node).subscribers)
        } else {
            &[]
        }
    }

    pub(crate) fn filters(&self) -> usize {
        self.filters
    }

    pub(crate) fn subscriptions(&self) -> usize {
        self.subscriptions
    }

    /// Asserts the invariants of the module; linear, for tests.
    pub(crate) fn check(&self) {
        let (mut filters, mut subscriptions, mut nodes) = (0, 0, 0);
        let mut tail_levels = 0;
        for id in self.nodes.ids().skip(1) {
            let node = self.nodes.get(id);
            if node.subscribers == Subscribers::None && !node.links.has_children() {
                continue; // a free place: it must not be reachable, which the count of nodes below shows
            }
            nodes += 1;
            assert_eq!(
                self.nodes.child(node.parent, node.token),
                Some(id),
                "a node is found from its parent"
            );
            let here = self.lists.get(&node.subscribers).len();
            subscriptions += here;
            filters += usize::from(here != 0);
            let tail = node.links.tail_len();
            tail_levels += if tail > 1 { tail } else { 0 };
        }
        assert_eq!(
            nodes,
            self.nodes.len(),
            "every node has subscribers or children"
        );
        assert_eq!(
            (filters, subscriptions),
            (self.filters, self.subscriptions),
            "counters agree with the nodes"
        );
        assert_eq!(tail_levels, self.tails.levels(), "tails are counted");
        self.tokens.check();
        assert!(
            nodes != 0 || self.tokens.len() == 0,
            "an empty trie holds no text"
        );
    }
}

/// Numbers of the levels of a filter; wildcards only where the standard allows them.
fn parse(filter: &str, mut number: impl FnMut(&str) -> TokenId) -> Levels {
    let mut levels = Levels::new();
    let mut texts = split_levels(filter).peekable();
    while let Some(text) = texts.next() {
        levels.push(match text {
            "+" => ANY,
            "#" if texts.peek().is_none() => REST,
            _ => number(text),
        });
    }
    levels
}
