//! Level texts and their numbers: each distinct text is stored once and compared as a `u32` from there on.
//!
//! Invariants:
//! - a number is handed out for one text at a time, and freed when its last reference is released;
//! - [`ANY`] and [`REST`] stand for the wildcards and are never given to a text, so that the text "+" of an
//!   invalid filter such as `a/#/b` stays a literal.

use compact_str::CompactString;
use foldhash::fast::RandomState;
use hashbrown::HashTable;
use std::hash::BuildHasher;

/// Number of a level text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct TokenId(pub(crate) u32);

/// `+`.
pub(crate) const ANY: TokenId = TokenId(0);
/// `#` as the last level.
pub(crate) const REST: TokenId = TokenId(1);
/// A text that no filter has.
pub(crate) const UNKNOWN: TokenId = TokenId(u32::MAX);
const FIRST: u32 = 2;

#[derive(Clone)]
struct Token {
    text: CompactString,
    references: u32,
}

#[derive(Clone, Default)]
pub(crate) struct Tokens {
    tokens: Vec<Token>,
    free: Vec<u32>,
    by_text: HashTable<u32>,
    /// Bytes of texts that are too long for their places.
    long: usize,
    hasher: RandomState,
}

impl Tokens {
    /// The number of `text`, taking one reference.
    pub(crate) fn acquire(&mut self, text: &str) -> TokenId {
        let hash = self.hasher.hash_one(text);
        let tokens = &mut self.tokens;
        if let Some(&at) = self
            .by_text
            .find(hash, |&at| same(&tokens[at as usize].text, text))
        {
            tokens[at as usize].references += 1;
            return TokenId(at + FIRST);
        }
        let token = Token {
            text: CompactString::new(text),
            references: 1,
        };
        self.long += long(&token.text);
        let at = match self.free.pop() {
            Some(at) => {
                tokens[at as usize] = token;
                at
            }
            None => {
                crate::node::reserve_one(tokens);
                tokens.push(token);
                u32::try_from(tokens.len() - 1)
                    .expect("fewer than 2^32 distinct level texts fit in memory")
            }
        };
        let hasher = &self.hasher;
        self.by_text.insert_unique(hash, at, |&at| {
            hasher.hash_one(tokens[at as usize].text.as_str())
        });
        TokenId(at + FIRST)
    }

    /// Takes one reference more of a number that is in use; `false` if it is not. Wildcards have none.
    pub(crate) fn retain(&mut self, id: TokenId) -> bool {
        if id == ANY || id == REST {
            return true;
        }
        match self.tokens.get_mut((id.0 - FIRST) as usize) {
            Some(token) if token.references != 0 => {
                token.references += 1;
                true
            }
            _ => false,
        }
    }

    /// Gives back one reference. Wildcards have none and are ignored.
    pub(crate) fn release(&mut self, id: TokenId) {
        if id == ANY || id == REST {
            return;
        }
        let at = id.0 - FIRST;
        let token = &mut self.tokens[at as usize];
        token.references -= 1;
        if token.references == 0 {
            let hash = self.hasher.hash_one(token.text.as_str());
            self.long -= long(&token.text);
            token.text = CompactString::default();
            self.by_text
                .find_entry(hash, |&other| other == at)
                .expect("a text in use is in the table")
                .remove();
            self.free.push(at);
        }
    }

    /// The number of `text`, or [`UNKNOWN`].
    #[inline]
    pub(crate) fn find(&self, text: &str) -> TokenId {
        let hash = self.hasher.hash_one(text);
        match self
            .by_text
            .find(hash, |&at| same(&self.tokens[at as usize].text, text))
        {
            Some(&at) => TokenId(at + FIRST),
            None => UNKNOWN,
        }
    }

    /// The text behind a number.
    pub(crate) fn text(&self, id: TokenId) -> &str {
        match id {
            ANY => "+",
            REST => "#",
            TokenId(id) => &self.tokens[(id - FIRST) as usize].text,
        }
    }

    /// Distinct texts in use.
    pub(crate) fn len(&self) -> usize {
        self.tokens.len() - self.free.len()
    }

    /// Bytes of those that have no room in their places.
    pub(crate) fn long(&self) -> usize {
        self.long
    }

    /// Asserts that they are counted; linear, for tests.
    pub(crate) fn check(&self) {
        let counted: usize = self.tokens.iter().map(|token| long(&token.text)).sum();
        assert_eq!(counted, self.long, "long texts are counted");
    }
}

/// Bytes of a text outside of its place.
fn long(text: &CompactString) -> usize {
    if text.is_heap_allocated() {
        text.len()
    } else {
        0
    }
}

/// Whether two texts are equal. Level texts are short, and often copied a moment ago: a vector comparison would have to
/// wait until the copy has reached the cache, which single bytes need not.
#[inline]
fn same(a: &str, b: &str) -> bool {
    const SHORT: usize = 16;
    let (a, b) = (a.as_bytes(), b.as_bytes());
    a.len() == b.len()
        && if a.len() <= SHORT {
            a.iter().zip(b).all(|(a, b)| a == b)
        } else {
            a == b
        }
}
