//! Which rules of a role can speak of a topic, without a look at the others.
//!
//! Rules are told apart level by level: a tree in which a literal level leads one way by its hash, and `+`, `%c` and `%u` together another
//! one. It says too much, never too little: whoever asks it holds each rule that it finds against the topic itself. So it knows nothing of
//! clients, and is made once when a role comes into a table. It is no part of what is kept.
//!
//! Invariants (`check`, run in tests for every index that is made):
//! - each rule of the index is of exactly one node
//! - the rules of a node stand in the order of the role
//! - nodes behind a node are ordered by their level, and the one of wildcards is the last

use std::fmt;
use std::hash::{BuildHasher, Hasher};
use std::ops::Range;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::pattern::Step;
use crate::{Effect, Identity, Role, Rule, TopicPattern};

/// So many rules are held against a topic one after the other, rather than told apart further.
const TOGETHER: usize = 4;

/// Level hash of `+` and placeholders; those of literal levels are less.
const WILD: u32 = u32::MAX;

/// Fixed seed: operators write the rules, and levels that meet by their hash cost a look at each other's rules.
type LevelHasher = foldhash::fast::FixedState;

fn hash_of(level: &str) -> u32 {
    let mut hasher = LevelHasher::default().build_hasher();
    hasher.write(level.as_bytes());
    // Of the upper half, so that it is less than `WILD`.
    (hasher.finish() >> 33) as u32
}

/// What is asked of rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// Which match a topic name.
    Matching,
    /// Which cover all of a filter.
    Covering,
    /// Which have a topic in common with a filter.
    Meeting,
}

impl Way {
    /// Whether a pattern does.
    #[inline]
    pub(crate) fn speaks(self, pattern: &TopicPattern, text: &str, who: &Identity) -> bool {
        match self {
            Self::Matching => pattern.matches(text, who),
            Self::Covering => pattern.covers(text, who),
            Self::Meeting => pattern.overlaps(text, who),
        }
    }
}

/// Rules that begin alike.
#[derive(Clone, Copy, Debug)]
struct Node {
    /// Hash of the level that leads here.
    level: u32,
    /// Its rules, as places in [`RuleIndex::rules`]: those that end here, or all that come this way.
    start: u32,
    len: u32,
    /// Nodes behind it.
    first: u32,
    behind: u32,
}

impl Node {
    const fn new(level: u32, start: usize, len: usize) -> Self {
        Self {
            level,
            start: start as u32,
            len: len as u32,
            first: 0,
            behind: 0,
        }
    }

    const fn rules(&self) -> Range<usize> {
        self.start as usize..self.start as usize + self.len as usize
    }
}

/// Index of the rules of a role that have one effect.
#[derive(Clone, Debug, Default)]
pub(crate) struct RuleIndex {
    /// Nodes, the first level first. Empty: there is no rule.
    nodes: Box<[Node]>,
    /// Places of the rules in their role, node by node.
    rules: Box<[u32]>,
}

/// Where a rule goes from a node of this depth: those that end there first, those with a wildcard last.
fn turn(rule: &Rule, depth: usize) -> (u8, u32) {
    match rule.topic.step(depth) {
        Step::End => (0, 0),
        Step::Text(text) => (1, hash_of(text)),
        Step::Wild => (2, WILD),
    }
}

impl RuleIndex {
    /// Of rules of this effect. Cost: some 100 ns a rule.
    fn new(all: &[Rule], effect: Effect) -> Self {
        let places = (0..).zip(all).filter(|(_, rule)| rule.effect == effect);
        let mut rules: Vec<u32> = places.map(|(place, _)| place).collect();
        if rules.is_empty() {
            return Self::default();
        }
        let mut nodes = vec![Node::new(WILD, 0, rules.len())];
        let mut depths = vec![0_usize];
        let mut turns: Vec<((u8, u32), u32)> = Vec::new();
        let mut at = 0;
        while at < nodes.len() {
            let (depth, range) = (depths[at], nodes[at].rules());
            if range.len() > TOGETHER {
                let mut place = range.start;
                let range = &mut rules[range];
                turns.clear();
                turns.extend(range.iter().map(|&it| (turn(&all[it as usize], depth), it)));
                turns.sort_unstable();
                for (to, (_, rule)) in range.iter_mut().zip(&turns) {
                    *to = *rule;
                }
                let first = nodes.len();
                nodes[at].len = 0;
                for group in turns.chunk_by(|(one, _), (other, _)| one == other) {
                    match group[0].0 {
                        (0, _) => nodes[at].len = group.len() as u32,
                        (_, level) => {
                            nodes.push(Node::new(level, place, group.len()));
                            depths.push(depth + 1);
                        }
                    }
                    place += group.len();
                }
                nodes[at].first = first as u32;
                nodes[at].behind = (nodes.len() - first) as u32;
            }
            at += 1;
        }
        Self {
            nodes: nodes.into(),
            rules: rules.into(),
        }
    }

