//! The retained messages of the topics whose slot is in this partition (M33), in an order that makes wildcards cheap.
//!
//! # Order
//! Topics are ordered level by level, levels by their bytes: `/` counts as lower than every other byte. So `a`, `a/b`,
//! `a/b/c`, `a b` follow each other, and all that is below a level lies together, directly behind that level itself. This is
//! the topic order of scans and cursors (M34), the same in every partition. It is got by keeping `/` as a zero byte, which no
//! topic may contain (v3 [MQTT-4.7.3-2], v5 [MQTT-4.7.3-2]): keys then compare as plain bytes.
//!
//! # Cost
//! Setting, replacing and clearing is one descent of a B-tree. A topic takes its bytes (none up to 24 of them) and 32 bytes in
//! the tree, 52 with the tree's free places (resident memory of
//! 1,000,000 short topics set in random order). A scan looks at the topics that match, and jumps over what cannot: from a
//! topic that does not match it goes on at the least one behind it that could. Its work is bounded by the caller's budget.
//!
//! # Invariants (`check`)
//! `usage` counts the topics of clients and their bytes, and not the broker's own values, `$SYS` and what is below it, which no client has retained and no limit
//! refuses; no key contains `/`.

mod limits;
mod pattern;

use std::{borrow::Borrow, collections::BTreeMap, ops::Bound};

use compact_str::CompactString;
use courser_contract::is_own_topic;
use smallvec::SmallVec;

pub(crate) use self::limits::{Projection, RetainedLimits};
use self::pattern::{Pattern, Place};
use crate::canonical::{Canonical, write_count, write_str};

/// What a jump of a scan costs in looked-at topics: a descent of the tree against a step to the next key.
pub(crate) const SEEK_VISITS: usize = 8;

/// Topics that are stepped over one by one before a scan jumps.
const STEPS_MAX: usize = 4;

/// Whether a topic comes behind another one in topic order.
pub(crate) fn is_behind(topic: &str, other: &str) -> bool {
    key_of(topic) > key_of(other)
}

/// Stands for `/` in keys.
const SEPARATOR: u8 = 0;

/// Bytes that a key holds without an allocation.
const INLINE_BYTES: usize = size_of::<CompactString>();

/// A topic with zero bytes for `/`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key(CompactString);

impl Key {
    fn topic(&self) -> String {
        self.0.replace('\0', "/")
    }

    fn is_own(&self) -> bool {
        let rest = self.0.strip_prefix("$SYS");
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('\0'))
    }
}

/// Texts are ordered as their bytes are.
impl Borrow<[u8]> for Key {
    fn borrow(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

/// The key of a topic, without allocation for all but very long ones.
fn key_of(topic: &str) -> SmallVec<[u8; 128]> {
    let mut key = SmallVec::from_slice(topic.as_bytes());
    for byte in key.as_mut_slice() {
        *byte = if *byte == b'/' { SEPARATOR } else { *byte };
    }
    key
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Kept<R> {
    record: R,
    bytes: u32,
}

/// Retained messages by topic. `R` is a small handle of a stored record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Retained<R> {
    topics: BTreeMap<Key, Kept<R>>,
    usage: Usage,
}

/// How much is kept for clients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    /// Topics with a retained message.
    pub(crate) topics: u64,
    /// Their records' bytes, as given to [`Retained::set`].
    pub(crate) bytes: u64,
}

/// A question for retained messages.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scan<'a> {
    /// Topic filter, checked by the codec, without share name.
    pub(crate) filter: &'a str,
    /// Only topics behind this one; it need not exist.
    pub(crate) after: Option<&'a str>,
    /// Most topics to find, at least 1.
    pub(crate) limit: usize,
    /// Most topics to look at, a jump counted as [`SEEK_VISITS`]. The scan ends at the first topic that reaches it, so one
    /// topic is looked at in any case and every call gets on.
    pub(crate) visits: usize,
}

