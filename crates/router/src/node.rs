//! Nodes of the trie and the table that leads from a node to its children.
//!
//! Invariants:
//! - every node but the root is in the table under (parent, token), and counted in its parent's `links`;
//! - a node with a tail has no children, and its subscribers are those of the filter "path + tail".

use crate::subscribers::Subscribers;
use crate::tail::Tail;
use crate::token::{ANY, REST, TokenId};
use foldhash::fast::RandomState;
use hashbrown::HashTable;
use std::hash::BuildHasher;

/// Place of a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct NodeId(pub(crate) u32);

pub(crate) const ROOT: NodeId = NodeId(0);
/// The parent of a place that is not used.
const FREE: NodeId = NodeId(u32::MAX);

/// What hangs below a node, in one word: either a tail of so many levels, or children: two bits for the
/// wildcards, so that a match asks the table only for children that exist, and the number of literal ones.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Links(u32);

const TAIL: u32 = 1 << 31;
const HAS_ANY: u32 = 1 << 30;
const HAS_REST: u32 = 1 << 29;
const COUNT: u32 = HAS_REST - 1;

impl Links {
    pub(crate) fn tail(len: usize) -> Links {
        if len == 0 {
            return Links(0);
        }
        let len = u32::try_from(len).ok().filter(|&len| len <= COUNT);
        Links(TAIL | len.expect("a filter has fewer than 2^29 levels"))
    }

    /// Length of the tail, 0 for none.
    #[inline]
    pub(crate) fn tail_len(self) -> usize {
        if self.0 & TAIL != 0 {
            (self.0 & COUNT) as usize
        } else {
            0
        }
    }

    #[inline]
    pub(crate) fn has_any(self) -> bool {
        self.0 & HAS_ANY != 0
    }

    #[inline]
    pub(crate) fn has_rest(self) -> bool {
        self.0 & HAS_REST != 0
    }

    #[inline]
    pub(crate) fn has_literal(self) -> bool {
        self.0 & TAIL == 0 && self.0 & COUNT != 0
    }

    pub(crate) fn has_children(self) -> bool {
        self.0 & TAIL == 0 && self.0 != 0
    }

    fn add(&mut self, token: TokenId) {
        match token {
            ANY => self.0 |= HAS_ANY,
            REST => self.0 |= HAS_REST,
            _ => self.0 += 1,
        }
    }

    fn sub(&mut self, token: TokenId) {
        match token {
            ANY => self.0 &= !HAS_ANY,
            REST => self.0 &= !HAS_REST,
            _ => self.0 -= 1,
        }
    }
}

#[derive(Clone)]
pub(crate) struct Node<S> {
    pub(crate) parent: NodeId,
    pub(crate) token: TokenId,
    pub(crate) tail: Tail,
    pub(crate) links: Links,
    pub(crate) subscribers: Subscribers<S>,
}

const _: () = assert!(
    size_of::<Node<u32>>() == 24,
    "the memory figure of the crate's documentation"
);

#[derive(Clone)]
pub(crate) struct Nodes<S> {
    nodes: Vec<Node<S>>,
    free: Vec<u32>,
    children: HashTable<u32>,
    hasher: RandomState,
}

impl<S> Default for Nodes<S> {
    fn default() -> Self {
        let root = Node {
            parent: ROOT,
            token: REST,
            tail: Tail::NONE,
            links: Links::default(),
            subscribers: Subscribers::None,
        };
        Nodes {
            nodes: vec![root],
            free: Vec::new(),
            children: HashTable::new(),
            hasher: RandomState::default(),
        }
    }
}

impl<S> Nodes<S> {
    #[inline]
    pub(crate) fn get(&self, id: NodeId) -> &Node<S> {
        &self.nodes[id.0 as usize]
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, id: NodeId) -> &mut Node<S> {
        &mut self.nodes[id.0 as usize]
    }

    #[inline]
    pub(crate) fn child(&self, parent: NodeId, token: TokenId) -> Option<NodeId> {
        let same = |&id: &u32| {
            let node = &self.nodes[id as usize];
            node.parent == parent && node.token == token
        };
        self.children
            .find(hash(&self.hasher, parent, token), same)
            .map(|&id| NodeId(id))
    }

    /// Puts a node below `node.parent`, where no child has its token yet.
    pub(crate) fn add(&mut self, node: Node<S>) -> NodeId {
        let (parent, token) = (node.parent, node.token);
        self.get_mut(parent).links.add(token);
        let id = match self.free.pop() {
            Some(id) => {
                self.nodes[id as usize] = node;
                id
            }
            None => {
                reserve_one(&mut self.nodes);
                self.nodes.push(node);
                u32::try_from(self.nodes.len() - 1).expect("fewer than 2^32 nodes fit in memory")
            }
        };
        if self.children.len() == self.children.capacity() {
            self.grow(id);
        }
        let (nodes, hasher) = (&self.nodes, &self.hasher);
        self.children
            .insert_unique(hash(hasher, parent, token), id, |&id| {
                let node = &nodes[id as usize];
                hash(hasher, node.parent, node.token)
            });
        NodeId(id)
    }

    /// Makes the table larger, with all nodes but `new`. The table could do that by itself, but in its own order,
    /// which is none in memory: each node would be a cache miss.
    #[cold]
    fn grow(&mut self, new: u32) {
        let mut children = HashTable::with_capacity(2 * self.children.len());
        let hash_of = |node: &Node<S>| hash(&self.hasher, node.parent, node.token);
        for (id, node) in (0..).zip(&self.nodes).skip(1) {
            if id != new && node.parent != FREE {
                children.insert_unique(hash_of(node), id, |&id| hash_of(&self.nodes[id as usize]));
            }
        }
        debug_assert_eq!(children.len(), self.children.len(), "every node moves");
        self.children = children;
    }

    /// Takes a node without children out, and says what its parent is.
    pub(crate) fn remove(&mut self, id: NodeId) -> NodeId {
        let (parent, token) = (self.get(id).parent, self.get(id).token);
        let hash = hash(&self.hasher, parent, token);
        self.children
            .find_entry(hash, |&other| other == id.0)
            .expect("a node is in the table")
            .remove();
        self.get_mut(parent).links.sub(token);
        let node = self.get_mut(id);
        node.subscribers = Subscribers::None;
        node.links = Links::default();
        node.parent = FREE;
        self.free.push(id.0);
        parent
    }

    /// Nodes without the root.
    pub(crate) fn len(&self) -> usize {
        self.children.len()
    }

    /// All places, used or not; a free one has no subscribers.
    pub(crate) fn ids(&self) -> impl Iterator<Item = NodeId> + use<S> {
        (0..self.places()).map(NodeId)
    }

    /// Number of places, used or not.
    pub(crate) fn places(&self) -> u32 {
        self.nodes.len() as u32
    }
}

#[inline]
fn hash(hasher: &RandomState, parent: NodeId, token: TokenId) -> u64 {
    hasher.hash_one(u64::from(parent.0) << 32 | u64::from(token.0))
}

/// Room for `more` items, growing by an eighth: doubling would leave half of the largest vectors unused.
pub(crate) fn reserve<T>(vec: &mut Vec<T>, more: usize) {
    if vec.capacity() - vec.len() < more {
        vec.reserve_exact(more.max(vec.len() / 8).max(4));
    }
}

pub(crate) fn reserve_one<T>(vec: &mut Vec<T>) {
    reserve(vec, 1);
}
