//! For whom the elevator waits: before it leaves the batch in hand, and before it begins again.
//!
//! Somebody who has taken all that was asked for asks for more any moment, most likely for what lies next. Reading on without it
//! means to come back for it, a whole round later; who comes when a round has begun needs another one. So the elevator waits for them,
//! some times as long in all as reading has taken: at the worst everything takes so much longer, and at the best everybody is read for
//! at once.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use courser_contract::PartitionId;

/// So long for a stream whose wants were all delivered: a turn of its shard and the way there and back take about a millisecond,
/// and much more where all cores are busy.
pub(super) const DRY: Duration = Duration::from_millis(50);
/// So long for a partition that has run out of room while the batch in hand has more for it: it gets room when clients have taken
/// and acknowledged what they were sent.
pub(super) const ROOM: Duration = Duration::from_millis(100);
/// So long before a round, if somebody was left behind in the last one.
const BETWEEN: Duration = Duration::from_millis(200);
/// Nanoseconds that a byte that is read is worth: with what is done with it, a disk and a core are busy for some ten. Reading it again
/// is work, waiting is none.
const NANOS_A_BYTE: u64 = 40;
/// What has not been waited is not kept beyond this.
const BUDGET_MAX: Duration = Duration::from_secs(1);
/// There is so much of it at the beginning, and for each round.
const BUDGET_MIN: Duration = Duration::from_millis(100);

/// A stream; none: the room of its partition.
type Who = (PartitionId, Option<u64>);

/// See the module.
#[derive(Debug)]
pub(super) struct Linger {
    /// Until when each is waited for.
    waiting: BTreeMap<Who, Duration>,
    /// Those who were waited for in vain in this round.
    vain: BTreeSet<Who>,
    /// How long may be waited.
    budget: Duration,
    /// Bytes that had been read when it was last counted.
    read_bytes: u64,
    /// Since when it is spent.
    since: Option<Duration>,
    /// Since when nothing is left of the round.
    between: Option<Duration>,
}

impl Default for Linger {
    fn default() -> Self {
        Self {
            waiting: BTreeMap::new(),
            vain: BTreeSet::new(),
            budget: BUDGET_MIN,
            read_bytes: 0,
            since: None,
            between: None,
        }
    }
}

impl Linger {
    /// A stream has got all that was asked for.
    pub(super) fn ran_dry(&mut self, partition: PartitionId, stream: u64, now: Duration) {
        self.wait((partition, Some(stream)), now + DRY);
    }

    /// A partition wants more of what is in hand, and has no room.
    pub(super) fn lacks_room(&mut self, partition: PartitionId, now: Duration) {
        self.wait((partition, None), now + ROOM);
    }

    fn wait(&mut self, who: Who, until: Duration) {
        if !self.vain.contains(&who) {
            self.waiting.entry(who).or_insert(until);
        }
    }

    /// A stream has asked.
    pub(super) fn asked(&mut self, partition: PartitionId, stream: u64) {
        self.waiting.remove(&(partition, Some(stream)));
    }

    /// A partition has room.
    pub(super) fn has_room(&mut self, partition: PartitionId) {
        self.waiting.remove(&(partition, None));
    }

    /// Until when to wait for those who may still come, now that so many bytes have been read in all.
    pub(super) fn until(&mut self, read_bytes: u64, now: Duration) -> Option<Duration> {
        self.count(read_bytes, now);
        let vain = &mut self.vain;
        self.waiting.retain(|who, until| {
            let may_come = *until > now;
            if !may_come {
                vain.insert(*who);
            }
            may_come
        });
        let until = self.waiting.values().max().copied()?;
        self.rest(until, now)
    }

    /// Nothing is left but what the next round gives: until when to wait for those who will want a part of it.
    pub(super) fn before_round(&mut self, now: Duration) -> Option<Duration> {
        // Of nobody it is known that it will want more.
        if self.vain.is_empty() {
            return None;
        }
        let begun = *self.between.get_or_insert(now);
        self.rest(begun + BETWEEN, now)
    }

    fn rest(&mut self, until: Duration, now: Duration) -> Option<Duration> {
        let until = until.min(now + self.budget);
        if until <= now {
            return None;
        }
        self.since = Some(now);
        Some(until)
    }

    /// Reading earns what waiting spends.
    fn count(&mut self, read_bytes: u64, now: Duration) {
        if let Some(since) = self.since.take() {
            self.budget = self.budget.saturating_sub(now.saturating_sub(since));
        }
        let read = read_bytes.saturating_sub(self.read_bytes);
        self.read_bytes = read_bytes;
        let earned = Duration::from_nanos(read.saturating_mul(NANOS_A_BYTE));
        self.budget = (self.budget + earned).min(BUDGET_MAX);
    }

    /// A round begins.
    pub(super) fn begin_round(&mut self) {
        self.vain.clear();
        self.between = None;
        self.budget = self.budget.max(BUDGET_MIN);
    }
}