/// How a scan ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ScanEnd {
    /// Go on behind this topic; none: that was all. There may turn out to be nothing behind it.
    pub(crate) next: Option<Box<str>>,
    /// Topics looked at, for the turn's budget.
    pub(crate) visits: usize,
}

impl Usage {
    /// The message of a topic, if it had any, is now one of so many bytes, or none.
    fn change(&mut self, topic: &str, before: Option<u32>, after: Option<u32>) {
        if is_own_topic(topic) {
            return;
        }
        self.topics += u64::from(after.is_some());
        self.bytes += u64::from(after.unwrap_or(0));
        self.topics -= u64::from(before.is_some());
        self.bytes -= u64::from(before.unwrap_or(0));
    }
}

impl<R> Default for Retained<R> {
    fn default() -> Self {
        Self {
            topics: BTreeMap::new(),
            usage: Usage::default(),
        }
    }
}

impl<R: Copy + Eq> Retained<R> {
    /// Keeps `record`, whose encoded form has `bytes` bytes, as the message of `topic`; returns the one that it replaces.
    pub(crate) fn set(&mut self, topic: &str, record: R, bytes: u32) -> Option<R> {
        let kept = Kept { record, bytes };
        let before = self.put(&key_of(topic), kept);
        let before_bytes = before.map(|before| before.bytes);
        self.usage.change(topic, before_bytes, Some(bytes));
        before.map(|before| before.record)
    }

    /// One descent for topics that need no allocation; for others a second one when they are new, rather than an allocation
    /// for nothing when they are not.
    fn put(&mut self, key: &[u8], kept: Kept<R>) -> Option<Kept<R>> {
        if key.len() > INLINE_BYTES
            && let Some(place) = self.topics.get_mut(key)
        {
            return Some(std::mem::replace(place, kept));
        }
        let key =
            CompactString::from_utf8(key).expect("a text stays one when ASCII bytes are exchanged");
        self.topics.insert(Key(key), kept)
    }

    /// Forgets the message of `topic` and returns it.
    pub(crate) fn clear(&mut self, topic: &str) -> Option<R> {
        let kept = self.topics.remove(key_of(topic).as_slice())?;
        self.usage.change(topic, Some(kept.bytes), None);
        Some(kept.record)
    }

    /// The message of `topic`.
    pub(crate) fn get(&self, topic: &str) -> Option<R> {
        self.kept(topic).map(|kept| kept.record)
    }

    /// How much is kept for clients.
    pub(crate) const fn usage(&self) -> Usage {
        self.usage
    }

