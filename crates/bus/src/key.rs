//! Keys: where a message is posted to. Made once, used many times.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

pub use router::TopicError as KeyError;

/// A concrete key such as `entities/user/12345`: tokens separated by `/`, without wildcards.
///
/// Cheap to clone. What a key matches is cached under its identity, so make a key once and keep it: two keys
/// of the same text that were made by [`Key::new`] fill two places in the caches;
/// [`Router::key`](crate::Router::key) gives the same key for the same text. A key may be used with any router.
#[derive(Clone)]
pub struct Key {
    id: u64,
    text: Text,
}

/// Text of a key behind a thin pointer: a key is 16 bytes, which counts for who posts to a hundred thousand of them
/// in turn. A post does not look at it.
pub(crate) type Text = Arc<Box<str>>;

const _: () = assert!(size_of::<Key>() == 16, "four keys a cache line");

/// Identities are below this, so that caches can put something of theirs above them.
pub(crate) const ID_BITS: u32 = 48;

impl Key {
    /// A key from text.
    ///
    /// # Errors
    /// [`KeyError`] if the text has a wildcard, U+0000, is empty or longer than 65,535 bytes: a message
    /// can only be posted to one concrete key.
    pub fn new(text: &str) -> Result<Key, KeyError> {
        router::check_topic(text)?;
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        Ok(Key {
            // After 2^48 keys, years of making a million a second, the new ones have no identity.
            id: if id < 1 << ID_BITS { id } else { 0 },
            text: Arc::new(text.into()),
        })
    }

    /// The whole text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The tokens in order.
    pub fn tokens(&self) -> impl Iterator<Item = &str> {
        self.text.split('/')
    }

    /// The token at a place, the first being 0. Linear in what is before it.
    #[must_use]
    pub fn token(&self, at: usize) -> Option<&str> {
        self.tokens().nth(at)
    }

    /// Never used twice in a process; 0 if there is none, and the key cannot be cached.
    #[inline]
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    pub(crate) fn text(&self) -> &Text {
        &self.text
    }

    pub(crate) fn from_parts(id: u64, text: Text) -> Key {
        Key { id, text }
    }
}

/// Keys are equal when their texts are.
impl PartialEq for Key {
    fn eq(&self, other: &Key) -> bool {
        Arc::ptr_eq(&self.text, &other.text) || self.text == other.text
    }
}

impl Eq for Key {}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.text.hash(state);
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({:?})", self.as_str())
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl std::str::FromStr for Key {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<Key, KeyError> {
        Key::new(text)
    }
}
