//! A topic filter against the ordered topics: does this one match, and if not, which is the next that could?

use smallvec::SmallVec;

use super::SEPARATOR;

/// A level of a filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Level<'a> {
    /// These bytes.
    Literal(&'a [u8]),
    /// `+`: any one level.
    One,
    /// `#`: any levels, and none.
    Many,
}

/// Where a topic is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// The filter matches it.
    Matches,
    /// The filter does not match it, nor anything before the target.
    Before,
    /// The filter does not match it, nor anything behind it.
    Behind,
}

/// A topic filter in levels.
#[derive(Debug)]
pub(super) struct Pattern<'a> {
    levels: SmallVec<[Level<'a>; 16]>,
}

impl<'a> Pattern<'a> {
    /// Splits a filter. Wildcards stand alone in their level (v3 [MQTT-4.7.1-2], v5 [MQTT-4.7.1-1]), so any other `+` or `#`
    /// is a plain byte here.
    pub(super) fn new(filter: &'a str) -> Self {
        let levels = filter
            .split('/')
            .map(|level| match level {
                "+" => Level::One,
                "#" => Level::Many,
                literal => Level::Literal(literal.as_bytes()),
            })
            .collect();
        Self { levels }
    }

    /// Whether there is no wildcard.
    pub(super) fn is_exact(&self) -> bool {
        self.levels
            .iter()
            .all(|level| matches!(level, Level::Literal(_)))
    }

    /// A bound below which nothing matches.
    pub(super) fn first(&self) -> Vec<u8> {
        let mut target = Vec::with_capacity(128);
        self.complete(0, &mut target);
        target
    }

    /// Places a topic's key. With [`Place::Before`], `target` is greater than `key`, and nothing below `target` and from `key`
    /// on matches. Cost: one pass over the key at most.
    pub(super) fn place(&self, key: &[u8], target: &mut Vec<u8>) -> Place {
        let leading_wildcard = !matches!(self.levels[0], Level::Literal(_));
        if leading_wildcard && key.first() == Some(&b'$') {
            target.clear();
            target.push(b'$' + 1);
            return Place::Before;
        }
        // `at` is where the next level of the key begins, one past its end when there is none.
        let mut at = 0;
        let mut last_one = None;
        for (index, &level) in self.levels.iter().enumerate() {
            if level == Level::Many {
                return Place::Matches;
            }
            if at > key.len() {
                restart(target, key);
                self.descend(index, target);
                return Place::Before;
            }
            if let Level::Literal(literal) = level
                && let Some(rest) = key[at..].strip_prefix(literal)
                && rest.first().is_none_or(|&byte| byte == SEPARATOR)
            {
                at += literal.len() + 1;
                continue;
            }
            let end = level_end(key, at);
            match level {
                // Equal ones were passed above.
                Level::Literal(literal) if &key[at..end] < literal => {
                    restart(target, &key[..at]);
                    self.complete(index, target);
                    return Place::Before;
                }
                Level::Literal(_) => return self.pass(key, last_one, target),
                Level::One | Level::Many => last_one = Some((end, index + 1)),
            }
            at = end + 1;
        }
        if at > key.len() {
            Place::Matches
        } else {
            self.pass(key, last_one, target)
        }
    }

    /// Nothing more matches below the key's level that the last `+` stands for: on to the least level behind that one, which
    /// is the same with the lowest byte of a topic added.
    fn pass(&self, key: &[u8], last_one: Option<(usize, usize)>, target: &mut Vec<u8>) -> Place {
        let Some((end, index)) = last_one else {
            return Place::Behind;
        };
        restart(target, &key[..end]);
        target.push(SEPARATOR + 1);
        self.descend(index, target);
        Place::Before
    }

    /// Appends the least levels that match from `index` on.
    fn complete(&self, index: usize, target: &mut Vec<u8>) {
        match self.levels[index] {
            Level::Literal(literal) => target.extend_from_slice(literal),
            Level::One => {}
            Level::Many => return,
        }
        self.descend(index + 1, target);
    }

    /// The same as children of what `target` holds.
    fn descend(&self, index: usize, target: &mut Vec<u8>) {
        for level in &self.levels[index..] {
            match level {
                Level::Literal(literal) => {
                    target.push(SEPARATOR);
                    target.extend_from_slice(literal);
                }
                Level::One => target.push(SEPARATOR),
                Level::Many => return,
            }
        }
    }
}

fn restart(target: &mut Vec<u8>, prefix: &[u8]) {
    target.clear();
    target.extend_from_slice(prefix);
}

fn level_end(key: &[u8], at: usize) -> usize {
    key[at..]
        .iter()
        .position(|&byte| byte == SEPARATOR)
        .map_or(key.len(), |len| at + len)
}
