//! Names of places, positions and moments. Two of them never mix by accident.

/// What topics of the broker's own values begin with: clients read them and never write them, and they do not age.
const BROKER_TOPICS: &str = "$SYS";

/// Whether a topic is for one of the broker's own values: `$SYS/…`, and `$SYS` itself, which `$SYS/#` matches too.
#[inline]
#[must_use]
pub fn is_own_topic(topic: &str) -> bool {
    // Nearly every topic is decided by its first byte: this is asked for each message.
    topic.as_bytes().first() == Some(&b'$')
        && topic
            .strip_prefix(BROKER_TOPICS)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Number of a shard (a thread) of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ShardId(pub u16);

/// Number of a partition: 0 holds the metadata, durable and relaxed ones follow, the volatile partition of a shard is
/// [`PartitionId::volatile_of`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PartitionId(pub u16);

impl PartitionId {
    const VOLATILE_BASE: u16 = 0xC000;

    /// Partition of domains, users, limits and the map of slots.
    pub const METADATA: Self = Self(0);

    /// The one volatile partition of `shard`.
    #[must_use]
    pub const fn volatile_of(shard: ShardId) -> Self {
        Self(Self::VOLATILE_BASE + shard.0)
    }

    /// The shard whose volatile partition this is; `None` for one with a log.
    #[must_use]
    pub const fn volatile_shard(self) -> Option<ShardId> {
        match self.0.checked_sub(Self::VOLATILE_BASE) {
            Some(shard) => Some(ShardId(shard)),
            None => None,
        }
    }

    /// Whether nothing of it outlives the process (M1).
    #[must_use]
    pub const fn is_volatile(self) -> bool {
        self.0 >= Self::VOLATILE_BASE
    }
}

/// How much of a partition survives, fixed when it is made (M1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// Synced before it is acknowledged.
    Durable,
    /// Written before it is acknowledged, synced within 100 ms.
    Relaxed,
    /// No log; one a shard.
    Volatile,
}

/// Where a front lives. A slot is used again with another generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FrontId {
    /// Shard that owns the socket.
    pub shard: ShardId,
    /// Place in that shard's table of connections.
    pub slot: u32,
    /// Life of that place.
    pub generation: u32,
}

/// A session of one partition, never reused there (M7).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionUid(pub u64);

/// Attachment counter of a client id: each attach raises it, older ones are refused (M24).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch(pub u64);

/// A list of receivers of one partition, never reused by it in the same process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ListNumber(pub u64);

/// Position in a stream: dense, never reused (M17).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Seq(pub u64);

/// Position of an entry in a partition's log, from 1.
#[derive(Default, Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LogIndex(pub u64);

impl LogIndex {
    /// The position behind this one.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

/// Term of a partition's leader, as in the Raft paper.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Term(pub u64);

/// A publish of a front that waits for its acknowledgement (M10); counts up per front.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u32);

/// One start of one shard of a node: what numbers appends (M14).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Origin {
    /// Node in the cluster.
    pub node: u16,
    /// Shard of that node.
    pub shard: ShardId,
    /// Start counter of that node.
    pub start: u32,
}

/// Number of an append of one origin to one partition, from 1 without gaps (M14).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AppendNumber(pub u64);

/// Number of a cut through the publishes to the partitions of one shard (M36): what a shard matches after it has heard of a cut
/// carries its number, what it matched before a lower one. A volatile partition numbers its cuts from 1; 0 is before all of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cut(pub u32);

/// Names a change of the index L1 until it is confirmed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IndexToken(pub u64);

/// Milliseconds of a clock that never goes back and means nothing outside the process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tick(pub u64);

impl Tick {
    /// This moment and `ms` milliseconds.
    #[must_use]
    pub const fn after_ms(self, ms: u64) -> Self {
        Self(self.0.saturating_add(ms))
    }
}

/// Milliseconds since 1970-01-01 UTC, as written into entries (M6).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WallMs(pub u64);

/// The moment that a shell passes in: read once a turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Now {
    /// For timers.
    pub tick: Tick,
    /// For expiry.
    pub wall: WallMs,
}

#[cfg(test)]
mod tests {
    use super::is_own_topic;

    #[test]
    fn the_brokers_own_topics_are_told_from_the_clients() {
        for own in ["$SYS", "$SYS/", "$SYS/broker/version"] {
            assert!(is_own_topic(own), "{own}");
        }
        for other in [
            "",
            "$",
            "$SYSTEM",
            "$SYST/a",
            "$sys/a",
            "$share/g/a",
            "SYS/a",
            "a/$SYS/b",
        ] {
            assert!(!is_own_topic(other), "{other}");
        }
    }
}