    /// The first of the role's rules that `speaks`, of those that can. Cost: some 10 ns for each node and rule that it comes by.
    #[inline]
    pub(crate) fn first(
        &self,
        way: Way,
        text: &str,
        speaks: impl Fn(usize) -> bool,
    ) -> Option<usize> {
        let root = self.nodes.first()?;
        let mut search = Search {
            index: self,
            way,
            speaks,
            found: u32::MAX,
        };
        search.walk(root, Some(text));
        (search.found != u32::MAX).then_some(search.found as usize)
    }

    /// Bytes that the indexes of a role take at most for a rule.
    pub(crate) const fn bytes_of(levels: usize) -> usize {
        // A node of its own, and its part of those which it shares with at least so many others on the way there.
        size_of::<u32>() + size_of::<Node>() + levels * size_of::<Node>() / (TOGETHER + 1)
    }

    #[cfg(test)]
    pub(crate) fn check(&self, all: &[Rule], effect: Effect) {
        let mut seen: Vec<u32> = Vec::new();
        for node in &self.nodes {
            let rules = &self.rules[node.rules()];
            assert!(rules.is_sorted(), "in the order of the role");
            seen.extend(rules);
            let behind = &self.nodes[node.first as usize..][..node.behind as usize];
            assert!(behind.windows(2).all(|two| two[0].level < two[1].level));
        }
        seen.sort_unstable();
        let expected: Vec<u32> = (0..)
            .zip(all)
            .filter(|(_, rule)| rule.effect == effect)
            .map(|(place, _)| place)
            .collect();
        assert_eq!(seen, expected, "each in one node");
    }
}

/// One walk for one topic or filter.
struct Search<'a, F> {
    index: &'a RuleIndex,
    way: Way,
    speaks: F,
    /// The first rule by now.
    found: u32,
}

impl<F: Fn(usize) -> bool> Search<'_, F> {
    /// Looks at a node, and at those behind it by what is left of the text. It goes as deep as the rules have levels.
    fn walk(&mut self, node: &Node, text: Option<&str>) {
        for &rule in &self.index.rules[node.rules()] {
            if rule >= self.found {
                break;
            }
            if (self.speaks)(rule as usize) {
                self.found = rule;
                break;
            }
        }
        let Some(text) = text.filter(|_| node.behind > 0) else {
            return;
        };
        let behind = &self.index.nodes[node.first as usize..][..node.behind as usize];
        let (level, rest) = match text.split_once('/') {
            Some((level, rest)) => (level, Some(rest)),
            None => (text, None),
        };
        match (self.way, level) {
            (Way::Meeting, "+") => {
                for node in behind {
                    self.walk(node, rest);
                }
            }
            (Way::Meeting, "#") => {
                for node in behind {
                    self.walk(node, Some("#"));
                }
            }
            (Way::Covering, "+") => self.walk_wild(behind, rest),
            // Of what is behind only `+/#` may cover it.
            (Way::Covering, "#") => self.walk_wild(behind, None),
            (Way::Matching | Way::Covering | Way::Meeting, level) => {
                let hash = hash_of(level);
                if let Ok(at) = behind.binary_search_by_key(&hash, |node| node.level) {
                    self.walk(&behind[at], rest);
                }
                self.walk_wild(behind, rest);
            }
        }
    }

    fn walk_wild(&mut self, behind: &[Node], text: Option<&str>) {
        if let Some(node) = behind.last().filter(|node| node.level == WILD) {
            self.walk(node, text);
        }
    }
}

/// A role in a table.
pub(crate) struct Indexed {
    role: Role,
    denying: RuleIndex,
    allowing: RuleIndex,
}

impl Indexed {
    /// The role.
    pub(crate) const fn role(&self) -> &Role {
        &self.role
    }

    /// Its rules of an effect.
    #[inline]
    pub(crate) const fn index(&self, effect: Effect) -> &RuleIndex {
        match effect {
            Effect::Deny => &self.denying,
            Effect::Allow => &self.allowing,
        }
    }
}

impl From<Role> for Indexed {
    fn from(role: Role) -> Self {
        Self {
            denying: RuleIndex::new(&role.rules, Effect::Deny),
            allowing: RuleIndex::new(&role.rules, Effect::Allow),
            role,
        }
    }
}

/// The index follows from the role.
impl PartialEq for Indexed {
    fn eq(&self, other: &Self) -> bool {
        self.role == other.role
    }
}

impl Eq for Indexed {}

impl fmt::Debug for Indexed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.role.fmt(f)
    }
}

impl Serialize for Indexed {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.role.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Indexed {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Role::deserialize(deserializer).map(Self::from)
    }
}

#[cfg(test)]
mod tests;
