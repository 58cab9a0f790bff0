//! Limits of the retained store, kept by the leader when it proposes (M4).

use std::collections::BTreeMap;

use compact_str::CompactString;
use courser_contract::is_own_topic;

use super::{Retained, Usage};

/// How much a partition keeps at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RetainedLimits {
    /// Topics.
    pub(crate) topics: u64,
    /// Bytes of their records.
    pub(crate) bytes: u64,
}

#[derive(Clone, Copy, Debug)]
struct Pending {
    /// Changes of the topic that are proposed and not applied.
    changes: u32,
    /// Bytes of the record after the last of them; none: cleared.
    bytes: Option<u32>,
}

/// What the store will be once all that is proposed has been applied, as a difference to what it is. Changes apply in the order in which they were admitted
/// and cannot fail, so the store never exceeds what was admitted, not even between two of them.
///
/// While the store is less than half full, with every message under way counted as a new topic, messages are only counted
/// (`roomy`): neither the store nor what is under way is looked up. From the first change on for which that does not do, all are
/// looked up until nothing is under way; those that were only counted apply first and are counted in full until then.
///
/// The broker's own values under `$SYS/` count for nothing here and are always admitted.
///
/// Leader's memory: dropped with the leadership (M5). Holds only topics with changes under way.
#[derive(Clone, Debug, Default)]
pub(crate) struct Projection {
    /// Messages under way that were only counted, with their bytes.
    roomy: Usage,
    pending: BTreeMap<CompactString, Pending>,
    topics: i64,
    bytes: i64,
}

impl Projection {
    /// Admits a change of `topic` to a record of `bytes` bytes, or to none; false when the store would exceed its limits. A
    /// change that takes no more room than there was is admitted even when a limit was lowered meanwhile. After true the
    /// change must be proposed, and [`Projection::applied`] be called when it has been applied.
    pub(crate) fn admit<R: Copy + Eq>(
        &mut self,
        store: &Retained<R>,
        limits: RetainedLimits,
        topic: &str,
        bytes: Option<u32>,
    ) -> bool {
        if is_own_topic(topic) {
            return true;
        }
        match bytes {
            Some(bytes) if self.is_roomy(store.usage(), limits, bytes) => {
                self.roomy.topics += 1;
                self.roomy.bytes += u64::from(bytes);
                true
            }
            Some(_) | None => self.admit_looked_up(store, limits, topic, bytes),
        }
    }

    /// Whether one message more may be only counted.
    fn is_roomy(&self, now: Usage, limits: RetainedLimits, bytes: u32) -> bool {
        self.pending.is_empty()
            && now.topics + self.roomy.topics < limits.topics / 2
            && now.bytes + self.roomy.bytes + u64::from(bytes) <= limits.bytes / 2
    }

    fn admit_looked_up<R: Copy + Eq>(
        &mut self,
        store: &Retained<R>,
        limits: RetainedLimits,
        topic: &str,
        bytes: Option<u32>,
    ) -> bool {
        let pending = self.pending.get_mut(topic);
        let before = match &pending {
            Some(pending) => pending.bytes,
            None => store.kept(topic).map(|kept| kept.bytes),
        };
        let more_topics = i64::from(bytes.is_some()) - i64::from(before.is_some());
        let more_bytes = i64::from(bytes.unwrap_or(0)) - i64::from(before.unwrap_or(0));
        let now = store.usage();
        let now_topics = now.topics + self.roomy.topics;
        let now_bytes = now.bytes + self.roomy.bytes;
        let fits = |more: i64, now: u64, projected: i64, limit: u64| {
            more <= 0 || now.saturating_add_signed(projected + more) <= limit
        };
        if !fits(more_topics, now_topics, self.topics, limits.topics)
            || !fits(more_bytes, now_bytes, self.bytes, limits.bytes)
        {
            return false;
        }
        self.topics += more_topics;
        self.bytes += more_bytes;
        match pending {
            Some(pending) => {
                pending.changes += 1;
                pending.bytes = bytes;
            }
            None => {
                let first = Pending { changes: 1, bytes };
                self.pending.insert(topic.into(), first);
            }
        }
        true
    }

    /// The oldest admitted change, to a record of `bytes` bytes of `topic`, was applied: `before` and `after` are the store's
    /// usage around it.
    pub(crate) fn applied(&mut self, topic: &str, bytes: Option<u32>, before: Usage, after: Usage) {
        if is_own_topic(topic) {
            return;
        }
        if self.roomy.topics > 0 {
            self.roomy.topics -= 1;
            self.roomy.bytes -= u64::from(bytes.expect("only messages are only counted"));
            return self.changed_otherwise(topic, before, after);
        }
        self.changed_otherwise(topic, before, after);
        if let Some(pending) = self.pending.get_mut(topic) {
            pending.changes -= 1;
            if pending.changes == 0 {
                self.pending.remove(topic);
            }
        }
    }

    /// A change of `topic` that was not admitted here was applied, such as an expiry: what is still under way for that topic
    /// counts from there.
    pub(crate) fn changed_otherwise(&mut self, topic: &str, before: Usage, after: Usage) {
        if !self.pending.is_empty() && self.pending.contains_key(topic) {
            self.topics -= after.topics as i64 - before.topics as i64;
            self.bytes -= after.bytes as i64 - before.bytes as i64;
        }
    }

    /// Messages under way that were only counted.
    #[cfg(test)]
    pub(crate) const fn roomy_topics(&self) -> u64 {
        self.roomy.topics
    }

    /// Asserts that nothing is projected when nothing is under way.
    pub(crate) fn check(&self) {
        assert!(
            !self.pending.is_empty() || (self.topics, self.bytes) == (0, 0),
            "what is projected is under way"
        );
        assert!(
            self.roomy.topics > 0 || self.roomy.bytes == 0,
            "bytes under way are of messages under way"
        );
    }
}