    /// All records in topic order: they are needed.
    pub(crate) fn records(&self) -> impl Iterator<Item = R> + '_ {
        self.topics.values().map(|kept| kept.record)
    }

    /// Topics with their records behind a topic, or all, in topic order.
    pub(crate) fn after(&self, after: Option<&str>) -> impl Iterator<Item = (String, R)> + '_ {
        let after = after.map(key_of);
        let from = after.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        self.topics
            .range::<[u8], _>((from, Bound::Unbounded))
            .map(|(key, kept)| (key.topic(), kept.record))
    }

    /// Puts back a message whose length is said later, by [`Retained::place`]; false: the topic has one.
    pub(crate) fn restore(&mut self, topic: &str, record: R) -> bool {
        let kept = Kept { record, bytes: 0 };
        let before = self.put(&key_of(topic), kept);
        let before_bytes = before.map(|before| before.bytes);
        self.usage.change(topic, before_bytes, Some(0));
        before.is_none()
    }

    /// Gives each message its record and the length of that, in topic order.
    pub(crate) fn place(&mut self, mut record: impl FnMut(R) -> (R, u32)) {
        self.usage.bytes = 0;
        for (key, kept) in &mut self.topics {
            (kept.record, kept.bytes) = record(kept.record);
            if !key.is_own() {
                self.usage.bytes += u64::from(kept.bytes);
            }
        }
    }

    /// Appends the records of the next matching topics to `found`, in topic order. A filter that begins with a wildcard finds
    /// no topic that begins with `$` (v3 [MQTT-4.7.2-1], v5 [MQTT-4.7.2-1]).
    pub(crate) fn scan(&self, scan: &Scan<'_>, found: &mut Vec<R>) -> ScanEnd {
        self.scan_each(scan, |_, record| found.push(record))
    }

    /// The same, each with what gives its topic.
    pub(crate) fn scan_each(
        &self,
        scan: &Scan<'_>,
        mut take: impl FnMut(&dyn Fn() -> String, R),
    ) -> ScanEnd {
        let after = scan.after.map(key_of);
        let pattern = Pattern::new(scan.filter);
        if pattern.is_exact() {
            let key = key_of(scan.filter);
            if after.is_none_or(|after| after < key)
                && let Some(record) = self.get(scan.filter)
            {
                take(&|| scan.filter.to_owned(), record);
            }
            return ScanEnd {
                next: None,
                visits: SEEK_VISITS,
            };
        }
        let mut target = pattern.first();
        let from = match &after {
            Some(after) if after.as_slice() >= target.as_slice() => {
                Bound::Excluded(after.as_slice())
            }
            Some(_) | None => Bound::Included(target.as_slice()),
        };
        let mut range = self.range(from);
        let mut visits = SEEK_VISITS;
        let mut steps = STEPS_MAX;
        let mut last: Option<&Key> = None;
        let (mut found, room) = (0, scan.limit.max(1));
        let stop = |last: Option<&Key>, visits| ScanEnd {
            next: last.map(|key| key.topic().into_boxed_str()),
            visits,
        };
        while let Some((key, kept)) = range.next() {
            let bytes = key.0.as_bytes();
            visits += 1;
            if bytes >= target.as_slice() {
                steps = STEPS_MAX;
                match pattern.place(bytes, &mut target) {
                    Place::Matches if found == room => return stop(last, visits),
                    Place::Matches => {
                        found += 1;
                        take(&|| key.topic(), kept.record);
                    }
                    Place::Before => {}
                    Place::Behind => return stop(None, visits),
                }
            } else {
                steps -= 1;
            }
            last = Some(key);
            if visits >= scan.visits {
                return stop(last, visits);
            }
            if steps == 0 {
                range = self.range(Bound::Included(target.as_slice()));
                visits += SEEK_VISITS;
                steps = STEPS_MAX;
            }
        }
        stop(None, visits)
    }

    /// Appends the canonical bytes; `write` appends what names a record for ever, not its place here.
    pub(crate) fn encode(&self, out: &mut Vec<u8>, mut write: impl FnMut(R, &mut Vec<u8>)) {
        write_count(self.topics.len(), out);
        for (key, kept) in &self.topics {
            write_str(&key.topic(), out);
            kept.bytes.write(out);
            write(kept.record, out);
        }
    }

    /// Asserts the invariants of the module.
    pub(crate) fn check(&self) {
        let mut usage = Usage::default();
        for (_, kept) in self.topics.iter().filter(|(key, _)| !key.is_own()) {
            usage.topics += 1;
            usage.bytes += u64::from(kept.bytes);
        }
        assert_eq!(
            usage, self.usage,
            "retained messages of clients are counted"
        );
        assert!(
            !self.topics.keys().any(|key| key.0.contains('/')),
            "keys are in the form that orders by levels"
        );
    }

    fn kept(&self, topic: &str) -> Option<&Kept<R>> {
        self.topics.get(key_of(topic).as_slice())
    }

    fn range(&self, from: Bound<&[u8]>) -> std::collections::btree_map::Range<'_, Key, Kept<R>> {
        self.topics.range::<[u8], _>((from, Bound::Unbounded))
    }
}

#[cfg(test)]
mod bench;
#[cfg(test)]
mod tests;
