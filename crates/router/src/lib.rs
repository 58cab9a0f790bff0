//! Topic trie and match lists of the broker and of courser-router.
//!
//! Pure data structures: no threads, no clock, no sockets. Four things are offered:
//!
//! - [`Matcher<S>`]: filters to subscriber entries of a small `Copy` type, one owner, no locks. A filter has a
//!   set of subscribers; `S` is a key, or a key with options when its `Eq` and `Hash` look at the key only
//!   (inserting an equal one then replaces the options).
//! - [`SharedMatcher<S>`]: the same for one [`Writer`] and many [`Reader`]s, which take no lock and write only
//!   to a cache line of their own.
//! - [`Epochs`]: a number for each topic that changes whenever what the topic matches may have changed, and
//!   [`TopicCache<V>`], a bounded cache of results that stay valid as long as that number does.
//! - [`ListPool<T>`]: shares equal lists, so that many topics with the same result hold it once.
//!
//! ```
//! use router::{Epochs, Matcher, TopicCache};
//!
//! let mut matcher = Matcher::new();
//! matcher.insert("shop/+/orders", 7u32);
//! matcher.insert("shop/#", 9u32);
//!
//! let mut cache = TopicCache::new(router::CacheLimits::default());
//! let found = cache.get_or_insert_with("shop/12/orders", &matcher, || {
//!     let mut list = Vec::new();
//!     matcher.for_each_match("shop/12/orders", |&s| list.push(s));
//!     list.sort_unstable();
//!     list
//! });
//! assert_eq!(found, &[7, 9]);
//! ```
//!
//! # Rules of matching
//!
//! Levels are separated by `/`; an empty level is a level (v3 [MQTT-4.7.3-4], v5 [MQTT-4.7.3-4]: no
//! normalisation, literal comparison). `+` matches one level, `#` as last level matches the parent and
//! everything below it. A filter that begins with a wildcard does not match a topic that begins with `$`
//! (v3 [MQTT-4.7.2-1], v5 [MQTT-4.7.2-1]). Filters are expected to be valid ([`check_filter`]); nothing panics
//! on others: a level that is not exactly `+`, and `#` anywhere but at the end, are compared literally.
//!
//! # Cost of a match
//!
//! The trie is a tree, so a match enters each of its nodes at most once, and only nodes whose path matches the
//! beginning of the topic. With `N_l` nodes at depth `l` and a topic of `d` levels it visits at most
//! `sum over l in 0..=d of min(2^l, N_l)` nodes ([`Visited`] is that count), each in constant time; what is
//! left of a filter below its last branching is stored as one tail and compared in one pass. There are no more
//! nodes than levels in the stored filters, hence a match is linear in the stored levels whose path agrees with
//! the topic, whatever wildcards the filters have; there is no backtracking. The walk does not recurse.
//!
//! # Memory
//!
//! A node is 24 bytes for a 4-byte `S`, plus about 7 for its place in the table of children; a filter that
//! shares its beginning with others needs one node and 4 bytes for each level of a tail of two or more. Each distinct level
//! text is stored once (32 bytes up to 24 bytes of text, plus 7). So one of a million subscriptions of filters of five levels takes at most 60 bytes
//! where filters share their beginnings, also with wildcards in the middle, and at most 100 where each has a name of its own; in a
//! [`SharedMatcher`] twice as many. `tests/memory.rs` holds that for five shapes of filters.
#![deny(unsafe_code)]

mod cache;
mod epoch;
mod filter;
mod iter;
mod left_right;
mod list_pool;
mod matcher;
mod node;
mod shared;
mod subscribers;
mod tail;
mod token;
mod trie;
mod walk;

pub use cache::{CacheLimits, CacheStats, TopicCache, Weigh};
pub use epoch::{Epoch, Epochs, Stripes};
pub use filter::{FilterError, TopicError, check_filter, check_topic, filter_matches};
pub use list_pool::ListPool;
pub use matcher::{Inserted, Matcher, Parts};
pub use shared::{Busy, Reader, SharedMatcher, Spot, Writer};
pub use walk::Visited;
